//! A model behind an HTTP API, by way of `genai` (docs/decisions/0028, 0042): what is said to it, what it says,
//! and what went wrong on the way, in words and with whether it may be said again. The key is in memory only
//! and never in what is told. When something is said, and how often, is the caller's business. Each request has a
//! span and is counted, whoever makes it.

mod key;
mod speech;
mod trouble;
mod upstream;
mod words;

use std::time::Duration;

use genai::Client;
use genai::ModelIden;
use genai::adapter::AdapterKind;
use genai::chat::{ChatOptions, ChatResponseFormat, ToolChoice};
use genai::resolver::{AuthData, Endpoint, ProviderConfig};
use tetrarch_core::converse::Reply;
use tetrarch_telemetry::{Chat, Chats, Prompt, Whose};

use tetrarch_core::brief::Served;

pub use key::{ApiKey, NoKey};
pub use reqwest::{Client as HttpClient, Error as HttpError};
pub use speech::{AnswerPart, ModelAnswer};
pub use trouble::{ModelFailure, TRIES, pause};
pub use upstream::{Upstream, UpstreamAnswer, UpstreamError};
pub use words::ModelRequest;

use speech::Deadline;

/// What stands for a key where none is needed.
const NO_KEY: &str = "none";
/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);

/// Where a model is.
#[derive(Debug, Clone)]
pub struct Address {
    /// The provider, by the name that `genai` gives its adapter: `openai`, `anthropic`, ...
    pub provider: String,
    /// The model.
    pub model: String,
    /// Where it is served; none means the provider's own address.
    pub base_url: Option<String>,
    /// The key; none for servers that want none.
    pub key: Option<ApiKey>,
}

impl Address {
    /// Where a profile's model is, with the key where this process finds it (spec 12, Profiles).
    ///
    /// # Errors
    /// The key is named in a way that there is not, or is not there.
    pub fn of(served: &Served, model: &str) -> Result<Self, BadAddress> {
        let from = &served.key_from;
        let key = if from.is_empty() {
            None
        } else {
            let bad = || BadAddress::KeyFrom { from: from.clone() };
            let source = served.key_source().ok_or_else(bad)?;
            if let Some(fault) = served.key_fault() {
                return Err(BadAddress::Exposed { url: served.base_url.clone(), fault });
            }
            let none = |cause| BadAddress::NoKey { from: from.clone(), cause };
            Some(ApiKey::found(&source).map_err(none)?)
        };
        Ok(Self {
            provider: served.provider.clone(),
            model: model.to_owned(),
            base_url: Some(served.base_url.clone()).filter(|url| !url.is_empty()),
            key,
        })
    }
}

/// Why a model cannot be reached at all.
#[derive(Debug, thiserror::Error)]
pub enum BadAddress {
    /// There is no key where it is said to be.
    #[error(
        "cannot read the key of keyFrom ({from}): {cause}; set it for the process that calls the model"
    )]
    NoKey {
        /// Where it is said to be.
        from: String,
        /// Why it is not there.
        cause: NoKey,
    },
    /// The key is named in a way that there is not.
    #[error("keyFrom is {from}; allowed: env:NAME or credential:NAME, never the key itself")]
    KeyFrom {
        /// What was written.
        from: String,
    },
    /// The key would be read on its way.
    #[error(
        "baseUrl {url:?} {fault}, so the key of keyFrom is not sent there; use https, or a tunnel to this machine"
    )]
    Exposed {
        /// The address.
        url: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// There is no such provider.
    #[error("unknown provider {provider:?}; use openai, anthropic or another adapter of genai")]
    Provider {
        /// What was named.
        provider: String,
    },
    /// The client cannot be made.
    #[error("cannot create the client: {0}; check the base url and the machine's certificates")]
    Client(String),
}

/// Gives this process its one TLS implementation, which HTTP clients look for. Again does nothing.
pub fn provide_tls() {
    // Whoever was first gave the same one.
    let _known = rustls::crypto::ring::default_provider().install_default();
}

/// A client for servers that are shown a key.
///
/// # Errors
/// The system has no room for one.
pub fn http_client() -> Result<reqwest::Client, HttpError> {
    http_settings().build()
}

/// How such a client is to be. A redirect would take the key to whoever it names.
fn http_settings() -> reqwest::ClientBuilder {
    provide_tls();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    client.connect_timeout(CONNECT_WITHIN)
}

/// A model that can be spoken to.
#[derive(Debug)]
pub struct Model {
    client: Client,
    iden: ModelIden,
    chats: Chats,
}

impl Model {
    /// Prepares to speak to a model; nothing is sent.
    ///
    /// # Errors
    /// There is no such provider, or no client can be made.
    pub fn new(address: &Address) -> Result<Self, BadAddress> {
        let adapter = AdapterKind::from_lower_str(&address.provider)
            .ok_or_else(|| BadAddress::Provider { provider: address.provider.clone() })?;
        let http = http_client().map_err(|error| BadAddress::Client(error.to_string()))?;
        let key = address.key.as_ref().map_or(NO_KEY, ApiKey::plain);
        let auth = AuthData::from_single(key);
        let at = address.base_url.as_ref().map(|url| format!("{}/", url.trim_end_matches('/')));
        let provider = ProviderConfig::from((at.map(Endpoint::from_owned), Some(auth)));
        let client = Client::builder()
            .with_reqwest(http)
            .with_adapter_kind(adapter)
            .append_provider_config(adapter, provider)
            .build()
            .map_err(|error| BadAddress::Client(error.to_string()))?;
        let iden = ModelIden::new(adapter, address.model.as_str());
        let chats = Chats::with(tetrarch_telemetry::ModelEndpoint {
            provider: address.provider.clone(),
            model: address.model.clone(),
            server: address.base_url.as_deref().and_then(server),
        });
        Ok(Self { client, iden, chats })
    }

    /// The same, spoken to on somebody's behalf: what its spans say.
    #[must_use]
    pub fn on_behalf_of(self, whose: Whose) -> Self {
        Self { chats: self.chats.on_behalf_of(whose), ..self }
    }

    /// Says something and gives the words of the whole answer, with what they took; nothing when the provider
    /// does not count.
    ///
    /// # Errors
    /// What went wrong; no answer within `within` among it.
    pub async fn say(
        &self,
        request: &ModelRequest<'_>,
        within: Duration,
    ) -> Result<Reply, ModelFailure> {
        let chat = self.begin(request);
        let options = options(request);
        let asked = self.client.exec_chat(&self.iden, words::said(request), Some(&options));
        let trouble = match tokio::time::timeout(within, asked).await {
            Ok(Ok(said)) => {
                let answered = words::answered(&said);
                let text = said.into_first_text().unwrap_or_default();
                let tokens = answered.tokens.unwrap_or_default();
                let reply = Reply { text, tokens, ..Reply::default() };
                chat.answered(&answered, &reply);
                return Ok(reply);
            }
            Ok(Err(error)) => ModelFailure::of(&error),
            Err(_) => ModelFailure::late(within),
        };
        chat.failed(&trouble.kind(), &trouble.words);
        Err(trouble)
    }

    /// Says something and gives the answer as it comes: all of it within `within`, and never nothing for `idle`.
    ///
    /// # Errors
    /// It cannot even be sent.
    pub async fn speech(
        &self,
        request: &ModelRequest<'_>,
        idle: Duration,
        within: Duration,
    ) -> Result<ModelAnswer, ModelFailure> {
        let chat = self.begin(request);
        let deadline = Deadline::after(within);
        let options = options(request)
            .with_capture_usage(true)
            .with_capture_content(true)
            .with_capture_tool_calls(true)
            .with_stream_header_timeout(idle)
            .with_stream_read_timeout(idle);
        let asked = self.client.exec_chat_stream(&self.iden, words::said(request), Some(&options));
        match asked.await {
            Ok(answer) => Ok(ModelAnswer::new(answer.stream, chat, deadline)),
            Err(error) => {
                let trouble = ModelFailure::of(&error);
                chat.failed(&trouble.kind(), &trouble.words);
                Err(trouble)
            }
        }
    }

    fn begin(&self, request: &ModelRequest<'_>) -> Chat {
        let ModelRequest { system, messages, max_output_tokens, json_only, .. } = *request;
        self.chats.begin(&Prompt { system, messages, max_output_tokens, json_only })
    }
}

/// The name and the port of the server behind an address.
fn server(url: &str) -> Option<(String, u16)> {
    let url = reqwest::Url::parse(url).ok()?;
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

fn options(request: &ModelRequest<'_>) -> ChatOptions {
    let mut options = ChatOptions::default().with_max_tokens(request.max_output_tokens);
    if !request.tools.is_empty() && !request.may_call {
        options = options.with_tool_choice(ToolChoice::None);
    }
    if request.json_only {
        options.with_response_format(ChatResponseFormat::JsonMode)
    } else {
        options
    }
}
