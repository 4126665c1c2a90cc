//! Cases of a plan's shape, and of what to take first in it (spec 05, Insights).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tetrarch_core::plan::advice::{Pending, recommend};
use tetrarch_core::plan::insight::insights;
use tetrarch_core::priority::{Priorities, Priority};
use tetrarch_core::time::Millis;

use crate::vectors::input::{CaseError, CaseMap, CaseValue, nothing_in};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

const DAY_MS: f64 = 86_400_000.0;

pub(super) fn outcome(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    nothing_in(when)?;
    let given = given.keys("edges nodes done priorities age_days")?;
    let edges = given.each("edges", edge)?;
    let names = |field: &CaseValue<'_>| Ok(field.texts()?.into_iter().collect::<BTreeSet<_>>());
    let ends = || edges.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
    let nodes = given.maybe("nodes", names)?.unwrap_or_else(ends);
    let done = given.or("done", BTreeSet::new(), names)?;
    let found = insights(&nodes, &edges, &done);
    let pending = pending_of(&given, &nodes, &done)?;
    let scores = recommend(&found, &pending);
    let held: BTreeMap<String, usize> = found.bottlenecks.into_iter().collect();
    let best: Vec<String> = scores.iter().map(|best| best.name.clone()).collect();
    let scores = scores.into_iter().map(|best| (best.name, best.score)).collect();
    Ok(CaseOutcome::default()
        .set("topological", found.topological)
        .set("critical_path", found.critical_path)
        .set("longest", numbers(found.longest))
        .set("in_degree", numbers(found.in_degree))
        .set("out_degree", numbers(found.out_degree))
        .set("cycles", found.cycles.len())
        .set("ready", found.ready)
        .set("pagerank", numbers(found.pagerank))
        .set("bottlenecks", numbers(held))
        .set("unknown", found.unknown.len())
        .set("recommended", best)
        .set("scores", numbers(scores)))
}

fn pending_of(
    given: &CaseMap<'_>,
    nodes: &BTreeSet<String>,
    done: &BTreeSet<String>,
) -> Result<BTreeMap<String, Pending>, CaseError> {
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let said = given.maybe("priorities", |field| field.map(&names))?;
    let ages = given.maybe("age_days", |field| field.map(&names))?;
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
    let said = field.keys("user overseer")?;
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
        [from, to] => Ok((from.clone(), to.clone())),
        _ => Err(field.wrong("two names: who depends, and on whom")),
    }
}

fn numbers<N: Into<Value>>(of: BTreeMap<String, N>) -> Value {
    Value::Object(of.into_iter().map(|(name, number)| (name, number.into())).collect())
}
