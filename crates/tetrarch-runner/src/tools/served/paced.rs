//! The client of servers of tools that have an address, at a pace: a server says itself when a stream that it ended is
//! to be opened again, and may say at once, for ever; and each event of a stream may be a question that is answered by a
//! request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use hyper::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tetrarch_model::{HttpClient, HttpError};
use tokio::time::sleep_until;

use crate::rate::RateLimit;

/// Least time between two openings of a stream.
const REOPENED_AFTER: Duration = Duration::from_secs(1);
/// The time between two events of a stream, in the long run, and how many of them may come at once.
const EVENTS_GAP: Duration = Duration::from_millis(20);
const EVENTS_AT_ONCE: u32 = 1_000;

/// A stream of events.
type Events = BoxStream<'static, Result<Sse, SseError>>;

type Headers = HashMap<HeaderName, HeaderValue>;
type HttpOutcome<T> = Result<T, StreamableHttpError<HttpError>>;

/// A client that opens few streams.
#[derive(Debug, Clone)]
pub(super) struct PacedHttp {
    client: HttpClient,
    opened: Arc<Mutex<RateLimit>>,
}

impl PacedHttp {
    pub(super) fn of(client: HttpClient) -> Self {
        Self { client, opened: Arc::new(Mutex::new(RateLimit::new(REOPENED_AFTER, 1))) }
    }

    async fn pause(&self) {
        let due = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        sleep_until(due).await;
    }
}

/// Events at their pace: what comes too fast waits on its way.
fn paced(events: Events) -> Events {
    let rate = RateLimit::new(EVENTS_GAP, EVENTS_AT_ONCE);
    let paced = futures::stream::unfold((events, rate), async |(mut events, mut rate)| {
        let event = events.next().await?;
        sleep_until(rate.take()).await;
        Some((event, (events, rate)))
    });
    paced.boxed()
}

/// An answer whose events come at their pace.
fn answered(answer: StreamableHttpPostResponse) -> StreamableHttpPostResponse {
    if let StreamableHttpPostResponse::Sse(events, session) = answer {
        return StreamableHttpPostResponse::Sse(paced(events), session);
    }
    answer
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
        self.client.post_message(uri, message, session, key, headers).await.map(answered)
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
        client
            .post_message_with_response_limits(uri, message, session, key, headers, limits)
            .await
            .map(answered)
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
    ) -> HttpOutcome<Events> {
        self.pause().await;
        self.client.get_stream(uri, session, last_event, key, headers).await.map(paced)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        key: Option<String>,
        headers: Headers,
        bytes_max: usize,
    ) -> HttpOutcome<Events> {
        self.pause().await;
        let client = &self.client;
        client
            .get_stream_with_max_sse_event_size(uri, session, last_event, key, headers, bytes_max)
            .await
            .map(paced)
    }
}

#[cfg(test)]
mod tests {
    use tetrarch_model::http_client;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn events_beyond_those_at_once_come_one_in_each_gap() {
        let begun = Instant::now();
        let endless = futures::stream::repeat_with(|| Ok(Sse::default()));
        let mut events = paced(endless.boxed());
        for _ in 0..EVENTS_AT_ONCE {
            events.next().await.unwrap().unwrap();
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..50 {
            events.next().await.unwrap().unwrap();
        }
        assert_eq!(begun.elapsed(), EVENTS_GAP * 50);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_are_opened_once_a_second() {
        let (begun, client) = (Instant::now(), PacedHttp::of(http_client().unwrap()));
        client.pause().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        client.clone().pause().await;
        assert!(begun.elapsed() >= REOPENED_AFTER);
    }
}
