//! Steering, interrupting and pausing real programs (docs/stdio-protocol.md, Verbs).

use tetrarch_core::brief::Outcome;
use tetrarch_core::id::{RequestId, RunId};
use tetrarch_core::order::{Exit, Order, RunnerEvent};
use tetrarch_core::time::Millis;
use tetrarch_core::verb::{Command, Stage, Wanted};

use crate::stage::{Stage as Runner, fresh, is_alive, python, shell, soon};

impl Runner {
    async fn verb(&self, run: RunId, wanted: Wanted) -> RequestId {
        let id = RequestId(fresh());
        let command = Command { id, by: "human:ada".parse().unwrap(), wanted };
        self.order(Order::Verb { run, command }).await;
        id
    }

    /// Events until a verb has come that far.
    async fn receipt(&mut self, of: RequestId, stage: Stage) -> Vec<RunnerEvent> {
        self.until(|event| {
            matches!(event, RunnerEvent::Receipt { id, stage: now, .. } if (*id, *now) == (of, stage))
        })
        .await
    }

    async fn progress(&mut self, wanted: &str) {
        let told = |event: &RunnerEvent| matches!(event, RunnerEvent::Progress { text, .. } if text == wanted);
        self.until(told).await;
    }
}

fn steer(text: &str) -> Wanted {
    Wanted::Steer { text: text.to_owned() }
}

fn why(events: &[RunnerEvent]) -> String {
    let Some(RunnerEvent::Receipt { why, .. }) = events.last() else { panic!("{events:?}") };
    why.clone()
}

/// Whether a process stands still: it was stopped, or its cgroup is frozen.
fn stands_still(pid: &str, isolation: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stopped = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
    let group = isolation.strip_prefix("cgroup ").and_then(|rest| rest.split(';').next());
    let held = group.is_some_and(|group| {
        let read = |name| std::fs::read_to_string(format!("{group}/{name}")).unwrap_or_default();
        let inside = read("cgroup.procs").lines().any(|line| line == pid);
        inside && read("cgroup.events").contains("frozen 1")
    });
    stopped || held
}

async fn until_still(pid: &str, isolation: &str, wanted: bool) {
    let reached = async {
        while stands_still(pid, isolation) != wanted {
            tokio::task::yield_now().await;
        }
    };
    soon("standing still, or going on", reached).await;
}

#[tokio::test]
async fn program_accepting_steers_gets_and_acknowledges_them() {
    let script = "say('takes', verbs=['steer', 'interrupt'])\n\
        say('progress', text='up')\n\
        heard = []\n\
        for _ in range(2):\n\
        \x20   line = hear()\n\
        \x20   heard.append([line['type'], line['from'], line.get('text', line.get('reason'))])\n\
        \x20   say('taken', id=line['id'])\n\
        say('result', outcome='success', deliverable=heard)\n";
    let mut runner = Runner::new();
    let run = runner.start(python(script)).await;
    runner.progress("up").await;
    let id = runner.verb(run, steer("left\n\"now\"")).await;
    runner.receipt(id, Stage::Effective).await;
    let id = runner.verb(run, Wanted::Interrupt { reason: "no".to_owned() }).await;
    runner.receipt(id, Stage::Effective).await;
    let seen = runner.see_the_end().await;
    let heard = &seen.results()[0].0.deliverable;
    let heard: serde_json::Value = serde_json::from_str(heard).unwrap();
    assert_eq!(
        heard,
        serde_json::json!([
            ["steer", "human:ada", "left\n\"now\""],
            ["interrupt", "human:ada", "no"]
        ])
    );
}

#[tokio::test]
async fn unaccepted_verb_is_refused_with_the_reason() {
    let mut runner = Runner::new();
    let script = "say('takes', verbs=['pause'])\nsay('progress', text='up')\nhear()\n";
    let run = runner.start(python(script)).await;
    runner.progress("up").await;
    let id = runner.verb(run, steer("left")).await;
    let events = runner.receipt(id, Stage::Refused).await;
    assert!(why(&events).contains("does not support steer"), "{events:?}");
    runner.order(Order::Kill { run }).await;
    runner.see_the_end().await;
    let id = runner.verb(run, steer("late")).await;
    let late = runner.next().await.event;
    let RunnerEvent::Receipt { id: of, stage: Stage::Refused, why } = late else {
        panic!("{late:?}")
    };
    assert!(of == id && why.contains("ended"), "{why}");
}

#[tokio::test]
async fn unconfirmed_verb_is_delivered_and_undeclared_verb_is_not_sent() {
    let mut runner = Runner::new();
    let script = "say('takes', verbs=['steer'])\nhear()\nsay('progress', text='read')\nhear()\n";
    let run = runner.start(python(script)).await;
    let id = runner.verb(run, steer("left")).await;
    runner.receipt(id, Stage::Delivered).await;
    runner.order(Order::Kill { run }).await;
    runner.see_the_end().await;

    let run = runner.start(shell("sleep 1000")).await;
    let id = runner.verb(run, steer("left")).await;
    let events = runner.receipt(id, Stage::Refused).await;
    assert!(why(&events).contains("does not announce"), "{events:?}");
    runner.order(Order::Kill { run }).await;
    runner.see_the_end().await;
}

#[tokio::test]
async fn steer_precedes_waiting_mail() {
    let mut runner = Runner::new();
    let gate = runner.dir.path().join("gate");
    let script = format!(
        "say('takes', verbs=['steer'])\nsay('progress', text='up')\n\
         while not os.path.exists({gate:?}): time.sleep(0.005)\n\
         before = 0\n\
         while (line := hear())['type'] == 'mail': before += 1\n\
         say('taken', id=line['id'])\n\
         say('result', outcome='success', deliverable=str(before))\n"
    );
    let run = runner.start(python(&script)).await;
    runner.progress("up").await;
    let body = serde_json::json!({"text": "x".repeat(16 * 1024)}).to_string();
    for _ in 0..32 {
        runner.mail(run, "info", &body).await;
    }
    let id = runner.verb(run, steer("left")).await;
    std::fs::write(&gate, "").unwrap();
    runner.receipt(id, Stage::Effective).await;
    let seen = runner.see_the_end().await;
    let before: usize = seen.results()[0].0.deliverable.parse().unwrap();
    assert!(before < 12, "{before} letters were read before it: more than the pipe holds");
}

#[tokio::test]
async fn paused_run_freezes_all_descendants_and_resumes() {
    for mut runner in [Runner::new(), Runner::without_cgroup()] {
        let script = "pid = os.fork()\n\
            if pid == 0:\n\
            \x20   os.setsid()\n\
            \x20   while True: time.sleep(0.01)\n\
            say('progress', text=str(os.getpid()))\n\
            say('progress', text=str(pid))\n\
            hear()\n\
            say('result', outcome='success')\n";
        let mut start = python(script);
        start.brief.wall = Some(Millis(60_000));
        let run = runner.start(start).await;
        let events = runner.until(|event| matches!(event, RunnerEvent::Progress { .. })).await;
        let pid = |events: &[RunnerEvent]| {
            let Some(RunnerEvent::Progress { text, .. }) = events.last() else { panic!() };
            text.clone()
        };
        let leader = pid(&events);
        let Some(RunnerEvent::Started { isolation, .. }) = events.first() else { panic!() };
        let child = pid(&runner.until(|e| matches!(e, RunnerEvent::Progress { .. })).await);
        let id = runner.verb(run, Wanted::Pause).await;
        runner.receipt(id, Stage::Effective).await;
        for pid in [&leader, &child] {
            until_still(pid, isolation, true).await;
        }
        let id = runner.verb(run, Wanted::Resume).await;
        runner.receipt(id, Stage::Effective).await;
        for pid in [&leader, &child] {
            until_still(pid, isolation, false).await;
        }
        runner.mail(run, "info", "{}").await;
        let seen = runner.see_the_end().await;
        assert_eq!(seen.results()[0].0.outcome, Outcome::Success);
        assert!(!is_alive(&child));
    }
}

#[tokio::test]
async fn stop_of_a_paused_run_thaws_it() {
    let mut runner = Runner::new();
    let script = "say('takes', verbs=[])\nsay('progress', text='up')\nstop = hear()\n\
        say('result', outcome='cancelled', partial=stop['reason'])\n";
    let run = runner.start(python(script)).await;
    runner.progress("up").await;
    let id = runner.verb(run, Wanted::Pause).await;
    runner.receipt(id, Stage::Effective).await;
    runner.stop(run, 60_000, 60_000).await;
    let seen = runner.see_the_end().await;
    assert_eq!(seen.results()[0].0.partial, "enough");
    assert_eq!(seen.exit, Exit::Code(0));
}

#[tokio::test]
async fn paused_deaf_program_is_killed_with_its_descendants() {
    for mut runner in [Runner::new(), Runner::without_cgroup()] {
        let deaf = "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & \
            echo ready $!; while :; do sleep 1; done";
        let run = runner.start(shell(deaf)).await;
        let ready = |event: &RunnerEvent| matches!(event, RunnerEvent::Log { text } if text.contains("ready"));
        let events = runner.until(ready).await;
        let Some(RunnerEvent::Log { text }) = events.last() else { panic!("{events:?}") };
        let left = text.trim().rsplit(' ').next().unwrap().to_owned();
        let id = runner.verb(run, Wanted::Pause).await;
        runner.receipt(id, Stage::Effective).await;
        runner.stop(run, 50, 50).await;
        let seen = runner.see_the_end().await;
        assert_eq!(seen.exit, Exit::Signal(9));
        assert_eq!(seen.made().outcome, Outcome::Cancelled);
        assert!(!is_alive(&left), "what left its session is gone too");
    }
}

#[tokio::test]
async fn frozen_time_does_not_count_as_wall_clock() {
    let mut runner = Runner::new();
    let script = "say('progress', text='up')\nhear()\nsay('result', outcome='success')\n";
    let mut start = python(script);
    start.brief.wall = Some(Millis(1_500));
    let run = runner.start(start).await;
    runner.progress("up").await;
    let id = runner.verb(run, Wanted::Pause).await;
    runner.receipt(id, Stage::Effective).await;
    // Another program, that runs for longer than this one may.
    Runner::new().run(shell("sleep 1.6")).await;
    let id = runner.verb(run, Wanted::Resume).await;
    runner.receipt(id, Stage::Effective).await;
    runner.mail(run, "info", "{}").await;
    let seen = runner.see_the_end().await;
    assert_eq!(seen.results()[0].0.outcome, Outcome::Success);
}

#[tokio::test]
async fn program_with_pause_support_is_told_and_then_frozen() {
    let mut runner = Runner::new();
    let script = "say('takes', verbs=['pause'])\nsay('progress', text=str(os.getpid()))\n\
        for _ in range(2):\n\
        \x20   line = hear()\n\
        \x20   say('progress', text=line['type'])\n\
        \x20   say('taken', id=line['id'])\n\
        say('result', outcome='success')\n";
    let run = runner.start(python(script)).await;
    let (pid, isolation) = up(&mut runner).await;
    let id = runner.verb(run, Wanted::Pause).await;
    runner.progress("pause").await;
    runner.receipt(id, Stage::Effective).await;
    until_still(&pid, &isolation, true).await;
    let id = runner.verb(run, Wanted::Resume).await;
    runner.progress("resume").await;
    runner.receipt(id, Stage::Effective).await;
    let seen = runner.see_the_end().await;
    assert_eq!(seen.results()[0].0.outcome, Outcome::Success);
}

#[tokio::test]
async fn program_that_never_confirms_its_resume_ends_with_its_wall_clock() {
    let mut runner = Runner::new();
    let script = "say('takes', verbs=['pause'])\nsay('progress', text=str(os.getpid()))\n\
        say('taken', id=hear()['id'])\n\
        while True: time.sleep(0.05)\n";
    let mut start = python(&format!("import time\n{script}"));
    start.brief.wall = Some(Millis(1_500));
    let run = runner.start(start).await;
    let (pid, isolation) = up(&mut runner).await;
    let id = runner.verb(run, Wanted::Pause).await;
    runner.receipt(id, Stage::Effective).await;
    until_still(&pid, &isolation, true).await;
    let id = runner.verb(run, Wanted::Resume).await;
    runner.receipt(id, Stage::Delivered).await;
    runner.see_the_end().await;
}

/// The process of a program that says it, and how it is isolated.
async fn up(runner: &mut Runner) -> (String, String) {
    let events = runner.until(|event| matches!(event, RunnerEvent::Progress { .. })).await;
    let isolation = events.iter().find_map(|event| {
        if let RunnerEvent::Started { isolation, .. } = event {
            Some(isolation.clone())
        } else {
            None
        }
    });
    let Some(RunnerEvent::Progress { text, .. }) = events.last() else { panic!("{events:?}") };
    (text.clone(), isolation.unwrap_or_default())
}
