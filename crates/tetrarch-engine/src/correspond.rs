//! Who may write to a hosted agent: both sides, as their launches said when this host runs them, else as STATE
//! has them, judged by core's rule (spec 02, Mail). STATE lags behind mail, so a sender it does not know yet is
//! looked up again before it is refused: once for each of its epochs, since it says itself which
//! epoch it has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tetrarch_bus::Bus;
use tetrarch_bus::retry::Retry;
use tetrarch_bus::state::{Select, read_records};
use tetrarch_core::agent::Agent;
use tetrarch_core::id::{AgentId, HostName, Principal, ProjectName};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::mail::{EpochClaim, Lane, Launch, Standing, claim, may_mail};
use tetrarch_core::request::Sender;
use tokio::time::Instant;

/// How long STATE may lag behind mail before a sender counts as unknown.
const LAG_MAX: Duration = Duration::from_secs(5);

/// First and longest wait between two looks.
const WAITS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// Agents of whom something is remembered; all are forgotten when they are more.
const REMEMBERED: usize = 10_000;

/// The records of who writes to whom.
#[derive(Clone)]
pub(crate) struct Correspondents {
    bus: Bus,
    host: HostName,
    /// The sessions that this host runs: they wait for no record.
    seated: Arc<Mutex<HashMap<AgentId, Party>>>,
    /// The ancestors of agents, nearest first: a parent never changes (spec 04, replacement).
    ancestors: Arc<Mutex<HashMap<AgentId, Vec<AgentId>>>>,
    waited: AwaitedSenders,
}

/// What is to be known of one side.
#[derive(Debug, Clone)]
struct Party {
    epoch: u64,
    parent: Option<AgentId>,
    project: Option<ProjectName>,
    host: Option<HostName>,
}

/// Why there is no verdict on a sender.
#[derive(Debug)]
enum UnknownSender {
    /// STATE has it in this epoch, an earlier one than it says.
    Ahead(u64, String),
    /// The rest, which may pass.
    Unread(String),
}

/// Senders that were waited for without STATE coming to know them, with the epochs it had them in.
#[derive(Debug, Clone, Default)]
struct AwaitedSenders(Arc<Mutex<HashMap<AgentId, u64>>>);

impl AwaitedSenders {
    /// The verdict on a sender, waited for as long as STATE may lag; at once when that was waited
    /// for already and STATE knows nothing newer of the sender.
    async fn verdict<F>(&self, from: &AgentId, mut judge: impl FnMut() -> F) -> Result<(), String>
    where
        F: Future<Output = Result<Result<(), String>, UnknownSender>>,
    {
        let (mut retry, until) = (Retry::new(WAITS.0, WAITS.1, None), Instant::now() + LAG_MAX);
        loop {
            let doubt = match judge().await {
                Ok(verdict) => return verdict,
                Err(doubt) => doubt,
            };
            if let UnknownSender::Ahead(known, reason) = &doubt
                && lock(&self.0).get(from) == Some(known)
            {
                return Err(reason.clone());
            }
            if Instant::now() < until && retry.pause().await {
                continue;
            }
            return Err(match doubt {
                UnknownSender::Ahead(known, reason) => {
                    remember(&mut lock(&self.0), from, known);
                    reason
                }
                UnknownSender::Unread(reason) => reason,
            });
        }
    }
}

impl Correspondents {
    /// Those of a host that runs nothing yet; others are read from STATE.
    pub(crate) fn new(bus: Bus, host: HostName) -> Self {
        let (seated, ancestors) = (Arc::default(), Arc::default());
        Self { bus, host, seated, ancestors, waited: AwaitedSenders::default() }
    }

    /// Notes a session that this host runs from now on.
    pub(crate) fn seat(&self, launch: &Launch) {
        let party = Party {
            epoch: launch.epoch,
            parent: Some(launch.parent.clone()),
            project: launch.project.clone(),
            host: Some(self.host.clone()),
        };
        lock(&self.seated).insert(launch.agent.clone(), party);
    }

    /// Notes that this host does not run an agent's session any more.
    pub(crate) fn unseat(&self, agent: &AgentId) {
        lock(&self.seated).remove(agent);
    }

    /// Whether this sender may write to an agent of ours; else why not. GO and humans are told
    /// apart by their credentials and may write to any.
    pub(crate) async fn may_write(
        &self,
        sender: &Sender,
        to: &AgentId,
        lane: Lane,
    ) -> Result<(), String> {
        let from = match &sender.from {
            Principal::Human(_) | Principal::Agent(AgentId::Go) => return Ok(()),
            Principal::Agent(from) => from,
        };
        if matches!(to, AgentId::Ho(_)) {
            // Nobody's parent, and of no project: no record is needed to refuse.
            let bare = |id: &AgentId| Standing { id: id.clone(), ancestors: vec![], project: None };
            return may_mail(&bare(from), &bare(to), lane).map_err(|error| error.to_string());
        }
        self.waited.verdict(from, || self.judge(sender, from, to, lane)).await
    }

    /// The verdict, or why there is none yet.
    async fn judge(
        &self,
        sender: &Sender,
        from: &AgentId,
        to: &AgentId,
        lane: Lane,
    ) -> Result<Result<(), String>, UnknownSender> {
        let seated = |id: &AgentId| lock(&self.seated).get(id).cloned();
        let current = |party: &Party| party.epoch == sender.epoch && sender.via == party.host;
        let (writer, reader) = (seated(from).filter(current), seated(to));
        let sides = [(from, writer.is_some()), (to, reader.is_some())];
        let unknown = sides.into_iter().filter(|(_, known)| !known).map(|(id, _)| id);
        let found = self.agents(&unknown.collect::<Vec<_>>()).await;
        let found = found.map_err(UnknownSender::Unread)?;
        let writer = writer.map_or_else(|| known(&found, from), Ok);
        let writer = writer.map_err(|reason| UnknownSender::Ahead(0, reason))?;
        let reader = reader.map_or_else(|| known(&found, to), Ok);
        let reader = reader.map_err(UnknownSender::Unread)?;
        let told = (writer.epoch, writer.host.clone());
        let writer = self.standing(from, writer).await.map_err(UnknownSender::Unread)?;
        let reader = self.standing(to, reader).await.map_err(UnknownSender::Unread)?;
        // No epoch changes whom an agent may write to: nobody is waited for who may not.
        if let Err(refused) = may_mail(&writer, &reader, lane) {
            return Ok(Err(refused.to_string()));
        }
        let (committed, host) = told;
        let unknown = format!("epoch {} of {from} is unknown", sender.epoch);
        match claim(committed, sender.epoch, sender.via.is_none()) {
            EpochClaim::Ahead => return Err(UnknownSender::Ahead(committed, unknown)),
            EpochClaim::Impossible => return Ok(Err(unknown)),
            EpochClaim::Over => {
                return Ok(Err(format!("superseded: epoch {} of {from} is over", sender.epoch)));
            }
            EpochClaim::Current => {}
        }
        if sender.via.is_some() && sender.via != host {
            return Ok(Err(format!("{from} is not placed on the host that publishes for it")));
        }
        Ok(Ok(()))
    }

    async fn standing(&self, id: &AgentId, party: Party) -> Result<Standing, String> {
        let (id, project) = (id.clone(), party.project);
        if let Some(ancestors) = lock(&self.ancestors).get(&id).cloned() {
            return Ok(Standing { id, ancestors, project });
        }
        let mut ancestors = Vec::new();
        let mut next = party.parent;
        while let Some(id) = next {
            let seated = lock(&self.seated).get(&id).cloned();
            next = match seated {
                Some(party) => party.parent,
                // Nobody is above it.
                None if id == AgentId::Go => None,
                None => known(&self.agents(&[&id]).await?, &id)?.parent,
            };
            ancestors.push(id);
        }
        remember(&mut lock(&self.ancestors), &id, ancestors.clone());
        Ok(Standing { id, ancestors, project })
    }

    async fn agents(&self, ids: &[&AgentId]) -> Result<HashMap<AgentId, Agent>, String> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let one = |id: &&AgentId| Select::One(RecordKey::Agent((*id).clone()));
        let wanted: Vec<Select> = ids.iter().map(one).collect();
        let found = read_records(&self.bus, &wanted).await.map_err(|error| error.to_string())?;
        let agents = found.records.into_iter().filter_map(|(record, _)| {
            if let Record::Agent(agent) = record { Some((agent.id.clone(), *agent)) } else { None }
        });
        Ok(agents.collect())
    }
}

fn lock<T>(remembered: &Mutex<T>) -> MutexGuard<'_, T> {
    remembered.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember<T>(remembered: &mut HashMap<AgentId, T>, agent: &AgentId, what: T) {
    if remembered.len() >= REMEMBERED {
        remembered.clear();
    }
    remembered.insert(agent.clone(), what);
}

fn known(found: &HashMap<AgentId, Agent>, id: &AgentId) -> Result<Party, String> {
    let agent = found.get(id).ok_or_else(|| format!("agent {id} was not found"))?;
    let Agent { epoch, parent, project, placement, .. } = agent;
    let host = placement.as_ref().map(|placement| placement.host.clone());
    Ok(Party { epoch: *epoch, parent: parent.clone(), project: project.clone(), host })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waited_for(waited: &AwaitedSenders, known: u64) -> Duration {
        let began = Instant::now();
        let from = "PO-a".parse().unwrap();
        let judge = async || Err(UnknownSender::Ahead(known, "epoch 99 is unknown".to_owned()));
        waited.verdict(&from, judge).await.unwrap_err();
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn sender_with_unknown_epoch_is_awaited_once_per_committed_epoch() {
        let waited = AwaitedSenders::default();
        for known in [1, 2] {
            assert!(waited_for(&waited, known).await >= LAG_MAX, "STATE may lag behind {known}");
            for _ in 0..3 {
                assert_eq!(waited_for(&waited, known).await, Duration::ZERO, "epoch {known}");
            }
        }
    }
}
