//! The commands that are tools: their schemas are made of the command line's own description, and their arguments are
//! turned into words of it. Pure.

use std::any::TypeId;
use std::sync::Arc;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::command::calling::CommandWords;

/// What a tool does, for clients that ask their person before it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It shows.
    Reads,
    /// It adds, or can be taken back.
    Changes,
    /// It ends or decides something for good.
    Ends,
}

use Effect::{Changes, Ends, Reads};

/// The commands that are tools. What serves, runs for ever, belongs to a terminal, or handles keys is none.
const TOOLS: [(&str, Effect); 87] = [
    ("advise", Reads),
    ("agent list", Reads),
    ("agent replace", Changes),
    ("agent retire", Ends),
    ("agent rotate", Changes),
    ("answer", Changes),
    ("apply", Ends),
    ("approve", Ends),
    ("artifact get", Reads),
    ("artifact list", Reads),
    ("ask", Changes),
    ("audit", Reads),
    ("budget", Reads),
    ("budget raise", Changes),
    ("change list", Reads),
    ("change show", Reads),
    ("circuit close", Changes),
    ("deny", Ends),
    ("describe", Reads),
    ("events", Reads),
    ("file list", Reads),
    ("file release", Changes),
    ("get", Reads),
    ("goal archive", Changes),
    ("goal cancel", Ends),
    ("goal create", Changes),
    ("goal list", Reads),
    ("goal pause", Changes),
    ("goal priority", Changes),
    ("goal resume", Changes),
    ("goal show", Reads),
    ("goal update", Changes),
    ("graph apply", Changes),
    ("graph check", Reads),
    ("graph list", Reads),
    ("graph show", Reads),
    ("graph test", Reads),
    ("host list", Reads),
    ("inbox", Reads),
    ("insights", Reads),
    ("interrupt", Changes),
    ("logs", Reads),
    ("mail dead", Reads),
    ("mail list", Reads),
    ("mail read", Changes),
    ("mail send", Changes),
    ("note list", Reads),
    ("note show", Reads),
    ("pause", Changes),
    ("plan add", Changes),
    ("plan approve", Ends),
    ("plan check", Reads),
    ("plan diff", Reads),
    ("plan drafts", Reads),
    ("plan history", Reads),
    ("plan merge", Changes),
    ("plan propose", Changes),
    ("plan provenance", Reads),
    ("plan refine", Changes),
    ("plan reject", Ends),
    ("plan show", Reads),
    ("plan split", Changes),
    ("profile list", Reads),
    ("profile show", Reads),
    ("project create", Changes),
    ("project list", Reads),
    ("project mode", Changes),
    ("replay", Reads),
    ("resume", Changes),
    ("schedule create", Changes),
    ("schedule delete", Ends),
    ("schedule list", Reads),
    ("schedule show", Reads),
    ("schema", Reads),
    ("spawn", Changes),
    ("status", Reads),
    ("steer", Changes),
    ("stop", Ends),
    ("tree", Reads),
    ("wait", Reads),
    ("why", Reads),
    ("work block", Changes),
    ("work done", Changes),
    ("work list", Reads),
    ("work priority", Changes),
    ("work show", Reads),
    ("work unblock", Changes),
];
/// Arguments that no tool has: what follows for ever, and the questions of a terminal.
const LEFT_OUT: [&str; 5] = ["follow", "watch", "live", "yes", "help"];
/// Arguments that one tool does not have: a tool that reads writes no file.
const LEFT_OUT_OF: [(&str, &str); 1] = [("artifact get", "to")];
/// Arguments that a tool must have though the command line has a default: an approval is for what was shown.
const REQUIRED: [(&str, &str); 1] = [("approve", "digest")];
/// Positional arguments that name a file, with the tool's argument that gives its text instead.
const TEXTS: [(&str, &str); 2] = [("plan", "plan_text"), ("files", "plan_text")];

/// A command as a tool.
#[derive(Debug)]
pub(super) struct CommandTool {
    /// The tool's name: the command's words.
    pub(super) name: String,
    path: &'static str,
    effect: Effect,
    about: String,
    arguments: Vec<Arg>,
    confirms: bool,
}

/// Every tool of the command line, or those that only read.
pub(super) fn all(mut command: Command, read_only: bool) -> Vec<CommandTool> {
    command.build();
    let wanted = TOOLS.iter().filter(|(_, effect)| !read_only || *effect == Reads);
    wanted.filter_map(|(path, effect)| CommandTool::of(&command, path, *effect)).collect()
}

impl CommandTool {
    fn of(command: &Command, path: &'static str, effect: Effect) -> Option<Self> {
        let found = path.split(' ').try_fold(command, |at, word| at.find_subcommand(word))?;
        let about = found.get_long_about().or_else(|| found.get_about())?.to_string();
        let has = |name: &str| found.get_arguments().any(|arg| arg.get_id() == name);
        let own = found.get_arguments().filter(|arg| {
            !arg.is_global_set()
                && !arg.is_hide_set()
                && !LEFT_OUT.contains(&arg.get_id().as_str())
                && !LEFT_OUT_OF.contains(&(path, arg.get_id().as_str()))
                && !matches!(arg.get_action(), ArgAction::Version | ArgAction::Help)
        });
        Some(Self {
            name: path.replace([' ', '-'], "_"),
            path,
            effect,
            about,
            arguments: own.cloned().collect(),
            confirms: has("yes"),
        })
    }

    /// As clients see it.
    pub(super) fn described(&self) -> Tool {
        let mut properties = JsonObject::new();
        let mut required = Vec::new();
        for arg in &self.arguments {
            properties.insert(name_of(arg), property(arg));
            let text = text_of(arg);
            if let Some(text) = text {
                let about = format!("The text of `{}`, instead of a file", name_of(arg));
                properties
                    .insert(text.to_owned(), json!({ "type": "string", "description": about }));
            }
            if self.requires(arg) && text.is_none() {
                required.push(name_of(arg));
            }
        }
        let schema = JsonObject::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), Value::Object(properties)),
            ("required".to_owned(), json!(required)),
            ("additionalProperties".to_owned(), json!(false)),
        ]);
        let mut hints = ToolAnnotations::default();
        hints.read_only_hint = Some(self.effect == Reads);
        hints.destructive_hint = Some(self.effect == Ends);
        hints.open_world_hint = Some(false);
        Tool::new(self.name.clone(), self.about.clone(), Arc::new(schema)).with_annotations(hints)
    }

    fn requires(&self, arg: &Arg) -> bool {
        let shown = (self.path, arg.get_id().as_str());
        arg.is_required_set() || REQUIRED.contains(&shown)
    }

    /// The command's words for these arguments.
    ///
    /// # Errors
    /// An argument that the tool does not have, has another type, or is missing; in words.
    pub(super) fn line(&self, given: &JsonObject) -> Result<CommandWords, String> {
        let known = |name: &str| {
            self.arguments.iter().any(|arg| name_of(arg) == name || text_of(arg) == Some(name))
        };
        if let Some(stranger) = given.keys().find(|name| !known(name)) {
            let names: Vec<String> = self.arguments.iter().map(name_of).collect();
            return Err(format!("{stranger}: unknown argument; allowed: {}", names.join(", ")));
        }
        let given = |name: &str| given.get(name).filter(|value| !value.is_null());
        let mut words: Vec<String> = self.path.split(' ').map(str::to_owned).collect();
        let (mut input, mut positionals, mut trailing) = (None, Vec::new(), Vec::new());
        for arg in &self.arguments {
            let name = &name_of(arg);
            let text = text_of(arg).and_then(given);
            let values = match (given(name), text) {
                (None, None) if self.requires(arg) => return Err(format!("{name}: is missing")),
                (None, None) => continue,
                (Some(_), Some(_)) => {
                    return Err(format!("{name}: give a file or a text, not both"));
                }
                (Some(value), None) => values(name, value)?,
                (None, Some(text)) => {
                    let text =
                        text.as_str().ok_or_else(|| format!("{name}: its text is a string"))?;
                    input = Some(text.to_owned());
                    vec!["-".to_owned()]
                }
            };
            if values.is_empty() && self.requires(arg) {
                return Err(format!("{name}: is missing"));
            }
            if arg.is_last_set() {
                trailing = values;
            } else if arg.is_positional() {
                positionals.extend(values);
            } else {
                words.extend(option(arg, values)?);
            }
        }
        words.extend(["--output=json".to_owned()]);
        words.extend(self.confirms.then(|| "--yes".to_owned()));
        // A value is never taken for an option.
        let is_open = input.is_none() && !positionals.is_empty() && trailing.is_empty();
        words.extend(is_open.then(|| "--".to_owned()));
        if !is_open
            && let Some(option) = positionals.iter().find(|it| it.len() > 1 && it.starts_with('-'))
        {
            return Err(format!("{option}: begins with -, as an option does"));
        }
        words.extend(positionals);
        words.extend((!trailing.is_empty()).then(|| "--".to_owned()));
        words.extend(trailing);
        Ok(CommandWords { words, input })
    }
}

/// An argument's name: as it is typed, or as the usage line names it.
fn name_of(arg: &Arg) -> String {
    arg.get_long().unwrap_or(arg.get_id().as_str()).replace('-', "_")
}

/// The argument that gives the text of the file which this one names, if there is one.
fn text_of(arg: &Arg) -> Option<&'static str> {
    let named = TEXTS.iter().find(|(name, _)| arg.is_positional() && arg.get_id() == name);
    named.map(|(_, text)| *text)
}

/// An option's words.
fn option(arg: &Arg, values: Vec<String>) -> Result<Vec<String>, String> {
    let name = arg.get_id();
    let long = arg.get_long().ok_or_else(|| format!("{name}: has no long form"))?;
    if takes_value(arg) {
        return Ok(values.into_iter().map(|value| format!("--{long}={value}")).collect());
    }
    match values.as_slice() {
        [value] if value == "true" => Ok(vec![format!("--{long}")]),
        [value] if value == "false" => Ok(Vec::new()),
        _ => Err(format!("{name}: is true or false")),
    }
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

fn takes_many(arg: &Arg) -> bool {
    let most = arg.get_num_args().map_or(1, |range| range.max_values());
    most > 1 || matches!(arg.get_action(), ArgAction::Append)
}

/// A value's texts.
fn values(name: &str, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Bool(_) | Value::Number(_) => Ok(vec![value.to_string()]),
        Value::Array(items) => {
            let texts = items.iter().map(|item| values(name, item));
            Ok(texts.collect::<Result<Vec<_>, _>>()?.concat())
        }
        Value::Object(_) => {
            Err(format!("{name}: is an object; a text, a number, or a list is expected"))
        }
    }
}

/// An argument's schema.
fn property(arg: &Arg) -> Value {
    let mut schema = if takes_value(arg) {
        let mut one = json!({ "type": kind(arg.get_value_parser()) });
        let allowed = arg.get_possible_values();
        let allowed: Vec<&str> = allowed.iter().map(|value| value.get_name()).collect();
        if !allowed.is_empty() {
            one["enum"] = json!(allowed);
        }
        if takes_many(arg) { json!({ "type": "array", "items": one }) } else { one }
    } else {
        json!({ "type": "boolean" })
    };
    if let Some(help) = arg.get_long_help().or_else(|| arg.get_help()) {
        schema["description"] = json!(help.to_string());
    }
    schema
}

/// The JSON type of a value.
fn kind(parser: &ValueParser) -> &'static str {
    let of = parser.type_id();
    if [TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>()].iter().any(|it| of == *it)
    {
        "integer"
    } else if of == TypeId::of::<f64>() {
        "number"
    } else {
        "string"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command_line;

    fn tool(name: &str) -> CommandTool {
        let found = all(command_line(), false).into_iter().find(|tool| tool.name == name);
        found.unwrap()
    }

    fn words(name: &str, given: Value) -> Result<Vec<String>, String> {
        tool(name).line(given.as_object().unwrap()).map(|line| line.words)
    }

    #[test]
    fn every_listed_command_is_a_tool_with_a_schema() {
        let tools = all(command_line(), false);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let listed: Vec<String> = TOOLS.iter().map(|(path, _)| path.replace(' ', "_")).collect();
        assert_eq!(names, listed);
        for tool in &tools {
            let described = tool.described();
            jsonschema::validator_for(&Value::Object((*described.input_schema).clone())).unwrap();
            let about = described.description.unwrap();
            assert!(about.len() > 5, "{}: {about}", tool.name);
        }
    }

    #[test]
    fn read_only_server_has_only_tools_that_read() {
        let reading = all(command_line(), true);
        assert!(reading.iter().all(|tool| tool.effect == Reads));
        assert!(reading.iter().any(|tool| tool.name == "tree"));
        assert!(!reading.iter().any(|tool| tool.name == "stop"));
        let hints = tool("stop").described().annotations.unwrap();
        assert_eq!((hints.read_only_hint, hints.destructive_hint), (Some(false), Some(true)));
    }

    #[test]
    fn arguments_become_words_that_no_option_hides_in() {
        let given = json!({ "agent": "W:x", "text": "--yes" });
        assert_eq!(
            words("steer", given).unwrap(),
            ["steer", "--output=json", "--", "W:x", "--yes"]
        );
        let given = json!({ "kind": "runs", "project": "demo" });
        let expected = ["get", "--project=demo", "--output=json", "--", "runs"];
        assert_eq!(words("get", given).unwrap(), expected);
        assert_eq!(
            words("tree", json!({ "all": true })).unwrap(),
            ["tree", "--all", "--output=json"]
        );
        assert_eq!(words("tree", json!({ "all": false })).unwrap(), ["tree", "--output=json"]);
    }

    #[test]
    fn plan_text_is_given_on_standard_input() {
        let line =
            tool("goal_create").line(json!({ "plan_text": "title: x" }).as_object().unwrap());
        let line = line.unwrap();
        assert_eq!(line.words, ["goal", "create", "--output=json", "-"]);
        assert_eq!(line.input.as_deref(), Some("title: x"));
    }

    #[test]
    fn destructive_command_is_confirmed_by_the_call() {
        let given = json!({ "epic": "goal_x" });
        let words = words("goal_cancel", given).unwrap();
        assert_eq!(words, ["goal", "cancel", "--output=json", "--yes", "--", "goal_x"]);
    }

    #[test]
    fn approval_requires_the_digest_that_was_shown() {
        let wrong = words("approve", json!({ "id": "change_x" })).unwrap_err();
        assert_eq!(wrong, "digest: is missing");
        for nothing in [json!(null), json!([])] {
            let wrong = words("approve", json!({ "id": "change_x", "digest": nothing }));
            assert_eq!(wrong.unwrap_err(), "digest: is missing", "{nothing}");
        }
        let schema = tool("approve").described().input_schema;
        assert_eq!(schema["required"], json!(["id", "digest"]));
    }

    #[test]
    fn invalid_arguments_are_reported_by_name() {
        for (name, given, expected) in [
            (
                "tree",
                json!({ "al": true }),
                "al: unknown argument; allowed: project, human, epic, all",
            ),
            ("tree", json!({ "all": "maybe" }), "all: is true or false"),
            ("describe", json!({}), "thing: is missing"),
            (
                "goal_create",
                json!({ "plan": "a", "plan_text": "b" }),
                "plan: give a file or a text, not both",
            ),
            (
                "get",
                json!({ "kind": {} }),
                "kind: is an object; a text, a number, or a list is expected",
            ),
        ] {
            assert_eq!(words(name, given).unwrap_err(), expected);
        }
    }
}
