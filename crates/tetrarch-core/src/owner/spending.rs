//! What agents say of their grants while they spend them (spec 06, Budgets): draws ahead, and that most
//! is used.

use crate::budget::{Counter, Spend};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, Principal};
use crate::ledger::{EventKind, Record};
use crate::mail::{Alert, MailBody, OpReply};
use crate::role::Role;
use crate::step::Draft;

use super::{ok_reply, sessions};

const RULE: &str = "06 Budgets";
/// What the answer to a draw is called.
pub(crate) const DRAW: &str = "budget.draw";

/// Draws an agent's own spending ahead, as far as it is free, and tells it what is drawn now.
///
/// # Errors
/// Its role never has children: all of its grant is drawn.
pub(super) fn draw(draft: &mut Draft<'_>, id: &AgentId, total: Spend) -> Result<(), Refusal> {
    if !Role::of(id).draws() {
        let detail =
            format!("a {} cannot have children; its whole grant is drawn at launch", Role::of(id));
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    let Some(mut agent) = draft.agent(id).cloned() else { return Ok(()) };
    let before = agent.account.drawn;
    agent.account.draw(total);
    let drawn = agent.account.drawn;
    let epic = agent.work.as_ref().map(|work| work.epic);
    if drawn != before {
        draft.put(Record::Agent(Box::new(agent)));
        let Spend { tokens, cost_micro, turns } = drawn;
        let text = format!(
            "drew {tokens} tokens, {cost_micro} millionths of a dollar, {turns} turns in all"
        );
        draft.event(EventKind::Budget, RULE, text).agent = Some(id.clone());
    }
    let data = serde_json::json!({
        "tokens": drawn.tokens, "costMicro": drawn.cost_micro, "turns": drawn.turns,
    });
    let reply = OpReply { data: Some(data.to_string()), ..ok_reply(DRAW) };
    draft.mail(Principal::Agent(id.clone()), epic, MailBody::Reply(reply));
    Ok(())
}

/// What the answer to a draw says is drawn; none when it is another answer.
pub(crate) fn drawn(reply: &OpReply) -> Option<Spend> {
    if reply.op != DRAW {
        return None;
    }
    let data: serde_json::Value = serde_json::from_str(reply.data.as_deref()?).ok()?;
    let amount = |name: &str| data.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
    Some(Spend {
        tokens: amount("tokens"),
        cost_micro: amount("costMicro"),
        turns: amount("turns"),
    })
}

/// Tells an agent's parent, the parent's parent and people that most of a counter is used.
pub(super) fn warn(draft: &mut Draft<'_>, id: &AgentId, counter: Counter, used: u64, limit: u64) {
    let unit = match counter {
        Counter::Tokens => "tokens",
        Counter::CostMicro => "millionths of a dollar",
        Counter::Turns => "turns",
    };
    let text = format!("{id} has used {used} of its {limit} {unit}");
    sessions::alert(draft, id, Alert::BudgetWarning, RULE, &text);
    let above = |draft: &Draft<'_>, id: &AgentId| draft.agent(id).and_then(|it| it.parent.clone());
    let parent = above(draft, id);
    let grandparent = parent.as_ref().and_then(|parent| above(draft, parent));
    for to in parent.into_iter().chain(grandparent).filter(|to| *to != AgentId::Go) {
        let body = MailBody::Alert { alert: Alert::BudgetWarning, text: text.clone() };
        draft.mail(Principal::Agent(to), None, body);
    }
}
