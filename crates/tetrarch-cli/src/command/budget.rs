//! `budget`: what agents were granted and what became of it, down the tree (spec 06, Budgets).

mod raise;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::lease::Renewals;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::agent::Agent;
use tetrarch_core::budget::{Account, Counter, Meter, Spend};
use tetrarch_core::id::AgentId;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_core::time::BusTime;
use tetrarch_core::vitals::Vitals;
use tetrarch_view::burn::bars;

use crate::output::{self, Cell, Tone, align, is_coloured, now};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Arguments of `budget`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
SPENT is what the agent drew or used, and what its ended children used. DRAWN is what it holds for
its own calls. RESERVED is what its living children were granted. FREE is the rest. An agent that
cannot have children draws its whole grant at its start; SPENT is what it used of it, as far as its
host has reported, or with --live up to now.

Examples:
  tetrarch budget
  tetrarch budget PO-demo --live          # with the usage that hosts report
  tetrarch budget PO-demo -o json
  tetrarch budget raise PO-demo --tokens +50k"
)]
pub(crate) struct BudgetArgs {
    /// The subcommand.
    #[command(subcommand)]
    command: Option<BudgetCommand>,
    /// Show only this agent and its descendants.
    agent: Option<AgentId>,
    /// Include terminated agents.
    #[arg(short, long)]
    all: bool,
    /// Listen to the hosts for one liveness window and show current usage and burn rate.
    #[arg(long)]
    live: bool,
}

/// Subcommands of `budget`.
#[derive(Debug, clap::Subcommand)]
enum BudgetCommand {
    /// Raise the grant of an agent while its run goes on.
    Raise(raise::RaiseArgs),
}

/// What hosts said of their agents.
type Living = BTreeMap<AgentId, Vitals>;

/// Runs the command.
///
/// # Errors
/// The bus cannot be read; there is no such agent; the owner refuses.
pub(crate) async fn run(context: &Context, args: BudgetArgs) -> CliResult {
    match args.command {
        Some(BudgetCommand::Raise(args)) => raise::run(context, args).await,
        None => show(context, args).await,
    }
}

async fn show(context: &Context, args: BudgetArgs) -> CliResult {
    let bus = context.client().await?.bus;
    let wanted = [Select::Kind(KeyKind::Agent), Select::Kind(KeyKind::RunStatus)];
    let snapshot = StateSnapshot::read(&bus, &wanted).await?;
    let agents = &snapshot.records.agents;
    if let Some(id) = &args.agent
        && !agents.contains_key(id)
    {
        let what = format!("agent {id} was not found");
        return Err(CliError::new(Code::NotFound, what).hint("list agents with `tetrarch tree`"));
    }
    let living =
        if args.live { listen(&bus, context.config.liveness.window).await? } else { Living::new() };
    let tree = BudgetTree { records: &snapshot.records, all: args.all, living, now: now() };
    let roots = args.agent.map_or_else(|| tree.roots(), |id| agents.get(&id).into_iter().collect());
    let whole = Value::Array(roots.iter().map(|root| tree.json(root)).collect());
    output::record(context.output, &whole, || tree.table(&roots, is_coloured()))
}

/// What hosts say within a window, in which each tells of every agent.
async fn listen(bus: &Bus, window: Duration) -> CliResult<Living> {
    let mut renewals = Renewals::listen(bus).await?;
    let mut living = Living::new();
    if std::io::stderr().is_terminal() {
        output::say(&format!("listening to the hosts for {} s", window.as_secs_f32().ceil()));
    }
    let all = async {
        loop {
            let rows = renewals.next().await.rows;
            living.extend(rows.into_iter().map(|row| (row.agent.clone(), row)));
        }
    };
    // The window is how long it listens.
    let _over = tokio::time::timeout(window, all).await;
    Ok(living)
}

/// The agents, by parent.
struct BudgetTree<'a> {
    records: &'a Records,
    all: bool,
    living: Living,
    now: BusTime,
}

impl<'a> BudgetTree<'a> {
    fn roots(&self) -> Vec<&'a Agent> {
        let spends = |agent: &&Agent| {
            let role = Role::of(&agent.id);
            agent.parent.as_ref().is_none_or(|parent| *parent == AgentId::Go)
                && role == Role::Project
                && self.is_shown(agent)
        };
        self.records.agents.values().filter(spends).collect()
    }

    fn is_shown(&self, agent: &Agent) -> bool {
        self.all || agent.liveness != Liveness::Terminated
    }

    fn below(&self, id: &AgentId) -> Vec<&'a Agent> {
        let below = |agent: &&Agent| agent.parent.as_ref() == Some(id) && self.is_shown(agent);
        let mut children: Vec<&Agent> = self.records.agents.values().filter(below).collect();
        children.sort_by_key(|child| (child.work.as_ref().map(|work| work.node), child.created));
        children
    }

    fn burnt(&self, id: &AgentId) -> Vec<Spend> {
        self.living.get(id).map(|vitals| vitals.burn.by(self.now)).unwrap_or_default()
    }

    /// The account of an agent with what is known of its run, which is booked when that has ended.
    fn account(&self, agent: &Agent) -> Account {
        let run = agent.work.as_ref().and_then(|work| self.records.run_status.get(&work.run));
        let reported = run.map(|run| run.usage.spend()).unwrap_or_default();
        let living = self.living.get(&agent.id).filter(|vitals| vitals.epoch == agent.epoch);
        let told = living.filter(|_| run.is_some()).map_or(reported, |vitals| {
            let Vitals { tokens, cost_micro, turns, .. } = *vitals;
            reported.max(Spend { tokens, cost_micro, turns })
        });
        let mut account = agent.account;
        account.charge(told.minus(account.used));
        account
    }

    fn json(&self, agent: &Agent) -> Value {
        let account = self.account(agent);
        let counters = Counter::ALL.into_iter().map(|counter| {
            let Sums { meter, drawn, percent } = Sums::of(agent, &account, counter);
            let sums = json!({
                "grant": meter.limit, "spent": meter.spent, "drawn": drawn,
                "reserved": meter.reserved, "free": meter.free(), "percent": percent,
            });
            (name(counter).to_owned(), sums)
        });
        let burnt = self.burnt(&agent.id);
        let minutes = |of: fn(&Spend) -> u64| burnt.iter().map(of).collect::<Vec<u64>>();
        json!({
            "agent": agent.id.to_string(),
            "liveness": agent.liveness.as_str(),
            "budget": counters.collect::<serde_json::Map<_, _>>(),
            "unsettledRuns": agent.unsettled.lost().count(),
            "burn": self.living.get(&agent.id).map(|vitals| json!({
                "runTokens": vitals.tokens, "runCostMicro": vitals.cost_micro,
                "tokensPerMinute": minutes(|spend| spend.tokens),
                "costMicroPerMinute": minutes(|spend| spend.cost_micro),
            })),
            "children": self.below(&agent.id).iter().map(|child| self.json(child)).collect::<Vec<_>>(),
        })
    }

    fn table(&self, roots: &[&Agent], coloured: bool) -> String {
        let names =
            ["AGENT", "COUNTER", "GRANT", "SPENT", "DRAWN", "RESERVED", "FREE", "USED", "BURN"];
        let mut lines = vec![names.map(|name| Cell::from(name).toned(Tone::Head)).to_vec()];
        for root in roots {
            self.lines(root, 0, &mut lines);
        }
        align(&lines, coloured)
    }

    fn lines(&self, agent: &Agent, depth: usize, lines: &mut Vec<Vec<Cell>>) {
        let account = self.account(agent);
        let shown = Counter::ALL.into_iter().filter(|counter| {
            let meter = account.meter(*counter);
            *counter == Counter::Tokens || meter.limit.is_some() || meter.spent > 0
        });
        for (place, counter) in shown.enumerate() {
            let Sums { meter, drawn, percent } = Sums::of(agent, &account, counter);
            let amount = |amount: u64| Cell::from(shown_as(counter, amount));
            let maybe = |amount: Option<u64>| {
                Cell::from(amount.map_or_else(|| "-".to_owned(), |it| shown_as(counter, it)))
            };
            let first = place == 0;
            let who =
                if first { format!("{}{}", "  ".repeat(depth), agent.id) } else { String::new() };
            lines.push(vec![
                who.into(),
                Cell::from(counter.as_str()).toned(Tone::Faint),
                maybe(meter.limit),
                amount(meter.spent),
                amount(drawn),
                amount(meter.reserved),
                maybe(meter.free()),
                Cell::some(percent.map(|percent| format!("{percent}%"))),
                if first { bars(&self.burnt(&agent.id)).into() } else { "".into() },
            ]);
        }
        for child in self.below(&agent.id) {
            self.lines(child, depth + 1, lines);
        }
    }
}

/// What is shown of one counter.
struct Sums {
    meter: Meter,
    /// What the agent holds for its own calls.
    drawn: u64,
    /// What is spent or reserved, of the grant.
    percent: Option<u64>,
}

impl Sums {
    fn of(agent: &Agent, account: &Account, counter: Counter) -> Self {
        let meter = account.meter(counter);
        let role = Role::of(&agent.id);
        let at_launch = role.takes_slot() && !role.draws() && agent.has_process();
        let drawn = account.drawn.of(counter);
        let drawn = if at_launch { meter.limit.unwrap_or(drawn) } else { drawn };
        let gone = u128::from(meter.spent) + u128::from(meter.reserved);
        let share = |limit: u64| u64::try_from(gone * 100 / u128::from(limit.max(1)));
        let percent = meter.limit.map(|limit| share(limit).unwrap_or(u64::MAX));
        Self { meter, drawn, percent }
    }
}

fn name(counter: Counter) -> &'static str {
    match counter {
        Counter::Tokens => "tokens",
        Counter::CostMicro => "costMicro",
        Counter::Turns => "turns",
    }
}

fn shown_as(counter: Counter, amount: u64) -> String {
    match counter {
        Counter::Tokens | Counter::Turns => amount.to_string(),
        Counter::CostMicro => format!("${:.4}", amount as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{agent, live, run_status, worker};
    use tetrarch_core::budget::Limits;
    use tetrarch_core::ledger::Record;
    use tetrarch_core::run::RunState;

    fn fleet() -> Records {
        let limit = |tokens| Limits { tokens: Some(tokens), ..Limits::default() };
        let mut parent = agent("PO-demo", Some("GO"), Liveness::Active);
        parent.account = Account::of(limit(200));
        parent.account.reserve(limit(50));
        parent.account.charge(Spend { tokens: 30, cost_micro: 1_500, turns: 0 });
        let mut child = worker(2, 1, Liveness::Active);
        child.account = Account::of(limit(50));
        let ended = worker(3, 2, Liveness::Terminated);
        let mut records = Records::default();
        for agent in [parent, child, ended] {
            records.put(Record::Agent(Box::new(agent)));
        }
        records
    }

    #[test]
    fn grants_are_shown_down_the_tree() {
        let records = fleet();
        let tree =
            BudgetTree { records: &records, all: false, living: Living::new(), now: BusTime(0) };
        let text = tree.table(&tree.roots(), false);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["PO-demo", "tokens", "200", "30", "0", "50", "120", "40%"]);
        assert_eq!(lines[2], ["cost", "-", "$0.0015", "$0.0000", "$0.0000", "-"]);
        assert_eq!(lines[3][1..], ["tokens", "50", "0", "50", "0", "50", "0%"]);
        assert_eq!(lines.len(), 4, "{text}");
        let value = tree.json(tree.roots()[0]);
        assert_eq!(value["budget"]["tokens"]["free"], 120);
        assert_eq!(value["children"][0]["budget"]["tokens"]["drawn"], 50);
    }

    #[test]
    fn run_that_goes_on_shows_what_was_reported_of_it() {
        let mut records = fleet();
        let mut status = run_status(2, RunState::Running);
        (status.usage.tokens_in, status.usage.cost_micro) = (20, 500_000);
        records.put(Record::RunStatus(Box::new(status)));
        let mut tree =
            BudgetTree { records: &records, all: false, living: Living::new(), now: BusTime(0) };
        let lines = |tree: &BudgetTree<'_>| {
            let text = tree.table(&tree.roots(), false);
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            text.lines().map(words).collect::<Vec<Vec<String>>>()
        };
        assert_eq!(lines(&tree)[3][1..], ["tokens", "50", "20", "50", "0", "30", "40%"]);
        assert_eq!(lines(&tree)[4][..3], ["cost", "-", "$0.5000"]);
        let vitals = live(2, 35);
        tree.living.insert(vitals.agent.clone(), vitals);
        assert_eq!(lines(&tree)[3][1..8], ["tokens", "50", "35", "50", "0", "15", "70%"]);
        assert_eq!(tree.json(tree.roots()[0])["children"][0]["budget"]["tokens"]["spent"], 35);
    }
}
