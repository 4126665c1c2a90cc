//! Grants and accounts. Written in millionths of a dollar and milliseconds, which are exact;
//! dollars and durations are read as well.

use serde_json::Value;
use tetrarch_core::budget::{Account, Counter, Limits, Spend};
use tetrarch_core::id::RequestId;
use tetrarch_core::mail::BudgetRaised;
use tetrarch_core::request::BudgetOp;
use tetrarch_core::time::Millis;

use super::error::CodecError;
use super::op::body;
use super::wire::{Wire, absent, field, kept, message};
use super::{json, read};
use crate::proto::v1 as pb;

/// Dollars above which millionths are no longer exact in a double.
const DOLLARS_MAX: f64 = 2_000_000_000.0;

/// A grant and the longest run; absent when nothing is limited.
impl Wire<Option<pb::Budget>> for (Limits, Option<Millis>) {
    fn put(&self) -> Option<pb::Budget> {
        let (limits, wall) = *self;
        if limits == Limits::default() && wall.is_none() {
            return None;
        }
        Some(pb::Budget {
            tokens: limits.tokens,
            cost_micro: limits.cost_micro,
            turns: limits.turns,
            wall_ms: wall.put(),
            ..pb::Budget::default()
        })
    }

    fn get(held: Option<pb::Budget>) -> Result<Self, CodecError> {
        let Some(budget) = held else { return Ok(Self::default()) };
        let cost_micro = match (budget.cost_usd, budget.cost_micro) {
            (Some(_), Some(_)) => {
                return Err(CodecError::field("costUsd", "is also given as costMicro; give one"));
            }
            (Some(dollars), None) => Some(micro(dollars)?),
            (None, micro) => micro,
        };
        let wall = read::length("wall", &budget.wall, budget.wall_s, budget.wall_ms)?;
        Ok((Limits { tokens: budget.tokens, cost_micro, turns: budget.turns }, wall))
    }
}

/// A grant alone, whoever's wall clock it may come with.
impl Wire<Option<pb::Budget>> for Limits {
    fn put(&self) -> Option<pb::Budget> {
        (*self, None).put()
    }

    fn get(held: Option<pb::Budget>) -> Result<Self, CodecError> {
        let (limits, _): (Self, Option<Millis>) = Wire::get(held)?;
        Ok(limits)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be from 0 to 2e15"
)]
fn micro(dollars: f64) -> Result<u64, CodecError> {
    if !(0.0..=DOLLARS_MAX).contains(&dollars) {
        let reason = format!("{dollars} is not allowed; give 0 to {DOLLARS_MAX} dollars");
        return Err(CodecError::field("costUsd", reason));
    }
    Ok((dollars * 1_000_000.0).round() as u64)
}

/// The body of an operation.
pub(super) fn encode(op: &BudgetOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let BudgetOp::Raise { agent, more, reason } = op;
    let some = |amount: u64| (amount > 0).then_some(amount);
    let more = &Limits {
        tokens: some(more.tokens),
        cost_micro: some(more.cost_micro),
        turns: some(more.turns),
    };
    body!(id, BudgetRaise { agent, more, reason })
}

/// Reads the body of `budget.raise`.
pub(super) fn raise(body: Value) -> Result<BudgetOp, CodecError> {
    let raise: pb::BudgetRaise = json::request(body)?;
    let (more, wall): (Limits, Option<Millis>) = field("more", raise.more)?;
    if wall.is_some() {
        let reason = "a wall clock cannot be raised; remove it";
        return Err(CodecError::field("more.wall", reason));
    }
    let (agent, more) = (field("agent", raise.agent)?, more.carved());
    Ok(BudgetOp::Raise { agent, more, reason: raise.reason })
}

message!(BudgetRaised, BudgetRaised { agent, limit, by, reason });
message!(Spend, Spend { tokens, cost_micro, turns });
message!(Account, Account {
    limit, reserved as kept, spent as kept, drawn as absent, used as absent,
});

/// A counter by its name.
impl Wire<String> for Counter {
    fn put(&self) -> String {
        self.as_str().to_owned()
    }

    fn get(held: String) -> Result<Self, CodecError> {
        Self::parse(&held).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            CodecError::field("", format!("{held:?} is unknown; allowed: {known}"))
        })
    }
}
