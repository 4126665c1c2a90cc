//! What a conversation is when another session goes on with it, besides its words: its directory, what people are
//! asked, and what it waits for (docs/decisions/0050).

use std::path::Path;

use serde_json::{Value, json};
use tetrarch_core::brief::Outcome;
use tetrarch_core::converse::{Call, FINISH, Recorded};
use tetrarch_tests::scripted::{Words, serve_model, turn_of};

use super::session::{Cut, Stage, Story};

/// A model that makes these calls, one in each turn, and is done then.
fn model(calls: Vec<(&'static str, Value)>) -> String {
    serve_model(move |request| {
        let turn = usize::try_from(turn_of(request)).unwrap();
        let call = calls.get(turn - 1).cloned();
        let text = if call.is_some() { "" } else { "done" }.to_owned();
        Some(Words { text, calls: call.into_iter().collect(), is_cut: false })
    })
}

/// What a call of this turn came to: its words, and whether it went wrong.
fn answer_of(story: &Story, turn: u64, place: u32) -> (String, bool) {
    let found = story.recorded.iter().find_map(|recorded| match recorded {
        Recorded::Answer { step, index, text, is_error, .. } => {
            (*step == turn && *index == place).then(|| (text.clone(), *is_error))
        }
        Recorded::Turn { .. }
        | Recorded::Intent { .. }
        | Recorded::Heard { .. }
        | Recorded::Summary { .. } => None,
    });
    found.unwrap_or_else(|| panic!("call {turn}/{place} has no answer: {:?}", story.recorded))
}

/// How often it was told that its directory is another one.
fn told_of_directory(story: &Story) -> usize {
    let words = "empty working directory";
    let told = |it: &&Recorded| matches!(it, Recorded::Heard { text, .. } if text.contains(words));
    story.recorded.iter().filter(told).count()
}

/// A conversation that wrote a file in one session and reads it in another, whose host has its directories below
/// `after`; and how often it was told there that its directory is another one.
async fn moved(before: &Path, after: &Path) -> (Story, usize) {
    let write = ("write_file", json!({"path": "note", "content": "it is blue"}));
    let url = model(vec![write, ("read_file", json!({"path": "note"}))]);
    let (mut story, mut first) = (Story::default(), Stage::below(before, &url));
    // A directory is removed with its session while nothing is in it: then the next one is told of another.
    while !story.recorded.iter().any(|it| matches!(it, Recorded::Answer { .. })) {
        first.session(&mut story, Cut::AfterRecorded).await;
    }
    assert!(!answer_of(&story, 1, 0).1, "it wrote the file");
    let told = told_of_directory(&story);
    Stage::below(after, &url).session(&mut story, Cut::Never).await;
    let told = told_of_directory(&story) - told;
    (story, told)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_conversation_keeps_its_directory_or_is_told_of_its_loss() {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let (stayed, told) = moved(&here, &here).await;
    let (text, is_error) = answer_of(&stayed, 2, 0);
    assert!(!is_error && text.contains("it is blue"), "{text}");
    assert_eq!(told, 0);
    let (elsewhere, told) = moved(&here, &there).await;
    assert!(answer_of(&elsewhere, 2, 0).1, "its files are on another host");
    assert_eq!(told, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_ask_is_the_same_question_and_another_call_another() {
    let dir = tempfile::tempdir().unwrap();
    let ask = || ("ask_human", json!({"question": "May I go on?"}));
    let mut stage = Stage::new(dir.path(), &model(vec![ask(), ask()]));
    let mut story = Story::default();
    stage.session(&mut story, Cut::AfterRecorded).await;
    stage.session(&mut story, Cut::BeforeRecorded).await;
    stage.session(&mut story, Cut::Never).await;
    assert_eq!(story.result.as_ref().unwrap().deliverable, "done");
    let [lost, again, other] = story.questions.as_slice() else { panic!("{:?}", story.questions) };
    assert!(lost.starts_with("May I go on?"), "{lost}");
    assert_eq!(lost, again, "the call whose answer was lost asks the same");
    assert_ne!(again, other, "the same words of a later turn are another question");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_for_mail_returns_mail_heard_since_its_turn() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(dir.path(), &model(Vec::new()));
    let call = |id: &str, tool: &str, arguments: Value| Call {
        id: id.to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.to_string(),
    };
    let update = json!({"status": "in_progress", "summary": "it waits"});
    let calls =
        vec![call("a", "todo_update", update), call("b", "mail_wait", json!({"seconds": 1}))];
    let mut story = Story::of(vec![
        Recorded::Turn { step: 1, text: String::new(), calls, is_cut: false },
        Recorded::Heard { text: "[mail] it is blue".to_owned(), letter: 1 },
    ]);
    stage.session(&mut story, Cut::Never).await;
    assert_eq!(story.result.as_ref().unwrap().deliverable, "done");
    let (text, is_error) = answer_of(&story, 1, 1);
    assert!(!is_error && text.contains("mail has come"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_is_returned_once_over_all_sessions() {
    let finish = |n: u32| (FINISH, json!({"outcome": "success", "deliverable": {"n": n}}));
    let schema = json!({"type": "object", "properties": {"n": {"minimum": 9}}});
    let url = model(vec![finish(1), finish(2), finish(3)]);
    let dir = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(dir.path(), &url).wanting(&schema);
    let mut story = Story::default();
    stage.session(&mut story, Cut::AfterRecorded).await;
    stage.session(&mut story, Cut::AfterRecorded).await;
    let (text, is_error) = answer_of(&story, 1, 0);
    assert!(is_error && text.contains("/n") && text.contains("the last time"), "{text}");
    assert!(story.result.is_none(), "it may give another");
    stage.session(&mut story, Cut::Never).await;
    let result = story.result.as_ref().unwrap();
    assert_eq!((result.outcome, result.partial.as_str()), (Outcome::Failure, r#"{"n":2}"#));
    assert_eq!((story.turns(), story.returned), (2, 1));
}
