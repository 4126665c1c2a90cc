//! Signing in with a credential file, which is read at each connection: it may have been renewed.

use std::path::PathBuf;

use async_nats::{Auth, AuthError};
use nkeys::KeyPair;

/// Answers the server's nonce with the token and key of a credential file.
pub(super) async fn sign_in(path: PathBuf, nonce: Vec<u8>) -> Result<Auth, AuthError> {
    let text = tokio::fs::read_to_string(&path).await.map_err(AuthError::new)?;
    signed_in(&text, &nonce).map_err(AuthError::new)
}

/// The same with the file's text.
pub(super) fn signed_in(credentials: &str, nonce: &[u8]) -> Result<Auth, String> {
    let line = |beginning: &str| {
        let found = credentials.lines().find(|line| line.starts_with(beginning));
        found.map(|line| line.trim().to_owned())
    };
    let token = line("eyJ").ok_or("it contains no user token")?;
    let seed = line("SU").ok_or("it contains no user key")?;
    let key = KeyPair::from_seed(&seed).map_err(|error| error.to_string())?;
    let mut auth = Auth::new();
    auth.jwt = Some(token);
    auth.signature = Some(key.sign(nonce).map_err(|error| error.to_string())?);
    Ok(auth)
}
