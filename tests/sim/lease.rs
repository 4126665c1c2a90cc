//! The LEASES bucket: one holder of a key at a time, each write at the revision that the writer
//! knows.

use std::collections::BTreeMap;

use tetrarch_core::id::HostName;
use tetrarch_core::sweep::LeaseLook;
use tetrarch_core::time::BusTime;

/// A host's key.
#[derive(Debug, Clone, Copy)]
struct Key {
    seq: u64,
    epoch: u64,
    held: bool,
    /// When its holder wrote it last.
    renewed: BusTime,
}

/// The keys of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    seq: u64,
    keys: BTreeMap<HostName, Key>,
}

/// Why a renewal was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// An earlier renewal of the same holder was stored: its revision.
    Own(u64),
    /// Another holds it, or nobody.
    Lost,
}

impl Leases {
    fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Takes a host's lease over, as each life of one installation does; gives epoch and revision.
    pub(crate) fn acquire(&mut self, host: &HostName, now: BusTime) -> (u64, u64) {
        let seq = self.next();
        let epoch = self.keys.get(host).map_or(0, |key| key.epoch) + 1;
        self.keys.insert(host.clone(), Key { seq, epoch, held: true, renewed: now });
        (epoch, seq)
    }

    /// Renews at a revision.
    pub(crate) fn renew(
        &mut self,
        host: &HostName,
        (epoch, expect): (u64, u64),
        now: BusTime,
    ) -> Result<u64, Refused> {
        let next = self.seq + 1;
        let Some(key) = self.keys.get_mut(host) else { return Err(Refused::Lost) };
        if key.seq != expect {
            let own = key.held && key.epoch == epoch;
            return Err(if own { Refused::Own(key.seq) } else { Refused::Lost });
        }
        (key.seq, key.renewed) = (next, now);
        self.seq = next;
        Ok(next)
    }

    /// What a key says now.
    pub(crate) fn look(&self, host: &HostName) -> LeaseLook {
        let key = self.keys.get(host);
        key.map_or(LeaseLook { seq: 0, held: false }, |key| LeaseLook {
            seq: key.seq,
            held: key.held,
        })
    }

    /// When a key was written last by its holder.
    pub(crate) fn renewed(&self, host: &HostName) -> BusTime {
        self.keys.get(host).map_or(BusTime::default(), |key| key.renewed)
    }

    /// The epoch of whoever holds a key.
    pub(crate) fn holder(&self, host: &HostName) -> Option<u64> {
        self.keys.get(host).filter(|key| key.held).map(|key| key.epoch)
    }

    /// Clears a key that still has this revision.
    pub(crate) fn clear(&mut self, host: &HostName, expect: u64) -> bool {
        let next = self.seq + 1;
        let Some(key) = self.keys.get_mut(host).filter(|key| key.seq == expect) else {
            return false;
        };
        (key.seq, key.held) = (next, false);
        self.seq = next;
        true
    }
}
