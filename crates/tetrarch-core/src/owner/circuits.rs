//! Restart intensity (spec 04): a parent whose children die too often starts no more of them until
//! somebody has looked. Only failures that are the child's own count.

use crate::agent::Agent;
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, Principal};
use crate::intensity::{Intensity, Trip};
use crate::ledger::{EventKind, Record};
use crate::limits::FINDINGS_BYTES_MAX;
use crate::mail::{Alert, MailBody};
use crate::step::Draft;

use super::sessions;
use crate::fit::Room;

const RULE: &str = "04 Restart intensity";

/// Charges a failure of an agent to its task and its parent; says whether it may go on at once. GO has no
/// circuit. What else runs below the parent runs on.
pub(super) fn charge(
    draft: &mut Draft<'_>,
    intensity: Intensity,
    child: &Agent,
    cause: &str,
) -> bool {
    let now = draft.now;
    let of_task = charge_task(draft, child);
    let parent = child.parent.as_ref().and_then(|parent| draft.agent(parent)).cloned();
    let Some(mut parent) = parent.filter(|parent| parent.id != AgentId::Go) else { return true };
    let kept = Room::of(FINDINGS_BYTES_MAX).text(cause, usize::MAX);
    let trip = if of_task {
        parent.circuit.open(now, &kept)
    } else {
        parent.circuit.note(now, intensity, &kept)
    };
    draft.put(Record::Agent(Box::new(parent.clone())));
    match trip {
        Trip::Borne => true,
        Trip::WasOpen => false,
        Trip::Opened => {
            let why = if of_task { "of one task" } else { "of its children" };
            let text = format!(
                "{} had too many failures {why}, the last of {}: {cause}; nothing is \
                 started below it until `tetrarch circuit close {}`",
                parent.id, child.id, parent.id
            );
            sessions::alert(draft, &parent.id, Alert::CircuitOpen, RULE, &text);
            if let Some(above) = parent.parent.clone().filter(|above| *above != AgentId::Go) {
                let body = MailBody::Alert { alert: Alert::CircuitOpen, text };
                draft.mail(Principal::Agent(above), None, body);
            }
            false
        }
    }
}

/// Whether one task failed too often.
fn charge_task(draft: &mut Draft<'_>, child: &Agent) -> bool {
    let Some(work) = &child.work else { return false };
    let Some(mut state) = draft.node_state(work.epic, work.node).cloned() else { return false };
    let tripped = state.failures.note(draft.now, Intensity::OF_TASK);
    draft.put(Record::NodeState(work.epic, Box::new(state)));
    tripped
}

/// Whether an agent waits until the circuit above it is closed.
pub(super) fn holds(draft: &Draft<'_>, child: &Agent) -> bool {
    let parent = child.parent.as_ref().and_then(|parent| draft.agent(parent));
    parent.is_some_and(|parent| parent.circuit.is_open())
}

/// Closes a circuit: counting begins anew.
///
/// # Errors
/// There is no such agent, or its circuit is not open.
pub(super) fn close(draft: &mut Draft<'_>, id: &AgentId) -> Result<(), Refusal> {
    let Some(mut agent) = draft.agent(id).cloned() else {
        return Err(Refusal::new(
            ErrorCode::NotFound,
            format!("agent {id} was not found; `tetrarch agent list` lists all"),
        ));
    };
    if !agent.circuit.is_open() {
        return Err(Refusal::new(ErrorCode::Conflict, format!("the circuit of {id} is not open")));
    }
    agent.circuit.close();
    draft.put(Record::Agent(Box::new(agent)));
    // Whoever was refused asks again at once, and not when its patience allows.
    let text = "your circuit is closed: agents are started below you again".to_owned();
    draft.mail(Principal::Agent(id.clone()), None, MailBody::Info { text });
    let event = draft.event(EventKind::CircuitClosed, RULE, "closed by hand");
    event.agent = Some(id.clone());
    Ok(())
}
