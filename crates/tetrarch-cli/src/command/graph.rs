//! `graph`: state graphs, by which the turns of conversations are routed (spec 07, State graphs). Checking, showing
//! and testing a file needs no bus.

mod drawing;

use std::path::{Path, PathBuf};

use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::graph::schema::{ReadGraph, parse, parse_text};
use tetrarch_core::graph::{Advance, Doing, GraphRecord, StateGraph};
use tetrarch_core::id::{GraphName, ProjectName};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::request::Op;
use tetrarch_core::request::conversations::{ConversationOp, GraphApply};

use super::project::ask;
use crate::document::read_document;
use crate::output::{self, TableRow, stamp};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Subcommands of `graph`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch graph check graph.yaml
  tetrarch graph show graph.yaml --mermaid
  tetrarch graph test graph.yaml --say 'count the files' --result 'there are 7'
  tetrarch graph apply demo graph.yaml
  tetrarch graph list demo
  tetrarch ask --conversation fence --project demo --graph triage 'paint the fence'

A running conversation keeps the version of its graph. A graph named `default` is followed by every
new conversation of its project (docs/conversations.md).")]
pub(crate) enum GraphCommand {
    /// Check graph files.
    Check {
        /// The files: YAML, TOML or JSON; `-` is standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Show a graph.
    Show {
        /// The file.
        #[arg(required_unless_present = "project", conflicts_with = "project")]
        file: Option<PathBuf>,
        /// Show a graph of this project instead of a file.
        #[arg(long, requires = "name")]
        project: Option<ProjectName>,
        /// The name of the graph.
        #[arg(long)]
        name: Option<GraphName>,
        /// Print it as a Mermaid flowchart.
        #[arg(long)]
        mermaid: bool,
    },
    /// Print the way that a turn takes through a graph, without running anything.
    Test {
        /// The file.
        file: PathBuf,
        /// What the person says.
        #[arg(long, value_name = "TEXT")]
        say: String,
        /// What comes of what the nodes have to do, in order.
        #[arg(long, value_name = "TEXT")]
        result: Vec<String>,
        /// The outcome of each result.
        #[arg(long, default_value = "success")]
        outcome: String,
    },
    /// List the graphs of a project.
    List {
        /// Filter by project.
        project: Option<ProjectName>,
    },
    /// Apply a graph to a project as its next version.
    Apply {
        /// The project.
        project: ProjectName,
        /// The file.
        file: PathBuf,
    },
}

/// Runs the command.
///
/// # Errors
/// A file is wrong; the owner refuses, or does not answer; the bus cannot be read.
pub(crate) async fn run(context: &Context, command: GraphCommand) -> CliResult {
    match command {
        GraphCommand::Check { files } => check(&files),
        GraphCommand::Show { file: Some(file), mermaid, .. } => {
            show(&read(&file)?.0.graph, mermaid)
        }
        GraphCommand::Show { file: None, project: Some(project), name: Some(name), mermaid } => {
            show(&applied(context, project, name).await?, mermaid)
        }
        GraphCommand::Show { .. } => {
            Err(CliError::new(Code::Usage, "give a file, or --project and --name"))
        }
        GraphCommand::Test { file, say, result, outcome } => {
            test(&read(&file)?.0.graph, &say, &result, &outcome)
        }
        GraphCommand::List { project } => list(context, project.as_ref()).await,
        GraphCommand::Apply { project, file } => {
            let (_, graph) = read(&file)?;
            let op = Op::Conversation(ConversationOp::Graph(GraphApply { project, graph }));
            ask(context, &op, |reply| reply.detail.clone()).await
        }
    }
}

/// Reads a graph file; says what its author should look at. Gives the text that is applied too.
fn read(file: &Path) -> CliResult<(ReadGraph, String)> {
    let document = read_document(file)?;
    let read = parse(&document.value).map_err(|problems| document.refused("graph", &problems))?;
    for line in document.lines(&read.warnings) {
        output::say(&format!("warning: {line}"));
    }
    Ok((read, document.value.to_string()))
}

fn check(files: &[PathBuf]) -> CliResult {
    let mut wrong = Vec::new();
    for file in files {
        match read(file) {
            Ok((ReadGraph { graph, .. }, _)) => {
                let (name, nodes) = (&graph.name, graph.nodes.len());
                output::text(&format!("{}: graph {name}, {nodes} nodes\n", file.display()))?;
            }
            Err(error) => wrong.push(error.what),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(CliError::new(Code::Usage, wrong.join("\n"))) }
}

fn show(graph: &StateGraph, mermaid: bool) -> CliResult {
    output::text(&if mermaid { drawing::mermaid(graph) } else { drawing::text(graph) })?;
    Ok(())
}

async fn applied(
    context: &Context,
    project: ProjectName,
    name: GraphName,
) -> CliResult<StateGraph> {
    let bus = context.client().await?.bus;
    let key = RecordKey::Graph(project.clone(), name.clone());
    let snapshot = StateSnapshot::read(&bus, &[Select::One(key)]).await?;
    let record = snapshot.records.graphs.get(&(project.clone(), name.clone()));
    let Some(latest) = record.and_then(|record| record.versions.last()) else {
        return Err(CliError::new(
            Code::NotFound,
            format!("project {project} has no graph {name}"),
        )
        .hint(format!("`tetrarch graph list {project}` lists them")));
    };
    let read = parse_text(&latest.text).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CliError::new(Code::Failed, lines.join("\n"))
    })?;
    Ok(read.graph)
}

/// Follows a turn through a graph with results that are given.
fn test(graph: &StateGraph, say: &str, results: &[String], outcome: &str) -> CliResult {
    let mut results = results.iter();
    let mut advance = graph.begin(say);
    loop {
        let Advance { position, path, doing, .. } = advance;
        let mut lines = path;
        let (line, goes_on) = match &doing {
            Doing::Spawn(work) => (format!("{} spawns: {}", position.at, work.task), true),
            Doing::Ask(text) => (format!("{} asks: {text}", position.at), true),
            Doing::Answer(text) => (format!("answer: {text}"), false),
            Doing::Stuck(why) => (format!("stuck: {why}"), false),
        };
        lines.push(line);
        output::text(&lines.join("\n"))?;
        let next = results.next().filter(|_| goes_on);
        let Some(result) = next else { return Ok(()) };
        advance = graph.go_on(position, outcome, result);
    }
}

const COLUMNS: &str = "PROJECT|GRAPH|VERSION|APPLIED|+KEPT";

async fn list(context: &Context, project: Option<&ProjectName>) -> CliResult {
    let bus = context.client().await?.bus;
    let snapshot = StateSnapshot::read(&bus, &[Select::Kind(KeyKind::Graph)]).await?;
    let all = snapshot.records.graphs.values();
    let shown = all.filter(|graph| project.is_none_or(|project| graph.project == *project));
    let row = |graph: &GraphRecord| {
        let latest = graph.versions.last();
        Ok(TableRow {
            cells: vec![
                graph.project.to_string().into(),
                graph.name.to_string().into(),
                latest.map_or(0, |latest| latest.version).to_string().into(),
                latest.map_or_else(String::new, |latest| stamp(latest.applied)).into(),
                graph.versions.len().to_string().into(),
            ],
            record: snapshot.json(&Record::Graph(Box::new(graph.clone())))?,
        })
    };
    let rows = shown.map(row).collect::<CliResult<Vec<TableRow>>>()?;
    let empty = "No graphs. Conversations follow the graph that comes with the program; apply \
                 another with `tetrarch graph apply PROJECT FILE`.";
    output::listing(context.output, COLUMNS, rows, empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `check` says of a graph file with these nodes, a line for each problem.
    fn refused(nodes: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("graph.yaml");
        std::fs::write(&path, format!("name: g\nonStuck: end\nnodes:\n{nodes}")).unwrap();
        let error = check(std::slice::from_ref(&path)).unwrap_err();
        assert_eq!(error.code, Code::Usage);
        let lines = error.what.lines().skip(1);
        lines.map(|line| line.replace(&dir.path().display().to_string(), "")).collect()
    }

    #[test]
    fn each_refusal_of_a_graph_names_file_line_and_what_is_allowed() {
        const END: &str = "  - {name: end, terminal: true}\n";
        let to_end = |node: &str| format!("  - {{name: a, edges: [{{to: end}}]{node}}}\n{END}");
        let guard = |text: &str| {
            format!("  - name: a\n    edges:\n      - {{to: end, guard: \"{text}\"}}\n{END}")
        };
        for (nodes, line, why) in [
            (format!("  - {{name: a, edges: [{{to: a}}]}}\n{END}"), 3, "cycle a -> a"),
            (format!("{}  - {{name: b, terminal: true}}\n", to_end("")), 6, "cannot be reached"),
            ("  - {name: end}\n".to_owned(), 3, "has no terminal node"),
            (format!("  - {{name: a, edges: [{{to: x}}]}}\n{END}"), 4, "unknown node x"),
            (to_end(", entry: {tool: sh}"), 4, "calls a tool"),
            (to_end(", entry: {compose: '{b}'}"), 4, "the unknown {b}"),
            (to_end(", entrance: {}"), 4, "is an unknown key"),
            (guard("intent =="), 6, "does not compile"),
            (guard("[1].all(x, x > 0)"), 6, "uses a macro"),
            (guard("now() > 1"), 6, "calls now"),
            (guard("colour == 'red'"), 6, "names colour"),
            (format!("  - {{name: end, terminal: true}}\n{END}"), 5, "as another node"),
        ] {
            let said = refused(&nodes);
            let [problem] = said.as_slice() else { panic!("{why}: {said:?}") };
            assert!(problem.starts_with(&format!("/graph.yaml:{line}:")), "{line}: {problem}");
            assert!(problem.contains(why) && problem.contains("; allowed: "), "{why}: {problem}");
        }
    }
}
