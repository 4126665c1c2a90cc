//! State graphs of projects: applied as versions, pinned by conversations, kept while one follows them (spec 07,
//! State graphs).

use std::collections::BTreeSet;

use crate::conversation::Turn;
use crate::error::{ErrorCode, Refusal};
use crate::graph::schema::{DEFAULT_GRAPH, parse_text};
use crate::graph::{GraphRecord, GraphVersion, NodeAction, StateGraph};
use crate::id::{GraphName, ProjectName};
use crate::ledger::{EventKind, Record};
use crate::limits::{GRAPHS_MAX, RECORD_BYTES_MAX};
use crate::owner::operations::known_project;
use crate::request::conversations::GraphApply;
use crate::step::Draft;

use super::RULE;

/// The graph that comes with the program.
const DEFAULT: &str = "default";
/// Bytes of a record beside the texts of its versions.
const BESIDE: usize = 2 * 1024;

/// Applies a graph as the next version of its name. Gives the version, and what was done.
///
/// # Errors
/// No such project, a graph with problems, one that names a profile that there is not, no room.
pub(super) fn apply(draft: &mut Draft<'_>, apply: &GraphApply) -> Result<(u32, String), Refusal> {
    let GraphApply { project, graph: text } = apply;
    known_project(draft, project)?;
    let read = parse_text(text).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Refusal::new(ErrorCode::InvalidRequest, format!("graph: {}", lines.join("; ")))
    })?;
    check_profiles(draft, project, &read.graph)?;
    let name = read.graph.name;
    let known = draft.base().graphs.get(&(project.clone(), name.clone()));
    let of_project = draft.base().graphs.keys().filter(|(of, _)| of == project).count();
    if known.is_none() && of_project >= GRAPHS_MAX {
        let detail = format!("{project} has {GRAPHS_MAX} graphs, the limit; use an existing name");
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let mut versions = known.map(|known| known.versions.clone()).unwrap_or_default();
    if let Some(last) = versions.last().filter(|last| last.text == *text) {
        return Ok((last.version, format!("{name} is version {} already", last.version)));
    }
    let followed: BTreeSet<u32> = draft
        .base()
        .turns
        .values()
        .filter(|turn| turn.project == *project && turn.graph == name)
        .map(|turn| turn.version)
        .collect();
    let version = versions.last().map_or(0, |last| last.version) + 1;
    versions.retain(|kept| followed.contains(&kept.version));
    versions.push(GraphVersion { version, text: text.clone(), applied: draft.now });
    let size: usize = versions.iter().map(|it| it.text.len()).sum();
    if size > RECORD_BYTES_MAX - BESIDE {
        let detail = format!(
            "conversations follow {} versions of {name}, of {size} bytes with this one; give it another name",
            versions.len() - 1
        );
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let reason = format!("{project}/{name}: version {version}");
    draft.event(EventKind::GraphApplied, RULE, reason);
    let detail = format!("{name} is version {version}");
    let record = GraphRecord { project: project.clone(), name, versions };
    draft.put(Record::Graph(Box::new(record)));
    Ok((version, detail))
}

fn check_profiles(
    draft: &Draft<'_>,
    project: &ProjectName,
    graph: &StateGraph,
) -> Result<(), Refusal> {
    for node in &graph.nodes {
        let NodeAction::Spawn(work) = &node.entry else { continue };
        let Some(profile) = &work.profile else { continue };
        if !draft.base().profiles.contains_key(&(project.clone(), profile.clone())) {
            let detail = format!(
                "graph: node {}: project {project} has no profile {profile}; apply it first with \
                 `tetrarch profile apply {project} <file>`",
                node.name
            );
            return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
        }
    }
    Ok(())
}

/// The graph that a new conversation follows, and its version: the one that is named, the project's `default`, or
/// the one that comes with the program.
///
/// # Errors
/// The project has none of this name.
pub(super) fn pinned(
    draft: &Draft<'_>,
    project: &ProjectName,
    name: Option<&GraphName>,
) -> Result<(GraphName, u32), Refusal> {
    let invalid = |error: crate::id::IdError| {
        Refusal::new(ErrorCode::InvalidRequest, format!("graph: {error}"))
    };
    let name = name.map_or_else(|| GraphName::new(DEFAULT), |name| Ok(name.clone()));
    let name = name.map_err(invalid)?;
    let known = draft.base().graphs.get(&(project.clone(), name.clone()));
    match known.and_then(|known| known.versions.last()) {
        Some(last) => Ok((name, last.version)),
        None if name.as_str() == DEFAULT => Ok((name, 0)),
        None => {
            let detail = format!(
                "project {project} has no graph {name}; `tetrarch graph list {project}` lists them"
            );
            Err(Refusal::new(ErrorCode::NotFound, detail))
        }
    }
}

/// The text of the version that a turn follows.
///
/// # Errors
/// It is not kept, in words.
pub(super) fn text(draft: &Draft<'_>, turn: &Turn) -> Result<String, String> {
    if turn.version == 0 {
        return Ok(DEFAULT_GRAPH.to_owned());
    }
    let known = draft.base().graphs.get(&(turn.project.clone(), turn.graph.clone()));
    let version = known.into_iter().flat_map(|known| &known.versions);
    let version = { version }.find(|it| it.version == turn.version);
    version.map(|it| it.text.clone()).ok_or_else(|| {
        format!("version {} of graph {} is not kept any more", turn.version, turn.graph)
    })
}
