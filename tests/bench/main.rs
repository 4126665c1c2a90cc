//! The benchmarks of spec 10, each beside its floor: what bare clients on the same machine, in
//! the same run, need for the same chain or the same writes. Absolute times belong to the machine,
//! ratios to the code. It prints a table and checks nothing but that it ran.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking where it went wrong")]

mod admissions;
mod bare;
mod capture;
mod fleet;
mod insights;
mod lead;
mod letters;
mod machine;
mod numbers;
mod page;
mod recovery;
mod requester;
mod spawning;
mod sweeping;
mod table;
mod tree;

use bare::Bare;
use capture::{Capture, Replay};
use fleet::Fleet;
use requester::Requester;
use table::Line;
use tree::Agents;

/// Requesters that ask side by side (spec 10).
const REQUESTERS: usize = 64;
/// Requesters that take turns on an idle fleet.
const TAKING_TURNS: usize = 8;

const USAGE: &str = "\
benchmarks beside their floor
  --quick    a smoke run of a few seconds; its numbers mean little
  --write    write docs/benchmarks.md too
  --timeline print when each message of one spawn, or of one tree, was seen
  <word>...  only what is named: spawn, admissions, mail, tree, processes, sweeper; insights; death,
             host-loss, fail-over, bus-restart, up, start, idle (these need the release binary:
             cargo build --release)";

/// What is measured in this process.
const RATES: [&str; 6] = ["spawn", "admissions", "mail", "tree", "processes", "sweeper"];

/// What is pure, and needs no fleet.
const PLANS: &str = "insights";

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Effort {
    rounds: usize,
    /// Requests of one round, on an idle fleet.
    requests: usize,
    /// Admissions of one requester in one round.
    admissions: usize,
    /// Mails of one round.
    letters: usize,
    /// Trees of one round, one after the other.
    trees: usize,
    /// The same with real processes.
    process_trees: usize,
    /// Print the messages of one piece of work, with their times.
    timeline: bool,
}

impl Effort {
    #[expect(clippy::print_stdout, reason = "asked for on the command line")]
    fn show(self, capture: &Capture) {
        if self.timeline {
            println!("{}", capture.timeline());
        }
    }
}

const FULL: Effort = Effort {
    rounds: 7,
    requests: 128,
    admissions: 16,
    letters: 500,
    trees: 7,
    process_trees: 3,
    timeline: false,
};

const QUICK: Effort = Effort {
    rounds: 1,
    requests: 8,
    admissions: 2,
    letters: 20,
    trees: 1,
    process_trees: 1,
    timeline: false,
};

#[derive(Debug)]
struct Args {
    effort: Effort,
    requesters: usize,
    write: bool,
    only: Vec<String>,
}

impl Args {
    fn wants(&self, word: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == word)
    }
}

#[expect(clippy::print_stdout, reason = "the table is for whoever started it")]
#[tokio::main]
async fn main() {
    let Some(args) = args() else {
        println!("{USAGE}");
        return;
    };
    let facts = machine::facts().await;
    println!("{facts}");
    let mut tables = Vec::new();
    if RATES.iter().any(|word| args.wants(word)) {
        let fleet = Fleet::start().await;
        tables.push(("rates", measure(&fleet, &args).await));
        fleet.stop().await;
    }
    if args.wants(PLANS) {
        tables.push(("plans", insights::measure(args.effort.rounds)));
    }
    let recovery = recovery::measure(|word| args.wants(word), args.effort).await;
    if !recovery.is_empty() {
        tables.push(("recovery", recovery));
    }
    for (name, lines) in tables {
        let table = table::markdown(&lines);
        println!("{table}");
        for line in &lines {
            assert!(line.is_sound(), "{} has no numbers", line.what);
        }
        if args.write {
            page::write(name, &format!("{facts}\n{table}"));
        }
    }
}

/// What was asked for; none when it cannot be understood.
fn args() -> Option<Args> {
    let mut args = Args { effort: FULL, requesters: REQUESTERS, write: false, only: Vec::new() };
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--quick" => {
                args.effort = Effort { timeline: args.effort.timeline, ..QUICK };
                args.requesters = 8;
            }
            "--write" => args.write = true,
            "--timeline" => args.effort.timeline = true,
            // What Cargo adds.
            "--bench" => {}
            _ if word == PLANS || RATES.contains(&&*word) || recovery::WORDS.contains(&&*word) => {
                args.only.push(word);
            }
            _ => return None,
        }
    }
    Some(args)
}

async fn measure(fleet: &Fleet, args: &Args) -> Vec<Line> {
    let server = tetrarch_tests::server().await;
    let replay = Replay::on(&server).await;
    let mut requesters = Vec::new();
    for number in 0..args.requesters {
        requesters.push(Requester::join(fleet, &number.to_string()).await);
    }
    let few = requesters.len().min(TAKING_TURNS);
    let mut lines = Vec::new();
    if args.wants("spawn") {
        let mut bare = Bare::on(&server, false).await;
        lines
            .extend(spawning::measure(fleet, &mut bare, &mut requesters[..few], args.effort).await);
    }
    if args.wants("mail") {
        lines.extend(letters::measure(fleet, &server, &requesters[0], args.effort).await);
    }
    if args.wants("admissions") {
        lines.extend(admissions::measure(fleet, &replay, &mut requesters, args.effort).await);
    }
    for (word, agents) in [("tree", Agents::InProcess), ("processes", Agents::Processes)] {
        if args.wants(word) {
            let mut bare = Bare::on(&server, agents == Agents::Processes).await;
            lines.extend(tree::measure(fleet, &mut bare, &replay, agents, args.effort).await);
        }
    }
    if args.wants("sweeper") {
        let effort = args.effort;
        lines.extend(tokio::task::spawn_blocking(move || sweeping::measure(effort)).await.unwrap());
    }
    lines
}
