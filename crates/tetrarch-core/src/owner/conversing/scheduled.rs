//! Turns that nobody waits for (spec 07, Lanes): those that schedules begin, and whom the answer of a background turn is
//! told.

use crate::brief::Outcome;
use crate::conversation::lane::TurnLane;
use crate::conversation::{Turn, TurnStatus};
use crate::error::{ErrorCode, Refusal};
use crate::id::{HumanName, Principal};
use crate::mail::MailBody;
use crate::request::conversations::TurnSay;
use crate::schedule::{Schedule, ScheduledTurn};
use crate::step::Draft;

use super::{check_text, new_turn, open_turns, take_in};

/// Refuses a turn that could not begin now.
///
/// # Errors
/// Its owner has no conversations, or what the turn names is not there or is another in its conversation.
pub(in crate::owner) fn may_begin(
    draft: &Draft<'_>,
    owner: &Principal,
    turn: &ScheduledTurn,
) -> Result<(), Refusal> {
    check_text(&turn.text)?;
    new_turn(draft, person(owner)?, 0, &said(turn)).map(drop)
}

/// Begins the turn of a schedule that is due; says which it is. It never answers what a turn asks.
///
/// # Errors
/// The lane is full, or the turn could not be given any more.
pub(in crate::owner) fn begin_scheduled(
    draft: &mut Draft<'_>,
    schedule: &Schedule,
    turn: &ScheduledTurn,
) -> Result<String, Refusal> {
    let human = person(&schedule.owner)?.clone();
    let open = open_turns(draft, &human);
    let order = open.last().map_or(0, |last| last.order);
    let made = new_turn(draft, &human, order, &said(turn))?;
    let made = Turn { schedule: Some(schedule.id), tell: turn.tell.clone(), ..made };
    let begun = made.id.to_string();
    take_in(draft, made, &open)?;
    Ok(begun)
}

/// The person that a principal is.
///
/// # Errors
/// It is an agent.
pub(super) fn person(owner: &Principal) -> Result<&HumanName, Refusal> {
    let Principal::Human(human) = owner else {
        let detail = format!("{owner} is an agent; only people have conversations");
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    };
    Ok(human)
}

fn said(turn: &ScheduledTurn) -> TurnSay {
    TurnSay {
        conversation: turn.conversation.clone(),
        text: turn.text.clone(),
        lane: TurnLane::Background,
        project: Some(turn.project.clone()),
        graph: turn.graph.clone(),
        channel: None,
        mode: None,
        keeps_mode: false,
    }
}

/// A background turn ended. A person who gave it is told; of a schedule's turn whom the schedule says, and its owner when it
/// was not done.
pub(super) fn tell_of_end(draft: &mut Draft<'_>, turn: &Turn) {
    if turn.lane != TurnLane::Background {
        return;
    }
    let undone = turn.status == TurnStatus::Failed
        || [Outcome::Failure.as_str(), "cancelled"].contains(&turn.outcome.as_str());
    let owner = &turn.id.human;
    let whom = match turn.schedule {
        None => vec![owner],
        Some(_) => {
            let told = undone.then_some(owner).filter(|owner| turn.tell.as_ref() != Some(*owner));
            turn.tell.iter().chain(told).collect()
        }
    };
    for human in whom {
        let text = format!("{}: {}", turn.id, turn.answer);
        draft.mail(Principal::Human(human.clone()), turn.epic, MailBody::Info { text });
    }
}

/// A background turn asks: nobody sees it wait, and its person alone may answer.
pub(super) fn tell_of_question(draft: &mut Draft<'_>, turn: &Turn) {
    if turn.lane != TurnLane::Background {
        return;
    }
    let (id, name) = (&turn.id, &turn.id.conversation);
    let text = format!(
        "{id} asks: {}; answer with `tetrarch ask --conversation {name} TEXT`",
        turn.answer
    );
    draft.mail(Principal::Human(id.human.clone()), turn.epic, MailBody::Info { text });
}
