//! The one picture of the fleet that all browsers are shown. It is made anew when something was heard and somebody
//! looks; browsers are told that it changed, not what, so none of them has a queue.

use std::sync::Arc;
use std::time::Duration;

use tetrarch_page::render::PageModel;
use tetrarch_view::news::{FleetNews, NewsEffect};
use tokio::sync::{RwLock, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::output::now;

/// How often what was heard is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(100);
/// Milliseconds after which the time that somebody works is shown anew.
const TIME_SHOWN_EVERY: u64 = 10_000;
/// News that are taken in at one stroke.
const NEWS: usize = 64;

/// The picture, and whether more was heard than it shows.
#[derive(Debug)]
pub(super) struct FleetPicture {
    /// What is shown.
    pub(super) model: PageModel,
    heard: bool,
}

impl FleetPicture {
    /// A picture of nothing.
    pub(super) fn new(model: PageModel) -> Self {
        Self { model, heard: true }
    }

    /// Makes the picture of what was heard.
    pub(super) fn refresh(&mut self) {
        if std::mem::take(&mut self.heard) {
            self.model.refresh(now());
        }
    }
}

/// Takes news in, and tells when the picture is another one.
pub(super) async fn keep(
    picture: Arc<RwLock<FleetPicture>>,
    mut news: mpsc::Receiver<FleetNews>,
    tell: watch::Sender<u64>,
) {
    let mut due = interval(SHOWN_EVERY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut some, mut changed) = (Vec::with_capacity(NEWS), false);
    loop {
        tokio::select! {
            count = news.recv_many(&mut some, NEWS) => {
                if count == 0 {
                    return;
                }
                let mut picture = picture.write().await;
                for one in some.drain(..) {
                    let effect = picture.model.fleet.hear(one);
                    picture.heard |= effect == NewsEffect::Fleet;
                    changed |= effect != NewsEffect::Nothing;
                }
            }
            _ = due.tick(), if tell.receiver_count() > 0 => {
                let late = now() - picture.read().await.model.now;
                if changed || late.0 >= TIME_SHOWN_EVERY {
                    let mut picture = picture.write().await;
                    picture.heard = true;
                    picture.refresh();
                    changed = false;
                    tell.send_modify(|version| *version += 1);
                }
            }
        }
    }
}
