//! The profiles that a plan file brings along (spec 12, Profiles).

mod servers;

#[cfg(test)]
pub(super) use servers::SERVER_KEYS;

use crate::agent::{DEFAULT_PROFILE, Profile};
use crate::brief::{RunnerKind, Served, VERDICT_OF_EXIT, VERDICT_VARIABLE, Worktree};
use crate::id::ProfileName;
use crate::limits::{
    INSTRUCTION_BYTES_MAX, PERMISSION_RULES_MAX, PROFILE_DESCRIPTION_BYTES_MAX, TEXT_BYTES_MAX,
};
use crate::permission::{PermissionAction, PermissionList, PermissionRule};
use crate::plan::schema::DEFINITION_BYTES_MAX;
use crate::plan::schema::fields::{Entry, Fields};
use crate::secret::OF_PROFILES;

const NAMED_KEYS: &[&str] = &[
    "name",
    "description",
    "runner",
    "argv",
    "env",
    "passEnv",
    "writable",
    "model",
    "provider",
    "baseUrl",
    "keyFrom",
    "maxOutputTokens",
    "contextTokens",
    "prompt",
    "tools",
    "permissions",
    "mcpServers",
    "budget",
    "wall",
    "workspace",
    "worktree",
    "verdict",
];
/// Keys of a profile whose name stands before it.
pub(super) const PROFILE_KEYS: &[&str] = NAMED_KEYS.split_at(1).1;
const NAME: &str = "1 to 64 of A-Z a-z 0-9 _ -, starting with a letter or digit";

pub(super) fn read_profiles(top: &Fields<'_>) -> Vec<Profile> {
    let Some(all) = top.get("profiles") else {
        return Vec::new();
    };
    let pairs = all.pairs("a mapping from names to profiles");
    pairs.into_iter().filter_map(|(name, entry)| read_profile(name, &entry)).collect()
}

fn read_profile(name: &str, entry: &Entry<'_>) -> Option<Profile> {
    let parsed = ProfileName::new(name).map_err(|error| entry.wrong(error.to_string(), NAME));
    read_fields(parsed.ok(), &entry.map(PROFILE_KEYS)?)
}

/// A profile that stands alone, with its name among its fields.
pub(super) fn read_named(entry: &Entry<'_>) -> Option<Profile> {
    let fields = entry.map(NAMED_KEYS)?;
    if fields.get("name").is_none() {
        fields.missing("name", NAME);
    }
    read_fields(fields.name("name"), &fields)
}

fn read_fields(name: Option<ProfileName>, fields: &Fields<'_>) -> Option<Profile> {
    fields.check_size(&[], DEFINITION_BYTES_MAX);
    let kind = fields.word("runner", "process, cli, echo, llm, claude, codex, acp", |text| {
        RunnerKind::parse(text).filter(|kind| *kind != RunnerKind::External)
    });
    let argv = fields.texts("argv");
    if kind.unwrap_or_default().needs_command() && argv.is_empty() {
        fields.missing("argv", "a command and its arguments, which this runner needs");
    }
    let served = read_served(fields);
    let model = fields.text("model", TEXT_BYTES_MAX).unwrap_or_default();
    let is_root = name.as_ref().is_some_and(|name| name.as_str() == DEFAULT_PROFILE);
    // One that names neither has its parent's.
    let names = is_root || !model.is_empty() || served != Served::default();
    if kind == Some(RunnerKind::Llm) && names {
        if model.is_empty() {
            fields.missing("model", "the model's name, which the llm runner needs");
        }
        if served.provider.is_empty() {
            fields.missing("provider", "openai, anthropic or another, which the llm runner needs");
        }
    }
    refuse_unused(kind.unwrap_or_default(), fields);
    let mut env = fields.get("env").map(|env| read_env(&env)).unwrap_or_default();
    if fields.word("verdict", "exit", |text| (text == VERDICT_OF_EXIT).then_some(())).is_some() {
        env.push((VERDICT_VARIABLE.to_owned(), VERDICT_OF_EXIT.to_owned()));
    }
    // As records have them: what says the same is the same profile.
    env.sort();
    Some(Profile {
        name: name?,
        description: fields.text("description", PROFILE_DESCRIPTION_BYTES_MAX).unwrap_or_default(),
        kind: kind.unwrap_or_default(),
        argv,
        env,
        pass_env: read_pass_env(fields),
        writable: read_writable(fields),
        model,
        served,
        prompt: fields.text("prompt", INSTRUCTION_BYTES_MAX).unwrap_or_default(),
        tools: fields.tools(),
        permissions: read_permissions(kind.unwrap_or_default(), fields),
        mcp_servers: servers::read_servers(kind.unwrap_or_default(), fields),
        budget: fields.budget(),
        wall: fields.wall(),
        workspace: fields.text("workspace", TEXT_BYTES_MAX).unwrap_or_default(),
        worktree: fields.word("worktree", "none, isolated, auto", Worktree::parse),
    })
}

/// Keys that a runner would ignore, with what to do instead.
const UNUSED: [(RunnerKind, &str, &str); 4] = [
    (RunnerKind::Acp, "model", "the program's own way to choose a model, in argv or env"),
    (RunnerKind::Cli, "model", "the program's own way to choose a model, in argv or env"),
    (
        RunnerKind::Claude,
        "provider",
        "no provider: claude speaks Anthropic's API; baseUrl names another server",
    ),
    (
        RunnerKind::Codex,
        "provider",
        "no provider: codex speaks OpenAI's API; baseUrl names another server",
    ),
];

fn refuse_unused(kind: RunnerKind, fields: &Fields<'_>) {
    for (_, key, instead) in UNUSED.iter().filter(|(of, _, _)| *of == kind) {
        if let Some(entry) = fields.get(key) {
            entry.wrong(format!("is not used by the {kind} runner"), *instead);
        }
    }
}

/// How the model is reached. A key is named, never written.
fn read_served(fields: &Fields<'_>) -> Served {
    let text = |key| fields.text(key, TEXT_BYTES_MAX).unwrap_or_default();
    let tokens = |key| {
        let whole = fields.get(key)?.whole(1, u64::from(u32::MAX))?;
        u32::try_from(whole).ok()
    };
    let served = Served {
        provider: text("provider"),
        base_url: text("baseUrl"),
        key_from: text("keyFrom"),
        max_output_tokens: tokens("maxOutputTokens"),
        context_tokens: tokens("contextTokens"),
    };
    let named = served.key_from.is_empty() || served.key_source().is_some();
    if let (Some(entry), false) = (fields.get("keyFrom"), named) {
        entry.wrong(
            "it is not a reference to a key",
            format!("{OF_PROFILES}; the key itself is never written down"),
        );
    }
    if let (Some(entry), Some(fault)) = (fields.get("baseUrl"), served.key_fault()) {
        entry.wrong(
            format!("{fault}, and keyFrom names a key that is sent there"),
            "https://HOST/PATH, http://127.0.0.1:PORT/PATH on this machine (also of a tunnel), or no keyFrom",
        );
    }
    served
}

const VARIABLE: &str = "the name of a variable, without = and NUL";

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn read_env(env: &Entry<'_>) -> Vec<(String, String)> {
    let mut read = Vec::new();
    for (name, value) in env.pairs("a mapping from variables to texts") {
        if !is_variable(name) {
            value.wrong(format!("{name:?} is not a valid variable name"), VARIABLE);
        }
        if let Some(text) = value.text(TEXT_BYTES_MAX) {
            read.push((name.to_owned(), text));
        }
    }
    read
}

fn read_pass_env(fields: &Fields<'_>) -> Vec<String> {
    let names = fields.texts("passEnv");
    if let (Some(entry), Some(name)) =
        (fields.get("passEnv"), names.iter().find(|name| !is_variable(name)))
    {
        entry.wrong(format!("{name:?} is not a valid variable name"), VARIABLE);
    }
    names
}

const PLACE: &str = "a directory without `..`: absolute, or ~/ and what lies in the home of the host's user; a plan file also \
     takes {plan_dir}";

fn read_writable(fields: &Fields<'_>) -> Vec<String> {
    let places = fields.texts("writable");
    let is_place = |place: &str| {
        (place.starts_with('/') || place.starts_with("~/"))
            && !place.contains('\0')
            && !place.split('/').any(|part| part == "..")
    };
    if let (Some(entry), Some(place)) =
        (fields.get("writable"), places.iter().find(|place| !is_place(place)))
    {
        entry.wrong(format!("{place:?} cannot be given to programs"), PLACE);
    }
    places
}

const RULE: &str = "a mapping with the keys tool, match, action";
const ACTIONS: &str = "allow, ask, deny";

fn read_permissions(kind: RunnerKind, fields: &Fields<'_>) -> PermissionList {
    let Some(entry) = fields.get("permissions") else { return PermissionList::default() };
    let rules: Vec<PermissionRule> =
        entry.list(PERMISSION_RULES_MAX, RULE).iter().filter_map(read_rule).collect();
    if !rules.is_empty() && !kind.calls_models() {
        entry.wrong(
            format!("are rules on tools, and the {kind} runner calls none"),
            "rules for the runners llm, claude, codex and acp",
        );
    }
    PermissionList { rules }
}

fn read_rule(entry: &Entry<'_>) -> Option<PermissionRule> {
    let fields = entry.map(&["tool", "match", "action"])?;
    let needed = |key, allowed| {
        if fields.get(key).is_none() {
            fields.missing(key, allowed);
        }
    };
    needed("tool", "an entry of a list of tools, or *");
    needed("action", ACTIONS);
    let tool = fields.text("tool", TEXT_BYTES_MAX);
    let action = fields.word("action", ACTIONS, PermissionAction::parse);
    let (tool, action, words) = (tool?, action?, fields.texts("match"));
    if let (Some(entry), max) = (fields.get("match"), PermissionRule::words_max(&tool)) {
        if words.len() > max {
            entry.wrong(
                format!("has {} words; rules on {tool} match at most {max}", words.len()),
                "the first words of a command for run, one path for read, list, search, write and edit, none for \
                 other tools",
            );
        }
        for (word, fault) in words.iter().filter_map(|it| Some((it, PermissionRule::fault(it)?))) {
            entry.wrong(format!("{word:?} is not a valid glob: {fault}"), "globs, one a word");
        }
    }
    Some(PermissionRule { tool, words, action })
}
