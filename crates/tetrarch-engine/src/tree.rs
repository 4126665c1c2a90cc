//! The supervision tree: every actor is linked below the root of its process, whose one answer
//! to a child's end is to tell the process. ractor's default handler would stop the parent when
//! any child ends; it is overridden here and nowhere else.

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::mpsc;

use crate::error::{EngineError, EngineResult};

/// A child that ended.
#[derive(Debug)]
pub(crate) struct ChildExit {
    /// Which actor.
    pub(crate) actor: ractor::ActorId,
    /// Why, when it did not end by itself.
    pub(crate) failure: Option<String>,
}

/// Children's ends that wait to be read; the reader's own actors are what ends.
const ENDS_KEPT: usize = 4096;

struct Root;

impl Actor for Root {
    type Msg = ();
    type State = mpsc::Sender<ChildExit>;
    type Arguments = mpsc::Sender<ChildExit>;

    async fn pre_start(
        &self,
        _myself: ActorRef<()>,
        ended: mpsc::Sender<ChildExit>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(ended)
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<()>,
        event: SupervisionEvent,
        ended: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let end = match event {
            SupervisionEvent::ActorTerminated(cell, _, _) => {
                ChildExit { actor: cell.get_id(), failure: None }
            }
            SupervisionEvent::ActorFailed(cell, error) => {
                ChildExit { actor: cell.get_id(), failure: Some(error.to_string()) }
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {
                return Ok(());
            }
        };
        // Nobody reads any more when the process itself is ending.
        let _ending = ended.send(end).await;
        Ok(())
    }
}

/// The root of a process's tree.
pub(crate) struct ActorTree {
    root: ActorRef<()>,
    ended: mpsc::Receiver<ChildExit>,
}

impl ActorTree {
    /// Starts the root.
    pub(crate) async fn start() -> EngineResult<Self> {
        let (tell, ended) = mpsc::channel(ENDS_KEPT);
        let (root, _) = Actor::spawn(None, Root, tell)
            .await
            .map_err(|error| EngineError::Actor("root", error.to_string()))?;
        Ok(Self { root, ended })
    }

    /// What children are linked to.
    pub(crate) fn supervisor(&self) -> ActorCell {
        self.root.get_cell()
    }

    /// The next child that ends.
    pub(crate) async fn ended(&mut self) -> Option<ChildExit> {
        self.ended.recv().await
    }

    /// Stops the root and everything below it.
    pub(crate) async fn stop(&self) {
        self.root.get_cell().stop_children_and_wait(None, None).await;
        self.root.stop(None);
        // A root that already ended has nothing to wait for.
        let _ended = self.root.get_cell().wait(None).await;
    }
}

/// A tree whose process was told to end, or lost its lease, is given up wherever it is: nothing
/// below it may act any more.
impl Drop for ActorTree {
    fn drop(&mut self) {
        let root = self.root.get_cell();
        for child in root.get_children() {
            child.kill();
        }
        root.kill();
    }
}
