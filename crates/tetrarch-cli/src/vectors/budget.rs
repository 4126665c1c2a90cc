//! Cases of one budget counter (spec 03, Limits per parent; spec 06, Budgets).

use serde_json::Value;
use tetrarch_core::budget::{Account, BudgetExceeded, Limits, Meter, Spend};
use tetrarch_core::journal::{BudgetNote, JournalEvent};
use tetrarch_core::limits::CHILDREN_MAX;
use tetrarch_core::metering::Metering;

use crate::vectors::input::{CaseError, CaseMap, CaseValue};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

struct ChildCase {
    limit: Option<u64>,
    spent: u64,
    ended: bool,
}

pub(super) fn outcome(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let unit = Unit::of([given.value(), when.value()]);
    let given = given.keys("limit children spent drawn set_aside")?;
    let when = when.keys("charge worst_case")?;
    let amount = |input: &CaseMap<'_>, key: &str| input.maybe(key, |field| unit.read(field));
    let limit = amount(&given, "limit")?;
    let own = amount(&given, "spent")?.unwrap_or(0);
    let charge = amount(&when, "charge")?.unwrap_or(0);
    let worst_case = amount(&when, "worst_case")?;
    let drawn = amount(&given, "drawn")?.unwrap_or(0);
    let open = given.each("set_aside", |open| unit.read(open))?;
    let children = given.each("children", |child| unit.child(child))?;
    let outcome = CaseOutcome::default();
    let mut account = match account(limit, &children, own) {
        Ok(account) => account,
        Err(error) => {
            return Ok(outcome.set_error("budget_exceeded").set_detail(error.to_string()));
        }
    };
    account.draw(Spend { tokens: drawn, ..Spend::default() });
    let outcome = match run(&account, own, &open, charge, worst_case) {
        Some(run) => outcome
            .set("warned", run.warned)
            .set("ended", run.ended)
            .set("call_granted", run.granted),
        None => outcome,
    };
    let call = call(account, charge, worst_case);
    let free = call.after.free().map_or(Value::Null, |free| unit.show(free));
    Ok(outcome
        .set("free", free)
        .set("exceeded", call.after.exceeded())
        .set("allowed", call.allowed))
}

/// The account after the children were admitted in order, the ended ones settled, and what the
/// agent spent itself was booked.
fn account(
    limit: Option<u64>,
    children: &[ChildCase],
    own: u64,
) -> Result<Account, BudgetExceeded> {
    let tokens = |tokens| Limits { tokens, ..Limits::default() };
    let spent = |tokens| Spend { tokens, ..Spend::default() };
    let mut account = Account::of(tokens(limit));
    let mut held = 0;
    for child in children {
        let grant = account.carve(tokens(child.limit), CHILDREN_MAX.saturating_sub(held))?;
        account.reserve(grant);
        if child.ended {
            account.settle(grant, spent(child.spent));
        } else {
            held += 1;
        }
    }
    account.charge(spent(own));
    Ok(account)
}

struct RunCase {
    granted: bool,
    warned: bool,
    ended: bool,
}

/// The agent's own run against its whole grant: what it used, what is set aside, and a call that comes
/// to `charge`. None when set-asides have names that are taken, which they never have here.
fn run(
    account: &Account,
    used: u64,
    open: &[u64],
    charge: u64,
    worst_case: Option<u64>,
) -> Option<RunCase> {
    let tokens = |tokens| Spend { tokens, ..Spend::default() };
    let mut meter = Metering::of(account.limit, tokens(used));
    for (place, worst) in open.iter().enumerate() {
        let event = meter.set_aside(&place.to_string(), tokens(*worst)).ok()?;
        meter.take(&event);
    }
    let granted = meter.set_aside("call", tokens(worst_case.unwrap_or(charge))).is_ok();
    if granted || worst_case.is_none() {
        let (call, used) = ("call".to_owned(), tokens(charge));
        meter.take(&JournalEvent::Budget(BudgetNote::Spent { call, used }));
    }
    let warned = !meter.nearly_used_up().is_empty();
    Some(RunCase { granted, warned, ended: meter.used_up().is_some() })
}

struct CallCase {
    allowed: bool,
    after: Meter,
}

/// One call: it is made when its worst case fits, and its charge is booked then. A charge
/// without a worst case comes from a call that was made already.
fn call(mut account: Account, charge: u64, worst_case: Option<u64>) -> CallCase {
    let allowed = account.tokens().allows(worst_case.unwrap_or(charge));
    if allowed || worst_case.is_none() {
        account.spent = account.spent.plus(Spend { tokens: charge, ..Spend::default() });
    }
    CallCase { allowed, after: account.tokens() }
}

/// What the numbers of a case count: whole things, or millionths when one has a fraction.
#[derive(Clone, Copy)]
enum Unit {
    Whole,
    Millionths,
}

impl Unit {
    fn of(parts: [&Value; 2]) -> Self {
        if parts.into_iter().any(has_fraction) { Self::Millionths } else { Self::Whole }
    }

    fn read(self, field: &CaseValue<'_>) -> Result<u64, CaseError> {
        match self {
            Self::Whole => field.whole(),
            // At most 1e15 millionths of a million: nothing is lost.
            Self::Millionths => Ok((field.number()?.min(1e9) * 1e6).round() as u64),
        }
    }

    fn show(self, amount: u64) -> Value {
        match self {
            Self::Whole => Value::from(amount),
            Self::Millionths => Value::from(amount as f64 / 1e6),
        }
    }

    fn child(self, field: &CaseValue<'_>) -> Result<ChildCase, CaseError> {
        let input = field.keys("limit spent ended")?;
        let amount = |key| input.maybe(key, |field| self.read(field));
        Ok(ChildCase {
            limit: amount("limit")?,
            spent: amount("spent")?.unwrap_or(0),
            ended: input.or("ended", false, CaseValue::flag)?,
        })
    }
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(values) => values.iter().any(has_fraction),
        Value::Object(map) => map.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
