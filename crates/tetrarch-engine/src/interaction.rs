//! The shell of an interaction orchestrator: stands in for its human. It moves their turns through their graphs, as
//! core's `conversation` says, and passes on to them what else is written to it: questions, alerts, news. It executes
//! nothing.

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tetrarch_bus::cursor::Claimed;
use tetrarch_core::conversation::advance;
use tetrarch_core::id::{AgentId, RequestId};
use tetrarch_core::mail::{Launch, MailBody, passed_on};
use tetrarch_core::request::conversations::ConversationOp;
use tetrarch_core::request::{HOST_RESTART, Op, Report};
use tokio::sync::watch;

use crate::error::EngineResult;
use crate::pulse::Pulse;
use crate::pump::{FromBus, Pump};
use crate::reading::InboxReader;
use crate::session::{Admitted, CheckedMessage, Session, Shared};

/// What an interaction orchestrator's actor is told.
#[derive(Debug)]
pub(crate) enum InteractionMsg {
    /// Begin: claim and report.
    Begin,
    /// A message in its inbox; it ends when there can be no more.
    Incoming(FromBus<CheckedMessage>),
    /// Its session is over.
    End,
}

/// The actor.
pub(crate) struct InteractionActor;

/// Its state.
pub(crate) struct InteractionState {
    session: Session,
    reader: Option<InboxReader>,
    inbox: Option<Pump>,
    pulse: watch::Sender<Pulse>,
}

impl Actor for InteractionActor {
    type Msg = InteractionMsg;
    type State = InteractionState;
    type Arguments = (Shared, Launch, watch::Sender<Pulse>);

    async fn pre_start(
        &self,
        myself: ActorRef<InteractionMsg>,
        (shared, launch, pulse): Self::Arguments,
    ) -> Result<InteractionState, ActorProcessingErr> {
        let session = Session::hosted(shared, &launch, None);
        myself.cast(InteractionMsg::Begin)?;
        Ok(InteractionState { session, reader: None, inbox: None, pulse })
    }

    async fn handle(
        &self,
        myself: ActorRef<InteractionMsg>,
        message: InteractionMsg,
        state: &mut InteractionState,
    ) -> Result<(), ActorProcessingErr> {
        let goes_on = match message {
            InteractionMsg::Begin => Box::pin(state.begin(&myself)).await?,
            InteractionMsg::Incoming(incoming) => {
                Box::pin(state.read(*incoming?.item)).await?;
                true
            }
            InteractionMsg::End => false,
        };
        if !goes_on {
            myself.stop(None);
        }
        Ok(())
    }
}

impl InteractionState {
    async fn begin(&mut self, myself: &ActorRef<InteractionMsg>) -> EngineResult<bool> {
        let (cursor, seq) = match self.session.claim(None).await? {
            Claimed::Ours { cursor, seq, .. } => (cursor, seq),
            Claimed::EarlierLife { .. } => {
                self.report(&Report::Crashed { cause: HOST_RESTART.to_owned() }).await?;
                return Ok(false);
            }
            Claimed::DoNotStart { .. } => return Ok(false),
        };
        let reader = InboxReader::open(&self.session, cursor, seq, false).await?;
        let to = myself.clone();
        self.inbox = Some(Pump::inbox(reader.inbox(), self.session.clone(), move |it| {
            to.cast(InteractionMsg::Incoming(it)).is_ok()
        }));
        self.reader = Some(reader);
        self.report(&Report::Ready).await?;
        Ok(true)
    }

    async fn report(&self, report: &Report) -> EngineResult {
        let now = self.session.shared.clock.now();
        let seed = self.session.session.to_string();
        let id = RequestId::derive(now, &seed, report.kind(), 0);
        self.session.report(id, report).await
    }

    async fn read(&mut self, incoming: CheckedMessage) -> EngineResult {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let Some(Admitted { mail, from, place, .. }) = reader.take(incoming).await? else {
            return Ok(());
        };
        tracing::info!(%from, topic = mail.body.topic(), "for the human");
        if let MailBody::TurnDue(due) = &mail.body {
            // The move is a session's own: what is refused to one that is over is another's to make.
            let (seed, moved) = (format!("{} {}", self.session.session, due.turn), due.moved);
            let moved = usize::try_from(moved).unwrap_or(usize::MAX);
            let id = RequestId::derive(due.said, &seed, "move", moved);
            let op = Op::Conversation(ConversationOp::Move(Box::new(advance(due))));
            // It is part of what the person's line brings about.
            self.session.operate(id, &op, mail.trace.as_deref()).await?;
        } else if let AgentId::Io(human) = &self.session.agent
            && let Some(onward) = passed_on(mail, &from, human)
            // It stays in this inbox as well.
            && let Err(error) = self.session.write(&onward, &format!("onward.{place}")).await
        {
            tracing::warn!(%error, to = %onward.to, "a message was not passed on");
        }
        reader.settle();
        reader.write().await?;
        reader.kept().await?;
        let positions = reader.positions();
        self.pulse.send_modify(|pulse| {
            pulse.progress += 1;
            pulse.positions = positions;
        });
        Ok(())
    }
}
