//! What a call has its provider reach beyond the model: tools that the provider carries out, and contents by address or by
//! the name of something stored. A run without a network has no way out by them.

use serde_json::{Map, Value};

use super::super::api::ModelApi;

/// Names of a request that are such a thing by themselves.
const HOSTED: [&str; 4] = ["container", "mcp_servers", "plugins", "web_search_options"];

/// The first such thing of a request, in words.
pub(super) fn found(api: ModelApi, body: &Map<String, Value>) -> Option<String> {
    let is_set = |key: &&&str| body.get(**key).is_some_and(|it| !it.is_null());
    if let Some(key) = HOSTED.iter().find(is_set) {
        return Some(format!("`{key}`"));
    }
    let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    if let Some(tool) = tools.filter_map(|tool| hosted(api, tool)).next() {
        return Some(format!("tool `{tool}`"));
    }
    let contents = match api {
        ModelApi::Messages | ModelApi::Chat => "messages",
        ModelApi::Responses => "input",
        ModelApi::Gemini => "contents",
    };
    let contents = [contents, "system", "systemInstruction"];
    let named = contents.iter().filter_map(|key| body.get(*key)).find_map(fetched);
    named.map(|key| format!("`{key}`"))
}

/// The kind of a tool that the provider carries out; none when the program does.
fn hosted(api: ModelApi, tool: &Value) -> Option<String> {
    let Some(tool) = tool.as_object() else { return Some("of another form".to_owned()) };
    if api == ModelApi::Gemini {
        let own = |key: &&String| *key == "functionDeclarations";
        return tool.keys().find(|key| !own(key)).cloned();
    }
    let kind = match tool.get("type") {
        None | Some(Value::Null) => return None,
        Some(kind) => kind.as_str().unwrap_or("of another form"),
    };
    let is_own = match api {
        ModelApi::Messages => {
            let versioned = ["bash_", "text_editor_", "computer_", "memory_", "tool_search_"];
            kind == "custom" || versioned.iter().any(|own| kind.starts_with(own))
        }
        ModelApi::Chat => matches!(kind, "function" | "custom"),
        ModelApi::Responses => matches!(
            kind,
            "function" | "custom" | "local_shell" | "apply_patch" | "namespace" | "tool_search"
        ),
        ModelApi::Gemini => false,
    };
    (!is_own).then(|| kind.chars().take(50).collect())
}

/// The name under which a content is fetched from elsewhere.
fn fetched(value: &Value) -> Option<&'static str> {
    let object = match value {
        Value::Array(all) => return all.iter().find_map(fetched),
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    let kind = object.get("type").and_then(Value::as_str);
    match kind {
        Some("tool_use" | "server_tool_use") => return None,
        Some("item_reference") => return Some("item_reference"),
        Some("container_upload") => return Some("container_upload"),
        Some(_) | None => {}
    }
    let source = object.get("source").and_then(|it| it.get("type")).and_then(Value::as_str);
    if matches!(source, Some("url" | "file")) {
        return Some("source");
    }
    for (key, value) in object {
        let is_elsewhere = || !value.is_null() && !is_inline(value);
        match key.as_str() {
            "image_url" if is_elsewhere() => return Some("image_url"),
            "file_url" if is_elsewhere() => return Some("file_url"),
            "file_id" if is_elsewhere() => return Some("file_id"),
            "fileData" | "file_data" if value.is_object() => return Some("fileData"),
            // What Gemini's models call functions with, and what these gave: nobody fetches that.
            "args" | "response" => {}
            _ => {
                if let Some(key) = fetched(value) {
                    return Some(key);
                }
            }
        }
    }
    None
}

/// Whether an address has what it stands for in itself.
fn is_inline(value: &Value) -> bool {
    let url = value.as_str().or_else(|| value.get("url")?.as_str());
    url.is_some_and(|url| url.starts_with("data:"))
}
