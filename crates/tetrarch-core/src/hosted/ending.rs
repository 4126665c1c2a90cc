//! How a session ends: its program has exited or died, every process of it is gone, or it is to be
//! killed. Its result, where there is one, is told by the session itself.

use crate::brief::{Artifact, LONG_TEXTS, Outcome, RunResult};
use crate::journal::JournalEvent;
use crate::limits::DELIVERABLE_BYTES_MAX;
use crate::order::{Exit, LocalFile, Order};
use crate::request::Report;

use super::log::beginning;
use super::{HostedSession, Keep, SessionEffect, SessionPhase};

/// Why a session ends whose host stops.
pub(super) const HOST_STOPS: &str = "its host stops";
/// The exit code of a program that could not be started, as a shell gives it.
pub(super) const NOT_STARTED: i32 = 127;

impl HostedSession {
    pub(super) fn exited(
        &mut self,
        exit: Exit,
        result: Option<Box<RunResult>>,
        effects: &mut Vec<SessionEffect>,
    ) {
        self.exit = Some(exit.clone());
        self.activity.ends();
        if self.killed {
            self.gone(effects);
            return;
        }
        if self.result.is_some() {
            self.finish(effects);
            return;
        }
        match (result, exit) {
            (Some(result), _) => self.take_result(*result, Vec::new(), effects),
            (None, _) if self.rotating => self.gone(effects),
            (None, Exit::Code(_)) => {
                let none = RunResult::ended(Outcome::Failure, "its program ended without a result");
                self.take_result(none, Vec::new(), effects);
            }
            (None, Exit::Signal(signal)) => self.died(signal, effects),
        }
    }

    /// The program died in the middle of its work, which its next session goes on with.
    fn died(&mut self, signal: i32, effects: &mut Vec<SessionEffect>) {
        let last = self.updates.last(self.now);
        self.report_update(last, effects);
        let cause = format!("signal {signal}");
        effects.push(SessionEffect::Journal(JournalEvent::Ended { cause: cause.clone() }));
        effects.push(SessionEffect::Report(Box::new(Report::Crashed { cause })));
        self.over(effects);
    }

    pub(super) fn over(&mut self, effects: &mut Vec<SessionEffect>) {
        self.phase = SessionPhase::Over;
        effects.push(SessionEffect::End);
    }

    /// Every process is gone without a result: told to whoever ordered it. That a host stops is told by the host.
    pub(super) fn gone(&mut self, effects: &mut Vec<SessionEffect>) {
        let ordered = self.ordered.take();
        let stops = self.rotating && !self.killed;
        if let Some(cause) = ordered.as_deref().or(stops.then_some(HOST_STOPS))
            && self.phase != SessionPhase::Claiming
        {
            let how = if self.killed { "killed" } else { "rotated" };
            let cause = format!("{how}: {cause}");
            effects.push(SessionEffect::Journal(JournalEvent::Ended { cause }));
        }
        let gone = ordered.map(|cause| SessionEffect::Report(Box::new(Report::Gone { cause })));
        effects.extend(gone);
        self.over(effects);
    }

    /// Ends the process; no result is made of it.
    pub(super) fn kill(&mut self, effects: &mut Vec<SessionEffect>) {
        if self.phase == SessionPhase::Claiming || self.exit.is_some() {
            self.gone(effects);
            return;
        }
        if std::mem::replace(&mut self.killed, true) {
            return;
        }
        self.phase = SessionPhase::Ending;
        effects.push(SessionEffect::Order(Box::new(Order::Kill { run: self.run.id })));
    }

    /// A result is kept until every process of the run is gone: only then is its slot free. The
    /// first one stands.
    pub(super) fn take_result(
        &mut self,
        mut result: RunResult,
        files: Vec<LocalFile>,
        effects: &mut Vec<SessionEffect>,
    ) {
        if self.result.is_some() {
            return;
        }
        self.spending.metering.take(&JournalEvent::Usage(result.usage));
        let mut keep: Vec<Keep> = files.into_iter().map(Keep::File).collect();
        let texts = [&mut result.deliverable, &mut result.partial];
        for (name, text) in LONG_TEXTS.into_iter().zip(texts) {
            if text.len() > DELIVERABLE_BYTES_MAX {
                let whole = std::mem::replace(text, beginning(text));
                keep.push(Keep::Text { name: name.to_owned(), text: whole });
            }
        }
        self.result = Some(result);
        self.storing = !keep.is_empty();
        if self.storing {
            effects.push(SessionEffect::Store(keep));
        }
        self.finish(effects);
    }

    pub(super) fn stored(&mut self, artifacts: Vec<Artifact>, effects: &mut Vec<SessionEffect>) {
        self.storing = false;
        if let Some(result) = &mut self.result {
            result.artifacts.extend(artifacts);
        }
        self.finish(effects);
    }

    /// Reports the result once its files are stored and every process is gone.
    pub(super) fn finish(&mut self, effects: &mut Vec<SessionEffect>) {
        let (Some(exit), Some(result), false) = (&self.exit, &self.result, self.storing) else {
            return;
        };
        let cause = match exit {
            Exit::Code(code) => format!("exit {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
        };
        self.end_with(result.clone(), cause, effects);
    }

    /// The last words of a session: its result, to the journal and to the owner.
    pub(super) fn end_with(
        &mut self,
        result: RunResult,
        cause: String,
        effects: &mut Vec<SessionEffect>,
    ) {
        let last = self.updates.last(self.now);
        self.report_update(last, effects);
        self.report_change(effects);
        let result = self.handed.with(self.with_grant(result));
        effects.push(SessionEffect::Note(JournalEvent::Result(Box::new(result.clone()))));
        effects.push(SessionEffect::Journal(JournalEvent::Ended { cause }));
        effects.push(SessionEffect::Report(Box::new(Report::Result {
            run: Some(self.run.id),
            epic: None,
            result,
        })));
        self.over(effects);
    }
}
