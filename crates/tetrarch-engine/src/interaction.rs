//! The shell of an interaction orchestrator: stands in for its human. It takes in what is
//! written to it, so that questions and alerts stay readable in its inbox, and executes nothing.

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tetrarch_bus::cursor::Claimed;
use tetrarch_core::id::RequestId;
use tetrarch_core::mail::Launch;
use tetrarch_core::request::Report;
use tokio::sync::watch;

use crate::error::EngineError;
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
    async fn begin(&mut self, myself: &ActorRef<InteractionMsg>) -> Result<bool, EngineError> {
        let Claimed::Ours { cursor, seq } = self.session.claim(None).await? else {
            return Ok(false);
        };
        let (reader, inbox) = InboxReader::open(&self.session, cursor, seq, false).await?;
        let to = myself.clone();
        self.inbox = Some(Pump::inbox(inbox, self.session.clone(), move |it| {
            to.cast(InteractionMsg::Incoming(it)).is_ok()
        }));
        self.reader = Some(reader);
        let now = self.session.shared.clock.now();
        let id = RequestId::derive(now, &self.session.session.to_string(), "ready", 0);
        self.session.report(id, &Report::Ready).await?;
        Ok(true)
    }

    async fn read(&mut self, incoming: CheckedMessage) -> Result<(), EngineError> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let Some(Admitted { mail, from, .. }) = reader.take(incoming).await? else {
            return Ok(());
        };
        tracing::info!(%from, topic = mail.body.topic(), "for the human");
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
