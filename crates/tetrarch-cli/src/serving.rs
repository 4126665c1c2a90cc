//! How this process answers HTTP: few connections at once, none for long that says nothing, one request each. Knows
//! nothing of what is asked.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tetrarch_core::limits::ACCEPT_PAUSE;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// How long whatever a client sends may take: the head of a request, and its body.
pub(crate) const SENT_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What clients may take of this process.
#[derive(Debug, Clone, Copy)]
struct HttpBounds {
    /// Connections at once: a browser opens about six, and a live view keeps one.
    connections: usize,
    head_within: Duration,
}

const BOUNDS: HttpBounds = HttpBounds { connections: 256, head_within: SENT_WITHIN };

/// Answers what is asked, for ever.
pub(crate) async fn serve<A, F>(listener: TcpListener, answer: A)
where
    A: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    serve_within(BOUNDS, listener, answer).await
}

/// A connection, and whether it has asked for something.
struct HttpConnection {
    task: AbortHandle,
    has_asked: Arc<AtomicBool>,
}

async fn serve_within<A, F>(bounds: HttpBounds, listener: TcpListener, answer: A)
where
    A: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    // The oldest first.
    let mut open: Vec<HttpConnection> = Vec::new();
    let mut tasks = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                sleep(Duration::from_millis(ACCEPT_PAUSE.0)).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= bounds.connections {
            // Whoever means it has asked at once. Where all have, this one is too many.
            let silent = |it: &HttpConnection| !it.has_asked.load(Ordering::Relaxed);
            let Some(oldest) = open.iter().position(silent) else { continue };
            open.remove(oldest).task.abort();
        }
        let has_asked = Arc::new(AtomicBool::new(false));
        let served = connection(stream, bounds.head_within, Arc::clone(&has_asked), answer.clone());
        open.push(HttpConnection { task: tasks.spawn(served), has_asked });
    }
}

/// Answers one request. A connection that is kept for more could be filled with requests whose answers nobody reads.
async fn connection<A, F>(
    stream: TcpStream,
    head_within: Duration,
    has_asked: Arc<AtomicBool>,
    answer: A,
) where
    A: Fn(Request) -> F,
    F: Future<Output = Response>,
{
    let answered = service_fn(move |request: hyper::Request<Incoming>| {
        has_asked.store(true, Ordering::Relaxed);
        let answered = answer(request.map(Body::new));
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_within);
    http.max_buf_size(HEAD_BYTES_MAX).keep_alive(false);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), answered).await {
        tracing::debug!(%error, "a client was not answered");
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::response::IntoResponse;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn served(connections: usize, head_within: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let bounds = HttpBounds { connections, head_within };
        tokio::spawn(serve_within(bounds, listener, |_| async { "all".into_response() }));
        at
    }

    async fn says(at: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// What is heard until the other side ends it.
    async fn heard(mut stream: TcpStream) -> String {
        let mut said = String::new();
        // One that is cut off is over, too.
        let _cut = stream.read_to_string(&mut said).await;
        said
    }

    const WHOLE: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    const HALF: &str = "GET / HTTP/1.1\r\nHost: x\r\n";

    #[tokio::test]
    async fn half_a_request_is_ended_after_its_time() {
        let at = served(8, Duration::from_millis(50)).await;
        assert_eq!(heard(says(at, HALF).await).await, "");
        assert_eq!(heard(says(at, "").await).await, "");
        assert!(heard(says(at, WHOLE).await).await.ends_with("\r\n\r\nall"));
    }

    #[tokio::test]
    async fn client_is_answered_while_others_hold_all_connections() {
        let at = served(4, Duration::from_secs(3_600)).await;
        let mut silent = Vec::new();
        for _ in 0..16 {
            silent.push(says(at, HALF).await);
        }
        assert!(heard(says(at, WHOLE).await).await.ends_with("\r\n\r\nall"));
        for ended in silent.drain(..12) {
            assert_eq!(heard(ended).await, "");
        }
    }

    #[tokio::test]
    async fn connection_is_for_one_request() {
        let at = served(4, Duration::from_secs(3_600)).await;
        let said = heard(says(at, &WHOLE.repeat(3)).await).await;
        assert_eq!(said.matches("all").count(), 1, "{said}");
    }
}
