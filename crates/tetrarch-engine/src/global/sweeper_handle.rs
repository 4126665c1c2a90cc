//! What the sweeper has yet to be told: hosts whose leases are to be taken, and agents whose records changed. As
//! long as it is behind, it is told later, of each agent as it then is.

use std::collections::BTreeSet;

use tetrarch_core::detector::FailureDetector;
use tetrarch_core::id::{AgentId, HostName};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::records::Records;
use tokio::sync::mpsc;

use super::sweeping::SweeperMsg;

/// The owner's word to the sweeper. Should a commit be refused, the term ends and its sweeper with it.
#[derive(Debug)]
pub(super) struct SweeperHandle {
    sweeper: mpsc::Sender<SweeperMsg>,
    revoked: BTreeSet<(HostName, u64)>,
    untold: BTreeSet<AgentId>,
}

impl SweeperHandle {
    /// Has told nothing.
    pub(super) fn new(sweeper: mpsc::Sender<SweeperMsg>) -> Self {
        Self { sweeper, revoked: BTreeSet::new(), untold: BTreeSet::new() }
    }

    /// Notes of whom there is news.
    pub(super) fn note(&mut self, entry: &Entry) {
        for record in &entry.records {
            if let Record::Agent(agent) = record
                && FailureDetector::watches(agent)
            {
                self.untold.insert(agent.id.clone());
            }
        }
    }

    /// Notes that the lease of this life of a host is to be taken.
    pub(super) fn revoke(&mut self, host: HostName, epoch: u64) {
        self.revoked.insert((host, epoch));
    }

    /// Tells as much as the sweeper takes now; the rest the next time.
    pub(super) fn tell(&mut self, records: &Records) {
        while let Some((host, epoch)) = self.revoked.first() {
            if self.sweeper.try_send(SweeperMsg::Revoke(host.clone(), *epoch)).is_err() {
                tracing::error!(%host, "the sweeper is busy; it gets the order to revoke a lease later");
                return;
            }
            self.revoked.pop_first();
        }
        while let Some(next) = self.untold.first() {
            if let Some(agent) = records.agents.get(next) {
                let told = self.sweeper.try_send(SweeperMsg::Changed(Box::new(agent.clone())));
                if told.is_err() {
                    tracing::warn!(
                        left = self.untold.len(),
                        "the sweeper is busy; it gets the changes later"
                    );
                    return;
                }
            }
            self.untold.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::{CommitId, HostName, Principal, RequestId, Ulid};
    use tetrarch_core::owner::{Group, Input, Policy, decide};
    use tetrarch_core::request::{HostJoin, Op, Request, RequestBody, Sender};
    use tetrarch_core::time::BusTime;

    use super::*;

    fn joins(number: u8) -> Input {
        let host = HostName::new(&format!("h{number}")).unwrap();
        let from = Principal::Agent(AgentId::Ho(host.clone()));
        let join = HostJoin {
            instance: host.to_string(),
            lease_epoch: 1,
            labels: Vec::new(),
            capacity: 1,
            address: "here".to_owned(),
        };
        Input::Request(Box::new(Request {
            seq: u64::from(number),
            sender: Sender { from, via: Some(host), session: None, epoch: 1 },
            id: RequestId(Ulid(u128::from(number))),
            digest: String::new(),
            trace: None,
            credential: None,
            body: RequestBody::Op(Op::HostJoin(join)),
        }))
    }

    /// The hosts that the sweeper was told of.
    fn told(receiver: &mut mpsc::Receiver<SweeperMsg>) -> Vec<String> {
        let told = std::iter::from_fn(|| receiver.try_recv().ok());
        told.map(|told| {
            let SweeperMsg::Changed(agent) = told else { panic!("{told:?}") };
            agent.id.to_string()
        })
        .collect()
    }

    #[test]
    fn lagging_sweeper_is_told_of_everybody_later() {
        let (mut records, mut group, now) = (Records::default(), Group::default(), BusTime(1));
        let started = Input::Started { epoch: 1, instance: "here".to_owned() };
        for input in [started, joins(1), joins(2), joins(3)] {
            let step = decide(&records, &Policy::default(), now, &input);
            group.add(&mut records, step, 0);
        }
        let entry = group.finish(&mut records, CommitId(Ulid(1)), 1, now);
        let (sweeper, mut receiver) = mpsc::channel(1);
        let mut sweeper_handle = SweeperHandle::new(sweeper);
        sweeper_handle.note(&entry);
        for host in ["HO@h1", "HO@h2", "HO@h3"] {
            sweeper_handle.tell(&records);
            assert_eq!(told(&mut receiver), [host]);
        }
        sweeper_handle.tell(&records);
        assert!(told(&mut receiver).is_empty(), "of each once");
    }
}
