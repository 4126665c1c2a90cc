//! Leases on keys of the LEASES bucket: one holder at a time, a higher epoch with every change
//! of hands (spec 02, Client rules; 04). A lease says who acts; it never makes an action safe by
//! itself, that is what expected sequences are for. It decides nothing about when to take over.

use std::time::{Duration, Instant};

use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use prost::Message;
use tetrarch_core::id::HostName;
use tetrarch_core::limits::LEASE_EPOCH_MAX;
use tetrarch_core::vitals::Vitals;

use crate::client::{Bus, RawMessage, next_published};
use crate::codec::{self, HostLease};
use crate::error::{PublishError, ReadError};
use crate::retry::Retry;
use crate::subject::pattern;

/// Time in which racing and unanswered attempts at a lease are repeated.
const ACQUIRE_WITHIN: Duration = Duration::from_secs(10);
const TTL: &str = "Nats-TTL";
const OPERATION: &str = "KV-Operation";
const DELETED: &str = "DEL";
/// Keeps the epoch on a released or revoked key, so that the next holder's is higher.
const EPOCH: &str = "Tetrarch-Epoch";

/// What is leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseKey {
    /// Being the owner of the ledger.
    Go,
    /// Being a host's orchestrator.
    Host(HostName),
}

impl LeaseKey {
    fn subject(&self) -> String {
        match self {
            Self::Go => pattern::lease_go(),
            Self::Host(host) => pattern::lease_host(host),
        }
    }
}

/// What a held key says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseValue {
    /// The holder: an id kept in its data directory under the directory's lock.
    pub instance: String,
    /// Higher with every acquisition.
    pub epoch: u64,
    /// When it was acquired, in milliseconds since the Unix epoch, for people only.
    pub since_unix_ms: u64,
    /// Where the holder runs, for people only.
    pub address: String,
    /// What the holder tells with each renewal; its meaning is not known here.
    pub body: Vec<u8>,
}

/// The stored form of [`LeaseValue`].
#[derive(Clone, PartialEq, Message)]
struct LeaseWire {
    #[prost(string, tag = "1")]
    instance: String,
    #[prost(uint64, tag = "2")]
    epoch: u64,
    #[prost(uint64, tag = "3")]
    since_unix_ms: u64,
    #[prost(string, tag = "4")]
    address: String,
    #[prost(bytes = "vec", tag = "5")]
    body: Vec<u8>,
}

/// A key as a read found it: a hint, for expected sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSeen {
    /// The sequence of the key's last message.
    pub seq: u64,
    /// The highest epoch the key tells of.
    pub epoch: u64,
    /// Who holds it; none when it was released or revoked, or is no lease at all.
    pub holder: Option<LeaseValue>,
}

/// Who wants a lease, and how.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// What is wanted.
    pub key: LeaseKey,
    /// The id of whoever wants it. Its own lease is taken over at once.
    pub instance: String,
    /// Where it runs.
    pub address: String,
    /// The highest epoch the caller knows from elsewhere: an expired key remembers none.
    pub floor: u64,
    /// Whole seconds after which an unrenewed key vanishes; none means never (hosts).
    pub ttl_secs: Option<u32>,
    /// The time now, in milliseconds since the Unix epoch.
    pub now_unix_ms: u64,
    /// What to tell with it.
    pub body: Vec<u8>,
}

/// Why a lease was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// Somebody else holds it.
    #[error("lease {key} is held by {} at {} since {} (epoch {})", holder.instance, holder.address, holder.since_unix_ms, holder.epoch)]
    Held {
        /// The key.
        key: String,
        /// The sequence it was seen at.
        seq: u64,
        /// Who holds it.
        holder: LeaseValue,
    },
    /// The write was refused, or its outcome stayed unknown.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The key could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why a lease was not renewed. `Lost` and `WentBack` are final: after the others try again until the
/// holder's own deadline.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// It belongs to somebody else, or to nobody any more. Stop.
    #[error("lease {key} was lost to {}", holder.as_deref().unwrap_or("nobody: it expired or was revoked"))]
    Lost {
        /// The key.
        key: String,
        /// Who holds it now, when somebody does.
        holder: Option<String>,
    },
    /// The bus does not know any more what it acknowledged: it is an older copy of itself. Stop: what it
    /// ordered since is forgotten (docs/decisions/0104).
    #[error(
        "lease {key}: the bus is an older copy of itself: it acknowledged {acknowledged} and has {last} last; restore \
         the newest copy, or look what was lost with `tetrarch doctor`"
    )]
    WentBack {
        /// The key.
        key: String,
        /// The sequence of the last renewal that it acknowledged.
        acknowledged: u64,
        /// The last that it has.
        last: u64,
    },
    /// The write failed or its outcome is unknown.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The key could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A lease that was acquired. It stays held in the bus when this is dropped: release it, or let
/// it expire.
#[derive(Debug)]
pub struct Lease {
    bus: Bus,
    subject: String,
    ttl_secs: Option<u32>,
    value: LeaseValue,
    seq: u64,
    sent_at: Instant,
}

impl Lease {
    /// Takes a lease that is free, expired, or held by the same instance. Its epoch is one higher
    /// than the highest of the key's and the claim's floor.
    ///
    /// # Errors
    /// `Held` with who holds it; else what the bus answered.
    pub async fn acquire(bus: &Bus, claim: LeaseRequest) -> Result<Self, AcquireError> {
        let subject = claim.key.subject();
        let mut retry = Retry::until(ACQUIRE_WITHIN);
        loop {
            let seen = seen_at(bus, &subject).await?;
            let (seq, known) = seen.as_ref().map_or((0, 0), |seen| (seen.seq, seen.epoch));
            if let Some(holder) = seen.and_then(|seen| seen.holder)
                && holder.instance != claim.instance
            {
                return Err(AcquireError::Held { key: subject, seq, holder });
            }
            let value = LeaseValue {
                instance: claim.instance.clone(),
                epoch: known.max(claim.floor).saturating_add(1),
                since_unix_ms: claim.now_unix_ms,
                address: claim.address.clone(),
                body: claim.body.clone(),
            };
            let sent_at = Instant::now();
            let error = match write(bus, &subject, &value, claim.ttl_secs, seq).await {
                Ok(seq) => {
                    let (bus, ttl_secs) = (bus.clone(), claim.ttl_secs);
                    return Ok(Self { bus, subject, ttl_secs, value, seq, sent_at });
                }
                Err(error @ PublishError::Refused { .. }) if !error.is_passing() => {
                    return Err(error.into());
                }
                Err(error) => error,
            };
            if !retry.pause().await {
                return Err(error.into());
            }
        }
    }

    /// What a key says now; none when it was never held or expired.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn look(bus: &Bus, key: &LeaseKey) -> Result<Option<LeaseSeen>, ReadError> {
        seen_at(bus, &key.subject()).await
    }

    /// Takes a lease from its holder, if the key is still as it was seen, `None` for a key that
    /// was never held or expired: the owner's proof that a silent host did not renew (spec 04),
    /// also where nobody was seen to hold it, for a replica that lags behind may have answered.
    /// The next acquisition finds the key free.
    ///
    /// # Errors
    /// `WrongLast` means the holder has renewed meanwhile and is alive.
    pub async fn revoke(
        bus: &Bus,
        key: &LeaseKey,
        seen: Option<&LeaseSeen>,
    ) -> Result<u64, PublishError> {
        let (epoch, seq) = seen.map_or((0, 0), |seen| (seen.epoch, seen.seq));
        clear(bus, &key.subject(), epoch, seq).await
    }

    /// Renews, telling `body`; gives the key's new sequence.
    ///
    /// # Errors
    /// `Lost` and `WentBack` are final; the others leave the lease as it was, or renewed.
    pub async fn renew(&mut self, body: Vec<u8>) -> Result<u64, RenewError> {
        self.value.body = body;
        match self.write_own().await {
            Err(PublishError::WrongLast { last, .. }) => {
                self.adopt_own(last).await?;
                Ok(self.write_own().await?)
            }
            Ok(seq) => Ok(seq),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the lease back, so that the next claim need not wait.
    ///
    /// # Errors
    /// `WrongLast` means it was not held any more.
    pub async fn release(mut self) -> Result<(), PublishError> {
        match clear(&self.bus, &self.subject, self.value.epoch, self.seq).await {
            Err(refused @ PublishError::WrongLast { last, .. }) => {
                // A renewal that nobody waited for may have been stored.
                if self.adopt_own(last).await.is_err() {
                    return Err(refused);
                }
                clear(&self.bus, &self.subject, self.value.epoch, self.seq).await.map(drop)
            }
            cleared => cleared.map(drop),
        }
    }

    /// The epoch of this acquisition.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.value.epoch
    }

    /// The key's sequence after the last acknowledged write.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The moment right before the last acknowledged write was sent: what deadlines of acting
    /// and freezing count from (spec 04).
    #[must_use]
    pub fn sent_at(&self) -> Instant {
        self.sent_at
    }

    async fn write_own(&mut self) -> Result<u64, PublishError> {
        let sent_at = Instant::now();
        let seq = write(&self.bus, &self.subject, &self.value, self.ttl_secs, self.seq).await?;
        self.seq = seq;
        self.sent_at = sent_at;
        Ok(seq)
    }

    /// After a refusal: an earlier renewal with unknown outcome may have been stored, then the
    /// key is still ours at a later sequence.
    async fn adopt_own(&mut self, last: u64) -> Result<(), RenewError> {
        let key = || self.subject.clone();
        let lags = || PublishError::Unknown {
            subject: key(),
            reason: "the asked replica lags behind".to_owned(),
        };
        let Some(seen) = seen_at(&self.bus, &self.subject).await? else {
            // Should it have expired since the refusal, the next one names nothing.
            let lost = RenewError::Lost { key: key(), holder: None };
            return Err(if last > 0 { lags().into() } else { lost });
        };
        let acknowledged = self.seq;
        if seen.seq < acknowledged && last < acknowledged {
            let last = seen.seq.max(last);
            return Err(RenewError::WentBack { key: key(), acknowledged, last });
        }
        let holder = seen.holder.as_ref();
        let own = holder.is_some_and(|holder| {
            holder.instance == self.value.instance && holder.epoch == self.value.epoch
        });
        if own && seen.seq >= last {
            self.seq = seen.seq;
            return Ok(());
        }
        if seen.seq < last {
            return Err(lags().into());
        }
        let holder = holder.map(|holder| format!("{} at {}", holder.instance, holder.address));
        Err(RenewError::Lost { key: key(), holder })
    }
}

/// What was heard of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEvent {
    /// Somebody acquired or renewed it, or tried to.
    Renewed,
    /// It was released or revoked.
    Cleared,
}

/// Hears of every write to a key as it happens. A hint: what expires is not heard, and nothing is
/// while the connection is lost.
#[derive(Debug)]
pub struct LeaseEvents(Subscriber);

impl LeaseEvents {
    /// Listens to a key.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn of(bus: &Bus, key: &LeaseKey) -> Result<Self, ReadError> {
        Ok(Self(bus.listen(key.subject()).await?))
    }

    /// The next change; none ever when the connection was closed. Safe to drop.
    pub async fn next(&mut self) -> LeaseEvent {
        let next = next_published(&mut self.0).await;
        let Some(message) = next else { return std::future::pending().await };
        if is_cleared(&message) { LeaseEvent::Cleared } else { LeaseEvent::Renewed }
    }
}

/// A host renewed its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// Which host.
    pub host: HostName,
    /// How many sessions it says it runs.
    pub load: u32,
    /// The rows of those that it tells of this time.
    pub rows: Vec<Vitals>,
}

/// Hears of every renewal of every host's lease as it happens: the hosts' heartbeats (spec 04). A
/// hint, as [`LeaseEvents`] is.
#[derive(Debug)]
pub struct Renewals(Subscriber);

impl Renewals {
    /// Listens to all hosts.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn listen(bus: &Bus) -> Result<Self, ReadError> {
        Ok(Self(bus.listen(pattern::leases().to_owned()).await?))
    }

    /// The next renewal; none ever when the connection was closed. Safe to drop.
    pub async fn next(&mut self) -> Renewal {
        loop {
            let next = next_published(&mut self.0).await;
            let Some(message) = next else { return std::future::pending().await };
            let held = !is_cleared(&message);
            let host = pattern::leased_host(&message.subject).filter(|_| held);
            let told = LeaseWire::decode(message.payload)
                .ok()
                .and_then(|wire| codec::decode_host_lease(&wire.body).ok());
            if let Some(host) = host {
                let HostLease { load, rows, .. } = told.unwrap_or_default();
                return Renewal { host, load, rows };
            }
        }
    }
}

fn is_cleared(message: &async_nats::Message) -> bool {
    message.headers.as_ref().is_some_and(|headers| headers.get(OPERATION).is_some())
}

async fn write(
    bus: &Bus,
    subject: &str,
    value: &LeaseValue,
    ttl_secs: Option<u32>,
    expect: u64,
) -> Result<u64, PublishError> {
    let mut headers = HeaderMap::new();
    if let Some(seconds) = ttl_secs {
        headers.insert(TTL, format!("{seconds}s"));
    }
    let LeaseValue { instance, epoch, since_unix_ms, address, body } = value.clone();
    let wire = LeaseWire { instance, epoch, since_unix_ms, address, body };
    bus.publish_expect(subject, headers, wire.encode_to_vec().into(), Some(expect)).await
}

async fn clear(bus: &Bus, subject: &str, epoch: u64, expect: u64) -> Result<u64, PublishError> {
    let mut headers = HeaderMap::new();
    headers.insert(OPERATION, DELETED);
    headers.insert(EPOCH, epoch.to_string());
    bus.publish_expect(subject, headers, Bytes::new(), Some(expect)).await
}

async fn seen_at(bus: &Bus, subject: &str) -> Result<Option<LeaseSeen>, ReadError> {
    let found = bus.last_by_subject(pattern::LEASES, subject).await?;
    Ok(found.map(|message| understand(&message)))
}

/// What cannot be read is held by nobody: it fences whoever held the key by its sequence, and must
/// not keep everybody else from it for ever.
fn understand(message: &RawMessage) -> LeaseSeen {
    let free = |epoch| LeaseSeen { seq: message.seq, epoch, holder: None };
    if message.header(OPERATION).is_some() {
        let epoch = message.header(EPOCH).and_then(|text| text.parse().ok());
        return free(epoch.filter(|epoch| *epoch <= LEASE_EPOCH_MAX).unwrap_or(0));
    }
    match LeaseWire::decode(message.payload.clone()) {
        Ok(LeaseWire { instance, epoch, since_unix_ms, address, body })
            if !instance.is_empty() && epoch <= LEASE_EPOCH_MAX =>
        {
            let holder = Some(LeaseValue { instance, epoch, since_unix_ms, address, body });
            LeaseSeen { seq: message.seq, epoch, holder }
        }
        Ok(_) | Err(_) => {
            tracing::error!(subject = %message.subject, seq = message.seq, "this is not a lease");
            free(0)
        }
    }
}
