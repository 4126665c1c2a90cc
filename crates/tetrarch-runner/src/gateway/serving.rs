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
use tetrarch_model::{UpstreamAnswer, UpstreamError};
use tetrarch_telemetry::Prompt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::GatewayState;
use super::api::{ModelApi, ModelCall, ModelEndpointKind};
use super::call::OpenCall;
use crate::proxy::serve_each;

/// How long the head of a request may take.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
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
}

impl From<UpstreamError> for GatewayRefusal {
    fn from(cause: UpstreamError) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "api_error", cause.to_string())
    }
}

/// Answers whoever connects.
pub(super) async fn serve(
    listener: TcpListener,
    state: Arc<GatewayState>,
    events: mpsc::Sender<RunnerEvent>,
) {
    let answer = move |program| {
        let (state, events) = (Arc::clone(&state), events.clone());
        async move {
            let service = service_fn(move |request| {
                let (state, events) = (Arc::clone(&state), events.clone());
                async move { Ok::<_, Infallible>(answer(&state, &events, request).await) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
            if let Err(cause) = server.serve_connection(TokioIo::new(program), service).await {
                tracing::debug!(%cause, "a connection to the model gateway ended");
            }
        }
    };
    serve_each(listener, answer).await;
}

async fn answer(
    state: &Arc<GatewayState>,
    events: &mpsc::Sender<RunnerEvent>,
    request: Request<Incoming>,
) -> Answer {
    match passed_on(state, events, request).await {
        Ok(answer) => answer,
        Err(GatewayRefusal { status, kind, words }) => {
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
) -> Result<Answer, GatewayRefusal> {
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
    let path =
        if state.key.is_some() { path } else { path.strip_prefix(&token).ok_or_else(unknown)? };
    let below = path.strip_prefix(state.base_path());
    let kind = below.and_then(|below| ModelEndpointKind::of(head.method == Method::POST, below));
    let Some(kind) = kind.filter(|_| matches!(head.method, Method::GET | Method::POST)) else {
        let words = format!(
            "{} {path} is not passed on; only calls of models, their list and token counts are",
            head.method
        );
        return Err(GatewayRefusal::new(StatusCode::NOT_FOUND, "not_found_error", words));
    };
    if headers.contains_key(CONTENT_ENCODING) {
        let words = "a compressed request is not passed on; send it as it is";
        return Err(GatewayRefusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid_request_error",
            words,
        ));
    }
    for name in &NOT_PASSED_ON {
        headers.remove(name);
    }
    let body = Limited::new(body, REQUEST_MAX).collect().await.map_err(|cause| {
        GatewayRefusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "request_too_large",
            format!("the request cannot be read: {cause}; at most {REQUEST_MAX} bytes are taken"),
        )
    })?;
    let (body, place) = (body.to_bytes(), (path, head.uri.query()));
    match kind {
        ModelEndpointKind::Free => {
            let sent = state.upstream.send(head.method, place, headers, body.into()).await;
            plain(sent?).await
        }
        ModelEndpointKind::Call(api) => called(state, events, api, place, headers, &body).await,
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

/// Makes a call whose worst case is set aside.
async fn called(
    state: &Arc<GatewayState>,
    events: &mpsc::Sender<RunnerEvent>,
    api: ModelApi,
    place: (&str, Option<&str>),
    headers: HeaderMap,
    body: &[u8],
) -> Result<Answer, GatewayRefusal> {
    let invalid =
        |words| GatewayRefusal::new(StatusCode::BAD_REQUEST, "invalid_request_error", words);
    let read = ModelCall::read(api, place.0, body, state.output_max, state.assumed);
    let mut call = read.map_err(invalid)?;
    let name = state.set_aside(&mut call, events).await.map_err(|why| {
        let words = format!("the call is not made: {why}");
        GatewayRefusal::new(StatusCode::PAYMENT_REQUIRED, "billing_error", words)
    })?;
    let max_output_tokens = u32::try_from(call.worst().output).unwrap_or(u32::MAX);
    let prompt = Prompt { system: "", messages: &[], max_output_tokens, json_only: false };
    let chat = state.chats(&call.model).begin(&prompt);
    let body = call.bytes();
    let open = OpenCall::new(Arc::clone(state), events.clone(), name, call, chat);
    let mut answer = match state.upstream.send(Method::POST, place, headers, body).await {
        Ok(answer) => answer,
        Err(cause) => {
            open.refused("unreachable", &cause.to_string()).await;
            return Err(cause.into());
        }
    };
    let status = answer.status();
    if !status.is_success() {
        open.refused(status.as_str(), status.canonical_reason().unwrap_or_default()).await;
        return plain(answer).await;
    }
    let (headers, is_stream) = (passed_back(&answer), is_stream(&answer));
    if !is_stream {
        let read = answer.whole(ANSWER_MAX).await?;
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

fn is_stream(answer: &UpstreamAnswer) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// An answer that cost nothing, as it is.
async fn plain(mut answer: UpstreamAnswer) -> Result<Answer, GatewayRefusal> {
    let (status, headers) = (answer.status(), passed_back(&answer));
    Ok(with_head(status, headers, whole(answer.whole(ANSWER_MAX).await?)))
}

fn passed_back(answer: &UpstreamAnswer) -> HeaderMap {
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
