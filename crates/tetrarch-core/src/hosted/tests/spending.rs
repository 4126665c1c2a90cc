//! What a session's program may spend, and what is written down before it does.

use super::*;
use crate::journal::BudgetNote;

fn granted(tokens: u64) -> Hosted {
    let mut hosted = worker();
    hosted.run.brief.budget = Limits { tokens: Some(tokens), ..Limits::default() };
    hosted.go_on_from(None, Spend::default());
    running(hosted)
}

fn tokens(tokens: u64) -> Spend {
    Spend { tokens, ..Spend::default() }
}

fn call(hosted: &mut Hosted, call: &str, worst: u64) -> Vec<Effect> {
    let (call, worst) = (call.to_owned(), tokens(worst));
    hosted.step(NOW, Input::Runner(RunnerEvent::SetAside { call, worst }))
}

fn line(effect: &Effect) -> &Inbound {
    let Effect::Order(order) = effect else { panic!("{effect:?}") };
    let Order::Deliver { line, .. } = &**order else { panic!("{order:?}") };
    line
}

#[test]
fn what_is_set_aside_is_journaled_before_the_program_hears_of_it() {
    let mut hosted = granted(100);
    let effects = call(&mut hosted, "a", 100);
    assert_eq!(kinds(&effects), ["journal", "deliver"]);
    let note = BudgetNote::SetAside { call: "a".to_owned(), worst: tokens(100) };
    assert_eq!(effects[0], Effect::Journal(JournalEvent::Budget(note)));
    assert_eq!(line(&effects[1]), &Inbound::Granted { call: "a".to_owned() });

    let effects = call(&mut hosted, "b", 1);
    let Inbound::Withheld { call: name, why } = line(&effects[0]) else { panic!("{effects:?}") };
    assert_eq!((name.as_str(), effects.len()), ("b", 1));
    assert!(why.contains("1 asked for, 0 free"), "{why}");
}

#[test]
fn a_session_that_goes_on_meters_on() {
    let mut hosted = worker();
    hosted.run.brief.budget = Limits { tokens: Some(100), ..Limits::default() };
    hosted.run.continues = Some(RunId(Ulid(9)));
    hosted.go_on_from(None, tokens(60));
    let effects = hosted.step(NOW, Input::Claimed(ClaimOutcome::Claimed));
    assert_eq!(kinds(&effects), ["journal", "journal", "start"]);
    let before = BudgetNote::Before { spent: tokens(60) };
    assert_eq!(effects[1], Effect::Journal(JournalEvent::Budget(before)));
    let refused = call(&mut hosted, "a", 41);
    assert!(matches!(line(&refused[0]), Inbound::Withheld { .. }), "{refused:?}");
    assert_eq!(kinds(&call(&mut hosted, "a", 40)), ["journal", "deliver"]);
}

#[test]
fn what_is_open_at_the_end_is_in_the_result() {
    let mut hosted = granted(100);
    call(&mut hosted, "a", 30);
    call(&mut hosted, "b", 20);
    let over = RunnerEvent::Spent { call: "a".to_owned(), used: tokens(5) };
    assert_eq!(kinds(&hosted.step(NOW, Input::Runner(over))), ["journal"]);
    assert_eq!(hosted.usage().spend(), tokens(5));
    let result = RunnerEvent::Result { result: success(), files: Vec::new() };
    hosted.step(NOW, Input::Runner(result));
    let effects = exited(&mut hosted);
    let Effect::Report(report) = &effects[1] else { panic!("{effects:?}") };
    let Report::Result { result, .. } = &**report else { panic!("{report:?}") };
    assert_eq!(result.usage.spend(), Spend { tokens: 25, cost_micro: 0, turns: 1 });
}
