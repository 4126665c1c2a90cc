//! The commands, one file each, and the way into them.

pub(crate) mod advise;
pub(crate) mod agent;
pub(crate) mod answer;
pub(crate) mod artifact;
pub(crate) mod budget;
pub(crate) mod change;
pub(crate) mod circuit;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod events;
pub(crate) mod file;
pub(crate) mod get;
pub(crate) mod goal;
pub(crate) mod guard;
pub(crate) mod host;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod insights;
pub(crate) mod logs;
pub(crate) mod mail;
pub(crate) mod man;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod project;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod spawn;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod tick;
pub(crate) mod tree;
pub(crate) mod up;
pub(crate) mod vectors;
pub(crate) mod verb;
pub(crate) mod wait;
pub(crate) mod why;
pub(crate) mod work;
pub(crate) mod worktree;

use std::ffi::OsString;

use clap::{ArgMatches, FromArgMatches};
use tokio::runtime::Runtime;

use crate::args::{Args, Command, GlobalArgs, command_line};
use crate::context::Context;
use crate::exit::CliError;
use crate::name::{self, Resolved};
use crate::suggestion;
use crate::telemetry::{Counting, Telemetry};

/// Reads the command line, loads the configuration, starts telemetry and the runtime, and runs the command.
///
/// # Errors
/// The command's.
pub(crate) fn run() -> Result<(), CliError> {
    completion::answer();
    let line: Vec<OsString> = std::env::args_os().collect();
    let mut loose = name::loose(command_line());
    let matches = matches(&mut loose, &line);
    let asked = name::asked(&command_line(), &matches);
    if !asked.iter().any(name::is_open) {
        let Args { global, command } = args(&line, Resolved::new());
        // Needs nothing of what follows, and must not wait for a collector or a log.
        if let Command::Guard(args) = command {
            return guard::run(args);
        }
        return start(Context::load(&global)?, runtime()?, command);
    }
    let global = GlobalArgs::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let (mut context, runtime) = (Context::load(&global)?, runtime()?);
    let desk = runtime.block_on(context.desk())?;
    let names = runtime.block_on(name::resolve(&desk, &asked))?;
    context.opened = Some(desk);
    start(context, runtime, args(&line, names).command)
}

fn runtime() -> Result<Runtime, CliError> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// The line's matches; a line that is wrong, or asks for help, ends here.
fn matches(command: &mut clap::Command, line: &[OsString]) -> ArgMatches {
    command.try_get_matches_from_mut(line).unwrap_or_else(|error| suggestion::exit(&error, command))
}

/// The line's arguments, each name in its whole form.
fn args(line: &[OsString], names: Resolved) -> Args {
    let mut command = name::strict(command_line(), names);
    let matches = matches(&mut command, line);
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

fn start(context: Context, runtime: Runtime, command: Command) -> Result<(), CliError> {
    let serves = serves(&command);
    let mut telemetry = Telemetry::start(&context.config, default_log(serves), counting(&command))?;
    let outcome = runtime.block_on(async {
        telemetry.serve_metrics()?;
        dispatch(&context, command).await
    });
    telemetry.stop();
    // A blocking read of standard input would keep the runtime for ever.
    runtime.shutdown_background();
    outcome
}

/// Whether it goes on until it is told to end.
fn serves(command: &Command) -> bool {
    let hosts = matches!(command, Command::Host(args) if args.serves());
    hosts || matches!(command, Command::Up(_) | Command::Serve(_))
}

/// Whether it has something to tell to whoever asks for metrics. The programs that `up` starts share an address.
fn counting(command: &Command) -> Counting {
    if matches!(command, Command::Host(args) if args.with_parent) {
        Counting::BesideOwner
    } else if serves(command) && !matches!(command, Command::Up(_)) {
        Counting::Alone
    } else {
        Counting::Nobody
    }
}

/// What is logged unless somebody says: what serves tells how it is doing, what answers and ends
/// tells only what is odd.
fn default_log(serves: bool) -> &'static str {
    if serves { "info,async_nats=warn" } else { "warn" }
}

async fn dispatch(context: &Context, command: Command) -> Result<(), CliError> {
    match command {
        Command::Up(args) => up::run(context, args).await,
        Command::Down(args) => down::run(context, args).await,
        Command::Run(args) => run::run(context, args).await,
        Command::Attach(args) => run::attach(context, args).await,
        Command::Status(args) => status::run(context, args).await,
        Command::Serve(args) => serve::run(context, args).await,
        Command::Host(args) => host::run(context, args).await,
        Command::Guard(args) => guard::run(args),
        Command::Agent(command) => agent::run(context, command).await,
        Command::Project(command) => project::run(context, command).await,
        Command::Circuit(command) => circuit::run(context, command).await,
        Command::Profile(command) => profile::run(context, command).await,
        Command::Get(args) => get::run(context, args).await,
        Command::Describe(args) => describe::run(context, args).await,
        Command::Tree(args) => tree::run(context, args).await,
        Command::Budget(args) => budget::run(context, args).await,
        Command::Events(args) => events::run(context, args).await,
        Command::Replay(args) => replay::run(context, args).await,
        Command::Spawn(args) => spawn::run(context, args).await,
        Command::Stop(args) => stop::run(context, args).await,
        Command::Steer(args) => verb::steer(context, args).await,
        Command::Interrupt(args) => verb::interrupt(context, args).await,
        Command::Pause(args) => verb::pause(context, args).await,
        Command::Resume(args) => verb::resume(context, args).await,
        Command::Tick(args) => tick::run(context, args).await,
        Command::Wait(args) => wait::run(context, args).await,
        Command::Logs(args) => logs::run(context, args).await,
        Command::Inbox(args) => inbox::run(context, args).await,
        Command::Init(args) => init::run(&args),
        Command::Answer(args) => answer::run(context, args).await,
        Command::Change(command) => change::run(context, command).await,
        Command::Approve(args) => change::approve(context, args).await,
        Command::Deny(args) => change::deny(context, args).await,
        Command::Apply(args) => change::apply(context, args).await,
        Command::Worktree(command) => worktree::run(context, command).await,
        Command::File(command) => file::run(context, command).await,
        Command::Mail(command) => mail::run(context, command).await,
        Command::Artifact(command) => artifact::run(context, command).await,
        Command::Goal(command) => goal::run(context, command).await,
        Command::Work(command) => work::run(context, command).await,
        Command::Advise(args) => advise::run(context, args).await,
        Command::Schedule(command) => schedule::run(context, command).await,
        Command::Plan(command) => plan::run(context, command).await,
        Command::Insights(args) => insights::run(context, args).await,
        Command::Doctor(args) => doctor::run(context, args).await,
        Command::Config(command) => config::run(context, command),
        Command::Schema(args) => schema::run(context, &args),
        Command::Completion(args) => completion::run(&args),
        Command::Man(args) => man::run(args),
        Command::Vectors(command) => vectors::run(context, command),
        Command::Why(args) => why::run(context, args).await,
    }
}
