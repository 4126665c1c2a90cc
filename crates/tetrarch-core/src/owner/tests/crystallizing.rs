//! What is handed over: by results, updates, somebody else's word, and whatever is settled by them.

use serde_json::{Value, json};

use super::fleet::{Fleet, human, node, po, success};
use crate::brief::{Evidence, Outcome, RunResult};
use crate::crystallization::{Crystallization, Source};
use crate::id::EpicId;
use crate::limits::SUMMARY_BYTES_MAX;
use crate::request::goals::{GoalOp, GoalVerb};
use crate::request::work::{Completion, WorkOp, WorkVerb};
use crate::request::{Op, Report};

/// One phase with a task of two subtasks and a task of none.
fn small() -> Value {
    let leaf = |id: &str| json!({"id": id, "name": id, "acceptance": ["it holds"]});
    let cut = json!({"id": "T1.1", "name": "cut", "acceptance": ["it holds"],
        "subtasks": [leaf("S1.1.1"), leaf("S1.1.2")]});
    json!({"title": "goal", "phases": [
        {"id": "P1", "name": "phase", "tasks": [cut, leaf("T1.2")]}]})
}

fn left<'f>(fleet: &'f Fleet, epic: EpicId, on: &str) -> Option<&'f Crystallization> {
    let place = (on != "goal").then(|| node(on));
    fleet.records.crystallizations.get(&epic)?.get(&place)
}

fn told(text: &str) -> RunResult {
    let evidence = Evidence { tests: vec![format!("{text}: passed")], ..Evidence::default() };
    RunResult { crystallization: text.to_owned(), evidence, ..success("d") }
}

fn does(fleet: &mut Fleet, epic: EpicId, on: &str, result: RunResult) {
    let worker = fleet.worker(epic, on);
    fleet.end(&worker, result);
}

#[test]
fn every_level_hands_over_only_once_settled() {
    let (mut fleet, epic) = Fleet::with_goal(small());
    does(&mut fleet, epic, "S1.1.1", told("one"));
    let first = left(&fleet, epic, "S1.1.1").unwrap().clone();
    assert_eq!((first.source, first.handoff.summary.as_str()), (Source::Result, "one"));
    assert_eq!((first.handoff.current_state.as_str(), first.run.is_some()), ("done", true));
    assert_eq!(first.handoff.evidence.tests, ["one: passed"]);
    assert!(first.agent.is_some() && first.session.is_some());
    assert_eq!(left(&fleet, epic, "T1.1"), None);

    does(&mut fleet, epic, "S1.1.2", told("two"));
    let task = left(&fleet, epic, "T1.1").unwrap();
    assert_eq!((task.source, task.agent.as_ref()), (Source::RollUp, None));
    let text = "2 of 2 done\nS1.1.1 S1.1.1 (done): one\nS1.1.2 S1.1.2 (done): two";
    assert_eq!(task.handoff.summary, text);
    assert_eq!(task.handoff.evidence.tests, ["one: passed", "two: passed"]);
    assert_eq!((left(&fleet, epic, "P1"), left(&fleet, epic, "goal")), (None, None));

    does(&mut fleet, epic, "T1.2", success("no words"));
    let phase = left(&fleet, epic, "P1").unwrap();
    assert!(phase.handoff.summary.contains("T1.1 cut (done): 2 of 2 done"), "{phase:?}");
    assert!(phase.handoff.summary.contains("T1.2 T1.2 (done): ended success"), "{phase:?}");
    assert_eq!(left(&fleet, epic, "T1.2"), None, "its result says all that there is");
    let goal = left(&fleet, epic, "goal").unwrap().clone();
    assert_eq!((goal.source, goal.handoff.current_state.as_str()), (Source::RollUp, "completed"));
    assert!(goal.handoff.evidence.is_empty(), "it stands with the task");

    let report = Report::Result { run: None, epic: Some(epic), result: told("whole") };
    fleet.report(&po(), report);
    let whole = left(&fleet, epic, "goal").unwrap();
    assert_eq!((whole.source, whole.handoff.summary.as_str()), (Source::Result, "whole"));
    assert_ne!(whole.id, goal.id);
}

#[test]
fn result_keeps_what_its_run_said_and_may_say_all_fields_itself() {
    let (mut fleet, epic) = Fleet::with_goal(small());
    let worker = fleet.worker(epic, "T1.2");
    let run = fleet.run_of(&worker);
    let update = json!({
        "summary": "half", "next": "the rest", "openQuestions": ["why?"],
        "decisions": [{"decision": "b", "rationale": "a is slow"}, "c"], "evidence": {"prs": ["#7"]},
    });
    let update = update.to_string();
    fleet.report(&worker, Report::Update { run, dispatch: None, update, expected: None });
    fleet.end(&worker, told("whole"));
    let kept = &left(&fleet, epic, "T1.2").unwrap().handoff;
    assert_eq!(
        (kept.summary.as_str(), &kept.next_actions[..]),
        ("whole", &["the rest".to_owned()][..])
    );
    assert_eq!(kept.decisions, ["b, because a is slow", "c"]);
    assert_eq!(
        (&kept.open_questions[..], &kept.references.prs[..]),
        (&["why?".to_owned()][..], &["#7".to_owned()][..])
    );
    assert_eq!(kept.evidence.tests, ["whole: passed"]);

    let said = json!({"overseerUpdate": {
        "summary": "one", "decisions": ["d"], "evidence": {"issues": ["#8"]},
    }});
    does(
        &mut fleet,
        epic,
        "S1.1.1",
        RunResult { crystallization: said.to_string(), ..success("x") },
    );
    let kept = &left(&fleet, epic, "S1.1.1").unwrap().handoff;
    assert_eq!((kept.summary.as_str(), &kept.decisions[..]), ("one", &["d".to_owned()][..]));
    assert_eq!(kept.references.issues, ["#8"]);
}

#[test]
fn unfinished_work_hands_over_too() {
    let (mut fleet, epic) = Fleet::with_goal(small());
    let worker = fleet.worker(epic, "T1.2");
    let run = fleet.run_of(&worker);
    let said = |fleet: &mut Fleet, update: Value| {
        let update = update.to_string();
        fleet.report(&worker, Report::Update { run, dispatch: None, update, expected: None });
        left(fleet, epic, "T1.2").unwrap().clone()
    };
    let half = said(
        &mut fleet,
        json!({"status": "in_progress", "summary": "half", "next": "the rest",
            "decisions": ["b, since a is slow"], "openQuestions": ["why?"],
            "evidence": {"prs": ["#7"]}}),
    );
    assert_eq!((half.source, half.run), (Source::Update, Some(run)));
    assert_eq!((half.handoff.summary.as_str(), half.handoff.next_actions.len()), ("half", 1));
    let more = said(&mut fleet, json!({"summary": "more"})).handoff;
    assert_eq!((more.summary.as_str(), more.current_state.as_str()), ("more", "in_progress"));
    assert_eq!((more.next_actions, more.references.prs.len()), (half.handoff.next_actions, 1));
    assert_eq!([more.decisions, more.open_questions].concat().len(), 2, "it was not taken back");

    let failed = RunResult {
        partial: "got this far".to_owned(),
        ..RunResult::ended(Outcome::Failure, "no disk")
    };
    fleet.end(&worker, failed);
    let failed = &left(&fleet, epic, "T1.2").unwrap().handoff;
    assert_eq!(failed.summary, "got this far");
    assert_eq!(failed.known_blockers, ["no disk"]);
    assert!(failed.current_state.starts_with("queued: "), "{}", failed.current_state);
}

#[test]
fn manual_completion_hands_over_with_its_reason() {
    let (mut fleet, epic) = Fleet::with_goal(small());
    let key = format!("{}{}", "ghp_", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let done = Completion {
        node: node("T1.2"),
        crystallization: format!("by hand with {key}"),
        evidence: Evidence::default(),
        reason: "it was quicker".to_owned(),
    };
    let verb = WorkVerb::Complete(Box::new(done));
    assert_eq!(fleet.op(&human(), Op::Work(WorkOp { epic, verb })).error, None);
    let it = left(&fleet, epic, "T1.2").unwrap();
    assert_eq!((it.source, it.handoff.decisions.len()), (Source::Completion, 1));
    assert!(it.handoff.summary.starts_with("by hand with [redacted:"), "{}", it.handoff.summary);
}

#[test]
fn handoff_is_bounded_and_a_cancelled_goal_summarizes_what_exists() {
    let (mut fleet, epic) = Fleet::with_goal(small());
    let evidence = Evidence { files: vec!["f".repeat(1_000); 100], ..Evidence::default() };
    let large = RunResult { evidence, ..told(&"x".repeat(SUMMARY_BYTES_MAX)) };
    does(&mut fleet, epic, "S1.1.1", large);
    let it = &left(&fleet, epic, "S1.1.1").unwrap().handoff;
    assert_eq!(it.summary.len(), SUMMARY_BYTES_MAX, "a summary that fits is whole");
    let bytes: usize = it.evidence.files.iter().map(String::len).sum();
    assert!(bytes <= SUMMARY_BYTES_MAX, "{bytes}");

    let op = GoalOp { epic, verb: GoalVerb::Cancel, reason: "no more".to_owned() };
    assert_eq!(fleet.op(&human(), Op::Goal(op)).error, None);
    let task = &left(&fleet, epic, "T1.1").unwrap().handoff;
    assert_eq!(task.current_state, "done");
    assert!(task.summary.starts_with("1 of 2 done\nS1.1.1"), "{}", task.summary);
    let bytes: usize = task.evidence.files.iter().map(String::len).sum();
    assert!(bytes + task.summary.len() <= SUMMARY_BYTES_MAX, "{bytes}");
    assert_eq!(left(&fleet, epic, "T1.2"), None, "nothing was done there");
    assert_eq!(left(&fleet, epic, "goal").unwrap().handoff.current_state, "cancelled");
}
