//! The order by which a session's program is started: what its host's runner is told of it.

use crate::order::Start;

use super::HostedSession;

impl HostedSession {
    pub(super) fn start(&self) -> Start {
        Start {
            run: self.run.id,
            agent: self.launch.agent.clone(),
            session: self.launch.session,
            epoch: self.launch.epoch,
            parent: self.launch.parent.clone(),
            depth: self.launch.depth,
            project: self.launch.project.clone(),
            epic: self.run.epic,
            node: self.run.node,
            brief: self.run.brief.clone(),
            delegation: self.launch.delegation.clone(),
            first: self.first,
            checkpoint: self.checkpoint.clone(),
            recorded: self.recorded.clone(),
            returned: self.returned,
            trace: self.trace.clone(),
        }
    }
}
