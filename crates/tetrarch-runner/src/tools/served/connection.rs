//! The connection to one server of tools: made when it is needed, and again when it was lost, but not for ever.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams, ProtocolVersion, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientHandler, Peer, RoleClient};
use tetrarch_core::intensity::{Failures, Intensity};
use tetrarch_core::mcp::McpServer;
use tetrarch_core::redaction::redact;
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_model::{ApiKey, HttpError, http_client};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::output::MESSAGE_BYTES_MAX;
use super::paced::PacedHttp;
use super::process::ServerProcess;
use crate::lines::start_of;
use crate::tools::command::Commands;
use crate::tools::inside::Workspace;

/// How long a server may take to be ready, and to list what it has.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Pages of its tools that are asked for, and tools, and bytes of their schemas, after which no more are.
const PAGES_MAX: usize = 32;
const LISTED_MAX: usize = 1024;
const LISTED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What is said of an error of a server, in bytes.
const WORDS_BYTES_MAX: usize = 2 * 1024;

/// What servers are started on.
#[derive(Debug, Clone)]
pub(in crate::tools) struct ServerGround {
    pub(in crate::tools) commands: Arc<Commands>,
    pub(in crate::tools) workspace: Arc<Workspace>,
    /// The profile that names them.
    pub(in crate::tools) profile: String,
}

/// A server, and the way to it while there is one.
#[derive(Debug)]
pub(super) struct Connection {
    server: McpServer,
    ground: ServerGround,
    began: Instant,
    state: Mutex<ConnectionState>,
}

#[derive(Debug, Default)]
struct ConnectionState {
    link: Option<ServerLink>,
    failures: Failures,
    /// Why it is not started any more.
    given_up: Option<String>,
}

/// A server that answers.
#[derive(Debug)]
struct ServerLink {
    service: RunningService<RoleClient, HostClient>,
    /// Its process, if it is a command.
    process: Option<ServerProcess>,
}

/// What this host is to a server: it offers nothing, and is asked nothing.
#[derive(Debug, Clone, Copy)]
struct HostClient;

impl ClientHandler for HostClient {
    fn get_info(&self) -> ClientConfig {
        let host = Implementation::new("tetrarch", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), host)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

impl Connection {
    pub(super) fn new(server: McpServer, ground: ServerGround) -> Self {
        Self { server, ground, began: Instant::now(), state: Mutex::default() }
    }

    pub(super) fn server(&self) -> &McpServer {
        &self.server
    }

    /// What it has.
    ///
    /// # Errors
    /// It cannot be started, or says nothing of use.
    pub(super) async fn listed(&self) -> Result<Vec<Tool>, String> {
        let peer = self.peer().await?;
        match timeout(READY_WITHIN, pages(&peer)).await {
            Ok(Ok(tools)) => Ok(tools),
            Ok(Err(error)) => Err(self.lost(&error).await),
            Err(_) => {
                let late = format!("did not list its tools within {} s", READY_WITHIN.as_secs());
                Err(self.failed(&late))
            }
        }
    }

    /// Whom to ask; started when nobody is there.
    ///
    /// # Errors
    /// It cannot be started, or was lost too often.
    pub(super) async fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let mut state = self.state.lock().await;
        if let Some(why) = &state.given_up {
            return Err(why.clone());
        }
        if let Some(link) = state.link.as_ref().filter(|link| !link.is_over()) {
            return Ok(link.service.peer().clone());
        }
        if let Some(why) = self.take_down(&mut state).await
            && state.given_up.is_some()
        {
            return Err(why);
        }
        match self.start().await {
            Ok(link) => {
                let peer = link.service.peer().clone();
                state.link = Some(link);
                Ok(peer)
            }
            Err(why) => Err(self.note(&mut state, why)),
        }
    }

    /// A call was not answered: what became of the server, in words.
    pub(super) async fn lost(&self, error: &ServiceError) -> String {
        let mut state = self.state.lock().await;
        // Another call may have brought it up again meanwhile.
        let is_over = state.link.as_ref().is_some_and(ServerLink::is_over);
        let ended = if is_over { self.take_down(&mut state).await } else { None };
        ended.unwrap_or_else(|| self.failed(&words(error)))
    }

    /// Ends it. Returns when it is gone.
    pub(super) async fn close(&self) {
        let mut state = self.state.lock().await;
        state.given_up = Some(self.failed("was ended with its run"));
        if let Some(link) = state.link.take() {
            link.end().await;
        }
    }

    /// Takes away what is left of one that is over, and says how it ended.
    async fn take_down(&self, state: &mut ConnectionState) -> Option<String> {
        let ended = state.link.take()?.end().await;
        Some(self.note(state, self.failed(&ended)))
    }

    /// Counts a failure; the one too many is the last.
    fn note(&self, state: &mut ConnectionState, why: String) -> String {
        let intensity = Intensity::default();
        let at = BusTime(Millis::from(self.began.elapsed()).0);
        if !state.failures.note(at, intensity) {
            return why;
        }
        let why = format!(
            "{why}\nIt failed {} times within {} s and is not started any more in this session; go on without it",
            intensity.max + 1,
            intensity.window.0 / 1000
        );
        state.given_up = Some(why.clone());
        why
    }

    /// What it did, with its name.
    pub(super) fn failed(&self, what: &str) -> String {
        let mut what = format!(
            "MCP server `{}` of profile `{}` {}",
            self.server.name,
            self.ground.profile,
            start_of(what, WORDS_BYTES_MAX)
        );
        redact(&mut what);
        what
    }

    /// One that only speaks the newer generation of the protocol refuses the handshake of the older.
    async fn start(&self) -> Result<ServerLink, String> {
        let newest = vec![ProtocolVersion::LATEST];
        let discover = ClientLifecycleMode::Discover { preferred_versions: newest };
        let begun = match self.start_as(ClientLifecycleMode::Initialize).await {
            Err((why, true)) => self.start_as(discover).await.map_err(|_| why),
            begun => begun.map_err(|(why, _)| why),
        };
        begun.map_err(|why| self.failed(&why))
    }

    /// Starts it; why not, and whether it refused this handshake.
    async fn start_as(&self, mode: ClientLifecycleMode) -> Result<ServerLink, (String, bool)> {
        if self.server.argv.is_empty() {
            let config = self.address().await.map_err(|why| (why, false))?;
            let client = http_client();
            let client = client.map_err(|cause| (format!("cannot be called: {cause}"), false))?;
            let client = PacedHttp::of(client);
            let transport = StreamableHttpClientTransport::with_client(client, config);
            let begun = timeout(READY_WITHIN, HostClient.serve_with_lifecycle(transport, mode));
            return match begun.await {
                Ok(Ok(service)) => Ok(ServerLink { service, process: None }),
                Ok(Err(error)) => Err((unreached(&error), is_refusal(&error))),
                Err(_) => Err((late(), false)),
            };
        }
        let begun = ServerProcess::start(&self.ground, &self.server).await;
        let (process, transport) = begun.map_err(|why| (why, false))?;
        let begun = timeout(READY_WITHIN, HostClient.serve_with_lifecycle(transport, mode)).await;
        let (why, is_refused) = match begun {
            Ok(Ok(service)) => return Ok(ServerLink { service, process: Some(process) }),
            Ok(Err(ClientInitializeError::ConnectionClosed(_))) => (String::new(), false),
            Ok(Err(error)) => (unreached(&error), is_refusal(&error)),
            Err(_) => (late(), false),
        };
        let ended = process.end().await;
        Err((if why.is_empty() { ended } else { format!("{why}; it {ended}") }, is_refused))
    }

    /// How its address is spoken to, with its key.
    async fn address(&self) -> Result<StreamableHttpClientTransportConfig, String> {
        let config = StreamableHttpClientTransportConfig::with_uri(self.server.url.as_str())
            .max_json_response_size(MESSAGE_BYTES_MAX)
            .max_sse_event_size(MESSAGE_BYTES_MAX);
        let Some(source) = self.server.key_source() else { return Ok(config) };
        let found = spawn_blocking(move || ApiKey::found(&source)).await;
        let key = found.map_err(|cause| cause.to_string())?.map_err(|cause| {
            format!(
                "has no key ({}): {cause}; set it where the host is started",
                self.server.key_from
            )
        })?;
        if self.server.header.is_empty() {
            return Ok(config.auth_header(key.plain()));
        }
        let bad = || format!("has a key that header {} cannot hold", self.server.header);
        let name = self.server.header.parse().map_err(|_| bad())?;
        let value = key.plain().parse().map_err(|_| bad())?;
        Ok(config.custom_headers(HashMap::from([(name, value)])))
    }
}

impl ServerLink {
    fn is_over(&self) -> bool {
        self.service.peer().is_transport_closed()
    }

    /// Ends it; says how it ended. Its process is gone then, with all that it started.
    async fn end(mut self) -> String {
        if let Err(cause) = self.service.close().await {
            tracing::debug!(%cause, "the connection to a server of tools failed at its end");
        }
        match self.process {
            Some(process) => process.end().await,
            None => "closed the connection".to_owned(),
        }
    }
}

async fn pages(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    let (mut tools, mut cursor, mut bytes) = (Vec::new(), None, 0);
    for _ in 0..PAGES_MAX {
        let asked = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(asked)).await?;
        let schema = |tool: &Tool| serde_json::to_vec(&tool.input_schema).map_or(0, |it| it.len());
        bytes += page.tools.iter().map(schema).sum::<usize>();
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() > LISTED_MAX || bytes > LISTED_BYTES_MAX {
            break;
        }
    }
    Ok(tools)
}

fn late() -> String {
    format!("did not answer the handshake within {} s", READY_WITHIN.as_secs())
}

/// Whether a server answered and wants another handshake.
fn is_refusal(error: &ClientInitializeError) -> bool {
    matches!(error, ClientInitializeError::JsonRpcError(_))
}

fn unreached(error: &ClientInitializeError) -> String {
    format!("did not take the handshake: {}", chain(error))
}

/// What an error comes of, one after the other.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'e (dyn Error + 'static)| {
        let cause: &'e (dyn Error + 'static) = *cause;
        cause.source()
    })
}

/// An error with its causes, each once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    for cause in causes(error) {
        let words = cause.to_string();
        if !said.contains(&words) {
            said.push_str(": ");
            said.push_str(&words);
        }
    }
    said
}

/// What went wrong with a call, in words.
pub(super) fn words(error: &ServiceError) -> String {
    format!("gave no answer: {}", chain(error))
}

/// Whether a call was certainly not made: nobody was reached, or whoever was reached would not have it.
pub(super) fn was_refused(error: &ServiceError) -> bool {
    causes(error).any(|cause| match cause.downcast_ref::<StreamableHttpError<HttpError>>() {
        Some(StreamableHttpError::Client(error)) => error.is_connect(),
        Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) => {
            true
        }
        Some(StreamableHttpError::UnexpectedServerResponse(words)) => words.starts_with("HTTP 4"),
        _ => false,
    })
}
