//! Senders that take the server's time from others: nats-server has no limit for what a user publishes, so who
//! publishes too fast or too much, has too many connections or subscriptions or does not take what it asked for, is cut
//! off and refused for a while. The rule is core's (`share`).

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::Subscriber;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::claims::{ClaimsError, connect, tell_revoked};
use crate::client::ConnectOptions;
use crate::creds::Authority;
use crate::creds::jwt::{EXTERNAL_TAG, HOST_TAG};
use crate::subject::pattern::{CONNECTIONS, disconnections};
use tetrarch_core::share::{Pace, Talkers, Told};
use tetrarch_core::time::{Millis, Moment};

/// How often connections are looked at, up to [`QUICKLY_READ`] of them.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Connections whose list costs the server little; for each such number more it is read less often.
const QUICKLY_READ: u32 = 4_096;
/// Connections that a server has at most.
const CONNECTIONS_MAX: usize = 65_536;
/// How long a sender is refused.
pub const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Who is refused, and since when: kept by whoever looks after a server anew.
pub type RefusedUsers = BTreeMap<String, Instant>;

/// Looks after the server at `to` for as long as it is there, with a credential of the system account.
///
/// # Errors
/// The server does not answer, or does not take what it is told.
pub async fn guard_pace(
    to: &ConnectOptions,
    authority: &Authority,
    pace: Pace,
    refused_for: Duration,
    refused: &mut RefusedUsers,
) -> Result<(), ClaimsError> {
    let untold = |reason: String| ClaimsError::Untold { url: to.urls.join(","), reason };
    let client = connect(to, authority).await?;
    let fleet = authority.fleet_key();
    let heard = client.subscribe(disconnections(&fleet)).await;
    let mut heard = heard.map_err(|error| untold(error.to_string()))?;
    let (began, mut talkers) = (Instant::now(), Talkers::new(pace));
    let asked = json!({"auth": true, "limit": CONNECTIONS_MAX}).to_string();
    loop {
        let answer = client.request(CONNECTIONS, asked.clone().into()).await;
        let answer = answer.map_err(|error| untold(error.to_string()))?;
        let found: Value = serde_json::from_slice(&answer.payload)
            .map_err(|error| untold(format!("cannot read its connections: {error}")))?;
        let now = Moment(Millis::from(began.elapsed()).0);
        let mut told = told(&found, &fleet);
        let listed = u32::try_from(told.len()).unwrap_or(u32::MAX);
        told.extend(ended(&mut heard));
        // Whoever is refused is gone, and the end of its connections is no news.
        told.retain(|_, told| !refused.contains_key(&told.user));
        let over = talkers.look(told.into_values(), now);
        for (user, overuse) in &over {
            let held = authority.credentials()?.into_iter().find(|held| held.user == *user);
            let name = held.map(|held| held.name);
            let (why, seconds) = (overuse.as_str(), refused_for.as_secs());
            tracing::error!(?name, user, why, seconds, "a sender is disconnected for a while");
        }
        let is_over = !over.is_empty();
        refused.extend(over.into_iter().map(|(user, _)| (user, Instant::now())));
        let mut lasting = refused.clone();
        lasting.retain(|_, since| since.elapsed() < refused_for);
        if is_over || lasting.len() != refused.len() {
            let all = authority.revoked()?.with(lasting.keys().cloned());
            tell_revoked(to, authority, &all).await?;
            // Not before: whoever looks after the server anew lets those back of whom it was not told.
            *refused = lasting;
        }
        tokio::time::sleep(LOOK_EVERY * (1 + listed / QUICKLY_READ)).await;
    }
}

/// What the server tells of connections of the fleet that are no host's, by their numbers.
fn told(found: &Value, fleet: &str) -> BTreeMap<u64, Told> {
    let all = found.pointer("/data/connections").and_then(Value::as_array);
    let ours = all.into_iter().flatten().filter(|one| text(one, "/account") == Some(fleet));
    let said = |one: &Value| {
        let places = ["/cid", "/authorized_user", "/tags", "/in_msgs", "/in_bytes"];
        let (id, told) = said(one, places)?;
        let number = |place: &str| one.pointer(place).and_then(Value::as_u64);
        let (waiting, subscriptions) = (number("/pending_bytes")?, number("/subscriptions")?);
        Some((id, Told { waiting, subscriptions, ..told }))
    };
    ours.filter_map(said).collect()
}

/// The connections that ended since this was asked last: whoever makes a new one for every few messages says
/// as much.
fn ended(heard: &mut Subscriber) -> BTreeMap<u64, Told> {
    let mut all = BTreeMap::new();
    while let Some(Some(message)) = heard.next().now_or_never() {
        let event: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
        let places = ["/client/id", "/client/user", "/client/tags", "/sent/msgs", "/sent/bytes"];
        all.extend(said(&event, places));
    }
    all
}

fn text<'v>(one: &'v Value, place: &str) -> Option<&'v str> {
    one.pointer(place).and_then(Value::as_str)
}

fn said(one: &Value, [id, user, tags, messages, bytes]: [&str; 5]) -> Option<(u64, Told)> {
    let number = |place: &str| one.pointer(place).and_then(Value::as_u64);
    let tags = one.pointer(tags).and_then(Value::as_array);
    let has = |wanted: &str| tags.into_iter().flatten().any(|tag| tag.as_str() == Some(wanted));
    if has(HOST_TAG) {
        return None;
    }
    let connection = number(id)?;
    let told = Told {
        user: text(one, user)?.to_owned(),
        is_person: !has(EXTERNAL_TAG),
        connection,
        messages: number(messages)?,
        bytes: number(bytes)?,
        subscriptions: 0,
        waiting: 0,
    };
    Some((connection, told))
}
