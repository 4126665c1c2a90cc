//! A conversation from its first word to its end: what core's `converse` says comes next is done here.

mod calls;
mod turns;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tetrarch_core::brief::{Outcome, RunResult, Tools, Usage};
use tetrarch_core::converse::cost::Price;
use tetrarch_core::converse::{
    Call, Conversation, Due, Effect, FINISH, Message, Next, Recorded, ToolDefinition, fitting,
    opening,
};
use tetrarch_core::duration;
use tetrarch_core::id::AgentId;
use tetrarch_core::limits::{CONTEXT_TOKENS, OUTPUT_TOKENS, REPAIRS_MAX};
use tetrarch_core::mcp::{MCP_CALL, McpServer};
use tetrarch_core::order::{Exit, LocalFile, RunnerEvent, Start};
use tetrarch_core::redaction::redact;
use tetrarch_model::Model;
use tetrarch_telemetry::Whose;

use super::input::{ConversationInput, Halt, InboxMessage, Yields};
use super::speaking::failed;
use super::{ConversationSetup, whose};
use crate::backend::ending::{self, ConversationResult, EndDecision};
use crate::backend::expected::Expected;
use crate::backend::fleet_tools;
use crate::backend::process::launch::remove_if_empty;
use crate::channels::{RunChannels, Teller};
use crate::directories::RunDirectories;
use crate::files::Gate;
use crate::lines::start_of;
use crate::pace::RequestPacer;
use crate::serve::RunnerContext;
use crate::sweep::Traces;
use crate::tools::Toolbox;

/// Longest turn, unless the brief says otherwise.
const TURN_WITHIN: Duration = Duration::from_secs(600);
/// Bytes of its last words that an agent says of itself when it is asked.
const STATUS_BYTES: usize = 1_024;
/// What it is told of calls when its turn was aborted.
const ABORTED: &str =
    "The turn was aborted by people while this was under way; whether it took effect is not known.";
const NOT_MADE: &str = "The turn was aborted by people; this was not done.";
/// What it is asked for when the context is nearly full.
const SUMMARISE: &str = "[The context is nearly full; what was said so far will be replaced by your summary. Write \
    down all that you need to go on with the brief: what was done and with which effect, what was found out, \
    what is still to be done. Call nothing.]";

/// How a conversation ends.
pub(super) enum ConversationEnd {
    /// With a result.
    Result(Box<ConversationResult>),
    /// Because it was told to.
    Halt(Halt),
}

impl From<Halt> for ConversationEnd {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// One conversation.
pub(super) struct LlmConversation {
    agent: AgentId,
    whose: Whose,
    epoch: u64,
    model: Model,
    system: String,
    tools: Vec<ToolDefinition>,
    toolbox: Toolbox,
    /// Servers whose tools are still to be offered, and the list that allows these.
    servers: Option<(Vec<McpServer>, Tools)>,
    traces: Option<Traces>,
    conversation: Conversation,
    expected: Expected,
    form: Option<Expected>,
    gate: Gate,
    input: ConversationInput,
    teller: Teller,
    pace: RequestPacer,
    turn_within: Duration,
    output_tokens: u32,
    context_tokens: u64,
    key_from: String,
    price: Option<Price>,
    unpriced: String,
    usage: Usage,
    told: u64,
    asked: u64,
    /// How often its end may still be handed back.
    repairs: u32,
    /// The message of the inbox that the call under way gives.
    given: u64,
    /// What the model is to know that goes on from an earlier session.
    notes: Vec<String>,
    dir: PathBuf,
    dir_is_own: bool,
    _directories: RunDirectories,
}

impl LlmConversation {
    pub(super) fn open(
        setup: ConversationSetup,
        start: Start,
        channels: RunChannels,
        context: &RunnerContext,
    ) -> Self {
        let ConversationSetup {
            expected,
            form,
            model,
            tools,
            toolbox,
            traces,
            notes,
            dir,
            dir_is_own,
            directories,
        } = setup;
        let brief = &start.brief;
        let (runner, served) = (&brief.runner, &brief.runner.served);
        let system = opening::system(&start);
        let besides = system.len() + schema_bytes(&tools);
        let conversation = Conversation::open(opening::brief(brief), besides, &start.recorded);
        let turn_within = brief.turn_timeout.map_or(TURN_WITHIN, |it| Duration::from_millis(it.0));
        let repairs = if form.is_some() { REPAIRS_MAX } else { 1 };
        let repairs = repairs.saturating_sub(start.returned);
        Self {
            system,
            model,
            tools,
            toolbox,
            servers: Some((runner.mcp_servers.clone(), brief.tools.clone())),
            traces,
            conversation,
            expected,
            form,
            gate: Gate::new(dir.clone(), context.artifact_max),
            teller: channels.teller.clone(),
            input: ConversationInput::new(channels, brief.wall),
            pace: RequestPacer::default(),
            turn_within,
            output_tokens: served.max_output_tokens.unwrap_or(OUTPUT_TOKENS),
            context_tokens: u64::from(served.context_tokens.unwrap_or(CONTEXT_TOKENS)),
            key_from: served.key_from.clone(),
            price: context.prices.of(&served.provider, &runner.model),
            unpriced: format!("{}/{}", served.provider, runner.model),
            usage: Usage::default(),
            told: 0,
            asked: 0,
            repairs,
            given: 0,
            notes,
            dir,
            dir_is_own,
            _directories: directories,
            whose: whose(&start),
            agent: start.agent,
            epoch: start.epoch,
        }
    }

    /// Holds it to its end.
    pub(super) async fn hold(mut self) {
        let isolation = match &self.traces {
            Some(_) => {
                "a conversation inside the host process; its commands are contained".to_owned()
            }
            None => "a conversation inside the host process; it starts no program".to_owned(),
        };
        self.teller.tell(RunnerEvent::Started { pid: None, isolation }).await;
        if self.price.is_none() {
            let text = format!(
                "[there is no price of {}: its cost is unknown and not counted]",
                self.unpriced
            );
            self.teller.tell(RunnerEvent::Log { text }).await;
        }
        for note in std::mem::take(&mut self.notes) {
            self.heard(note, 0).await;
        }
        let end = loop {
            let on = match self.go_on().await {
                Err(ConversationEnd::Halt(Halt::Interrupted)) => self.interrupted().await,
                on => on,
            };
            if let Err(end) = on {
                break end;
            }
        };
        self.input.tell_receipts().await;
        self.close(end).await;
    }

    /// One step further.
    async fn go_on(&mut self) -> Result<(), ConversationEnd> {
        self.input.boundary().await?;
        while let Some(steer) = self.input.steer() {
            let text = format!("[{} says]\n{}", steer.by, steer.wanted.text());
            self.heard(fitting(&text), 0).await;
            self.input.confirm(steer.id).await;
        }
        while let Some(mail) = self.input.next_mail() {
            self.hear(&mail).await;
        }
        if let Some((servers, list)) = self.servers.take() {
            return self.connect(servers, list).await;
        }
        let tools = &self.tools;
        match self.conversation.next(|call| effect(tools, call)) {
            Next::Ask if self.conversation.is_full(self.context_tokens) => self.compact().await,
            Next::Ask => self.ask().await,
            Next::Call(due) => self.call(due).await,
            Next::Doubt(due, begun) => self.doubt(due, begun).await,
            Next::SpeakOn(text) => {
                self.heard(text, 0).await;
                Ok(())
            }
            Next::Spoke(text) => self.spoke(text).await,
            Next::GiveUp(why) => Err(self.fails(&why)),
        }
    }

    /// Starts the servers of its tools, before the model is asked for the first time.
    async fn connect(
        &mut self,
        servers: Vec<McpServer>,
        list: Tools,
    ) -> Result<(), ConversationEnd> {
        let connecting = self.toolbox.connect(&servers, &list, &self.whose.profile);
        let remarks = match self.input.during(Yields::AtOnce, connecting).await {
            Ok(Ok(remarks)) => remarks,
            Ok(Err(error)) => return Err(self.fails(&error.to_string())),
            Err(halt) => {
                self.servers = Some((servers, list));
                return Err(halt.into());
            }
        };
        for remark in remarks {
            self.teller.tell(RunnerEvent::Log { text: format!("[{remark}]") }).await;
        }
        let served: Vec<ToolDefinition> = self.toolbox.served().collect();
        self.conversation.carries(schema_bytes(&served));
        self.tools.extend(served);
        Ok(())
    }

    /// The model's turn.
    async fn ask(&mut self) -> Result<(), ConversationEnd> {
        let messages = self.conversation.messages();
        let reply = self.speak(&messages, true).await?;
        let recorded = self.conversation.turn(&reply);
        self.record(recorded).await;
        self.conversation.weighed(reply.tokens);
        Ok(())
    }

    /// Replaces what was said by a summary of it.
    async fn compact(&mut self) -> Result<(), ConversationEnd> {
        self.teller.tell(RunnerEvent::Compacting { begins: true }).await;
        let mut messages = self.conversation.messages();
        match messages.last_mut() {
            Some(Message::User(text)) => {
                text.push_str("\n\n");
                text.push_str(SUMMARISE);
            }
            Some(Message::Model { .. } | Message::Answers(_)) | None => {
                messages.push(Message::User(SUMMARISE.to_owned()));
            }
        }
        let mut text = fitting(&self.speak(&messages, false).await?.text);
        if text.trim().is_empty() {
            self.conversation.last_words().clone_into(&mut text);
        }
        let (step, letter) = (self.conversation.step(), self.conversation.letter());
        self.record(Recorded::Summary { step, text, letter }).await;
        self.teller.tell(RunnerEvent::Compacting { begins: false }).await;
        Ok(())
    }

    /// Its turn was aborted: what was done stays, what was under way is said not to be known.
    async fn interrupted(&mut self) -> Result<(), ConversationEnd> {
        for (Due { step, index, .. }, begun) in self.conversation.unanswered() {
            let text = if begun > 0 { ABORTED } else { NOT_MADE }.to_owned();
            let (is_error, letter) = (true, 0);
            self.record(Recorded::Answer { step, index, text, is_error, letter }).await;
        }
        self.teller.tell(RunnerEvent::Compacting { begins: false }).await;
        Ok(self.input.steered().await?)
    }

    /// The model spoke and called nothing: that is its deliverable.
    async fn spoke(&mut self, text: String) -> Result<(), ConversationEnd> {
        let judged = ending::spoken(text, &self.expected, self.form.as_ref(), &mut self.gate).await;
        let text = self.hand_back(judged).await?;
        self.heard(text, 0).await;
        Ok(())
    }

    /// What it is told of its wish to end, unless that is its end.
    async fn hand_back(&mut self, judged: EndDecision) -> Result<String, ConversationEnd> {
        match judged {
            EndDecision::Ends(ending) => Err(ConversationEnd::Result(ending)),
            EndDecision::Refused(ending, _) if self.repairs == 0 => {
                Err(ConversationEnd::Result(ending))
            }
            EndDecision::Refused(_, words) => {
                self.repairs -= 1;
                self.teller.tell(RunnerEvent::Returned { errors: words.clone() }).await;
                let left = match self.repairs {
                    0 => "this is the last time it is handed back".to_owned(),
                    left => format!("it is handed back {left} times more"),
                };
                Ok(format!("{words} Correct it and call `{FINISH}` again; {left}."))
            }
            EndDecision::Unreadable(words) => Ok(words),
        }
    }

    /// Mail that nobody waits for.
    async fn hear(&mut self, mail: &InboxMessage) {
        if mail.answers.is_some() && fleet_tools::ANSWERS.contains(&mail.topic.as_str()) {
            // Whoever asked is over, or asked once more.
            return;
        }
        if mail.topic == fleet_tools::STATUS_REQUEST {
            self.say_status().await;
        } else {
            let mut text = fleet_tools::mail_words(&mail.topic, &mail.from, &mail.body);
            redact(&mut text);
            self.heard(fitting(&text), mail.place).await;
        }
    }

    async fn heard(&mut self, text: String, letter: u64) {
        self.record(Recorded::Heard { text, letter }).await;
    }

    /// Says how the work stands, in the model's last words: it is not asked for that.
    async fn say_status(&self) {
        let words = start_of(self.conversation.last_words(), STATUS_BYTES);
        let summary = format!("turn {}. {words}", self.conversation.step());
        let update = json!({"status": "in_progress", "summary": summary}).to_string();
        self.teller.tell(RunnerEvent::Update { update }).await;
    }

    /// Tells a change and takes it.
    async fn record(&mut self, recorded: Recorded) {
        self.conversation.apply(&recorded);
        let recorded = Box::new(recorded);
        self.teller.tell(RunnerEvent::Conversed { recorded, confirm: None }).await;
    }

    /// The same, and waits until it is recorded.
    async fn record_surely(&mut self, recorded: Recorded) -> Result<(), ConversationEnd> {
        self.conversation.apply(&recorded);
        self.told += 1;
        let (recorded, confirm) = (Box::new(recorded), Some(self.told));
        self.teller.tell(RunnerEvent::Conversed { recorded, confirm }).await;
        Ok(self.input.noted(self.told).await?)
    }

    fn fails(&self, why: &str) -> ConversationEnd {
        ConversationEnd::Result(Box::new(ConversationResult {
            result: self.with_partial(failed(why)),
            files: Vec::new(),
        }))
    }

    fn with_partial(&self, mut result: RunResult) -> RunResult {
        self.conversation.last_words().clone_into(&mut result.partial);
        result
    }

    async fn close(self, end: ConversationEnd) {
        let (result, files): (RunResult, Vec<LocalFile>) = match end {
            ConversationEnd::Result(ending) => (ending.result, ending.files),
            ConversationEnd::Halt(Halt::Stopped(reason)) => {
                let stopped = RunResult::ended(Outcome::Cancelled, format!("stopped: {reason}"));
                (self.with_partial(stopped), Vec::new())
            }
            ConversationEnd::Halt(Halt::Wall(wall)) => {
                let over = format!("wall clock of {} ended", duration::print(wall));
                (self.with_partial(RunResult::ended(Outcome::Failure, over)), Vec::new())
            }
            ConversationEnd::Halt(Halt::Rotated | Halt::Interrupted) => {
                return self.leave(Exit::Code(0)).await;
            }
            ConversationEnd::Halt(Halt::Killed) => {
                return self.leave(Exit::Signal(rustix::process::Signal::KILL.as_raw())).await;
            }
        };
        let result = Box::new(RunResult { usage: self.usage, ..result });
        self.teller.tell(RunnerEvent::Result { result, files }).await;
        self.leave(Exit::Code(0)).await;
    }

    async fn leave(self, exit: Exit) {
        if matches!(exit, Exit::Code(_)) {
            self.toolbox.close().await;
        }
        if let Some(traces) = self.traces {
            traces.until_gone().await;
        }
        if self.dir_is_own {
            remove_if_empty(&self.dir).await;
        }
        self.teller.tell(RunnerEvent::Exited { exit, result: None }).await;
    }
}

/// What the schemas of tools add to each request, in bytes.
fn schema_bytes(tools: &[ToolDefinition]) -> usize {
    tools.iter().map(|tool| tool.schema.to_string().len()).sum()
}

fn effect(tools: &[ToolDefinition], call: &Call) -> Effect {
    let known = tools.iter().find(|tool| tool.name == call.tool);
    // What there is not has no effect; a server's tool may have had one in an earlier session.
    let lost = if call.tool.starts_with(MCP_CALL) { Effect::Effectful } else { Effect::ReadOnly };
    known.map_or(lost, |tool| tool.effect)
}
