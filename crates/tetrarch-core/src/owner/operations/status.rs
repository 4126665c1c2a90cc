//! `agent.status`: where an agent stands, for everybody; what it works on and what that came to so far, for
//! people, those above it and itself.

use serde_json::json;

use crate::brief::Usage;
use crate::error::Refusal;
use crate::fit::Room;
use crate::id::{AgentId, Principal};
use crate::limits::{ANSWER_BYTES_MAX, TEXT_BYTES_MAX};
use crate::mail::OpReply;
use crate::owner::replacing;
use crate::request::Request;
use crate::step::Draft;

/// Bytes of the answer that are not texts.
const FRAME_BYTES: usize = 2 * 1024;
/// The most that JSON makes of one byte of a text: `\u0000`.
const ESCAPED_BYTES: usize = 6;

/// Answers.
///
/// # Errors
/// There is no such agent.
pub(super) fn status(
    draft: &Draft<'_>,
    request: &Request,
    id: &AgentId,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    super::known_agent(draft, id)?;
    let is_itself = request.sender.from == Principal::Agent(id.clone());
    let may_see = is_itself || replacing::authorize(draft, request, id).is_ok();
    let data = may_see.then(|| work(draft, id)).flatten();
    Ok(OpReply { data, ..super::about(draft, id, reply) })
}

/// An agent's work as JSON; none when it has none.
fn work(draft: &Draft<'_>, id: &AgentId) -> Option<String> {
    let agent = draft.agent(id)?;
    let work = agent.work.as_ref()?;
    let run = draft.run_status(work.run)?;
    let assignment = draft.assignment(work.assignment);
    let mut room = Room::of((ANSWER_BYTES_MAX - FRAME_BYTES) / ESCAPED_BYTES);
    let result = run.result.as_ref().map(|result| {
        json!({
            "outcome": result.outcome.as_str(),
            "error": room.text(&result.error, TEXT_BYTES_MAX / 4),
            "deliverable": room.text(&result.deliverable, usize::MAX),
        })
    });
    let Usage { tokens_in, tokens_out, cost_micro, turns } = run.usage;
    let told = json!({
        "liveness": agent.liveness.as_str(),
        "epic": work.epic.to_string(),
        "node": work.node.to_string(),
        "run": work.run.to_string(),
        "state": run.state.as_str(),
        "sinceUnixMs": run.since.0,
        "usage": {"tokensIn": tokens_in, "tokensOut": tokens_out, "costMicro": cost_micro, "turns": turns},
        "assignment": assignment.map(|it| json!({
            "status": it.status.as_str(),
            "attempt": it.attempt,
            "reason": room.text(&it.reason, TEXT_BYTES_MAX / 4),
            "lastActivityUnixMs": it.recovery.last_activity.0,
        })),
        "result": result,
    });
    Some(told.to_string())
}
