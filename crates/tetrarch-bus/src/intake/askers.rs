//! Which user asked. The server says so where a request crosses into the control plane's account, and a stream
//! does not keep what it says: so the crossing is listened to beside the stream. What was asked while
//! nobody listened has no user.

use std::collections::{HashMap, VecDeque};

use async_nats::Subscriber;
use futures::stream::SelectAll;
use futures::{FutureExt, StreamExt};
use tetrarch_core::id::sha256_hex;

use crate::client::{Bus, RawMessage};
use crate::envelope;
use crate::subject::pattern::ASKED;

/// Requests whose users are remembered.
const REMEMBERED: usize = 16_384;

/// Users by what they asked last.
#[derive(Debug)]
pub(super) struct Askers {
    heard: SelectAll<Subscriber>,
    users: HashMap<String, String>,
    order: VecDeque<String>,
}

impl Askers {
    /// Listens from now on. Where it may not, requests have no users.
    pub(super) async fn listen(bus: &Bus) -> Self {
        let mut heard = SelectAll::new();
        for pattern in ASKED {
            match bus.client.subscribe(pattern).await {
                Ok(subscription) => heard.push(subscription),
                Err(error) => {
                    tracing::error!(%error, pattern, "the audit will not know credentials")
                }
            }
        }
        if let Err(error) = bus.client.flush().await {
            tracing::warn!(%error, "the audit may not know the first credentials");
        }
        Self { heard, users: HashMap::new(), order: VecDeque::new() }
    }

    /// Listens for one request; for ever when none comes. Safe to drop.
    pub(super) async fn hear(&mut self) {
        match self.heard.next().await {
            Some(message) => self.remember(&message),
            None => std::future::pending().await,
        }
    }

    /// The user who asked this. The server says it before it gives the stream's message.
    pub(super) fn of(&mut self, message: &RawMessage) -> Option<String> {
        while let Some(Some(heard)) = self.heard.next().now_or_never() {
            self.remember(&heard);
        }
        self.users.get(&key(&message.subject, &message.payload)).cloned()
    }

    fn remember(&mut self, message: &async_nats::Message) {
        let Some(user) = message.headers.as_ref().and_then(envelope::credential) else { return };
        let key = key(&message.subject, &message.payload);
        if self.users.insert(key.clone(), user).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.users.remove(&oldest);
        }
    }
}

/// Only whoever may speak in a name makes what is the same under it.
fn key(subject: &str, payload: &[u8]) -> String {
    sha256_hex(&[subject.as_bytes(), payload].join(&0))
}
