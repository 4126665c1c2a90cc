//! What fits into a grant, and what journals say of it.

use super::*;
use crate::brief::{Outcome, RunResult};

fn tokens(tokens: u64) -> Spend {
    Spend { tokens, ..Spend::default() }
}

fn meter(limit: u64, before: u64) -> Metering {
    Metering::of(Limits { tokens: Some(limit), ..Limits::default() }, tokens(before))
}

fn call(meter: &mut Metering, name: &str, worst: u64) -> Result<(), Withheld> {
    let event = meter.set_aside(name, tokens(worst))?;
    meter.take(&event);
    Ok(())
}

fn spent(meter: &mut Metering, call: &str, used: u64) {
    let (call, used) = (call.to_owned(), tokens(used));
    meter.take(&JournalEvent::Budget(BudgetNote::Spent { call, used }));
}

fn said(meter: &mut Metering, tokens_in: u64) {
    meter.take(&JournalEvent::Usage(Usage { tokens_in, ..Usage::default() }));
}

#[test]
fn call_fits_up_to_the_last_token() {
    let mut meter = meter(100, 30);
    assert_eq!(
        call(&mut meter, "a", 71),
        Err(BudgetExceeded { counter: Counter::Tokens, requested: 71, free: 70 }.into())
    );
    call(&mut meter, "a", 70).unwrap();
    assert!(call(&mut meter, "b", 1).is_err());
    call(&mut meter, "free", 0).unwrap();
    spent(&mut meter, "a", 20);
    assert!(call(&mut meter, "b", 51).is_err());
    call(&mut meter, "b", 50).unwrap();
}

#[test]
fn each_counter_is_checked() {
    let limit = Limits { tokens: Some(10), cost_micro: Some(20), turns: Some(1) };
    let meter = Metering::of(limit, Spend::default());
    let all = Spend { tokens: 10, cost_micro: 20, turns: 1 };
    assert!(meter.set_aside("c", all).is_ok());
    for (worst, counter) in [
        (Spend { tokens: 11, ..all }, Counter::Tokens),
        (Spend { cost_micro: 21, ..all }, Counter::CostMicro),
        (Spend { turns: 2, ..all }, Counter::Turns),
    ] {
        let Err(Withheld::DoesNotFit(refused)) = meter.set_aside("c", worst) else {
            panic!("{worst:?} fits")
        };
        assert_eq!((refused.counter, refused.free + 1), (counter, refused.requested));
    }
    let unlimited = Metering::of(Limits::default(), all);
    assert!(unlimited.set_aside("c", Spend { tokens: u64::MAX, ..all }).is_ok());
}

#[test]
fn totals_and_calls_are_merged_by_the_higher() {
    let mut meter = meter(100, 10);
    call(&mut meter, "a", 30).unwrap();
    said(&mut meter, 25);
    assert_eq!((meter.tally().used(), meter.tally().charge()), (tokens(35), tokens(65)));
    spent(&mut meter, "a", 26);
    assert_eq!((meter.tally().used(), meter.tally().charge()), (tokens(36), tokens(36)));
    assert_eq!(meter.tally().usage().spend(), tokens(26));
    said(&mut meter, 40);
    said(&mut meter, 5);
    assert_eq!(meter.tally().used(), tokens(50));
    spent(&mut meter, "never set aside", 20);
    assert_eq!(meter.tally().used(), tokens(56));
}

#[test]
fn open_call_counts_as_spent_at_the_end() {
    let mut tally = Tally::default();
    tally.take(&JournalEvent::Budget(BudgetNote::Before { spent: tokens(5) }));
    assert!(tally.tells_of_earlier_runs());
    for (name, worst) in [("a", 7), ("b", 8)] {
        let (call, worst) = (name.to_owned(), tokens(worst));
        tally.take(&JournalEvent::Budget(BudgetNote::SetAside { call, worst }));
    }
    tally.take(&JournalEvent::Budget(BudgetNote::Spent { call: "a".to_owned(), used: tokens(3) }));
    assert_eq!((tally.own_charge(), tally.charge()), (tokens(11), tokens(16)));
    let mut ended = tally.clone();
    ended.take(&JournalEvent::Result(Box::new(RunResult::ended(Outcome::Success, ""))));
    assert_eq!((ended.charge(), ended.set_aside()), (tokens(16), Spend::default()));
    assert_eq!(ended.usage().spend(), tokens(11));
}

#[test]
fn call_names_are_bounded_and_unique_while_open() {
    let mut meter = meter(u64::MAX, 0);
    let long = "x".repeat(CALL_NAME_BYTES_MAX);
    call(&mut meter, &long, 1).unwrap();
    assert_eq!(call(&mut meter, &format!("{long}x"), 1), Err(Withheld::Name));
    assert_eq!(call(&mut meter, "", 1), Err(Withheld::Name));
    assert_eq!(call(&mut meter, &long, 1), Err(Withheld::Open(long.clone())));
    spent(&mut meter, &long, 1);
    for place in 0..CALLS_OPEN_MAX {
        call(&mut meter, &place.to_string(), 1).unwrap();
    }
    assert_eq!(call(&mut meter, "one more", 1), Err(Withheld::TooMany));
}

/// Every order of 64 calls that begin and end at will, with what each came to: never is more
/// granted than there is.
#[test]
fn sixty_four_parallel_calls_never_exceed_the_cap() {
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    for round in 0..200 {
        let limit = 500 + roll(1_000);
        let mut meter = meter(limit, roll(100));
        let (mut open, mut withheld, mut granted) = (Vec::new(), 0, 0);
        for place in 0..64 {
            let (name, worst) = (place.to_string(), 1 + roll(60));
            let before = meter.tally().charge().tokens;
            match call(&mut meter, &name, worst) {
                Ok(()) => {
                    granted += 1;
                    open.push((name, worst));
                }
                Err(_) => {
                    withheld += 1;
                    assert!(before + worst > limit, "round {round}: {worst} did fit");
                }
            }
            if roll(3) == 0 && !open.is_empty() {
                let (name, worst) = open.swap_remove(roll(open.len() as u64) as usize);
                spent(&mut meter, &name, roll(worst + 1));
            }
            assert!(meter.tally().charge().tokens <= limit, "round {round}");
        }
        assert!(granted > 0 && granted + withheld == 64);
    }
}
