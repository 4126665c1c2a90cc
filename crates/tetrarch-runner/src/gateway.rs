//! The model gateway of one run (spec 06, Budgets; docs/decisions/0138): a coding agent calls its model here, on
//! loopback, with a token of its run. What a call may cost is set aside in the run's journal before it is passed on
//! with the provider's key, which the program never has; what it took is booked before the program has the end of its
//! answer. A call that does not fit is refused.

mod api;
mod call;
mod request;
mod serving;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tetrarch_core::budget::{Limits, Spend};
use tetrarch_core::converse::cost::{Price, Prices, Tokens};
use tetrarch_core::limits::OUTPUT_TOKENS;
use tetrarch_core::order::RunnerEvent;
use tetrarch_model::{ApiKey, BadAddress, Upstream};
use tetrarch_telemetry::{Chats, ModelEndpoint, Whose};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::sleep_until;
use url::Url;

use crate::proxy;
use crate::rate::RateLimit;

use request::{CallTerms, ModelCall};

/// Why a run has no gateway.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoGateway {
    /// The machine gives no port or no randomness.
    #[error("cannot listen on loopback for the run's model calls: {0}; start it again")]
    Machine(#[from] io::Error),
    /// No client can be made.
    #[error(transparent)]
    Client(#[from] BadAddress),
}

/// A provider whose clients look for another address of its models in variables.
#[derive(Debug)]
pub(crate) struct ModelProvider {
    pub(crate) name: &'static str,
    /// Where it serves its models.
    pub(crate) base_url: &'static str,
    pub(crate) variables: &'static [&'static str],
}

/// The provider of claude's models.
pub(crate) const ANTHROPIC: ModelProvider = ModelProvider {
    name: "anthropic",
    base_url: "https://api.anthropic.com",
    variables: &["ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"],
};
/// The provider of codex's models, and whoever serves others in its way.
pub(crate) const OPENAI: ModelProvider = ModelProvider {
    name: "openai",
    base_url: "https://api.openai.com/v1",
    variables: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
};
const GEMINI: ModelProvider = ModelProvider {
    name: "gemini",
    base_url: "https://generativelanguage.googleapis.com",
    variables: &["GOOGLE_GEMINI_BASE_URL"],
};
const PROVIDERS: [&ModelProvider; 3] = [&ANTHROPIC, &OPENAI, &GEMINI];

impl ModelProvider {
    /// The one that a profile names, if it is known.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        PROVIDERS.into_iter().find(|it| it.name == name)
    }
}

/// What a gateway passes calls on to, and for whom.
#[derive(Debug)]
pub(crate) struct GatewayTarget<'a> {
    /// Where the model is served.
    pub(crate) base_url: &'a Url,
    /// The provider, by which prices are found and spans are named.
    pub(crate) provider: &'a str,
    /// Longest answer that the profile allows, in tokens.
    pub(crate) output_max: Option<u32>,
    /// The grant.
    pub(crate) budget: Limits,
    /// The provider's key; without it the program's own credentials are passed on.
    pub(crate) key: Option<ApiKey>,
    /// What models cost.
    pub(crate) prices: &'a Prices,
    /// Whether the programs share the network of their host: otherwise they come through the run's proxy.
    pub(crate) is_open: bool,
    /// Who calls, for spans.
    pub(crate) whose: Whose,
}

/// The gateway of a run.
#[derive(Debug)]
pub(crate) struct ModelGateway {
    state: Arc<GatewayState>,
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    is_open: bool,
}

/// What tells the run's programs from others of the machine.
#[derive(Clone, PartialEq, Eq)]
struct GatewayToken(String);

impl fmt::Debug for GatewayToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted:gateway_token]")
    }
}

impl GatewayToken {
    fn random() -> io::Result<Self> {
        let mut bytes = [0_u8; 16];
        // So few are given at once, or none.
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

/// What the calls of one run share.
#[derive(Debug)]
struct GatewayState {
    upstream: Upstream,
    provider: String,
    key: Option<ApiKey>,
    token: GatewayToken,
    /// Prices by model, and that of a model without one.
    prices: Prices,
    highest_price: Option<Price>,
    terms: CallTerms,
    whose: Whose,
    calls: AtomicU64,
    was_unpriced: AtomicBool,
    rate: Mutex<RateLimit>,
    waiting: Mutex<BTreeMap<String, oneshot::Sender<Result<(), String>>>>,
    /// Why the last call was refused for the grant; none when it was made.
    withheld: Mutex<Option<String>>,
}

impl ModelGateway {
    /// Listens for the calls of a run's programs. Blocks for a moment; serves nobody yet.
    ///
    /// # Errors
    /// The machine has no port, or no client can be made.
    pub(crate) fn open(target: GatewayTarget<'_>) -> Result<Self, NoGateway> {
        let upstream = Upstream::new(target.base_url.clone())?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let most = target.output_max;
        let state = GatewayState {
            upstream,
            provider: target.provider.to_owned(),
            highest_price: target.prices.highest(target.provider),
            prices: target.prices.clone(),
            key: target.key,
            token: GatewayToken::random()?,
            terms: CallTerms {
                output_max: most.map(u64::from).or_else(|| assumed_max(target.budget)),
                assumed: most.unwrap_or(OUTPUT_TOKENS).into(),
                is_open: target.is_open,
            },
            whose: target.whose,
            calls: AtomicU64::new(0),
            was_unpriced: AtomicBool::new(false),
            rate: Mutex::new(RateLimit::new(CALLS_GAP, CALLS_AT_ONCE)),
            waiting: Mutex::default(),
            withheld: Mutex::default(),
        };
        Ok(Self {
            address: listener.local_addr()?,
            state: Arc::new(state),
            listener: Mutex::new(Some(listener)),
            is_open: target.is_open,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the run's programs are told instead of their model's address.
    pub(crate) fn base_url(&self) -> String {
        let own = self.address.to_string();
        let at = if self.is_open { own.as_str() } else { proxy::ADDRESS };
        // Programs without a key send none, so the path says who they are.
        let state = &self.state;
        let token = if state.key.is_some() { String::new() } else { format!("/{}", state.token.0) };
        format!("http://{at}{token}{}", state.base_path())
    }

    /// What they are told instead of the provider's key; none where there is none.
    pub(crate) fn key(&self) -> Option<String> {
        self.state.key.as_ref().map(|_| self.state.token.0.clone())
    }

    /// What became of setting aside for a call; false when nobody waits for that.
    pub(crate) fn answered(&self, call: &str, verdict: Result<(), String>) -> bool {
        let waiting = self.state.waiting().remove(call);
        waiting.is_some_and(|waiting| waiting.send(verdict).is_ok())
    }

    /// Why the last call was refused, if it was for the grant.
    pub(crate) fn withheld(&self) -> Option<String> {
        self.state.withheld().clone()
    }

    /// Serves the run's programs until what is returned is dropped. `events` is told what is set aside and spent. To
    /// be called once, in a runtime.
    ///
    /// # Errors
    /// The runtime cannot listen.
    pub(crate) fn serve(
        &self,
        events: mpsc::Sender<RunnerEvent>,
    ) -> io::Result<Option<GatewayServer>> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(listener) = listener else { return Ok(None) };
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let served = serving::serve(listener, Arc::clone(&self.state), events);
        Ok(Some(GatewayServer(tokio::spawn(served).abort_handle())))
    }
}

/// A gateway that is served, until this is dropped: calls that are not over count as spent.
#[derive(Debug)]
pub(crate) struct GatewayServer(AbortHandle);

impl Drop for GatewayServer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long answers may be where nobody says it: a grant that is limited has to know.
fn assumed_max(budget: Limits) -> Option<u64> {
    let is_limited = budget.tokens.is_some() || budget.cost_micro.is_some();
    is_limited.then_some(OUTPUT_LIMITED_MAX)
}

/// How the names of a gateway's calls begin, in the run's journal: calls that programs tell of have other names.
pub(crate) const CALLS: &str = "gateway-";
/// The time between two calls of a run, in the long run, and how many of them may come at once.
const CALLS_GAP: Duration = Duration::from_millis(100);
const CALLS_AT_ONCE: u32 = 50;
/// Longest answer of a run with a grant, in tokens, where neither its profile nor its request says less.
const OUTPUT_LIMITED_MAX: u64 = 32_000;

impl GatewayState {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, oneshot::Sender<Result<(), String>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn withheld(&self) -> MutexGuard<'_, Option<String>> {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the next call may be made: each is two entries of the run's journal, also when it costs nothing.
    async fn pace(&self) {
        let due = self.rate.lock().unwrap_or_else(PoisonError::into_inner).take();
        sleep_until(due).await;
    }

    /// The path below which the model's server is.
    fn base_path(&self) -> &str {
        self.upstream.base_url().path().trim_end_matches('/')
    }

    fn price(&self, model: &str) -> Option<Price> {
        self.prices.of(&self.provider, model).or(self.highest_price)
    }

    /// What so many tokens of a model cost; calls are no turns, which the program counts.
    fn spend(&self, model: &str, tokens: Tokens) -> Spend {
        let cost_micro = self.price(model).map_or(0, |price| price.of(tokens));
        Spend { tokens: tokens.input.saturating_add(tokens.output), cost_micro, turns: 0 }
    }

    /// Sets aside what a call may cost at worst, and has its answer be shorter where that does not fit. Gives the
    /// name under which it is set aside.
    ///
    /// # Errors
    /// Why the call is not to be made.
    async fn set_aside(
        &self,
        call: &mut ModelCall,
        events: &mpsc::Sender<RunnerEvent>,
    ) -> Result<String, String> {
        self.tell_unpriced(&call.model, events).await;
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let name = format!("{CALLS}{number}");
        loop {
            let (answer, answered) = oneshot::channel();
            self.waiting().insert(name.clone(), answer);
            let worst = self.spend(&call.model, call.worst());
            let event = RunnerEvent::SetAside { call: name.clone(), worst };
            let ended = || "the run has ended".to_owned();
            events.send(event).await.map_err(|_| ended())?;
            match answered.await.map_err(|_| ended())? {
                Ok(()) => {
                    *self.withheld() = None;
                    return Ok(name);
                }
                Err(_) if call.lower() => {}
                Err(why) => {
                    *self.withheld() = Some(why.clone());
                    return Err(why);
                }
            }
        }
    }

    async fn tell_unpriced(&self, model: &str, events: &mpsc::Sender<RunnerEvent>) {
        if self.price(model).is_some() || self.was_unpriced.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = format!(
            "[there is no price of {}/{model}: the model gateway counts its tokens alone]",
            self.provider
        );
        // Whoever does not hear it any more has ended.
        let _ended = events.send(RunnerEvent::Log { text }).await;
    }

    /// What calls of a model are told as.
    fn chats(&self, model: &str) -> Chats {
        let at = self.upstream.base_url();
        let server = at.host_str().zip(at.port_or_known_default());
        let endpoint = ModelEndpoint {
            provider: self.provider.clone(),
            model: model.to_owned(),
            server: server.map(|(host, port)| (host.to_owned(), port)),
        };
        Chats::with(endpoint).on_behalf_of(self.whose.clone())
    }
}
