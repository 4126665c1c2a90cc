//! Calling tools: what is about to take effect is recorded before, what came of it after (spec 06, Effects).

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Map, Value};
use tetrarch_core::converse::{Due, Effect, FINISH, Recorded, ToolDefinition, fitting};
use tetrarch_core::id::RequestId;
use tetrarch_core::limits::{INSTRUCTION_BYTES_MAX, TOOL_ANSWER_BYTES_MAX};
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::permission::PermissionRule;
use tetrarch_core::redaction::redact;
use tetrarch_telemetry::{ToolCall, Whose};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::Instrument;

use super::{ConversationEnd, LlmConversation, effect};
use crate::adapter::permission::{self, ALLOW, DENY};
use crate::backend::ending;
use crate::backend::fleet_tools::{
    ANSWERS, AgentTool, CallOrigin, CallText, FleetCall, OF_PEOPLE, REPLY_WITHIN, STATUS_REQUEST,
    mail_words, replied,
};
use crate::backend::llm::input::{Halt, InboxMessage, Yields};
use crate::tools::{ServedCall, Toolbox};

/// Why nobody knows whether a call took effect.
type EffectUnknown = String;

/// Answers to a call of which nobody knows whether it took effect.
const REPEAT: &str = "repeat";
const SKIP: &str = "skip";

impl LlmConversation {
    /// Makes calls that are due.
    pub(super) async fn call(&mut self, due: Vec<Due>) -> Result<(), ConversationEnd> {
        if due.len() > 1 && due.iter().all(|due| self.rule(due).is_none()) {
            // They only look, so they are made side by side.
            let looks = due.iter().map(|due| look(&self.whose, &self.tools, &self.toolbox, due));
            let seen = self.input.during(Yields::AfterDrain, join_all(looks)).await?;
            for (due, said) in due.iter().zip(seen) {
                self.answer(due, said).await;
            }
            return Ok(());
        }
        for due in due {
            match self.make(&due).await? {
                Some(said) => self.answer(&due, said).await,
                // It is in doubt, and that comes next.
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Makes a call of whichever tool. None when nobody knows whether it took effect.
    async fn make(&mut self, due: &Due) -> Result<Option<CallText>, ConversationEnd> {
        let told = ToolCall::begin(&self.whose, &due.call);
        let arguments = match checked(&self.tools, &self.toolbox, due).await {
            Ok(arguments) => arguments,
            Err(error) => return Ok(Some(tell(told, Err(error)))),
        };
        if let Err(refused) = self.permitted(due).await? {
            return Ok(Some(tell(told, Err(refused))));
        }
        match self.perform(due, arguments).instrument(told.span()).await {
            Ok(Ok(said)) => Ok(Some(tell(told, said))),
            Ok(Err(why)) => {
                self.teller.tell(RunnerEvent::Log { text: format!("[{why}]") }).await;
                drop(tell(told, Err(why)));
                Ok(None)
            }
            Err(ConversationEnd::Result(ending)) => {
                told.end_run();
                Err(ConversationEnd::Result(ending))
            }
            Err(ConversationEnd::Halt(halt)) => Err(ConversationEnd::Halt(halt)),
        }
    }

    fn rule(&self, due: &Due) -> Option<&PermissionRule> {
        let arguments = arguments(&self.tools, due).unwrap_or_default();
        self.toolbox.rule(&due.call.tool, &arguments)
    }

    /// Whether the rules on its tools, or people where a rule asks them, allow a call; why not, if not.
    async fn permitted(&mut self, due: &Due) -> Result<Result<(), String>, ConversationEnd> {
        let Some(rule) = self.rule(due).cloned() else { return Ok(Ok(())) };
        let question = match permission::asked(&rule, &due.call.tool, &due.call.arguments) {
            Ok(question) => question,
            Err(refused) => return Ok(Err(refused.to_string())),
        };
        let question = format!("{question}\n[call {}/{}]", due.step, due.index);
        let options = [ALLOW, DENY].map(str::to_owned).to_vec();
        let answer = self.ask_people(due, question, options).await?;
        Ok(permission::decided(answer).map_err(|refused| refused.to_string()))
    }

    async fn perform(
        &mut self,
        due: &Due,
        arguments: Map<String, Value>,
    ) -> Result<Result<CallText, EffectUnknown>, ConversationEnd> {
        if effect(&self.tools, &due.call) == Effect::Effectful {
            let (step, index, tool) = (due.step, due.index, due.call.tool.clone());
            self.record_surely(Recorded::Intent { step, index, tool }).await?;
        }
        if due.call.tool == FINISH {
            return self.finish(arguments).await.map(Ok);
        }
        match AgentTool::named(&due.call.tool) {
            Some(own) => self.own(own, due, arguments).await.map(Ok),
            None => {
                let call = made(&self.toolbox, due, arguments);
                Ok(self.input.during(Yields::AfterDrain, call).await?)
            }
        }
    }

    async fn answer(&mut self, due: &Due, said: CallText) {
        let is_error = said.is_err();
        let mut text = said.unwrap_or_else(|error| error);
        redact(&mut text);
        let (step, index, text) = (due.step, due.index, fitting(&text));
        let letter = std::mem::take(&mut self.given);
        self.record(Recorded::Answer { step, index, text, is_error, letter }).await;
    }

    async fn finish(&mut self, arguments: Map<String, Value>) -> Result<CallText, ConversationEnd> {
        let form = self.form.as_ref();
        let judged = ending::finish(arguments, &self.expected, form, &mut self.gate).await;
        self.hand_back(judged).await.map(Err)
    }

    async fn own(
        &mut self,
        own: AgentTool,
        due: &Due,
        arguments: Map<String, Value>,
    ) -> Result<CallText, ConversationEnd> {
        match own.call(arguments, self.origin(due)) {
            Err(error) => Ok(Err(error)),
            Ok(FleetCall::Ask { question, options }) => {
                // An answer to the same words of an earlier turn is no answer to these.
                let question = format!("{question}\n[call {}/{}]", due.step, due.index);
                self.ask_people(due, question, options).await
            }
            Ok(FleetCall::Tell { event, words }) => {
                self.beg(event).await?;
                Ok(Ok(words))
            }
            Ok(FleetCall::AwaitMail { seconds }) => self.await_mail(seconds).await,
            Ok(FleetCall::ReadMail) => self.read_mail().await,
            Ok(FleetCall::Request { id, event, within }) => self.ask_owner(id, event, within).await,
            Ok(FleetCall::HandOver { id, file }) => {
                match self.gate.admit(file.name, &file.path, file.media_type) {
                    Ok(file) => {
                        let event = RunnerEvent::HandOver { id, file };
                        self.ask_owner(id, event, REPLY_WITHIN).await
                    }
                    Err(refused) => Ok(Err(refused.to_string())),
                }
            }
        }
    }

    fn origin<'a>(&'a self, due: &'a Due) -> CallOrigin<'a> {
        CallOrigin { agent: &self.agent, epoch: self.epoch, due }
    }

    /// Tells what others have to work for, no faster than an agent may.
    async fn beg(&mut self, event: RunnerEvent) -> Result<(), Halt> {
        if let Some(wait) = self.pace.wait(Instant::now(), &event) {
            self.input.during(Yields::AfterDrain, sleep(wait)).await?;
        }
        self.teller.tell(event).await;
        Ok(())
    }

    /// Asks for something and waits for what comes of it.
    async fn ask_owner(
        &mut self,
        id: RequestId,
        event: RunnerEvent,
        within: Duration,
    ) -> Result<CallText, ConversationEnd> {
        self.beg(event).await?;
        match timeout(within, self.mail_that_is(|it| it.answers == Some(id))).await {
            Ok(mail) => {
                let mail = mail?;
                // What came before it is heard, so that nothing before it is missing where this one is recorded.
                while let Some(earlier) = self.input.mail_before(mail.place) {
                    self.hear(&earlier).await;
                }
                self.given = mail.place;
                Ok(replied(&mail.topic, &mail.body))
            }
            Err(_) => Ok(Err(format!(
                "asked as {id}, but no answer came in time; look whether it was done before you ask again"
            ))),
        }
    }

    /// Waits for a mail that is wanted; hears others when there is no room for more.
    async fn mail_that_is(
        &mut self,
        wanted: impl Fn(&InboxMessage) -> bool,
    ) -> Result<InboxMessage, Halt> {
        loop {
            let mail = self.input.await_mail(&wanted).await?;
            if wanted(&mail) {
                return Ok(mail);
            }
            self.hear(&mail).await;
        }
    }

    /// Asks people and waits for their answer to this.
    async fn ask_people(
        &mut self,
        due: &Due,
        question: String,
        options: Vec<String>,
    ) -> Result<CallText, ConversationEnd> {
        let id = Some(self.origin(due).question());
        self.beg(RunnerEvent::Ask { id, question, options }).await?;
        loop {
            let is_answer =
                |it: &InboxMessage| it.answers == id && OF_PEOPLE.contains(&it.topic.as_str());
            let wanted = |it: &InboxMessage| is_answer(it) || it.topic == STATUS_REQUEST;
            let mail = self.mail_that_is(wanted).await?;
            if is_answer(&mail) {
                return Ok(replied(&mail.topic, &mail.body));
            }
            self.say_status().await;
        }
    }

    async fn await_mail(&mut self, seconds: u64) -> Result<CallText, ConversationEnd> {
        if self.conversation.has_heard() {
            return Ok(Ok("mail has come; it follows".to_owned()));
        }
        let until = Instant::now() + Duration::from_secs(seconds);
        let mail = self.mail_until(until).await?;
        Ok(Ok(mail.unwrap_or_else(|| format!("no mail came within {seconds} s"))))
    }

    /// The mail that is there; what came before it was put into the conversation.
    async fn read_mail(&mut self) -> Result<CallText, ConversationEnd> {
        if self.conversation.has_heard() {
            return Ok(Ok("mail has come; it follows".to_owned()));
        }
        let (mut words, mut room) = (Vec::new(), TOOL_ANSWER_BYTES_MAX);
        while let Some(mail) = self.mail_until(Instant::now()).await? {
            room = room.saturating_sub(mail.len());
            words.push(mail);
            // The next one has room as well.
            if room < 2 * INSTRUCTION_BYTES_MAX {
                words.push(
                    "[there may be more: call again, or read it in your next turn]".to_owned(),
                );
                break;
            }
        }
        if words.is_empty() {
            words.push("no new mail; all that came before is in this conversation".to_owned());
        }
        Ok(Ok(words.join("\n\n")))
    }

    /// The next mail that is for the model, in words; none until then.
    async fn mail_until(&mut self, until: Instant) -> Result<Option<String>, Halt> {
        loop {
            let Ok(mail) = timeout_at(until, self.input.await_mail(|_| true)).await else {
                return Ok(None);
            };
            let mail = mail?;
            if mail.topic == STATUS_REQUEST {
                self.say_status().await;
            } else if mail.answers.is_some() && ANSWERS.contains(&mail.topic.as_str()) {
                // Whoever asked is over, or asked once more.
            } else {
                self.given = self.given.max(mail.place);
                return Ok(Some(mail_words(&mail.topic, &mail.from, &mail.body)));
            }
        }
    }

    /// Nobody knows whether a call took effect that an earlier session began: people say what to do.
    pub(super) async fn doubt(&mut self, due: Due, begun: u32) -> Result<(), ConversationEnd> {
        let Due { step, index, call } = &due;
        let (tool, wanted) = (&call.tool, fitting(&call.arguments));
        let reason =
            format!("effect_unknown: call {step}/{index} of {tool} was begun and never answered");
        self.teller.tell(RunnerEvent::Blocked { reason: reason.clone() }).await;
        // A person's answer is what it waits for: that is a state of its own, with more time.
        self.teller.tell(RunnerEvent::Unblocked).await;
        let mut question = format!(
            "{reason} ({begun} times). Did it take effect? Say {REPEAT} to make it again, {SKIP} to go on without, \
             or what came of it.\nIts arguments: {wanted}"
        );
        redact(&mut question);
        let options = vec![REPEAT.to_owned(), SKIP.to_owned()];
        let said = match self.ask_people(&due, question, options).await? {
            Ok(said) if said.trim() == REPEAT => match self.make(&due).await? {
                Some(said) => said,
                None => return Ok(()),
            },
            Ok(said) if said.trim() == SKIP => {
                Err("it was left out: nobody knows whether an earlier try of it took effect"
                    .to_owned())
            }
            Ok(said) => Ok(said),
            Err(refused) => {
                return Err(self.fails(&format!("{reason}; people could not be asked: {refused}")));
            }
        };
        self.answer(&due, said).await;
        Ok(())
    }
}

/// The arguments of a call of a tool that there is.
fn arguments(tools: &[ToolDefinition], due: &Due) -> Result<Map<String, Value>, String> {
    if !tools.iter().any(|tool| tool.name == due.call.tool) {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        return Err(format!("unknown tool {}; available: {}", due.call.tool, names.join(", ")));
    }
    match serde_json::from_str(&due.call.arguments) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("the arguments are not a JSON object".to_owned()),
        Err(error) => Err(format!("the arguments are not JSON: {error}; write a JSON object")),
    }
}

/// The same, when they are what the tool takes.
async fn checked(
    tools: &[ToolDefinition],
    toolbox: &Toolbox,
    due: &Due,
) -> Result<Map<String, Value>, String> {
    let arguments = arguments(tools, due)?;
    match toolbox.fault(&due.call.tool, &arguments).await {
        Some(fault) => Err(fault),
        None => Ok(arguments),
    }
}

/// Makes a call of a tool of the toolbox that only looks.
async fn look(whose: &Whose, tools: &[ToolDefinition], toolbox: &Toolbox, due: &Due) -> CallText {
    let told = ToolCall::begin(whose, &due.call);
    let said = match checked(tools, toolbox, due).await {
        Ok(arguments) => {
            let made = made(toolbox, due, arguments).instrument(told.span()).await;
            made.unwrap_or_else(Err)
        }
        Err(error) => Err(error),
    };
    tell(told, said)
}

/// Tells whoever looks from outside what came of a call.
fn tell(told: ToolCall, said: CallText) -> CallText {
    match &said {
        Ok(words) => told.end(words, false),
        Err(words) => told.end(words, true),
    }
    said
}

/// Makes a call of a tool of the toolbox.
async fn made(
    toolbox: &Toolbox,
    due: &Due,
    arguments: Map<String, Value>,
) -> Result<CallText, EffectUnknown> {
    let outcome = match toolbox.call_served(&due.call.tool, &arguments).await {
        Some(ServedCall::Told(outcome)) => outcome,
        Some(ServedCall::Unknown(why)) => return Err(why),
        None => toolbox.call(&due.call.tool, &Value::Object(arguments)).await,
    };
    Ok(if outcome.is_error { Err(outcome.text) } else { Ok(outcome.text) })
}
