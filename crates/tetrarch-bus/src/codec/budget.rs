//! Grants and accounts. Written in millionths of a dollar and milliseconds, which are exact;
//! dollars and durations are read as well.

use serde_json::Value;
use tetrarch_core::budget::{Account, Counter, Limits, Spend};
use tetrarch_core::id::RequestId;
use tetrarch_core::mail::BudgetRaised;
use tetrarch_core::request::BudgetOp;
use tetrarch_core::time::Millis;

use super::error::CodecError;
use super::json::{self, Unknown};
use super::op::finish;
use super::read;
use crate::proto::v1 as pb;

/// Dollars above which millionths are no longer exact in a double.
const DOLLARS_MAX: f64 = 2_000_000_000.0;

/// A grant, absent when nothing is limited.
pub(super) fn written(limits: Limits, wall: Option<Millis>) -> Option<pb::Budget> {
    if limits == Limits::default() && wall.is_none() {
        return None;
    }
    Some(pb::Budget {
        tokens: limits.tokens,
        cost_micro: limits.cost_micro,
        turns: limits.turns,
        wall_ms: wall.map(|wall| wall.0),
        ..pb::Budget::default()
    })
}

/// A grant and the longest run.
pub(super) fn read(
    field: &str,
    budget: Option<pb::Budget>,
) -> Result<(Limits, Option<Millis>), CodecError> {
    let Some(budget) = budget else { return Ok((Limits::default(), None)) };
    let at = |name: &str| format!("{field}.{name}");
    let cost_micro = match (budget.cost_usd, budget.cost_micro) {
        (Some(_), Some(_)) => {
            return Err(CodecError::field(at("costUsd"), "is also given as costMicro; give one"));
        }
        (Some(dollars), None) => Some(micro(&at("costUsd"), dollars)?),
        (None, micro) => micro,
    };
    let wall = read::length(&at("wall"), &budget.wall, budget.wall_s, budget.wall_ms)?;
    Ok((Limits { tokens: budget.tokens, cost_micro, turns: budget.turns }, wall))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be from 0 to 2e15"
)]
fn micro(field: &str, dollars: f64) -> Result<u64, CodecError> {
    if !(0.0..=DOLLARS_MAX).contains(&dollars) {
        let reason = format!("{dollars} is not allowed; give 0 to {DOLLARS_MAX} dollars");
        return Err(CodecError::field(field, reason));
    }
    Ok((dollars * 1_000_000.0).round() as u64)
}

/// The body of an operation.
pub(super) fn encode(op: &BudgetOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let BudgetOp::Raise { agent, more, reason } = op;
    let some = |amount: u64| (amount > 0).then_some(amount);
    let more = Limits {
        tokens: some(more.tokens),
        cost_micro: some(more.cost_micro),
        turns: some(more.turns),
    };
    let message = pb::BudgetRaise {
        request_id: id.to_string(),
        sender: String::new(),
        agent: agent.to_string(),
        more: written(more, None),
        reason: reason.clone(),
    };
    finish("BudgetRaise", &message)
}

/// Reads the body of `budget.raise`.
pub(super) fn raise(body: Value) -> Result<BudgetOp, CodecError> {
    let raise: pb::BudgetRaise = json::message("BudgetRaise", body, Unknown::Refused)?;
    let (more, wall) = read("more", raise.more)?;
    if wall.is_some() {
        let reason = "a wall clock cannot be raised; remove it";
        return Err(CodecError::field("more.wall", reason));
    }
    Ok(BudgetOp::Raise {
        agent: read::text("agent", &raise.agent)?,
        more: more.carved(),
        reason: raise.reason,
    })
}

impl From<&BudgetRaised> for pb::BudgetRaised {
    fn from(raised: &BudgetRaised) -> Self {
        Self {
            agent: raised.agent.to_string(),
            limit: written(raised.limit, None),
            by: raised.by.to_string(),
            reason: raised.reason.clone(),
        }
    }
}

impl TryFrom<pb::BudgetRaised> for BudgetRaised {
    type Error = CodecError;
    fn try_from(raised: pb::BudgetRaised) -> Result<Self, CodecError> {
        Ok(Self {
            agent: read::text("agent", &raised.agent)?,
            limit: read("limit", raised.limit)?.0,
            by: read::text("by", &raised.by)?,
            reason: raised.reason,
        })
    }
}

/// A counter's name.
pub(super) fn counter(field: &str, word: &str) -> Result<Counter, CodecError> {
    Counter::parse(word).ok_or_else(|| {
        let known = Counter::ALL.map(Counter::as_str).join(", ");
        CodecError::field(field, format!("{word:?} is unknown; allowed: {known}"))
    })
}

impl From<Spend> for pb::Spend {
    fn from(spend: Spend) -> Self {
        Self { tokens: spend.tokens, cost_micro: spend.cost_micro, turns: spend.turns }
    }
}

impl From<pb::Spend> for Spend {
    fn from(spend: pb::Spend) -> Self {
        Self { tokens: spend.tokens, cost_micro: spend.cost_micro, turns: spend.turns }
    }
}

/// An amount, absent when it is none.
fn some(spend: Spend) -> Option<pb::Spend> {
    (spend != Spend::default()).then(|| spend.into())
}

impl From<&Account> for pb::Account {
    fn from(account: &Account) -> Self {
        Self {
            limit: written(account.limit, None),
            reserved: Some(account.reserved.into()),
            spent: Some(account.spent.into()),
            drawn: some(account.drawn),
            used: some(account.used),
        }
    }
}

impl TryFrom<pb::Account> for Account {
    type Error = CodecError;
    fn try_from(account: pb::Account) -> Result<Self, CodecError> {
        let (limit, _) = read("limit", account.limit)?;
        Ok(Self {
            limit,
            reserved: account.reserved.map(Spend::from).unwrap_or_default(),
            spent: account.spent.map(Spend::from).unwrap_or_default(),
            drawn: account.drawn.map(Spend::from).unwrap_or_default(),
            used: account.used.map(Spend::from).unwrap_or_default(),
        })
    }
}
