//! What is wrong with a plan that reads well, and where: profiles that are not there, tools that nobody has,
//! schemas that are none, programs and variables that a machine lacks. What there is, is the caller's to know.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::agent::Profile;
use crate::brief::{RunnerKind, Worktree};
use crate::destination::{self, Destination};
use crate::id::NodeId;
use crate::plan::profiles::{Need, needs};
use crate::plan::schema::fields::snake_case;
use crate::plan::schema::spelling::meant;
use crate::plan::schema::{PlanFile, PlanProblem};
use crate::plan::{Node, PlacementWish};
use crate::secret::SecretSource;

/// What stands before a program in a list of tools.
const RUN_PREFIX: &str = "run:";
/// The key of a profile that names servers of tools.
const MCP_KEY: &str = "mcpServers";
/// What the name of a tool has that belongs to somebody else, as in `mcp:issues` or `mcp__issues`.
const FOREIGN: [&str; 4] = [":", ".", "/", "__"];

/// A plan with the document it was read from.
#[derive(Debug)]
pub struct Examination<'a> {
    document: &'a Value,
    plan: &'a PlanFile,
    work: BTreeMap<NodeId, Node>,
    /// Where each node stands, and what stands there.
    places: BTreeMap<NodeId, (String, &'a Value)>,
}

impl<'a> Examination<'a> {
    /// Of a plan and its document.
    #[must_use]
    pub fn new(document: &'a Value, plan: &'a PlanFile) -> Self {
        let mut places = BTreeMap::new();
        place(document, "", &["phases", "tasks", "subtasks"], &mut places);
        Self { document, plan, work: plan.work([]), places }
    }

    /// Leaves and reviews whose profile neither comes with the plan nor is among those `known` besides.
    #[must_use]
    pub fn unknown_profiles(&self, known: &[Profile]) -> Vec<PlanProblem> {
        let work = self.plan.work(known);
        let known: BTreeSet<&str> =
            self.plan.profiles.iter().chain(known).map(|it| it.name.as_str()).collect();
        let told = known.iter().filter(|name| !self.is_command(name)).copied();
        let told = told.chain(["a profile that `profiles:` describes"]);
        let allowed = told.collect::<Vec<_>>().join(", ");
        let by_exit = "`review: {run: COMMAND}`, whose exit code is the verdict, or a `profile` that gives one";
        let missing = needs(&work).into_iter().filter(|need| !known.contains(need.profile));
        let problem = |need: Need<'_>| {
            let node = work.get(&need.node);
            let review = node.filter(|_| need.review).and_then(|node| node.review.as_ref());
            if review.is_some_and(|review| review.profile.is_none()) {
                return PlanProblem {
                    path: self.path_of(&need, ""),
                    problem: "the task's command cannot review its own result".to_owned(),
                    allowed: by_exit.to_owned(),
                };
            }
            let named = need.review || node.is_some_and(|node| node.profile.is_some());
            let unnamed = if named { "" } else { "names none and no command (`run`), and " };
            PlanProblem {
                path: self.path_of(&need, "profile"),
                problem: format!("{unnamed}there is no profile {:?}", need.profile),
                allowed: if named { allowed.clone() } else { format!("`run: COMMAND`, {allowed}") },
            }
        };
        missing.map(problem).collect()
    }

    /// Tools that whoever is to use them does not have. `tools`: those that there are. A program may have tools of
    /// its own, so of those for one only a slip is wrong.
    #[must_use]
    pub fn unknown_tools(&self, tools: &[&str]) -> Vec<PlanProblem> {
        let executes = |name: &str| {
            let named = |profile: &&Profile| profile.name.as_str() == name;
            self.plan.profiles.iter().find(named).map(|profile| profile.kind)
        };
        let of_nodes =
            needs(&self.work).into_iter().filter(|need| !need.review).filter_map(|need| {
                let (path, value) = self.places.get(&need.node)?;
                Some((path.clone(), *value, executes(need.profile)))
            });
        let of_profiles = self.plan.profiles.iter().filter_map(|profile| {
            let value = self.document.get("profiles")?.get(profile.name.as_str())?;
            Some((path_of_profile(profile), value, Some(profile.kind)))
        });
        let allowed = format!(
            "{}, run:PROGRAM, network:HOST:PORT, mcp:SERVER, mcp:SERVER:TOOL; also tools of your own programs",
            tools.join(", ")
        );
        let mut problems = Vec::new();
        for (path, value, kind) in of_nodes.chain(of_profiles) {
            let listed =
                |key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
            let entries = listed("tools").into_iter().enumerate();
            let entries = entries.map(|(index, entry)| (format!("{path}.tools[{index}]"), entry));
            let rules = listed("permissions").into_iter().enumerate();
            let rules = rules.map(|(index, rule)| {
                (
                    format!("{path}.permissions[{index}].tool"),
                    rule.get("tool").cloned().unwrap_or_default(),
                )
            });
            for (path, entry) in entries.chain(rules) {
                let is_closed = kind == Some(RunnerKind::Llm);
                let fault = entry.as_str().and_then(|it| fault_of_tool(it, tools, is_closed));
                if let Some(problem) = fault {
                    problems.push(PlanProblem { path, problem, allowed: allowed.clone() });
                }
            }
        }
        problems
    }

    /// Schemas of results that are none. `fault` says what is wrong with one.
    #[must_use]
    pub fn bad_schemas(&self, fault: impl Fn(&str) -> Option<String>) -> Vec<PlanProblem> {
        let wrong = self.work.values().filter_map(|node| {
            let fault = fault(node.output_schema.as_deref()?)?;
            let (path, value) = self.places.get(&node.id)?;
            Some(PlanProblem {
                path: format!("{path}.{}", given(value, "outputSchema")),
                problem: format!("is not a valid JSON Schema: {fault}"),
                allowed: "a JSON Schema, as a mapping or as JSON text, or the word text".to_owned(),
            })
        });
        wrong.collect()
    }

    /// Programs that are not on this machine. What is filled in later, or relative to where it works, is looked for
    /// when it runs; work that asks for a host may be for another machine.
    #[must_use]
    pub fn missing_programs(&self, is_there: impl Fn(&str) -> bool) -> Vec<PlanProblem> {
        let mut problems = Vec::new();
        let is_missing = |profile: &Profile, program: &str| {
            let looked_for =
                !program.contains('{') && (!program.contains('/') || program.starts_with('/'));
            looked_for && !self.is_elsewhere(profile) && !is_there(program)
        };
        let missing = |path, program: &str, allowed: &str| PlanProblem {
            path,
            problem: format!("{program:?} was not found on this machine"),
            allowed: allowed.to_owned(),
        };
        let installed = "a program that is installed here, or its whole path";
        for profile in &self.plan.profiles {
            let below = path_of_profile(profile);
            for server in &profile.mcp_servers {
                if let Some(program) = server.argv.first().filter(|it| is_missing(profile, it)) {
                    let path = format!("{below}.{MCP_KEY}.{}.argv", server.name);
                    problems.push(missing(path, program, installed));
                }
            }
            let starts = profile.kind.needs_command() || !profile.kind.program().is_empty();
            let program = profile.argv.first().map_or(profile.kind.program(), String::as_str);
            if !starts || program.is_empty() || !is_missing(profile, program) {
                continue;
            }
            let (path, allowed) = match self.users(profile).first() {
                Some(need) if self.is_command(profile.name.as_str()) => (
                    self.path_of(need, "run"),
                    "a program that is installed here, its whole path, or one shell line",
                ),
                _ => (format!("{below}.argv"), installed),
            };
            problems.push(missing(path, program, allowed));
        }
        problems
    }

    /// Directories that are no good on this machine: those in which programs work and those that they write. `works` and
    /// `writes` say what is wrong with one. A relative one is made by the host, so it is in no repository; one with `{`
    /// is filled in later.
    #[must_use]
    pub fn bad_directories(
        &self,
        works: impl Fn(&str) -> Option<String>,
        writes: impl Fn(&str) -> Option<String>,
    ) -> Vec<PlanProblem> {
        let allowed = "a directory that is there, beside the data directory of the fleet";
        let looked_for = |dir: &str| dir.starts_with(['/', '~']) && !dir.contains('{');
        let is_made = |dir: &str| !dir.is_empty() && !dir.starts_with(['/', '~', '{']);
        let mut problems = Vec::new();
        for profile in self.plan.profiles.iter().filter(|profile| !self.is_elsewhere(profile)) {
            let below = path_of_profile(profile);
            let works_in = match self.users(profile).first() {
                Some(need) if self.is_command(profile.name.as_str()) => self.path_of(need, "dir"),
                Some(_) | None => format!("{below}.workspace"),
            };
            if profile.worktree == Some(Worktree::Isolated) && is_made(&profile.workspace) {
                let (path, name) = (works_in.clone(), &profile.workspace);
                let problem =
                    format!("{name:?} is a directory that the host makes, in no repository");
                let allowed = format!(
                    "a directory in a repository; ./{name} is in the plan file's directory"
                );
                problems.push(PlanProblem { path, problem, allowed });
            }
            let dirs = [(works_in, &profile.workspace, works(&profile.workspace))];
            let written = profile.writable.iter().enumerate();
            let written = written
                .map(|(index, dir)| (format!("{below}.writable[{index}]"), dir, writes(dir)));
            for (path, dir, fault) in dirs.into_iter().chain(written) {
                if let Some(fault) = fault.filter(|_| looked_for(dir)) {
                    let problem = format!("{dir:?} {fault}");
                    problems.push(PlanProblem { path, problem, allowed: allowed.to_owned() });
                }
            }
        }
        problems
    }

    /// Variables that profiles pass on or have a key in, and that are not set here.
    #[must_use]
    pub fn unset_variables(&self, is_set: impl Fn(&str) -> bool) -> Vec<PlanProblem> {
        let mut problems = Vec::new();
        let mut look = |path: String, name: &str| {
            if !is_set(name) {
                let problem = format!("the variable {name} is not set here");
                let allowed = "a variable that is set where the host is started".to_owned();
                problems.push(PlanProblem { path, problem, allowed });
            }
        };
        for profile in self.plan.profiles.iter().filter(|profile| !self.is_elsewhere(profile)) {
            let value =
                self.document.get("profiles").and_then(|all| all.get(profile.name.as_str()));
            let Some(value) = value else { continue };
            let path = |key| format!("{}.{}", path_of_profile(profile), given(value, key));
            for (index, name) in profile.pass_env.iter().enumerate() {
                look(format!("{}[{index}]", path("passEnv")), name);
            }
            if let Some(SecretSource::Env(name)) = profile.served.key_source() {
                look(path("keyFrom"), &name);
            }
            for server in &profile.mcp_servers {
                let path = format!("{}.{}", path(MCP_KEY), server.name);
                for (index, name) in server.pass_env.iter().enumerate() {
                    look(format!("{path}.passEnv[{index}]"), name);
                }
                if let Some(SecretSource::Env(name)) = server.key_source() {
                    look(format!("{path}.keyFrom"), &name);
                }
            }
        }
        problems
    }

    /// Whether a profile stands for a command in a task, so that the file has no such name.
    fn is_command(&self, profile: &str) -> bool {
        let written = self.document.get("profiles").and_then(|all| all.get(profile)).is_some();
        !written && self.plan.profiles.iter().any(|own| own.name.as_str() == profile)
    }

    fn users(&self, profile: &Profile) -> Vec<Need<'_>> {
        let uses = |need: &Need<'_>| need.profile == profile.name.as_str();
        needs(&self.work).into_iter().filter(uses).collect()
    }

    /// Whether all that a profile executes asks for a host.
    fn is_elsewhere(&self, profile: &Profile) -> bool {
        let users = self.users(profile);
        let asks = |need: &Need<'_>| {
            let node = self.work.get(&need.node);
            node.is_some_and(|node| node.placement != PlacementWish::default())
        };
        !users.is_empty() && users.iter().all(asks)
    }

    /// Where a key of a leaf, or of its review, stands or would stand.
    fn path_of(&self, need: &Need<'_>, key: &str) -> String {
        let node = self.places.get(&need.node).map_or("plan", |(path, _)| path.as_str());
        let below = if need.review { ".review" } else { "" };
        format!("{node}{below}.{key}").trim_end_matches('.').to_owned()
    }
}

/// What is wrong with a tool's name. `is_closed`: nobody but those known has tools.
fn fault_of_tool(entry: &str, tools: &[&str], is_closed: bool) -> Option<String> {
    let program = entry.strip_prefix(RUN_PREFIX);
    if program.is_some_and(str::is_empty) {
        return Some("has no program".to_owned());
    }
    if destination::is_entry(entry) {
        return entry.parse::<Destination>().err().map(|fault| fault.to_string());
    }
    let foreign = FOREIGN.iter().any(|mark| entry.contains(mark));
    if program.is_some() || foreign || tools.contains(&entry) {
        return None;
    }
    match meant(entry, tools) {
        Some(tool) => Some(format!("unknown tool {entry:?}; did you mean {tool}?")),
        None => is_closed.then(|| format!("{entry:?} is not a tool of models")),
    }
}

fn path_of_profile(profile: &Profile) -> String {
    format!("profiles.{}", profile.name)
}

/// The key as it is given: in camelCase or with underscores.
fn given(value: &Value, key: &str) -> String {
    if value.get(key).is_some() { key.to_owned() } else { snake_case(key) }
}

/// The nodes of a tier and those below, with where they stand.
fn place<'a>(
    above: &'a Value,
    path: &str,
    tiers: &[&str],
    places: &mut BTreeMap<NodeId, (String, &'a Value)>,
) {
    let Some((tier, below)) = tiers.split_first() else { return };
    let dot = if path.is_empty() { "" } else { "." };
    let entries = above.get(tier).and_then(Value::as_array).into_iter().flatten();
    for (index, entry) in entries.enumerate() {
        let path = format!("{path}{dot}{tier}[{index}]");
        place(entry, &path, below, places);
        if let Some(id) = entry.get("id").and_then(Value::as_str).and_then(|id| id.parse().ok()) {
            places.insert(id, (path, entry));
        }
    }
}

#[cfg(test)]
mod tests;
