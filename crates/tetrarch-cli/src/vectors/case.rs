//! One case: reading it, running its machine, comparing what comes out.

use serde_json::{Map, Value};

use crate::vectors::input::{CaseError, CaseValue};
use crate::vectors::outcome::CaseResult;
use crate::vectors::{
    admission, budget, conversation, identity, insight, intensity, liveness, overseer, plan,
    reservation, run, status,
};

/// Runs a case: what is given, and when.
type Machine = fn(&CaseValue<'_>, &CaseValue<'_>) -> CaseResult;

/// The rules that can be checked.
pub(super) const MACHINES: [(&str, Machine); 18] = [
    ("run", run::outcome),
    ("liveness", liveness::session),
    ("sweep", liveness::sweep),
    ("admission", admission::outcome),
    ("identity", identity::outcome),
    ("node", status::node),
    ("assignment", status::assignment),
    ("goal", status::goal),
    ("rollup", plan::rolled_up),
    ("plan", plan::checked),
    ("intensity", intensity::outcome),
    ("budget", budget::outcome),
    ("insight", insight::outcome),
    ("tick", overseer::tick),
    ("update", overseer::update),
    ("reservation", reservation::outcome),
    ("lane", conversation::lane),
    ("graph", conversation::graph),
];

/// One case of a file.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) id: String,
    machine: Machine,
    given: Value,
    when: Value,
    then: Option<Value>,
}

impl Case {
    pub(super) fn read(line: &str) -> Result<Self, CaseError> {
        let value: Value = serde_json::from_str(line)
            .map_err(|error| CaseError(format!("is not a JSON object on one line: {error}")))?;
        let input = CaseValue::new("case", &value).keys("id machine given when then")?;
        let machines = MACHINES.map(|(name, _)| name).join(", ");
        let machine = input.need("machine")?.word(&machines, |text| {
            MACHINES.iter().find(|(name, _)| *name == text).map(|(_, machine)| *machine)
        })?;
        let part = |key| match input.get(key) {
            Some(field) => field.value().clone(),
            None => Value::Object(Map::new()),
        };
        Ok(Self {
            id: input.need("id")?.text()?.to_owned(),
            machine,
            given: part("given"),
            when: part("when"),
            then: input.get("then").map(|then| then.value().clone()),
        })
    }

    /// What the case comes to.
    pub(super) fn outcome(&self) -> CaseResult {
        let given = CaseValue::new("given", &self.given);
        let when = CaseValue::new("when", &self.when);
        (self.machine)(&given, &when)
    }

    /// None when the case holds, else what was expected and what came out.
    pub(super) fn compare(&self) -> Result<Option<(Value, Value)>, CaseError> {
        let Some(Value::Object(expected)) = &self.then else {
            return Err(CaseError("then: is not a mapping; give the expected outcome".to_owned()));
        };
        let outcome = self.outcome()?;
        let held = outcome.satisfies(expected);
        Ok((!held).then(|| (Value::Object(expected.clone()), outcome.into_value())))
    }
}
