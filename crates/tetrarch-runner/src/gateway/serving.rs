//! Serves the connections of a run's programs: who they are, what they ask for, and what they are answered.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
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
use tetrarch_telemetry::Prompt;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;
use url::Url;

use super::GatewayState;
use super::api::{ModelApi, ModelCall, ModelEndpointKind};
use super::call::OpenCall;

/// Connections of one run's programs at one time; more wait.
const CONNECTIONS_MAX: usize = 64;
/// How long the head of a request may take.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// Longest request, in bytes.
const REQUEST_MAX: usize = 32 * 1024 * 1024;
/// Longest answer that comes at once, in bytes.
const ANSWER_MAX: usize = 32 * 1024 * 1024;
/// How long to wait when no connection can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
struct Refusal {
    status: StatusCode,
    /// By the names that Anthropic and OpenAI have for it.
    kind: &'static str,
    words: String,
}

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, words: impl Into<String>) -> Self {
        Self { status, kind, words: words.into() }
    }
}

/// Answers whoever connects.
pub(super) async fn serve(
    listener: TcpListener,
    state: Arc<GatewayState>,
    events: mpsc::Sender<RunnerEvent>,
) {
    let (permits, mut open) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), JoinSet::new());
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(cause) => {
                tracing::warn!(%cause, "a connection to the model gateway is not accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (state, events) = (Arc::clone(&state), events.clone());
        open.spawn(async move {
            let service = service_fn(move |request| {
                let (state, events) = (Arc::clone(&state), events.clone());
                async move { Ok::<_, Infallible>(answer(&state, &events, request).await) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
            if let Err(cause) = server.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%cause, "a connection to the model gateway ended");
            }
            drop(permit);
        });
        while open.try_join_next().is_some() {}
    }
}

async fn answer(
    state: &Arc<GatewayState>,
    events: &mpsc::Sender<RunnerEvent>,
    request: Request<Incoming>,
) -> Answer {
    match passed_on(state, events, request).await {
        Ok(answer) => answer,
        Err(Refusal { status, kind, words }) => {
            tracing::debug!(%status, words, "the model gateway refused a request");
            // One form that the clients of all providers read.
            let error = json!({"type": kind, "message": format!("Tetrarch: {words}"), "code": status.as_u16(), "status": kind});
            let body = json!({"type": "error", "error": error}).to_string();
            let mut answer = Response::new(whole(body.into()));
            *answer.status_mut() = status;
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            answer
        }
    }
}

async fn passed_on(
    state: &Arc<GatewayState>,
    events: &mpsc::Sender<RunnerEvent>,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let unknown = || {
        Refusal::new(
            StatusCode::UNAUTHORIZED,
            "authentication_error",
            "this is the model gateway of a run, and the token is not its own",
        )
    };
    let mut headers = credentials(state, head.headers).ok_or_else(unknown)?;
    let token = format!("/{}", state.token.0);
    let path = head.uri.path();
    let path =
        if state.key.is_some() { path } else { path.strip_prefix(&token).ok_or_else(unknown)? };
    let below = path.strip_prefix(state.base_path());
    let kind = below.and_then(|below| ModelEndpointKind::of(head.method == Method::POST, below));
    let Some(kind) = kind.filter(|_| matches!(head.method, Method::GET | Method::POST)) else {
        let words = format!(
            "{} {path} is not passed on; only calls of models, their list and token counts are",
            head.method
        );
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found_error", words));
    };
    if headers.contains_key(CONTENT_ENCODING) {
        let words = "a compressed request is not passed on; send it as it is";
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid_request_error",
            words,
        ));
    }
    let url = target(&state.base_url, path, head.uri.query());
    for name in &NOT_PASSED_ON {
        headers.remove(name);
    }
    let body = Limited::new(body, REQUEST_MAX).collect().await.map_err(|cause| {
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "request_too_large",
            format!("the request cannot be read: {cause}; at most {REQUEST_MAX} bytes are taken"),
        )
    })?;
    let asked = state.client.request(head.method, url).headers(headers);
    match kind {
        ModelEndpointKind::Free => plain(send(asked.body(body.to_bytes())).await?).await,
        ModelEndpointKind::Call(api) => {
            called(state, events, asked, (api, path), &body.to_bytes()).await
        }
    }
}

/// The headers with the provider's key in the place of the run's token; none when the token is not there.
fn credentials(state: &GatewayState, mut headers: HeaderMap) -> Option<HeaderMap> {
    let Some(key) = &state.key else { return Some(headers) };
    let mut is_known = false;
    for name in &KEY_HEADERS {
        let Some(value) = headers.remove(name) else { continue };
        let said = value.to_str().unwrap_or_default();
        if let Some(scheme) = said.strip_suffix(state.token.0.as_str()) {
            let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.plain())).ok()?;
            value.set_sensitive(true);
            headers.insert(name, value);
            is_known = true;
        }
    }
    is_known.then_some(headers)
}

/// The same path and query at the model's server.
fn target(base_url: &Url, path: &str, query: Option<&str>) -> Url {
    let mut url = base_url.clone();
    url.set_path(path);
    url.set_query(query);
    url
}

async fn send(asked: reqwest::RequestBuilder) -> Result<reqwest::Response, Refusal> {
    asked.send().await.map_err(|cause| {
        let words = format!("the model's server does not answer: {}", cause.without_url());
        Refusal::new(StatusCode::BAD_GATEWAY, "api_error", words)
    })
}

/// Makes a call whose worst case is set aside.
async fn called(
    state: &Arc<GatewayState>,
    events: &mpsc::Sender<RunnerEvent>,
    asked: reqwest::RequestBuilder,
    (api, path): (ModelApi, &str),
    body: &[u8],
) -> Result<Answer, Refusal> {
    let invalid = |words| Refusal::new(StatusCode::BAD_REQUEST, "invalid_request_error", words);
    let read = ModelCall::read(api, path, body, state.output_max, state.assumed);
    let mut call = read.map_err(invalid)?;
    let name = state.set_aside(&mut call, events).await.map_err(|why| {
        let words = format!("the call is not made: {why}");
        Refusal::new(StatusCode::PAYMENT_REQUIRED, "billing_error", words)
    })?;
    let max_output_tokens = u32::try_from(call.worst().output).unwrap_or(u32::MAX);
    let prompt = Prompt { system: "", messages: &[], max_output_tokens, json_only: false };
    let chat = state.chats(&call.model).begin(&prompt);
    let asked = asked.body(call.bytes());
    let open = OpenCall::new(Arc::clone(state), events.clone(), name, call, chat);
    let mut answer = match send(asked).await {
        Ok(answer) => answer,
        Err(refusal) => {
            open.refused("unreachable", &refusal.words).await;
            return Err(refusal);
        }
    };
    let status = answer.status();
    if !status.is_success() {
        open.refused(status.as_str(), status.canonical_reason().unwrap_or_default()).await;
        return plain(answer).await;
    }
    let (headers, is_stream) = (passed_back(&answer), is_stream(&answer));
    if !is_stream {
        let read = gathered(&mut answer).await?;
        open.answered(&read).await;
        return Ok(with_head(status, headers, whole(read)));
    }
    let parts = stream::unfold((open, answer, false), async |(mut open, mut answer, broke)| {
        if broke {
            return None;
        }
        let part = open.next(&mut answer).await?;
        let broke = part.is_err();
        Some((part.map(Frame::data), (open, answer, broke)))
    });
    Ok(with_head(status, headers, StreamBody::new(parts).boxed_unsync()))
}

fn is_stream(answer: &reqwest::Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// An answer that cost nothing, as it is.
async fn plain(mut answer: reqwest::Response) -> Result<Answer, Refusal> {
    let (status, headers) = (answer.status(), passed_back(&answer));
    Ok(with_head(status, headers, whole(gathered(&mut answer).await?)))
}

async fn gathered(answer: &mut reqwest::Response) -> Result<Bytes, Refusal> {
    let broken = |words: String| Refusal::new(StatusCode::BAD_GATEWAY, "api_error", words);
    let mut all = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) if all.len() + chunk.len() > ANSWER_MAX => {
                return Err(broken(format!(
                    "the answer of the model's server has more than {ANSWER_MAX} bytes"
                )));
            }
            Ok(Some(chunk)) => all.extend_from_slice(&chunk),
            Ok(None) => return Ok(all.into()),
            Err(cause) => {
                return Err(broken(format!(
                    "the answer of the model's server broke off: {}",
                    cause.without_url()
                )));
            }
        }
    }
}

fn passed_back(answer: &reqwest::Response) -> HeaderMap {
    let mut headers = answer.headers().clone();
    for name in &NOT_PASSED_ON {
        headers.remove(name);
    }
    headers
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
