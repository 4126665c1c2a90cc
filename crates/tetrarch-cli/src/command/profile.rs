//! `profile`: lists and shows a project's profiles, and applies profile files to it: how agents of a kind are executed (spec 12).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::agent::Profile;
use tetrarch_core::duration;
use tetrarch_core::id::{ProfileName, ProjectName};
use tetrarch_core::ledger::Record;
use tetrarch_core::request::Op;

use crate::command::project::reply_json;
use crate::command::run::read_profiles;
use crate::output::{self, Cell, Sheet, TableRow, is_coloured};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

mod ready;

use ready::Ready;

/// Subcommands of `profile`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch profile list demo
  tetrarch profile show demo coder -o yaml
  tetrarch profile init rust --write rust.yaml
  tetrarch profile apply demo rust.yaml coder.toml
  tetrarch profile apply demo plan.yaml       # those under `profiles:`

A profile file (YAML, TOML or JSON):
  name = \"coder\"
  runner = \"process\"
  argv = [\"my-agent\", \"--stdio\"]
  passEnv = [\"MY_API_KEY\"]
  wall = \"30m\"

A file of several is a mapping from names to profiles, by itself or under `profiles:`. {plan_dir}
and a workspace that begins with a dot mean the directory of the file.

A task without a profile uses the profile `default`. The model of a profile `orchestrator` plans
the project's goals and reviews its results (docs/planner.md).")]
pub(crate) enum ProfileCommand {
    /// List profiles.
    List {
        /// Filter by project.
        project: Option<ProjectName>,
    },
    /// Show a profile.
    Show {
        /// The project.
        project: ProjectName,
        /// The profile.
        name: ProfileName,
    },
    /// Print a working profile to start from.
    Init {
        /// The kind of work.
        kind: Ready,
        /// The working directory [default: current directory].
        #[arg(long, value_name = "DIR")]
        workspace: Option<PathBuf>,
        /// Print it as the `profiles` section of a plan file.
        #[arg(long)]
        plan: bool,
        /// Write it to this file, which must not exist.
        #[arg(long, value_name = "FILE")]
        write: Option<PathBuf>,
    },
    /// Create or replace profiles of a project from profile or plan files.
    Apply {
        /// The project.
        project: ProjectName,
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Runs the command. Nothing is applied unless every file is right.
///
/// # Errors
/// A file is wrong; the owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, command: ProfileCommand) -> CliResult {
    match command {
        ProfileCommand::List { project } => list(context, project.as_ref()).await,
        ProfileCommand::Show { project, name } => show(context, &project, &name).await,
        ProfileCommand::Init { kind, workspace, plan, write } => {
            init(kind, workspace.as_deref(), plan, write.as_deref())
        }
        ProfileCommand::Apply { project, files } => apply(context, project, &files).await,
    }
}

const COLUMNS: &str = "PROJECT|NAME|RUNNER|EXECUTES|+TOOLS|+WALL";

/// What a profile runs: its model, or its command.
fn executes(profile: &Profile) -> String {
    match (profile.model.is_empty(), profile.argv.is_empty()) {
        (false, _) => profile.model.clone(),
        (true, false) => profile.argv.join(" "),
        (true, true) => profile.kind.program().to_owned(),
    }
}

async fn list(context: &Context, project: Option<&ProjectName>) -> CliResult {
    let bus = context.client().await?.bus;
    let snapshot = StateSnapshot::read(&bus, &[Select::Kind(KeyKind::Profile)]).await?;
    let all = snapshot.records.profiles.iter();
    let shown = all.filter(|((of, _), _)| project.is_none_or(|project| of == project));
    let row = |((of, _), profile): (&(ProjectName, ProfileName), &Profile)| {
        let tools: Vec<String> = profile.tools.names().map(|name| name.to_string()).collect();
        Ok(TableRow {
            cells: vec![
                of.to_string().into(),
                profile.name.to_string().into(),
                profile.kind.as_str().into(),
                executes(profile).into(),
                tools.join(",").into(),
                Cell::some(profile.wall.map(duration::print)),
            ],
            record: snapshot.json(&Record::Profile(of.clone(), Box::new(profile.clone())))?,
        })
    };
    let rows = shown.map(row).collect::<CliResult<Vec<TableRow>>>()?;
    output::listing(
        context.output,
        COLUMNS,
        rows,
        "No profiles. A plan file brings its own; `tetrarch profile apply PROJECT FILE` adds others.",
    )
}

async fn show(context: &Context, project: &ProjectName, name: &ProfileName) -> CliResult {
    let bus = context.client().await?.bus;
    let snapshot = StateSnapshot::read(&bus, &[Select::Kind(KeyKind::Profile)]).await?;
    let Some(profile) = snapshot.records.profiles.get(&(project.clone(), name.clone())) else {
        let what = format!("project {project} has no profile {name}");
        return Err(CliError::new(Code::NotFound, what)
            .hint(format!("`tetrarch profile list {project}` lists them")));
    };
    let value = snapshot.json(&Record::Profile(project.clone(), Box::new(profile.clone())))?;
    output::record(context.output, &value, || {
        let mut sheet = Sheet::new(&format!("profile {name} of {project}"), is_coloured());
        sheet.field("runner", profile.kind.as_str()).field("model", profile.model.as_str());
        sheet.list("argv", profile.argv.iter().cloned());
        sheet.list("env", profile.env.iter().map(|(name, value)| format!("{name}={value}")));
        sheet.list("passEnv", profile.pass_env.iter().cloned());
        sheet.list("writable", profile.writable.iter().cloned());
        sheet.list("tools", profile.tools.names().map(|name| name.to_string()));
        sheet.list("permissions", profile.permissions.rules.iter().map(ToString::to_string));
        let servers = profile.mcp_servers.iter().map(|it| {
            let reached = if it.argv.is_empty() { it.url.clone() } else { it.argv.join(" ") };
            format!("{}: {reached}", it.name)
        });
        sheet.list("mcpServers", servers);
        sheet.field("wall", Cell::some(profile.wall.map(duration::print)));
        sheet.field("workspace", profile.workspace.as_str());
        sheet.passage("prompt", &profile.prompt);
        sheet.finish()
    })
}

fn init(kind: Ready, workspace: Option<&Path>, plan: bool, write: Option<&Path>) -> CliResult {
    let workspace = std::path::absolute(workspace.unwrap_or(Path::new(".")))?;
    let text = if plan { kind.in_plan(&workspace) } else { kind.file(&workspace) };
    let Some(file) = write else {
        output::text(&text)?;
        return Ok(());
    };
    let mut written = File::create_new(file).map_err(|cause| {
        let what = format!("cannot write {}: {cause}", file.display());
        CliError::new(Code::Usage, what).hint("name a file that does not exist")
    })?;
    written.write_all(text.as_bytes())?;
    let name = file.display();
    let lacks = kind.lacks_key(|name| std::env::var_os(name).is_some());
    let lacks = lacks.map(|what| format!("note: {what}\n")).unwrap_or_default();
    let next = match (kind.is_agent(), plan) {
        (true, _) => format!("tetrarch run --goal 'what is to be done' --profiles {name}"),
        (false, true) => format!("add a title and phases to it, then tetrarch plan check {name}"),
        (false, false) => format!("tetrarch profile apply PROJECT {name}"),
    };
    output::text(&format!("{name} written\n{lacks}next: {next}\n"))?;
    Ok(())
}

async fn apply(context: &Context, project: ProjectName, files: &[PathBuf]) -> CliResult {
    let read: CliResult<Vec<Vec<Profile>>> = files.iter().map(|file| read_profiles(file)).collect();
    let profiles = read?.into_iter().flatten();
    let client = context.client().await?;
    let mut replies = Vec::new();
    for profile in profiles {
        let name = profile.name.clone();
        let profile = Box::new(profile);
        let op = Op::ProfileApply { project: project.clone(), profile };
        let reply = client.operate(&op).await?;
        let mut value = reply_json(&reply);
        value["profile"] = json!(name.as_str());
        replies.push((name, value));
    }
    let values = Value::Array(replies.iter().map(|(_, value)| value.clone()).collect());
    output::record(context.output, &values, || {
        replies.iter().map(|(name, _)| format!("profile {name} applied to {project}\n")).collect()
    })
}
