//! The sessions a host runs now: which actor is whose, and which run belongs to which. Orders
//! of the owner are passed on to the actor they name; nothing is decided here.

use std::collections::{HashMap, HashSet};

use ractor::{Actor, ActorId, ActorRef};
use tetrarch_core::hosted::SessionInput;
use tetrarch_core::id::{AgentId, Principal, RequestId, RunId, SessionId};
use tetrarch_core::mail::{Duty, Launch, Mail, MailBody, SessionOrder};
use tetrarch_core::order::{Observed, Order, RunnerEvent};
use tetrarch_core::request::Report;
use tetrarch_core::vitals::Vitals;
use tetrarch_failpoint::{Failpoint, reach, reach_if};
use tokio::sync::{mpsc, watch};

use crate::agent::{AgentActor, AgentArgs, AgentMsg};
use crate::error::{EngineError, EngineResult};
use crate::interaction::{InteractionActor, InteractionMsg};
use crate::project::{ProjectActor, ProjectArgs, ProjectMsg};
use crate::pulse::Pulse;
use crate::session::{Admitted, Session, Shared};
use crate::tree::{ActorTree, ChildExit};

/// The actor of a session.
enum SessionActor {
    Agent(ActorRef<AgentMsg>, RunId),
    Project(ActorRef<ProjectMsg>),
    Interaction(ActorRef<InteractionMsg>),
}

impl SessionActor {
    fn id(&self) -> ActorId {
        match self {
            Self::Agent(actor, _) => actor.get_id(),
            Self::Project(actor) => actor.get_id(),
            Self::Interaction(actor) => actor.get_id(),
        }
    }
}

struct RosterEntry {
    session: SessionId,
    epoch: u64,
    actor: SessionActor,
    pulse: watch::Receiver<Pulse>,
    /// Why it was ordered to end, when its own actor does not say that it did.
    ordered: Option<String>,
}

/// The sessions a host runs now.
pub(super) struct Roster {
    own: Session,
    tree: ActorTree,
    orders: mpsc::Sender<Order>,
    sessions: HashMap<AgentId, RosterEntry>,
    runs: HashMap<RunId, AgentId>,
    /// Runs whose actor failed and whose program is being killed: whose they are, and why.
    dying: HashMap<RunId, (Session, String)>,
    actors: HashMap<ActorId, AgentId>,
    reports: usize,
    /// This life ends: what is ordered to begin is for the next.
    draining: bool,
}

impl Roster {
    /// A roster that is empty.
    pub(super) fn new(own: Session, tree: ActorTree, orders: mpsc::Sender<Order>) -> Self {
        Self {
            own,
            tree,
            orders,
            sessions: HashMap::new(),
            runs: HashMap::new(),
            dying: HashMap::new(),
            actors: HashMap::new(),
            reports: 0,
            draining: false,
        }
    }

    fn shared(&self) -> Shared {
        self.own.shared.clone()
    }

    /// A message to the host orchestrator itself.
    pub(super) async fn read(&mut self, admitted: Admitted) -> EngineResult {
        let Admitted { mail, from, ledger_seq, .. } = admitted;
        let Mail { body, trace, .. } = mail.clone();
        match body {
            MailBody::Launch(launch) => self.launch(*launch, ledger_seq, trace).await?,
            MailBody::Apply(order) if order.host_epoch != self.own.shared.claim.host_epoch => {
                tracing::debug!(change = %order.change, "a merge order for another life");
            }
            MailBody::Apply(order) => {
                // A runner that is gone ends with this process; the next life is ordered again.
                let _gone = self.orders.send(Order::Apply(order)).await;
            }
            MailBody::Kill(order) | MailBody::Rotate(order) => {
                self.end_session(&order, from, mail).await?;
            }
            MailBody::Superseded(order) | MailBody::Stop(order) => {
                self.pass_on(&order, from, mail);
            }
            MailBody::SpawnAnswer(_)
            | MailBody::Sponsor(_)
            | MailBody::SponsorAnswer(_)
            | MailBody::TakeOn { .. }
            | MailBody::TurnDue(_)
            | MailBody::ResultReady(_)
            | MailBody::AgentCompleted { .. }
            | MailBody::Violation { .. }
            | MailBody::Alert { .. }
            | MailBody::AgentLost { .. }
            | MailBody::Question { .. }
            | MailBody::Answer { .. }
            | MailBody::Reply(_)
            | MailBody::StatusRequest(_)
            | MailBody::Verb(_)
            | MailBody::BudgetRaised(_)
            | MailBody::ReviewNeeded { .. }
            | MailBody::SponsorSilent { .. }
            | MailBody::Receipt(_)
            | MailBody::Dead(_)
            | MailBody::Info { .. }
            | MailBody::Unknown { .. } => {
                tracing::debug!(topic = mail.body.topic(), %from, "noted");
            }
        }
        Ok(())
    }

    /// Seats a session, unless the order is for another life of this host or has come before.
    async fn launch(
        &mut self,
        launch: Launch,
        ledger_seq: u64,
        trace: Option<String>,
    ) -> EngineResult {
        let ours = launch.host_epoch == self.own.shared.claim.host_epoch;
        let known = self.sessions.get(&launch.agent);
        let late = self.draining || known.is_some_and(|entry| entry.epoch >= launch.epoch);
        if !ours || late {
            tracing::debug!(agent = %launch.agent, "a launch order for another life or session");
            return Ok(());
        }
        reach_if(Failpoint::LaunchRead, || matches!(launch.duty, Duty::Run(_)));
        let (agent, session, epoch) = (launch.agent.clone(), launch.session, launch.epoch);
        let supervisor = self.tree.supervisor();
        self.own.shared.correspondents.seat(&launch);
        let failed = |error: ractor::SpawnErr| EngineError::Actor("session", error.to_string());
        let (tell, pulse) = watch::channel(Pulse::default());
        let actor = match launch.duty.clone() {
            Duty::Run(run) => {
                let id = run.id;
                let args = AgentArgs {
                    shared: self.shared(),
                    launch,
                    run,
                    ledger_seq,
                    orders: self.orders.clone(),
                    trace,
                    pulse: tell,
                };
                let spawned = Actor::spawn_linked(None, AgentActor, args, supervisor).await;
                self.runs.insert(id, agent.clone());
                SessionActor::Agent(spawned.map_err(failed)?.0, id)
            }
            Duty::Project(epics) => {
                let args = ProjectArgs { shared: self.shared(), launch, epics, trace, pulse: tell };
                let spawned = Actor::spawn_linked(None, ProjectActor, args, supervisor).await;
                SessionActor::Project(spawned.map_err(failed)?.0)
            }
            Duty::Human(_) => {
                let args = (self.shared(), launch, tell);
                let spawned = Actor::spawn_linked(None, InteractionActor, args, supervisor).await;
                SessionActor::Interaction(spawned.map_err(failed)?.0)
            }
        };
        self.actors.insert(actor.id(), agent.clone());
        self.sessions.insert(agent, RosterEntry { session, epoch, actor, pulse, ordered: None });
        Ok(())
    }

    /// Ends a session, of which the owner waits to hear that it is gone. What is not here is.
    async fn end_session(
        &mut self,
        order: &SessionOrder,
        from: Principal,
        mail: Mail,
    ) -> EngineResult {
        let SessionOrder { agent, session: Some(session), epoch, reason, .. } = order.clone()
        else {
            self.pass_on(order, from, mail);
            return Ok(());
        };
        reach(Failpoint::EndRead);
        if let Some(entry) = self.sessions.get_mut(&agent) {
            let by_itself = matches!(entry.actor, SessionActor::Agent(..));
            if entry.session == session && !by_itself {
                entry.ordered = Some(reason);
            }
            self.pass_on(order, from, mail);
            return Ok(());
        }
        let own = order.is_told_by(self.own.shared.claim.host_epoch);
        if !own || self.dying.values().any(|(lost, _)| lost.session == session) {
            return Ok(());
        }
        let who = Session { agent, session, epoch, ..self.own.clone() };
        self.report(&who, &Report::Gone { cause: reason }).await
    }

    /// An order about a session that runs here, if it still is the one that is meant.
    fn pass_on(&self, order: &SessionOrder, from: Principal, mail: Mail) {
        let Some(entry) = self.sessions.get(&order.agent) else { return };
        if order.session.is_some_and(|session| session != entry.session) {
            return;
        }
        // An actor that has ended needs no order.
        match &entry.actor {
            SessionActor::Agent(actor, _) => {
                let input = SessionInput::Mail {
                    from,
                    mail: Box::new(mail),
                    json: String::new(),
                    place: 0,
                };
                let _ended = actor.cast(AgentMsg::Forwarded(Box::new(input)));
            }
            SessionActor::Project(actor) => drop(actor.cast(ProjectMsg::End)),
            SessionActor::Interaction(actor) => drop(actor.cast(InteractionMsg::End)),
        }
    }

    /// Something the runner saw.
    pub(super) async fn observe(&mut self, seen: Observed) -> EngineResult {
        if let RunnerEvent::Settled { change, outcome } = seen.event {
            let own = self.own.clone();
            return self.report(&own, &Report::Settled { change, outcome }).await;
        }
        if is_end(&seen.event)
            && let Some((lost, cause)) = self.dying.remove(&seen.run)
        {
            return self.report(&lost, &Report::Crashed { cause }).await;
        }
        let entry = self.runs.get(&seen.run).and_then(|agent| self.sessions.get(agent));
        if let Some(RosterEntry { actor: SessionActor::Agent(actor, _), .. }) = entry {
            // An actor that has ended has seen enough.
            let _ended = actor.cast(AgentMsg::Runner(seen));
        }
        Ok(())
    }

    /// The next actor that ends.
    pub(super) async fn ended(&mut self) -> Option<ChildExit> {
        self.tree.ended().await
    }

    /// Forgets a session; one whose actor failed is reported, its program killed.
    pub(super) async fn close(&mut self, ended: Option<ChildExit>) -> EngineResult {
        let Some(ended) = ended else {
            return Err(EngineError::ActorDied("root".to_owned(), "it ended".to_owned()));
        };
        let Some(agent) = self.actors.remove(&ended.actor) else { return Ok(()) };
        let current = self.sessions.get(&agent).is_some_and(|s| s.actor.id() == ended.actor);
        if !current {
            return Ok(());
        }
        let Some(entry) = self.sessions.remove(&agent) else { return Ok(()) };
        self.own.shared.correspondents.unseat(&agent);
        if let SessionActor::Agent(_, run) = &entry.actor {
            self.runs.remove(run);
        }
        let (session, epoch) = (entry.session, entry.epoch);
        let lost = Session { agent, session, epoch, ..self.own.clone() };
        if let Some(cause) = entry.ordered {
            return self.report(&lost, &Report::Gone { cause }).await;
        }
        let Some(failure) = ended.failure else { return Ok(()) };
        tracing::error!(agent = %lost.agent, %failure, "the actor of a session failed");
        if let SessionActor::Agent(_, run) = entry.actor {
            // Its next session may start only when its program is gone.
            self.dying.insert(run, (lost, failure));
            // A runner that is gone ends with this process.
            let _gone = self.orders.send(Order::Kill { run }).await;
            return Ok(());
        }
        self.report(&lost, &Report::Crashed { cause: failure }).await
    }

    async fn report(&mut self, who: &Session, report: &Report) -> EngineResult {
        self.reports += 1;
        let now = who.shared.clock.now();
        let seed = format!("{} {}", self.own.session, who.session);
        let id = RequestId::derive(now, &seed, report.kind(), self.reports);
        who.report(id, report).await
    }

    /// A row for every session, for the lease.
    pub(super) fn vitals(&self) -> Vec<Vitals> {
        let rows = self.sessions.iter().map(|(agent, entry)| {
            let Pulse { run_state, positions, progress, usage, turns, burn, activity } =
                entry.pulse.borrow().clone();
            Vitals {
                agent: agent.clone(),
                session: entry.session,
                epoch: entry.epoch,
                run_state,
                positions,
                progress,
                tokens: usage.tokens_in.saturating_add(usage.tokens_out),
                tokens_out: usage.tokens_out,
                turns,
                cost_micro: usage.cost_micro,
                burn,
                tool: activity.tool().to_owned(),
                words: activity.words().to_owned(),
            }
        });
        rows.collect()
    }

    /// Says that this life ends: the owner finds another place for what ran here, or waits for
    /// the next join.
    pub(super) async fn leave(&mut self) {
        let own = self.own.clone();
        let gone = Report::Gone { cause: "the host was stopped".to_owned() };
        let farewell = self.report(&own, &gone);
        // A bus that is gone as well hears it from the next join.
        let _unheard = tokio::time::timeout(std::time::Duration::from_secs(2), farewell).await;
    }

    /// Has every program come to a boundary, since this life ends. No session is seated any more.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        for entry in self.sessions.values() {
            if let SessionActor::Agent(actor, _) = &entry.actor {
                // An actor that has ended needs no word.
                let _ended = actor.cast(AgentMsg::Forwarded(Box::new(SessionInput::HostStops)));
            }
        }
    }

    /// Whether a program may still run here.
    pub(super) fn runs_programs(&self) -> bool {
        let agents = self.sessions.values().any(|it| matches!(it.actor, SessionActor::Agent(..)));
        agents || !self.dying.is_empty()
    }

    /// Ends every actor, then every program, and returns when none is left.
    ///
    /// # Errors
    /// The runner ended before it said so of every program.
    pub(super) async fn end(&mut self, observed: &mut mpsc::Receiver<Observed>) -> EngineResult {
        self.tree.stop().await;
        self.sessions.clear();
        let mut left: HashSet<RunId> = self.runs.drain().map(|(run, _)| run).collect();
        left.extend(self.dying.drain().map(|(run, _)| run));
        for run in &left {
            // A runner that is gone has ended them.
            let _gone = self.orders.send(Order::Kill { run: *run }).await;
        }
        until_ended(left, observed).await
    }
}

/// Waits for the ends of runs.
async fn until_ended(
    mut left: HashSet<RunId>,
    observed: &mut mpsc::Receiver<Observed>,
) -> EngineResult {
    while !left.is_empty() {
        let seen = observed.recv().await.ok_or_else(runner_ended)?;
        if is_end(&seen.event) {
            left.remove(&seen.run);
        }
    }
    Ok(())
}

/// The runner ended by itself: nobody knows what of its programs is left.
pub(super) fn runner_ended() -> EngineError {
    EngineError::ActorDied("runner".to_owned(), "it ended before its host".to_owned())
}

/// Whether nothing of a run follows.
fn is_end(event: &RunnerEvent) -> bool {
    matches!(event, RunnerEvent::Exited { .. } | RunnerEvent::SpawnFailed { .. })
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::Ulid;
    use tetrarch_core::order::Exit;

    use super::*;

    #[tokio::test]
    async fn early_end_of_a_runner_does_not_end_its_runs() {
        let [one, other] = [1, 2].map(|run| RunId(Ulid(run)));
        let exited = |run| Observed {
            run,
            event: RunnerEvent::Exited { exit: Exit::Code(0), result: None },
            place: Box::new(()),
        };
        for (ends, all) in [(vec![one], false), (vec![one, other], true)] {
            let (tell, mut observed) = mpsc::channel(2);
            for run in ends {
                tell.send(exited(run)).await.unwrap();
            }
            drop(tell);
            let ended = until_ended([one, other].into(), &mut observed).await;
            assert_eq!(ended.is_ok(), all, "{ended:?}");
        }
    }
}
