//! Tasks that are a command (`run`), and reviewers that are one: the profile that each stands for. Its name
//! comes from what it says, so two plans of one project never change each other's commands.

use crate::agent::{COMMAND_DIGITS, COMMAND_PROFILE, Profile};
use crate::brief::{RunnerKind, Served, Tools, VERDICT_OF_EXIT, VERDICT_VARIABLE, Worktree};
use crate::budget::Limits;
use crate::id::{ProfileName, sha256_hex};
use crate::limits::{INSTRUCTION_BYTES_MAX, TEXT_BYTES_MAX};
use crate::permission::PermissionList;
use crate::plan::placeholder::{self, Placeholder};
use crate::plan::schema::fields::{Entry, Fields};

/// What a shell line reads for a result: this, then the id with `_` for `.`.
const RESULT_VARIABLE: &str = "TETRARCH_RESULT_";

/// The command of a task, as the profile that runs it.
pub(super) fn read_task(fields: &Fields<'_>) -> Option<Profile> {
    let Some(run) = fields.get("run") else {
        for key in ["dir", "worktree"] {
            if let Some(entry) = fields.get(key) {
                entry.wrong(
                    "stands beside no `run`",
                    "a task with `run`, or this key in its profile",
                );
            }
        }
        return None;
    };
    if let Some(profile) = fields.get("profile") {
        profile.wrong("stands beside `run`, which needs no profile", "run or profile, not both");
    }
    let worktree = fields.word("worktree", "none, isolated, auto", Worktree::parse);
    read_command(fields, &run, worktree.unwrap_or_default(), false)
}

/// The command of a review (`review: {run: ...}`), whose exit code is the verdict.
pub(super) fn read_review(fields: &Fields<'_>, worktree: Worktree) -> Option<Profile> {
    let run = fields.get("run")?;
    if let Some(profile) = fields.get("profile") {
        profile.wrong("stands beside `run`, which needs no profile", "run or profile, not both");
    }
    read_command(fields, &run, worktree, true)
}

fn read_command(
    fields: &Fields<'_>,
    run: &Entry<'_>,
    worktree: Worktree,
    judges: bool,
) -> Option<Profile> {
    let (argv, mut env) = read_argv(run)?;
    if judges {
        env.push((VERDICT_VARIABLE.to_owned(), VERDICT_OF_EXIT.to_owned()));
    }
    let workspace = fields.text("dir", TEXT_BYTES_MAX).unwrap_or_default();
    let said = serde_json::json!([argv, env, workspace, worktree.as_str()]).to_string();
    let digits = sha256_hex(said.as_bytes());
    env.sort();
    Some(Profile {
        name: ProfileName::new(&format!("{COMMAND_PROFILE}{}", digits.get(..COMMAND_DIGITS)?))
            .ok()?,
        description: String::new(),
        kind: RunnerKind::Process,
        argv,
        env,
        pass_env: Vec::new(),
        model: String::new(),
        served: Served::default(),
        prompt: String::new(),
        tools: Tools::default(),
        permissions: PermissionList::default(),
        mcp_servers: Vec::new(),
        budget: Limits::default(),
        wall: None,
        workspace,
        writable: Vec::new(),
        worktree: Some(worktree),
    })
}

/// Its arguments, and the variables it gets. One shell line is a program and reads its values from
/// variables: what an agent wrote is never part of the program.
#[expect(clippy::type_complexity, reason = "a command line and its variables, read together")]
fn read_argv(run: &Entry<'_>) -> Option<(Vec<String>, Vec<(String, String)>)> {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut env = vec![pair("TETRARCH_GOAL", "{goal}"), pair("TETRARCH_NODE", "{node}")];
    if run.value().is_array() {
        let argv = run.texts();
        if argv.is_empty() {
            run.wrong("is empty", "one shell line, or a list of a program and its arguments");
        }
        return (!argv.is_empty()).then_some((argv, env));
    }
    if !run.value().is_string() {
        let allowed = "one shell line such as `make test`, or a list such as [make, test]";
        run.wrong(format!("is {}", run.value()), allowed);
        return None;
    }
    let line = run.filled_text(INSTRUCTION_BYTES_MAX)?;
    for placeholder in placeholder::found(&line).into_iter().flatten() {
        let (what, variable) = match placeholder {
            Placeholder::Goal => ("{goal}".to_owned(), "TETRARCH_GOAL".to_owned()),
            Placeholder::Node => ("{node}".to_owned(), "TETRARCH_NODE".to_owned()),
            Placeholder::Result(id) => (format!("{{result:{id}}}"), variable_of(&id.to_string())),
        };
        run.wrong(
            format!("has {what} in a shell line, where its text would be read as commands"),
            format!("\"${variable}\", or a list: run: [program, '{what}']"),
        );
    }
    for rest in line.split(RESULT_VARIABLE).skip(1) {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let id = rest[..end].replace('_', ".");
        let value = format!("{{result:{id}}}");
        if !env.iter().any(|(_, known)| *known == value) {
            env.push((variable_of(&id), value));
        }
    }
    let argv = ["/bin/sh", "-c", &line].map(ToOwned::to_owned).to_vec();
    Some((argv, env))
}

fn variable_of(id: &str) -> String {
    format!("{RESULT_VARIABLE}{}", id.replace('.', "_"))
}
