//! What a session's program may spend, and what is written down before it does.

use super::*;
use crate::budget::Counter;
use crate::journal::BudgetNote;
use crate::mail::{BudgetRaised, OpReply};

fn granted(tokens: u64) -> HostedSession {
    let mut hosted = worker();
    hosted.run.brief.budget = Limits { tokens: Some(tokens), ..Limits::default() };
    hosted.go_on_from(None, Spend::default());
    running(hosted)
}

fn tokens(tokens: u64) -> Spend {
    Spend { tokens, ..Spend::default() }
}

fn call(hosted: &mut HostedSession, call: &str, worst: u64) -> Vec<SessionEffect> {
    let (call, worst) = (call.to_owned(), tokens(worst));
    hosted.step(NOW, SessionInput::Runner(RunnerEvent::SetAside { call, worst }))
}

fn line(effect: &SessionEffect) -> &Inbound {
    let SessionEffect::Order(order) = effect else { panic!("{effect:?}") };
    let Order::Deliver { line, .. } = &**order else { panic!("{order:?}") };
    line
}

#[test]
fn reservation_is_journaled_before_the_program_hears_of_it() {
    let mut hosted = granted(100);
    let effects = call(&mut hosted, "a", 100);
    assert_eq!(kinds(&effects), ["journal", "deliver"]);
    let note = BudgetNote::SetAside { call: "a".to_owned(), worst: tokens(100) };
    assert_eq!(effects[0], SessionEffect::Journal(JournalEvent::Budget(note)));
    assert_eq!(line(&effects[1]), &Inbound::Granted { call: "a".to_owned() });

    let effects = call(&mut hosted, "b", 1);
    let Inbound::Withheld { call: name, why } = line(&effects[0]) else { panic!("{effects:?}") };
    assert_eq!((name.as_str(), effects.len()), ("b", 1));
    assert!(why.contains("1 requested, 0 free"), "{why}");
}

#[test]
fn resumed_session_continues_metering() {
    let mut hosted = worker();
    hosted.run.brief.budget = Limits { tokens: Some(100), ..Limits::default() };
    hosted.run.continues = Some(RunId(Ulid(9)));
    hosted.go_on_from(None, tokens(60));
    let effects = hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    assert_eq!(kinds(&effects), ["journal", "journal", "start"]);
    let before = BudgetNote::Before { spent: tokens(60) };
    assert_eq!(effects[1], SessionEffect::Journal(JournalEvent::Budget(before)));
    let refused = call(&mut hosted, "a", 41);
    assert!(matches!(line(&refused[0]), Inbound::Withheld { .. }), "{refused:?}");
    assert_eq!(kinds(&call(&mut hosted, "a", 40)), ["journal", "deliver"]);
}

#[test]
fn open_reservation_is_part_of_the_result() {
    let mut hosted = granted(100);
    call(&mut hosted, "a", 30);
    call(&mut hosted, "b", 20);
    let over = RunnerEvent::Spent { call: "a".to_owned(), used: tokens(5) };
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Runner(over))), ["journal"]);
    assert_eq!(hosted.usage().spend(), tokens(5));
    let result = RunnerEvent::Result { result: success(), files: Vec::new() };
    hosted.step(NOW, SessionInput::Runner(result));
    let effects = exited(&mut hosted);
    let SessionEffect::Report(report) = &effects[2] else { panic!("{effects:?}") };
    let Report::Result { result, .. } = &**report else { panic!("{report:?}") };
    assert_eq!(result.usage.spend(), Spend { tokens: 25, cost_micro: 0, turns: 1 });
}

fn says(hosted: &mut HostedSession, tokens_in: u64) -> Vec<SessionEffect> {
    let usage = Usage { tokens_in, ..Usage::default() };
    hosted.step(NOW, SessionInput::Runner(RunnerEvent::Usage(usage)))
}

fn ended(hosted: &mut HostedSession, result: RunResult) -> RunResult {
    let result = Some(Box::new(result));
    let exit = RunnerEvent::Exited { exit: Exit::Code(0), result };
    let effects = hosted.step(NOW, SessionInput::Runner(exit));
    let result = effects.iter().find_map(|effect| {
        let SessionEffect::Report(report) = effect else { return None };
        let Report::Result { result, .. } = &**report else { return None };
        Some(result.clone())
    });
    result.expect("no result was reported")
}

#[test]
fn budget_warning_comes_once_at_four_fifths() {
    let mut hosted = granted(100);
    assert_eq!(kinds(&says(&mut hosted, 79)), ["journal"]);
    let effects = says(&mut hosted, 80);
    assert_eq!(kinds(&effects), ["journal", "journal", "deliver", "report"]);
    let warning = Inbound::BudgetWarning { counter: Counter::Tokens, used: 80, limit: 100 };
    assert_eq!(line(&effects[2]), &warning);
    let SessionEffect::Report(report) = &effects[3] else { panic!("{effects:?}") };
    assert_eq!(report.kind(), "budget.warning");
    assert_eq!(kinds(&says(&mut hosted, 99)), ["journal"]);
    assert_eq!(kinds(&says(&mut hosted, 100)), ["journal", "journal", "report", "stop"]);
}

#[test]
fn resumed_session_near_its_limit_warns_only_its_program() {
    let mut hosted = worker();
    hosted.run.brief.budget = Limits { tokens: Some(100), ..Limits::default() };
    hosted.go_on_from(None, tokens(80));
    let mut hosted = running(hosted);
    assert_eq!(kinds(&says(&mut hosted, 1)), ["journal", "journal", "deliver"]);
}

#[test]
fn exhausted_budget_ends_the_run_and_keeps_its_output() {
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
fn success_with_exhausted_budget_is_success() {
    let mut hosted = granted(100);
    says(&mut hosted, 100);
    assert_eq!(ended(&mut hosted, *success()).outcome, Outcome::Success);
}

#[test]
fn earlier_stop_stays_a_stop() {
    let mut hosted = granted(100);
    hosted.step(NOW, letter(MailBody::Stop(order("enough"))));
    assert_eq!(kinds(&says(&mut hosted, 100)), ["journal"]);
    let result = ended(&mut hosted, RunResult::ended(Outcome::Cancelled, "stopped"));
    assert_eq!(result.outcome, Outcome::Cancelled);
}

fn specialist(limit: u64) -> (HostedSession, Vec<SessionEffect>) {
    let mut hosted = session(&format!("S:rust:{}", Ulid(1)));
    hosted.run.brief.budget = Limits { tokens: Some(limit), ..Limits::default() };
    hosted.go_on_from(None, Spend::default());
    hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    let started = RunnerEvent::Started { pid: Some(1), isolation: String::new() };
    let effects = hosted.step(NOW, SessionInput::Runner(started));
    (hosted, effects)
}

fn draws(effects: &[SessionEffect]) -> Vec<u64> {
    let draw = |effect: &SessionEffect| {
        let SessionEffect::Report(report) = effect else { return None };
        let Report::Draw { total, .. } = &**report else { return None };
        Some(total.tokens)
    };
    effects.iter().filter_map(draw).collect()
}

fn drawn(hosted: &mut HostedSession, tokens: u64) -> Vec<SessionEffect> {
    let data = format!("{{\"tokens\":{tokens},\"costMicro\":0,\"turns\":0}}");
    let reply = OpReply { op: "budget.draw".to_owned(), data: Some(data), ..OpReply::default() };
    hosted.step(NOW, letter(MailBody::Reply(reply)))
}

#[test]
fn specialist_draws_a_tenth_or_one_worst_case_before_spending() {
    let (mut hosted, effects) = specialist(100);
    assert_eq!(draws(&effects), [10]);
    assert_eq!(kinds(&call(&mut hosted, "a", 10)), [""; 0], "it waits for the ledger's word");
    assert_eq!(kinds(&drawn(&mut hosted, 10)), ["note", "journal", "deliver"], "it had started");
    let effects = call(&mut hosted, "b", 25);
    assert_eq!((draws(&effects), effects.len()), (vec![35], 1), "one worst case is the larger");
    assert_eq!(kinds(&call(&mut hosted, "c", 1)), [""; 0], "in their order");
    let effects = drawn(&mut hosted, 35);
    assert_eq!(kinds(&effects), ["journal", "deliver", "report"]);
    assert_eq!(draws(&effects), [45]);
    assert_eq!(kinds(&drawn(&mut hosted, 45)), ["journal", "deliver"]);
}

#[test]
fn refused_draw_is_withheld() {
    let (mut hosted, _) = specialist(100);
    drawn(&mut hosted, 10);
    assert_eq!(draws(&call(&mut hosted, "a", 50)), [50]);
    let effects = drawn(&mut hosted, 30);
    let Inbound::Withheld { why, .. } = line(&effects[0]) else { panic!("{effects:?}") };
    assert!(why.contains("for its children"), "{why}");
    assert_eq!(kinds(&call(&mut hosted, "b", 30)), ["note", "journal", "deliver"]);
}

#[test]
fn reported_totals_draw_and_end_the_run_when_refused() {
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
fn unlimited_counter_is_not_drawn() {
    let hosted = session(&format!("S:rust:{}", Ulid(1)));
    let mut hosted = running(hosted);
    assert_eq!(kinds(&call(&mut hosted, "a", u64::MAX)), ["journal", "deliver"]);
}

fn raise(hosted: &mut HostedSession, from: &str, limit: u64) -> Vec<SessionEffect> {
    let raised = BudgetRaised {
        agent: hosted.launch.agent.clone(),
        limit: Limits { tokens: Some(limit), ..Limits::default() },
        by: "human:ada".parse().unwrap(),
        reason: "go on".to_owned(),
    };
    let SessionInput::Mail { mail, json, place, .. } =
        letter(MailBody::BudgetRaised(Box::new(raised)))
    else {
        panic!("a letter is mail")
    };
    hosted.step(NOW, SessionInput::Mail { from: from.parse().unwrap(), mail, json, place })
}

#[test]
fn raised_grant_is_journaled_reported_and_metered() {
    let mut hosted = granted(100);
    says(&mut hosted, 90);
    let withheld = call(&mut hosted, "a", 11);
    assert!(matches!(line(&withheld[0]), Inbound::Withheld { .. }), "{withheld:?}");
    let effects = raise(&mut hosted, "GO", 200);
    assert_eq!(kinds(&effects), ["journal", "deliver"]);
    let limit = Limits { tokens: Some(200), ..Limits::default() };
    let (by, reason) = ("human:ada".parse().unwrap(), "go on".to_owned());
    let note = BudgetNote::Raised { limit, by, reason };
    assert_eq!(effects[0], SessionEffect::Journal(JournalEvent::Budget(note)));
    assert_eq!(line(&effects[1]), &Inbound::BudgetRaised { limit });
    assert_eq!(kinds(&call(&mut hosted, "a", 110)), ["journal", "deliver"]);
    assert!(matches!(line(&call(&mut hosted, "b", 1)[0]), Inbound::Withheld { .. }));
    let over = RunnerEvent::Spent { call: "a".to_owned(), used: tokens(0) };
    hosted.step(NOW, SessionInput::Runner(over));
    assert_eq!(kinds(&says(&mut hosted, 159)), ["journal"]);
    assert_eq!(kinds(&says(&mut hosted, 160)), ["journal", "journal", "deliver", "report"]);
    assert_eq!(kinds(&says(&mut hosted, 199)), ["journal"]);
    assert_eq!(kinds(&says(&mut hosted, 200)), ["journal", "journal", "report", "stop"]);
}

#[test]
fn run_still_near_its_limit_after_a_raise_is_not_warned_again() {
    let mut hosted = granted(100);
    says(&mut hosted, 90);
    raise(&mut hosted, "GO", 110);
    assert_eq!(kinds(&says(&mut hosted, 91)), ["journal"]);
}

#[test]
fn repeated_late_or_foreign_raise_changes_nothing() {
    let mut hosted = granted(100);
    assert_eq!(kinds(&raise(&mut hosted, "PO-a", 200)), [""; 0], "only the owner's word counts");
    assert_eq!(kinds(&raise(&mut hosted, "GO", 200)), ["journal", "deliver"]);
    assert_eq!(kinds(&raise(&mut hosted, "GO", 200)), [""; 0]);
    assert_eq!(kinds(&raise(&mut hosted, "GO", 150)), [""; 0]);
    assert_eq!(kinds(&call(&mut hosted, "a", 200)), ["journal", "deliver"]);
}

#[test]
fn ending_run_is_not_delayed_by_budget() {
    let mut hosted = granted(100);
    says(&mut hosted, 100);
    assert_eq!(kinds(&raise(&mut hosted, "GO", 200)), [""; 0]);
    let result = ended(&mut hosted, RunResult::ended(Outcome::Cancelled, "stopped"));
    assert_eq!(result.outcome, Outcome::BudgetExceeded);
}

#[test]
fn unstarted_session_has_its_full_grant() {
    let mut hosted = worker();
    hosted.run.brief.budget = Limits { tokens: Some(100), ..Limits::default() };
    hosted.go_on_from(None, Spend::default());
    assert_eq!(
        kinds(&raise(&mut hosted, "GO", 200)),
        [""; 0],
        "nothing is written before the claim"
    );
    let effects = hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    let start = effects.iter().find_map(|effect| {
        let SessionEffect::Order(order) = effect else { return None };
        let Order::Start(start) = &**order else { return None };
        Some(start.brief.budget.tokens)
    });
    assert_eq!(start, Some(Some(200)));
    assert_eq!(kinds(&call(&mut hosted, "a", 200)), ["journal", "deliver"]);
}

#[test]
fn specialist_draws_from_a_raised_grant() {
    let (mut hosted, _) = specialist(100);
    drawn(&mut hosted, 10);
    assert_eq!(draws(&call(&mut hosted, "a", 100)), [100]);
    drawn(&mut hosted, 100);
    let effects = raise(&mut hosted, "GO", 200);
    assert_eq!(kinds(&effects), ["journal", "deliver"], "all that is used is drawn");
    assert_eq!(draws(&call(&mut hosted, "b", 60)), [160]);
    assert_eq!(kinds(&drawn(&mut hosted, 160)), ["journal", "deliver"]);
}
