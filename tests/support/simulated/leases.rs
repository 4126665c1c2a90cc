//! Leases: one holder of a key at a time, a higher epoch with each change of hands, each write at
//! the revision that the writer knows.

use tetrarch_core::id::AgentId;
use tetrarch_core::sweep::LeaseLook;
use tetrarch_core::time::BusTime;

use super::{NOW, Stream, WrongLast};

/// What a key says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    epoch: u64,
    /// None when it was given back or taken.
    holder: Option<String>,
    /// When its holder wrote it last.
    renewed: BusTime,
}

/// What came of asking for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// It is ours.
    Ours {
        /// Our epoch.
        epoch: u64,
        /// Its revision.
        seq: u64,
    },
    /// Another holds it.
    Held(String),
}

/// What came of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// It has this revision now.
    Stored(u64),
    /// An earlier renewal of the same holder was stored, at this revision: renew on that.
    Own(u64),
    /// What was read lags behind what refused: nobody knows. Renew again.
    Unknown,
    /// Another holds it, or nobody.
    Lost,
}

/// The keys of all hosts, and the owner's.
#[derive(Debug, Clone, Default)]
pub struct Leases(Stream<AgentId, Key>);

impl Leases {
    /// The revision of the last write to any key.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.0.last_seq()
    }

    /// Takes a lease that is free or held by the same instance. Its epoch is above the key's and
    /// `floor`; the first read is as of `through`.
    pub fn acquire(
        &mut self,
        key: &AgentId,
        instance: &str,
        floor: u64,
        now: BusTime,
        mut through: u64,
    ) -> Acquired {
        loop {
            let found = self.0.last(key, through);
            let (expect, known) = found.map_or((0, 0), |(seq, found)| (seq, found.epoch));
            if let Some(holder) = found.and_then(|(_, found)| found.holder.as_ref())
                && holder != instance
            {
                return Acquired::Held(holder.clone());
            }
            let epoch = known.max(floor) + 1;
            let value = Key { epoch, holder: Some(instance.to_owned()), renewed: now };
            match self.0.publish(key.clone(), value, expect) {
                Ok(seq) => return Acquired::Ours { epoch, seq },
                Err(WrongLast(_)) => through = NOW,
            }
        }
    }

    /// Renews at a revision; what a refusal ran into is read as of `through`.
    pub fn renew(
        &mut self,
        key: &AgentId,
        (instance, epoch): (&str, u64),
        expect: u64,
        now: BusTime,
        through: u64,
    ) -> Renewed {
        let value = Key { epoch, holder: Some(instance.to_owned()), renewed: now };
        let last = match self.0.publish(key.clone(), value, expect) {
            Ok(seq) => return Renewed::Stored(seq),
            Err(WrongLast(last)) => last,
        };
        match self.0.last(key, through) {
            Some((seq, found))
                if seq >= last
                    && found.epoch == epoch
                    && found.holder.as_deref() == Some(instance) =>
            {
                Renewed::Own(seq)
            }
            Some((seq, _)) if seq < last => Renewed::Unknown,
            None if last > 0 => Renewed::Unknown,
            Some(_) | None => Renewed::Lost,
        }
    }

    /// What a key says, as of a sequence.
    #[must_use]
    pub fn look(&self, key: &AgentId, through: u64) -> LeaseLook {
        let found = self.0.last(key, through);
        found.map_or(LeaseLook { seq: 0, held: false }, |(seq, found)| LeaseLook {
            seq,
            held: found.holder.is_some(),
        })
    }

    /// When a key was written last by its holder.
    #[must_use]
    pub fn renewed(&self, key: &AgentId) -> BusTime {
        self.0.last(key, NOW).map_or(BusTime::default(), |(_, found)| found.renewed)
    }

    /// Clears a key that still has this revision: its holder gives it back, or it is taken.
    ///
    /// # Errors
    /// It has another.
    pub fn clear(&mut self, key: &AgentId, expect: u64) -> Result<u64, WrongLast> {
        let found = self.0.last(key, NOW);
        let (epoch, renewed) = found.map_or((0, BusTime::default()), |(_, k)| (k.epoch, k.renewed));
        self.0.publish(key.clone(), Key { epoch, holder: None, renewed }, expect)
    }

    /// A key expires.
    pub fn expire(&mut self, key: &AgentId) {
        self.0.forget(key);
    }
}
