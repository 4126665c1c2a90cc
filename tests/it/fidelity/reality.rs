//! The deeds at a real server, by the code that the product does them with.

use std::sync::Arc;

use tetrarch_bus::commit::{CommitError, Committer};
use tetrarch_bus::cursor::{Claimed, CursorError, claim, claim_first, read_cursor, write_cursor};
use tetrarch_bus::error::PublishError;
use tetrarch_bus::journal::{JournalError, JournalWriter, Writer};
use tetrarch_bus::lease::{AcquireError, Lease, LeaseKey, LeaseRequest, LeaseSeen, RenewError};
use tetrarch_bus::outbox::Announcer;
use tetrarch_bus::subject::{Subject, pattern};
use tetrarch_bus::{Bus, HeaderMap, codec};
use tetrarch_core::cursor::{Cursor, Positions};
use tetrarch_core::id::{AgentId, CommitId, HostName, SessionId, Ulid};
use tetrarch_core::ledger::Entry;

use super::deed::{Deed, Outcome, entry, instance};

/// A real server's clients.
#[derive(Debug)]
pub(super) struct Reality {
    bus: Bus,
    owners: [Option<(u64, Committer)>; 3],
    claims: [Option<(Cursor, u64)>; 3],
    writers: [Option<JournalWriter>; 3],
    held: [Option<(LeaseKey, Lease)>; 3],
    looked: [Option<LeaseSeen>; 3],
}

fn key(number: usize) -> LeaseKey {
    match number {
        0 => LeaseKey::Go,
        host => LeaseKey::Host(HostName::new(&format!("h{host}")).unwrap()),
    }
}

fn cleared(cleared: Result<u64, PublishError>) -> Outcome {
    match cleared {
        Ok(seq) => Outcome::Stored(seq),
        Err(PublishError::WrongLast { last, .. }) => Outcome::Fenced(last),
        Err(error) => panic!("{error}"),
    }
}

impl Reality {
    pub(super) fn new(bus: Bus) -> Self {
        Self {
            bus,
            owners: Default::default(),
            claims: Default::default(),
            writers: Default::default(),
            held: Default::default(),
            looked: Default::default(),
        }
    }

    pub(super) async fn perform(&mut self, deed: &Deed) -> Outcome {
        match deed {
            Deed::Own { owner, epoch, lag } => {
                let last = self.bus.stream_last_seq(pattern::LEDGER).await.unwrap();
                let last = last.saturating_sub(*lag);
                let committer = Committer::new(self.bus.clone(), last, *epoch);
                self.owners[*owner] = Some((*epoch, committer));
                Outcome::Nothing
            }
            Deed::Commit { owner, commit, unheard } => self.commit(*owner, *commit, *unheard).await,
            Deed::Seal(order) => {
                let entry = Entry { seals: vec![order.clone()], ..entry(CommitId(Ulid(1)), 1) };
                let announcer = Announcer::new(self.bus.clone());
                announcer.announce(&[(1, Arc::new(entry))]).await.unwrap();
                self.cursor(&order.agent).await
            }
            Deed::Claim { slot, agent, epoch, claim: ours, first } => {
                let claimed = match first {
                    Some(first) => claim_first(&self.bus, (**first).clone(), ours).await,
                    None => claim(&self.bus, agent, *epoch, ours).await,
                };
                match claimed.unwrap() {
                    Claimed::Ours { cursor, seq, .. } => {
                        self.claims[*slot] = Some((cursor, seq));
                        Outcome::Stored(seq)
                    }
                    Claimed::EarlierLife { .. } => Outcome::EarlierLife,
                    Claimed::DoNotStart { .. } => Outcome::Refused,
                }
            }
            Deed::Move { slot, mail, again } => self.write(*slot, *mail, *again).await,
            Deed::Open { slot, run, agent, epoch } => {
                let session = SessionId(Ulid(u128::from(*epoch)));
                let writer = Writer { run: *run, agent: agent.clone(), session, epoch: *epoch };
                match JournalWriter::open(self.bus.clone(), writer).await {
                    Ok(writer) => {
                        let last = writer.last_seq();
                        self.writers[*slot] = Some(writer);
                        Outcome::Stored(last)
                    }
                    Err(JournalError::Fenced { last, .. }) => Outcome::Fenced(last),
                    Err(error) => panic!("{error}"),
                }
            }
            Deed::Append { slot, events } => {
                let Some(writer) = &mut self.writers[*slot] else { return Outcome::Nothing };
                let mut then = events.clone();
                let first = then.remove(0);
                match writer.append_all(Positions::default(), first, then).await {
                    Ok(seq) => Outcome::Stored(seq),
                    Err(JournalError::Fenced { last, .. }) => Outcome::Fenced(last),
                    Err(error) => panic!("{error}"),
                }
            }
            Deed::Read { agent } => self.cursor(agent).await,
            Deed::Acquire { .. }
            | Deed::Renew { .. }
            | Deed::Release { .. }
            | Deed::Look { .. }
            | Deed::Revoke { .. } => self.at_lease(deed).await,
        }
    }

    async fn commit(&mut self, owner: usize, commit: CommitId, unheard: bool) -> Outcome {
        let Some((epoch, mut committer)) = self.owners[owner].take() else {
            return Outcome::Nothing;
        };
        let entry = entry(commit, epoch);
        if unheard {
            let (subject, payload) = (Subject::Ledger.to_string(), codec::encode_entry(&entry));
            let expect = Some(committer.last());
            let sent = self.bus.publish_expect(
                &subject,
                HeaderMap::new(),
                payload.unwrap().into(),
                expect,
            );
            let _unheard = sent.await;
        }
        match committer.commit(&entry).await {
            Ok(seq) => {
                self.owners[owner] = Some((epoch, committer));
                Outcome::Stored(seq)
            }
            Err(CommitError::Deposed { epoch }) => Outcome::Deposed(epoch),
            Err(CommitError::Reload { last }) => Outcome::Reload(last),
            Err(error) => panic!("{error}"),
        }
    }

    async fn cursor(&self, agent: &AgentId) -> Outcome {
        let found = read_cursor(&self.bus, agent).await.unwrap();
        Outcome::Shown(found.map(|(cursor, seq)| (seq, format!("{cursor:?}"))))
    }

    async fn write(&mut self, slot: usize, mail: u64, again: bool) -> Outcome {
        let Some((cursor, known)) = &mut self.claims[slot] else { return Outcome::Nothing };
        let moved = Cursor { positions: Positions { mail, ctl: 0 }, ..cursor.clone() };
        let mut written = write_cursor(&self.bus, &moved, *known).await;
        if again {
            written = write_cursor(&self.bus, &moved, *known).await;
        }
        match written {
            Ok(seq) => {
                *known = seq;
                Outcome::Stored(seq)
            }
            Err(CursorError::Fenced { last, .. }) => Outcome::Fenced(last),
            Err(error) => panic!("{error}"),
        }
    }

    async fn at_lease(&mut self, deed: &Deed) -> Outcome {
        let bus = &self.bus;
        match deed {
            Deed::Acquire { key: number, instance: who, floor, ttl_secs } => {
                let wanted = LeaseRequest {
                    key: key(*number),
                    instance: instance(*who),
                    address: "here".to_owned(),
                    floor: *floor,
                    ttl_secs: *ttl_secs,
                    now_unix_ms: 1,
                    body: Vec::new(),
                };
                match Lease::acquire(bus, wanted).await {
                    Ok(lease) => {
                        let (epoch, seq) = (lease.epoch(), lease.seq());
                        self.held[(number + who) % 3] = Some((key(*number), lease));
                        Outcome::Acquired { epoch, seq }
                    }
                    Err(AcquireError::Held { holder, .. }) => Outcome::Held(holder.instance),
                    Err(error) => panic!("{error}"),
                }
            }
            Deed::Renew { holder } => {
                let Some((_, lease)) = &mut self.held[*holder] else { return Outcome::Nothing };
                match lease.renew(Vec::new()).await {
                    Ok(seq) => Outcome::Stored(seq),
                    Err(RenewError::Lost { .. }) => Outcome::Lost,
                    Err(error) => panic!("{error}"),
                }
            }
            Deed::Release { holder } => {
                let Some((key, lease)) = self.held[*holder].take() else { return Outcome::Nothing };
                match lease.release().await {
                    Ok(()) => {
                        let seen = Lease::look(bus, &key).await.unwrap().unwrap();
                        assert_eq!(seen.holder, None);
                        Outcome::Stored(seen.seq)
                    }
                    Err(error) => cleared(Err(error)),
                }
            }
            Deed::Look { key: number } => {
                let seen = Lease::look(bus, &key(*number)).await.unwrap();
                self.looked[*number].clone_from(&seen);
                Outcome::Shown(seen.map(|seen| (seen.seq, seen.holder.is_some().to_string())))
            }
            Deed::Revoke { key: number } => match &self.looked[*number] {
                Some(seen) => cleared(Lease::revoke(bus, &key(*number), Some(seen)).await),
                None => Outcome::Nothing,
            },
            Deed::Own { .. }
            | Deed::Commit { .. }
            | Deed::Seal(_)
            | Deed::Claim { .. }
            | Deed::Move { .. }
            | Deed::Open { .. }
            | Deed::Append { .. }
            | Deed::Read { .. } => Outcome::Nothing,
        }
    }
}
