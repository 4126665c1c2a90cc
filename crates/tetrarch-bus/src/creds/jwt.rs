//! Operator, account and user tokens of nats-server's operator mode, made in process with nkeys
//! alone (spec 09). It signs what it is given; who may do what is `policy`'s.

use std::time::Duration;

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use nkeys::KeyPair;
use serde_json::{Value, json};
use sha2::{Digest, Sha512_256};

use super::revoked::{Revoked, now_secs};
use crate::subject::pattern::policy::{self, CredentialRole, Crossing};
use crate::subject::pattern::{API, FLEET_API};

const HEADER: &str = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;
/// Format version of the NATS claims below.
const VERSION: u32 = 2;
const UNLIMITED: i64 = -1;
/// Subscriptions of one connection of an agent: a server keeps about a kilobyte of each, and takes long to end many.
const AGENT_SUBSCRIPTIONS_MAX: i64 = 128;
/// The same of a person, who may look at many things at once.
const PEOPLE_SUBSCRIPTIONS_MAX: i64 = 1_000;
/// How long a user of the system account is good: it is made for what is done now.
const SYSTEM_LIFETIME: Duration = Duration::from_secs(24 * 3600);

fn sign(
    issuer: &KeyPair,
    subject: &str,
    name: &str,
    nats: Value,
) -> Result<String, nkeys::error::Error> {
    sign_for(issuer, (subject, name), nats, None)
}

/// Signs a token that is good for `lifetime`, or for ever.
fn sign_for(
    issuer: &KeyPair,
    (subject, name): (&str, &str),
    nats: Value,
    lifetime: Option<Duration>,
) -> Result<String, nkeys::error::Error> {
    let now = now_secs();
    let mut claims = json!({
        "iat": now,
        "iss": issuer.public_key(),
        "name": name,
        "nats": nats,
        "sub": subject,
    });
    if let Some(lifetime) = lifetime {
        claims["exp"] = json!(now.saturating_add(lifetime.as_secs()));
    }
    let id = BASE32_NOPAD.encode(&Sha512_256::digest(claims.to_string().as_bytes()));
    if let Value::Object(fields) = &mut claims {
        fields.insert("jti".to_owned(), Value::String(id));
    }
    let header = BASE64URL_NOPAD.encode(HEADER.as_bytes());
    let body = BASE64URL_NOPAD.encode(claims.to_string().as_bytes());
    let signed = format!("{header}.{body}");
    let signature = BASE64URL_NOPAD.encode(&issuer.sign(signed.as_bytes())?);
    Ok(format!("{signed}.{signature}"))
}

/// The operator's token, signed by itself.
pub(super) fn operator(
    operator: &KeyPair,
    system: &KeyPair,
) -> Result<String, nkeys::error::Error> {
    let nats =
        json!({ "system_account": system.public_key(), "type": "operator", "version": VERSION });
    sign(operator, &operator.public_key(), "tetrarch", nats)
}

/// The system account's token: no JetStream, no users of ours.
pub(super) fn system_account(
    operator: &KeyPair,
    system: &KeyPair,
) -> Result<String, nkeys::error::Error> {
    sign(operator, &system.public_key(), "SYS", account_claims(0, &[]))
}

/// The control plane's account, which has the streams, with a scoped signing key for each of its roles.
pub(super) fn control_account(
    operator: &KeyPair,
    account: &KeyPair,
    roles: &[(CredentialRole, &KeyPair)],
) -> Result<String, nkeys::error::Error> {
    let mut claims = account_claims(UNLIMITED, &scopes(roles));
    let exports = policy::crossings().into_iter().map(|(crossing, subject)| {
        let (kind, answers) = kind(crossing);
        let mut export = json!({ "name": &subject, "subject": &subject, "type": kind });
        if let Some(answers) = answers {
            export["response_type"] = json!(answers);
        }
        export
    });
    claims["exports"] = exports.collect();
    sign(operator, &account.public_key(), "CONTROL", claims)
}

/// The account of everybody else, which reaches the control plane's through what that exports.
pub(super) fn fleet_account(
    operator: &KeyPair,
    (account, control): (&KeyPair, &KeyPair),
    roles: &[(CredentialRole, &KeyPair)],
    revoked: &Revoked,
) -> Result<String, nkeys::error::Error> {
    let mut claims = account_claims(0, &scopes(roles));
    claims["revocations"] = revoked.claims();
    let imports = policy::crossings().into_iter().map(|(crossing, subject)| {
        let mut import = json!({
            "name": &subject,
            "subject": &subject,
            "account": control.public_key(),
            "type": kind(crossing).0,
        });
        if policy::tells_who(&subject) {
            import["share"] = json!(true);
        }
        if let Some(rest) = subject.strip_prefix(API) {
            import["local_subject"] = json!(format!("{FLEET_API}{}", numbered(rest)));
        }
        import
    });
    claims["imports"] = imports.collect();
    sign(operator, &account.public_key(), "FLEET", claims)
}

/// A subject's wildcards as references to those of another: `.*.>` is `.$1.>`.
fn numbered(subject: &str) -> String {
    let mut place = 0;
    let token = |token: &str| {
        if token != "*" {
            return token.to_owned();
        }
        place += 1;
        format!("${place}")
    };
    subject.split('.').map(token).collect::<Vec<_>>().join(".")
}

/// What the server calls a crossing, and how many answers come back.
fn kind(crossing: Crossing) -> (&'static str, Option<&'static str>) {
    match crossing {
        Crossing::Ask => ("service", Some("Singleton")),
        Crossing::AskMany => ("service", Some("Stream")),
        Crossing::Hear => ("stream", None),
    }
}

fn scopes(roles: &[(CredentialRole, &KeyPair)]) -> Vec<Value> {
    roles.iter().map(|(role, key)| scope(*role, key)).collect()
}

fn account_claims(jetstream: i64, scopes: &[Value]) -> Value {
    json!({
        "default_permissions": { "pub": {}, "sub": {} },
        "limits": {
            "subs": UNLIMITED, "data": UNLIMITED, "payload": UNLIMITED,
            "imports": UNLIMITED, "exports": UNLIMITED, "wildcards": true,
            "conn": UNLIMITED, "leaf": UNLIMITED,
            "mem_storage": jetstream, "disk_storage": jetstream,
            "streams": jetstream, "consumer": jetstream, "max_ack_pending": jetstream,
        },
        "signing_keys": scopes,
        "type": "account",
        "version": VERSION,
    })
}

fn scope(role: CredentialRole, key: &KeyPair) -> Value {
    let grant = policy::grant(role);
    let subscriptions = match role {
        // They have some for each agent.
        CredentialRole::Control | CredentialRole::Host => UNLIMITED,
        CredentialRole::External => AGENT_SUBSCRIPTIONS_MAX,
        CredentialRole::Human(_) => PEOPLE_SUBSCRIPTIONS_MAX,
    };
    json!({
        "kind": "user_scope",
        "key": key.public_key(),
        "role": role.as_str(),
        "template": {
            "pub": { "allow": grant.publish },
            "sub": { "allow": grant.subscribe },
            "subs": subscriptions, "data": UNLIMITED, "payload": UNLIMITED,
        },
    })
}

/// A user's token under a role's signing key. It carries no permissions of its own: the scope of
/// the key holds them, so changing the role changes all its users.
pub(super) fn user(
    role: CredentialRole,
    (signer, account): (&KeyPair, &KeyPair),
    user: &KeyPair,
    name: &str,
    lifetime: Duration,
) -> Result<String, nkeys::error::Error> {
    let nats = json!({
        "issuer_account": account.public_key(),
        "tags": [format!("{ROLE_TAG}{}", role.as_str())],
        "type": "user",
        "version": VERSION,
    });
    sign_for(signer, (&user.public_key(), name), nats, Some(lifetime))
}

/// A user of the system account, who may tell a server of changed accounts; for one connection.
pub(crate) fn system_user(system: &KeyPair, user: &KeyPair) -> Result<String, nkeys::error::Error> {
    let unlimited = json!({
        "pub": {}, "sub": {}, "subs": UNLIMITED, "data": UNLIMITED, "payload": UNLIMITED,
        "type": "user", "version": VERSION,
    });
    sign_for(system, (&user.public_key(), "tetrarch"), unlimited, Some(SYSTEM_LIFETIME))
}

const ROLE_TAG: &str = "role:";
/// The tag of an agent's token that no host runs.
pub(crate) const EXTERNAL_TAG: &str = "role:external";
/// The tag of a host's token.
pub(crate) const HOST_TAG: &str = "role:host";

/// What a user token says about its holder. Nothing is verified: the server does that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserFacts {
    pub(crate) issuer: String,
    pub(crate) account: String,
    pub(crate) name: String,
    pub(crate) role: Option<CredentialRole>,
    pub(crate) user: String,
    /// In seconds since 1970.
    pub(crate) issued: u64,
    pub(crate) expires: Option<u64>,
}

/// The user token in a credential file's text.
pub(super) fn token_in(creds: &str) -> Option<&str> {
    creds.lines().find(|line| line.starts_with("eyJ")).map(str::trim)
}

/// Reads the user token of a credential file's text.
pub(crate) fn user_facts(creds: &str) -> Option<UserFacts> {
    let body = token_in(creds)?.split('.').nth(1)?;
    let claims: Value =
        serde_json::from_slice(&BASE64URL_NOPAD.decode(body.as_bytes()).ok()?).ok()?;
    let tags = claims.pointer("/nats/tags").and_then(Value::as_array);
    let role = tags.into_iter().flatten().filter_map(Value::as_str).find_map(|tag| {
        let text = tag.strip_prefix(ROLE_TAG)?;
        CredentialRole::ALL.into_iter().find(|role| role.as_str() == text)
    });
    Some(UserFacts {
        issuer: claims.get("iss")?.as_str()?.to_owned(),
        account: claims.pointer("/nats/issuer_account")?.as_str()?.to_owned(),
        name: claims.get("name")?.as_str()?.to_owned(),
        role,
        user: claims.get("sub")?.as_str()?.to_owned(),
        issued: claims.get("iat")?.as_u64()?,
        expires: claims.get("exp").and_then(Value::as_u64),
    })
}
