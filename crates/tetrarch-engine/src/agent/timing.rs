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
            turns: self.machine.turns(),
            burn: self.burn.clone(),
            activity: self.machine.activity().clone(),
        });
        let holds = self.machine.holds_mail();
        self.hold.send_if_modified(|held| std::mem::replace(held, holds) != holds);
    }

    pub(super) fn set_timer(&mut self, myself: &ActorRef<AgentMsg>) {
        let clock = &self.session.shared.clock;
        self.timer = self
            .machine
            .next_deadline()
            .map(|at| Pump::after(clock.until(at), myself.clone(), AgentMsg::Tick));
    }
}
