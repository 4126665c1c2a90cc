//! What a session's program may spend, and what is written down before it does.

use super::*;
use crate::budget::Counter;
use crate::journal::BudgetNote;
use crate::mail::{BudgetRaised, OpReply};

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
    assert!(why.contains("1 requested, 0 free"), "{why}");
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

fn says(hosted: &mut Hosted, tokens_in: u64) -> Vec<Effect> {
    let usage = Usage { tokens_in, ..Usage::default() };
    hosted.step(NOW, Input::Runner(RunnerEvent::Usage(usage)))
}

fn ended(hosted: &mut Hosted, result: RunResult) -> RunResult {
    let result = Some(Box::new(result));
    let exit = RunnerEvent::Exited { exit: Exit::Code(0), result };
    let effects = hosted.step(NOW, Input::Runner(exit));
    let result = effects.iter().find_map(|effect| {
        let Effect::Report(report) = effect else { return None };
        let Report::Result { result, .. } = &**report else { return None };
        Some(result.clone())
    });
    result.expect("no result was reported")
}

#[test]
fn four_fifths_are_warned_of_once() {
    let mut hosted = granted(100);
    assert_eq!(kinds(&says(&mut hosted, 79)), ["journal"]);
    let effects = says(&mut hosted, 80);
    assert_eq!(kinds(&effects), ["journal", "journal", "deliver", "report"]);
    let warning = Inbound::BudgetWarning { counter: Counter::Tokens, used: 80, limit: 100 };
    assert_eq!(line(&effects[2]), &warning);
    let Effect::Report(report) = &effects[3] else { panic!("{effects:?}") };
    assert_eq!(report.kind(), "budget.warning");
    assert_eq!(kinds(&says(&mut hosted, 99)), ["journal"]);
    assert_eq!(kinds(&says(&mut hosted, 100)), ["journal", "journal", "report", "stop"]);
}

#[test]
fn a_session_that_goes_on_near_the_end_warns_its_program_and_nobody_else() {
    let mut hosted = worker();
    hosted.run.brief.budget = Limits { tokens: Some(100), ..Limits::default() };
    hosted.go_on_from(None, tokens(80));
    let mut hosted = running(hosted);
    assert_eq!(kinds(&says(&mut hosted, 1)), ["journal", "journal", "deliver"]);
}

#[test]
fn the_run_ends_when_all_is_used_and_keeps_what_there_is() {
    let mut hosted = granted(100);
    assert_eq!(kinds(&says(&mut hosted, 0)), ["journal"]);
    says(&mut hosted, 99);
    let effects = says(&mut hosted, 130);
    assert_eq!(kinds(&effects), ["journal", "journal", "report", "stop"]);
    assert_eq!(kinds(&says(&mut hosted, 140)), ["journal"], "it is asked once");
    let mut partial = RunResult::ended(Outcome::Cancelled, "stopped");
    partial.partial = "half".to_owned();
    let result = ended(&mut hosted, partial);
    assert_eq!((result.outcome, result.partial.as_str()), (Outcome::BudgetExceeded, "half"));
    assert_eq!(result.error, "budget_exceeded: 130 of 100 tokens are used");
    assert_eq!(result.usage.spend(), tokens(140));
}

#[test]
fn what_succeeds_although_all_is_used_has_succeeded() {
    let mut hosted = granted(100);
    says(&mut hosted, 100);
    assert_eq!(ended(&mut hosted, *success()).outcome, Outcome::Success);
}

#[test]
fn a_stop_that_came_first_stays_a_stop() {
    let mut hosted = granted(100);
    hosted.step(NOW, letter(MailBody::Stop(order("enough"))));
    assert_eq!(kinds(&says(&mut hosted, 100)), ["journal"]);
    let result = ended(&mut hosted, RunResult::ended(Outcome::Cancelled, "stopped"));
    assert_eq!(result.outcome, Outcome::Cancelled);
}

fn specialist(limit: u64) -> (Hosted, Vec<Effect>) {
    let mut hosted = session(&format!("S:rust:{}", Ulid(1)));
    hosted.run.brief.budget = Limits { tokens: Some(limit), ..Limits::default() };
    hosted.go_on_from(None, Spend::default());
    hosted.step(NOW, Input::Claimed(ClaimOutcome::Claimed));
    let started = RunnerEvent::Started { pid: Some(1), isolation: String::new() };
    let effects = hosted.step(NOW, Input::Runner(started));
    (hosted, effects)
}

fn draws(effects: &[Effect]) -> Vec<u64> {
    let draw = |effect: &Effect| {
        let Effect::Report(report) = effect else { return None };
        let Report::Draw { total, .. } = &**report else { return None };
        Some(total.tokens)
    };
    effects.iter().filter_map(draw).collect()
}

fn drawn(hosted: &mut Hosted, tokens: u64) -> Vec<Effect> {
    let data = format!("{{\"tokens\":{tokens},\"costMicro\":0,\"turns\":0}}");
    let reply = OpReply {
        op: "budget.draw".to_owned(),
        error: None,
        detail: String::new(),
        epic: None,
        version: None,
        agent: None,
        session: None,
        agent_epoch: None,
        liveness: None,
        data: Some(data),
    };
    hosted.step(NOW, letter(MailBody::Reply(reply)))
}

#[test]
fn a_specialist_draws_a_tenth_or_one_worst_case_before_it_spends() {
    let (mut hosted, effects) = specialist(100);
    assert_eq!(draws(&effects), [10]);
    assert_eq!(kinds(&call(&mut hosted, "a", 10)), [""; 0], "it waits for the ledger's word");
    assert_eq!(kinds(&drawn(&mut hosted, 10)), ["journal", "deliver"]);
    let effects = call(&mut hosted, "b", 25);
    assert_eq!((draws(&effects), effects.len()), (vec![35], 1), "one worst case is the larger");
    assert_eq!(kinds(&call(&mut hosted, "c", 1)), [""; 0], "in their order");
    let effects = drawn(&mut hosted, 35);
    assert_eq!(kinds(&effects), ["journal", "deliver", "report"]);
    assert_eq!(draws(&effects), [45]);
    assert_eq!(kinds(&drawn(&mut hosted, 45)), ["journal", "deliver"]);
}

#[test]
fn what_could_not_be_drawn_is_withheld() {
    let (mut hosted, _) = specialist(100);
    drawn(&mut hosted, 10);
    assert_eq!(draws(&call(&mut hosted, "a", 50)), [50]);
    let effects = drawn(&mut hosted, 30);
    let Inbound::Withheld { why, .. } = line(&effects[0]) else { panic!("{effects:?}") };
    assert!(why.contains("for its children"), "{why}");
    assert_eq!(kinds(&call(&mut hosted, "b", 30)), ["journal", "deliver"]);
}

#[test]
fn totals_draw_on_and_end_the_run_where_no_more_can_be_drawn() {
    let (mut hosted, _) = specialist(100);
    drawn(&mut hosted, 10);
    assert_eq!(draws(&says(&mut hosted, 10)), [0; 0]);
    assert_eq!(draws(&says(&mut hosted, 11)), [20]);
    assert_eq!(kinds(&drawn(&mut hosted, 20)), [""; 0]);
    assert_eq!(draws(&says(&mut hosted, 25)), [30]);
    assert_eq!(kinds(&drawn(&mut hosted, 24)), ["journal", "report", "stop"]);
    let result = ended(&mut hosted, RunResult::ended(Outcome::Cancelled, "stopped"));
    assert_eq!(result.outcome, Outcome::BudgetExceeded);
}

#[test]
fn what_is_not_limited_is_not_drawn() {
    let hosted = session(&format!("S:rust:{}", Ulid(1)));
    let mut hosted = running(hosted);
    assert_eq!(kinds(&call(&mut hosted, "a", u64::MAX)), ["journal", "deliver"]);
}

fn raise(hosted: &mut Hosted, from: &str, limit: u64) -> Vec<Effect> {
    let raised = BudgetRaised {
        agent: hosted.launch.agent.clone(),
        limit: Limits { tokens: Some(limit), ..Limits::default() },
        by: "human:ada".parse().unwrap(),
        reason: "go on".to_owned(),
    };
    let Input::Mail { mail, json, place, .. } = letter(MailBody::BudgetRaised(Box::new(raised)))
    else {
        panic!("a letter is mail")
    };
    hosted.step(NOW, Input::Mail { from: from.parse().unwrap(), mail, json, place })
}

#[test]
fn a_raised_grant_is_journaled_and_told_and_metered_against() {
    let mut hosted = granted(100);
    says(&mut hosted, 90);
    let withheld = call(&mut hosted, "a", 11);
    assert!(matches!(line(&withheld[0]), Inbound::Withheld { .. }), "{withheld:?}");
    let effects = raise(&mut hosted, "GO", 200);
    assert_eq!(kinds(&effects), ["journal", "deliver"]);
    let limit = Limits { tokens: Some(200), ..Limits::default() };
    let (by, reason) = ("human:ada".parse().unwrap(), "go on".to_owned());
    let note = BudgetNote::Raised { limit, by, reason };
    assert_eq!(effects[0], Effect::Journal(JournalEvent::Budget(note)));
    assert_eq!(line(&effects[1]), &Inbound::BudgetRaised { limit });
    assert_eq!(kinds(&call(&mut hosted, "a", 110)), ["journal", "deliver"]);
    assert!(matches!(line(&call(&mut hosted, "b", 1)[0]), Inbound::Withheld { .. }));
    let over = RunnerEvent::Spent { call: "a".to_owned(), used: tokens(0) };
    hosted.step(NOW, Input::Runner(over));
    assert_eq!(kinds(&says(&mut hosted, 159)), ["journal"]);
    assert_eq!(kinds(&says(&mut hosted, 160)), ["journal", "journal", "deliver", "report"]);
    assert_eq!(kinds(&says(&mut hosted, 199)), ["journal"]);
    assert_eq!(kinds(&says(&mut hosted, 200)), ["journal", "journal", "report", "stop"]);
}

#[test]
fn whoever_is_still_near_the_end_after_a_raise_is_not_warned_again() {
    let mut hosted = granted(100);
    says(&mut hosted, 90);
    raise(&mut hosted, "GO", 110);
    assert_eq!(kinds(&says(&mut hosted, 91)), ["journal"]);
}

#[test]
fn a_raise_that_comes_twice_late_or_from_somebody_else_changes_nothing() {
    let mut hosted = granted(100);
    assert_eq!(kinds(&raise(&mut hosted, "PO-a", 200)), [""; 0], "only the owner's word counts");
    assert_eq!(kinds(&raise(&mut hosted, "GO", 200)), ["journal", "deliver"]);
    assert_eq!(kinds(&raise(&mut hosted, "GO", 200)), [""; 0]);
    assert_eq!(kinds(&raise(&mut hosted, "GO", 150)), [""; 0]);
    assert_eq!(kinds(&call(&mut hosted, "a", 200)), ["journal", "deliver"]);
}

#[test]
fn a_run_that_is_ending_is_not_held_up() {
    let mut hosted = granted(100);
    says(&mut hosted, 100);
    assert_eq!(kinds(&raise(&mut hosted, "GO", 200)), [""; 0]);
    let result = ended(&mut hosted, RunResult::ended(Outcome::Cancelled, "stopped"));
    assert_eq!(result.outcome, Outcome::BudgetExceeded);
}

#[test]
fn a_session_that_has_not_begun_begins_with_all_of_it() {
    let mut hosted = worker();
    hosted.run.brief.budget = Limits { tokens: Some(100), ..Limits::default() };
    hosted.go_on_from(None, Spend::default());
    assert_eq!(
        kinds(&raise(&mut hosted, "GO", 200)),
        [""; 0],
        "nothing is written before the claim"
    );
    let effects = hosted.step(NOW, Input::Claimed(ClaimOutcome::Claimed));
    let start = effects.iter().find_map(|effect| {
        let Effect::Order(order) = effect else { return None };
        let Order::Start(start) = &**order else { return None };
        Some(start.brief.budget.tokens)
    });
    assert_eq!(start, Some(Some(200)));
    assert_eq!(kinds(&call(&mut hosted, "a", 200)), ["journal", "deliver"]);
}

#[test]
fn a_specialist_draws_on_from_a_raised_grant() {
    let (mut hosted, _) = specialist(100);
    drawn(&mut hosted, 10);
    assert_eq!(draws(&call(&mut hosted, "a", 100)), [100]);
    drawn(&mut hosted, 100);
    let effects = raise(&mut hosted, "GO", 200);
    assert_eq!(kinds(&effects), ["journal", "deliver"], "all that is used is drawn");
    assert_eq!(draws(&call(&mut hosted, "b", 60)), [160]);
    assert_eq!(kinds(&drawn(&mut hosted, 160)), ["journal", "deliver"]);
}
