//! A conversation with a coding agent: what it was told, what it said of that, and what follows. The outcome of a run
//! follows from both, never from an exit code. Pure: it writes nothing itself, and knows no program's lines.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};
use tetrarch_core::brief::{Tools, Usage};
use tetrarch_core::id::RequestId;
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::permission::Permissions;
use tetrarch_core::verb::{Command, Stage, Wanted};

use super::dialect::{AgentExchange, Dialect, Saying};
use super::event::{AgentEvent, AskedUse};
use super::{AdapterSheet, AgentDelivery, AgentInput, AgentOutput};
use crate::backend::fleet_tools::AgentTool;
use crate::backend::llm::NOT_HANDED_OVER;
use crate::lines::start_of;
use crate::protocol::{ProgramEvent, SchemaViolation};

/// The name of a request of ours that is no verb.
const ENDING: &str = "tetrarch-ending";
/// Most bytes of words in a status.
const STATUS_BYTES: usize = 1_024;
/// Kinds of events that are told apart when nobody knows them; the rest counts as one.
pub(super) const UNKNOWN_MAX: usize = 16;
/// Longest text of a tool's use, in bytes.
const USE_BYTES: usize = 200;
/// Messages that may wait for the program.
const UNREAD_MAX: usize = 32;
/// The field of a checkpoint that lists what it was allowed to use last.
pub(super) const USING: &str = "using";
/// The field of a checkpoint that names the program's conversation.
pub(super) const CONVERSATION: &str = "conversation";

/// What it is told when it goes on.
const GOES_ON: &str = "[Your program ended in the middle of your work and was started again. Go on where you were. A \
    tool call without a result may have taken effect: look before you repeat it.]";

/// A message that it was written and has not begun to read.
#[derive(Debug)]
struct UnreadMessage {
    text: String,
    verb: Option<RequestId>,
    /// Its place in the inbox, until the program has it; 0 for none.
    place: u64,
}

/// Why its turn is to be the last.
#[derive(Debug)]
pub(super) enum LastTurn {
    /// People or the grant want it to end.
    Stop(String),
    /// Its next session goes on.
    Rotation,
}

/// What a conversation is about.
#[derive(Debug)]
pub(crate) struct SessionBrief {
    /// What it may use.
    pub(crate) tools: Tools,
    /// Rules on what it is used with.
    pub(crate) permissions: Permissions,
    /// The brief, for a conversation that begins.
    pub(crate) first: String,
    /// What it was allowed to use last.
    pub(crate) using: Vec<String>,
    /// Whether it ends by a verdict.
    pub(crate) reviews: bool,
    /// What messages are numbered from. A program may ignore one whose number is in its transcript, so that no two
    /// runs of a conversation count from the same.
    pub(crate) base: u128,
}

/// What was said to one program and by it.
#[derive(Debug)]
pub(crate) struct AgentSession {
    sheet: AdapterSheet,
    dialect: Dialect,
    pub(super) brief: SessionBrief,
    /// Where it works.
    pub(super) directory: String,
    conversation: String,
    /// By their number.
    unread: BTreeMap<u128, UnreadMessage>,
    /// How many there were, the brief among them.
    messages: u64,
    ready: bool,
    /// Whether it has something to do.
    pub(super) works: bool,
    pub(super) aborting: bool,
    /// An interrupt that waits to be told.
    held: Option<RequestId>,
    pub(super) ending: Option<LastTurn>,
    /// Texts of messages that it dropped unread.
    again: Vec<String>,
    /// What it was allowed to use since the model's last answer.
    pub(super) using: Vec<String>,
    /// What people are asked, the first of them now.
    pub(super) asked: VecDeque<(RequestId, AskedUse)>,
    /// How many there were.
    pub(super) questions: u64,
    pub(super) blocked: bool,
    pub(super) usage: Usage,
    pub(super) words: String,
    unknown: BTreeMap<String, u64>,
}

impl AgentSession {
    /// A conversation with the program of this sheet.
    pub(crate) fn new(sheet: AdapterSheet, dialect: Dialect, brief: SessionBrief) -> Self {
        Self {
            sheet,
            dialect,
            brief,
            directory: String::new(),
            conversation: String::new(),
            unread: BTreeMap::new(),
            messages: 1,
            ready: false,
            works: false,
            aborting: false,
            held: None,
            ending: None,
            again: Vec::new(),
            using: Vec::new(),
            asked: VecDeque::new(),
            questions: 0,
            blocked: false,
            usage: Usage::default(),
            words: String::new(),
            unknown: BTreeMap::new(),
        }
    }

    /// What is written to it first: what it is to do, or that it is to go on, or what has to be said before that.
    /// It works in `directory`.
    pub(crate) fn first_line(&mut self, directory: &str) -> Vec<u8> {
        // It has something to do from the beginning on.
        self.works = true;
        directory.clone_into(&mut self.directory);
        let heard = self.dialect.say(Saying::Open { directory });
        let output = self.take(heard);
        lines(output.inputs).unwrap_or_default()
    }

    /// A message, which it reads at its next boundary or as its next turn; `place` is its place in the inbox.
    pub(crate) fn message(&mut self, text: &str, place: u64) -> AgentDelivery {
        if self.unread.len() >= UNREAD_MAX {
            return AgentDelivery::Refused("too many messages wait for it".to_owned());
        }
        self.messages += 1;
        let number = self.brief.base.wrapping_add(u128::from(self.messages));
        let heard = self.say(number, text, None);
        let told = told_of(heard);
        if told == AgentDelivery::Held
            && let Some(unread) = self.unread.get_mut(&number)
        {
            unread.place = place;
        }
        told
    }

    /// Messages of the inbox that wait to be written to it, as many as have room in so many bytes: they are given to it
    /// by a tool, and so not a second time. Each with its place.
    pub(crate) fn take_back(&mut self, mut room: usize) -> Vec<(String, u64)> {
        let is_mail = |it: &UnreadMessage| it.verb.is_none();
        let waiting: Vec<u128> =
            self.unread.iter().filter(|(_, it)| is_mail(it)).map(|(number, _)| *number).collect();
        let mut taken = Vec::new();
        for number in waiting {
            let bytes = self.unread.get(&number).map_or(0, |it| it.text.len());
            let Some(left) = room.checked_sub(bytes) else { break };
            if number == self.brief.base.wrapping_add(1) || !self.dialect.take_back(number) {
                continue;
            }
            room = left;
            taken.extend(self.unread.remove(&number).map(|it| (it.text, it.place)));
        }
        taken
    }

    /// The result that it gave by a tool was taken: its turn is to end, and what it says of that counts no more.
    pub(crate) fn finished(&mut self) -> Option<AgentInput> {
        self.end(LastTurn::Stop("it has finished".to_owned()))
    }

    /// What its result did not satisfy.
    pub(crate) fn invalid(&mut self, faults: &[SchemaViolation]) -> AgentDelivery {
        let list: Vec<String> =
            faults.iter().map(|fault| format!("- {}: {}", fault.path, fault.message)).collect();
        let text = format!(
            "[Your result does not satisfy the schema of the brief. Correct it and give it again, once.]\n{}",
            list.join("\n")
        );
        self.message(&text, 0)
    }

    /// A verb.
    pub(crate) fn verb(&mut self, command: &Command) -> AgentDelivery {
        match &command.wanted {
            Wanted::Steer { .. } if self.unread.len() >= UNREAD_MAX => AgentDelivery::Refused(
                "too many messages wait for it; send it again later".to_owned(),
            ),
            Wanted::Steer { text } => {
                let text = format!("[steer from {}]\n{text}", command.by);
                let heard = self.say(u128::from(command.id.0), &text, Some(command.id));
                told_of(heard)
            }
            Wanted::Interrupt { .. } => {
                self.aborting = self.works;
                self.asked.clear();
                let heard =
                    self.dialect.say(Saying::Interrupt { request: &command.id.to_string() });
                if !heard.events.is_empty() {
                    return AgentDelivery::Done;
                }
                let told = told_of(heard);
                self.held = (told == AgentDelivery::Held).then_some(command.id);
                told
            }
            Wanted::Pause | Wanted::Resume => AgentDelivery::Refused(format!(
                "its program has no {}",
                command.wanted.verb().as_str()
            )),
        }
    }

    fn say(&mut self, number: u128, text: &str, verb: Option<RequestId>) -> AgentExchange {
        let mut whole = std::mem::take(&mut self.again);
        whole.push(text.to_owned());
        let text = whole.join("\n\n");
        self.works = true;
        let heard = self.dialect.say(Saying::Message { number, text: &text });
        self.unread.insert(number, UnreadMessage { text, verb, place: 0 });
        heard
    }

    /// It is asked to end, for `reason`.
    pub(crate) fn stop(&mut self, reason: &str) -> Option<AgentInput> {
        self.end(LastTurn::Stop(reason.to_owned()))
    }

    /// It is asked to end, so that its next session goes on.
    pub(crate) fn rotate(&mut self) -> Option<AgentInput> {
        match self.ending {
            // A stop has more to say.
            Some(LastTurn::Stop(_)) => self.abort(),
            Some(LastTurn::Rotation) | None => self.end(LastTurn::Rotation),
        }
    }

    fn end(&mut self, ending: LastTurn) -> Option<AgentInput> {
        self.ending = Some(ending);
        if self.works { self.abort() } else { Some(AgentInput::Close) }
    }

    /// Aborts its turn for good; none when that waits for the turn to begin.
    pub(super) fn abort(&mut self) -> Option<AgentInput> {
        self.asked.clear();
        let heard = self.dialect.say(Saying::Interrupt { request: ENDING });
        match heard.events.is_empty() {
            true => lines(heard.inputs).map(AgentInput::Line),
            // There is nothing to abort.
            false => Some(AgentInput::Close),
        }
    }

    /// How its work stands, in its last words.
    pub(crate) fn status(&self) -> RunnerEvent {
        let words = start_of(&self.words, STATUS_BYTES);
        let summary = format!("turn {}. {words}", self.usage.turns);
        let update = json!({"status": "in_progress", "summary": summary}).to_string();
        RunnerEvent::Update { update }
    }

    /// What it said that nobody here knows, in words; none when there was nothing.
    pub(crate) fn unknown(&self) -> Option<String> {
        let kinds: Vec<String> =
            self.unknown.iter().map(|(kind, count)| format!("{count} of `{kind}`")).collect();
        (!kinds.is_empty())
            .then(|| format!("events that are not known and were ignored: {}", kinds.join(", ")))
    }

    /// Reads a whole line of its output.
    pub(crate) fn read(&mut self, line: &[u8]) -> AgentOutput {
        let heard = self.dialect.hear(line);
        self.take(heard)
    }

    /// Reads the start of a line that is too long to be kept.
    pub(crate) fn read_cut(&mut self, start: &[u8]) -> AgentOutput {
        let heard = self.dialect.hear_cut(start);
        self.take(heard)
    }

    /// What a decision on a use of a tool comes to.
    pub(super) fn decide(&mut self, asked: &AskedUse, refused: Option<&str>) -> AgentOutput {
        let AskedUse { request, input, .. } = asked;
        let heard = self.dialect.say(Saying::Decision { request, input, refused });
        self.take(heard)
    }

    fn take(&mut self, heard: AgentExchange) -> AgentOutput {
        let mut output = AgentOutput { inputs: heard.inputs, ..AgentOutput::default() };
        for event in heard.events {
            output = output.and(self.hear(event));
        }
        output
    }

    fn hear(&mut self, event: AgentEvent) -> AgentOutput {
        let mut output = AgentOutput::default();
        let answered = matches!(
            event,
            AgentEvent::Answers
                | AgentEvent::Says { .. }
                | AgentEvent::Uses { .. }
                | AgentEvent::Asks(_)
        );
        if answered && std::mem::take(&mut self.blocked) {
            output = AgentOutput::plain(RunnerEvent::Unblocked);
        }
        output.and(match event {
            AgentEvent::Opened { goes_on, conversation } => self.opened(goes_on, conversation),
            AgentEvent::Ready { version, model } => self.is_ready(&version, &model),
            AgentEvent::Written { number } => self.was_written(number),
            AgentEvent::Read { number } => self.was_read(number),
            AgentEvent::Dropped { number, why } => self.was_dropped(number, why),
            AgentEvent::Answers => {
                self.using.clear();
                AgentOutput::plain(RunnerEvent::Using { tool: String::new() })
            }
            AgentEvent::Says { text } => {
                self.words.clone_from(&text);
                AgentOutput::plain(RunnerEvent::Text { text })
            }
            AgentEvent::Uses { tool, input } => {
                let text = used(&tool, &input);
                let progress = RunnerEvent::Progress { text, done: None, total: None };
                AgentOutput::plain(RunnerEvent::Using { tool }).and(AgentOutput::plain(progress))
            }
            AgentEvent::Used(usage) => {
                self.usage = usage;
                AgentOutput::event(ProgramEvent::Usage(usage))
            }
            AgentEvent::Retries { status, why } => self.retries(status, &why),
            AgentEvent::Asks(asked) => self.asks(asked),
            AgentEvent::Withdraws { request } => self.withdraws(&request),
            AgentEvent::Interrupted { request, refused } => self.interrupted(&request, refused),
            AgentEvent::Ended(end) => self.turn_ended(end),
            AgentEvent::Note { text } => AgentOutput { note: Some(text), ..AgentOutput::default() },
            AgentEvent::Unknown { kind } => {
                let known = self.unknown.contains_key(&kind) || self.unknown.len() < UNKNOWN_MAX;
                let kind = if known { kind } else { "others".to_owned() };
                *self.unknown.entry(kind).or_default() += 1;
                AgentOutput::text()
            }
            AgentEvent::Text => AgentOutput::text(),
        })
    }

    /// Its conversation is open: it is told the brief, or that it is to go on with it.
    fn opened(&mut self, goes_on: bool, conversation: String) -> AgentOutput {
        self.conversation = conversation;
        let mut first = std::mem::take(&mut self.brief.first);
        if goes_on {
            GOES_ON.clone_into(&mut first);
            if self.brief.tools.has(AgentTool::ArtifactPut.name()) {
                first.push_str("\n\n");
                first.push_str(NOT_HANDED_OVER);
            }
        }
        let using = std::mem::take(&mut self.brief.using);
        if !using.is_empty() {
            first.push_str("\n\n[Your last session was allowed these uses of tools, which may have taken effect:]\n- ");
            first.push_str(&using.join("\n- "));
        }
        let number = self.brief.base.wrapping_add(1);
        let heard = self.say(number, &first, None);
        self.take(heard)
    }

    /// It is up, which it may say at the start of each turn.
    fn is_ready(&mut self, version: &str, model: &str) -> AgentOutput {
        if std::mem::replace(&mut self.ready, true) {
            return AgentOutput::default();
        }
        let AdapterSheet { program, tested, .. } = self.sheet;
        let untested = if tested.contains(&version) {
            String::new()
        } else {
            format!("; its adapter was tested with {}", tested.join(", "))
        };
        let note = Some(format!("{program} {version}, model {model}{untested}"));
        AgentOutput { note, ..AgentOutput::default() }
    }

    /// A message that waited is on its way: who sent it hears of that now.
    fn was_written(&mut self, number: u128) -> AgentOutput {
        let Some(unread) = self.unread.get_mut(&number) else { return AgentOutput::default() };
        let place = std::mem::take(&mut unread.place);
        if let Some(id) = unread.verb {
            let (stage, why) = (Stage::Delivered, String::new());
            return AgentOutput::plain(RunnerEvent::Receipt { id, stage, why });
        }
        if place == 0 {
            return AgentOutput::default();
        }
        AgentOutput::plain(RunnerEvent::Taken { place })
    }

    fn was_read(&mut self, number: u128) -> AgentOutput {
        let Some(unread) = self.unread.remove(&number) else { return AgentOutput::default() };
        let mut output = AgentOutput::event(ProgramEvent::Turn { begins: true });
        if let Some(id) = unread.verb {
            output.events.push(ProgramEvent::Taken(id));
        }
        // It has kept the message itself: who goes on from here is not given it again.
        output.events.push(self.checkpoint());
        output
    }

    /// What its next session has to know: its own transcript lacks the last moments of a program that was killed.
    pub(super) fn checkpoint(&self) -> ProgramEvent {
        let state = json!({
            "adapter": self.sheet.program, CONVERSATION: self.conversation, "messages": self.messages,
            USING: self.using,
        });
        let state = state.to_string();
        ProgramEvent::Plain(RunnerEvent::Checkpoint { state, confirm: false })
    }

    fn was_dropped(&mut self, number: u128, why: String) -> AgentOutput {
        let Some(unread) = self.unread.remove(&number) else { return AgentOutput::default() };
        let Some(id) = unread.verb else {
            self.again.push(unread.text);
            return AgentOutput::default();
        };
        AgentOutput::plain(RunnerEvent::Receipt { id, stage: Stage::Refused, why })
    }

    /// Whether messages wait for it. A turn is of the first message at least, also where it failed before that was
    /// read.
    pub(super) fn has_unread(&mut self) -> bool {
        self.unread.remove(&self.brief.base.wrapping_add(1));
        !self.unread.is_empty()
    }

    fn interrupted(&mut self, request: &str, refused: Option<String>) -> AgentOutput {
        if request == ENDING {
            return AgentOutput { inputs: vec![AgentInput::Close], ..AgentOutput::default() };
        }
        let Ok(id) = request.parse::<RequestId>() else { return AgentOutput::default() };
        let mut output = AgentOutput::default();
        if self.held.take_if(|held| *held == id).is_some() {
            output = AgentOutput::plain(RunnerEvent::Receipt {
                id,
                stage: Stage::Delivered,
                why: String::new(),
            });
        }
        output.and(match refused {
            None => AgentOutput::event(ProgramEvent::Taken(id)),
            Some(why) => {
                self.aborting = false;
                AgentOutput::plain(RunnerEvent::Receipt { id, stage: Stage::Refused, why })
            }
        })
    }
}

/// A use of a tool, for people and for a next session.
pub(super) fn used(tool: &str, input: &Value) -> String {
    format!("{tool}: {}", start_of(&input.to_string(), USE_BYTES))
}

/// The lines among inputs, as one; none when there is none.
fn lines(inputs: Vec<AgentInput>) -> Option<Vec<u8>> {
    let lines = inputs.into_iter().filter_map(|input| match input {
        AgentInput::Line(line) => Some(line),
        AgentInput::Close => None,
    });
    let all = lines.collect::<Vec<Vec<u8>>>().concat();
    (!all.is_empty()).then_some(all)
}

fn told_of(heard: AgentExchange) -> AgentDelivery {
    lines(heard.inputs).map_or(AgentDelivery::Held, AgentDelivery::Line)
}
