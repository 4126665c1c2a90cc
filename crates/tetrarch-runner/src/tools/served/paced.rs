//! The client of servers of tools that have an address, at a pace: a server says itself when a stream that it ended is
//! to be opened again, and may say at once, for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::BoxStream;
use hyper::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tetrarch_model::{HttpClient, HttpError};
use tokio::time::{Instant, sleep_until};

/// Least time between two openings of a stream.
const REOPENED_AFTER: Duration = Duration::from_secs(1);

type Headers = HashMap<HeaderName, HeaderValue>;
type HttpOutcome<T> = Result<T, StreamableHttpError<HttpError>>;

/// A client that opens few streams.
#[derive(Debug, Clone)]
pub(super) struct PacedHttp {
    client: HttpClient,
    next: Arc<Mutex<Instant>>,
}

impl PacedHttp {
    pub(super) fn of(client: HttpClient) -> Self {
        Self { client, next: Arc::new(Mutex::new(Instant::now())) }
    }

    async fn pause(&self) {
        let due = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let due = (*next).max(Instant::now());
            *next = due + REOPENED_AFTER;
            due
        };
        sleep_until(due).await;
    }
}

impl StreamableHttpClient for PacedHttp {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        key: Option<String>,
        headers: Headers,
    ) -> HttpOutcome<StreamableHttpPostResponse> {
        self.client.post_message(uri, message, session, key, headers).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        key: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> HttpOutcome<StreamableHttpPostResponse> {
        let client = &self.client;
        client.post_message_with_response_limits(uri, message, session, key, headers, limits).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        key: Option<String>,
        headers: Headers,
    ) -> HttpOutcome<()> {
        self.client.delete_session(uri, session, key, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        key: Option<String>,
        headers: Headers,
    ) -> HttpOutcome<BoxStream<'static, Result<Sse, SseError>>> {
        self.pause().await;
        self.client.get_stream(uri, session, last_event, key, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        key: Option<String>,
        headers: Headers,
        bytes_max: usize,
    ) -> HttpOutcome<BoxStream<'static, Result<Sse, SseError>>> {
        self.pause().await;
        let client = &self.client;
        client
            .get_stream_with_max_sse_event_size(uri, session, last_event, key, headers, bytes_max)
            .await
    }
}
