//! A view as it changes, for one browser. It is asked for the next state when the browser has taken the one before, so
//! a slow one skips states and holds up nobody.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use tetrarch_page::address::PageView;
use tetrarch_page::render::{PageVisit, regions};
use tetrarch_page::session::PageAct;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::answering::PageServer;
use super::sources::{SourceKey, ViewSource};
use crate::output::now;

/// Between two states that are sent.
const SENT_EVERY: Duration = Duration::from_millis(100);
/// How often a browser that is gone is noticed.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// One browser that looks at one view.
struct LiveView {
    server: Arc<PageServer>,
    view: PageView,
    cookie: String,
    form: String,
    source: ViewSource,
    changed: watch::Receiver<u64>,
    sent: [String; 2],
    first: bool,
    /// Its place among those that may look at the same time.
    _place: OwnedSemaphorePermit,
}

/// Sends a view as it changes.
pub(super) async fn answer(
    server: Arc<PageServer>,
    view: PageView,
    (cookie, form): (String, String),
    place: OwnedSemaphorePermit,
) -> Response {
    let key = SourceKey::of(&server.fresh().await.model, &view);
    let source = ViewSource::open(server.client.clone(), view.clone(), key).await;
    let changed = server.changed.subscribe();
    let sent = [String::new(), String::new()];
    let it =
        LiveView { server, view, cookie, form, source, changed, sent, first: true, _place: place };
    let states = stream::unfold(it, async |mut it| Some((it.next().await?, it)));
    let events =
        states.flat_map(|events| stream::iter(events.into_iter().map(Ok::<_, Infallible>)));
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)).into_response()
}

impl LiveView {
    /// What has changed, once something has; none when the browser may not look any more.
    async fn next(&mut self) -> Option<Vec<Event>> {
        loop {
            if !self.first {
                tokio::select! {
                    changed = self.changed.changed() => changed.ok()?,
                    () = self.source.hear() => {}
                }
                tokio::time::sleep(SENT_EVERY).await;
            }
            self.source.drain();
            self.changed.mark_unchanged();
            let acts = self.acts().await?;
            let picture = self.server.fresh().await;
            self.source.look(&picture.model);
            let visit = PageVisit { place: &self.server.place, form: &self.form, acts };
            let parts = regions(&picture.model, &visit, &self.view, &self.source.extra);
            drop(picture);
            // Those that the document came with may be older.
            let mut events = Vec::new();
            for ((name, part), sent) in parts.into_iter().zip(&mut self.sent) {
                if part != *sent {
                    events.push(Event::default().event(name).data(&part));
                    *sent = part;
                }
            }
            self.first = false;
            if !events.is_empty() {
                return Some(events);
            }
        }
    }

    async fn acts(&self) -> Option<Vec<PageAct>> {
        let mut sessions = self.server.sessions.lock().await;
        let session = sessions.find(&self.cookie, now())?;
        Some(session.acts.iter().cloned().collect())
    }
}
