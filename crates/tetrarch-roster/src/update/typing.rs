//! What is typed, and what becomes of it. A question that a key answers takes that key alone, which is another one
//! than the key that asked.

#![expect(clippy::wildcard_enum_match_arm, reason = "keys that do nothing are not listed")]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tetrarch_core::plan::proposal::DraftVerdict;
use tetrarch_core::request::planning::PlanOp;
use tetrarch_core::request::{GateOp, GateVerdict, Op};
use tetrarch_core::verb::Wanted;

use super::acting::{NO_REASON, send, send_verb};
use super::{RosterEffects, commanding, travelling};
use crate::model::{PromptKind, RosterModel, TextPrompt};

/// Characters that can be typed: less than an instruction may have.
const TYPED_MAX: usize = 4_000;

/// The key that confirms; none where a text is typed and sent.
#[must_use]
pub(crate) fn confirmed_by(kind: &PromptKind) -> Option<char> {
    match kind {
        PromptKind::Stop(_) => Some('y'),
        PromptKind::Approve(..) | PromptKind::Merge(_) | PromptKind::ApproveDraft(..) => Some('Y'),
        PromptKind::Filter
        | PromptKind::Steer(_)
        | PromptKind::Interrupt(_)
        | PromptKind::Answer(_)
        | PromptKind::Deny(_)
        | PromptKind::Reject(..)
        | PromptKind::Moment
        | PromptKind::Command => None,
    }
}

/// A key while something is typed.
pub(super) fn press(model: &mut RosterModel, key: KeyEvent, effects: &mut RosterEffects) {
    let Some(mut prompt) = model.prompt.take() else { return };
    if let Some(wanted) = confirmed_by(&prompt.kind) {
        // Any other key is a no.
        if key.code == KeyCode::Char(wanted) {
            match super::deciding::unread(model, &prompt.kind) {
                Some(why) => model.say(why),
                None => perform(model, prompt, effects),
            }
        }
        return;
    }
    match key.code {
        KeyCode::Esc if prompt.kind == PromptKind::Filter => {
            model.wish.filter.clear();
            return model.list();
        }
        KeyCode::Esc => return,
        KeyCode::Enter => return perform(model, prompt, effects),
        KeyCode::Backspace => drop(prompt.text.pop()),
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => prompt.text.clear(),
        KeyCode::Char(typed) if !key.modifiers.contains(KeyModifiers::CONTROL) => {
            add(&mut prompt.text, &typed.to_string());
        }
        _ => {}
    }
    keep(model, prompt);
}

/// Text that was pasted: one line of it, since Enter sends.
pub(super) fn paste(model: &mut RosterModel, text: &str) {
    let Some(mut prompt) = model.prompt.take() else { return };
    if confirmed_by(&prompt.kind).is_none() {
        add(&mut prompt.text, &text.replace(['\r', '\n'], " "));
    }
    model.changed = true;
    keep(model, prompt);
}

fn add(text: &mut String, more: &str) {
    let room = TYPED_MAX.saturating_sub(text.chars().count());
    text.extend(more.chars().filter(|c| !c.is_control()).take(room));
}

/// Goes on typing; what is filtered is shown at once.
fn keep(model: &mut RosterModel, prompt: TextPrompt) {
    if prompt.kind == PromptKind::Filter {
        model.wish.filter.clone_from(&prompt.text);
        model.list();
    }
    model.prompt = Some(prompt);
}

fn perform(model: &mut RosterModel, prompt: TextPrompt, effects: &mut RosterEffects) {
    let TextPrompt { kind, text } = prompt;
    let text = text.trim().to_owned();
    let reason = || if text.is_empty() { NO_REASON.to_owned() } else { text.clone() };
    let (what, agent, op) = match kind {
        PromptKind::Filter => return,
        PromptKind::Steer(_) | PromptKind::Answer(_) | PromptKind::Moment | PromptKind::Command
            if text.is_empty() =>
        {
            return;
        }
        PromptKind::Command => return commanding::run(model, text, effects),
        PromptKind::Moment => return travelling::go(model, text, effects),
        PromptKind::Deny(_) | PromptKind::Reject(..) if text.is_empty() => {
            return model.say("nothing was sent: a no needs a reason");
        }
        PromptKind::Steer(agent) => {
            return send_verb(model, agent, Wanted::Steer { text }, effects);
        }
        PromptKind::Interrupt(agent) => {
            return send_verb(model, agent, Wanted::Interrupt { reason: reason() }, effects);
        }
        PromptKind::Stop(agent) => {
            let op = Op::AgentRetire { agent: agent.clone(), reason: reason() };
            (format!("stop {agent}"), Some(agent), op)
        }
        PromptKind::Answer(question) => {
            (format!("answer {question}"), None, Op::QuestionAnswer { question, text })
        }
        PromptKind::Approve(change, digest) => {
            let verdict = GateVerdict::Approve { digest };
            let op = GateOp::Decide { change, verdict, reason: String::new() };
            (format!("approve {change}"), None, Op::Gate(op))
        }
        PromptKind::Merge(change) => {
            (format!("merge {change}"), None, Op::Gate(GateOp::Apply { change }))
        }
        PromptKind::Deny(change) => {
            let op = GateOp::Decide { change, verdict: GateVerdict::Deny, reason: text };
            (format!("deny {change}"), None, Op::Gate(op))
        }
        PromptKind::ApproveDraft(epic, draft) => {
            let verdict = DraftVerdict::Approve;
            let op = PlanOp::Decide { epic, draft, verdict, reason: String::new() };
            (format!("approve {draft}"), None, Op::Plan(op))
        }
        PromptKind::Reject(epic, draft) => {
            let op = PlanOp::Decide { epic, draft, verdict: DraftVerdict::Reject, reason: text };
            (format!("reject {draft}"), None, Op::Plan(op))
        }
    };
    send(model, what, agent, op, effects);
}
