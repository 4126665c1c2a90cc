//! Questions to people (spec 05, 08): asked by agents, put to the goal's people, answered once. A
//! question stays open over the death of the session that asked; the next one that asks the same
//! takes it over, or gets the answer that was given meanwhile.

use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, EpicId, NodeId, Principal, QuestionId, RunId};
use crate::ledger::{EventKind, Record};
use crate::limits::{INSTRUCTION_BYTES_MAX, OPTIONS_BYTES_MAX};
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::question::{Question, QuestionStatus};
use crate::request::Request;
use crate::run::{RunEvent, RunState};
use crate::step::Draft;

use super::{fit, overseeing, sessions};

const RULE: &str = "05 Records";

/// A question of an agent to the goal's people: the run waits for the answer.
///
/// # Errors
/// The run is not one that can wait.
pub(super) fn ask(
    draft: &mut Draft<'_>,
    agent: &AgentId,
    run: RunId,
    given: Option<QuestionId>,
    text: &str,
    options: &[String],
) -> Result<(), Refusal> {
    let derived = || QuestionId::derive(draft.now, &draft.seed("ask"), &run.to_string(), 0);
    let id = given.unwrap_or_else(derived);
    let Some(run) = draft.run(run).cloned() else {
        return Err(Refusal::new(ErrorCode::NotFound, format!("run {run} was not found")));
    };
    if draft.question(id).is_some() {
        // It came twice.
        return Ok(());
    }
    let waits = draft.run_status(run.id).map(|status| status.state);
    if waits != Some(RunState::AwaitingInput) {
        sessions::move_run(draft, run.id, RunEvent::InputNeeded, "a question was asked")?;
    }
    let Some(to) = asked_person(draft, run.epic) else { return Ok(()) };
    let question = Question {
        id,
        agent: agent.clone(),
        run: run.id,
        epic: run.epic,
        node: run.node,
        escalates: None,
        to,
        text: fit::Room::of(INSTRUCTION_BYTES_MAX).text(text, usize::MAX),
        options: fit::Room::of(OPTIONS_BYTES_MAX).list(options),
        status: QuestionStatus::Open,
        answer: String::new(),
        answered_by: None,
        asked: draft.now,
        since: draft.now,
    };
    match asked_before(draft, &question) {
        Some(before) if before.status == QuestionStatus::Answered => {
            let by = before.answered_by.unwrap_or_else(|| question.to.clone());
            settle(draft, question, &by, &before.answer);
        }
        Some(before) => {
            withdraw(draft, before, "it was asked again by the next session");
            put_to(draft, question);
        }
        None => put_to(draft, question),
    }
    Ok(())
}

/// Who is asked: the goal's owner. For an agent's goal that is who created its project, where that is a person.
fn asked_person(draft: &Draft<'_>, epic: EpicId) -> Option<Principal> {
    let goal = draft.base().goals.get(&epic)?;
    let creator = draft.base().projects.get(&goal.project).map(|project| &project.created_by);
    Some(match (&goal.owner, creator) {
        (Principal::Agent(_), Some(person @ Principal::Human(_))) => person.clone(),
        (owner, _) => owner.clone(),
    })
}

/// The same question of an earlier session that nobody has withdrawn, the latest.
fn asked_before(draft: &Draft<'_>, question: &Question) -> Option<Question> {
    let same = |before: &&Question| {
        before.run != question.run
            && before.node == question.node
            && before.text == question.text
            && before.status != QuestionStatus::Withdrawn
    };
    let all = draft.base().asked_by(&question.agent).filter(same);
    all.max_by_key(|before| (before.asked, before.id)).cloned()
}

/// Puts a question to whom it is for: to a human's orchestrator where there is one.
pub(super) fn put_to(draft: &mut Draft<'_>, question: Question) {
    let event = draft.event(EventKind::Question, RULE, question.text.clone());
    event.agent = Some(question.agent.clone());
    event.run = Some(question.run);
    event.epic = Some(question.epic);
    event.node = Some(question.node);
    let to = desk_of(draft, &question.to);
    let body = MailBody::Question {
        id: question.id,
        agent: question.agent.clone(),
        run: question.run,
        question: question.text.clone(),
        options: question.options.clone(),
        origin: draft
            .base()
            .goals
            .get(&question.epic)
            .map(|goal| goal.spec.origin.clone())
            .unwrap_or_default(),
    };
    draft.mail(to, Some(question.epic), body);
    draft.put(Record::Question(Box::new(question)));
}

/// Where somebody reads what is put to them: a human's orchestrator where there is one.
pub(super) fn desk_of(draft: &Draft<'_>, to: &Principal) -> Principal {
    match to {
        Principal::Human(human) => {
            let io = AgentId::Io(human.clone());
            let joined = draft.agent(&io).is_some_and(|agent| agent.liveness == Liveness::Active);
            if joined { Principal::Agent(io) } else { to.clone() }
        }
        Principal::Agent(_) => to.clone(),
    }
}

/// Nobody waits for the answers to the escalations of a node any more: its plan has changed.
pub(super) fn withdraw_escalations(draft: &mut Draft<'_>, epic: EpicId, node: NodeId, why: &str) {
    let of_node = |question: &&Question| {
        (question.epic, question.node) == (epic, node) && question.escalates.is_some()
    };
    let open: Vec<Question> = draft.base().open_questions().filter(of_node).cloned().collect();
    for question in open {
        withdraw(draft, question, why);
    }
}

/// `op.question.answer`: by a human, or an escalation by the agent to whom it was put. What an agent asks may be whether
/// it may do something, which no agent allows.
///
/// # Errors
/// Somebody else's, none that is open, or no words.
pub(super) fn answer(
    draft: &mut Draft<'_>,
    request: &Request,
    id: QuestionId,
    text: &str,
) -> Result<Question, Refusal> {
    let Some(question) = draft.question(id).cloned() else {
        let detail = format!("question {id} was not found; `tetrarch inbox` lists open questions");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
    let from = &request.sender.from;
    if from.agent().is_some() {
        super::current(draft, &request.sender)?;
        let detail = match question.escalates {
            None => Some(format!("{id} is for people; {from} cannot answer it")),
            Some(_) if *from != question.to => {
                Some(format!("{id} was asked to {}; {from} cannot answer it", question.to))
            }
            Some(_) => None,
        };
        if let Some(detail) = detail {
            return Err(Refusal::new(ErrorCode::Unauthorized, detail));
        }
    }
    let how = match question.status {
        QuestionStatus::Open => None,
        QuestionStatus::Answered => {
            let by = question.answered_by.as_ref().map_or_else(String::new, ToString::to_string);
            Some(format!("{id} was answered by {by}: {}", question.answer))
        }
        QuestionStatus::Withdrawn => Some(format!("{id} was withdrawn: {}", question.answer)),
    };
    if let Some(detail) = how {
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    if text.is_empty() || text.len() > INSTRUCTION_BYTES_MAX {
        let size = text.len();
        let detail = format!("text: {size} bytes; allowed: 1 to {INSTRUCTION_BYTES_MAX}");
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    settle(draft, question.clone(), from, text);
    Ok(question)
}

/// Notes an answer and sends it to who asked; the answer to an escalation is for whoever is next.
fn settle(draft: &mut Draft<'_>, question: Question, by: &Principal, text: &str) {
    let body = MailBody::Answer { question: Some(question.id), text: text.to_owned() };
    let asked = question.clone();
    close(draft, question, QuestionStatus::Answered, Some(by.clone()), text);
    if asked.escalates.is_some() {
        overseeing::answered(draft, &asked, by, text);
    } else {
        draft.mail(Principal::Agent(asked.agent), Some(asked.epic), body);
    }
}

fn withdraw(draft: &mut Draft<'_>, question: Question, why: &str) {
    close(draft, question, QuestionStatus::Withdrawn, None, why);
}

fn close(
    draft: &mut Draft<'_>,
    question: Question,
    status: QuestionStatus,
    by: Option<Principal>,
    text: &str,
) {
    let kind = match status {
        QuestionStatus::Open | QuestionStatus::Answered => EventKind::QuestionAnswered,
        QuestionStatus::Withdrawn => EventKind::QuestionWithdrawn,
    };
    let event = draft.event(kind, RULE, format!("{}: {text}", question.id));
    event.agent = Some(question.agent.clone());
    event.run = Some(question.run);
    event.epic = Some(question.epic);
    event.node = Some(question.node);
    draft.put(Record::Question(Box::new(Question {
        status,
        answer: text.to_owned(),
        answered_by: by,
        since: draft.now,
        ..question
    })));
}

/// The questions by which work was escalated are not to be answered any more: those about a node, or
/// about all of an epic.
pub(super) fn withdraw_escalated(
    draft: &mut Draft<'_>,
    epic: EpicId,
    node: Option<NodeId>,
    why: &str,
) {
    let about = |question: &&Question| {
        question.escalates.is_some()
            && question.epic == epic
            && node.is_none_or(|node| question.node == node)
    };
    let open: Vec<Question> = draft.base().open_questions().filter(about).cloned().collect();
    for question in open {
        withdraw(draft, question, why);
    }
}

/// Nobody waits for the answers to what an agent asked any more: it has ended, or was answered by
/// mail.
pub(super) fn withdraw_of(draft: &mut Draft<'_>, agent: &AgentId, why: &str) {
    for question in draft.open_questions(agent) {
        withdraw(draft, question, why);
    }
}
