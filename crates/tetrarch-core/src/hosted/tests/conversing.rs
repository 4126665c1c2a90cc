//! What a session keeps of a conversation with a model, and the state of its run while that is summarised.

use super::*;
use crate::converse::Call;
use crate::journal::JournalEvent;
use crate::run::RunState;

#[test]
fn recorded_change_is_redacted_and_journaled_before_confirmation() {
    let secret = format!("ghp_{}", "aB3".repeat(12));
    let arguments = format!("{{\"key\":\"{secret}\"}}");
    let calls = vec![Call { id: "1".to_owned(), tool: "push".to_owned(), arguments }];
    let text = format!("I use {secret}");
    let recorded = Recorded::Turn { step: 1, text, calls, is_cut: false };
    let mut session = running(worker());
    let said = |confirm| RunnerEvent::Conversed { recorded: Box::new(recorded.clone()), confirm };
    let effects = session.step(NOW, SessionInput::Runner(said(Some(7))));
    let [SessionEffect::Journal(JournalEvent::Conversed(kept)), SessionEffect::Order(order)] =
        effects.as_slice()
    else {
        panic!("{effects:?}");
    };
    assert!(!format!("{kept:?}").contains(&secret), "{kept:?}");
    assert!(matches!(**order, Order::Deliver { line: Inbound::Noted(7), .. }), "{order:?}");
    assert_eq!(session.step(NOW, SessionInput::Runner(said(None))).len(), 1);
}

#[test]
fn summary_is_a_checkpoint_and_reported_once() {
    let mut session = running(worker());
    for (begins, moved) in [
        (true, Some(RunEvent::CompactionStarted)),
        (true, None),
        (false, Some(RunEvent::CompactionEnded)),
        (false, None),
    ] {
        let effects = session.step(NOW, SessionInput::Runner(RunnerEvent::Compacting { begins }));
        let told = effects.iter().find_map(|effect| {
            let SessionEffect::Report(report) = effect else { return None };
            let Report::Run { event, .. } = **report else { return None };
            Some(event)
        });
        assert_eq!(told, moved);
        assert_eq!(session.run_state() == RunState::Compacting, begins);
    }
}

#[test]
fn records_of_earlier_runs_are_given_to_the_next() {
    let mut session = worker();
    let heard = vec![Recorded::Heard { text: "left".to_owned(), letter: 0 }];
    session.go_on_with(RunId(Ulid(2)), heard.clone());
    let effects = session.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    let start = effects.iter().find_map(|effect| {
        let SessionEffect::Order(order) = effect else { return None };
        let Order::Start(start) = &**order else { return None };
        Some(start.recorded.clone())
    });
    assert_eq!(start, Some(heard));
}

#[test]
fn mail_heard_by_earlier_runs_is_not_repeated() {
    let begun = |recorded: &[Recorded]| {
        let mut session = worker();
        session.go_on_with(RunId(Ulid(2)), recorded.to_vec());
        running(session)
    };
    let at = |place: u64| {
        let SessionInput::Mail { from, mail, json, .. } =
            letter(MailBody::Info { text: "go".to_owned() })
        else {
            panic!("no mail");
        };
        SessionInput::Mail { from, mail, json, place }
    };
    let heard = [Recorded::Heard { text: "left".to_owned(), letter: 7 }];
    for (place, new) in [(1, false), (7, false), (8, true), (0, true)] {
        let effects = begun(&heard).step(NOW, at(place));
        let expected: &[&str] = if new { &["journal", "deliver"] } else { &[] };
        assert_eq!(kinds(&effects), expected, "{place}");
        assert_eq!(kinds(&begun(&[]).step(NOW, at(place))), ["journal", "deliver"], "{place}");
    }
    let mut session = worker();
    session.go_on_with(RunId(Ulid(2)), heard.to_vec());
    session.has_new_inbox();
    assert_eq!(kinds(&running(session).step(NOW, at(1))), ["journal", "deliver"]);
}

#[test]
fn returned_results_are_counted_over_all_runs_of_a_brief() {
    let journaled = |effects: &[SessionEffect]| -> Vec<(u32, String)> {
        let counted = effects.iter().filter_map(|effect| {
            let SessionEffect::Journal(JournalEvent::Returned { times, errors }) = effect else {
                return None;
            };
            Some((*times, errors.clone()))
        });
        counted.collect()
    };
    let returned = || SessionInput::Runner(RunnerEvent::Returned { errors: "no n".to_owned() });
    let mut first = running(worker());
    assert_eq!(journaled(&first.step(NOW, returned())), [(1, "no n".to_owned())]);
    assert_eq!(journaled(&first.step(NOW, returned())), [(2, "no n".to_owned())]);
    for (before, carried) in [(0, vec![]), (2, vec![(2, String::new())])] {
        let mut next = worker();
        next.go_on_after_returns(before);
        let effects = next.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
        let told = effects.iter().find_map(|effect| {
            let SessionEffect::Order(order) = effect else { return None };
            let Order::Start(start) = &**order else { return None };
            Some(start.returned)
        });
        assert_eq!((told, journaled(&effects)), (Some(before), carried), "whoever follows it");
        assert_eq!(journaled(&next.step(NOW, returned()))[0].0, before + 1);
    }
}
