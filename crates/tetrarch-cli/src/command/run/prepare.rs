//! Reading a plan file for execution: its document with what only this machine knows filled in,
//! and everything that is wrong with it.

use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use serde_json::{Value, json};
use tetrarch_core::agent::Profile;
use tetrarch_core::conversation::{Turn, TurnId};
use tetrarch_core::plan::examination::Examination;
use tetrarch_core::plan::schema::{self, PlanFile, PlanProblem};
use tetrarch_runner::{hidden_around, repository_summary, schema_fault, tool_entries};

use super::profiles;
use crate::document::{Document, STANDARD_INPUT, read_document};
use crate::output::say;
use crate::{CliError, CliResult, Code, Context, HumanClient};

/// What stands for the plan file's directory in its profiles.
const PLAN_DIR: &str = "{plan_dir}";

/// A plan that can be given to a fleet.
#[derive(Debug)]
pub(in crate::command) struct Prepared {
    /// Its document as it is sent.
    pub(in crate::command) document: Document,
    /// What the document says.
    pub(in crate::command) plan: PlanFile,
    /// The directory that it is from.
    dir: PathBuf,
}

/// What is to be done about a plan that is wrong.
const HINT: &str = "`tetrarch schema PlanFile` describes plan files";

impl Prepared {
    /// What is to be looked at besides its form.
    pub(in crate::command) fn examination(&self) -> Examination<'_> {
        Examination::new(&self.document.value, &self.plan)
    }

    /// What this machine lacks to execute it: programs, and directories that are there and hold nothing that the host
    /// keeps to itself.
    pub(in crate::command) fn unfit_here(&self, context: &Context) -> Vec<PlanProblem> {
        let hidden = &context.config.host.containment.hidden;
        let closed = |dir: &str| {
            let hidden = hidden_around(dir, hidden)?;
            Some(format!(
                "would give programs {}, where the host keeps credentials",
                hidden.display()
            ))
        };
        let works = |dir: &str| {
            let absent = !Path::new(dir).is_dir();
            absent.then(|| "is not a directory on this machine".to_owned()).or_else(|| closed(dir))
        };
        let examination = self.examination();
        let mut problems = examination.missing_programs(|program| which::which(program).is_ok());
        problems.extend(examination.bad_directories(works, closed));
        problems
    }

    /// Says what may be wrong. `problems`: those that are no error here.
    pub(in crate::command) fn warn(&self, problems: &[PlanProblem]) {
        let unset = self.examination().unset_variables(|name| std::env::var_os(name).is_some());
        let problems: Vec<PlanProblem> = problems.iter().cloned().chain(unset).collect();
        for line in self.document.lines(&problems) {
            say(&format!("warning: {line}"));
        }
    }

    /// Adds what the repository around the plan's directory is, where the goal does not say it (spec 05, Records).
    pub(in crate::command) async fn describe_repository(&mut self) {
        if !self.plan.goal.repo_context.is_empty() {
            return;
        }
        let Some(summary) = repository_summary(&self.dir).await else { return };
        self.add("repoContextSnapshot", json!(summary));
        self.plan.goal.repo_context = summary;
    }

    /// Says where the goal comes from and what was wanted there, where it does not say so itself.
    pub(in crate::command) fn comes_from(&mut self, turn: &Turn) {
        if self.plan.goal.origin.is_empty() {
            let TurnId { human, .. } = &turn.id;
            let origin = json!({"session": turn.id.to_string(), "to": human.to_string()});
            self.add("origin", origin);
        }
        if self.plan.goal.problem_statement.is_empty() {
            self.add("problemStatement", json!(turn.text));
        }
    }

    fn add(&mut self, key: &str, value: Value) {
        let top = self.document.value.as_object_mut();
        let goal = top.map(|top| top.entry("goal").or_insert_with(|| json!({})));
        if let Some(goal) = goal.and_then(Value::as_object_mut) {
            goal.insert(key.to_owned(), value);
        }
    }

    /// Refuses it when there are problems.
    ///
    /// # Errors
    /// All of them, each with its place.
    pub(in crate::command) fn refuse(&self, problems: &[PlanProblem]) -> CliResult {
        if problems.is_empty() {
            return Ok(());
        }
        Err(self.document.refused("plan", problems).hint(HINT))
    }

    /// Before a fleet on this machine is brought up for it: refuses what cannot run here, and warns of variables.
    ///
    /// # Errors
    /// Programs and directories that are not there.
    pub(in crate::command) fn fits_here(&self, context: &Context) -> CliResult {
        self.refuse(&self.unfit_here(context))?;
        self.warn(&[]);
        Ok(())
    }

    /// The same for a fleet that is up on this machine. It may have other hosts, or another PATH: nothing is refused.
    pub(in crate::command) fn warn_of_here(&self, context: &Context, client: &HumanClient) {
        if client.data_dir.is_some() {
            self.warn(&self.unfit_here(context));
        }
    }
}

/// The plan or goal of a file, else a goal of this title, whose plan is not its author's to make (spec
/// 05, The planner).
///
/// # Errors
/// Neither is given; it cannot be read; everything that is wrong with it, with its place.
pub(in crate::command) fn prepared(
    path: Option<&Path>,
    title: Option<&str>,
    profiles: Option<&Path>,
    arguments: &[String],
) -> CliResult<Prepared> {
    let mut document = match (path, title) {
        (Some(path), _) => prepare(path, arguments)?,
        (None, Some(title)) => Document::of("the goal", json!({"goal": {"title": title}})),
        (None, None) => return Err(CliError::new(Code::Usage, "give a plan file, or a title")),
    };
    if let Some(profiles) = profiles {
        bring(&mut document, profiles, arguments)?;
    }
    let dir = path.map_or_else(|| Ok(std::env::current_dir()?), directory)?;
    read(document, dir)
}

/// Reads the profiles of a file without a plan, filled in as those of a plan file are.
///
/// # Errors
/// The file cannot be read; everything that is wrong with its profiles, with its place.
pub(in crate::command) fn read_profiles(path: &Path) -> CliResult<Vec<Profile>> {
    let mut document = Document::of(&path.display().to_string(), json!({}));
    bring(&mut document, path, &[])?;
    schema::parse_profiles(&document.value)
        .map_err(|problems| document.refused("profile file", &problems))
}

/// Adds the profiles of a file to a plan.
fn bring(document: &mut Document, path: &Path, arguments: &[String]) -> CliResult {
    let mut brought = profiles::read(path)?;
    let mut filled = json!({"profiles": std::mem::take(&mut brought.profiles)});
    fill(&mut filled, &directory(path)?, arguments)?;
    let top = document.value.as_object_mut();
    let own = top.map(|top| top.entry("profiles").or_insert_with(|| json!({})));
    let (Some(Value::Object(own)), Value::Object(filled)) = (own, filled["profiles"].take()) else {
        // A plan of another shape is refused when it is read.
        return Ok(());
    };
    let mut joined = Vec::new();
    for (name, profile) in filled {
        if own.contains_key(&name) {
            let what = format!("the profile {name:?} is in the plan and in {}", path.display());
            return Err(CliError::new(Code::Usage, what).hint("remove one of them"));
        }
        joined.push((format!("profiles.{name}"), brought.path(&name)));
        own.insert(name, profile);
    }
    let said = Rc::new(brought.document);
    joined.into_iter().for_each(|(here, there)| document.join(here, (there, Rc::clone(&said))));
    Ok(())
}

/// Reads a plan file and fills its profiles in. `arguments` are for its programs.
///
/// # Errors
/// It cannot be read.
fn prepare(path: &Path, arguments: &[String]) -> CliResult<Document> {
    let mut document = read_document(path)?;
    let plan_dir = directory(path)?;
    fill(&mut document.value, &plan_dir, arguments)?;
    Ok(document)
}

fn read(document: Document, dir: PathBuf) -> CliResult<Prepared> {
    let plan = schema::parse_either(&document.value)
        .map_err(|problems| document.refused("plan", &problems).hint(HINT))?;
    let prepared = Prepared { document, plan, dir };
    let mut problems = prepared.examination().unknown_tools(&tool_entries());
    problems.extend(prepared.examination().bad_schemas(schema_fault));
    prepared.refuse(&problems)?;
    Ok(prepared)
}

fn directory(path: &Path) -> CliResult<PathBuf> {
    if path == Path::new(STANDARD_INPUT) {
        return Ok(std::env::current_dir()?);
    }
    let whole = std::fs::canonicalize(path)
        .map_err(|error| CliError::new(Code::Usage, format!("{}: {error}", path.display())))?;
    Ok(whole.parent().map_or_else(PathBuf::new, Path::to_path_buf))
}

/// Puts the plan's directory where texts name it; commands work in it unless they say where, and paths of workspaces
/// begin there. Every profile gets that directory, the one the command was started in and the arguments after `--`.
fn fill(document: &mut Value, plan_dir: &Path, arguments: &[String]) -> CliResult {
    let here = std::env::current_dir()?;
    put_directory(document, &plan_dir.to_string_lossy());
    place_commands(document, plan_dir);
    let Some(profiles) = document.get_mut("profiles").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    for profile in profiles.values_mut().filter_map(Value::as_object_mut) {
        if let Some(Value::String(workspace)) = profile.get_mut("workspace") {
            *workspace = placed(workspace, plan_dir);
        }
        let env = profile.entry("env").or_insert_with(|| json!({}));
        if let Some(env) = env.as_object_mut() {
            env.insert("TETRARCH_PLAN_DIR".to_owned(), json!(plan_dir.to_string_lossy()));
            env.insert("TETRARCH_CWD".to_owned(), json!(here.to_string_lossy()));
            env.insert("TETRARCH_ARGS".to_owned(), json!(json!(arguments).to_string()));
        }
    }
    Ok(())
}

fn put_directory(value: &mut Value, plan_dir: &str) {
    match value {
        Value::String(text) if text.contains(PLAN_DIR) => *text = text.replace(PLAN_DIR, plan_dir),
        Value::Array(values) => values.iter_mut().for_each(|value| put_directory(value, plan_dir)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| put_directory(value, plan_dir));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The workspace that is meant by a text: a path that begins with a dot begins in the plan's directory. A plain name is a
/// directory that the host makes.
fn placed(workspace: &str, plan_dir: &Path) -> String {
    let said = Path::new(workspace);
    if !matches!(said.components().next(), Some(Component::CurDir | Component::ParentDir)) {
        return workspace.to_owned();
    }
    let mut place = plan_dir.to_owned();
    for part in said.components() {
        match part {
            Component::ParentDir => {
                place.pop();
            }
            Component::Normal(name) => place.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    place.to_string_lossy().into_owned()
}

/// Gives every mapping with a command (`run`) the directory it works in.
fn place_commands(value: &mut Value, plan_dir: &Path) {
    match value {
        Value::Array(values) => {
            values.iter_mut().for_each(|value| place_commands(value, plan_dir));
        }
        Value::Object(fields) => {
            if fields.contains_key("run") {
                let said = fields.get("dir").and_then(Value::as_str).unwrap_or_default();
                let dir = if said.is_empty() { plan_dir.to_owned() } else { plan_dir.join(said) };
                if fields.get("dir").is_none_or(Value::is_string) {
                    fields.insert("dir".to_owned(), json!(dir.to_string_lossy()));
                }
            }
            let inside =
                fields.iter_mut().filter(|(key, _)| *key != "outputSchema" && *key != "env");
            inside.for_each(|(_, value)| place_commands(value, plan_dir));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_that_begins_with_a_dot_begins_in_the_plans_directory() {
        for (said, meant) in [
            (".", "/plans/a"),
            ("./", "/plans/a"),
            ("./site/app", "/plans/a/site/app"),
            ("..", "/plans"),
            ("../b/../c", "/plans/c"),
            ("./{node}", "/plans/a/{node}"),
            ("", ""),
            ("shared", "shared"),
            ("{goal}", "{goal}"),
            (".hidden", ".hidden"),
            ("/srv/./code", "/srv/./code"),
        ] {
            assert_eq!(placed(said, Path::new("/plans/a")), meant, "{said:?}");
        }
    }

    #[test]
    fn profiles_are_read_from_a_plan_a_mapping_or_one_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let whole = std::fs::canonicalize(dir.path()).unwrap();
        let coder = "{argv: ['{plan_dir}/fix.sh'], workspace: ., worktree: isolated}";
        for (name, text) in [
            ("plan.yaml", format!("title: x\nphases: []\nprofiles: {{coder: {coder}}}\n")),
            ("profiles.yaml", format!("coder: {coder}\n")),
            ("coder.yaml", coder.replacen('{', "{name: coder, ", 1)),
        ] {
            let path = whole.join(name);
            std::fs::write(&path, text).unwrap();
            let profiles = read_profiles(&path).unwrap();
            let [profile] = profiles.as_slice() else { panic!("{name}: {profiles:?}") };
            assert_eq!(profile.name.as_str(), "coder");
            assert_eq!(profile.argv, [whole.join("fix.sh").to_str().unwrap()], "{name}");
            assert_eq!(profile.workspace, whole.to_str().unwrap(), "{name}");
        }
    }

    #[test]
    fn invalid_profile_is_reported_with_position_and_allowed_values() {
        let dir = tempfile::tempdir().unwrap();
        let written = |text: &str| {
            let path = dir.path().join("coder.toml");
            std::fs::write(&path, text).unwrap();
            read_profiles(&path).unwrap_err()
        };
        let error = written("name = 'coder'\nrunner = 'docker'\nargs = []\n");
        assert_eq!(error.code, Code::Usage);
        for part in [
            "coder.toml:2:1: profiles.coder.runner: ",
            "allowed: process, cli, echo, llm, claude, codex, acp",
            "args",
        ] {
            assert!(error.what.contains(part), "{part}: {}", error.what);
        }
        let nameless = written("runner = 'echo'\n");
        assert!(nameless.what.contains("has no `name`"), "{}", nameless.what);
        let plan = written("title = 'x'\n[[phases]]\nid = 'P1'\n");
        assert!(plan.what.contains("has no profiles"), "{}", plan.what);
    }
}
