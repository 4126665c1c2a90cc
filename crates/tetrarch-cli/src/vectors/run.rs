//! Cases of the run's state machine (spec 06).

use tetrarch_core::brief::Usage;
use tetrarch_core::id::{AgentId, RunId, Ulid};
use tetrarch_core::run::{RunEvent, RunState, RunStatus};
use tetrarch_core::time::BusTime;

use crate::vectors::input::{CaseError, CaseMap, CaseValue};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

/// The event of spec 06's table that ends a drain; what it ended with is its `outcome`.
const DRAINED: &str = "drained";

pub(super) fn outcome(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let given = given.keys("state cancel_kept outcome")?;
    let when = when.keys("event outcome")?;
    let mut status = RunStatus {
        id: RunId(Ulid::nil()),
        agent: AgentId::Go,
        state: given
            .or("state", RunState::Queued, |field| field.one(&RunState::ALL, RunState::as_str))?,
        cancel_kept: given.or("cancel_kept", false, CaseValue::flag)?,
        dropped: false,
        since: BusTime(0),
        reminded: None,
        usage: Usage::default(),
        result: None,
        archive: None,
    };
    let event = read_event(&given, &when)?;
    let mut outcome = CaseOutcome::default();
    if let Err(error) = status.apply(event, BusTime(1)) {
        outcome = outcome.set("error", "illegal_transition").set_detail(error.to_string());
    }
    Ok(outcome.set("state", status.state.as_str()).set("cancel_kept", status.cancel_kept))
}

fn read_event(given: &CaseMap<'_>, when: &CaseMap<'_>) -> Result<RunEvent, CaseError> {
    let ended = |input: &CaseMap<'_>, default| {
        input.or("outcome", default, |field| {
            field.word("done, failed", |text| match text {
                "done" => Some(RunEvent::DrainedDone),
                "failed" => Some(RunEvent::DrainedFailed),
                _ => None,
            })
        })
    };
    let drained = ended(when, ended(given, RunEvent::DrainedDone)?)?;
    let events = RunEvent::ALL.map(RunEvent::as_str).join(", ");
    when.need("event")?.word(&format!("{DRAINED}, {events}"), |text| {
        if text == DRAINED { Some(drained) } else { RunEvent::parse(text) }
    })
}
