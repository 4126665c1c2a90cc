//! Questions to people: asked, answered once, taken over by the next session, withdrawn at the end.

use super::fleet::{Fleet, equipped, human, id, po, project, reply, success, tasks, topics};
use crate::error::ErrorCode;
use crate::id::{AgentId, EpicId, HumanName, Principal, QuestionId, Ulid};
use crate::ledger::Entry;
use crate::limits::INSTRUCTION_BYTES_MAX;
use crate::mail::{MailBody, OpReply};
use crate::plan::schema;
use crate::question::{Question, QuestionStatus};
use crate::request::{Op, Report, RequestBody};
use crate::run::{RunEvent, RunState};

fn working() -> (Fleet, EpicId, AgentId) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = fleet.worker(epic, "T1.1");
    (fleet, epic, worker)
}

fn name(number: u128) -> QuestionId {
    QuestionId(Ulid(number))
}

fn ask(fleet: &mut Fleet, agent: &AgentId, number: u128, text: &str) -> Entry {
    let (run, options) = (fleet.run_of(agent), vec!["A".to_owned(), "B".to_owned()]);
    let question = text.to_owned();
    fleet.report(agent, Report::Ask { run, id: Some(name(number)), question, options })
}

fn reply_to(fleet: &mut Fleet, from: &Principal, number: u128, text: &str) -> (Entry, OpReply) {
    let op = Op::QuestionAnswer { question: name(number), text: text.to_owned() };
    let input = fleet.asking(from, RequestBody::Op(op));
    let entry = fleet.one(input);
    let reply = reply(&entry);
    (entry, reply)
}

fn question(fleet: &Fleet, number: u128) -> &Question {
    &fleet.records.questions[&name(number)]
}

/// What an entry has told an agent in answer to which question.
fn answers(entry: &Entry, to: &AgentId) -> Vec<(Option<QuestionId>, String)> {
    let to_it = entry.mail.iter().filter(|mail| mail.to == Principal::Agent(to.clone()));
    let mut answers = Vec::new();
    for mail in to_it {
        if let MailBody::Answer { question, text } = &mail.body {
            answers.push((*question, text.clone()));
        }
    }
    answers
}

#[test]
fn question_is_open_until_answered_once() {
    let (mut fleet, epic, worker) = working();
    ask(&mut fleet, &worker, 7, "which?");
    let run = fleet.run_of(&worker);
    assert_eq!(fleet.records.run_status[&run].state, RunState::AwaitingInput);
    let asked = question(&fleet, 7).clone();
    assert_eq!((asked.status, asked.to, asked.epic), (QuestionStatus::Open, human(), epic));
    assert_eq!(asked.options, ["A", "B"]);

    let (entry, said) = reply_to(&mut fleet, &human(), 7, "B");
    assert_eq!((said.error, said.epic), (None, Some(epic)));
    assert_eq!(answers(&entry, &worker), [(Some(name(7)), "B".to_owned())]);
    let answered = question(&fleet, 7);
    assert_eq!((answered.status, answered.answer.as_str()), (QuestionStatus::Answered, "B"));
    assert_eq!(answered.answered_by, Some(human()));

    let (entry, said) = reply_to(&mut fleet, &human(), 7, "A");
    assert_eq!(said.error, Some(ErrorCode::Conflict));
    assert!(said.detail.contains("was answered by human:Shai: B"), "{}", said.detail);
    assert_eq!(answers(&entry, &worker), []);
}

#[test]
fn repeated_report_is_one_question() {
    let (mut fleet, _, worker) = working();
    ask(&mut fleet, &worker, 7, "which?");
    let again = ask(&mut fleet, &worker, 7, "which?");
    assert!(again.mail.is_empty() && again.records.is_empty(), "{again:?}");
    assert_eq!(fleet.records.questions.len(), 1);
}

#[test]
fn two_questions_may_be_open_at_once() {
    let (mut fleet, _, worker) = working();
    ask(&mut fleet, &worker, 7, "which?");
    ask(&mut fleet, &worker, 8, "and when?");
    reply_to(&mut fleet, &human(), 8, "now");
    assert_eq!(question(&fleet, 7).status, QuestionStatus::Open);
    assert_eq!(question(&fleet, 8).status, QuestionStatus::Answered);
}

#[test]
fn only_people_and_the_addressee_answer() {
    let (mut fleet, _, worker) = working();
    ask(&mut fleet, &worker, 7, "which?");
    for from in [Principal::Agent(worker.clone()), Principal::Agent(po())] {
        let (_, said) = reply_to(&mut fleet, &from, 7, "B");
        assert_eq!(said.error, Some(ErrorCode::Unauthorized), "{from}");
    }
    assert_eq!(reply_to(&mut fleet, &human(), 9, "B").1.error, Some(ErrorCode::NotFound));
    for text in [String::new(), "x".repeat(INSTRUCTION_BYTES_MAX + 1)] {
        let (_, said) = reply_to(&mut fleet, &human(), 7, &text);
        assert_eq!(said.error, Some(ErrorCode::InvalidRequest), "{} bytes", text.len());
    }
    let other = Principal::Human(HumanName::new("Eve").unwrap());
    assert_eq!(reply_to(&mut fleet, &other, 7, "B").1.error, None, "another human may");
}

#[test]
fn question_about_an_agents_goal_is_for_people_alone() {
    let (mut fleet, _) = Fleet::with_goal(tasks(1));
    let plan = Box::new(equipped(schema::parse(&tasks(1)).unwrap()));
    let given = fleet.op(&po().into(), Op::GoalCreate { project: project(), plan });
    let worker = fleet.worker(given.epic.unwrap(), "T1.1");
    ask(&mut fleet, &worker, 7, "may it push?");
    assert_eq!(question(&fleet, 7).to, human(), "who created the project");
    let (_, said) = reply_to(&mut fleet, &po().into(), 7, "allow");
    assert_eq!(said.error, Some(ErrorCode::Unauthorized));
    assert!(said.detail.contains("is for people"), "{}", said.detail);
    assert_eq!(question(&fleet, 7).status, QuestionStatus::Open);
    assert_eq!(reply_to(&mut fleet, &human(), 7, "deny").1.error, None);
}

fn dies(fleet: &mut Fleet, worker: &AgentId) {
    fleet.report(worker, Report::Crashed { cause: "signal 9".to_owned() });
    fleet.report(worker, Report::Ready);
}

#[test]
fn next_session_inherits_an_open_question() {
    let (mut fleet, _, worker) = working();
    ask(&mut fleet, &worker, 7, "which?");
    dies(&mut fleet, &worker);
    assert_eq!(question(&fleet, 7).status, QuestionStatus::Open, "somebody may be thinking");
    ask(&mut fleet, &worker, 8, "which?");
    assert_eq!(question(&fleet, 7).status, QuestionStatus::Withdrawn);
    assert_eq!(question(&fleet, 8).status, QuestionStatus::Open);
    let (_, said) = reply_to(&mut fleet, &human(), 7, "B");
    assert_eq!(said.error, Some(ErrorCode::Conflict));
    assert!(said.detail.contains("asked again"), "{}", said.detail);
}

#[test]
fn next_session_gets_the_answer_given_meanwhile() {
    let (mut fleet, _, worker) = working();
    ask(&mut fleet, &worker, 7, "which?");
    reply_to(&mut fleet, &human(), 7, "B");
    dies(&mut fleet, &worker);
    let other = ask(&mut fleet, &worker, 8, "another one?");
    assert_eq!(answers(&other, &worker), []);
    let again = ask(&mut fleet, &worker, 9, "which?");
    assert_eq!(answers(&again, &worker), [(Some(name(9)), "B".to_owned())]);
    assert_eq!(topics(&again, &id("IO@Shai")), Vec::<String>::new());
    assert_eq!(question(&fleet, 9).status, QuestionStatus::Answered);
}

#[test]
fn question_nobody_waits_for_is_withdrawn() {
    let (mut fleet, _, worker) = working();
    ask(&mut fleet, &worker, 7, "which?");
    fleet.end(&worker, success("without an answer"));
    assert_eq!(question(&fleet, 7).status, QuestionStatus::Withdrawn);

    let (mut fleet, _, worker) = working();
    ask(&mut fleet, &worker, 7, "which?");
    let (run, event) = (fleet.run_of(&worker), RunEvent::InputReceived);
    let usage = Default::default();
    fleet.report(&worker, Report::Run { run, event, reason: String::new(), usage });
    let withdrawn = question(&fleet, 7);
    assert_eq!(withdrawn.status, QuestionStatus::Withdrawn);
    assert!(withdrawn.answer.contains("by mail"), "{}", withdrawn.answer);
}
