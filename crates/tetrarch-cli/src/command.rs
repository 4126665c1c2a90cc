//! The commands, one file each, and the way into them.

pub(crate) mod acp;
pub(crate) mod advise;
pub(crate) mod agent;
pub(crate) mod answer;
pub(crate) mod artifact;
pub(crate) mod ask;
pub(crate) mod audit;
pub(crate) mod budget;
mod calling;
pub(crate) mod change;
pub(crate) mod chat;
pub(crate) mod circuit;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod creds;
pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod events;
pub(crate) mod file;
mod following;
pub(crate) mod get;
pub(crate) mod goal;
pub(crate) mod graph;
pub(crate) mod guard;
pub(crate) mod host;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod insights;
pub(crate) mod logs;
pub(crate) mod mail;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod note;
pub(crate) mod notify;
pub(crate) mod page;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod project;
pub(crate) mod replay;
pub(crate) mod roster;
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
use std::path::Path;

use clap::{ArgMatches, FromArgMatches};
use tetrarch_runner::{RELAY, launch_main, relay_main};
use tokio::runtime::Runtime;

use crate::args::{Args, CliCommand, command_line};
use crate::config::warn_of_directory_file;
use crate::name::{self, NameArgument, Resolved};
use crate::offline::{OfflineBus, only_reads};
use crate::options::GlobalArgs;
use crate::process::stop_signal;
use crate::suggestion;
use crate::telemetry::{Counting, TelemetryHandle};
use crate::{CliError, CliResult, Code, Context};

/// Reads the command line, loads the configuration, starts telemetry and the runtime, and runs the command.
///
/// # Errors
/// The command's.
pub(crate) fn run() -> CliResult {
    let mut line: Vec<OsString> = std::env::args_os().collect();
    if line.len() == 1 && roster::is_offered() {
        line.push(roster::NAME.into());
    }
    // Before anything else: each program of a run waits for it.
    if line.get(1).is_some_and(|word| word == host::LAUNCH) {
        return launch(&line[2..]);
    }
    if let [_, word, socket] = line.as_slice()
        && word == RELAY
    {
        return Ok(relay_main(Path::new(socket))?);
    }
    completion::answer(command_line);
    let mut loose = name::loose(command_line());
    let matches = matches(&mut loose, &line);
    let asked = name::asked(&command_line(), &matches);
    let global = GlobalArgs::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = if asked.iter().any(name::is_open) || only_reads(&matches) {
        warn_of_directory_file(&global);
        answer(&global, &matches, &asked, &line)
    } else {
        let Args { command, .. } =
            args(&line, Resolved::new()).unwrap_or_else(|wrong| wrong.exit());
        // Needs nothing of what follows, and must not wait for a collector or a log.
        if let CliCommand::Guard(args) = command {
            return guard::run(args);
        }
        // What `up` starts need not say again what `up` said.
        if !line.iter().any(|word| word == "--with-parent") {
            warn_of_directory_file(&global);
        }
        Context::load(&global).and_then(|context| start(&context, runtime(false)?, command))
    };
    outcome.map_err(|error| error.completed(&global))
}

/// Becomes a program of a run. A host starts it so, and nobody else.
fn launch(argv: &[OsString]) -> CliResult {
    let Err(cause) = launch_main(argv);
    let program = argv.first().map(|program| program.display().to_string()).unwrap_or_default();
    Err(CliError::new(Code::Failed, format!("cannot start {program}: {cause}")))
}

/// Runs a command whose names have to be looked up first, or that only reads; the bus is started for it
/// when the fleet is not running.
fn answer(
    global: &GlobalArgs,
    matches: &ArgMatches,
    asked: &[NameArgument],
    line: &[OsString],
) -> CliResult {
    let reads = only_reads(matches);
    let (mut context, runtime) = (Context::load(global)?, runtime(reads)?);
    let bus = if reads { runtime.block_on(OfflineBus::open(&context))? } else { None };
    let names = runtime.block_on(async {
        if !asked.iter().any(name::is_open) {
            return Ok(Resolved::new());
        }
        let client = context.client().await?;
        let names = name::resolve(&client, asked).await;
        context.opened = Some(client);
        names
    });
    let Some(bus) = bus else {
        let args = args(line, names?).unwrap_or_else(|wrong| wrong.exit());
        return start(&context, runtime, args.command);
    };
    let answered = names.map(|names| args(line, names).map(|args| args.command));
    let answered = match answered {
        Ok(Ok(command)) => Ok(Ok(runtime.block_on(async {
            let mut stop = stop_signal(false)?;
            tokio::select! {
                outcome = dispatch(&context, command) => outcome,
                _ = stop.wait_for(|stop| *stop) => {
                    Err(CliError::new(Code::Interrupted, "interrupted"))
                }
            }
        }))),
        Ok(Err(wrong)) => Ok(Err(wrong)),
        Err(error) => Err(error),
    };
    drop(context);
    runtime.block_on(bus.close())?;
    answered?.unwrap_or_else(|wrong| wrong.exit())
}

/// With one thread for what asks, gets an answer and ends: others would wake each other for each message of it.
fn runtime(is_short: bool) -> CliResult<Runtime> {
    let mut builder = if is_short {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    Ok(builder.enable_all().build()?)
}

/// A line that is wrong, or asks for help.
struct UsageError {
    error: clap::Error,
    command: clap::Command,
}

impl UsageError {
    /// Ends the program with what is to be said of it.
    fn exit(&self) -> ! {
        suggestion::exit(&self.error, &self.command)
    }
}

/// The line's matches; a line that is wrong, or asks for help, ends here.
fn matches(command: &mut clap::Command, line: &[OsString]) -> ArgMatches {
    command.try_get_matches_from_mut(line).unwrap_or_else(|error| suggestion::exit(&error, command))
}

/// The line's arguments, each name in its whole form.
fn args(line: &[OsString], names: Resolved) -> Result<Args, Box<UsageError>> {
    let mut command = name::strict(command_line(), names);
    let matches = command.try_get_matches_from_mut(line);
    let args = matches.and_then(|matches| Args::from_arg_matches(&matches));
    args.map_err(|error| Box::new(UsageError { error: error.format(&mut command), command }))
}

/// Runs a command that was typed inside another one, with its words after the program's name.
///
/// # Errors
/// The line is wrong; the command's.
async fn run_inside(context: &Context, words: Vec<String>) -> CliResult {
    let words = words.into_iter().map(OsString::from);
    let line: Vec<OsString> = std::iter::once("tetrarch".into()).chain(words).collect();
    let wrong = |error: clap::Error| suggestion::wrong(&error);
    let matches = name::loose(command_line()).try_get_matches_from(&line).map_err(wrong)?;
    let asked = name::asked(&command_line(), &matches);
    let names = name::resolve(&context.client().await?, &asked).await?;
    let command = args(&line, names).map_err(|wrong| suggestion::wrong(&wrong.error))?.command;
    Box::pin(dispatch(context, command)).await
}

fn start(context: &Context, runtime: Runtime, command: CliCommand) -> CliResult {
    let mut telemetry =
        TelemetryHandle::start(&context.config, default_log(&command), counting(&command))?;
    let outcome = runtime.block_on(async {
        telemetry.serve_metrics()?;
        dispatch(context, command).await
    });
    telemetry.stop();
    // A blocking read of standard input would keep the runtime for ever.
    runtime.shutdown_background();
    outcome
}

/// Whether it goes on until it is told to end.
fn serves(command: &CliCommand) -> bool {
    let hosts = matches!(command, CliCommand::Host(args) if args.serves());
    let tells = matches!(command, CliCommand::Notify(args) if args.serves());
    let others = matches!(command, CliCommand::Up(_) | CliCommand::Serve(_) | CliCommand::Page(_));
    hosts || tells || others
}

/// Whether it has something to tell to whoever asks for metrics. The programs that `up` starts share an address.
fn counting(command: &CliCommand) -> Counting {
    if matches!(command, CliCommand::Host(args) if args.with_parent) {
        Counting::BesideOwner
    } else if serves(command)
        && !matches!(command, CliCommand::Up(_) | CliCommand::Page(_) | CliCommand::Notify(_))
    {
        Counting::Alone
    } else {
        Counting::Nobody
    }
}

/// What is logged unless somebody says: what serves tells how it is doing, what answers and ends
/// tells only what is odd. On a screen that is drawn a line of a log would be in the way.
fn default_log(command: &CliCommand) -> &'static str {
    if matches!(command, CliCommand::Roster(_)) {
        "off"
    } else if serves(command) {
        "info,async_nats=warn,rmcp=warn"
    } else {
        "warn"
    }
}

async fn dispatch(context: &Context, command: CliCommand) -> CliResult {
    match command {
        CliCommand::Up(args) => up::run(context, args).await,
        CliCommand::Down(args) => down::run(context, args).await,
        CliCommand::Run(args) => run::run(context, args).await,
        CliCommand::Attach(args) => run::attach(context, args).await,
        CliCommand::Status(args) => status::run(context, args).await,
        CliCommand::Serve(args) => serve::run(context, args).await,
        CliCommand::Host(args) => host::run(context, args).await,
        CliCommand::Creds(command) => creds::run(context, command).await,
        CliCommand::Guard(args) => guard::run(args),
        CliCommand::Agent(command) => agent::run(context, command).await,
        CliCommand::Project(command) => project::run(context, command).await,
        CliCommand::Circuit(command) => circuit::run(context, command).await,
        CliCommand::Profile(command) => profile::run(context, command).await,
        CliCommand::Get(args) => get::run(context, args).await,
        CliCommand::Describe(args) => describe::run(context, args).await,
        CliCommand::Tree(args) => tree::run(context, args).await,
        CliCommand::Budget(args) => budget::run(context, args).await,
        CliCommand::Events(args) => events::run(context, args).await,
        CliCommand::Audit(args) => audit::run(context, args).await,
        CliCommand::Replay(args) => replay::run(context, args).await,
        CliCommand::Page(args) => page::run(context, args).await,
        CliCommand::Notify(args) => notify::run(context, args).await,
        CliCommand::Roster(args) => roster::run(context, args).await,
        CliCommand::Spawn(args) => spawn::run(context, args).await,
        CliCommand::Stop(args) => stop::run(context, args).await,
        CliCommand::Steer(args) => verb::steer(context, args).await,
        CliCommand::Interrupt(args) => verb::interrupt(context, args).await,
        CliCommand::Pause(args) => verb::pause(context, args).await,
        CliCommand::Resume(args) => verb::resume(context, args).await,
        CliCommand::Tick(args) => tick::run(context, args).await,
        CliCommand::Wait(args) => wait::run(context, args).await,
        CliCommand::Logs(args) => logs::run(context, args).await,
        CliCommand::Inbox(args) => inbox::run(context, args).await,
        CliCommand::Init(args) => init::run(context.output, &args),
        CliCommand::Ask(args) => ask::run(context, args).await,
        CliCommand::Chat(args) => chat::run(context, args).await,
        CliCommand::Graph(command) => graph::run(context, command).await,
        CliCommand::Answer(args) => answer::run(context, args).await,
        CliCommand::Change(command) => change::run(context, command).await,
        CliCommand::Approve(args) => change::approve(context, args).await,
        CliCommand::Deny(args) => change::deny(context, args).await,
        CliCommand::Apply(args) => change::apply(context, args).await,
        CliCommand::Worktree(command) => worktree::run(context, command).await,
        CliCommand::File(command) => file::run(context, command).await,
        CliCommand::Note(command) => note::run(context, command).await,
        CliCommand::Mail(command) => mail::run(context, command).await,
        CliCommand::Artifact(command) => artifact::run(context, command).await,
        CliCommand::Goal(command) => goal::run(context, command).await,
        CliCommand::Work(command) => work::run(context, command).await,
        CliCommand::Advise(args) => advise::run(context, args).await,
        CliCommand::Schedule(command) => schedule::run(context, command).await,
        CliCommand::Plan(command) => plan::run(context, command).await,
        CliCommand::Insights(args) => insights::run(context, args).await,
        CliCommand::Doctor(args) => doctor::run(context, args).await,
        CliCommand::Config(command) => config::run(context, command).await,
        CliCommand::Schema(args) => schema::run(context, &args),
        CliCommand::Completion(args) => completion::run(&args),
        CliCommand::Mcp(args) => mcp::run(context, command_line(), args).await,
        CliCommand::Acp(args) => acp::run(context, args).await,
        CliCommand::Man(args) => man::run(args, command_line()),
        CliCommand::Vectors(command) => vectors::run(context, command),
        CliCommand::Why(args) => why::run(context, args).await,
    }
}
