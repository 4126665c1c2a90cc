//! What silence means (spec 04, The sweeper): a session that missed windows is stale, one that
//! missed three is offline, one that its living host does not name is ended first. What is found is
//! committed here; who is silent is for the sweeper to find out, and that a silent host really
//! ended for the shell, which takes its lease.

use crate::agent::{Agent, Hosting};
use crate::id::{AgentId, Principal, SessionId};
use crate::intensity::FailureCause;
use crate::ledger::EventKind;
use crate::liveness::Liveness;
use crate::mail::{Alert, MailBody, SessionOrder};
use crate::records::Records;
use crate::step::{Draft, Step};
use crate::sweep::Absence;
use crate::time::BusTime;

use super::{Policy, Silence, ending, recovery, sessions};

/// Decides on what the sweeper found of a session, if it still is the agent's current one.
pub(super) fn swept(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &AgentId,
    epoch: u64,
    found: Silence,
) {
    let Some(agent) = draft.agent(id).filter(|agent| agent.epoch == epoch).cloned() else { return };
    match found {
        Silence::Broken => {
            if agent.liveness == Liveness::Stale {
                sessions::move_session(draft, id, Liveness::Active, "it is heard of again");
            }
        }
        Silence::Begun { missed } => {
            if agent.liveness == Liveness::Active {
                let why = format!("{missed} windows missed");
                sessions::move_session(draft, id, Liveness::Stale, &why);
            }
        }
        Silence::Long { missed } => lost(draft, id, agent.hosting, missed),
        Silence::Absent(absence) => absent(draft, policy, &agent, absence),
    }
}

/// A session that its living host does not have: it is ended to be sure, and goes on in its next
/// one. Only what did come to the host and did not come up is the session's own failure.
fn absent(draft: &mut Draft<'_>, policy: &Policy, agent: &Agent, absence: Absence) {
    let (cause, why) = match (absence, agent.liveness) {
        (Absence::NeverNamed, Liveness::Register) => {
            (FailureCause::HostLost, "its host did not begin to start it")
        }
        (Absence::NotUp, Liveness::Register) => (FailureCause::Hung, "it did not come up"),
        (Absence::Dropped, Liveness::Register | Liveness::Active | Liveness::Stale) => {
            (FailureCause::HostLost, "its host has lost it")
        }
        // It came up, or its end is known.
        (
            Absence::NeverNamed | Absence::NotUp,
            Liveness::Active | Liveness::Stale | Liveness::Offline | Liveness::Terminated,
        )
        | (Absence::Dropped, Liveness::Offline | Liveness::Terminated) => return,
    };
    ending::replace_when_gone(draft, policy, &agent.id, cause, why);
}

/// A session that is not coming back. What a host ran goes on elsewhere; an external agent has to
/// register again.
fn lost(draft: &mut Draft<'_>, id: &AgentId, hosting: Hosting, missed: u64) {
    let AgentId::Ho(host) = id else {
        // One that has not registered yet is waited for.
        let registered = draft.agent(id).is_some_and(|agent| agent.session.is_some());
        if hosting == Hosting::External && registered {
            recovery::strand(draft, id, &format!("{missed} windows missed"));
        }
        return;
    };
    let why = format!("{missed} windows missed, and its lease was taken from it");
    sessions::move_session(draft, id, Liveness::Stale, &why);
    if sessions::move_session(draft, id, Liveness::Offline, &why) {
        draft.event(EventKind::HostLeft, "04 Hosts", why).agent = Some(id.clone());
        recovery::recover_host(draft, host, &format!("{host} was lost"));
    }
}

/// So many are silent at once that it may be the sweeper that is deaf: nobody is declared, people
/// are told.
pub(super) fn mass_silence(draft: &mut Draft<'_>, silent: u64, active: u64) {
    let text =
        format!("{silent} of {active} are silent at once; nobody is declared offline for a window");
    sessions::alert(draft, &AgentId::Go, Alert::MassSilence, "04 The sweeper", &text);
}

/// A sign of life: the first of a session makes it active, one that is not the current session's is
/// answered.
pub(super) fn heard(
    records: &Records,
    now: BusTime,
    id: &AgentId,
    (epoch, session): (u64, Option<SessionId>),
) -> Step {
    let mut draft = Draft::new(records, now, Principal::Agent(id.clone()));
    let Some(agent) = records.agents.get(id) else { return draft.finish() };
    let fits = session.is_none_or(|session| agent.session == Some(session));
    if agent.epoch != epoch || !fits {
        let reason = if fits {
            format!("epoch {epoch} is not current; the current epoch is {}", agent.epoch)
        } else {
            format!("epoch {epoch} is another session's")
        };
        let order = SessionOrder { agent: id.clone(), session, epoch, host_epoch: 0, reason };
        draft.mail(Principal::Agent(id.clone()), None, MailBody::Superseded(order));
        return draft.finish();
    }
    sessions::first_heartbeat(&mut draft, id);
    draft.finish()
}
