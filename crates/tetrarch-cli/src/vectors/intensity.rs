//! Cases of restart intensity (spec 04).

use tetrarch_core::intensity::{Circuit, Intensity};
use tetrarch_core::time::{BusTime, Millis};

use crate::vectors::input::CaseValue;
use crate::vectors::outcome::{CaseOutcome, CaseResult};

/// Whether the circuit is open at a time, after the failures up to then.
pub(super) fn outcome(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let given = given.keys("max_restarts window_ms")?;
    let when = when.keys("failures_at_ms at_ms")?;
    let default = Intensity::default();
    let intensity = Intensity {
        max: given.or("max_restarts", default.max, CaseValue::whole)?,
        window: given.or("window_ms", default.window, |field| field.whole().map(Millis))?,
    };
    let mut failures: Vec<u64> = when.each("failures_at_ms", CaseValue::whole)?;
    let now = when.or("at_ms", u64::MAX, CaseValue::whole)?;
    failures.sort_unstable();
    let mut circuit = Circuit::default();
    for at in failures.into_iter().take_while(|at| *at <= now) {
        circuit.note(BusTime(at), intensity, "it died");
    }
    Ok(CaseOutcome::default().set("open", circuit.is_open()))
}
