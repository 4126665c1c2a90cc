//! A conversation of fifty turns that is cut after every entry of its journal, each time with what is under
//! way lost, and that goes on from what is recorded (spec 06, Journal, Effects): the session's machine and the real
//! runner, with a journal in memory. Every recorded effect is there once, no recorded turn is asked for again, and
//! a session costs the journal as much late as early.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

mod resumed;
mod session;

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tetrarch_core::brief::Outcome;
use tetrarch_core::converse::Recorded;
use tetrarch_tests::scripted::{Words, serve_model, turn_of};

use session::{Cut, Stage, Story};

/// Turns of the conversation.
const TURNS: u64 = 50;
/// Turns in which it is cut after every entry, of whatever kind; in the others, at those of the conversation.
const CUT_CLOSELY: u64 = 6;
/// What a session may add to the journals that is not of the conversation, in bytes.
const SESSION_BYTES: usize = 4_096;

/// What the model says in a turn: calls that look, that may be repeated, and that may not.
fn said(turn: u64) -> Words {
    let note = |word: &str| {
        let status = json!({"status": "in_progress", "summary": format!("{word} {turn}")});
        ("todo_update", status)
    };
    let push =
        ("edit_file", json!({"path": "pushed", "old": "end", "new": format!("{turn}\nend")}));
    let read = ("read_file", json!({"path": "pushed"}));
    let write = ("write_file", json!({"path": "last", "content": turn.to_string()}));
    let calls = match (turn, turn % 5) {
        (49, _) => {
            return Words { text: "half, ".to_owned(), is_cut: true, ..Words::default() };
        }
        (TURNS, _) => return Words { text: "and half".to_owned(), ..Words::default() },
        (_, 1) => vec![read, ("list_files", json!({})), note("looked")],
        (_, 2) => vec![push],
        (_, 3) => vec![write, push, note("pushed")],
        (_, 4) => vec![("ask_human", json!({"question": "May I go on?"}))],
        (_, _) => vec![("mail_wait", json!({"seconds": 60}))],
    };
    Words { calls, ..Words::default() }
}

/// Effectful calls, by the turn they are of.
fn pushes() -> Vec<u64> {
    (1..49).filter(|turn| matches!(turn % 5, 2 | 3)).collect()
}

/// A conversation's workspace and model, which tells what it was asked for.
fn prepared() -> (tempfile::TempDir, String, Arc<Mutex<Vec<u64>>>) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("pushed"), "end").unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&asked);
    let url = serve_model(move |request| {
        let turn = turn_of(request);
        told.lock().unwrap().push(turn);
        Some(said(turn))
    });
    (dir, url, asked)
}

/// It came to its end, and everything that was to be done is done once.
fn is_done_once(story: &Story, dir: &Path) {
    let result = story.result.as_ref().unwrap();
    assert_eq!((result.outcome, result.deliverable.as_str()), (Outcome::Success, "half, and half"));
    let pushed = std::fs::read_to_string(dir.join("pushed")).unwrap();
    let lines: Vec<u64> = pushed.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(lines, pushes(), "each once, in order");
    assert_eq!(std::fs::read_to_string(dir.join("last")).unwrap(), "48");
    let turns = story.recorded.iter().filter_map(|recorded| match recorded {
        Recorded::Turn { step, .. } => Some(*step),
        Recorded::Intent { .. }
        | Recorded::Answer { .. }
        | Recorded::Heard { .. }
        | Recorded::Summary { .. } => None,
    });
    assert!(turns.eq(1..=TURNS));
    let words = format!("{:?}", story.recorded);
    for (place, text) in story.letters.iter().enumerate() {
        assert_eq!(words.matches(text).count(), 1, "letter {place} is heard once");
    }
    assert_eq!(words.matches("yes, go on").count(), 9, "each question has one answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversation_cut_at_every_entry_resumes_without_repeating_effects() {
    let (dir, url, asked) = prepared();
    let mut stage = Stage::new(dir.path(), &url);
    let mut whole = Story::default();
    stage.session(&mut whole, Cut::Never).await;
    is_done_once(&whole, dir.path());
    assert!(asked.lock().unwrap().iter().copied().eq(1..=TURNS));

    let (dir, url, asked) = prepared();
    let mut stage = Stage::new(dir.path(), &url);
    let mut cut = Story::default();
    while cut.result.is_none() {
        let (before, turns) = (cut.recorded.len(), cut.turns());
        asked.lock().unwrap().clear();
        let closely = turns < CUT_CLOSELY && cut.begun() < 2;
        let mut entries = 1;
        // What happened is lost with the session that saw it, until the last of them records it.
        while closely && cut.recorded.len() == before && cut.result.is_none() {
            stage.session(&mut cut, Cut::Before(entries)).await;
            if cut.recorded.len() == before {
                stage.session(&mut cut, Cut::After(entries)).await;
            }
            entries += 1;
        }
        if !closely {
            stage.session(&mut cut, Cut::BeforeRecorded).await;
            stage.session(&mut cut, Cut::AfterRecorded).await;
        }
        let asked = asked.lock().unwrap();
        assert!(asked.iter().all(|turn| *turn > turns), "{asked:?} after {turns} recorded turns");
    }
    is_done_once(&cut, dir.path());
    grows_linearly(&whole, &cut);
}

/// A conversation that was cut has the entries of one that was not, and what each session adds besides is small
/// and does not grow.
fn grows_linearly(whole: &Story, cut: &Story) {
    let doubts = cut.doubts.len();
    assert!(doubts >= pushes().len(), "each effect was in doubt at least once: {doubts}");
    let intents = |story: &Story| {
        story.recorded.iter().filter(|it| matches!(it, Recorded::Intent { .. })).count()
    };
    assert!(intents(cut) <= intents(whole) + doubts);
    // A letter is what a call gives, or heard by itself.
    let heard = |story: &Story| {
        story.recorded.iter().filter(|it| matches!(it, Recorded::Heard { .. })).count()
    };
    assert!(heard(cut) <= cut.letters.len() + 1, "{} were heard", heard(cut));
    let others = |story: &Story| story.recorded.len() - intents(story) - heard(story);
    assert_eq!(others(cut), others(whole), "no entry of the conversation is there twice");
    let most = cut.besides.iter().max().unwrap();
    assert!(*most <= SESSION_BYTES, "a session added {most} bytes besides the conversation");
    let half = cut.besides.len() / 2;
    let (early, late) = cut.besides.split_at(half);
    let mean = |all: &[usize]| all.iter().sum::<usize>() / all.len();
    assert!(mean(late) <= mean(early) + 512, "{} then {}", mean(early), mean(late));
}
