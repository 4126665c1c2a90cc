//! What a session's program asks people, and which answers are its own (spec 05, 08).

use crate::id::{QuestionId, RequestId};
use crate::journal::JournalEvent;
use crate::limits::QUESTIONS_MAX;
use crate::request::Report;
use crate::run::RunEvent;

use super::{HostedSession, SessionEffect};

impl HostedSession {
    pub(super) fn ask(
        &mut self,
        asked: Option<RequestId>,
        question: String,
        options: Vec<String>,
        effects: &mut Vec<SessionEffect>,
    ) {
        if self.asking.len() >= QUESTIONS_MAX {
            let text =
                format!("{QUESTIONS_MAX} questions are already open; this one was not asked");
            self.tell("ask.refused", &text, asked, effects);
            return;
        }
        let (run, created) = (self.run.id, self.run.created);
        let id = QuestionId::derive(created, &run.to_string(), "ask", self.asked);
        self.asked += 1;
        self.asking.insert(id, asked);
        effects.push(SessionEffect::Journal(JournalEvent::Ask {
            question: question.clone(),
            options: options.clone(),
        }));
        let id = Some(id);
        let asked = Report::Ask { run, id, question, options };
        self.when_running(SessionEffect::Report(Box::new(asked)), effects);
    }

    /// What the program calls a question that is open.
    pub(super) fn asked_as(&self, question: Option<QuestionId>) -> Option<RequestId> {
        *self.asking.get(&question?)?
    }

    /// Takes an answer; false when it is one to an earlier session, which is answered anew when it
    /// asks again. One that names no question is for whatever was asked.
    pub(super) fn is_answered(
        &mut self,
        question: Option<QuestionId>,
        effects: &mut Vec<SessionEffect>,
    ) -> bool {
        let was_asking = !self.asking.is_empty() || self.verbs.interrupted;
        match question {
            Some(id) if self.asking.remove(&id).is_none() => return false,
            Some(_) => {}
            None => self.asking.clear(),
        }
        self.verbs.interrupted = false;
        if was_asking && self.asking.is_empty() {
            let answered = self.moved(RunEvent::InputReceived, "answered".to_owned());
            self.when_running(answered, effects);
        }
        true
    }
}
