//! When a session is due next, and what its host is told of it in its heartbeats.

use ractor::ActorRef;

use super::{AgentMsg, AgentState};
use crate::pulse::Pulse;
use crate::pump::Pump;

impl AgentState {
    pub(super) fn tell_pulse(&mut self) {
        self.burn.note(self.session.shared.clock.now(), self.machine.usage().spend());
        self.pulse.send_replace(Pulse {
            run_state: Some(self.machine.run_state()),
            positions: self.positions(),
            progress: self.machine.progress(),
            usage: self.machine.usage(),
            burn: self.burn.clone(),
            activity: self.machine.activity().clone(),
        });
        let holds = self.machine.holds_mail();
        self.hold.send_if_modified(|held| std::mem::replace(held, holds) != holds);
    }

    pub(super) fn set_timer(&mut self, myself: &ActorRef<AgentMsg>) {
        let Some(at) = self.machine.next_deadline() else {
            self.timer = None;
            return;
        };
        let (wait, to) = (self.session.shared.clock.until(at), myself.clone());
        self.timer = Some(Pump::run(async move {
            tokio::time::sleep(wait).await;
            // An actor that ended needs no timer.
            let _ended = to.cast(AgentMsg::Tick);
        }));
    }
}
