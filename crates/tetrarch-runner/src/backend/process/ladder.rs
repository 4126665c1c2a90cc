//! When a program must end and how hard it is pushed (spec 06, The three verbs): a pure machine,
//! told what time it is. Every state has an end: it sends no signal itself.

use std::fmt;
use std::time::Duration;

use tetrarch_core::limits::{DRAIN, KILL_GRACE};
use tetrarch_core::time::Millis;
use tokio::time::Instant;

/// How long a program has for another result when its first was handed back. A model may have to
/// write all of it again; a program that does not know the line waits for nothing.
const CORRECTION: Millis = Millis::from_secs(10 * 60);

/// What is to be done to the program now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillSignal {
    /// TERM to its process group.
    Term,
    /// KILL to all of it.
    Kill,
}

impl fmt::Display for KillSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Term => "TERM",
            Self::Kill => "KILL",
        })
    }
}

/// Why a program was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KillCause {
    /// It was asked to end and did not within the drain.
    Stopped,
    /// Its wall clock ended.
    Wall(Millis),
    /// One turn of it took longer than this.
    Turn(Millis),
    /// It gave its result and stayed.
    Lingered,
    /// It had more processes than this.
    Processes(u64),
    /// It was to be killed.
    Killed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillStage {
    Free,
    Draining { until: Instant },
    Terminated { until: Instant },
    Killed,
}

/// Where a program stands on the kill ladder.
#[derive(Debug)]
pub(super) struct KillLadder {
    rung: KillStage,
    wall: Option<(Instant, Millis)>,
    /// The longest turn.
    turn: Option<Millis>,
    /// When the present turn must be over.
    turn_end: Option<Instant>,
    linger: Option<Instant>,
    kill_grace: Millis,
    stop_reason: Option<String>,
    rotating: bool,
    cause: Option<KillCause>,
    /// Since when it stands still: time that it cannot use does not count.
    still: Option<Instant>,
}

impl KillLadder {
    /// A program that starts now; `wall` is the longest it may run, `turn` the longest of its turns.
    pub(super) fn new(now: Instant, wall: Option<Millis>, turn: Option<Millis>) -> Self {
        Self {
            rung: KillStage::Free,
            wall: wall.map(|wall| (after(now, wall), wall)),
            turn,
            turn_end: None,
            linger: None,
            kill_grace: KILL_GRACE,
            stop_reason: None,
            rotating: false,
            cause: None,
            still: None,
        }
    }

    /// It stands still from now on: its wall clock stands with it.
    pub(super) fn stand_still(&mut self, now: Instant) {
        self.still.get_or_insert(now);
    }

    /// It goes on: what it may still run is what it had left.
    pub(super) fn go_on(&mut self, now: Instant) {
        let Some(since) = self.still.take() else { return };
        let stood = now.saturating_duration_since(since);
        self.wall = self.wall.map(|(end, wall)| (end + stood, wall));
        self.turn_end = self.turn_end.map(|end| end + stood);
        self.linger = self.linger.map(|end| end + stood);
    }

    /// Since when it is in a turn, none between two.
    pub(super) fn in_turn(&mut self, since: Option<Instant>) {
        self.turn_end = since.zip(self.turn).map(|(since, turn)| after(since, turn));
    }

    /// Whether nothing was asked of it yet that ends it.
    pub(super) fn is_free(&self) -> bool {
        self.rung == KillStage::Free
    }

    /// It is asked to stop. A second request can only bring the end nearer.
    pub(super) fn stop(&mut self, now: Instant, drain: Millis, kill_grace: Millis, reason: &str) {
        self.stop_reason.get_or_insert_with(|| reason.to_owned());
        self.drain(now, drain, kill_grace);
    }

    /// It is asked to checkpoint and end.
    pub(super) fn rotate(&mut self, now: Instant, drain: Millis, kill_grace: Millis) {
        self.rotating = true;
        self.drain(now, drain, kill_grace);
    }

    fn drain(&mut self, now: Instant, drain: Millis, kill_grace: Millis) {
        self.kill_grace = kill_grace;
        let end = after(now, drain);
        self.rung = match self.rung {
            KillStage::Free => KillStage::Draining { until: end },
            KillStage::Draining { until } => KillStage::Draining { until: until.min(end) },
            KillStage::Terminated { until } => {
                KillStage::Terminated { until: until.min(after(now, kill_grace)) }
            }
            KillStage::Killed => KillStage::Killed,
        };
    }

    /// It is to be killed.
    pub(super) fn kill(&mut self) -> Option<KillSignal> {
        self.cause = Some(KillCause::Killed);
        self.climb_to_kill()
    }

    /// It has more processes than it may have, which gives them no time to make more.
    pub(super) fn is_crowded(&mut self, most: u64) -> Option<KillSignal> {
        let push = self.climb_to_kill()?;
        self.cause = Some(KillCause::Processes(most));
        Some(push)
    }

    /// It gave a result: it has a while to exit.
    pub(super) fn gave_result(&mut self, now: Instant) {
        self.linger = Some(after(now, DRAIN));
    }

    /// Its result was handed back: it has a while to give another, or to exit.
    pub(super) fn was_handed_back(&mut self, now: Instant) {
        self.linger = Some(after(now, CORRECTION));
    }

    /// It was given a line: after a result it gets a while to react, at least.
    pub(super) fn was_given_a_line(&mut self, now: Instant) {
        self.linger = self.linger.map(|end| end.max(after(now, DRAIN)));
    }

    /// When to look again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let wall = self.wall.map(|(end, _)| end);
        match self.rung {
            KillStage::Free if self.still.is_some() => None,
            KillStage::Free => [wall, self.turn_end, self.linger].into_iter().flatten().min(),
            KillStage::Draining { until } => {
                [wall, self.linger, Some(until)].into_iter().flatten().min()
            }
            KillStage::Terminated { until } => Some(until),
            KillStage::Killed => None,
        }
    }

    /// What is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<KillSignal> {
        match self.rung {
            KillStage::Free if self.still.is_some() => None,
            KillStage::Free | KillStage::Draining { .. } => {
                let cause = self.reason_to_push(now)?;
                self.cause = Some(cause);
                self.rung = KillStage::Terminated { until: after(now, self.kill_grace) };
                Some(KillSignal::Term)
            }
            KillStage::Terminated { until } if until <= now => self.climb_to_kill(),
            KillStage::Terminated { .. } | KillStage::Killed => None,
        }
    }

    /// Why it was pushed, if it was.
    pub(super) fn cause(&self) -> Option<&KillCause> {
        self.cause.as_ref()
    }

    /// Why it was asked to stop, if it was.
    pub(super) fn stop_reason(&self) -> Option<&str> {
        self.stop_reason.as_deref()
    }

    /// Whether its next session is to go on: a stop that comes in between has more to say.
    pub(super) fn is_rotating(&self) -> bool {
        self.rotating && self.stop_reason.is_none()
    }

    fn reason_to_push(&self, now: Instant) -> Option<KillCause> {
        if let KillStage::Draining { until } = self.rung
            && until <= now
        {
            return Some(KillCause::Stopped);
        }
        if self.linger.is_some_and(|end| end <= now) {
            return Some(KillCause::Lingered);
        }
        if let Some((_, wall)) = self.wall.filter(|(end, _)| *end <= now) {
            return Some(KillCause::Wall(wall));
        }
        // What was asked to end has the drain's time for it.
        let over = self.is_free() && self.turn_end.is_some_and(|end| end <= now);
        self.turn.filter(|_| over).map(KillCause::Turn)
    }

    fn climb_to_kill(&mut self) -> Option<KillSignal> {
        let climbed = self.rung != KillStage::Killed;
        self.rung = KillStage::Killed;
        climbed.then_some(KillSignal::Kill)
    }
}

/// `length` later; a length beyond what a clock can hold is as good as a hundred years.
fn after(now: Instant, length: Millis) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    now + Duration::from_millis(length.0).min(CENTURY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn stop_drains_then_terms_then_kills() {
        let start = Instant::now();
        let mut ladder = KillLadder::new(start, None, None);
        assert_eq!(ladder.next_deadline(), None);
        ladder.stop(start, Millis(100), Millis(10), "enough");
        assert_eq!(ladder.next_deadline(), Some(at(start, 100)));
        assert_eq!(ladder.due(at(start, 99)), None);
        assert_eq!(ladder.cause(), None);
        assert_eq!(ladder.due(at(start, 100)), Some(KillSignal::Term));
        assert_eq!(ladder.cause(), Some(&KillCause::Stopped));
        assert_eq!(ladder.next_deadline(), Some(at(start, 110)));
        assert_eq!(ladder.due(at(start, 109)), None);
        assert_eq!(ladder.due(at(start, 110)), Some(KillSignal::Kill));
        assert_eq!(ladder.due(at(start, 999)), None);
        assert_eq!(ladder.next_deadline(), None);
        assert_eq!(ladder.stop_reason(), Some("enough"));
    }

    #[test]
    fn frozen_time_does_not_count() {
        let start = Instant::now();
        let mut ladder = KillLadder::new(start, Some(Millis(50)), None);
        ladder.stand_still(at(start, 20));
        ladder.stand_still(at(start, 30));
        assert_eq!((ladder.next_deadline(), ladder.due(at(start, 60))), (None, None));
        ladder.go_on(at(start, 1020));
        ladder.go_on(at(start, 1030));
        assert_eq!(ladder.next_deadline(), Some(at(start, 1050)));
        assert_eq!(ladder.due(at(start, 1049)), None);
        assert_eq!(ladder.due(at(start, 1050)), Some(KillSignal::Term));
        assert_eq!(ladder.cause(), Some(&KillCause::Wall(Millis(50))));
    }

    #[test]
    fn overlong_turn_ends_the_run() {
        let start = Instant::now();
        let mut ladder = KillLadder::new(start, None, Some(Millis(50)));
        assert_eq!(ladder.next_deadline(), None, "no turn has begun");
        ladder.in_turn(Some(start));
        assert_eq!(
            (ladder.next_deadline(), ladder.due(at(start, 49))),
            (Some(at(start, 50)), None)
        );
        ladder.in_turn(None);
        assert_eq!((ladder.next_deadline(), ladder.due(at(start, 50))), (None, None));
        ladder.in_turn(Some(at(start, 60)));
        ladder.in_turn(Some(at(start, 100)));
        ladder.stand_still(at(start, 120));
        assert_eq!((ladder.next_deadline(), ladder.due(at(start, 200))), (None, None));
        ladder.go_on(at(start, 1120));
        assert_eq!(
            ladder.due(at(start, 1149)),
            None,
            "the later beginning counts, without the pause"
        );
        assert_eq!(ladder.due(at(start, 1150)), Some(KillSignal::Term));
        assert_eq!(ladder.cause(), Some(&KillCause::Turn(Millis(50))));
        assert_eq!(ladder.due(at(start, 1150 + KILL_GRACE.0)), Some(KillSignal::Kill));
    }

    #[test]
    fn turn_bound_is_optional_and_capped_by_the_drain() {
        let start = Instant::now();
        let mut ladder = KillLadder::new(start, None, None);
        ladder.in_turn(Some(start));
        assert_eq!(ladder.next_deadline(), None);
        let mut ladder = KillLadder::new(start, None, Some(Millis(50)));
        ladder.in_turn(Some(start));
        ladder.stop(start, Millis(100), Millis(10), "enough");
        assert_eq!(
            (ladder.next_deadline(), ladder.due(at(start, 99))),
            (Some(at(start, 100)), None)
        );
        assert_eq!(ladder.due(at(start, 100)), Some(KillSignal::Term));
        assert_eq!(ladder.cause(), Some(&KillCause::Stopped));
    }

    #[test]
    fn second_stop_never_extends_the_time() {
        let start = Instant::now();
        let mut ladder = KillLadder::new(start, None, None);
        ladder.stop(start, Millis(100), Millis(10), "first");
        ladder.stop(at(start, 50), Millis(1000), Millis(10), "second");
        assert_eq!(ladder.next_deadline(), Some(at(start, 100)));
        ladder.stop(at(start, 60), Millis(0), Millis(10), "third");
        assert_eq!(ladder.due(at(start, 60)), Some(KillSignal::Term));
        ladder.stop(at(start, 61), Millis(1000), Millis(5), "fourth");
        assert_eq!(ladder.next_deadline(), Some(at(start, 66)));
        assert_eq!(ladder.stop_reason(), Some("first"));
    }

    #[test]
    fn wall_clock_ends_a_draining_run() {
        let start = Instant::now();
        let mut ladder = KillLadder::new(start, Some(Millis(50)), None);
        ladder.stop(start, Millis(1000), Millis(10), "later");
        assert_eq!(ladder.next_deadline(), Some(at(start, 50)));
        assert_eq!(ladder.due(at(start, 50)), Some(KillSignal::Term));
        assert_eq!(ladder.cause(), Some(&KillCause::Wall(Millis(50))));
    }

    #[test]
    fn program_lingering_after_its_result_is_ended() {
        let start = Instant::now();
        let mut ladder = KillLadder::new(start, None, None);
        ladder.was_given_a_line(start);
        assert_eq!(ladder.next_deadline(), None);
        ladder.gave_result(start);
        ladder.was_given_a_line(at(start, 5));
        assert_eq!(ladder.next_deadline(), Some(at(start, DRAIN.0 + 5)));
        assert_eq!(ladder.due(at(start, DRAIN.0 + 5)), Some(KillSignal::Term));
        assert_eq!(ladder.cause(), Some(&KillCause::Lingered));
    }

    #[test]
    fn returned_result_gives_time_for_another() {
        let start = Instant::now();
        let mut ladder = KillLadder::new(start, None, None);
        ladder.was_handed_back(start);
        ladder.was_given_a_line(at(start, 5));
        assert_eq!(ladder.next_deadline(), Some(at(start, CORRECTION.0)));
        ladder.gave_result(at(start, 10));
        assert_eq!(ladder.next_deadline(), Some(at(start, DRAIN.0 + 10)));
        ladder.was_handed_back(at(start, 10));
        assert_eq!(ladder.due(at(start, CORRECTION.0 + 10)), Some(KillSignal::Term));
        assert_eq!(ladder.cause(), Some(&KillCause::Lingered));
    }

    #[test]
    fn kill_is_sent_once_from_every_stage() {
        let start = Instant::now();
        for stopped in [false, true] {
            let mut ladder = KillLadder::new(start, Some(Millis(u64::MAX)), None);
            if stopped {
                ladder.stop(start, Millis(0), Millis(10), "stop");
                assert_eq!(ladder.due(start), Some(KillSignal::Term));
            }
            assert_eq!(ladder.kill(), Some(KillSignal::Kill));
            assert_eq!(ladder.kill(), None);
            assert_eq!(ladder.cause(), Some(&KillCause::Killed));
        }
    }
}
