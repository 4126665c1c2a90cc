//! Senders that take the server's time from others: nats-server has no limit for what a user publishes, so who
//! publishes too fast or too much, or has too many connections, is cut off and refused for a while. The rule is core's (`share`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::claims::{ClaimsError, connect, tell_revoked};
use crate::client::ConnectOptions;
use crate::creds::Authority;
use crate::creds::jwt::HOST_TAG;
use crate::subject::pattern::CONNECTIONS;
use tetrarch_core::share::{Pace, Talkers, Told};
use tetrarch_core::time::Moment;

/// How often connections are looked at, up to [`QUICKLY_READ`] of them.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Connections whose list costs the server little; for each such number more it is read less often.
const QUICKLY_READ: u32 = 4_096;
/// Connections that a server has at most.
const CONNECTIONS_MAX: usize = 65_536;
/// How long a sender is refused.
pub const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Looks after the server at `to` for as long as it is there, with a credential of the system account.
///
/// # Errors
/// The server does not answer, or does not take what it is told.
pub async fn guard_pace(
    to: &ConnectOptions,
    authority: &Authority,
    pace: Pace,
    refused_for: Duration,
) -> Result<(), ClaimsError> {
    let untold = |reason: String| ClaimsError::Untold { url: to.urls.join(","), reason };
    let client = connect(to, authority).await?;
    let fleet = authority.fleet_key();
    let (began, mut talkers) = (Instant::now(), Talkers::new(pace));
    let mut refused: BTreeMap<String, Instant> = BTreeMap::new();
    let asked = json!({"auth": true, "limit": CONNECTIONS_MAX}).to_string();
    loop {
        let answer = client.request(CONNECTIONS, asked.clone().into()).await;
        let answer = answer.map_err(|error| untold(error.to_string()))?;
        let found: Value = serde_json::from_slice(&answer.payload)
            .map_err(|error| untold(format!("cannot read its connections: {error}")))?;
        let now = Moment(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        let told = told(&found, &fleet);
        let listed = u32::try_from(told.len()).unwrap_or(u32::MAX);
        let over = talkers.look(told, now);
        for user in &over {
            let held = authority.credentials()?.into_iter().find(|held| held.user == *user);
            let name = held.map(|held| held.name);
            tracing::error!(
                ?name,
                user,
                "it publishes too fast or too much, or has too many connections: it is disconnected for a while"
            );
        }
        let before = refused.len();
        refused.retain(|_, since| since.elapsed() < refused_for);
        let changed = !over.is_empty() || refused.len() != before;
        refused.extend(over.into_iter().map(|user| (user, Instant::now())));
        if changed {
            let all = authority.revoked()?.with(refused.keys().cloned());
            tell_revoked(to, authority, &all).await?;
        }
        tokio::time::sleep(LOOK_EVERY * (1 + listed / QUICKLY_READ)).await;
    }
}

/// What the server tells of connections of the fleet that are no host's.
fn told(found: &Value, fleet: &str) -> Vec<Told> {
    let all = found.pointer("/data/connections").and_then(Value::as_array);
    let each = all.into_iter().flatten().filter_map(|one| {
        let text = |name: &str| one.get(name).and_then(Value::as_str);
        let number = |name: &str| one.get(name).and_then(Value::as_u64);
        let tags = one.get("tags").and_then(Value::as_array);
        let host = tags.into_iter().flatten().any(|tag| tag.as_str() == Some(HOST_TAG));
        let told = Told {
            user: text("authorized_user")?.to_owned(),
            connection: number("cid")?,
            messages: number("in_msgs")?,
            bytes: number("in_bytes")?,
        };
        let ours = text("account") == Some(fleet) && !host;
        ours.then_some(told)
    });
    each.collect()
}
