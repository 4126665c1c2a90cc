//! How runs are ended: stop, kill, wall clock, and programs that do not cooperate.

use std::time::{Duration, Instant};

use tetrarch_core::brief::Outcome;
use tetrarch_core::order::{Exit, Order, RunnerEvent};
use tetrarch_core::time::Millis;

use crate::stage::{Stage, is_alive, python, shell, soon};

fn says(word: &'static str) -> impl Fn(&RunnerEvent) -> bool {
    move |event| matches!(event, RunnerEvent::Log { text } if text.contains(word))
}

#[tokio::test]
async fn program_ignoring_term_is_killed_within_bounds() {
    let mut stage = Stage::new();
    let script = "trap '' TERM; read -r brief; echo ready; while :; do sleep 1000 & wait; done";
    let run = stage.start(shell(script)).await;
    stage.until(says("ready")).await;
    let asked = Instant::now();
    stage.stop(run, 100, 200).await;
    let seen = stage.see_the_end().await;
    let took = asked.elapsed();
    assert_eq!(seen.exit, Exit::Signal(9));
    let made = seen.made();
    assert_eq!((made.outcome, made.error.as_str()), (Outcome::Cancelled, "stopped: enough"));
    assert_eq!(made.partial, "ready");
    assert!(took >= Duration::from_millis(300), "no time was given: {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn program_heeding_the_stop_gives_its_own_result() {
    let mut stage = Stage::new();
    let script = "say('progress', text='up')\nstop = hear()\n\
        say('result', outcome='cancelled', partial='half of ' + stop['reason'] + str(stop['drainMs']))";
    let run = stage.start(python(script)).await;
    stage.until(|event| matches!(event, RunnerEvent::Progress { .. })).await;
    stage.stop(run, 60_000, 5).await;
    let seen = stage.see_the_end().await;
    let (result, _) = seen.results()[0];
    assert_eq!(result.outcome, Outcome::Cancelled);
    assert_eq!(result.partial, "half of enough60000");
    assert_eq!((seen.exit, seen.made), (Exit::Code(0), None));
}

#[tokio::test]
async fn exit_code_0_on_term_is_no_success() {
    let mut stage = Stage::new();
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 1000 & wait; done";
    let run = stage.start(shell(script)).await;
    stage.until(says("ready")).await;
    stage.stop(run, 0, 60_000).await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.exit, Exit::Code(0));
    assert_eq!(seen.made().outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn stopped_plain_program_is_cancelled() {
    let mut stage = Stage::new();
    let script = "read -r brief; echo ready; read -r stop; echo done";
    let run = stage.start(shell(script)).await;
    stage.until(says("ready")).await;
    stage.stop(run, 60_000, 5).await;
    let seen = stage.see_the_end().await;
    assert_eq!(
        (seen.made().outcome, seen.made().partial.trim()),
        (Outcome::Cancelled, "ready\ndone")
    );
}

#[tokio::test]
async fn drain_is_given_only_to_a_program_that_reads_stdin() {
    let mut stage = Stage::new();
    let run = stage.start(shell("echo ready; sleep 1000")).await;
    stage.until(says("ready")).await;
    stage.stop(run, 1_000_000, 5).await;
    let seen = stage.see_the_end().await;
    assert_eq!((seen.exit.clone(), seen.made().outcome), (Exit::Signal(15), Outcome::Cancelled));

    let run = stage.start(shell("read -r brief; echo ready; sleep 1000")).await;
    stage.until(says("ready")).await;
    let asked = Instant::now();
    stage.stop(run, 300, 5).await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.exit, Exit::Signal(15));
    assert!(asked.elapsed() >= Duration::from_millis(300), "no time was given");
}

#[tokio::test]
async fn program_lingering_after_its_result_is_ended() {
    let mut stage = Stage::new();
    let script = "say('result', outcome='success')\nwhile True: time.sleep(1000)";
    stage.start(python(script)).await;
    stage.until(|event| matches!(event, RunnerEvent::Result { .. })).await;
    tokio::time::pause();
    let seen = stage.see_the_end().await;
    assert!(matches!(seen.exit, Exit::Signal(15 | 9)), "{:?}", seen.exit);
    assert_eq!(seen.made, None);
}

#[tokio::test]
async fn wall_clock_ends_a_run() {
    let mut stage = Stage::new();
    let mut start = shell("echo half; sleep 1000");
    start.brief.wall = Some(Millis(300));
    let seen = stage.run(start).await;
    assert_eq!(seen.exit, Exit::Signal(15));
    let made = seen.made();
    assert_eq!(
        (made.outcome, made.error.as_str()),
        (Outcome::Failure, "wall clock of 300ms ended")
    );
    assert_eq!(made.partial, "half");
}

#[tokio::test]
async fn kill_ends_a_run_at_once_even_during_a_drain() {
    let mut stage = Stage::new();
    let run = stage.start(shell("trap '' TERM; echo ready; sleep 1000; sleep 1000")).await;
    stage.until(says("ready")).await;
    stage.stop(run, 1_000_000, 1_000_000).await;
    stage.order(Order::Kill { run }).await;
    stage.stop(run, 1_000_000, 1_000_000).await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.exit, Exit::Signal(9));
    assert_eq!(seen.made().outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn program_that_never_reads_delays_nothing() {
    let mut stage = Stage::new();
    let run = stage.start(shell("echo ready; sleep 1000")).await;
    stage.until(says("ready")).await;
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(32 * 1024));
    for _ in 0..100 {
        stage.mail(run, "info", &body).await;
    }
    stage.stop(run, 0, 60_000).await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.exit, Exit::Signal(15));
    assert!(!seen.log().contains("too many lines wait"), "{}", seen.log());
}

#[tokio::test]
async fn program_closing_its_stdin_goes_on() {
    let mut stage = Stage::new();
    let run =
        stage.start(shell("exec <&-; echo ready; while [ ! -e go ]; do sleep 0.01; done")).await;
    stage.until(says("ready")).await;
    for _ in 0..3 {
        stage.mail(run, "info", "{}").await;
    }
    stage.until(says("stdin is closed")).await;
    std::fs::write(stage.dir_of(run).join("go"), "").unwrap();
    let seen = stage.see_the_end().await;
    assert_eq!(seen.made().outcome, Outcome::Success);
}

#[tokio::test]
async fn slow_listener_does_not_delay_a_kill() {
    let mut stage = Stage::new();
    let run = stage.start(shell("echo $$; exec yes '{\"type\":\"unblocked\"}'")).await;
    let events = stage.until(|event| matches!(event, RunnerEvent::Unblocked)).await;
    let RunnerEvent::Started { pid: Some(pid), .. } = events[0] else { panic!("{events:?}") };
    stage.order(Order::Kill { run }).await;
    soon("the program's end, while nobody listens", async {
        while is_alive(&pid.to_string()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(stage.see_the_end().await.exit, Exit::Signal(9));
}

#[tokio::test]
async fn closing_the_order_channel_ends_every_run() {
    let mut stage = Stage::new();
    let mut pids = Vec::new();
    for _ in 0..3 {
        stage.start(shell("trap '' TERM; echo ready; sleep 1000; sleep 1000")).await;
        let events = stage.until(says("ready")).await;
        for event in events {
            if let RunnerEvent::Started { pid: Some(pid), .. } = event {
                pids.push(pid.to_string());
            }
        }
    }
    assert!(pids.iter().all(|pid| is_alive(pid)));
    let Stage { orders, observed, serving, .. } = stage;
    drop(orders);
    soon("the runner's return", serving).await.unwrap();
    drop(observed);
    assert_eq!(pids.len(), 3);
    assert!(!pids.iter().any(|pid| is_alive(pid)));
}

#[tokio::test]
async fn turn_timeout_comes_from_its_brief_or_else_its_host() {
    let mut stage = Stage::with(|config| config.turn_timeout = Some(Millis(400)));
    let script = "say('step_started')\nsay('step_ended')\nsay('progress', text=str(brief['turnTimeoutMs']))\n\
        time.sleep(0.6)\nsay('step_started')\nhear()";
    stage.start(python(script)).await;
    let told = |text: &'static str| move |event: &RunnerEvent| matches!(event, RunnerEvent::Progress { text: said, .. } if said == text);
    stage.until(told("400")).await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.exit, Exit::Signal(15));
    let made = seen.made();
    assert_eq!(made.outcome, Outcome::Failure);
    assert!(made.error.starts_with("a turn took longer than 400ms; "), "{}", made.error);

    let script = "say('step_started')\nsay('progress', text=str(brief['turnTimeoutMs']))\n\
        time.sleep(0.6)\nsay('result', outcome='success', deliverable='done')";
    let mut start = python(script);
    start.brief.turn_timeout = Some(Millis(60_000));
    stage.start(start).await;
    stage.until(told("60000")).await;
    let seen = stage.see_the_end().await;
    assert_eq!((seen.exit.clone(), seen.results().len()), (Exit::Code(0), 1));
}
