//! Reports: one flat body whose kind says which fields are read.

use serde_json::Value;
use tetrarch_core::id::RequestId;
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::request::Report;

use super::error::{CodecError, within};
use super::wire::{Wire, field, get, kept, put};
use super::{change, json};
use crate::proto::v1 as pb;

/// The body of a report.
///
/// # Errors
/// More bytes than allowed.
pub fn encode_report(report: &Report, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let bytes = json::write("Report", &put(report, id))?;
    within("report", bytes.len(), REQUEST_BYTES_MAX)?;
    Ok(bytes)
}

/// A report as a message.
pub(super) fn put(report: &Report, id: RequestId) -> pb::Report {
    let mut message = pb::Report {
        request_id: id.to_string(),
        kind: report.kind().to_owned(),
        ..pb::Report::default()
    };
    match report {
        Report::Ready => {}
        Report::Gone { cause } | Report::Crashed { cause } => message.cause.clone_from(cause),
        Report::Run { run, event, reason, usage } => {
            message.run = run.put();
            message.event = event.put();
            message.reason.clone_from(reason);
            message.usage = kept::put(usage);
        }
        Report::Result { run, epic, result } => {
            message.run = run.put();
            message.epic = epic.put();
            message.result = result.put();
        }
        Report::Ask { run, id, question, options } => {
            message.question_id = id.put();
            message.run = run.put();
            message.question.clone_from(question);
            message.options.clone_from(options);
        }
        Report::Consumed { run, dispatch } => {
            message.run = run.put();
            message.dispatch = dispatch.put();
        }
        Report::Update { run, dispatch, update, expected } => {
            message.run = run.put();
            message.dispatch = dispatch.put();
            message.update.clone_from(update);
            message.expected_unix_ms = expected.put();
        }
        Report::Verb { run, id, verb, stage, why } => {
            message.run = run.put();
            message.request = id.put();
            message.verb = verb.put();
            message.stage = stage.put();
            message.reason.clone_from(why);
        }
        Report::SetAside(letter) => message.set_aside = letter.put(),
        Report::Change { run, made } => {
            message.run = run.put();
            message.change = made.put();
        }
        Report::Settled { change: id, outcome } => {
            message.settled = Some(change::outcome(*id, outcome));
        }
        Report::Draw { run, total } => {
            message.run = run.put();
            message.draw = kept::put(total);
        }
        Report::BudgetWarning { run, counter, used, limit } => {
            message.run = run.put();
            message.budget_warning = Some(put!(BudgetWarning { counter, used, limit }));
        }
        Report::SponsorSilent { request, sponsor } => {
            message.request = request.put();
            message.sponsor = sponsor.put();
        }
    }
    message
}

fn settled(outcome: Option<pb::ApplyOutcome>) -> Result<Report, CodecError> {
    let missing = || CodecError::missing().under("settled");
    let (change, outcome) = change::read_outcome(outcome.ok_or_else(missing)?)?;
    Ok(Report::Settled { change, outcome })
}

/// Reads the body of a report. The sender it names is checked elsewhere.
pub(super) fn decode(body: Value) -> Result<Report, CodecError> {
    let report: pb::Report = json::request(body)?;
    Ok(match report.kind.as_str() {
        "ready" => Report::Ready,
        "gone" => Report::Gone { cause: report.cause },
        "crashed" => Report::Crashed { cause: report.cause },
        "run" => Report::Run {
            run: field("run", report.run)?,
            event: field("event", report.event)?,
            reason: report.reason,
            usage: kept::get("usage", report.usage)?,
        },
        "result" => get!(report, Report::Result { run, epic, result }),
        "ask" => Report::Ask {
            run: field("run", report.run)?,
            id: field("question_id", report.question_id)?,
            question: report.question,
            options: report.options,
        },
        "consumed" => get!(report, Report::Consumed { run, dispatch }),
        "update" => Report::Update {
            run: field("run", report.run)?,
            dispatch: field("dispatch", report.dispatch)?,
            update: report.update,
            expected: field("expected_unix_ms", report.expected_unix_ms)?,
        },
        "verb" => Report::Verb {
            run: field("run", report.run)?,
            id: field("request", report.request)?,
            verb: field("verb", report.verb)?,
            stage: field("stage", report.stage)?,
            why: report.reason,
        },
        "set_aside" => Report::SetAside(field("set_aside", report.set_aside)?),
        "change" => Report::Change {
            run: field("run", report.run)?,
            made: Box::new(field("change", report.change)?),
        },
        "settled" => settled(report.settled)?,
        "budget.draw" => {
            Report::Draw { run: field("run", report.run)?, total: kept::get("draw", report.draw)? }
        }
        "budget.warning" => {
            let warning = report.budget_warning.unwrap_or_default();
            Report::BudgetWarning {
                run: field("run", report.run)?,
                counter: field("budget_warning.counter", warning.counter)?,
                used: warning.used,
                limit: warning.limit,
            }
        }
        "sponsor_silent" => get!(report, Report::SponsorSilent { request, sponsor }),
        "" => return Err(CodecError::missing().under("kind")),
        other => {
            let allowed = "ready, gone, crashed, run, result, ask, consumed, update, verb, \
                           budget.draw, budget.warning, set_aside, change, settled, sponsor_silent";
            let reason = format!("unknown kind {other:?}; allowed: {allowed}");
            return Err(CodecError::field("kind", reason));
        }
    })
}
