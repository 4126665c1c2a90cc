//! Who may write to a hosted agent: the records of both sides, as STATE has them, judged by
//! core's rule (spec 02, Mail). STATE lags behind mail, so a sender it does not know yet is
//! looked up again before it is refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tetrarch_bus::Bus;
use tetrarch_bus::retry::Retry;
use tetrarch_bus::state::{Select, read_records};
use tetrarch_core::agent::Agent;
use tetrarch_core::id::{AgentId, Principal};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::mail::{Lane, Standing, may_mail};
use tetrarch_core::request::Sender;

/// How long STATE may lag behind mail before a sender counts as unknown.
const LAG_MAX: Duration = Duration::from_secs(5);

/// Agents whose ancestors are remembered; all are forgotten when they are more.
const REMEMBERED: usize = 10_000;

/// The records of who writes to whom.
#[derive(Clone)]
pub(crate) struct Correspondents {
    bus: Bus,
    /// The ancestors of agents, nearest first: a parent never changes (spec 04, replacement).
    ancestors: Arc<Mutex<HashMap<AgentId, Vec<AgentId>>>>,
}

impl Correspondents {
    /// Reads them from STATE.
    pub(crate) fn new(bus: Bus) -> Self {
        Self { bus, ancestors: Arc::default() }
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
        let mut retry = Retry::until(LAG_MAX);
        loop {
            match self.judge(sender, from, to, lane).await {
                Ok(verdict) => return verdict,
                Err(reason) => {
                    if !retry.pause().await {
                        return Err(reason);
                    }
                }
            }
        }
    }

    /// The verdict, or why there is none yet.
    async fn judge(
        &self,
        sender: &Sender,
        from: &AgentId,
        to: &AgentId,
        lane: Lane,
    ) -> Result<Result<(), String>, String> {
        let found = self.agents(&[from, to]).await?;
        let (writer, reader) = (known(&found, from)?, known(&found, to)?);
        if writer.epoch < sender.epoch {
            return Err(format!("epoch {} of {from} is not known", sender.epoch));
        }
        if writer.epoch > sender.epoch {
            return Ok(Err(format!("superseded: epoch {} of {from} is over", sender.epoch)));
        }
        let placed = writer.placement.as_ref().map(|placement| &placement.host);
        if sender.via.is_some() && sender.via.as_ref() != placed {
            return Ok(Err(format!("{from} is not placed on the host that publishes for it")));
        }
        let (writer, reader) = (self.standing(writer).await?, self.standing(reader).await?);
        Ok(may_mail(&writer, &reader, lane).map_err(|error| error.to_string()))
    }

    async fn standing(&self, agent: Agent) -> Result<Standing, String> {
        let Agent { id, parent, project, .. } = agent;
        if let Some(ancestors) = self.remembered().get(&id).cloned() {
            return Ok(Standing { id, ancestors, project });
        }
        let mut ancestors = Vec::new();
        let mut next = parent;
        while let Some(id) = next {
            next = known(&self.agents(&[&id]).await?, &id)?.parent;
            ancestors.push(id);
        }
        let mut remembered = self.remembered();
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(id.clone(), ancestors.clone());
        Ok(Standing { id, ancestors, project })
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<AgentId, Vec<AgentId>>> {
        self.ancestors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn agents(&self, ids: &[&AgentId]) -> Result<HashMap<AgentId, Agent>, String> {
        let one = |id: &&AgentId| Select::One(RecordKey::Agent((*id).clone()));
        let wanted: Vec<Select> = ids.iter().map(one).collect();
        let found = read_records(&self.bus, &wanted).await.map_err(|error| error.to_string())?;
        let agents = found.records.into_iter().filter_map(|(record, _)| {
            if let Record::Agent(agent) = record { Some((agent.id.clone(), *agent)) } else { None }
        });
        Ok(agents.collect())
    }
}

fn known(found: &HashMap<AgentId, Agent>, id: &AgentId) -> Result<Agent, String> {
    found.get(id).cloned().ok_or_else(|| format!("no agent {id} is known"))
}
