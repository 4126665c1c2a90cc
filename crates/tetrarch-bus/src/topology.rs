//! The streams of the bus contract as data, and making a server agree with them (spec 02,
//! Streams). Every setting is explicit: a server's default never decides. It never deletes or
//! recreates a stream: one that cannot be changed into what is wanted is an error for a person.

use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType,
};
use futures::future::try_join_all;

use crate::client::Bus;
use crate::subject::pattern;
use tetrarch_core::limits::{JOURNAL_ENTRY_BYTES_MAX, MAIL_BYTES_MAX};

const MIB: i64 = 1024 * 1024;
const GIB: i64 = 1024 * MIB;
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Time in which a repeated message id is known again.
const DUPLICATES: Duration = Duration::from_secs(120);
/// Consumers of one stream; servers since 2.15 allow only 1000 unless told.
const CONSUMERS_MAX: i32 = 100_000;
/// Room for a message's headers beside its body, in bytes.
const HEADER_BYTES: usize = 8 * 1024;
/// No limit of this kind.
const NONE: i64 = -1;
/// Bytes all streams together may reserve; the managed server's store is configured with it.
pub(crate) const STORE_BYTES: i64 = 256 * GIB;

/// Why the streams could not be made as they should be.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The server refused to tell about, make or change a stream.
    #[error("{action} stream {stream} failed: {reason}")]
    Refused {
        /// What was tried.
        action: &'static str,
        /// Which stream.
        stream: String,
        /// The server's words.
        reason: String,
    },
    /// An existing stream differs in a way no server can change in place.
    #[error(
        "stream {stream} has {setting} {found}, but {wanted} is required and cannot be changed; back up and delete the stream, or use another account"
    )]
    Unchangeable {
        /// Which stream.
        stream: String,
        /// Which setting.
        setting: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        wanted: String,
    },
}

/// How long streams keep what they hold, where an operator may say (spec 12, `[retention]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ages {
    /// Mail and control (`retention.mail`).
    pub mail: Duration,
    /// Runs' journals (`retention.runs`).
    pub runs: Duration,
    /// Public plan events (`retention.plans`).
    pub plans: Duration,
}

impl Default for Ages {
    fn default() -> Self {
        Self { mail: 7 * DAY, runs: 30 * DAY, plans: 90 * DAY }
    }
}

/// What of the streams an operator may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSettings {
    /// Copies of each: 1 on one server, 3 in a cluster.
    pub replicas: usize,
    /// How long they keep what they hold.
    pub ages: Ages,
}

impl From<usize> for StreamSettings {
    fn from(replicas: usize) -> Self {
        Self { replicas, ages: Ages::default() }
    }
}

/// The streams as they should be.
#[must_use]
pub fn streams(shape: impl Into<StreamSettings>) -> Vec<Config> {
    let StreamSettings { replicas, ages } = shape.into();
    pattern::TAKES
        .iter()
        .map(|(name, subjects)| {
            let mut config = base(name, subjects, replicas);
            limit(&mut config, ages);
            config
        })
        .collect()
}

fn base(name: &str, subjects: &[&str], replicas: usize) -> Config {
    Config {
        name: name.to_owned(),
        subjects: subjects.iter().map(|subject| (*subject).to_owned()).collect(),
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        num_replicas: replicas,
        max_consumers: CONSUMERS_MAX,
        max_messages: NONE,
        max_messages_per_subject: NONE,
        max_bytes: NONE,
        max_message_size: -1,
        max_age: Duration::ZERO,
        discard: DiscardPolicy::New,
        duplicate_window: DUPLICATES,
        allow_direct: true,
        allow_rollup: false,
        deny_delete: true,
        deny_purge: false,
        allow_message_ttl: false,
        ..Config::default()
    }
}

/// Limits by stream. Where a message must not be lost the stream refuses new ones when it is
/// full; where only the latest matter the oldest go. The ledger has no age: only its owner trims
/// it, behind a snapshot.
fn limit(config: &mut Config, ages: Ages) {
    let size = |bytes| i32::try_from(bytes + HEADER_BYTES).unwrap_or(i32::MAX);
    match config.name.as_str() {
        pattern::LEDGER => config.max_bytes = 8 * GIB,
        pattern::STATE => {
            config.max_bytes = 8 * GIB;
            // It is made from the ledger, so nothing waits for a disk on its account; servers do so for
            // one replica only (docs/decisions/0090).
            let alone = config.num_replicas == 1;
            config.persist_mode = alone.then_some(PersistenceMode::Async);
            config.max_messages_per_subject = 1;
            config.allow_message_ttl = true;
        }
        pattern::REQUESTS => {
            config.max_age = 24 * HOUR;
            config.max_bytes = 2 * GIB;
            config.max_message_size = size(MAIL_BYTES_MAX);
        }
        pattern::MAIL => {
            config.max_age = ages.mail;
            config.max_bytes = 4 * GIB;
            config.max_message_size = size(MAIL_BYTES_MAX);
        }
        pattern::PLANS => {
            config.max_age = ages.plans;
            config.max_bytes = 4 * GIB;
            config.discard = DiscardPolicy::Old;
        }
        pattern::CURSORS => {
            config.max_bytes = 4 * GIB;
            config.max_messages_per_subject = 4;
        }
        pattern::RUNS => {
            config.max_age = ages.runs;
            config.max_bytes = 32 * GIB;
            config.max_message_size = size(JOURNAL_ENTRY_BYTES_MAX);
        }
        pattern::DEAD => {
            config.max_age = 30 * DAY;
            config.max_bytes = GIB;
            config.discard = DiscardPolicy::Old;
            config.deny_delete = false;
        }
        pattern::LEASES => {
            config.max_bytes = GIB;
            config.max_messages_per_subject = 1;
            config.allow_message_ttl = true;
        }
        pattern::ARTIFACTS => {
            config.max_bytes = 64 * GIB;
            config.deny_delete = false;
        }
        _ => {}
    }
}

/// Makes the server's streams as they should be. Doing it again changes nothing; when all is
/// right it costs one question for each stream, asked at once.
///
/// # Errors
/// The server's refusal, or an existing stream that cannot be changed in place.
pub async fn apply(bus: &Bus, shape: impl Into<StreamSettings>) -> Result<(), TopologyError> {
    let wanted = streams(shape);
    try_join_all(wanted.iter().map(|config| apply_one(bus, config))).await?;
    Ok(())
}

async fn apply_one(bus: &Bus, wanted: &Config) -> Result<(), TopologyError> {
    let refused = |action: &'static str, reason: String| TopologyError::Refused {
        action,
        stream: wanted.name.clone(),
        reason,
    };
    let Some(found) = existing(bus, &wanted.name).await? else {
        let made = bus.js.create_stream(wanted.clone()).await;
        return made
            .map(|_| ())
            .map_err(|error: CreateStreamError| refused("making", error.to_string()));
    };
    unchangeable(&found, wanted)?;
    if same(&found, wanted) {
        return Ok(());
    }
    let changed =
        Config { metadata: found.metadata, persist_mode: found.persist_mode, ..wanted.clone() };
    tracing::info!(stream = wanted.name, "changing a stream's settings");
    let updated = bus.js.update_stream(&changed).await;
    updated.map(|_| ()).map_err(|error| refused("changing", error.to_string()))
}

async fn existing(bus: &Bus, name: &str) -> Result<Option<Config>, TopologyError> {
    let refused = |reason: String| TopologyError::Refused {
        action: "asking about",
        stream: name.to_owned(),
        reason,
    };
    match bus.js.get_stream(name).await {
        Ok(stream) => Ok(Some(stream.cached_info().config.clone())),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(said) if said.code() == 404 => Ok(None),
            GetStreamErrorKind::JetStream(_)
            | GetStreamErrorKind::EmptyName
            | GetStreamErrorKind::InvalidStreamName
            | GetStreamErrorKind::Request => Err(refused(error.to_string())),
        },
    }
}

fn unchangeable(found: &Config, wanted: &Config) -> Result<(), TopologyError> {
    let differs = |setting: &'static str, found: String, wanted_text: String| {
        if found == wanted_text {
            return Ok(());
        }
        Err(TopologyError::Unchangeable {
            stream: wanted.name.clone(),
            setting,
            found,
            wanted: wanted_text,
        })
    };
    differs("storage", format!("{:?}", found.storage), format!("{:?}", wanted.storage))?;
    differs("retention", format!("{:?}", found.retention), format!("{:?}", wanted.retention))?;
    differs("max_consumers", found.max_consumers.to_string(), wanted.max_consumers.to_string())?;
    if found.deny_delete && !wanted.deny_delete {
        differs("deny_delete", "true".to_owned(), "false".to_owned())?;
    }
    if found.deny_purge && !wanted.deny_purge {
        differs("deny_purge", "true".to_owned(), "false".to_owned())?;
    }
    if found.allow_message_ttl && !wanted.allow_message_ttl {
        differs("allow_msg_ttl", "true".to_owned(), "false".to_owned())?;
    }
    // One that waits for the disk although it need not may stay as it was made.
    if found.persist_mode == Some(PersistenceMode::Async) && wanted.num_replicas > 1 {
        differs("persist_mode", "async".to_owned(), "default".to_owned())?;
    }
    differs("mirror", format!("{:?}", found.mirror.is_some()), "false".to_owned())?;
    differs("sealed", found.sealed.to_string(), "false".to_owned())
}

/// Whether all settings of the contract agree; what a server adds by itself does not count.
fn same(found: &Config, wanted: &Config) -> bool {
    found.subjects == wanted.subjects
        && found.num_replicas == wanted.num_replicas
        && found.max_messages == wanted.max_messages
        && found.max_messages_per_subject == wanted.max_messages_per_subject
        && found.max_bytes == wanted.max_bytes
        && found.max_message_size == wanted.max_message_size
        && found.max_age == wanted.max_age
        && found.discard == wanted.discard
        && found.duplicate_window == wanted.duplicate_window
        && found.allow_direct == wanted.allow_direct
        && found.allow_rollup == wanted.allow_rollup
        && found.deny_delete == wanted.deny_delete
        && found.allow_message_ttl == wanted.allow_message_ttl
        && found.subject_delete_marker_ttl == wanted.subject_delete_marker_ttl
        && found.allow_message_schedules == wanted.allow_message_schedules
        && found.allow_message_counter == wanted.allow_message_counter
        && found.republish == wanted.republish
        && found.sources.is_none()
        && found.subject_transform.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_disallows_redirecting_headers() {
        for config in streams(1) {
            assert!(!config.allow_rollup, "{}", config.name);
            assert!(!config.allow_message_schedules, "{}", config.name);
            assert!(!config.allow_message_counter, "{}", config.name);
            let own = [pattern::LEASES, pattern::STATE].contains(&config.name.as_str());
            assert_eq!(config.allow_message_ttl, own, "{}", config.name);
            assert_eq!(config.max_consumers, CONSUMERS_MAX, "{}", config.name);
            assert!(config.max_bytes > 0, "{} has no bound", config.name);
        }
    }

    #[test]
    fn managed_server_store_holds_all_reservations() {
        let reserved: i64 = streams(1).iter().map(|config| config.max_bytes).sum();
        assert!(reserved <= STORE_BYTES, "{reserved}");
    }

    #[test]
    fn unchangeable_stream_setting_is_named() {
        let wanted = streams(1).remove(0);
        let found = Config { max_consumers: 1000, ..wanted.clone() };
        let error = unchangeable(&found, &wanted).unwrap_err();
        assert!(error.to_string().contains("max_consumers 1000"), "{error}");
        assert!(unchangeable(&wanted, &wanted).is_ok());
        assert!(same(&wanted, &wanted));
        let found = Config { max_age: HOUR, ..wanted.clone() };
        assert!(!same(&found, &wanted));
    }
}
