//! The result that a program gives, by its output or by a call: the first that satisfies its brief is told, and one
//! that does not is handed back, once.

use serde_json::Value;
use tetrarch_core::brief::{Outcome, RunResult};
use tetrarch_core::converse::FINISH;
use tetrarch_core::order::{RunnerEvent, Start};

use super::{LOG_BYTES_MAX, OutputReader};
use crate::adapter::{AgentDelivery, reviews};
use crate::backend::ending::{self, ConversationResult, EndDecision};
use crate::backend::expected::{BadSchema, Expected};
use crate::backend::fleet_tools::CallText;
use crate::backend::process::mcp::FinishCall;
use crate::backend::process::verdict;
use crate::lines::start_of;
use crate::protocol::NamedFile;

/// What a result must look like.
#[derive(Debug, Clone)]
pub(in crate::backend::process) struct ResultForm {
    /// The deliverable.
    pub(in crate::backend::process) expected: Expected,
    /// The verdict, of a reviewer.
    pub(in crate::backend::process) verdict: Option<Expected>,
}

impl ResultForm {
    /// What the result of a run must look like.
    ///
    /// # Errors
    /// A schema of the brief is none.
    pub(in crate::backend::process) async fn of(start: &Start) -> Result<Self, BadSchema> {
        let expected = Expected::of(&start.brief.expected_output).await?;
        let verdict =
            if reviews(start) { Some(Expected::of(&ending::verdict_form()).await?) } else { None };
        Ok(Self { expected, verdict })
    }
}

impl OutputReader {
    /// A result is told, but for the first of the run and those before it whose deliverable does not do: that one
    /// is handed back. What comes after a result that was told is told as it is; it counts no more.
    pub(super) async fn result(
        &mut self,
        mut result: Box<RunResult>,
        deliverable: Value,
        files: Vec<NamedFile>,
    ) {
        for file in files {
            self.file(file);
        }
        self.flush_log();
        result.usage = self.heard.usage;
        verdict::withheld(&mut result, self.speech.withheld());
        if result.outcome == Outcome::Success
            && !self.heard.gave_result
            && let Err(faults) = self.form.expected.check(deliverable).await
        {
            result = Box::new(faults.fail(*result));
            if std::mem::take(&mut self.may_return)
                && let AgentDelivery::Line(line) = self.speech.invalid(faults.list())
            {
                let errors = start_of(&faults.to_string(), LOG_BYTES_MAX).to_owned();
                self.events.push(RunnerEvent::Returned { errors });
                self.returned = Some(line);
                self.heard.handed_back = Some(result);
                return;
            }
        }
        self.heard.gave_result = true;
        self.events.push(RunnerEvent::Result { result, files: self.heard.files.clone() });
    }

    /// A coding agent ends its run by a call. What does not satisfy the brief is handed back as any result is, once.
    pub(super) async fn finished(&mut self, call: FinishCall) {
        let FinishCall { arguments, answer } = call;
        let said = if self.heard.gave_result {
            Err("your result was taken before; this one counts no more".to_owned())
        } else {
            let ResultForm { expected, verdict } = &self.form;
            let judged =
                ending::finish(arguments, expected, verdict.as_ref(), &mut self.gate).await;
            self.judged(judged)
        };
        // A program that is gone does not read it.
        let _unread = answer.send(said);
    }

    fn judged(&mut self, judged: EndDecision) -> CallText {
        let ended = match judged {
            EndDecision::Unreadable(words) => return Err(words),
            EndDecision::Refused(ended, words) if self.may_return => {
                self.may_return = false;
                self.heard.handed_back = Some(Box::new(ended.result));
                let told = format!(
                    "{words} Correct it and call `{FINISH}` again; this is the last time it is handed back."
                );
                self.events.push(RunnerEvent::Returned { errors: words });
                return Err(told);
            }
            EndDecision::Refused(ended, _) | EndDecision::Ends(ended) => ended,
        };
        let ConversationResult { mut result, files } = *ended;
        result.usage = self.heard.usage;
        verdict::withheld(&mut result, self.speech.withheld());
        for file in files {
            self.heard.files.retain(|known| known.name != file.name);
            self.heard.files.push(file);
        }
        self.in_turn = None;
        self.heard.gave_result = true;
        self.flush_log();
        let (result, files) = (Box::new(result), self.heard.files.clone());
        self.events.push(RunnerEvent::Result { result, files });
        self.inputs.extend(self.speech.agent().and_then(|talk| talk.finished()));
        Ok("your result is taken, and your run ends".to_owned())
    }
}
