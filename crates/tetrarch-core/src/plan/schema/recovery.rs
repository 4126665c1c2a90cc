//! A node's own recovery policy as a plan file has it (spec 05, The tick): the first rung as a word, or a
//! mapping that says more.

use serde_json::{Map, Value, json};

use crate::duration;
use crate::limits::{RECOVERY_RETRIES_MAX, RECOVERY_TIME_MAX, RECOVERY_TIME_MIN};
use crate::overseer::Rung;
use crate::overseer::policy::RecoveryPolicy;
use crate::plan::schema::fields::{Entry, Fields};
use crate::time::Millis;

/// Its key.
pub(super) const RECOVERY: &str = "recoveryPolicy";
const RUNGS: &str = "nudge, resend_last, replan, reassign, escalate";

/// What a node says of its recovery; what cannot be read is told and left out.
pub(super) fn read(fields: &Fields<'_>) -> RecoveryPolicy {
    let Some(entry) = fields.get(RECOVERY) else { return RecoveryPolicy::default() };
    if entry.value().is_string() {
        return RecoveryPolicy { from: entry.word(RUNGS, Rung::parse), ..Default::default() };
    }
    let keys = &["from", "maxRetries", "idleAfter", "minResendInterval", "reassign"];
    let Some(own) = entry.map(keys) else { return RecoveryPolicy::default() };
    let retries = own.get("maxRetries");
    let retries = retries.and_then(|entry| entry.whole(0, u64::from(RECOVERY_RETRIES_MAX)));
    RecoveryPolicy {
        from: own.word("from", RUNGS, Rung::parse),
        max_retries: retries.and_then(|retries| u32::try_from(retries).ok()),
        idle_after: own.get("idleAfter").and_then(|entry| time(&entry)),
        min_resend_interval: own.get("minResendInterval").and_then(|entry| time(&entry)),
        reassign: own.get("reassign").and_then(|entry| flag(&entry)),
    }
}

fn time(entry: &Entry<'_>) -> Option<Millis> {
    let time = entry.duration()?;
    if (RECOVERY_TIME_MIN..=RECOVERY_TIME_MAX).contains(&time) {
        return Some(time);
    }
    let (min, max) = (duration::print(RECOVERY_TIME_MIN), duration::print(RECOVERY_TIME_MAX));
    entry.wrong(format!("is {}", duration::print(time)), format!("{min} to {max}"));
    None
}

fn flag(entry: &Entry<'_>) -> Option<bool> {
    let flag = entry.value().as_bool();
    if flag.is_none() {
        entry.wrong(format!("is {}", entry.value()), "true, false");
    }
    flag
}

/// The same as a document; none when nothing is said.
pub(super) fn written(own: RecoveryPolicy) -> Option<Value> {
    let mut fields = Map::new();
    let values = [
        ("from", own.from.map(|rung| json!(rung.as_policy()))),
        ("maxRetries", own.max_retries.map(|retries| json!(retries))),
        ("idleAfter", own.idle_after.map(|time| json!(duration::print(time)))),
        ("minResendInterval", own.min_resend_interval.map(|time| json!(duration::print(time)))),
        ("reassign", own.reassign.map(|may| json!(may))),
    ];
    for (key, value) in values {
        if let Some(value) = value {
            fields.insert(key.to_owned(), value);
        }
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}
