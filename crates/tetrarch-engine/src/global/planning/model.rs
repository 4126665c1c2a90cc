//! The model behind the planner, by way of `genai` (docs/decisions/0028): one HTTP request for one turn, again
//! when the server is busy or broken. The key is in memory only and never in what it says.

use std::fmt;
use std::time::Duration;

use genai::Client;
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatResponseFormat};
use genai::resolver::{AuthData, Endpoint, ProviderConfig};
use genai::{Error, ModelIden};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;
use tetrarch_core::id::DispatchId;
use tetrarch_core::overseer::backoff::Backoff;
use tetrarch_core::planner::dialogue::{Dialogue, Speaker};
use tetrarch_core::planner::{Bounds, Planner};
use tetrarch_core::time::Millis;

/// Requests for one turn.
const TRIES: u32 = 4;
/// How long nothing is sent after one that failed.
const BACKOFF: Backoff = Backoff { base: Millis::from_secs(1), max: Millis::from_secs(30) };
/// The longest wait that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// What is kept of a server's words, in bytes.
const WORDS_BYTES: usize = 400;
/// Faults by the schema that are named of one answer.
const FAULTS_MAX: usize = 20;
/// What stands for a key where none is needed.
const NO_KEY: &str = "none";

/// A key; it shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A key as the environment has it.
    #[must_use]
    pub fn new(key: String) -> Self {
        Self(key)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted:planner_key]")
    }
}

/// What the planner is told by whoever starts the owner (spec 12, `[planner]`).
#[derive(Debug, Clone)]
pub struct PlannerConfig {
    /// The provider, by the name that `genai` gives its adapter: `openai`, `anthropic`, ...
    pub provider: String,
    /// The model.
    pub model: String,
    /// Where it is served; none means the provider's own address.
    pub base_url: Option<String>,
    /// The key; none for servers that want none.
    pub key: Option<Key>,
    /// Longest request.
    pub timeout: Duration,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// What it may propose.
    pub bounds: Bounds,
}

/// Why there can be no planner.
#[derive(Debug, thiserror::Error)]
pub enum BadPlanner {
    /// There is no such provider.
    #[error(
        "planner.provider: there is no {provider:?}; say openai or anthropic, or another adapter of genai"
    )]
    Provider {
        /// What was named.
        provider: String,
    },
    /// The client cannot be made.
    #[error(
        "the planner's client cannot be made: {0}; look at planner.base_url and the machine's certificates"
    )]
    Client(String),
}

impl PlannerConfig {
    /// What the owner knows of it.
    #[must_use]
    pub fn planner(&self) -> Planner {
        Planner { model: format!("{} {}", self.provider, self.model), bounds: self.bounds }
    }

    /// The adapter of the provider.
    ///
    /// # Errors
    /// There is none of that name.
    fn adapter(&self) -> Result<AdapterKind, BadPlanner> {
        AdapterKind::from_lower_str(&self.provider)
            .ok_or_else(|| BadPlanner::Provider { provider: self.provider.clone() })
    }

    /// Looks whether a planner can be made of this.
    ///
    /// # Errors
    /// It cannot; why.
    pub fn check(&self) -> Result<(), BadPlanner> {
        Model::new(self).map(drop)
    }
}

/// Gives this process its one TLS implementation, which HTTP clients look for. Again does nothing.
pub fn provide_tls() {
    // Whoever was first gave the same one.
    let _known = rustls::crypto::ring::default_provider().install_default();
}

/// A model that can be asked.
#[derive(Debug)]
pub(super) struct Model {
    client: Client,
    iden: ModelIden,
    options: ChatOptions,
    timeout: Duration,
    bounds: Bounds,
    key: Option<Key>,
}

/// Why a request failed.
struct Trouble {
    /// In words.
    words: String,
    /// Whether it may be sent again.
    again: bool,
    /// How long the server wants to be left alone.
    after: Option<Duration>,
}

impl Model {
    pub(super) fn new(config: &PlannerConfig) -> Result<Self, BadPlanner> {
        provide_tls();
        let adapter = config.adapter()?;
        // A redirect would take the key to whoever it names.
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(config.timeout)
            .build()
            .map_err(|error| BadPlanner::Client(error.to_string()))?;
        let key = config.key.as_ref().map_or(NO_KEY, |key| key.0.as_str());
        let auth = AuthData::from_single(key);
        let at = config.base_url.as_ref().map(|url| format!("{}/", url.trim_end_matches('/')));
        let provider = ProviderConfig::from((at.map(Endpoint::from_owned), Some(auth)));
        let client = Client::builder()
            .with_reqwest(http)
            .with_adapter_kind(adapter)
            .append_provider_config(adapter, provider)
            .build()
            .map_err(|error| BadPlanner::Client(error.to_string()))?;
        let options = ChatOptions::default()
            .with_max_tokens(config.max_tokens)
            .with_response_format(ChatResponseFormat::JsonMode);
        Ok(Self {
            client,
            iden: ModelIden::new(adapter, config.model.as_str()),
            options,
            timeout: config.timeout,
            bounds: config.bounds,
            key: config.key.clone(),
        })
    }

    /// What it may propose.
    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Says what was said so far and gives what the model says to it. What goes wrong on the way is noted in
    /// the dialogue.
    pub(super) async fn say(
        &self,
        dialogue: &mut Dialogue,
        id: DispatchId,
    ) -> Result<String, String> {
        let mut tries = 0;
        loop {
            let trouble = match self.request(dialogue).await {
                Ok(text) => return Ok(text),
                Err(trouble) => trouble,
            };
            tries += 1;
            tracing::warn!(%id, tries, trouble = %trouble.words, "the planner did not answer");
            if !trouble.again || tries >= TRIES {
                return Err(format!("given up after {tries} requests: {}", trouble.words));
            }
            dialogue.troubled(&trouble.words);
            tokio::time::sleep(wait(tries, &id.to_string(), trouble.after)).await;
        }
    }

    async fn request(&self, dialogue: &Dialogue) -> Result<String, Trouble> {
        let mut system = String::new();
        let mut messages = Vec::new();
        for turn in dialogue.turns() {
            match turn.by {
                Speaker::System => system.push_str(&turn.text),
                Speaker::User => messages.push(ChatMessage::user(turn.text.as_str())),
                Speaker::Model => messages.push(ChatMessage::assistant(turn.text.as_str())),
            }
        }
        let request = ChatRequest::new(messages).with_system(system);
        let asked = self.client.exec_chat(&self.iden, request, Some(&self.options));
        match tokio::time::timeout(self.timeout, asked).await {
            Ok(Ok(said)) => Ok(said.into_first_text().unwrap_or_default()),
            Ok(Err(error)) => Err(self.trouble(&error)),
            Err(_) => Err(Trouble {
                words: format!("no answer within {:?}", self.timeout),
                again: true,
                after: None,
            }),
        }
    }

    fn trouble(&self, error: &Error) -> Trouble {
        let status = error.status().map(|status| status.as_u16());
        let again = match status {
            Some(status) => status == 408 || status == 429 || status >= 500,
            // Nothing came, or it broke off.
            None => matches!(error, Error::WebModelCall { .. } | Error::WebAdapterCall { .. }),
        };
        let said = self.without_key(&error.to_string());
        let words = match status {
            Some(status) => format!("HTTP {status}: {said}"),
            None => said,
        };
        Trouble { words, again, after: error.headers().and_then(retry_after) }
    }

    /// The words of somebody who may repeat the key, cut.
    fn without_key(&self, words: &str) -> String {
        let key = self.key.as_ref().map(|key| key.0.as_str()).filter(|key| !key.is_empty());
        let words = key
            .map_or_else(|| words.to_owned(), |key| words.replace(key, "[redacted:planner_key]"));
        let mut end = WORDS_BYTES.min(words.len());
        while !words.is_char_boundary(end) {
            end -= 1;
        }
        words[..end].trim().to_owned()
    }
}

/// How long a server wants to be left alone, in seconds or milliseconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |value: &reqwest::header::HeaderValue| value.to_str().ok()?.trim().parse().ok();
    let ms = headers.get("retry-after-ms").and_then(number).map(Duration::from_millis);
    ms.or_else(|| headers.get(RETRY_AFTER).and_then(number).map(Duration::from_secs))
}

/// How long nothing is sent after so many requests that failed.
fn wait(tries: u32, seed: &str, after: Option<Duration>) -> Duration {
    let own = Duration::from_millis(BACKOFF.wait(tries.saturating_sub(1), seed).0);
    own.max(after.unwrap_or_default().min(RETRY_AFTER_MAX))
}

/// What of a schema a value does not satisfy.
pub(super) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let built = jsonschema::options().offline().build(schema);
    let validator = match built {
        Ok(validator) => validator,
        Err(error) => return vec![format!("the schema cannot be read: {error}")],
    };
    let faults = validator.iter_errors(value).take(FAULTS_MAX);
    faults.map(|fault| format!("{}: {}", fault.instance_path(), fault.masked())).collect()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;
    use tetrarch_core::planner::{Purpose, schema};

    use super::*;

    #[test]
    fn a_server_is_left_alone_for_as_long_as_it_wants_but_not_for_ever() {
        let headers = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            retry_after(&headers)
        };
        assert_eq!(headers("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(headers("retry-after-ms", "70"), Some(Duration::from_millis(70)));
        assert_eq!(headers("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(wait(1, "a", Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(wait(1, "a", Some(Duration::from_secs(7_000))), RETRY_AFTER_MAX);
        assert!(wait(1, "a", None) <= Duration::from_secs(1));
        assert!(wait(64, "a", None) <= Duration::from_secs(30));
    }

    #[test]
    fn a_key_is_never_shown() {
        let config = PlannerConfig {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            base_url: None,
            key: Some(Key::new("sk-secret".to_owned())),
            timeout: Duration::from_secs(1),
            max_tokens: 100,
            bounds: Bounds::default(),
        };
        assert!(!format!("{config:?}").contains("sk-secret"));
        let model = Model::new(&config).unwrap();
        let long = format!("Incorrect API key provided: sk-secret. {}", "é".repeat(WORDS_BYTES));
        let words = model.without_key(&long);
        assert!(words.starts_with("Incorrect API key provided: [redacted:planner_key]."));
        assert!(words.len() <= WORDS_BYTES);
        let unknown = PlannerConfig { provider: "nobody".to_owned(), ..config };
        assert!(unknown.check().unwrap_err().to_string().contains("\"nobody\""));
    }

    #[test]
    fn what_is_wrong_by_the_schema_has_its_place() {
        let schema = schema::answer(Purpose::Plan, Bounds::default());
        let plan = json!({"phases": [{"id": "P1", "name": "go", "tasks": [
            {"id": "T1.1", "name": "go", "acceptance": ["it went"]},
        ]}]});
        assert_eq!(faults(&schema, &plan), Vec::<String>::new());
        let mut wrong = plan;
        wrong["phases"][0]["tasks"][0]["argv"] = json!(["rm"]);
        let found = faults(&schema, &wrong);
        assert!(found[0].starts_with("/phases/0/tasks/0: "), "{found:?}");
    }
}
