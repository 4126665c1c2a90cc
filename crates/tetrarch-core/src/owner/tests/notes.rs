//! Notes of a project: who writes, finds and deletes them, what a brief has of them, and both ends of each bound.

use serde_json::{Value, json};

use super::fleet::{Fleet, create, human, po, request, task, tasks, wish};
use crate::brief::{Outcome, RunResult};
use crate::error::ErrorCode;
use crate::id::{NoteName, Principal, ProjectName};
use crate::ledger::Record;
use crate::limits::{
    BRIEF_NOTES_MAX, NOTE_BYTES_MAX, NOTE_WORDS_BYTES_MAX, NOTE_WORDS_MAX, NOTES_MAX,
};
use crate::mail::OpReply;
use crate::request::{BriefWish, NoteOp, Op, Page, ProjectCreate, Report, SpawnRequest, TaskWish};
use crate::role::Role;

fn name(text: &str) -> NoteName {
    NoteName::new(text).unwrap()
}

fn project() -> Option<ProjectName> {
    Some(ProjectName::new("demo").unwrap())
}

fn put(name: &str, text: &str, expect_version: Option<u64>) -> Op {
    let (project, name) = (None, NoteName::new(name).unwrap());
    Op::Note(NoteOp::Put { project, name, text: text.to_owned(), expect_version })
}

fn search(words: &str, page: Page<NoteName>) -> Op {
    Op::Note(NoteOp::Search { project: None, words: words.to_owned(), page })
}

fn at_work() -> (Fleet, Principal) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let agent = fleet.worker(epic, "T1.1");
    fleet.report(&agent, Report::Ready);
    (fleet, agent.into())
}

fn names(reply: &OpReply) -> Vec<String> {
    let data: Value = serde_json::from_str(reply.data.as_deref().unwrap()).unwrap();
    let name = |note: &Value| note["name"].as_str().unwrap().to_owned();
    data.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn note_is_found_by_all_of_its_words_and_replaced_by_version() {
    let (mut fleet, agent) = at_work();
    for (note, text) in [("build", "Run MAKE first"), ("tests", "make check"), ("other", "nothing")]
    {
        let said = fleet.op(&agent, put(note, text, Some(0))).detail;
        assert!(said.starts_with(&format!("{note} is version ")), "{said}");
    }
    for (words, found) in [
        ("", &["build", "other", "tests"][..]),
        ("make", &["build", "tests"]),
        ("first make", &["build"]),
        ("TESTS check", &["tests"]),
        ("make nothing", &[]),
    ] {
        let commits = fleet.records.notes.clone();
        assert_eq!(names(&fleet.op(&agent, search(words, Page::default()))), found, "{words}");
        assert_eq!(fleet.records.notes, commits);
    }
    let page = Page { limit: Some(1), after: Some(name("build")) };
    let second = fleet.op(&agent, search("", page));
    assert_eq!(names(&second), ["other"]);
    assert!(second.detail.contains("continue with after other"), "{second:?}");
    let at = |fleet: &Fleet| fleet.records.notes[&(project().unwrap(), name("build"))].clone();
    let first = at(&fleet).version;
    for (expected, error) in
        [(0, Some(ErrorCode::Conflict)), (first + 1, Some(ErrorCode::Conflict)), (first, None)]
    {
        let reply = fleet.op(&agent, put("build", "anew", Some(expected)));
        assert_eq!(reply.error, error, "{expected:?}");
        let is_said = reply.detail.contains(&format!("is version {first}"));
        assert!(error.is_none() || is_said, "{reply:?}");
    }
    let known = at(&fleet);
    assert_eq!((known.text.as_str(), &known.author), ("anew", &agent));
    assert!(known.version > first);
}

#[test]
fn version_of_a_deleted_note_is_not_used_again() {
    let (mut fleet, agent) = at_work();
    fleet.op(&agent, put("build", "one", Some(0)));
    let first = fleet.records.notes.values().next().unwrap().version;
    let delete = NoteOp::Delete { project: None, name: name("build") };
    assert_eq!(fleet.op(&agent, Op::Note(delete)).error, None);
    assert_eq!(fleet.op(&agent, put("build", "two", Some(0))).error, None);
    let stale = fleet.op(&agent, put("build", "three", Some(first)));
    assert_eq!(stale.error, Some(ErrorCode::Conflict), "{stale:?}");
}

#[test]
fn note_is_written_by_its_projects_agents_and_people_alone() {
    let (mut fleet, agent) = at_work();
    let other = ProjectName::new("other").unwrap();
    let wanted = ProjectCreate { project: other.clone(), ..create(true) };
    fleet.op(&human(), Op::ProjectCreate(wanted));
    let foreign = |project: &ProjectName| {
        let (project, name, text) = (Some(project.clone()), name("n"), "t".to_owned());
        Op::Note(NoteOp::Put { project, name, text, expect_version: None })
    };
    assert_eq!(fleet.op(&agent, foreign(&other)).error, Some(ErrorCode::Unauthorized));
    assert_eq!(fleet.op(&human(), foreign(&other)).error, None);
    let unknown = ProjectName::new("nowhere").unwrap();
    assert_eq!(fleet.op(&human(), foreign(&unknown)).error, Some(ErrorCode::NotFound));
    let delete = |project, note: &str| Op::Note(NoteOp::Delete { project, name: name(note) });
    let gone = fleet.op(&agent, delete(None, "n"));
    assert_eq!(gone.error, Some(ErrorCode::NotFound), "it is the other project's");
    assert_eq!(fleet.op(&human(), delete(Some(other), "n")).error, None);
    assert!(fleet.records.notes.is_empty());
    // One whose session is over writes nothing more.
    fleet.end(agent.agent().unwrap(), RunResult::ended(Outcome::Failure, "x".to_owned()));
    assert!(fleet.op(&agent, put("late", "t", None)).error.is_some());
    assert!(fleet.records.notes.is_empty());
}

#[test]
fn notes_are_bounded_in_size_and_number() {
    let (mut fleet, agent) = at_work();
    for (bytes, error) in [
        (0, Some(ErrorCode::InvalidRequest)),
        (1, None),
        (NOTE_BYTES_MAX, None),
        (NOTE_BYTES_MAX + 1, Some(ErrorCode::InvalidRequest)),
    ] {
        assert_eq!(fleet.op(&agent, put("n", &"x".repeat(bytes), None)).error, error, "{bytes}");
    }
    let control = fleet.op(&agent, put("n", "a\u{1b}[31m", None));
    assert_eq!(control.error, Some(ErrorCode::InvalidRequest));
    let one = fleet.records.notes.values().next().unwrap().clone();
    for number in 1..NOTES_MAX {
        let note = crate::note::ProjectNote { name: name(&format!("n{number}")), ..one.clone() };
        fleet.records.put(Record::Note(Box::new(note)));
    }
    let full = fleet.op(&agent, put("more", "t", None));
    assert_eq!(full.error, Some(ErrorCode::Conflict));
    assert!(full.detail.contains("delete or replace one"), "{full:?}");
    assert_eq!(fleet.op(&agent, put("n", "t", None)).error, None, "one is replaced");
}

#[test]
fn search_takes_few_words_and_says_how_many() {
    let (mut fleet, agent) = at_work();
    for (words, error) in [
        ("w ".repeat(NOTE_WORDS_MAX), None),
        ("w ".repeat(NOTE_WORDS_MAX + 1), Some(ErrorCode::InvalidRequest)),
        ("x".repeat(NOTE_WORDS_BYTES_MAX), None),
        ("x".repeat(NOTE_WORDS_BYTES_MAX + 1), Some(ErrorCode::InvalidRequest)),
    ] {
        let reply = fleet.op(&agent, search(&words, Page::default()));
        assert_eq!(reply.error, error, "{words}");
        assert!(error.is_none() || reply.detail.contains("256 bytes with 8"), "{reply:?}");
    }
}

#[test]
fn brief_has_the_notes_that_it_names_as_facts() {
    let plan =
        super::fleet::plan_of(&[task("T1.1", json!({"role": "specialist", "domain": "code"}))]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let parent = fleet.member(epic, "T1.1", Role::Specialist);
    let (project, text) = (project(), "run make for {goal}".to_owned());
    let note = NoteOp::Put { project, name: name("build"), text, expect_version: None };
    assert_eq!(fleet.op(&human(), Op::Note(note)).error, None);
    let mut ask = |notes: Vec<NoteName>| {
        let success_criteria = vec!["it holds".to_owned()];
        let brief =
            BriefWish { goal: "g".to_owned(), success_criteria, notes, ..BriefWish::default() };
        let mut wanted = wish(Role::Worker);
        wanted.budget.turns = Some(1);
        wanted.task = TaskWish::Brief(brief);
        let request =
            SpawnRequest { parent: Some(parent.clone()), ..request(epic, "-", vec![wanted]) };
        fleet.spawn(&po(), request)
    };
    let unknown = ask(vec![name("build"), name("none")]);
    assert!(unknown.denied[0].detail.contains("note none was not found"), "{unknown:?}");
    let many = ask(vec![name("build"); BRIEF_NOTES_MAX + 1]);
    assert!(many.denied[0].detail.contains("at most 16"), "{many:?}");
    let answer = ask(vec![name("build")]);
    let child = answer.spawned[0].agent.clone();
    let facts = &fleet.records.runs[&fleet.run_of(&child)].brief.key_facts;
    assert_eq!(facts, &[format!("note build, by {}: run make for {{goal}}", human())]);
}
