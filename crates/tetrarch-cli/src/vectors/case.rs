//! One case: reading it, running its machine, comparing what comes out.

use serde_json::{Map, Value};

use crate::vectors::input::{CaseError, CaseValue};
use crate::vectors::outcome::CaseOutcome;
use crate::vectors::{
    admission, budget, conversation, identity, insight, intensity, liveness, overseer, plan,
    reservation, run, status,
};

/// The rules that can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    Run,
    Liveness,
    Sweep,
    Admission,
    Identity,
    Node,
    Assignment,
    Goal,
    Rollup,
    Plan,
    Intensity,
    Budget,
    Insight,
    Tick,
    Update,
    Reservation,
    Lane,
    Graph,
}

impl Machine {
    pub(super) const ALL: [Self; 18] = [
        Self::Run,
        Self::Liveness,
        Self::Sweep,
        Self::Admission,
        Self::Identity,
        Self::Node,
        Self::Assignment,
        Self::Goal,
        Self::Rollup,
        Self::Plan,
        Self::Intensity,
        Self::Budget,
        Self::Insight,
        Self::Tick,
        Self::Update,
        Self::Reservation,
        Self::Lane,
        Self::Graph,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Liveness => "liveness",
            Self::Sweep => "sweep",
            Self::Admission => "admission",
            Self::Identity => "identity",
            Self::Node => "node",
            Self::Assignment => "assignment",
            Self::Goal => "goal",
            Self::Rollup => "rollup",
            Self::Plan => "plan",
            Self::Intensity => "intensity",
            Self::Budget => "budget",
            Self::Insight => "insight",
            Self::Tick => "tick",
            Self::Update => "update",
            Self::Reservation => "reservation",
            Self::Lane => "lane",
            Self::Graph => "graph",
        }
    }
}

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
        let input =
            CaseValue::new("case", &value).map(&["id", "machine", "given", "when", "then"])?;
        let machines = Machine::ALL.map(Machine::as_str).join(", ");
        let machine = input.need("machine")?.word(&machines, |text| {
            Machine::ALL.into_iter().find(|machine| machine.as_str() == text)
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
    pub(super) fn outcome(&self) -> Result<CaseOutcome, CaseError> {
        let given = CaseValue::new("given", &self.given);
        let when = CaseValue::new("when", &self.when);
        match self.machine {
            Machine::Run => run::outcome(&given, &when),
            Machine::Liveness => liveness::session(&given, &when),
            Machine::Sweep => liveness::sweep(&given, &when),
            Machine::Admission => admission::outcome(&given, &when),
            Machine::Identity => identity::outcome(&given, &when),
            Machine::Node => status::node(&given, &when),
            Machine::Assignment => status::assignment(&given, &when),
            Machine::Goal => status::goal(&given, &when),
            Machine::Rollup => plan::rolled_up(&given, &when),
            Machine::Plan => plan::checked(&given, &when),
            Machine::Intensity => intensity::outcome(&given, &when),
            Machine::Budget => budget::outcome(&given, &when),
            Machine::Insight => insight::outcome(&given, &when),
            Machine::Tick => overseer::tick(&given, &when),
            Machine::Update => overseer::update(&given, &when),
            Machine::Reservation => reservation::outcome(&given, &when),
            Machine::Lane => conversation::lane(&given, &when),
            Machine::Graph => conversation::graph(&given, &when),
        }
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
