//! Programs in the place of a coding agent that say what it says, something else, or nothing (docs/agents.md): what
//! they come to follows from their events, however they exit.

use tetrarch_core::brief::{Outcome, RunnerKind};
use tetrarch_core::order::{Exit, RunnerEvent, Start};

use crate::stage::{Stage, command};

/// A run of this shell script as `claude`; it finds the arguments in `$@`.
fn as_claude(script: &str) -> Start {
    let mut start = command(&["/bin/sh", "-c", script, "claude"]);
    start.brief.runner.kind = RunnerKind::Claude;
    start
}

fn stage() -> Stage {
    Stage::with(|config| config.containment.network = true)
}

const READS: &str = "read -r message; ";
const DONE: &str =
    r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'; "#;

#[tokio::test]
async fn exit_code_says_nothing_about_a_coding_agent() {
    let mut stage = stage();
    for (script, error) in [
        ("exit 0", "ended without a result (exit code 0)"),
        ("exit 3", "ended without a result (exit code 3)"),
        ("echo all is well; exit 0", "ended without a result (exit code 0)"),
        ("echo '{\"type\":\"result\",\"subtype\":'; exit 0", "ended without a result"),
        ("echo '{\"type\":\"new_kind\"}'; exit 0", "ended without a result"),
    ] {
        let seen = stage.run(as_claude(script)).await;
        let made = seen.made();
        assert_eq!(made.outcome, Outcome::Failure, "{script}");
        assert!(made.error.contains(error), "{script}: {}", made.error);
    }
    let seen = stage.run(as_claude(&format!("{READS}{DONE}exit 7"))).await;
    let results = seen.results();
    assert_eq!(
        (results[0].0.outcome, results[0].0.deliverable.as_str()),
        (Outcome::Success, "done")
    );
    assert_eq!((seen.exit.clone(), seen.made.clone()), (Exit::Code(7), None));
}

/// It reads its input to the end, which comes after its result.
#[tokio::test]
async fn input_of_a_coding_agent_is_closed_after_its_result() {
    let mut stage = stage();
    let seen = stage.run(as_claude(&format!("{READS}{DONE}cat > /dev/null; echo over"))).await;
    assert_eq!((seen.results().len(), seen.exit.clone()), (1, Exit::Code(0)));
    assert!(seen.log().contains("over"), "{}", seen.log());
}

#[tokio::test]
async fn unknown_events_of_a_coding_agent_are_logged_and_counted() {
    let mut stage = stage();
    let odd = r#"echo '{"type":"odd","x":1}'; echo '{"type":"odd"}'; "#;
    let seen = stage.run(as_claude(&format!("{READS}{odd}{DONE}"))).await;
    assert_eq!(seen.results()[0].0.outcome, Outcome::Success);
    for part in [r#"{"type":"odd","x":1}"#, "not known and were ignored: 2 of `odd`"] {
        assert!(seen.log().contains(part), "{part}: {}", seen.log());
    }
}

#[tokio::test]
async fn coding_agent_is_told_who_it_is_and_goes_on_only_with_what_it_began() {
    let mut stage = stage();
    let keeps = "mkdir -p \"$CLAUDE_CONFIG_DIR/projects/x\"; \
        for last; do :; done; printf '%s' \"$message\" > \"$CLAUDE_CONFIG_DIR/projects/x/$last.jsonl\"; ";
    let shows = "printf '%s\\n' \"$@\"; ";
    let dies = format!("{READS}{shows}{keeps}kill -9 $$");
    let first = as_claude(&dies);
    let mut second = as_claude(&format!("{READS}echo \"told $message\"; {shows}{DONE}"));
    second.first = first.run;
    second.checkpoint = Some(r#"{"using":["Bash: rm a"]}"#.to_owned());
    let seen = stage.run(first).await;
    assert_eq!((seen.exit.clone(), seen.made.clone()), (Exit::Signal(9), None));
    assert!(seen.log().contains("--session-id"), "{}", seen.log());
    let seen = stage.run(second.clone()).await;
    let log = seen.log();
    for part in ["--resume", "Go on where you were", "may have taken effect", "- Bash: rm a"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    // With its result the conversation is over.
    second.run = crate::stage::command(&[]).run;
    let seen = stage.run(second).await;
    assert!(seen.log().contains("--session-id"), "{}", seen.log());
}

/// A question about its state is answered for it, and every letter is consumed.
#[tokio::test]
async fn letters_to_a_coding_agent_are_messages_and_its_state_is_said_for_it() {
    let mut stage = stage();
    let start = as_claude(&format!("{READS}read -r letter; echo \"told $letter\"; {DONE}"));
    let run = start.run;
    stage.start(start).await;
    for (place, topic) in [(1, "status.request"), (2, "news")] {
        stage.post(run, topic, r#"{"a":"b"}"#, place).await;
    }
    let seen = stage.see_the_end().await;
    let log = seen.log();
    assert!(
        log.contains("[mail from PO-demo, topic news]") && !log.contains("status.request"),
        "{log}"
    );
    let mut taken = Vec::new();
    for event in &seen.events {
        if let RunnerEvent::Taken { place } = event {
            taken.push(*place);
        }
    }
    taken.sort_unstable();
    assert_eq!(taken, [1, 2]);
    let said = |event: &&RunnerEvent| matches!(event, RunnerEvent::Update { update } if update.contains("in_progress"));
    assert_eq!(seen.events.iter().filter(said).count(), 1, "{:?}", seen.events);
}
