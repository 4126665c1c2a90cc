//! Verbs through a session: to the runner, back as receipts, and what waits while it is paused.

use super::*;
use crate::mail::VerbOrder;
use crate::run::{RunEvent, RunState};
use crate::verb::{Command, Stage, Wanted};

fn verb_id(number: u128) -> RequestId {
    RequestId(Ulid(number))
}

fn verb(number: u128, wanted: Wanted) -> SessionInput {
    let by: Principal = "human:ada".parse().unwrap();
    letter(MailBody::Verb(Box::new(VerbOrder {
        agent: format!("W:{}", Ulid(1)).parse().unwrap(),
        session: Some(SessionId(Ulid(3))),
        epoch: 1,
        command: Command { id: verb_id(number), by, wanted },
    })))
}

fn steer() -> Wanted {
    Wanted::Steer { text: "left".to_owned() }
}

fn interrupt() -> Wanted {
    Wanted::Interrupt { reason: String::new() }
}

fn receipt(number: u128, stage: Stage) -> SessionInput {
    let (id, why) = (verb_id(number), String::new());
    SessionInput::Runner(RunnerEvent::Receipt { id, stage, why })
}

/// What is told the owner, in few words.
fn told(effects: &[SessionEffect]) -> Vec<String> {
    let reports = effects.iter().filter_map(|effect| {
        let SessionEffect::Report(report) = effect else { return None };
        if let Report::Verb { verb, stage, .. } = &**report {
            return Some(format!("{} {}", verb.as_str(), stage.as_str()));
        }
        if let Report::Run { event, .. } = &**report {
            return Some(event.as_str().to_owned());
        }
        Some(report.kind().to_owned())
    });
    reports.collect()
}

fn asks(hosted: &mut HostedSession) -> Vec<SessionEffect> {
    let question =
        RunnerEvent::Ask { id: None, question: "which?".to_owned(), options: Vec::new() };
    hosted.step(NOW, SessionInput::Runner(question))
}

fn paused() -> HostedSession {
    let mut hosted = running(worker());
    hosted.step(NOW, verb(10, Wanted::Pause));
    hosted.step(NOW, receipt(10, Stage::Delivered));
    let effects = hosted.step(NOW, receipt(10, Stage::Effective));
    assert_eq!(told(&effects), ["pause effective"]);
    assert_eq!(hosted.run_state(), RunState::PausedByUser);
    hosted
}

fn resumed(hosted: &mut HostedSession) -> Vec<SessionEffect> {
    assert_eq!(kinds(&hosted.step(NOW, verb(11, Wanted::Resume))), ["journal", "verb"]);
    hosted.step(NOW, receipt(11, Stage::Effective))
}

#[test]
fn verb_is_journaled_then_ordered_and_receipts_reported() {
    let mut hosted = running(worker());
    assert_eq!(kinds(&hosted.step(NOW, verb(10, steer()))), ["journal", "verb"]);
    assert!(hosted.step(NOW, verb(10, steer())).is_empty(), "it came twice");
    assert_eq!(told(&hosted.step(NOW, receipt(10, Stage::Delivered))), ["steer delivered"]);
    assert_eq!(told(&hosted.step(NOW, receipt(10, Stage::Effective))), ["steer effective"]);
    assert!(hosted.step(NOW, receipt(10, Stage::Effective)).is_empty(), "it ended");
    assert!(hosted.step(NOW, receipt(99, Stage::Effective)).is_empty(), "nobody asked for it");
    assert_eq!(hosted.run_state(), RunState::Running);
}

#[test]
fn early_or_late_verb_is_refused_and_not_ordered() {
    let refused = |hosted: &mut HostedSession, wanted: Wanted| {
        let word = wanted.verb().as_str();
        let effects = hosted.step(NOW, verb(10, wanted));
        assert_eq!(told(&effects), [format!("{word} refused")]);
        assert!(!kinds(&effects).contains(&"verb"));
    };
    let mut starting = worker();
    starting.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    refused(&mut starting, steer());
    let mut stopping = running(worker());
    stopping.step(NOW, letter(MailBody::Stop(order("enough"))));
    refused(&mut stopping, Wanted::Pause);
    let mut rotating = running(worker());
    rotating.step(NOW, letter(MailBody::Rotate(order("anew"))));
    refused(&mut rotating, steer());
    let mut done = running(worker());
    done.step(
        NOW,
        SessionInput::Runner(RunnerEvent::Result { result: success(), files: Vec::new() }),
    );
    refused(&mut done, steer());
    let mut asking = running(worker());
    asks(&mut asking);
    refused(&mut asking, Wanted::Pause);
    refused(&mut asking, interrupt());
    refused(&mut running(worker()), Wanted::Resume);
}

#[test]
fn interrupted_run_resumes_on_steer_or_answer() {
    for answered in [false, true] {
        let mut hosted = running(worker());
        hosted.step(NOW, verb(10, interrupt()));
        hosted.step(NOW, receipt(10, Stage::Delivered));
        assert_eq!(hosted.run_state(), RunState::Running);
        assert_eq!(told(&hosted.step(NOW, receipt(10, Stage::Effective))), ["interrupt effective"]);
        assert_eq!(hosted.run_state(), RunState::AwaitingInput);
        let effects = if answered {
            hosted.step(NOW, letter(MailBody::Answer { question: None, text: "on".to_owned() }))
        } else {
            hosted.step(NOW, verb(11, steer()));
            hosted.step(NOW, receipt(11, Stage::Delivered))
        };
        assert!(told(&effects).contains(&"input_received".to_owned()), "{effects:?}");
        assert_eq!(hosted.run_state(), RunState::Running);
    }
}

#[test]
fn interrupted_run_that_asks_waits_for_the_answer() {
    let mut hosted = running(worker());
    hosted.step(NOW, verb(10, interrupt()));
    hosted.step(NOW, receipt(10, Stage::Effective));
    asks(&mut hosted);
    hosted.step(NOW, verb(11, steer()));
    assert_eq!(told(&hosted.step(NOW, receipt(11, Stage::Delivered))), ["steer delivered"]);
    assert_eq!(hosted.run_state(), RunState::AwaitingInput);
}

#[test]
fn deferred_report_of_a_paused_run_is_sent_on_resume() {
    let mut hosted = paused();
    assert_eq!(told(&asks(&mut hosted)), [""; 0], "the line was in the pipe");
    assert_eq!(hosted.run_state(), RunState::PausedByUser);
    assert_eq!(told(&resumed(&mut hosted)), ["resume effective", "ask"]);
    assert_eq!(hosted.run_state(), RunState::AwaitingInput);

    let mut hosted = paused();
    let blocked = RunnerEvent::Blocked { reason: "a lock".to_owned() };
    assert_eq!(told(&hosted.step(NOW, SessionInput::Runner(blocked.clone()))), [""; 0]);
    assert_eq!(told(&resumed(&mut hosted)), ["resume effective", "external_blocked"]);

    let mut hosted = paused();
    hosted.step(NOW, SessionInput::Runner(blocked));
    assert_eq!(told(&hosted.step(NOW, SessionInput::Runner(RunnerEvent::Unblocked))), [""; 0]);
    assert_eq!(told(&resumed(&mut hosted)), ["resume effective"]);

    let mut hosted = running(worker());
    hosted.step(NOW, verb(9, interrupt()));
    hosted.step(NOW, verb(10, Wanted::Pause));
    hosted.step(NOW, receipt(10, Stage::Effective));
    assert_eq!(told(&hosted.step(NOW, receipt(9, Stage::Effective))), [""; 0]);
    assert_eq!(told(&resumed(&mut hosted)), ["resume effective", "interrupt effective"]);
    assert_eq!(hosted.run_state(), RunState::AwaitingInput);
}

#[test]
fn mail_waits_during_pause_in_order() {
    let mut hosted = paused();
    assert!(hosted.holds_mail());
    for text in ["one", "two"] {
        assert!(hosted.step(NOW, letter(MailBody::Info { text: text.to_owned() })).is_empty());
    }
    let effects = resumed(&mut hosted);
    let given = kinds(&effects).into_iter().filter(|kind| *kind == "deliver").count();
    assert_eq!(given, 2, "{effects:?}");
    assert!(!hosted.holds_mail());
}

#[test]
fn run_that_waited_before_its_pause_is_released() {
    let mut hosted = running(worker());
    hosted.step(NOW, verb(10, Wanted::Pause));
    asks(&mut hosted);
    let effects = hosted.step(NOW, receipt(10, Stage::Effective));
    assert_eq!(told(&effects), ["pause refused"]);
    let let_go = effects.iter().any(|effect| {
        matches!(effect, SessionEffect::Order(order)
            if matches!(&**order, Order::Verb { command, .. } if command.wanted == Wanted::Resume))
    });
    assert!(let_go, "{effects:?}");
    assert_eq!(hosted.run_state(), RunState::AwaitingInput);
}

#[test]
fn stop_of_a_paused_run_is_ordered_and_waiting_verbs_dropped() {
    let mut hosted = paused();
    asks(&mut hosted);
    let effects = hosted.step(NOW, letter(MailBody::Stop(order("enough"))));
    assert_eq!(kinds(&effects), ["journal", "report", "stop"]);
    assert_eq!(told(&effects), [RunEvent::CancelRequested.as_str()]);
    assert_eq!(hosted.run_state(), RunState::Cancelling);
    assert_eq!(kinds(&exited(&mut hosted)), ["note", "journal", "report", "end"]);
}

#[test]
fn verb_from_an_agent_names_its_real_sender() {
    let mut hosted = running(worker());
    let SessionInput::Mail { mail, json, .. } = verb(10, steer()) else { panic!("no mail") };
    let from: Principal = "PO-a".parse().unwrap();
    let effects = hosted.step(NOW, SessionInput::Mail { from: from.clone(), mail, json, place: 0 });
    let by = effects.iter().find_map(|effect| {
        let SessionEffect::Order(order) = effect else { return None };
        let Order::Verb { command, .. } = &**order else { return None };
        Some(command.by.clone())
    });
    assert_eq!(by, Some(from), "a letter cannot name another as who asks");
}
