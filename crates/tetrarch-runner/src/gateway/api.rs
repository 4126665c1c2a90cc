//! The APIs of models that the gateway passes on: which request is a call, and what an answer says that it took. Pure.

use serde_json::Value;
use tetrarch_core::converse::cost::Tokens;

/// An API by which a program calls a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelApi {
    /// Anthropic's messages.
    Messages,
    /// OpenAI's chat completions, which many servers speak.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelEndpointKind {
    /// It has a model write something.
    Call(ModelApi),
    /// It lists models or counts tokens: nothing is charged.
    Free,
}

impl ModelEndpointKind {
    /// What a request with this path below its server's base is for; none for everything that is not passed on, such
    /// as files and batches, whose cost nobody here would see.
    pub(super) fn of(is_post: bool, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let parts = match parts.split_first() {
            Some((first, rest)) if is_version(first) => rest,
            Some(_) | None => &parts,
        };
        match (is_post, parts) {
            (true, ["messages"]) => Some(Self::Call(ModelApi::Messages)),
            (true, ["chat", "completions"]) => Some(Self::Call(ModelApi::Chat)),
            (true, ["responses"]) => Some(Self::Call(ModelApi::Responses)),
            (true, ["models", called]) => match called.split_once(':')? {
                (model, "generateContent" | "streamGenerateContent") if is_plain(model) => {
                    Some(Self::Call(ModelApi::Gemini))
                }
                (model, "countTokens") if is_plain(model) => Some(Self::Free),
                (_, _) => None,
            },
            (true, ["messages", "count_tokens"]) | (false, ["models"]) => Some(Self::Free),
            (false, ["models", model]) => is_plain(model).then_some(Self::Free),
            (_, _) => None,
        }
    }
}

/// `v1`, `v1beta` and the like.
fn is_version(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit())
            && rest.bytes().all(|it| it.is_ascii_alphanumeric())
    })
}

/// Whether a part of a path is only itself, however it is decoded.
fn is_plain(part: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_name)
}

/// Where an answer says what it took.
struct UsagePlaces {
    /// The objects that have the counts, in an event of a stream or in a whole answer.
    objects: &'static [&'static str],
    input: &'static [&'static str],
    cached: &'static str,
    output: &'static [&'static str],
}

fn usage_places(api: ModelApi) -> UsagePlaces {
    match api {
        ModelApi::Messages => UsagePlaces {
            objects: &["/usage", "/message/usage"],
            input: &["/input_tokens", "/cache_creation_input_tokens", "/cache_read_input_tokens"],
            cached: "/cache_read_input_tokens",
            output: &["/output_tokens"],
        },
        ModelApi::Chat => UsagePlaces {
            objects: &["/usage"],
            input: &["/prompt_tokens"],
            cached: "/prompt_tokens_details/cached_tokens",
            output: &["/completion_tokens"],
        },
        ModelApi::Responses => UsagePlaces {
            objects: &["/usage", "/response/usage"],
            input: &["/input_tokens"],
            cached: "/input_tokens_details/cached_tokens",
            output: &["/output_tokens"],
        },
        ModelApi::Gemini => UsagePlaces {
            objects: &["/usageMetadata"],
            input: &["/promptTokenCount", "/toolUsePromptTokenCount"],
            cached: "/cachedContentTokenCount",
            output: &["/candidatesTokenCount", "/thoughtsTokenCount"],
        },
    }
}

/// What one object says that the call took; none when it does not say.
fn usage_in(api: ModelApi, object: &Value) -> Option<Tokens> {
    let places = usage_places(api);
    let usage =
        places.objects.iter().find_map(|at| object.pointer(at).filter(|it| it.is_object()))?;
    let sum = |all: &[&str]| {
        let counts = all.iter().filter_map(|at| usage.pointer(at)?.as_u64());
        counts.fold(0, u64::saturating_add)
    };
    Some(Tokens {
        input: sum(places.input),
        cached: sum(&[places.cached]),
        output: sum(places.output),
    })
}

/// Longest line of a stream that is looked at, in bytes.
const LINE_MAX: usize = 1024 * 1024;

/// Reads what a stream of events says that its call took.
#[derive(Debug)]
pub(super) struct UsageReader {
    api: ModelApi,
    line: Vec<u8>,
    /// Bytes that were read.
    pub(super) bytes: usize,
    /// What was said so far: counts of one call only grow.
    pub(super) tokens: Option<Tokens>,
    /// Whether the answer is whole.
    pub(super) is_over: bool,
}

impl UsageReader {
    pub(super) fn new(api: ModelApi) -> Self {
        Self { api, line: Vec::new(), bytes: 0, tokens: None, is_over: false }
    }

    /// Takes the next part of a stream.
    pub(super) fn feed(&mut self, chunk: &[u8]) {
        self.bytes = self.bytes.saturating_add(chunk.len());
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + part.len() <= LINE_MAX {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                self.take_line();
            }
        }
    }

    /// Takes a whole answer.
    pub(super) fn feed_whole(&mut self, answer: &[u8]) {
        self.bytes = answer.len();
        self.is_over = true;
        // A stream of Gemini's that is not of events is a list of what they would have been.
        match serde_json::from_slice(answer) {
            Ok(Value::Array(parts)) => parts.iter().for_each(|part| self.take(part)),
            Ok(object) => self.take(&object),
            // It does not say what it took.
            Err(_) => {}
        }
    }

    fn take_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return };
        if data == b"[DONE]" {
            self.is_over = true;
        } else if let Ok(object) = serde_json::from_slice::<Value>(data) {
            self.take(&object);
            self.is_over |= ends(self.api, &object);
        }
    }

    fn take(&mut self, object: &Value) {
        let Some(said) = usage_in(self.api, object) else { return };
        let before = self.tokens.unwrap_or_default();
        self.tokens = Some(Tokens {
            input: before.input.max(said.input),
            cached: before.cached.max(said.cached),
            output: before.output.max(said.output),
        });
    }
}

/// Whether an event is the last of its stream that counts.
fn ends(api: ModelApi, event: &Value) -> bool {
    let is_of = |kinds: &[&str]| {
        event.get("type").and_then(Value::as_str).is_some_and(|it| kinds.contains(&it))
    };
    match api {
        ModelApi::Messages => is_of(&["message_stop"]),
        ModelApi::Responses => {
            is_of(&["response.completed", "response.failed", "response.incomplete"])
        }
        // One answer of several may be over before the others; and usage follows the last words of a chat.
        ModelApi::Gemini | ModelApi::Chat => false,
    }
}

#[cfg(test)]
mod tests;
