//! Cases of a plan's shape, and of what to take first in it (spec 05, Insights).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tetrarch_core::plan::advice::{Pending, recommend};
use tetrarch_core::plan::insight::insights;
use tetrarch_core::priority::{Priorities, Priority};
use tetrarch_core::time::Millis;

use crate::vectors::input::nothing_in;
use crate::vectors::input::{CaseError, CaseMap, CaseValue};
use crate::vectors::outcome::CaseOutcome;

const DAY_MS: f64 = 86_400_000.0;

pub(super) fn outcome(
    given: &CaseValue<'_>,
    when: &CaseValue<'_>,
) -> Result<CaseOutcome, CaseError> {
    nothing_in(when)?;
    let given = given.map(&["edges", "nodes", "done", "priorities", "age_days"])?;
    let edges = given.or("edges", Vec::new(), CaseValue::list)?;
    let edges = edges.iter().map(edge).collect::<Result<Vec<_>, _>>()?;
    let names = |field: &CaseValue<'_>| {
        Ok(field.texts()?.into_iter().map(ToOwned::to_owned).collect::<BTreeSet<String>>())
    };
    let ends = || edges.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
    let nodes = match given.get("nodes") {
        Some(field) => names(&field)?,
        None => ends(),
    };
    let done = given.or("done", BTreeSet::new(), |field| names(field))?;
    let found = insights(&nodes, &edges, &done);
    let pending = pending_of(&given, &nodes, &done)?;
    let scores = recommend(&found, &pending);
    let mut outcome = CaseOutcome::default();
    outcome.set("topological", found.topological).set("critical_path", found.critical_path);
    outcome.set("longest", numbers(found.longest)).set("in_degree", numbers(found.in_degree));
    outcome.set("out_degree", numbers(found.out_degree)).set("cycles", found.cycles.len());
    outcome.set("ready", found.ready).set("pagerank", numbers(found.pagerank));
    let held: BTreeMap<String, usize> = found.bottlenecks.into_iter().collect();
    outcome.set("bottlenecks", numbers(held)).set("unknown", found.unknown.len());
    let best: Vec<String> = scores.iter().map(|best| best.name.clone()).collect();
    outcome.set("recommended", best);
    let scores = scores.into_iter().map(|best| (best.name, best.score)).collect();
    outcome.set("scores", numbers(scores));
    Ok(outcome)
}

/// What is not done, with what was said of it and how long it has been there.
fn pending_of(
    given: &CaseMap<'_>,
    nodes: &BTreeSet<String>,
    done: &BTreeSet<String>,
) -> Result<BTreeMap<String, Pending>, CaseError> {
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let said = given.get("priorities").map(|field| field.map(&names)).transpose()?;
    let ages = given.get("age_days").map(|field| field.map(&names)).transpose()?;
    let one = |name: &String| {
        let said = said.as_ref().and_then(|said| said.get(name));
        let age = ages.as_ref().and_then(|ages| ages.get(name));
        let priorities = said.map_or(Ok(Priorities::default()), |field| priorities(&field))?;
        let days = age.map_or(Ok(0.0), |age| age.number())?;
        let age = Millis((days * DAY_MS).round() as u64);
        Ok((name.clone(), Pending { priorities, age }))
    };
    nodes.difference(done).map(one).collect()
}

fn priorities(field: &CaseValue<'_>) -> Result<Priorities, CaseError> {
    let said = field.map(&["user", "overseer"])?;
    let one = |name| {
        let read = |field: &CaseValue<'_>| {
            let number = field.whole()?;
            Priority::new(number).map(Some).map_err(|_| field.wrong("0 to 100"))
        };
        said.or(name, None, read)
    };
    Ok(Priorities { user: one("user")?, overseer: one("overseer")? })
}

fn edge(field: &CaseValue<'_>) -> Result<(String, String), CaseError> {
    match field.texts()?.as_slice() {
        [from, to] => Ok(((*from).to_owned(), (*to).to_owned())),
        _ => Err(field.wrong("two names: who depends, and on whom")),
    }
}

fn numbers<N: Into<Value>>(of: BTreeMap<String, N>) -> Value {
    Value::Object(of.into_iter().map(|(name, number)| (name, number.into())).collect())
}
