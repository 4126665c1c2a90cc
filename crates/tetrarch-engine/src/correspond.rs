//! Who may write to a hosted agent: the records of both sides, as STATE has them, judged by
//! core's rule (spec 02, Mail). STATE lags behind mail, so a sender it does not know yet is
//! looked up again before it is refused.

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

/// The records of who writes to whom.
#[derive(Clone)]
pub(crate) struct Correspondents {
    bus: Bus,
}

impl Correspondents {
    /// Reads them from STATE.
    pub(crate) fn new(bus: Bus) -> Self {
        Self { bus }
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
        let writer = self.agent(from).await?;
        let reader = self.agent(to).await?;
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
        let mut ancestors = Vec::new();
        let mut next = agent.parent;
        while let Some(id) = next {
            let parent = self.agent(&id).await?.parent;
            ancestors.push(id);
            next = parent;
        }
        Ok(Standing { id: agent.id, ancestors, project: agent.project })
    }

    async fn agent(&self, id: &AgentId) -> Result<Agent, String> {
        let wanted = [Select::One(RecordKey::Agent(id.clone()))];
        let found = read_records(&self.bus, &wanted).await.map_err(|error| error.to_string())?;
        let agent = found.records.into_iter().find_map(|(record, _)| {
            if let Record::Agent(agent) = record { Some(*agent) } else { None }
        });
        agent.ok_or_else(|| format!("no agent {id} is known"))
    }
}
