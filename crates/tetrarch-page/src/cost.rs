//! What runs used: by project, model and agent, of every run that is still known.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use maud::{Markup, html};
use tetrarch_core::id::AgentId;
use tetrarch_view::amount::{cost as dollars, count};
use tetrarch_view::order::find;

use crate::render::PageModel;
use crate::sheet::{agent, nothing};

/// Lines of a table.
const LINES_SHOWN: usize = 50;

/// What some runs used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct CostSum {
    micro: u64,
    tokens_in: u64,
    tokens_out: u64,
    runs: u64,
}

impl CostSum {
    fn add(&mut self, other: Self) {
        self.micro = self.micro.saturating_add(other.micro);
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.runs += other.runs;
    }
}

/// The tables.
pub(crate) fn cost(model: &PageModel) -> Markup {
    let records = &model.fleet.fold.records;
    let mut all = CostSum::default();
    let (mut projects, mut models) =
        (BTreeMap::<String, CostSum>::new(), BTreeMap::<String, CostSum>::new());
    let mut agents = BTreeMap::<AgentId, CostSum>::new();
    for (id, status) in &records.run_status {
        let Some(run) = records.runs.get(id) else { continue };
        // What the host says of a run that goes on is newer than what is booked.
        let row = find(&model.rows, &run.agent).filter(|row| row.run == Some(*id));
        let told = row.map_or((0, 0, 0), |row| (row.cost_micro, row.tokens_in, row.tokens_out));
        let sum = CostSum {
            micro: status.usage.cost_micro.max(told.0),
            tokens_in: status.usage.tokens_in.max(told.1),
            tokens_out: status.usage.tokens_out.max(told.2),
            runs: 1,
        };
        let project = records.goals.get(&run.epic).map(|goal| goal.project.to_string());
        let named = &run.brief.runner;
        let name = if named.model.is_empty() { named.kind.as_str() } else { &named.model };
        all.add(sum);
        projects.entry(project.unwrap_or_default()).or_default().add(sum);
        models.entry(name.to_owned()).or_default().add(sum);
        agents.entry(run.agent.clone()).or_default().add(sum);
    }
    if all.runs == 0 {
        return nothing("No run is known.");
    }
    let text = |name: &String| html! { (name) };
    html! {
        p class="count" {
            (all.runs) " runs, " (count(all.tokens_in)) " tokens in, " (count(all.tokens_out)) " out, " (spent(all.micro))
        }
        (table("Projects", "PROJECT", projects, text))
        (table("Models", "MODEL", models, text))
        (table("Agents", "AGENT", agents, agent))
    }
}

fn spent(micro: u64) -> String {
    if micro == 0 { "$0".to_owned() } else { dollars(micro) }
}

fn table<K: Ord + Clone>(
    title: &str,
    head: &str,
    sums: BTreeMap<K, CostSum>,
    name: impl Fn(&K) -> Markup,
) -> Markup {
    let mut lines: Vec<(K, CostSum)> = sums.into_iter().collect();
    lines.sort_by_key(|(key, sum)| (Reverse(*sum), key.clone()));
    let more = lines.len().saturating_sub(LINES_SHOWN);
    html! {
        h2 { (title) }
        table tabindex="0" {
            thead { tr { @for head in [head, "COST", "IN", "OUT", "RUNS"] { th scope="col" { (head) } } } }
            tbody {
                @for (key, sum) in lines.iter().take(LINES_SHOWN) {
                    tr {
                        th scope="row" { (name(key)) }
                        td { (spent(sum.micro)) } td { (count(sum.tokens_in)) } td { (count(sum.tokens_out)) } td { (sum.runs) }
                    }
                }
            }
        }
        @if more > 0 { (nothing(&format!("and {more} more that used less"))) }
    }
}
