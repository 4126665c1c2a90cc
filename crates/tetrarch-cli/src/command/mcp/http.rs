//! The same tools over streamable HTTP, for assistants that do not start the server themselves: on this machine alone,
//! and only for whoever has the token (docs/decisions/0145). Each request stands alone, so there are no sessions to keep.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tetrarch_core::id::sha256_hex;
use tetrarch_page::guard::is_own;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::AssistantMcp;
use crate::command::page::{random, write_private};
use crate::{CliError, CliResult, Code, Context, output, serving};

/// Where it listens when no address is named.
pub(super) const ADDRESS: &str = "127.0.0.1:7879";
/// The path of the one endpoint.
const PATH: &str = "/mcp";
/// The file with the address and the token.
const FILE: &str = "mcp.link";
/// Digits of a token.
const TOKEN_DIGITS: usize = 64;
/// Requests that are answered at the same time.
const REQUESTS_MAX: usize = 32;
/// Bytes of a request; a plan is the longest.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What all requests share.
struct HttpGate {
    at: String,
    token: String,
    open: Arc<Semaphore>,
    service: StreamableHttpService<AssistantMcp, NeverSessionManager>,
}

/// Why a request is refused, with the status that says so.
type HttpRefusal = (StatusCode, &'static str);

/// Reads an address: of this machine alone.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let at: Option<SocketAddr> = text.parse().ok();
    at.filter(|at| at.ip().is_loopback())
        .ok_or_else(|| format!("expected a loopback address with a port, such as {ADDRESS}"))
}

/// Serves until the process ends.
///
/// # Errors
/// Nobody can listen there, or the token cannot be kept.
pub(super) async fn serve(context: &Context, server: AssistantMcp, at: SocketAddr) -> CliResult {
    let listener = TcpListener::bind(at).await.map_err(|error| {
        CliError::new(Code::Failed, format!("cannot listen at {at}: {error}"))
            .hint("name another loopback address: --http 127.0.0.1:PORT")
    })?;
    let at = listener.local_addr()?;
    let url = format!("http://{at}{PATH}");
    let token = keep(&context.config.bus.data_dir, &url)?;
    let value = json!({"event": "ready", "url": url, "token": token});
    let line = format!("url: {url}\nheader: Authorization: Bearer {token}");
    let _unheard = output::item(context.output, &value, &line);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_max_request_body_bytes(BODY_BYTES_MAX);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let open = Arc::new(Semaphore::new(REQUESTS_MAX));
    let gate = Arc::new(HttpGate { at: at.to_string(), token, open, service });
    serving::serve(listener, move |request| answer(Arc::clone(&gate), request)).await;
    Ok(())
}

/// The token of an address: the one that was there before, so that an assistant's configuration stays valid. At another
/// address it is another, which whoever has taken the one before does not hear.
fn keep(data_dir: &Path, url: &str) -> CliResult<String> {
    let path = data_dir.join(FILE);
    let known = fs::read_to_string(&path).unwrap_or_default();
    let known = known.trim().strip_prefix(url).map(str::trim);
    let is_token =
        |text: &&str| text.len() == TOKEN_DIGITS && text.bytes().all(|it| it.is_ascii_hexdigit());
    if let Some(token) = known.filter(is_token) {
        return Ok(token.to_owned());
    }
    let token = random(TOKEN_DIGITS)?;
    write_private(&path, &format!("{url} {token}"))?;
    Ok(token)
}

async fn answer(gate: Arc<HttpGate>, request: Request) -> Response {
    let mut response = match refusal(&gate, &request) {
        Ok(()) => within(&gate, request).await,
        Err((status, why)) => {
            let mut refused = (status, why).into_response();
            if status == StatusCode::UNAUTHORIZED {
                let bearer = HeaderValue::from_static("Bearer");
                refused.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
            }
            refused
        }
    };
    for (name, value) in
        [(header::CACHE_CONTROL, "no-store"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")]
    {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Why a request is not answered. Which tools there are is told to nobody without the token.
fn refusal(gate: &HttpGate, request: &Request) -> Result<(), HttpRefusal> {
    let headers = request.headers();
    let host = only(headers, &header::HOST)?;
    if !host.is_some_and(|host| is_own(&gate.at, host)) {
        let why = "the request names another host; use the address that `tetrarch mcp` printed\n";
        return Err((StatusCode::MISDIRECTED_REQUEST, why));
    }
    // Assistants have none. A page of this machine's own name would still lack the token.
    let origin = only(headers, &header::ORIGIN)?.map(|origin| origin.strip_prefix("http://"));
    if origin.is_some_and(|origin| origin != host) {
        let why = "the request comes from a page of another place\n";
        return Err((StatusCode::FORBIDDEN, why));
    }
    let token = only(headers, &header::AUTHORIZATION)?;
    let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if sha256_hex(token.as_bytes()) != sha256_hex(gate.token.as_bytes()) {
        let why = "the token is missing or wrong; send the header that `tetrarch mcp` printed\n";
        return Err((StatusCode::UNAUTHORIZED, why));
    }
    if request.uri().path() != PATH {
        return Err((StatusCode::NOT_FOUND, "there is nothing but /mcp\n"));
    }
    Ok(())
}

/// The value of a header. Of two, whoever reads the other one would decide otherwise.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, HttpRefusal> {
    let mut all = headers.get_all(name).iter();
    let Some(first) = all.next() else { return Ok(None) };
    match (first.to_str(), all.next()) {
        (Ok(value), None) => Ok(Some(value)),
        (Ok(_) | Err(_), _) => {
            Err((StatusCode::BAD_REQUEST, "a header is given twice, or is no text\n"))
        }
    }
}

/// Answers a request that may be; it counts until its answer is sent whole.
async fn within(gate: &HttpGate, request: Request) -> Response {
    let Ok(place) = Arc::clone(&gate.open).try_acquire_owned() else {
        let why = "too many requests are answered already; wait for one to end\n";
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let (head, body) = request.into_parts();
    let body = match timeout(serving::SENT_WITHIN, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let why = "the request is not whole, or has more than 2 MiB\n";
            return (StatusCode::PAYLOAD_TOO_LARGE, why).into_response();
        }
        Err(_) => {
            let why = "the request took too long; send it within 10 s\n";
            return (StatusCode::REQUEST_TIMEOUT, why).into_response();
        }
    };
    let request = Request::from_parts(head, Body::from(body));
    let (parts, body) = gate.service.handle(request).await.into_parts();
    let pieces = Body::new(body).into_data_stream();
    let counted = pieces.map(move |piece| {
        let _until_its_end = &place;
        piece
    });
    Response::from_parts(parts, Body::from_stream(counted))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_an_address_of_this_machine_is_taken() {
        for (text, fits) in [
            ("127.0.0.1:7879", true),
            ("127.0.0.1:0", true),
            ("[::1]:7879", true),
            ("0.0.0.0:7879", false),
            ("192.168.1.4:7879", false),
            ("[::]:7879", false),
            ("localhost:7879", false),
            ("7879", false),
        ] {
            assert_eq!(address(text).is_ok(), fits, "{text}");
        }
        assert!(address(ADDRESS).is_ok());
    }

    #[test]
    fn token_is_kept_for_its_address_and_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let first = keep(dir.path(), "http://127.0.0.1:7879/mcp").unwrap();
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, first.len()), (0o600, TOKEN_DIGITS));
        assert_eq!(keep(dir.path(), "http://127.0.0.1:7879/mcp").unwrap(), first);
        let moved = keep(dir.path(), "http://127.0.0.1:9000/mcp").unwrap();
        assert!(moved != first && moved.len() == TOKEN_DIGITS);
        fs::write(dir.path().join(FILE), "http://127.0.0.1:9000/mcp short\n").unwrap();
        let renewed = keep(dir.path(), "http://127.0.0.1:9000/mcp").unwrap();
        assert!(renewed != moved && renewed.len() == TOKEN_DIGITS);
    }
}
