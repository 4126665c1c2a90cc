//! Verbs for a program, on their way to it and back (spec 06, The three verbs): what it is told,
//! that all of it stands still and runs again, and the receipts. What it takes is `takes`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tetrarch_core::id::RequestId;
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::verb::{Command, Stage, Verb};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::feed::LineDelivery;
use super::takes::{Takes, VerbAction};
use super::{ProgramRun, at};
use crate::adapter::AgentDelivery;
use crate::fence::Fence;
use crate::sweep::Traces;

/// Receipts that wait to be told.
pub(super) const RECEIPTS_MAX: usize = 64;
/// Time between two looks at what stands still: what escaped the freezing, and what somebody else
/// let run, the guard after a lease that was over for a while.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// What the output tells of verbs.
#[derive(Debug)]
pub(super) struct VerbChannels {
    /// What the program takes, once it has said so.
    pub(super) takes: watch::Receiver<Option<BTreeSet<Verb>>>,
    /// What it has taken.
    pub(super) taken: mpsc::Receiver<RequestId>,
}

/// Where a run's verbs are.
#[derive(Debug)]
pub(super) struct VerbRelay {
    commands: mpsc::Receiver<Command>,
    open: (bool, bool, bool, bool),
    said: VerbChannels,
    deliveries: mpsc::Receiver<LineDelivery>,
    receipts: mpsc::Sender<RunnerEvent>,
    takes: Takes,
    /// Pauses, resumes and interrupts that the program itself was told.
    holding: BTreeMap<RequestId, Verb>,
    traces: Traces,
    /// Around what stands still.
    fence: Option<Fence>,
    look_at: Instant,
}

/// Something that happened to the verbs of a run.
#[derive(Debug)]
pub(super) enum VerbEvent {
    Asked(Command),
    Declared(BTreeSet<Verb>),
    Taken(RequestId),
    Delivery(LineDelivery),
    Due,
    Look,
    Nothing,
}

impl VerbRelay {
    /// The verbs of a run that starts now.
    pub(super) fn new(
        commands: mpsc::Receiver<Command>,
        said: VerbChannels,
        deliveries: mpsc::Receiver<LineDelivery>,
        receipts: mpsc::Sender<RunnerEvent>,
        traces: Traces,
    ) -> Self {
        let now = Instant::now();
        Self {
            commands,
            open: (true, true, true, true),
            said,
            deliveries,
            receipts,
            takes: Takes::new(now),
            holding: BTreeMap::new(),
            traces,
            fence: None,
            look_at: now,
        }
    }

    /// What happens next. Safe to drop.
    pub(super) async fn next(&mut self) -> VerbEvent {
        let due = self.takes.next_deadline();
        let look = self.fence.as_ref().map(|_| self.look_at);
        let (commands, takes, taken, deliveries) = &mut self.open;
        tokio::select! {
            command = self.commands.recv(), if *commands => {
                *commands = command.is_some();
                command.map_or(VerbEvent::Nothing, VerbEvent::Asked)
            }
            changed = self.said.takes.changed(), if *takes => {
                *takes = changed.is_ok();
                let said = self.said.takes.borrow_and_update().clone();
                said.map_or(VerbEvent::Nothing, VerbEvent::Declared)
            }
            id = self.said.taken.recv(), if *taken => {
                *taken = id.is_some();
                id.map_or(VerbEvent::Nothing, VerbEvent::Taken)
            }
            delivery = self.deliveries.recv(), if *deliveries => {
                *deliveries = delivery.is_some();
                delivery.map_or(VerbEvent::Nothing, VerbEvent::Delivery)
            }
            () = at(due), if due.is_some() => VerbEvent::Due,
            () = at(look), if look.is_some() => VerbEvent::Look,
            else => std::future::pending().await,
        }
    }

    /// Tells how far a verb has come.
    fn receipt(&self, id: RequestId, stage: Stage, why: impl Into<String>) {
        self.tell(RunnerEvent::Receipt { id, stage, why: why.into() });
    }

    /// Tells something beside what the program says.
    pub(super) fn tell(&self, event: RunnerEvent) {
        if let Err(refused) = self.receipts.try_send(event) {
            tracing::warn!(%refused, "a receipt or status was dropped");
        }
    }

    /// Freezes all there is; false when nothing is there. Again: what has escaped meanwhile.
    async fn freeze(&mut self) -> bool {
        let mut fence = self.fence.take().unwrap_or_else(|| Fence::of(self.traces.clone()));
        let frozen = tokio::task::spawn_blocking(move || {
            let any = fence.freeze();
            if !any {
                fence.thaw();
            }
            any.then_some(fence)
        });
        self.fence = frozen.await.unwrap_or_else(|cause| {
            tracing::error!(%cause, "a run could not be frozen");
            None
        });
        self.look_at = Instant::now() + LOOK_PAUSE;
        self.fence.is_some()
    }

    /// Lets all of it run, when it stands still.
    async fn thaw(&mut self) {
        self.takes.runs();
        let Some(mut fence) = self.fence.take() else { return };
        if let Err(cause) = tokio::task::spawn_blocking(move || fence.thaw()).await {
            tracing::error!(%cause, "a run could not be let run again");
        }
    }
}

impl ProgramRun {
    /// Takes what happened to the verbs.
    pub(super) async fn turn(&mut self, turn: VerbEvent) {
        let now = Instant::now();
        let deeds = match turn {
            VerbEvent::Asked(command) => self.relay.takes.ask(now, command),
            VerbEvent::Declared(verbs) => self.relay.takes.declare(now, verbs),
            VerbEvent::Due => self.relay.takes.due(now),
            VerbEvent::Taken(id) => {
                match self.relay.holding.remove(&id) {
                    // Its clock stands only while it cannot go on, whatever it says.
                    Some(Verb::Pause) if self.ladder.is_free() && self.relay.freeze().await => {
                        self.ladder.stand_still(now);
                    }
                    // It waits for people, who have a deadline of their own.
                    Some(Verb::Interrupt) => self.ladder.in_turn(None),
                    Some(Verb::Pause | Verb::Resume | Verb::Steer) | None => {}
                }
                Vec::new()
            }
            VerbEvent::Delivery(LineDelivery { id, why: None }) => {
                self.relay.receipt(id, Stage::Delivered, "");
                Vec::new()
            }
            VerbEvent::Delivery(LineDelivery { id, why: Some(why) }) => {
                self.relay.receipt(id, Stage::Refused, why.to_string());
                Vec::new()
            }
            VerbEvent::Look => {
                self.relay.freeze().await;
                Vec::new()
            }
            VerbEvent::Nothing => Vec::new(),
        };
        for deed in deeds {
            self.perform(deed).await;
        }
    }

    async fn perform(&mut self, deed: VerbAction) {
        match deed {
            VerbAction::Tell(command) => {
                if command.wanted.verb() == Verb::Resume {
                    self.let_go().await;
                }
                self.tell_verb(&command);
            }
            VerbAction::Freeze(id) => {
                if self.ladder.is_free() && self.relay.freeze().await {
                    self.ladder.stand_still(Instant::now());
                    self.relay.receipt(id, Stage::Delivered, "");
                    self.relay.receipt(id, Stage::Effective, "");
                } else {
                    self.relay.takes.runs();
                    self.relay.receipt(id, Stage::Refused, "it is ending");
                }
            }
            VerbAction::Thaw(id) => {
                self.let_go().await;
                self.relay.receipt(id, Stage::Delivered, "");
                self.relay.receipt(id, Stage::Effective, "");
            }
            VerbAction::Refuse(id, why) => self.relay.receipt(id, Stage::Refused, why),
        }
    }

    /// It is to end, or to go on: nothing of it stands still any more.
    pub(super) async fn let_go(&mut self) {
        self.relay.thaw().await;
        self.ladder.go_on(Instant::now());
    }

    fn tell_verb(&mut self, command: &Command) {
        let (id, verb) = (command.id, command.wanted.verb());
        let Some(feed) = &self.feed else {
            return self.relay.receipt(id, Stage::Refused, "it has no stdin");
        };
        let told = match self.speech.verb(command) {
            AgentDelivery::Line(line) => feed.urge(id, line).map_err(|refused| refused.to_string()),
            AgentDelivery::Held => Ok(()),
            AgentDelivery::Done => {
                self.relay.receipt(id, Stage::Delivered, "");
                return self.relay.receipt(id, Stage::Effective, "");
            }
            AgentDelivery::Refused(why) => Err(why),
        };
        match told {
            Ok(()) => {
                self.ladder.was_given_a_line(Instant::now());
                if matches!(verb, Verb::Pause | Verb::Interrupt) {
                    self.relay.holding.insert(id, verb);
                }
            }
            Err(why) => self.relay.receipt(id, Stage::Refused, why),
        }
    }
}
