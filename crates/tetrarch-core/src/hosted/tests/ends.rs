//! The ways in which a session ends, and what it never does then.

use super::*;
use crate::limits::QUESTIONS_MAX;

fn reports(effects: &[SessionEffect]) -> Vec<&Report> {
    let mut told = Vec::new();
    for effect in effects {
        if let SessionEffect::Report(report) = effect {
            told.push(&**report);
        }
    }
    told
}

fn stop() -> SessionInput {
    letter(MailBody::Stop(order("enough")))
}

fn kill() -> SessionInput {
    letter(MailBody::Kill(order("replaced")))
}

#[test]
fn stop_before_the_claim_prevents_the_start() {
    let mut hosted = worker();
    assert_eq!(hosted.begin(), [SessionEffect::Claim]);
    assert_eq!(hosted.step(NOW, stop()), [], "nothing is written before the claim");
    let effects = hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    assert_eq!(kinds(&effects), ["journal", "report", "note", "journal", "report", "end"]);
    let told = reports(&effects);
    assert!(matches!(told[0], Report::Run { event: RunEvent::CancelRequested, .. }));
    let cancelled = matches!(told[1], Report::Result { result, .. }
        if result.outcome == Outcome::Cancelled && result.error == "enough");
    assert!(cancelled, "{told:?}");
}

#[test]
fn kill_before_the_claim_ends_the_session() {
    let mut hosted = worker();
    assert_eq!(kinds(&hosted.step(NOW, kill())), ["report", "end"]);
    assert_eq!(hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed)), []);
}

#[test]
fn program_that_cannot_be_started_has_failed() {
    let mut hosted = worker();
    hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    let failed = RunnerEvent::SpawnFailed { error: "no such program".to_owned() };
    let effects = hosted.step(NOW, SessionInput::Runner(failed));
    assert_eq!(kinds(&effects), ["note", "journal", "report", "end"]);
    let said = matches!(reports(&effects)[0], Report::Result { result, .. }
        if result.outcome == Outcome::Failure && result.error == "no such program");
    assert!(said, "{effects:?}");
}

#[test]
fn stop_is_requested_once_despite_a_late_start() {
    let mut hosted = worker();
    hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    assert_eq!(kinds(&hosted.step(NOW, stop())), ["journal", "report", "stop"]);
    let started = RunnerEvent::Started { pid: None, isolation: String::new() };
    hosted.step(NOW, SessionInput::Runner(started));
    assert_eq!(hosted.step(NOW, stop()), [], "it is ending");
    assert_eq!(kinds(&hosted.step(NOW, kill())), ["kill"], "a kill still kills");
    assert_eq!(hosted.step(NOW, kill()), []);
}

#[test]
fn kill_after_the_exit_is_immediate() {
    let mut hosted = running(worker());
    let mut result = *success();
    result.deliverable = "x".repeat(DELIVERABLE_BYTES_MAX + 1);
    hosted.step(
        NOW,
        SessionInput::Runner(RunnerEvent::Result { result: Box::new(result), files: Vec::new() }),
    );
    assert_eq!(exited(&mut hosted), [], "its text is being stored");
    assert_eq!(kinds(&hosted.step(NOW, kill())), ["journal", "report", "end"]);
    assert_eq!(hosted.step(NOW, SessionInput::Stored(Vec::new())), []);
}

#[test]
fn session_fenced_during_its_end_still_ends() {
    let mut hosted = running(worker());
    let result = RunnerEvent::Result { result: success(), files: Vec::new() };
    hosted.step(NOW, SessionInput::Runner(result));
    let effects = exited(&mut hosted);
    assert_eq!(kinds(&effects), ["note", "journal", "report", "end"]);
    // The shell stopped at the first of them.
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Fenced)), ["end"]);
}

#[test]
fn session_fenced_during_its_start_awaits_no_exit() {
    let mut hosted = worker();
    hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Fenced)), ["kill", "end"]);
}

#[test]
fn first_result_stands_and_counters_only_grow() {
    let mut hosted = running(worker());
    let used = |turns| Usage { turns, ..Usage::default() };
    hosted.step(NOW, SessionInput::Runner(RunnerEvent::Usage(used(7))));
    hosted.step(NOW, SessionInput::Runner(RunnerEvent::Usage(used(3))));
    let blocked = RunnerEvent::Blocked { reason: "a lock".to_owned() };
    let effects = hosted.step(NOW, SessionInput::Runner(blocked));
    let told = matches!(reports(&effects)[0], Report::Run { usage, .. } if *usage == used(7));
    assert!(told, "{effects:?}");
    let result = |text: &str| {
        let mut result = success();
        text.clone_into(&mut result.deliverable);
        SessionInput::Runner(RunnerEvent::Result { result, files: Vec::new() })
    };
    hosted.step(NOW, result("first"));
    assert_eq!(hosted.step(NOW, result("second")), []);
    let effects = exited(&mut hosted);
    let first = matches!(reports(&effects)[0], Report::Result { result, .. }
        if result.deliverable == "first" && result.usage == used(7));
    assert!(first, "{effects:?}");
}

#[test]
fn answer_resumes_only_a_waiting_run() {
    let mut hosted = running(worker());
    let answer = || letter(MailBody::Answer { question: None, text: "yes".to_owned() });
    assert_eq!(kinds(&hosted.step(NOW, answer())), ["journal", "deliver"]);
    let ask = RunnerEvent::Ask { id: None, question: "well?".to_owned(), options: Vec::new() };
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Runner(ask))), ["journal", "report"]);
    assert_eq!(kinds(&hosted.step(NOW, answer())), ["report", "journal", "deliver"]);
    assert_eq!(kinds(&hosted.step(NOW, answer())), ["journal", "deliver"]);
}

/// What a session has asked, by name.
fn asked(hosted: &mut HostedSession, text: &str) -> Option<QuestionId> {
    let ask = RunnerEvent::Ask { id: None, question: text.to_owned(), options: Vec::new() };
    let effects = hosted.step(NOW, SessionInput::Runner(ask));
    reports(&effects).into_iter().find_map(|report| match report {
        Report::Ask { id, .. } => *id,
        Report::Ready
        | Report::Gone { .. }
        | Report::Crashed { .. }
        | Report::Run { .. }
        | Report::Result { .. }
        | Report::Consumed { .. }
        | Report::Update { .. }
        | Report::Verb { .. }
        | Report::SetAside(_)
        | Report::Change { .. }
        | Report::Settled { .. }
        | Report::Draw { .. }
        | Report::BudgetWarning { .. }
        | Report::SponsorSilent { .. } => None,
    })
}

#[test]
fn answer_ends_only_the_wait_for_its_question() {
    let mut hosted = running(worker());
    let first = asked(&mut hosted, "which?");
    let second = asked(&mut hosted, "and when?");
    assert!(first.is_some() && second.is_some() && first != second);
    let answer = |question| letter(MailBody::Answer { question, text: "yes".to_owned() });
    let earlier = Some(QuestionId(Ulid(99)));
    assert_eq!(kinds(&hosted.step(NOW, answer(earlier))), [""; 0], "an earlier session's");
    assert_eq!(kinds(&hosted.step(NOW, answer(second))), ["journal", "deliver"]);
    assert_eq!(hosted.run_state(), RunState::AwaitingInput);
    assert_eq!(kinds(&hosted.step(NOW, answer(first))), ["report", "journal", "deliver"]);
    assert_eq!(hosted.run_state(), RunState::Running);
    assert_eq!(kinds(&hosted.step(NOW, answer(first))), [""; 0], "it came twice");
}

#[test]
fn answer_names_what_its_program_calls_the_question() {
    let mut hosted = running(worker());
    let mut ask = |number| {
        let id = Some(RequestId(Ulid(number)));
        let ask = RunnerEvent::Ask { id, question: "well?".to_owned(), options: Vec::new() };
        let effects = hosted.step(NOW, SessionInput::Runner(ask));
        reports(&effects).into_iter().find_map(|report| {
            let Report::Ask { id, .. } = report else { return None };
            *id
        })
    };
    let questions = [ask(8), ask(9)];
    for (question, number) in [(questions[1], 9), (questions[0], 8)] {
        let answer = letter(MailBody::Answer { question, text: "yes".to_owned() });
        let effects = hosted.step(NOW, answer);
        let named = effects.iter().find_map(|effect| {
            let SessionEffect::Order(order) = effect else { return None };
            let Order::Deliver { line: Inbound::Mail { answers, .. }, .. } = &**order else {
                return None;
            };
            *answers
        });
        assert_eq!(named, Some(RequestId(Ulid(number))));
    }
}

#[test]
fn excess_questions_are_refused_to_the_program() {
    let mut hosted = running(worker());
    for number in 0..QUESTIONS_MAX {
        assert!(asked(&mut hosted, &format!("{number}?")).is_some());
    }
    let ask = RunnerEvent::Ask { id: None, question: "one more?".to_owned(), options: Vec::new() };
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Runner(ask))), ["deliver"]);
}

#[test]
fn each_request_has_its_own_timeout() {
    let mut hosted = running(session(&format!("S:api:{}", Ulid(7))));
    let ask = |hosted: &mut HostedSession, now| {
        hosted.step(now, SessionInput::SpawnRead(Ok((None, wanted()))))
    };
    ask(&mut hosted, NOW);
    let later = BusTime(NOW.0 + 1_000);
    ask(&mut hosted, later);
    let first = hosted.next_deadline().unwrap();
    assert_eq!(kinds(&hosted.step(first, SessionInput::Tick)), ["report"]);
    let second = hosted.next_deadline().unwrap();
    assert_eq!(second, BusTime(first.0 + 1_000));
    assert_eq!(kinds(&hosted.step(second, SessionInput::Tick)), ["report"]);
    assert_eq!(hosted.next_deadline(), None);
}

#[test]
fn undecodable_request_is_refused_to_its_program() {
    let mut hosted = running(worker());
    let spawn = RunnerEvent::Spawn { request: "{".to_owned() };
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Runner(spawn))), ["read spawn"]);
    let effects = hosted.step(NOW, SessionInput::SpawnRead(Err("line 1: \"quoted\"".to_owned())));
    let SessionEffect::Order(order) = &effects[0] else { panic!("{effects:?}") };
    let Order::Deliver { line: crate::order::Inbound::Mail { topic, body, .. }, .. } = &**order
    else {
        panic!("{order:?}")
    };
    assert_eq!(topic, "spawn.denied");
    let said: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(said["error"], "line 1: \"quoted\"");
}

fn rotate() -> SessionInput {
    letter(MailBody::Rotate(order("a new context")))
}

fn ended(hosted: &mut HostedSession, exit: Exit) -> Vec<SessionEffect> {
    hosted.step(NOW, SessionInput::Runner(RunnerEvent::Exited { exit, result: None }))
}

#[test]
fn rotation_is_requested_once_and_gives_no_result() {
    for exit in [Exit::Code(0), Exit::Code(1), Exit::Code(143), Exit::Signal(15), Exit::Signal(9)] {
        let mut hosted = running(worker());
        assert_eq!(kinds(&hosted.step(NOW, rotate())), ["journal", "rotate"]);
        assert_eq!(hosted.step(NOW, rotate()), []);
        let state = "7".to_owned();
        let checkpoint = RunnerEvent::Checkpoint { state, confirm: false };
        assert_eq!(kinds(&hosted.step(NOW, SessionInput::Runner(checkpoint))), ["journal"]);
        let effects = ended(&mut hosted, exit);
        assert_eq!(kinds(&effects), ["journal", "report", "end"]);
        let gone = Report::Gone { cause: "a new context".to_owned() };
        assert_eq!(reports(&effects), [&gone]);
    }
}

#[test]
fn session_of_a_stopping_host_ends_at_a_boundary_and_reports_nothing() {
    let mut hosted = running(worker());
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::HostStops)), ["journal", "rotate"]);
    assert_eq!(hosted.step(NOW, SessionInput::HostStops), []);
    let effects = ended(&mut hosted, Exit::Code(0));
    assert_eq!(kinds(&effects), ["journal", "end"]);
    let cause = "rotated: its host stops".to_owned();
    assert_eq!(effects[0], SessionEffect::Journal(JournalEvent::Ended { cause }));

    let mut finishing = running(worker());
    finishing.step(NOW, SessionInput::HostStops);
    let exit = RunnerEvent::Exited { exit: Exit::Code(0), result: Some(success()) };
    let effects = finishing.step(NOW, SessionInput::Runner(exit));
    assert!(matches!(reports(&effects)[..], [Report::Result { .. }]), "{effects:?}");

    let mut killed = running(worker());
    killed.step(NOW, SessionInput::HostStops);
    killed.step(NOW, kill());
    assert_eq!(kinds(&ended(&mut killed, Exit::Signal(9))), ["journal", "report", "end"]);

    assert_eq!(kinds(&worker().step(NOW, SessionInput::HostStops)), ["end"], "not begun");
}

#[test]
fn program_finishing_during_rotation_has_finished() {
    let mut hosted = running(worker());
    hosted.step(NOW, rotate());
    let result = RunnerEvent::Result { result: success(), files: Vec::new() };
    hosted.step(NOW, SessionInput::Runner(result));
    let effects = ended(&mut hosted, Exit::Signal(9));
    assert!(matches!(reports(&effects)[..], [Report::Result { .. }]), "{effects:?}");

    let mut plain = running(worker());
    plain.step(NOW, rotate());
    let exit = RunnerEvent::Exited { exit: Exit::Code(0), result: Some(success()) };
    let effects = plain.step(NOW, SessionInput::Runner(exit));
    assert!(matches!(reports(&effects)[..], [Report::Result { .. }]), "{effects:?}");
}

#[test]
fn rotation_before_the_claim_ends_the_session() {
    let mut hosted = worker();
    let effects = hosted.step(NOW, rotate());
    assert_eq!(kinds(&effects), ["report", "end"]);
    assert_eq!(hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed)), []);
}

#[test]
fn stop_or_kill_overrides_rotation() {
    let mut hosted = running(worker());
    hosted.step(NOW, rotate());
    assert_eq!(kinds(&hosted.step(NOW, stop())), ["journal", "report", "stop"]);
    assert_eq!(hosted.step(NOW, rotate()), [], "it is ending");
    let cancelled = Some(Box::new(RunResult::ended(Outcome::Cancelled, "stopped")));
    let exit = RunnerEvent::Exited { exit: Exit::Signal(15), result: cancelled };
    let effects = hosted.step(NOW, SessionInput::Runner(exit));
    assert!(matches!(reports(&effects)[..], [Report::Result { .. }]), "{effects:?}");

    let mut hosted = running(worker());
    hosted.step(NOW, rotate());
    hosted.step(NOW, stop());
    let effects = ended(&mut hosted, Exit::Code(0));
    assert!(matches!(reports(&effects)[..], [Report::Result { .. }]), "it left as it was asked");

    let mut hosted = running(worker());
    hosted.step(NOW, rotate());
    assert_eq!(kinds(&hosted.step(NOW, kill())), ["kill"]);
    assert_eq!(hosted.step(NOW, rotate()), []);
    assert_eq!(kinds(&ended(&mut hosted, Exit::Signal(9))), ["journal", "report", "end"]);
}

#[test]
fn rotation_after_the_exit_changes_nothing() {
    let mut hosted = running(worker());
    let mut result = *success();
    result.deliverable = "x".repeat(DELIVERABLE_BYTES_MAX + 1);
    let told = RunnerEvent::Result { result: Box::new(result), files: Vec::new() };
    hosted.step(NOW, SessionInput::Runner(told));
    exited(&mut hosted);
    assert_eq!(hosted.step(NOW, rotate()), []);
    let effects = hosted.step(NOW, SessionInput::Stored(Vec::new()));
    assert!(matches!(reports(&effects)[..], [Report::Result { .. }]), "{effects:?}");
}
