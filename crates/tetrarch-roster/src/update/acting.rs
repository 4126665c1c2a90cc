//! The verbs: what a key asks the owner for (spec 06, The three verbs).

#![expect(clippy::wildcard_enum_match_arm, reason = "keys that do nothing are not listed")]

use crossterm::event::KeyCode;
use tetrarch_core::id::AgentId;
use tetrarch_core::request::Op;
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunState;
use tetrarch_core::verb::Wanted;

use super::RosterEffects;
use crate::input::RosterEffect;
use crate::model::{AskedAct, PromptKind, RosterModel, TextPrompt};

/// Why, when nobody says.
pub(super) const NO_REASON: &str = "a human asked";
/// Why nothing is asked for in the past.
const OVER: &str = "nothing was sent: this is the past; t goes back to now";

/// A verb's key: on whoever is selected or looked at.
pub(super) fn verb(model: &mut RosterModel, code: KeyCode, effects: &mut RosterEffects) {
    if is_over(model) {
        return;
    }
    let Some(row) = model.subject() else { return };
    let (id, has_run) = (row.id.clone(), row.run.is_some() && !row.ended);
    let paused = row.state == RunState::PausedByUser.as_str();
    let is_stopped = match Role::of(&id) {
        Role::Global | Role::Host => false,
        Role::Project | Role::Interaction | Role::Specialist | Role::Reviewer | Role::Worker => {
            !row.ended
        }
    };
    if code == KeyCode::Char('x') {
        if is_stopped {
            ask_for(model, PromptKind::Stop(id));
        } else {
            model.say(&format!("{id} has ended, or ends with its process"));
        }
        return;
    }
    if !has_run {
        model.say(&format!("{id} has no run that could take it"));
        return;
    }
    match code {
        KeyCode::Char('s') => ask_for(model, PromptKind::Steer(id)),
        KeyCode::Char('i') => ask_for(model, PromptKind::Interrupt(id)),
        _ => {
            let wanted = if paused { Wanted::Resume } else { Wanted::Pause };
            send_verb(model, id, wanted, effects);
        }
    }
}

/// Begins a text, or a question that a key answers, after which something is asked for.
pub(super) fn ask_for(model: &mut RosterModel, kind: PromptKind) {
    if !is_over(model) {
        type_for(model, kind);
    }
}

/// Whether what is shown is over, so that nothing is asked for; it is said.
pub(super) fn is_over(model: &mut RosterModel) -> bool {
    let is_over = model.past.is_some();
    if is_over {
        model.say(OVER);
    }
    is_over
}

/// Begins a text, or a question that a key answers.
pub(super) fn type_for(model: &mut RosterModel, kind: PromptKind) {
    model.prompt = Some(TextPrompt { kind, text: String::new() });
}

/// Asks for a verb.
pub(super) fn send_verb(
    model: &mut RosterModel,
    agent: AgentId,
    wanted: Wanted,
    effects: &mut RosterEffects,
) {
    let what = format!("{} {agent}", wanted.verb());
    let op = Op::Verb(VerbOp { agent: agent.clone(), wanted });
    send(model, what, Some(agent), op, effects);
}

/// Asks the owner, and keeps that it was asked.
pub(super) fn send(
    model: &mut RosterModel,
    what: String,
    agent: Option<AgentId>,
    op: Op,
    effects: &mut RosterEffects,
) {
    if is_over(model) {
        return;
    }
    model.tickets += 1;
    let ticket = model.tickets;
    model.keep(AskedAct { ticket, what, agent, id: None, outcome: None });
    effects.push(RosterEffect::Operate { ticket, op: Box::new(op) });
}
