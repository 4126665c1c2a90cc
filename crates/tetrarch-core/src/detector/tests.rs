//! The failure detector at its boundary: what it says to tell and to do for what it hears and does not hear.

use super::*;
use crate::id::Ulid;
use crate::owner::tests::fleet::{Fleet, create, human, id, po};
use crate::request::Op;
use crate::sweep::Absence;

const W: u64 = 1_000;

fn host() -> HostName {
    HostName::new("h1").unwrap()
}

/// A detector that hears, and watches all of a fleet.
struct Stage {
    detector: FailureDetector,
    heard: u64,
}

impl Stage {
    fn new(fleet: &Fleet) -> Self {
        let windows = Windows::new(Millis(W)).unwrap();
        let mut detector = FailureDetector::new(windows, MassPolicy::default());
        for agent in fleet.records.agents.values() {
            detector.track(agent, Moment(0));
        }
        Self { detector, heard: 0 }
    }

    /// Sweeps at this time, with a canary in each half of a window until then.
    fn sweep(&mut self, at: u64) -> Vec<SweepAction> {
        while self.heard <= at {
            self.detector.canary(Moment(self.heard));
            self.heard += W / 2;
        }
        self.detector.canary(Moment(at));
        self.detector.sweep(Moment(at))
    }

    fn declared(&self) -> usize {
        self.detector.declared().count()
    }
}

fn held(seq: u64) -> Option<LeaseLook> {
    Some(LeaseLook { seq, held: true })
}

fn of_host(silence: Silence) -> SweepAction {
    found(AgentId::Ho(host()), 1, silence)
}

#[test]
fn every_session_but_the_owners_is_watched() {
    let fleet = Fleet::ready();
    assert!(!FailureDetector::watches(fleet.agent(&id("GO"))));
    assert!(FailureDetector::watches(fleet.agent(&id("HO@h1"))));
    assert!(FailureDetector::watches(fleet.agent(&po())));
    let mut unregistered = fleet.agent(&po()).clone();
    unregistered.session = None;
    assert!(!FailureDetector::watches(&unregistered));
}

#[test]
fn silent_host_is_lost_when_its_lease_was_taken() {
    let mut stage = Stage::new(&Fleet::ready());
    assert_eq!(stage.sweep(W - 1), []);
    let look = SweepAction::Look(host(), Millis(0));
    assert_eq!(stage.sweep(W + 1), [look, of_host(Silence::Begun { missed: 1 })]);
    assert_eq!(stage.detector.looked(host(), held(7), Moment(W + 1)), None);
    assert_eq!(stage.declared(), 0);
    let declared = stage.sweep(3 * W + 1);
    assert!(matches!(declared[..], [SweepAction::Look(_, after)] if after > Millis(0)));
    assert_eq!(stage.declared(), 1, "and nobody is told yet");
    let take = stage.detector.looked(host(), held(7), Moment(4 * W));
    assert_eq!(take, Some(SweepAction::Take(host(), 7)));
    let lost = stage.detector.taken(host(), true, Moment(4 * W));
    assert_eq!(lost, Some(of_host(Silence::Long { missed: 3 })));
    assert_eq!((stage.declared(), stage.sweep(9 * W)), (0, Vec::new()));
}

#[test]
fn host_whose_lease_moved_has_three_windows_more() {
    for (look, taken) in [(held(8), None), (None, None), (held(7), Some(false))] {
        let mut stage = Stage::new(&Fleet::ready());
        stage.sweep(W + 1);
        stage.detector.looked(host(), held(7), Moment(W + 1));
        stage.sweep(3 * W + 1);
        let action = stage.detector.looked(host(), look, Moment(4 * W));
        assert_eq!(action.is_some(), taken.is_some(), "{look:?}");
        if let Some(taken) = taken {
            assert_eq!(stage.detector.taken(host(), taken, Moment(4 * W)), None);
        }
        assert_eq!(stage.declared(), 0);
        stage.sweep(7 * W - 1);
        assert_eq!(stage.declared(), 0, "{look:?}");
        stage.sweep(7 * W + 1);
        assert_eq!(stage.declared(), 1, "{look:?}");
    }
}

#[test]
fn renewal_ends_a_silence() {
    let mut stage = Stage::new(&Fleet::ready());
    stage.sweep(W + 1);
    let (agent, nobody) = (po(), HostName::new("h9").unwrap());
    let named = [(&agent, 1)];
    assert_eq!(stage.detector.renewed(&nobody, 1, named, Moment(W + 2)), None);
    assert_eq!(stage.detector.renewed(&host(), 1, named, Moment(W + 2)), Some(Vec::new()));
    assert_eq!(stage.sweep(W + 3), [of_host(Silence::Broken)]);
    assert_eq!(stage.sweep(2 * W), []);
    let look = SweepAction::Look(host(), Millis(0));
    let begun = of_host(Silence::Begun { missed: 1 });
    assert_eq!(stage.sweep(2 * W + 3), [look, begun], "what was seen before counts no more");
}

#[test]
fn session_that_its_host_does_not_name_is_absent() {
    let fleet = Fleet::ready();
    let mut ending = fleet.agent(&po()).clone();
    ending.liveness = Liveness::Offline;
    for over in [false, true] {
        let mut stage = Stage::new(&fleet);
        let named = [(&po(), 1)];
        stage.detector.renewed(&host(), 1, named, Moment(10));
        if over {
            stage.detector.track(&ending, Moment(10));
        }
        let mut told = Vec::new();
        for at in [W, 2 * W, 3 * W, 3 * W + 10] {
            stage.sweep(at);
            told.extend(stage.detector.renewed(&host(), 0, [], Moment(at)).unwrap());
        }
        let absent = found(po(), 1, Silence::Absent(Absence::Dropped));
        let expected = if over { Vec::new() } else { vec![absent] };
        assert_eq!(told, expected, "its end is known: {over}");
    }
}

#[test]
fn external_agent_is_heard_once_and_lost_without_a_lease() {
    let mut fleet = Fleet::new();
    fleet.op(&human(), Op::ProjectCreate(create(true)));
    let session = fleet.op(&po().into(), Op::AgentRegister).session;
    let beat = (1, session);
    let heard = [SweepAction::Heard(Input::Heard { agent: po(), epoch: 1, session })];
    let unknown = Stage::new(&Fleet::new()).detector.beat(po(), beat, Moment(0));
    assert_eq!(unknown, heard, "the owner tells it what is wrong");
    let mut stage = Stage::new(&fleet);
    assert_eq!(stage.detector.beat(po(), beat, Moment(0)), heard, "its first");
    fleet.one(Input::Heard { agent: po(), epoch: 1, session });
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Active);
    let mut stage = Stage::new(&fleet);
    assert_eq!(stage.detector.beat(po(), beat, Moment(1)), [], "it is known");
    let other = (1, Some(SessionId(Ulid(6))));
    assert_eq!(stage.detector.beat(po(), other, Moment(2)).len(), 1);
    assert_eq!(stage.detector.beat(po(), other, Moment(3)), [], "it was told in this window");
    assert_eq!(stage.sweep(W + 2), [found(po(), 1, Silence::Begun { missed: 1 })]);
    assert_eq!(stage.sweep(3 * W + 2), [found(po(), 1, Silence::Long { missed: 3 })]);
    assert_eq!(stage.declared(), 0);
}

#[test]
fn lease_is_revoked_of_the_life_that_was_ordered() {
    let stage = Stage::new(&Fleet::ready());
    assert_eq!(stage.detector.revoke(host(), 1), Some(SweepAction::Revoke(host(), 1)));
    assert_eq!(stage.detector.revoke(host(), 2), None);
    assert_eq!(stage.detector.revoke(HostName::new("h9").unwrap(), 1), None);
}

#[test]
fn deaf_detector_declares_nobody() {
    let mut stage = Stage::new(&Fleet::ready());
    stage.detector.canary(Moment(0));
    assert_eq!(stage.detector.sweep(Moment(9 * W)), []);
    stage.heard = 9 * W;
    assert_eq!(stage.sweep(9 * W + 1), [], "what it did not hear counts from now");
    assert_eq!(stage.sweep(10 * W - 1), []);
    assert_eq!(stage.sweep(10 * W + 1).len(), 2);
}
