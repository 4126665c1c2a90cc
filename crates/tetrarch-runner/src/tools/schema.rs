//! What a model is told of each tool: its arguments as JSON Schema, its bounds in words. The
//! arguments themselves are read where the tool is.

use serde_json::{Value, json};

use super::{Tool, ToolSpec};

/// Describes a tool; `programs` says which programs may be run.
pub(super) fn define(tool: Tool, programs: &str) -> ToolSpec {
    let (description, schema) = match tool {
        Tool::Read => read(),
        Tool::List => list(),
        Tool::Search => search(),
        Tool::Write => write(),
        Tool::Edit => edit(),
        Tool::Run => run(programs),
    };
    ToolSpec { name: tool.name(), description, schema, effect: tool.effect() }
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn path(what: &str) -> Value {
    json!({"type": "string", "description": format!("{what}, relative to the workspace")})
}

fn read() -> (String, Value) {
    let properties = json!({
        "path": path("The file"),
        "offset": {"type": "integer", "minimum": 1, "description": "First line, from 1"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 10_000,
            "description": "Number of lines; 2000 if not given"},
    });
    let words = "Reads a text file of the workspace. Each line comes with its number and a tab \
                 before it. At most 64 KiB at once: read on with `offset`.";
    (words.to_owned(), object(&properties, &["path"]))
}

fn list() -> (String, Value) {
    let properties = json!({
        "path": path("The directory; the workspace itself if not given"),
        "pattern": {"type": "string", "description":
            "Only files that fit this glob, at any depth: `*.rs` by name, `src/**/*.rs` by path \
             below the directory"},
        "ignored": {"type": "boolean", "description": "Also what .gitignore leaves out"},
    });
    let words = "Lists files of a directory of the workspace, directories with `/` at their end; \
                 with `pattern` also those in directories below. At most 1000.";
    (words.to_owned(), object(&properties, &[]))
}

fn search() -> (String, Value) {
    let properties = json!({
        "pattern": {"type": "string", "description": "Regular expression, matched line by line"},
        "path": path("The file or directory; the workspace itself if not given"),
        "files": {"type": "string", "description": "Only in files that fit this glob, as in list_files"},
        "ignore_case": {"type": "boolean"},
        "ignored": {"type": "boolean", "description": "Also in what .gitignore leaves out"},
    });
    let words = "Searches text files of the workspace for a regular expression. Answers with \
                 `path:line: text`, at most 200 lines.";
    (words.to_owned(), object(&properties, &["pattern"]))
}

fn write() -> (String, Value) {
    let properties = json!({
        "path": path("The file"),
        "content": {"type": "string", "description": "All of its new content"},
    });
    let words = "Writes a file of the workspace, whole: what was in it is replaced. Missing \
                 directories are made. At most 4 MiB.";
    (words.to_owned(), object(&properties, &["path", "content"]))
}

fn edit() -> (String, Value) {
    let properties = json!({
        "path": path("The file"),
        "old": {"type": "string", "minLength": 1, "description":
            "The text to be replaced, exactly as it is in the file, line breaks and spaces \
             included; it must be there once"},
        "new": {"type": "string", "description": "What takes its place"},
    });
    let words = "Replaces one piece of text in a text file of the workspace.";
    (words.to_owned(), object(&properties, &["path", "old", "new"]))
}

fn run(programs: &str) -> (String, Value) {
    let properties = json!({
        "argv": {"type": "array", "minItems": 1, "items": {"type": "string"}, "description":
            "The program and its arguments, each by itself; nothing is expanded by a shell"},
        "directory": path("Where it runs; the workspace itself if not given"),
        "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": 3600, "description":
            "When it is ended; 120 if not given"},
    });
    let words = format!(
        "Runs a program and answers with its exit code and its output, of which the first and the \
         last 16 KiB are kept. Its standard input is empty. When it has ended, everything it \
         started is killed. Allowed: {programs}."
    );
    (words, object(&properties, &["argv"]))
}
