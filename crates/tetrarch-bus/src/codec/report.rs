//! Reports: one flat body whose kind says which fields are read.

use serde_json::Value;
use tetrarch_core::brief::Usage;
use tetrarch_core::budget::Spend;
use tetrarch_core::id::RequestId;
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::request::Report;
use tetrarch_core::run::RunEvent;
use tetrarch_core::time::BusTime;

use super::error::{CodecError, within};
use super::json::{self, Unknown};
use super::{budget, change, read, verbs};
use crate::proto::v1 as pb;

/// The body of a report.
///
/// # Errors
/// More bytes than allowed.
pub fn encode_report(report: &Report, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let mut message = pb::Report {
        request_id: id.to_string(),
        kind: report.kind().to_owned(),
        ..pb::Report::default()
    };
    match report {
        Report::Ready => {}
        Report::Gone { cause } | Report::Crashed { cause } => message.cause.clone_from(cause),
        Report::Run { run, event, reason, usage } => {
            message.run = run.to_string();
            message.event = event.as_str().to_owned();
            message.reason.clone_from(reason);
            message.usage = Some((*usage).into());
        }
        Report::Result { run, epic, result } => {
            message.run = read::show(run.as_ref());
            message.epic = read::show(epic.as_ref());
            message.result = Some(result.into());
        }
        Report::Ask { run, id, question, options } => {
            message.question_id = read::show(id.as_ref());
            message.run = run.to_string();
            message.question.clone_from(question);
            message.options.clone_from(options);
        }
        Report::Consumed { run, dispatch } => {
            message.run = run.to_string();
            message.dispatch = dispatch.to_string();
        }
        Report::Update { run, dispatch, update, expected } => {
            message.run = run.to_string();
            message.dispatch = read::show(dispatch.as_ref());
            message.update.clone_from(update);
            message.expected_unix_ms = expected.map(|at| at.0);
        }
        Report::Verb { run, id, verb, stage, why } => {
            message.run = run.to_string();
            message.request = id.to_string();
            message.verb = verb.as_str().to_owned();
            message.stage = stage.as_str().to_owned();
            message.reason.clone_from(why);
        }
        Report::SetAside(letter) => message.set_aside = Some(letter.into()),
        Report::Change { run, made } => {
            message.run = run.to_string();
            message.change = Some((&**made).into());
        }
        Report::Settled { change: id, outcome } => {
            message.settled = Some(change::outcome(*id, outcome));
        }
        Report::Draw { run, total } => {
            message.run = run.to_string();
            message.draw = Some((*total).into());
        }
        Report::BudgetWarning { run, counter, used, limit } => {
            message.run = run.to_string();
            let (counter, used, limit) = (counter.as_str().to_owned(), *used, *limit);
            message.budget_warning = Some(pb::BudgetWarning { counter, used, limit });
        }
        Report::SponsorSilent { request, sponsor } => {
            message.request = request.to_string();
            message.sponsor = sponsor.to_string();
        }
    }
    let bytes = json::write("Report", &message)?;
    within("report", bytes.len(), REQUEST_BYTES_MAX)?;
    Ok(bytes)
}

fn settled(outcome: Option<pb::ApplyOutcome>) -> Result<Report, CodecError> {
    let missing = || CodecError::Missing { field: "settled".to_owned() };
    let (change, outcome) = change::read_outcome(outcome.ok_or_else(missing)?)?;
    Ok(Report::Settled { change, outcome })
}

/// Reads the body of a report. The sender it names is checked elsewhere.
pub(super) fn decode(body: Value) -> Result<Report, CodecError> {
    let report: pb::Report = json::message("Report", body, Unknown::Refused)?;
    Ok(match report.kind.as_str() {
        "ready" => Report::Ready,
        "gone" => Report::Gone { cause: report.cause },
        "crashed" => Report::Crashed { cause: report.cause },
        "run" => Report::Run {
            run: read::text("run", &report.run)?,
            event: read::word("event", &report.event, &RunEvent::ALL, RunEvent::as_str)?,
            reason: report.reason,
            usage: report.usage.map(Usage::from).unwrap_or_default(),
        },
        "result" => Report::Result {
            run: read::optional("run", &report.run)?,
            epic: read::optional("epic", &report.epic)?,
            result: read::message("result", report.result)?,
        },
        "ask" => Report::Ask {
            run: read::text("run", &report.run)?,
            id: read::optional("questionId", &report.question_id)?,
            question: report.question,
            options: report.options,
        },
        "consumed" => Report::Consumed {
            run: read::text("run", &report.run)?,
            dispatch: read::text("dispatch", &report.dispatch)?,
        },
        "update" => Report::Update {
            run: read::text("run", &report.run)?,
            dispatch: read::optional("dispatch", &report.dispatch)?,
            update: report.update,
            expected: report.expected_unix_ms.map(BusTime),
        },
        "verb" => Report::Verb {
            run: read::text("run", &report.run)?,
            id: read::text("request", &report.request)?,
            verb: verbs::verb("verb", &report.verb)?,
            stage: verbs::stage("stage", &report.stage)?,
            why: report.reason,
        },
        "set_aside" => Report::SetAside(read::message("setAside", report.set_aside)?),
        "change" => Report::Change {
            run: read::text("run", &report.run)?,
            made: Box::new(read::message("change", report.change)?),
        },
        "settled" => settled(report.settled)?,
        "budget.draw" => Report::Draw {
            run: read::text("run", &report.run)?,
            total: report.draw.map(Spend::from).unwrap_or_default(),
        },
        "budget.warning" => {
            let warning = report.budget_warning.unwrap_or_default();
            Report::BudgetWarning {
                run: read::text("run", &report.run)?,
                counter: budget::counter("budgetWarning.counter", &warning.counter)?,
                used: warning.used,
                limit: warning.limit,
            }
        }
        "sponsor_silent" => Report::SponsorSilent {
            request: read::text("request", &report.request)?,
            sponsor: read::text("sponsor", &report.sponsor)?,
        },
        "" => return Err(CodecError::Missing { field: "kind".to_owned() }),
        other => {
            let allowed = "ready, gone, crashed, run, result, ask, consumed, update, verb, \
                           budget.draw, budget.warning, set_aside, change, settled, sponsor_silent";
            let reason = format!("unknown kind {other:?}; allowed: {allowed}");
            return Err(CodecError::field("kind", reason));
        }
    })
}
