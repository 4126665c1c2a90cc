//! Telling a running server whose credentials it takes: what its configuration says is read at its start
//! only. Who that is stands with the keys.

use std::time::Duration;

use async_nats::ConnectErrorKind;
use nkeys::KeyPair;
use serde_json::Value;

use crate::client::{ConnectOptions, tls};
use crate::creds::{Authority, CredsError, Revoked};
use crate::subject::pattern::claims_update;

/// How long a server may take.
const WITHIN: Duration = Duration::from_secs(5);

/// Why a server was not told.
#[derive(Debug, thiserror::Error)]
pub enum ClaimsError {
    /// A key cannot be used.
    #[error(transparent)]
    Creds(#[from] CredsError),
    /// No server is there.
    #[error(
        "cannot send revocations: no nats-server answers at {url}: {reason}; they take effect when it starts"
    )]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The server does not answer, or refuses what it is told.
    #[error(
        "cannot send revocations to nats-server at {url}: {reason}; repeat the command, or restart the server"
    )]
    Untold {
        /// Which server.
        url: String,
        /// What happened.
        reason: String,
    },
}

/// Has the servers of a bus refuse these users of the fleet, and cut off those that are connected; whoever
/// was refused before and is not among them is taken again.
///
/// # Errors
/// See [`ClaimsError`].
pub async fn tell_revoked(
    to: &ConnectOptions,
    authority: &Authority,
    revoked: &Revoked,
) -> Result<(), ClaimsError> {
    let untold = |reason: String| ClaimsError::Untold { url: to.urls.join(","), reason };
    let trusted = authority.trusted_without(revoked)?;
    let client = connect(to, authority).await?;
    let subject = claims_update(&trusted.fleet);
    let asked = client.request(subject, trusted.fleet_jwt.into());
    let answer = tokio::time::timeout(WITHIN, asked).await;
    let answer = answer.map_err(|_| untold("no answer within 5 s".to_owned()))?;
    let answer = answer.map_err(|error| untold(error.to_string()))?;
    let said: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
    match said.pointer("/error/description").and_then(Value::as_str) {
        Some(refusal) => Err(untold(refusal.to_owned())),
        None => Ok(()),
    }
}

/// A connection as a user of the system account, made for this moment. Of `to` the addresses and the authority
/// count.
pub(super) async fn connect(
    to: &ConnectOptions,
    authority: &Authority,
) -> Result<async_nats::Client, ClaimsError> {
    let url = to.urls.join(",");
    let user = KeyPair::new_user();
    let text = authority.system_credential(&user)?;
    let options = async_nats::ConnectOptions::new().name("tetrarch-system");
    let options = options.connection_timeout(WITHIN).max_reconnects(1);
    let untold = |reason: String| ClaimsError::Untold { url: url.clone(), reason };
    let options = options.credentials(&text).map_err(|error| untold(error.to_string()))?;
    tls::with(options, to).connect(&url).await.map_err(|error| match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            untold(error.to_string())
        }
        ConnectErrorKind::ServerParse
        | ConnectErrorKind::Dns
        | ConnectErrorKind::TimedOut
        | ConnectErrorKind::Tls
        | ConnectErrorKind::Io
        | ConnectErrorKind::MaxReconnects => match tls::fault(&error, to) {
            // It is there, and goes on taking whom it takes.
            Some(fault) => untold(fault.to_string()),
            None => ClaimsError::Unreachable { url: url.clone(), reason: error.to_string() },
        },
    })
}
