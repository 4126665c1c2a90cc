//! Reports: one flat body whose kind says which fields are read.

use serde_json::Value;
use tetrarch_core::id::RequestId;
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::request::Report;

use super::error::CodecError;
use super::wire::{Wire, field, kept, message, put};
use super::{change, json};
use crate::proto::v1 as pb;

/// The body of a report.
///
/// # Errors
/// More bytes than allowed.
pub fn encode_report(report: &Report, id: RequestId) -> Result<Vec<u8>, CodecError> {
    json::bounded("report", &put(report, id), REQUEST_BYTES_MAX)
}

/// The kinds of report, each with its fields and what it is in the core, where variables are called as the fields
/// are. One that is a message of its own is written out.
macro_rules! reports {
    ($($kind:literal: { $($f:ident $(as $k:ident)?),* } => ($($core:tt)+);)*) => {
        /// A report as a message.
        pub(super) fn put(report: &Report, id: RequestId) -> pb::Report {
            let (request_id, kind) = (id.to_string(), report.kind().to_owned());
            let mut it = pb::Report { request_id, kind, ..pb::Report::default() };
            match report {
                Report::Ready => {}
                $($($core)+ => {
                    $(it.$f = message!(@written *$f $(, $k)?);)*
                })*
                Report::Settled { change: id, outcome } => {
                    it.settled = Some(change::outcome(*id, outcome));
                }
                Report::BudgetWarning { run, counter, used, limit } => {
                    it.run = run.put();
                    it.budget_warning = Some(put!(BudgetWarning { counter, used, limit }));
                }
            }
            it
        }

        /// Reads the body of a report. The sender it names is checked elsewhere.
        pub(super) fn decode(body: Value) -> Result<Report, CodecError> {
            let it: pb::Report = json::request(body)?;
            Ok(match it.kind.as_str() {
                "ready" => Report::Ready,
                $($kind => {
                    $(let $f = message!(@read $f, it.$f $(, $k)?)?;)*
                    $($core)+
                })*
                "settled" => settled(it.settled)?,
                "budget.warning" => {
                    let warning = it.budget_warning.unwrap_or_default();
                    Report::BudgetWarning {
                        run: field("run", it.run)?,
                        counter: field("budget_warning.counter", warning.counter)?,
                        used: warning.used,
                        limit: warning.limit,
                    }
                }
                "" => return Err(CodecError::missing().under("kind")),
                other => {
                    let allowed = [$($kind),*].join(", ");
                    let reason = format!(
                        "unknown kind {other:?}; allowed: ready, {allowed}, settled, budget.warning"
                    );
                    return Err(CodecError::field("kind", reason));
                }
            })
        }
    };
}

reports! {
    "gone": { cause } => (Report::Gone { cause });
    "crashed": { cause } => (Report::Crashed { cause });
    "run": { run, event, reason, usage as kept } => (Report::Run { run, event, reason, usage });
    "result": { run, epic, result } => (Report::Result { run, epic, result });
    "ask": { run, question_id, question, options } =>
        (Report::Ask { run, id: question_id, question, options });
    "consumed": { run, dispatch } => (Report::Consumed { run, dispatch });
    "update": { run, dispatch, update, expected_unix_ms } =>
        (Report::Update { run, dispatch, update, expected: expected_unix_ms });
    "verb": { run, request, verb, stage, reason } =>
        (Report::Verb { run, id: request, verb, stage, why: reason });
    "set_aside": { set_aside } => (Report::SetAside(set_aside));
    "change": { run, change } => (Report::Change { run, made: change });
    "budget.draw": { run, draw as kept } => (Report::Draw { run, total: draw });
    "sponsor_silent": { request, sponsor } => (Report::SponsorSilent { request, sponsor });
}

fn settled(outcome: Option<pb::ApplyOutcome>) -> Result<Report, CodecError> {
    let missing = || CodecError::missing().under("settled");
    let (change, outcome) = change::read_outcome(outcome.ok_or_else(missing)?)?;
    Ok(Report::Settled { change, outcome })
}
