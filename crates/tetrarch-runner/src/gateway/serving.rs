//! Serves the connections of a run's programs: who they are, what they ask for, and what they are answered.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
    HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tetrarch_core::order::RunnerEvent;
use tetrarch_model::{UpstreamAnswer, UpstreamError};
use tetrarch_telemetry::Prompt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::GatewayState;
use super::api::{ModelApi, ModelEndpointKind};
use super::call::{OpenCall, parts};
use super::request::ModelCall;
use crate::proxy::accepted;

/// How long the head of a request, and its body, may take.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// Requests of a run that are read or sent at one time, in KiB.
const ROOM_KIB: usize = 64 * 1024;
/// Connections of a run's programs at one time, and of those who have not shown its token.
const KNOWN_MAX: usize = 64;
const NEWCOMERS_MAX: usize = 64;
/// How a key is sent as `Authorization`.
const BEARER: &str = "Bearer ";
/// Longest request, in bytes.
const REQUEST_MAX: usize = 32 * 1024 * 1024;
/// Longest answer that comes at once, in bytes.
const ANSWER_MAX: usize = 32 * 1024 * 1024;

/// Where programs send their keys.
const KEY_HEADERS: [HeaderName; 3] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
];
/// What is between two neighbours alone, or is said anew.
const NOT_PASSED_ON: [HeaderName; 11] = [
    HOST,
    CONNECTION,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    TE,
    TRAILER,
    UPGRADE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    // What is compressed does not say what it took.
    ACCEPT_ENCODING,
    SET_COOKIE,
];

type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;
type Answer = Response<AnswerBody>;

/// Why a program is answered by the gateway itself.
struct GatewayRefusal {
    status: StatusCode,
    /// By the names that Anthropic and OpenAI have for it.
    kind: &'static str,
    words: String,
}

impl GatewayRefusal {
    fn new(status: StatusCode, kind: &'static str, words: impl Into<String>) -> Self {
        Self { status, kind, words: words.into() }
    }

    fn answer(self) -> Answer {
        let Self { status, kind, words } = self;
        tracing::debug!(%status, words, "the model gateway refused a request");
        // One form that the clients of all providers read.
        let error = json!({"type": kind, "message": format!("Tetrarch: {words}"), "code": status.as_u16(), "status": kind});
        let body = json!({"type": "error", "error": error}).to_string();
        let mut answer = Response::new(whole(body.into()));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS) {
            // Whoever it is keeps no connection that others want.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

impl From<UpstreamError> for GatewayRefusal {
    fn from(cause: UpstreamError) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "api_error", cause.to_string())
    }
}

/// What the connections of a run's programs share.
struct Serving {
    state: Arc<GatewayState>,
    events: mpsc::Sender<RunnerEvent>,
    /// Requests that are read or sent, in KiB.
    room: Arc<Semaphore>,
    /// Connections whose program has shown the run's token.
    known: Arc<Semaphore>,
}

/// One connection.
struct GatewayConnection {
    serving: Arc<Serving>,
    /// Calls of the run, which go on when their connection has ended.
    calls: Arc<Mutex<JoinSet<()>>>,
    is_known: Arc<AtomicBool>,
    permit: OnceLock<OwnedSemaphorePermit>,
}

/// Answers whoever connects. Everybody on the machine may, so of those who have not shown the token the oldest gives way.
pub(super) async fn serve(
    listener: TcpListener,
    state: Arc<GatewayState>,
    events: mpsc::Sender<RunnerEvent>,
) {
    let (room, known) = (Semaphore::new(ROOM_KIB), Semaphore::new(KNOWN_MAX));
    let serving = Serving { state, events, room: Arc::new(room), known: Arc::new(known) };
    let (serving, calls) = (Arc::new(serving), Arc::default());
    let mut open = JoinSet::new();
    let mut newcomers: VecDeque<(Arc<AtomicBool>, AbortHandle)> = VecDeque::new();
    loop {
        let program = accepted(&listener).await;
        newcomers.retain(|(known, task)| !known.load(Ordering::Relaxed) && !task.is_finished());
        if newcomers.len() >= NEWCOMERS_MAX
            && let Some((_, oldest)) = newcomers.pop_front()
        {
            oldest.abort();
        }
        let is_known = Arc::new(AtomicBool::new(false));
        let connection = Arc::new(GatewayConnection {
            serving: Arc::clone(&serving),
            calls: Arc::clone(&calls),
            is_known: Arc::clone(&is_known),
            permit: OnceLock::new(),
        });
        newcomers.push_back((is_known, open.spawn(connection.serve(program))));
        while open.try_join_next().is_some() {}
    }
}

impl GatewayConnection {
    async fn serve(self: Arc<Self>, program: TcpStream) {
        let service = service_fn(move |request| {
            let connection = Arc::clone(&self);
            async move { Ok::<_, Infallible>(connection.answer(request).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
        if let Err(cause) = server.serve_connection(TokioIo::new(program), service).await {
            tracing::debug!(%cause, "a connection to the model gateway ended");
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        match self.passed_on(request).await {
            Ok(answer) => answer,
            Err(refusal) => refusal.answer(),
        }
    }

    async fn passed_on(&self, request: Request<Incoming>) -> Result<Answer, GatewayRefusal> {
        let state = &self.serving.state;
        let (head, body) = request.into_parts();
        let unknown = || {
            GatewayRefusal::new(
                StatusCode::UNAUTHORIZED,
                "authentication_error",
                "this is the model gateway of a run, and the token is not its own",
            )
        };
        let mut headers = credentials(state, head.headers).ok_or_else(unknown)?;
        let token = format!("/{}", state.token.0);
        let path = head.uri.path();
        let path = if state.key.is_some() {
            path
        } else {
            path.strip_prefix(&token).ok_or_else(unknown)?
        };
        self.knows()?;
        let below = path.strip_prefix(state.base_path());
        let is_post = head.method == Method::POST;
        let kind = below.and_then(|below| ModelEndpointKind::of(is_post, below));
        let Some(kind) = kind.filter(|_| matches!(head.method, Method::GET | Method::POST)) else {
            let words = format!(
                "{} {path} is not passed on; only calls of models, their list and token counts are",
                head.method
            );
            return Err(GatewayRefusal::new(StatusCode::NOT_FOUND, "not_found_error", words));
        };
        let query = head.uri.query();
        if kind != ModelEndpointKind::Free {
            plain_query(query.unwrap_or_default()).map_err(invalid)?;
        }
        if headers.contains_key(CONTENT_ENCODING) {
            let words = "a compressed request is not passed on; send it as it is";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(GatewayRefusal::new(status, "invalid_request_error", words));
        }
        for name in &NOT_PASSED_ON {
            headers.remove(name);
        }
        let (body, room) = self.read(body).await?;
        match kind {
            ModelEndpointKind::Free => {
                let sent = state.upstream.send(head.method, (path, query), headers, body.into());
                plain(state, sent.await?).await
            }
            ModelEndpointKind::Call(api) => {
                let place = (path.to_owned(), query.map(str::to_owned));
                self.called(api, place, headers, (body, room)).await
            }
        }
    }

    /// Its program has shown the token.
    fn knows(&self) -> Result<(), GatewayRefusal> {
        if self.permit.get().is_none() {
            let Ok(permit) = Arc::clone(&self.serving.known).try_acquire_owned() else {
                let words = format!("the run has {KNOWN_MAX} connections; close one");
                let status = StatusCode::TOO_MANY_REQUESTS;
                return Err(GatewayRefusal::new(status, "rate_limit_error", words));
            };
            // Requests of one connection are answered one after the other.
            let _first = self.permit.set(permit);
            self.is_known.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads a request where there is room for it.
    async fn read(&self, body: Incoming) -> Result<(Bytes, OwnedSemaphorePermit), GatewayRefusal> {
        let refused = |why: String| {
            GatewayRefusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request_too_large",
                format!("the request cannot be read: {why}; at most {REQUEST_MAX} bytes are taken"),
            )
        };
        let told = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = told.unwrap_or(REQUEST_MAX);
        if bytes > REQUEST_MAX {
            return Err(refused(format!("it has {bytes} bytes")));
        }
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.serving.room).acquire_many_owned(kib).await;
        let room = room.map_err(|cause| refused(cause.to_string()))?;
        let whole = Limited::new(body, REQUEST_MAX).collect();
        let whole = timeout(BODY_WITHIN, whole).await.map_err(|late| refused(late.to_string()))?;
        Ok((whole.map_err(|cause| refused(cause.to_string()))?.to_bytes(), room))
    }

    /// Makes a call whose worst case is set aside.
    async fn called(
        &self,
        api: ModelApi,
        place: (String, Option<String>),
        headers: HeaderMap,
        (body, room): (Bytes, OwnedSemaphorePermit),
    ) -> Result<Answer, GatewayRefusal> {
        let (state, events) = (&self.serving.state, &self.serving.events);
        let call = ModelCall::read(api, &place.0, &body, state.terms);
        let mut call = call.map_err(invalid)?;
        state.pace().await;
        let name = state.set_aside(&mut call, events).await.map_err(|why| {
            let words = format!("the call is not made: {why}");
            GatewayRefusal::new(StatusCode::PAYMENT_REQUIRED, "billing_error", words)
        })?;
        let max_output_tokens = u32::try_from(call.worst().output).unwrap_or(u32::MAX);
        let prompt = Prompt { system: "", messages: &[], max_output_tokens, json_only: false };
        let chat = state.chats(&call.model).begin(&prompt);
        let open = OpenCall::new(Arc::clone(state), events.clone(), name, &call, chat);
        let (begun, beginning) = oneshot::channel();
        let (bytes, state) = (call.take_bytes(), Arc::clone(state));
        let carried = async move {
            let (path, query) = (place.0.as_str(), place.1.as_deref());
            let answer = state.upstream.send(Method::POST, (path, query), headers, bytes).await;
            drop((body, room));
            carry(&state, open, answer, begun).await;
        };
        {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            while calls.try_join_next().is_some() {}
            calls.spawn(carried);
        }
        let ended = |_| {
            let words = "the run has ended";
            GatewayRefusal::new(StatusCode::BAD_GATEWAY, "api_error", words)
        };
        beginning.await.map_err(ended)?
    }
}

/// Carries a call to its end, also when its program has left; `begun` is told what the program is answered.
async fn carry(
    state: &GatewayState,
    open: OpenCall,
    answer: Result<UpstreamAnswer, UpstreamError>,
    begun: oneshot::Sender<Result<Answer, GatewayRefusal>>,
) {
    let (begin, stream) = match answer {
        Err(cause) => {
            open.refused("unreachable", &cause.to_string()).await;
            (Err(cause.into()), None)
        }
        Ok(answer) if !answer.status().is_success() => {
            let status = answer.status();
            open.refused(status.as_str(), status.canonical_reason().unwrap_or_default()).await;
            (plain(state, answer).await, None)
        }
        Ok(answer) if is_stream(&answer) => {
            let (program, parts) = parts();
            let (status, headers) = (answer.status(), passed_back(state, &answer));
            let begin = with_head(status, headers, parts.boxed_unsync());
            (Ok(begin), Some((open, answer, program)))
        }
        Ok(mut answer) => {
            let (status, headers) = (answer.status(), passed_back(state, &answer));
            let begin = match answer.whole(ANSWER_MAX).await {
                Ok(read) => {
                    open.answered(&read).await;
                    Ok(with_head(status, headers, whole(read)))
                }
                Err(cause) => {
                    open.lost(&cause.to_string());
                    Err(cause.into())
                }
            };
            (begin, None)
        }
    };
    // A program that has left is told nothing more.
    let _left = begun.send(begin);
    if let Some((open, answer, program)) = stream {
        open.pass_on(answer, program).await;
    }
}

fn invalid(words: String) -> GatewayRefusal {
    GatewayRefusal::new(StatusCode::BAD_REQUEST, "invalid_request_error", words)
}

/// Refuses a query that could have a server leave out what a call took.
fn plain_query(query: &str) -> Result<(), String> {
    // A name in another spelling, such as with `%`, is none of these.
    let known = ["", "alt", "api-version", "beta"];
    let mut keys = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(key, _)| key));
    match keys.find(|key| !known.contains(key)) {
        Some(key) => Err(format!("`{key}` of the query is not passed on; leave it out")),
        None => Ok(()),
    }
}

/// The headers with the provider's key in the place of the run's token; none when the token is not there.
fn credentials(state: &GatewayState, mut headers: HeaderMap) -> Option<HeaderMap> {
    let Some(key) = &state.key else { return Some(headers) };
    let mut is_known = false;
    for name in &KEY_HEADERS {
        let Some(value) = headers.remove(name) else { continue };
        let said = value.to_str().unwrap_or_default();
        let bearer = said.split_at_checked(BEARER.len());
        let (scheme, said) = match bearer.filter(|(it, _)| it.eq_ignore_ascii_case(BEARER)) {
            Some((_, said)) if *name == AUTHORIZATION => (BEARER, said),
            Some(_) | None => ("", said),
        };
        if said == state.token.0 && (*name == AUTHORIZATION) != scheme.is_empty() {
            let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.plain())).ok()?;
            value.set_sensitive(true);
            headers.insert(name, value);
            is_known = true;
        }
    }
    is_known.then_some(headers)
}

fn is_stream(answer: &UpstreamAnswer) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// An answer that cost nothing, as it is; but a server that says which key it was called with is not repeated.
async fn plain(state: &GatewayState, mut answer: UpstreamAnswer) -> Result<Answer, GatewayRefusal> {
    let (status, headers) = (answer.status(), passed_back(state, &answer));
    let mut read = answer.whole(ANSWER_MAX).await?;
    if let Some(key) = &state.key
        && let Ok(text) = std::str::from_utf8(&read)
        && text.contains(key.plain())
    {
        read = text.replace(key.plain(), "[redacted:provider_key]").into();
    }
    Ok(with_head(status, headers, whole(read)))
}

fn passed_back(state: &GatewayState, answer: &UpstreamAnswer) -> HeaderMap {
    let names_key = |value: &HeaderValue| {
        let said = value.to_str().ok().zip(state.key.as_ref());
        said.is_some_and(|(said, key)| said.contains(key.plain()))
    };
    let all = answer.headers().iter();
    all.filter(|(name, value)| !NOT_PASSED_ON.contains(name) && !names_key(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn with_head(status: StatusCode, headers: HeaderMap, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
