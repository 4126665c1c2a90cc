//! Programs that are asked to checkpoint and end, so that their next session goes on.

use tetrarch_core::brief::Outcome;
use tetrarch_core::order::{Exit, Order, RunnerEvent};
use tetrarch_core::time::Millis;

use crate::stage::{Seen, Stage, python, shell};

async fn rotated(start: tetrarch_core::order::Start, drain: u64) -> Seen {
    let mut stage = Stage::new();
    let run = stage.start(start).await;
    stage
        .until(|event| {
            let ready = matches!(event, RunnerEvent::Log { text } if text.contains("ready"));
            ready || matches!(event, RunnerEvent::Progress { .. })
        })
        .await;
    rotate(&stage, run, drain).await;
    stage.see_the_end().await
}

async fn rotate(stage: &Stage, run: tetrarch_core::id::RunId, drain: u64) {
    let reason = "enough".to_owned();
    let (drain, kill_grace) = (Millis(drain), Millis(100));
    stage.order(Order::Rotate { run, drain, kill_grace, reason }).await;
}

#[tokio::test]
async fn rotated_program_writes_its_checkpoint_and_gives_no_result() {
    for code in [0, 1] {
        let script = format!(
            "say('progress', text='up')\nasked = hear()\n\
             say('checkpoint', state=[asked['type'], asked['reason'], asked['drainMs']])\n\
             sys.exit({code})"
        );
        let seen = rotated(python(&script), 60_000).await;
        assert_eq!((seen.exit, seen.made), (Exit::Code(code), None));
        let told = r#"["rotate","enough",60000]"#;
        let saved = seen.events.iter().any(
            |event| matches!(event, RunnerEvent::Checkpoint { state, .. } if state.replace(' ', "") == told),
        );
        assert!(saved, "{:?}", seen.events);
    }
}

#[tokio::test]
async fn program_ignoring_rotation_is_killed_without_result() {
    let script = "say('progress', text='up')\nwhile True: time.sleep(1000)";
    let seen = rotated(python(script), 50).await;
    assert_eq!((seen.exit, seen.made), (Exit::Signal(15), None));
    let deaf = "trap '' TERM; echo ready; while :; do sleep 1000 & wait; done";
    let seen = rotated(shell(deaf), 50).await;
    assert_eq!((seen.exit, seen.made), (Exit::Signal(9), None));
    let polite = "trap 'exit 0' TERM; echo ready; while :; do sleep 1000 & wait; done";
    let seen = rotated(shell(polite), 0).await;
    assert_eq!((seen.exit, seen.made), (Exit::Code(0), None), "what it had done is not all of it");
}

#[tokio::test]
async fn program_finishing_during_rotation_has_finished() {
    let script = "say('progress', text='up')\nhear()\n\
                  say('result', outcome='success', deliverable='all')";
    let seen = rotated(python(script), 60_000).await;
    assert_eq!(seen.results()[0].0.deliverable, "all");

    for (code, outcome) in [(0, Outcome::Success), (3, Outcome::Failure)] {
        let plain = format!("echo ready; read -r brief; read -r rotate; exit {code}");
        let seen = rotated(shell(&plain), 60_000).await;
        assert_eq!(seen.made().outcome, outcome);
    }
}

#[tokio::test]
async fn stop_overrides_rotation_in_either_order() {
    for stop_first in [true, false] {
        let mut stage = Stage::new();
        let run =
            stage.start(python("say('progress', text='up')\nwhile True: time.sleep(1000)")).await;
        stage.until(|event| matches!(event, RunnerEvent::Progress { .. })).await;
        if stop_first {
            stage.stop(run, 50, 100).await;
            rotate(&stage, run, 50).await;
        } else {
            rotate(&stage, run, 1_000_000).await;
            stage.stop(run, 50, 100).await;
        }
        let seen = stage.see_the_end().await;
        let made = seen.made();
        assert_eq!(
            (made.outcome, made.error.as_str()),
            (Outcome::Cancelled, "stopped: enough"),
            "stop first: {stop_first}"
        );
    }
}

#[tokio::test]
async fn wall_clock_overrides_rotation() {
    let mut stage = Stage::new();
    let mut start = python("say('progress', text='up')\nwhile True: time.sleep(1000)");
    start.brief.wall = Some(Millis(1500));
    let run = stage.start(start).await;
    stage.until(|event| matches!(event, RunnerEvent::Progress { .. })).await;
    rotate(&stage, run, 1_000_000).await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.made().error, "wall clock of 1s500ms ended");
}
