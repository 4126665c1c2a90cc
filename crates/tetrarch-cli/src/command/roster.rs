//! `roster`: the fleet on the terminal. What is shown and what keys do is `tetrarch-roster`'s; here it is joined to
//! the bus. Each side tells through one bounded channel, and keys come first.

mod asking;

use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use futures::StreamExt;
use tetrarch_bus::journal::JournalName;
use tetrarch_roster::input::{EventWish, RosterEffect, RosterInput, WatchedRun};
use tetrarch_roster::model::RosterModel;
use tetrarch_roster::terminal::{RosterScreen, inputs};
use tetrarch_roster::update::update;
use tetrarch_view::event::EventRow;
use tetrarch_view::news::{FleetNews, RunNews};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::calling::CalledProgram;
use super::following;
use super::run::fleet;
use crate::args::Args;
use crate::options::GlobalArgs;
use crate::output::{is_coloured, now};
use crate::process::stop_signal;
use crate::{CliError, CliResult, Code, Context, HumanClient};

/// The command's name.
pub(super) const NAME: &str = "roster";
/// How often what was heard is drawn, and the longest that it waits (spec 08, Roster).
const DRAWN_EVERY: Duration = Duration::from_millis(250);
/// News that wait to be taken in.
const NEWS_MAX: usize = 256;
/// How long a bare command looks for a fleet.
const OFFERED_WITHIN: Duration = Duration::from_secs(2);

/// Arguments of `roster`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch roster
  tetrarch                                # the same, on a terminal while a fleet is up

Agents that need somebody come first: those that wait for input, that spend too fast, whose work was
not accepted, that are stuck or orphaned. Press ? for every key. Without a terminal use `tetrarch
tree`, `tetrarch get agents` and `tetrarch inbox`.")]
pub(crate) struct RosterArgs {}

/// Runs the command.
///
/// # Errors
/// There is no terminal; the bus does not answer.
pub(crate) async fn run(context: &Context, _args: RosterArgs) -> CliResult {
    if !is_on_terminal() {
        return Err(CliError::new(Code::Usage, "the roster needs a terminal")
            .hint("`tetrarch tree` and `tetrarch get agents` print what it shows"));
    }
    let client = context.client().await?;
    let screen = RosterScreen::open()?;
    let size = screen.size()?;
    let model = RosterModel::new(client.human.clone(), is_coloured(), size, now());
    RosterSession::start(client, CalledProgram::own(context)?).show(screen, model).await
}

/// Whether somebody looks at the output and types the input.
fn is_on_terminal() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// Whether the program's name alone opens the roster: on a terminal, while a fleet can be reached.
pub(super) fn is_offered() -> bool {
    if !is_on_terminal() {
        return false;
    }
    let matches = Args::command().try_get_matches_from(["tetrarch", NAME]);
    let global = matches.and_then(|matches| GlobalArgs::from_arg_matches(&matches));
    // What is wrong with the configuration is said by the command that is asked for.
    let Some(context) = global.ok().and_then(|global| Context::load(&global).ok()) else {
        return false;
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return false;
    };
    let found = runtime
        .block_on(async { tokio::time::timeout(OFFERED_WITHIN, fleet::running(&context)).await });
    matches!(found, Ok(Ok(Some(_))))
}

/// The bus's side of the roster: tasks that end with it.
struct RosterSession {
    client: HumanClient,
    program: CalledProgram,
    tell: mpsc::Sender<RosterInput>,
    answers: mpsc::Receiver<RosterInput>,
    fleet: mpsc::Receiver<FleetNews>,
    tell_run: mpsc::Sender<RunNews>,
    run: mpsc::Receiver<RunNews>,
    events: mpsc::Receiver<Vec<EventRow>>,
    tasks: JoinSet<()>,
    /// The task that reads along with a run.
    reading: JoinSet<()>,
    /// The task that reads along with events.
    happening: JoinSet<()>,
    /// The command line that runs.
    commanding: JoinSet<()>,
}

impl RosterSession {
    fn start(client: HumanClient, program: CalledProgram) -> Self {
        let (tell, answers) = mpsc::channel(NEWS_MAX);
        let (tell_fleet, fleet) = mpsc::channel(NEWS_MAX);
        let (tell_run, run) = mpsc::channel(NEWS_MAX);
        let mut tasks = JoinSet::new();
        following::start(&client, &tell_fleet, &mut tasks);
        Self {
            client,
            program,
            tell,
            answers,
            fleet,
            tell_run,
            run,
            events: mpsc::channel(1).1,
            tasks,
            reading: JoinSet::new(),
            happening: JoinSet::new(),
            commanding: JoinSet::new(),
        }
    }

    /// Shows it until whoever looks has seen enough.
    async fn show(mut self, mut screen: RosterScreen, mut model: RosterModel) -> CliResult {
        let mut stop = stop_signal(false)?;
        let mut keys = std::pin::pin!(inputs());
        let mut due = interval(DRAWN_EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Keys are answered at once; what was heard is drawn when it is due.
        let mut at_once = true;
        while !model.quits {
            if at_once && model.changed {
                screen.draw(&model)?;
                model.changed = false;
            }
            at_once = false;
            let input = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                key = keys.next() => {
                    at_once = true;
                    // A terminal that is gone shows nothing more.
                    let Some(key) = key else { break };
                    key?
                }
                _ = due.tick() => {
                    at_once = true;
                    RosterInput::Tick(now())
                }
                Some(answer) = self.answers.recv() => answer,
                Some(news) = self.run.recv() => RosterInput::Run(news),
                Some(events) = self.events.recv() => RosterInput::Events(events),
                Some(news) = self.fleet.recv() => RosterInput::Fleet(news),
            };
            let (next, effects) = update(model, input);
            model = next;
            effects.into_iter().for_each(|effect| self.perform(effect));
            while self.tasks.try_join_next().is_some() {}
        }
        Ok(())
    }

    fn perform(&mut self, effect: RosterEffect) {
        let (client, tell) = (self.client.clone(), self.tell.clone());
        match effect {
            RosterEffect::Operate { ticket, op } => {
                self.tasks.spawn(asking::operate(client, tell, ticket, *op));
            }
            RosterEffect::Watch(watched) => {
                self.reading = JoinSet::new();
                if let Some(WatchedRun { agent, run }) = watched {
                    let (tell, name) = (self.tell_run.clone(), JournalName { agent, run });
                    self.reading.spawn(following::read_along(client, tell, name));
                }
            }
            RosterEffect::Follow(wish) => {
                self.happening = JoinSet::new();
                // What is in the former channel is of other events.
                let (tell, events) = mpsc::channel(NEWS_MAX);
                self.events = events;
                if let Some(EventWish { agent, through }) = wish {
                    self.happening.spawn(following::read_events(client, tell, agent, through));
                }
            }
            RosterEffect::Run(line) => {
                self.commanding = JoinSet::new();
                if let Some((ticket, line)) = line {
                    let program = self.program.clone();
                    self.commanding.spawn(asking::run(program, tell, ticket, line));
                }
            }
            RosterEffect::ReadPast { ticket, to } => {
                self.tasks.spawn(asking::read_past(client, tell, ticket, to));
            }
            RosterEffect::ReadDiff { change, digest, sha256 } => {
                self.tasks.spawn(asking::read_diff(client, tell, change, digest, sha256));
            }
        }
    }
}
