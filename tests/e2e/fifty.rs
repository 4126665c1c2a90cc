//! A run of fifty turns of a model whose host is killed in the middle of a turn, again and again (spec 06, Effects):
//! an ordinary run takes some turns, `FAULTS=all` every one. What every entry of the journal is cut at is
//! `tests/it/cuts.rs`'s.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};
use tetrarch_bus::codec::encode_journal;
use tetrarch_bus::journal::{JournalName, read_journal};
use tetrarch_core::journal::JournalEvent;
use tetrarch_tests::scripted::{Words, serve_model, turn_of};
use tetrarch_tests::{Fleet, Program, wait};

/// Turns of the run.
const TURNS: u64 = 50;
/// Turns in which an ordinary run kills the host: each kind of turn.
const SAMPLE: [u64; 5] = [7, 18, 29, 40, TURNS];
/// Turns after which people write to the agent.
const LETTERS: [u64; 3] = [7, 18, 29];
/// What a turn may add to the journals, in bytes, and what a session may.
const TURN_BYTES: usize = 3_000;
const SESSION_BYTES: usize = 4_000;

/// What a turn does, and what is under way when the host is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The model is being asked.
    Asked,
    /// A program has done what it is to do, and has not ended.
    Done,
    /// A program has done nothing yet.
    Begun,
    /// A person is being asked.
    Waits,
}

fn kind(turn: u64) -> Turn {
    match (turn, turn % 4) {
        (TURNS, _) | (_, 1) => Turn::Asked,
        (_, 2) => Turn::Done,
        (_, 3) => Turn::Begun,
        (_, _) => Turn::Waits,
    }
}

fn kills() -> Vec<u64> {
    match std::env::var("FAULTS").unwrap_or_default().as_str() {
        "all" => (1..=TURNS).collect(),
        _ => SAMPLE.to_vec(),
    }
}

/// What the model says in a turn. A program of a turn in which the host is killed does not end by itself: of one that
/// has done nothing yet, until it is let go.
fn said(turn: u64, killed: bool, python: &str) -> Words {
    let run = |program: String| ("run_command", json!({"argv": [python, "-c", program]}));
    let push = format!("open('pushed', 'a').write('{turn}\\n')");
    let stay = if killed { "; import time; time.sleep(600)" } else { "" };
    let calls = match kind(turn) {
        Turn::Asked if turn == TURNS => {
            return Words { text: "it is pushed".to_owned(), ..Words::default() };
        }
        Turn::Asked => vec![("read_file", json!({"path": "begun"})), ("list_files", json!({}))],
        Turn::Done => vec![run(format!("{push}{stay}"))],
        Turn::Begun if killed => {
            let begun = format!("open('begun', 'a').write('{turn}\\n')");
            let wait = format!("os.path.exists('go-{turn}') or time.sleep(600)");
            vec![run(format!("import os, time; {begun}; {wait}; {push}"))]
        }
        Turn::Begun => vec![run(push)],
        Turn::Waits if killed => vec![("ask_human", json!({"question": "May I go on?"}))],
        Turn::Waits => {
            let status = json!({"status": "in_progress", "summary": format!("at {turn}")});
            vec![("write_file", json!({"path": "last", "content": "x"})), ("todo_update", status)]
        }
    };
    Words { calls, ..Words::default() }
}

/// The fleet, its second host, on which the agent runs, and what the model was asked.
struct Stage {
    fleet: Fleet,
    host: Program,
    work: PathBuf,
    asked: Arc<Mutex<Vec<Value>>>,
    running: Program,
}

impl Stage {
    fn start(kills: &[u64]) -> Self {
        let python = tetrarch_tests::python().to_str().unwrap().to_owned();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (told, killed, command) = (Arc::clone(&asked), kills.to_vec(), python.clone());
        let url = serve_model(move |request| {
            let turn = turn_of(request);
            let mut told = told.lock().unwrap();
            let first = !told.iter().any(|it| turn_of(it) == turn);
            told.push(request.clone());
            let killed = killed.contains(&turn);
            let silent = killed && first && kind(turn) == Turn::Asked;
            (!silent).then(|| said(turn, killed, &command))
        });
        let fleet = Fleet::prepared()
            .with_option("--capacity", "2")
            .with_env("TETRARCH_LIVENESS_WINDOW", "400ms")
            .started();
        let work = fleet.cwd().join("work");
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join("begun"), "").unwrap();
        fleet.ok(["project", "create", "fifty", "--tools", "*"]);
        let host = fleet.second_host("h2");
        let tools =
            json!([format!("run:{python}"), "read", "list", "write", "todo_update", "ask_human"]);
        let plan = json!({
            "project": "fifty", "output": "T1.1", "goal": {"title": "push it"},
            "phases": [{"id": "P1", "name": "Push", "tasks": [
                {"id": "T1.1", "name": "push it", "maxAttempts": 1, "acceptance": ["it is pushed"], "placement": {"host": "h2"}},
            ]}],
            "profiles": {"default": {
                "runner": "llm", "provider": "openai", "model": "scripted", "wall": "30m",
                "baseUrl": format!("{url}/v1"), "tools": tools, "workspace": work.to_str().unwrap(),
            }},
        });
        let file = fleet.file("fifty.json", &plan.to_string());
        let running = fleet.spawn(["run", "--quiet", file.to_str().unwrap()]);
        Self { fleet, host, work, asked, running }
    }

    /// Kills the host in the middle of a turn, and starts it again.
    fn kill_in(&mut self, turn: u64) {
        let line = turn.to_string();
        let what = format!("turn {turn} is under way");
        wait::until(&what, || match kind(turn) {
            Turn::Asked => {
                let asked = self.asked.lock().unwrap();
                asked.iter().any(|it| turn_of(it) == turn).then_some(())
            }
            Turn::Done => has_line(&self.work.join("pushed"), &line).then_some(()),
            Turn::Begun => has_line(&self.work.join("begun"), &line).then_some(()),
            Turn::Waits => self.question("May I go on?").map(drop),
        });
        std::fs::write(self.work.join(format!("go-{turn}")), "").unwrap();
        self.host.signal(Signal::KILL);
        self.host = self.fleet.second_host("h2");
        let doubt = format!("effect_unknown: call {turn}/0");
        let (question, answer) = match kind(turn) {
            Turn::Asked => return,
            Turn::Done => (doubt, "it is done"),
            Turn::Begun => (doubt, "repeat"),
            Turn::Waits => ("May I go on?".to_owned(), "yes"),
        };
        wait::until("an answer is taken", || {
            let id = self.question(&question)?;
            // It is asked once more when its session is: then the next answer counts.
            (self.fleet.run(["answer", &id, answer, "--other"]).code == Some(0)).then_some(())
        });
    }

    /// An open question that begins so.
    fn question(&self, words: &str) -> Option<String> {
        let listed = self.fleet.json(&["inbox"]);
        let mut all = listed.as_array().into_iter().flatten();
        let found =
            all.find(|it| it["text"].as_str().is_some_and(|text| text.starts_with(words)))?;
        found["id"].as_str().map(str::to_owned)
    }

    /// People write to the agent.
    fn write(&self, turn: u64) {
        let agents = self.fleet.json(&["get", "agents"]);
        let mut ids = agents.as_array().unwrap().iter().filter_map(|it| it["id"].as_str());
        let worker = ids.find(|id| id.starts_with("W:")).unwrap();
        self.fleet.ok(["mail", "send", worker, &format!("letter {turn}.")]);
    }
}

fn has_line(file: &Path, line: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.lines().any(|it| it == line))
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_turn_run_survives_a_killed_host_without_repeating_calls() {
    let kills = kills();
    let mut stage = Stage::start(&kills);
    for turn in &kills {
        stage.kill_in(*turn);
        if LETTERS.contains(turn) {
            stage.write(*turn);
        }
    }
    let Stage { fleet, host: _host, work, asked, running } = stage;
    let ended = running.ended();
    assert_eq!((ended.out.trim(), ended.code), ("it is pushed", Some(0)), "{}", ended.err);

    let pushed = std::fs::read_to_string(work.join("pushed")).unwrap();
    let pushed: Vec<u64> = pushed.lines().map(|line| line.parse().unwrap()).collect();
    let all = (1..TURNS).filter(|turn| matches!(kind(*turn), Turn::Done | Turn::Begun));
    assert!(pushed.iter().copied().eq(all), "each once, in order: {pushed:?}");

    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    asked.iter().for_each(|it| *times.entry(turn_of(it)).or_default() += 1);
    let silent = |turn: u64| kind(turn) == Turn::Asked && kills.contains(&turn);
    let expected = (1..=TURNS).map(|turn| (turn, 1 + usize::from(silent(turn))));
    assert_eq!(times, expected.collect(), "no recorded turn is asked for again");
    let last = asked.last().unwrap()["messages"].to_string();
    for turn in LETTERS {
        assert_eq!(last.matches(&format!("letter {turn}.")).count(), 1, "{last}");
    }
    grows_linearly(&fleet, kills.len()).await;
    fleet.ok(["doctor", "--check-ledger"]);
}

/// The journals of all sessions have no more than their turns and so much for each session.
async fn grows_linearly(fleet: &Fleet, kills: usize) {
    let control = fleet.control().await;
    let runs = fleet.json(&["get", "runs"]);
    let runs: Vec<JournalName> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| JournalName {
            agent: run["agent"].as_str().unwrap().parse().unwrap(),
            run: run["id"].as_str().unwrap().parse().unwrap(),
        })
        .collect();
    assert_eq!(runs.len(), kills + 1, "each session is a run");
    let (mut entries, mut bytes, mut largest) = (0, 0, 0);
    for run in runs {
        let mut besides = 0;
        for stored in read_journal(&control, &run, 1).await.unwrap() {
            let entry = stored.entry.unwrap();
            let size = encode_journal(&entry).unwrap().len();
            entries += 1;
            bytes += size;
            let of_session = matches!(
                entry.event,
                JournalEvent::Starting { .. }
                    | JournalEvent::Started { .. }
                    | JournalEvent::Mail { .. }
                    | JournalEvent::Log { .. }
                    | JournalEvent::Ended { .. }
            );
            besides += if of_session { size } else { 0 };
        }
        largest = largest.max(besides);
    }
    let turns = usize::try_from(TURNS).unwrap();
    assert!(bytes <= turns * TURN_BYTES + (kills + 1) * SESSION_BYTES, "{bytes} bytes");
    assert!(entries <= 12 * turns + 12 * (kills + 1), "{entries} entries");
    assert!(largest <= SESSION_BYTES, "{largest} bytes of a session");
}
