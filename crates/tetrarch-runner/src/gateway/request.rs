//! A call of a model as a program asks for it: what it may cost at most, and how that is lowered. What decides on the
//! cost is read strictly, since servers differ in what they forgive: another spelling of a name, a number in a string.
//! Pure.

mod reach;

use serde_json::{Map, Value, json};
use tetrarch_core::converse::cost::{Tokens, tokens_of};

use super::api::ModelApi;
use crate::json_values::ValueCount;

/// Least tokens of an answer to which a call is lowered.
const OUTPUT_MIN: u64 = 2048;
/// Most answers that one call may ask for.
const ANSWERS_MAX: u64 = 16;
/// Most values of a request.
const VALUES_MAX: usize = 500_000;
/// Longest name of a model, in bytes.
const MODEL_BYTES_MAX: usize = 200;
/// Gemini's terms of an answer.
const CONFIG: &str = "generationConfig";

/// Names that decide on what a call costs or reaches.
fn deciding(api: ModelApi) -> &'static [&'static str] {
    match api {
        ModelApi::Messages => &[
            "container",
            "max_tokens",
            "mcp_servers",
            "messages",
            "model",
            "n",
            "service_tier",
            "stream",
            "system",
            "thinking",
            "tools",
        ],
        ModelApi::Chat => &[
            "max_completion_tokens",
            "max_tokens",
            "messages",
            "model",
            "n",
            "plugins",
            "service_tier",
            "stream",
            "stream_options",
            "tools",
            "web_search_options",
        ],
        ModelApi::Responses => &[
            "background",
            "conversation",
            "input",
            "max_output_tokens",
            "model",
            "n",
            "plugins",
            "previous_response_id",
            "prompt",
            "service_tier",
            "stream",
            "tools",
        ],
        ModelApi::Gemini => &[
            "cachedContent",
            "candidateCount",
            "contents",
            CONFIG,
            "maxOutputTokens",
            "systemInstruction",
            "tools",
        ],
    }
}

/// What a gateway allows a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallTerms {
    /// Longest answer, in tokens, where the request says no less; none: only what it says.
    pub(super) output_max: Option<u64>,
    /// Tokens of an answer with which is reckoned when nobody says.
    pub(super) assumed: u64,
    /// Whether the run has the network, and so may have its provider fetch something.
    pub(super) is_open: bool,
}

/// A call of a model, as a program asks for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelCall {
    pub(super) api: ModelApi,
    /// The model that it names.
    pub(super) model: String,
    body: Map<String, Value>,
    /// Tokens that it reads, at most about so many.
    input: u64,
    /// Tokens of one answer.
    output: u64,
    /// Answers that it asks for.
    answers: u64,
}

impl ModelCall {
    /// Reads a request. `path` names Gemini's models.
    ///
    /// # Errors
    /// What it is, or that nobody could say what it costs; for the program.
    pub(super) fn read(
        api: ModelApi,
        path: &str,
        bytes: &[u8],
        terms: CallTerms,
    ) -> Result<Self, String> {
        if ValueCount::default().add(bytes) > VALUES_MAX {
            return Err(format!("the body has more than {VALUES_MAX} values; send fewer"));
        }
        let mut body: Map<String, Value> = serde_json::from_slice(bytes)
            .map_err(|cause| format!("the body is not a JSON object: {cause}"))?;
        if body.get(CONFIG).is_some_and(Value::is_null) {
            body.remove(CONFIG);
        }
        spelled(api, &body)?;
        of_known_cost(&body)?;
        if api == ModelApi::Gemini && !body.get(CONFIG).is_none_or(Value::is_object) {
            return Err(format!("`{CONFIG}` is no object"));
        }
        if let Some(reached) = reach::found(api, &body).filter(|_| !terms.is_open) {
            return Err(format!(
                "{reached} has the provider fetch something, and this run has no network; add `network` to the brief's tools, or send what it is about"
            ));
        }
        let streams = match body.get("stream") {
            None | Some(Value::Null) => false,
            Some(said) => said.as_bool().ok_or("`stream` is neither true nor false")?,
        };
        if api == ModelApi::Chat && streams {
            // Otherwise a stream does not say what it took.
            let options = body.entry("stream_options").or_insert(Value::Null);
            if options.is_null() {
                *options = json!({});
            }
            let options = options.as_object_mut().ok_or("`stream_options` is no object")?;
            options.insert("include_usage".to_owned(), true.into());
        }
        let model = match api {
            ModelApi::Gemini => path.rsplit('/').next().and_then(|it| it.split(':').next()),
            ModelApi::Messages | ModelApi::Chat | ModelApi::Responses => {
                body.get("model").and_then(Value::as_str)
            }
        };
        let model = model.unwrap_or_default().to_owned();
        if model.len() > MODEL_BYTES_MAX {
            return Err(format!("the model's name has more than {MODEL_BYTES_MAX} bytes"));
        }
        let mut call =
            Self { api, model, body, input: tokens_of(bytes.len()), output: 0, answers: 1 };
        call.reckon(terms)?;
        Ok(call)
    }

    /// Reads how many answers of which length are asked for, and limits them.
    fn reckon(&mut self, terms: CallTerms) -> Result<(), String> {
        let said = self.terms();
        spelled(self.api, said)?;
        let answers = if self.api == ModelApi::Gemini { "candidateCount" } else { "n" };
        self.answers = whole(said, answers)?.unwrap_or(1).max(1);
        if self.answers > ANSWERS_MAX {
            let answers = self.answers;
            return Err(format!(
                "{answers} answers were asked for; at most {ANSWERS_MAX} are allowed"
            ));
        }
        let mut asked = None;
        for key in output_keys(self.api) {
            // Of two lengths a server takes the one that it knows.
            asked = asked.max(whole(self.terms(), key)?);
        }
        self.output = asked.unwrap_or(terms.assumed);
        if let Some(most) = terms.output_max.filter(|most| asked.is_none_or(|asked| asked > *most))
        {
            self.limit(most);
        }
        Ok(())
    }

    /// The object that has the terms of an answer.
    fn terms(&self) -> &Map<String, Value> {
        let config = self.body.get(CONFIG).filter(|_| self.api == ModelApi::Gemini);
        config.and_then(Value::as_object).unwrap_or(&self.body)
    }

    /// What it takes at worst.
    pub(super) fn worst(&self) -> Tokens {
        Tokens { input: self.input, cached: 0, output: self.output.saturating_mul(self.answers) }
    }

    /// Halves the answer that it asks for; false when that would leave too little.
    pub(super) fn lower(&mut self) -> bool {
        let half = self.output / 2;
        let is_enough = half >= OUTPUT_MIN;
        if is_enough {
            self.limit(half);
        }
        is_enough
    }

    fn limit(&mut self, most: u64) {
        self.output = most;
        let terms = match self.api {
            ModelApi::Gemini => self.body.entry(CONFIG).or_insert(json!({})).as_object_mut(),
            ModelApi::Messages | ModelApi::Chat | ModelApi::Responses => Some(&mut self.body),
        };
        // That it is one was looked at when it was read.
        let Some(terms) = terms else { return };
        let keys = output_keys(self.api);
        let mut said = false;
        for key in keys {
            if let Some(asked) = terms.get(*key).and_then(Value::as_u64) {
                terms.insert((*key).to_owned(), asked.min(most).into());
                said = true;
            }
        }
        if let Some(usual) = keys.first().filter(|_| !said) {
            terms.insert((*usual).to_owned(), most.into());
        }
        // Anthropic's servers refuse a thought that may be longer than its answer.
        let thought = self.body.get_mut("thinking").and_then(|it| it.get_mut("budget_tokens"));
        if let Some(thought) = thought.filter(|it| it.as_u64().is_some_and(|it| it >= most)) {
            *thought = json!(most.saturating_sub(1));
        }
    }

    /// What is sent. The rest of it is what is remembered while the answer comes.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        Value::Object(std::mem::take(&mut self.body)).to_string().into_bytes()
    }
}

/// Under which names a request says how long its answer may be, the usual one first.
fn output_keys(api: ModelApi) -> &'static [&'static str] {
    match api {
        ModelApi::Messages => &["max_tokens"],
        ModelApi::Chat => &["max_completion_tokens", "max_tokens"],
        ModelApi::Responses => &["max_output_tokens"],
        ModelApi::Gemini => &["maxOutputTokens"],
    }
}

/// Refuses a name that some servers read as one that decides.
fn spelled(api: ModelApi, object: &Map<String, Value>) -> Result<(), String> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let deciding = deciding(api);
    for key in object.keys().filter(|key| !deciding.contains(&key.as_str())) {
        let plain_key = plain(key);
        if let Some(meant) = deciding.iter().find(|name| plain(name) == plain_key) {
            return Err(format!("`{key}` is not passed on; write `{meant}`"));
        }
    }
    Ok(())
}

/// Refuses what has the provider read something that was not sent, or charge another price.
fn of_known_cost(body: &Map<String, Value>) -> Result<(), String> {
    let is_set = |key: &&str| body.get(*key).is_some_and(|it| !it.is_null() && *it != json!(false));
    let stored = ["background", "previous_response_id", "conversation", "prompt", "cachedContent"];
    if let Some(key) = stored.iter().find(|it| is_set(it)) {
        return Err(format!(
            "`{key}` is not passed on, since its cost is not known here; send the whole input"
        ));
    }
    let tier = body.get("service_tier").filter(|it| !it.is_null());
    let usual = ["auto", "default", "flex", "standard_only"];
    match tier {
        Some(tier) if !tier.as_str().is_some_and(|it| usual.contains(&it)) => Err(format!(
            "this `service_tier` is not passed on, since its price is not known here; use one of {}",
            usual.join(", ")
        )),
        Some(_) | None => Ok(()),
    }
}

/// The whole number under a name; none when it is not there.
fn whole(object: &Map<String, Value>, key: &str) -> Result<Option<u64>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(said) => match said.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{key}` is no whole number")),
        },
    }
}

#[cfg(test)]
mod tests;
