//! Cases of a plan's shape (spec 05, Insights).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tetrarch_core::plan::insight::insights;

use crate::vectors::case::nothing_in;
use crate::vectors::input::{Field, Wrong};
use crate::vectors::outcome::Outcome;

pub(super) fn outcome(given: &Field<'_>, when: &Field<'_>) -> Result<Outcome, Wrong> {
    nothing_in(when)?;
    let given = given.map(&["edges", "nodes", "done"])?;
    let edges = given.or("edges", Vec::new(), Field::list)?;
    let edges = edges.iter().map(edge).collect::<Result<Vec<_>, _>>()?;
    let names = |field: &Field<'_>| {
        Ok(field.texts()?.into_iter().map(ToOwned::to_owned).collect::<BTreeSet<String>>())
    };
    let ends = || edges.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
    let nodes = match given.get("nodes") {
        Some(field) => names(&field)?,
        None => ends(),
    };
    let done = given.or("done", BTreeSet::new(), |field| names(field))?;
    let found = insights(&nodes, &edges, &done);
    let mut outcome = Outcome::default();
    outcome.set("topological", found.topological).set("critical_path", found.critical_path);
    outcome.set("longest", numbers(found.longest)).set("in_degree", numbers(found.in_degree));
    outcome.set("out_degree", numbers(found.out_degree)).set("cycles", found.cycles.len());
    outcome.set("ready", found.ready).set("pagerank", numbers(found.pagerank));
    let held: BTreeMap<String, usize> = found.bottlenecks.into_iter().collect();
    outcome.set("bottlenecks", numbers(held)).set("unknown", found.unknown.len());
    Ok(outcome)
}

fn edge(field: &Field<'_>) -> Result<(String, String), Wrong> {
    match field.texts()?.as_slice() {
        [from, to] => Ok(((*from).to_owned(), (*to).to_owned())),
        _ => Err(field.wrong("two names: who depends, and on whom")),
    }
}

fn numbers<N: Into<Value>>(of: BTreeMap<String, N>) -> Value {
    Value::Object(of.into_iter().map(|(name, number)| (name, number.into())).collect())
}
