//! A connection to the bus that is proven before it is given out, and the raw publishes and
//! reads everything else is built from. It decides nothing about what it carries, and no caller
//! may act on a read alone (spec 02, Client rules).

mod login;
mod publish;
mod published;
mod purge;
mod quorum;
mod read;
mod text;
pub(crate) mod tls;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::context::{ContextBuilder, RequestErrorKind};
use async_nats::{ConnectErrorKind, Event, ServerAddr, ServerError, jetstream};
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

use crate::creds::jwt::{self, UserFacts};
use crate::error::ConnectError;
use crate::retry;
use crate::server::{MIN_VERSION, Version};
use crate::subject::pattern;
use crate::subject::pattern::policy::{BusAccount, CredentialRole};

use login::{sign_in, signed_in};
use quorum::{QuorumWatch, ServerRotation};

pub use publish::PendingAck;
pub(crate) use published::next_published;
pub use read::RawMessage;

/// Time for the first connect and its proof.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Time for a server that answers to answer for JetStream too: a cluster whose leader was just lost
/// needs 4 to 9 s for another (spec 02).
const PROVEN_WITHIN: Duration = Duration::from_secs(15);
/// Time for a server that says that it has no JetStream to say otherwise, and between two questions meanwhile.
const BEGUN_WITHIN: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// What a server answers that has no JetStream, or not yet.
const NOT_AVAILABLE: u64 = 503;
/// What a server of a cluster answers that knows no leader.
const NO_LEADER: u64 = jetstream::ErrorCode::CLUSTER_NOT_AVAILABLE.0;
/// Time for one request or acknowledgement.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time between two pings of the server.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Time between two looks whether a lost connection is back.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Time between two words on a subscription that is too slow.
const SAID_EVERY: Duration = Duration::from_secs(1);
/// Publishes that wait for their acknowledgement on one connection; more wait for a place.
const IN_FLIGHT_MAX: usize = 4096;
/// The code given to what the credential does not allow.
const NOT_ALLOWED: u64 = 403;
/// What a server says to a credential whose time is over.
const EXPIRED: &str = "User Authentication Expired";
/// The code of what there is not.
const NOT_FOUND: u64 = 404;
/// Notices kept for waiting publishes.
const NOTICES_KEPT: usize = 256;

/// How to reach the bus.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// Server addresses, such as `nats://127.0.0.1:4222`; any one of them is enough.
    pub urls: Vec<String>,
    /// The credential file; a server of this product takes no connection without one.
    pub credentials: Option<PathBuf>,
    /// What the server lists this connection as.
    pub name: String,
    /// The JetStream API's prefix when it is not `$JS.API` (spec 09: separate accounts).
    pub api_prefix: Option<String>,
    /// The file of the authority that made the servers' certificates, unless every machine knows it.
    /// With it nothing is said without TLS.
    pub tls_ca: Option<PathBuf>,
    /// What this client proves itself with to a server that asks for a certificate.
    pub tls_identity: Option<Identity>,
}

/// The certificate of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, with those between it and its authority, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// What the server said outside of any answer.
#[derive(Debug, Clone)]
pub(crate) enum ServerNotice {
    /// A publish on this subject is not allowed.
    Denied(String),
    /// The credential was refused.
    Refused,
}

/// A connection to the bus. Clones share it. Control, heartbeats and bulk output use separate
/// connections (spec 02), so each makes its own.
#[derive(Debug, Clone)]
pub struct Bus {
    pub(crate) client: async_nats::Client,
    pub(crate) js: jetstream::Context,
    api: String,
    /// What its credential says that it is for; the server goes by what it signed.
    role: Option<CredentialRole>,
    notices: broadcast::Sender<ServerNotice>,
    losses: watch::Sender<u64>,
    /// Servers that were named; it may have been told of more.
    servers: usize,
    quorum: Arc<QuorumWatch>,
}

impl Bus {
    /// Connects and proves it by one request. Later losses are repaired for ever.
    ///
    /// # Errors
    /// Told apart: nothing answers, the credential is refused, JetStream is missing, the server
    /// is too old, the credential file is unusable.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, ConnectError> {
        let url = options.urls.join(",");
        let unreachable = |reason: String| ConnectError::Unreachable { url: url.clone(), reason };
        let addresses = options
            .urls
            .iter()
            .map(|text| text.parse::<ServerAddr>())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unreachable(error.to_string()))?;
        let (notices, mut heard) = broadcast::channel(NOTICES_KEPT);
        let losses = watch::Sender::new(0);
        let (facts, nats) = nats_options(options, notices.clone(), losses.clone()).await?;
        let client = tokio::time::timeout(CONNECT_WITHIN, nats.connect(addresses))
            .await
            .map_err(|_| unreachable("no answer within 5 s".to_owned()))?
            .map_err(|error| match error.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    refused(options, &error.to_string())
                }
                // What the server says of a credential whose time is over comes as an error of the line.
                ConnectErrorKind::Io if error.to_string().contains(EXPIRED) => {
                    refused(options, EXPIRED)
                }
                ConnectErrorKind::ServerParse
                | ConnectErrorKind::Dns
                | ConnectErrorKind::TimedOut
                | ConnectErrorKind::Tls
                | ConnectErrorKind::Io
                | ConnectErrorKind::MaxReconnects => {
                    tls::fault(&error, options).unwrap_or_else(|| unreachable(error.to_string()))
                }
            })?;
        let role = facts.and_then(|facts| facts.role);
        let account = role.map_or(BusAccount::Control, CredentialRole::account);
        let api = options.api_prefix.clone().unwrap_or_else(|| account.api().to_owned());
        let js = ContextBuilder::new()
            .timeout(ANSWER_WITHIN)
            .ack_timeout(ANSWER_WITHIN)
            .max_ack_inflight(IN_FLIGHT_MAX)
            .backpressure_on_inflight(true)
            .api_prefix(api.clone())
            .build(client.clone());
        let (servers, quorum) = (options.urls.len(), Arc::default());
        let bus = Self { client, js, api, role, notices, losses, servers, quorum };
        tokio::select! {
            proven = bus.prove(&url) => proven?,
            trouble = credential_trouble(&mut heard) => return Err(match trouble {
                ServerNotice::Refused => refused(options, "authorization violation"),
                ServerNotice::Denied(subject) => ConnectError::NoJetStream {
                    url,
                    reason: format!("the credential may not publish to {subject}"),
                },
            }),
        }
        Ok(bus)
    }

    async fn prove(&self, url: &str) -> Result<(), ConnectError> {
        let found = self.client.server_info().version;
        let old = |found: &str| ConnectError::TooOld {
            url: url.to_owned(),
            found: found.to_owned(),
            needed: MIN_VERSION,
        };
        match found.parse::<Version>() {
            Ok(version) if version >= MIN_VERSION => {}
            Ok(_) | Err(_) => return Err(old(&found)),
        }
        let leaderless = |within| ConnectError::Leaderless { url: url.to_owned(), within };
        let missing = |reason: String| ConnectError::NoJetStream { url: url.to_owned(), reason };
        let (until, begun) = (Instant::now() + PROVEN_WITHIN, Instant::now() + BEGUN_WITHIN);
        loop {
            let asked = format!("STREAM.INFO.{}", pattern::STATE);
            let answer: Result<Value, _> = self.js.request(asked, &serde_json::json!({})).await;
            return match answer {
                Ok(body) => match body.pointer("/error/code").and_then(Value::as_u64) {
                    // Streams that are not made yet are somebody's to make.
                    None | Some(NOT_FOUND) => Ok(()),
                    // So says a server of a cluster that is still starting, too.
                    Some(NOT_AVAILABLE) if Instant::now() < begun => {
                        sleep(ASK_AGAIN).await;
                        continue;
                    }
                    Some(_) if body.pointer("/error/err_code") == Some(&NO_LEADER.into()) => {
                        Err(leaderless(BEGUN_WITHIN))
                    }
                    Some(_) => Err(missing(read::text_at(&body, "/error/description"))),
                },
                Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                    Err(missing("no responder".to_owned()))
                }
                Err(error) if self.client.connection_state() == State::Connected => {
                    if Instant::now() < until {
                        tracing::debug!(%error, "asking again for JetStream");
                        continue;
                    }
                    Err(leaderless(PROVEN_WITHIN))
                }
                Err(error) => Err(ConnectError::Unreachable {
                    url: url.to_owned(),
                    reason: error.to_string(),
                }),
            };
        }
    }

    /// The NATS client, for plain subscriptions and heartbeats of this crate.
    #[must_use]
    pub fn client(&self) -> &async_nats::Client {
        &self.client
    }

    /// The JetStream context, through the configured API prefix.
    #[must_use]
    pub fn jetstream(&self) -> &jetstream::Context {
        &self.js
    }

    /// Which start of a server this connection is with: another text after a server was started anew, and on
    /// another server of a cluster.
    #[must_use]
    pub fn server_start(&self) -> String {
        self.client.server_info().server_id
    }

    /// Waits until the connection is with another start of a server than this one.
    pub async fn server_started_anew(&self, since: &str) {
        let mut losses = self.losses();
        loop {
            losses.mark_unchanged();
            if self.client.connection_state() == State::Connected {
                if self.server_start() != since {
                    return;
                }
                lost(&mut losses).await;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// The prefix of JetStream API subjects.
    #[must_use]
    pub fn api_prefix(&self) -> &str {
        &self.api
    }

    /// What the credential is for; none when it does not say.
    #[must_use]
    pub fn role(&self) -> Option<CredentialRole> {
        self.role
    }

    /// Whether a reader of a stream has a consumer there; else it reads and is woken. Consumers are made by the
    /// control plane alone.
    pub(crate) fn consumes(&self) -> bool {
        self.role.is_none_or(|role| role.account() == BusAccount::Control)
    }

    pub(crate) fn notices(&self) -> broadcast::Receiver<ServerNotice> {
        self.notices.subscribe()
    }

    /// How often the connection was lost; changes when it is lost again. What was asked before
    /// is not answered any more.
    pub(crate) fn losses(&self) -> watch::Receiver<u64> {
        self.losses.subscribe()
    }
}

fn refused(options: &ConnectOptions, reason: &str) -> ConnectError {
    let credentials = options.credentials.as_deref().map(|path| path.display().to_string());
    ConnectError::Refused {
        url: options.urls.join(","),
        credentials: credentials.unwrap_or_else(|| "(none)".to_owned()),
        reason: reason.to_owned(),
    }
}

/// Resolves only when the server complains about this connection's credential.
async fn credential_trouble(heard: &mut broadcast::Receiver<ServerNotice>) -> ServerNotice {
    loop {
        match heard.recv().await {
            Ok(notice) => return notice,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Resolves only when the server said that this subject may not be published: it sends no
/// answer then, and the wait would end in an unknown outcome.
async fn denied(subject: &str, notices: &mut broadcast::Receiver<ServerNotice>) {
    loop {
        match notices.recv().await {
            Ok(ServerNotice::Denied(other)) if other == subject => return,
            Ok(ServerNotice::Denied(_) | ServerNotice::Refused)
            | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Resolves only when the connection is lost.
async fn lost(losses: &mut watch::Receiver<u64>) {
    if losses.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn nats_options(
    options: &ConnectOptions,
    notices: broadcast::Sender<ServerNotice>,
    losses: watch::Sender<u64>,
) -> Result<(Option<UserFacts>, async_nats::ConnectOptions), ConnectError> {
    let first = AtomicBool::new(true);
    let turns = ServerRotation::default();
    let name = options.name.clone();
    let slow = Mutex::new(None);
    let mut nats = match &options.credentials {
        Some(path) => {
            let path = path.clone();
            async_nats::ConnectOptions::with_auth_callback(move |nonce| {
                sign_in(path.clone(), nonce)
            })
        }
        None => async_nats::ConnectOptions::new(),
    };
    nats = nats
        .name(&options.name)
        .ping_interval(PING_EVERY)
        .connection_timeout(CONNECT_WITHIN)
        .request_timeout(Some(ANSWER_WITHIN))
        .max_reconnects(None)
        .reconnect_to_server_callback(move |pool, _| std::future::ready(turns.next(&pool)))
        .reconnect_delay_callback(move |attempt| {
            if first.swap(false, Ordering::Relaxed) {
                Duration::ZERO
            } else {
                retry::reconnect_wait(attempt)
            }
        })
        .event_callback(move |event| {
            if !matches!(event, Event::SlowConsumer(_)) || is_news(&slow) {
                hear(&name, &event, &notices);
            }
            if matches!(event, Event::Disconnected) {
                losses.send_modify(|count| *count += 1);
            }
            std::future::ready(())
        });
    if let Some(ca) = &options.tls_ca {
        tls::check_authority(ca, options)?;
    }
    nats = tls::with(nats, options);
    let mut facts = None;
    if let Some(path) = &options.credentials {
        let text = read_credentials(path).await?;
        facts = jwt::user_facts(&text);
        if let Some(facts) = &facts
            && let Some(role) = facts.role
        {
            nats = nats.custom_inbox_prefix(role.inbox_prefix(&facts.name));
        }
        signed_in(&text, &[])
            .map_err(|reason| ConnectError::Credentials { path: path.clone(), reason })?;
    }
    Ok((facts, nats))
}

async fn read_credentials(path: &Path) -> Result<String, ConnectError> {
    tokio::fs::read_to_string(path).await.map_err(|error| ConnectError::Credentials {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Whether it is long since this was said: of what a subscription cannot take there are thousands a second.
fn is_news(said: &Mutex<Option<Instant>>) -> bool {
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let news = said.is_none_or(|at| at.elapsed() >= SAID_EVERY);
    if news {
        *said = Some(Instant::now());
    }
    news
}

fn hear(name: &str, event: &Event, notices: &broadcast::Sender<ServerNotice>) {
    match event {
        Event::Connected => tracing::info!(connection = name, "connected to the bus"),
        Event::Disconnected => tracing::warn!(connection = name, "lost the bus; reconnecting"),
        Event::SlowConsumer(id) => {
            tracing::warn!(connection = name, id, "a subscription is too slow; messages dropped");
        }
        Event::ServerError(error) => {
            tracing::warn!(connection = name, %error, "the server refused an operation");
            let notice = match error {
                ServerError::AuthorizationViolation => Some(ServerNotice::Refused),
                ServerError::Other(text) => pattern::denied_publish(text)
                    .map(|subject| ServerNotice::Denied(subject.to_owned())),
                ServerError::SlowConsumer(_) => None,
            };
            if let Some(notice) = notice
                && notices.send(notice).is_err()
            {
                tracing::debug!(connection = name, "nobody waits for the refused publish");
            }
        }
        Event::ClientError(error) => tracing::debug!(connection = name, %error, "bus client error"),
        Event::LameDuckMode | Event::Draining | Event::Closed => {
            tracing::info!(connection = name, %event, "bus connection changes");
        }
    }
}
