//! What can be measured, how much of it, and in which order.

use std::time::Duration;

use crate::bare::Bare;
use crate::capture::{Capture, Replay};
use crate::fleet::Fleet;
use crate::requester::Requester;
use crate::table::Line;
use crate::tree::Agents;
use crate::{admissions, growth, insights, letters, recovery, spawning, sweeping, tree};

/// Requesters that ask side by side (spec 10).
pub(crate) const REQUESTERS: usize = 64;
/// Requesters that take turns on an idle fleet.
const TAKING_TURNS: usize = 8;

/// What is measured in this process.
pub(crate) const RATES: [&str; 7] =
    ["spawn", "admissions", "growth", "mail", "tree", "processes", "sweeper"];

/// What is pure, and needs no fleet.
pub(crate) const PLANS: &str = "insights";

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Requests of one round, on an idle fleet.
    pub(crate) requests: usize,
    /// Admissions of one requester in one round.
    pub(crate) admissions: usize,
    /// Children of one epic, one after the other.
    pub(crate) children: usize,
    /// Mails of one round.
    pub(crate) letters: usize,
    /// Trees of one round, one after the other.
    pub(crate) trees: usize,
    /// The same with real processes.
    pub(crate) process_trees: usize,
    /// The liveness window of the fleet.
    pub(crate) window: Duration,
    /// Print the messages of one piece of work, with their times.
    pub(crate) timeline: bool,
}

impl Effort {
    #[expect(clippy::print_stdout, reason = "asked for on the command line")]
    pub(crate) fn show(self, capture: &Capture) {
        if self.timeline {
            println!("{}", capture.timeline());
        }
    }
}

const FULL: Effort = Effort {
    rounds: 7,
    requests: 128,
    admissions: 16,
    children: 2_000,
    letters: 500,
    trees: 7,
    process_trees: 3,
    window: Duration::from_secs(5),
    timeline: false,
};

/// The window is short, so that whoever is not heard of is told soon.
const QUICK: Effort = Effort {
    rounds: 1,
    requests: 8,
    admissions: 2,
    children: 80,
    letters: 20,
    trees: 1,
    process_trees: 1,
    window: Duration::from_secs(1),
    timeline: false,
};

#[derive(Debug)]
pub(crate) struct Args {
    effort: Effort,
    requesters: usize,
    pub(crate) write: bool,
    only: Vec<String>,
}

impl Args {
    fn wants(&self, word: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == word)
    }
}

impl Args {
    /// What was asked for in these words; none when it cannot be understood.
    pub(crate) fn of(words: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut args =
            Self { effort: FULL, requesters: REQUESTERS, write: false, only: Vec::new() };
        for word in words {
            match word.as_str() {
                "--quick" => {
                    args.effort = Effort { timeline: args.effort.timeline, ..QUICK };
                    args.requesters = 8;
                }
                "--write" => args.write = true,
                "--timeline" => args.effort.timeline = true,
                // What Cargo adds.
                "--bench" => {}
                _ if word == PLANS
                    || RATES.contains(&&*word)
                    || recovery::WORDS.contains(&&*word) =>
                {
                    args.only.push(word);
                }
                _ => return None,
            }
        }
        Some(args)
    }

    /// Measures what was asked for: tables by their names.
    ///
    /// # Panics
    /// Something was not done that was to be measured.
    pub(crate) async fn measured(&self) -> Vec<(&'static str, Vec<Line>)> {
        let mut tables = Vec::new();
        if RATES.iter().any(|word| self.wants(word)) {
            let fleet = Fleet::start(self.effort.window).await;
            tables.push(("rates", measure(&fleet, self).await));
            fleet.stop().await;
        }
        if self.wants(PLANS) {
            tables.push(("plans", insights::measure(self.effort.rounds)));
        }
        let recovery = recovery::measure(|word| self.wants(word), self.effort).await;
        if !recovery.is_empty() {
            tables.push(("recovery", recovery));
        }
        for line in tables.iter().flat_map(|(_, lines)| lines) {
            assert!(line.is_sound(), "{} has no numbers", line.what);
        }
        tables
    }
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
    if args.wants("growth") {
        lines.extend(growth::measure(fleet, &mut requesters[0], args.effort).await);
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
