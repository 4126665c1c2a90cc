//! A conversation with a model that works on a brief by calling tools (spec 06, Runners, llm): what was said,
//! what comes next, and what a run that goes on knows of the runs before it. Every change is a
//! [`Recorded`], which is journaled and applied; replaying the journal gives the same conversation.

pub mod cost;
pub mod opening;
pub mod recorded;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::limits::{
    CALLS_PER_TURN_MAX, COMPACTION_SHARE, CUT_TURNS_MAX, FRUITLESS_TURNS_MAX,
    TOOL_ANSWER_BYTES_MAX, TURN_BYTES_MAX, TURNS_MAX,
};

pub use recorded::Recorded;

/// The tool that ends a run; every run has it.
pub const FINISH: &str = "finish";
/// Longest name of a tool that is kept, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// What stands for a reply without any words.
const NO_WORDS: &str = "[no words]";
/// What the model is told of an answer that was cut off.
const CUT_OFF: &str =
    "[Your answer was cut off at the limit of output tokens. Go on exactly where it ended.]";

/// What calling a tool does to the world (spec 06, Effects).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it may be made again at any time.
    ReadOnly,
    /// The same when it is made twice.
    Idempotent,
    /// Something that must not be repeated unknowingly.
    Effectful,
}

/// A call of a tool, as the model made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What the provider calls it; its answer names it.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments: JSON text, or whatever the model wrote instead.
    pub arguments: String,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The call it answers.
    pub call: Call,
    /// In words, for the model.
    pub text: String,
    /// Whether it went wrong.
    pub is_error: bool,
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// To the model.
    User(String),
    /// By the model.
    Model {
        /// Its words.
        text: String,
        /// What it wants done.
        calls: Vec<Call>,
    },
    /// What came of its calls, in their order.
    Answers(Vec<Answer>),
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: serde_json::Value,
    /// What calling it does.
    pub effect: Effect,
}

/// What a model said in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// Its words.
    pub text: String,
    /// What it wants done.
    pub calls: Vec<Call>,
    /// What it took.
    pub tokens: cost::Tokens,
    /// Whether it was cut off at the limit of output tokens.
    pub is_cut: bool,
}

/// A call that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The turn it was made in, from 1.
    pub step: u64,
    /// Its place in that turn, from 0.
    pub index: u32,
    /// The call.
    pub call: Call,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The model speaks.
    Ask,
    /// These calls are made: one, or several that change nothing.
    Call(Vec<Due>),
    /// An earlier run began this call, and nobody knows whether it took effect.
    /// How often it was begun is told as well.
    Doubt(Due, u32),
    /// Its answer was cut off: this is said to it, and it speaks on.
    SpeakOn(String),
    /// The model spoke without calling anything: these are its words, over answers that were cut off.
    Spoke(String),
    /// It leads nowhere; why.
    GiveUp(String),
}

/// A call of the last turn that is not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    index: u32,
    call: Call,
    /// Intents that are recorded.
    begun: u32,
}

/// One conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    opening: String,
    /// Bytes that go with every request besides what is said.
    besides: usize,
    summary: Option<String>,
    messages: Vec<Message>,
    step: u64,
    open: Vec<Open>,
    answers: BTreeMap<u32, Answer>,
    /// What was heard while calls were open.
    waiting: Vec<String>,
    /// Turns in a row that led to nothing.
    fruitless: u32,
    /// Turns in a row that were cut off, and whether the model is still to be told of the last.
    cut: u32,
    is_cut: bool,
    /// What it says when it calls nothing, over turns that were cut off.
    words: String,
    /// The last message of the inbox that was heard.
    letter: u64,
    /// Tokens of what was said so far, and how many of the bytes since then are not in them.
    known: Option<u64>,
    bytes_since: usize,
}

impl Conversation {
    /// One that begins with these words to the model, and goes on from what is recorded. `besides` is what
    /// goes with every request, in bytes: the system prompt and the tools.
    #[must_use]
    pub fn open(opening: String, besides: usize, earlier: &[Recorded]) -> Self {
        let bytes_since = besides + opening.len();
        let mut it = Self {
            opening,
            besides,
            summary: None,
            messages: Vec::new(),
            step: 0,
            open: Vec::new(),
            answers: BTreeMap::new(),
            waiting: Vec::new(),
            fruitless: 0,
            cut: 0,
            is_cut: false,
            words: String::new(),
            letter: 0,
            known: None,
            bytes_since,
        };
        for recorded in earlier {
            it.apply(recorded);
        }
        it
    }

    /// More goes with every request, in bytes: tools that became known late.
    pub fn carries(&mut self, bytes: usize) {
        self.besides += bytes;
        self.bytes_since += bytes;
    }

    /// Turns so far.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// All that was said, for the model.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let mut first = self.opening.clone();
        if let Some(summary) = &self.summary {
            first.push_str("\n\n# What was done so far\n");
            first.push_str(summary);
        }
        let mut said: Vec<Message> = vec![Message::User(first)];
        for message in &self.messages {
            match (said.last_mut(), message) {
                (Some(Message::User(before)), Message::User(text)) => {
                    before.push_str("\n\n");
                    before.push_str(text);
                }
                (_, message) => said.push(message.clone()),
            }
        }
        said
    }

    /// The last message of its inbox that was heard, by its place there; 0 for none.
    #[must_use]
    pub fn letter(&self) -> u64 {
        self.letter
    }

    /// Whether something was heard that the model reads when its calls are answered.
    #[must_use]
    pub fn has_heard(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The model's last words, for whoever wants what there is.
    #[must_use]
    pub fn last_words(&self) -> &str {
        if !self.words.is_empty() {
            return &self.words;
        }
        let spoken = self.messages.iter().rev().find_map(|message| match message {
            Message::Model { text, .. } if !text.is_empty() && text != NO_WORDS => Some(text),
            Message::Model { .. } | Message::User(_) | Message::Answers(_) => None,
        });
        spoken.map_or_else(|| self.summary.as_deref().unwrap_or_default(), String::as_str)
    }

    /// Tokens of what the model would read next, at most about so many.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.known.unwrap_or_default().saturating_add(cost::tokens_of(self.bytes_since))
    }

    /// The model said how much it read and wrote: counts from there.
    pub fn weighed(&mut self, tokens: cost::Tokens) {
        if tokens.input > 0 {
            self.known = Some(tokens.input.saturating_add(tokens.output));
            self.bytes_since = 0;
        }
    }

    /// Whether what was said takes so much of the context that it is to be summarised.
    #[must_use]
    pub fn is_full(&self, context_tokens: u64) -> bool {
        let share = context_tokens.saturating_mul(COMPACTION_SHARE) / 1_000;
        // The halves of an answer belong together.
        !self.messages.is_empty() && self.cut == 0 && self.tokens() > share
    }

    /// The calls that are not answered, each with how often it was begun.
    #[must_use]
    pub fn unanswered(&self) -> Vec<(Due, u32)> {
        let open = |open: &Open| {
            let due = Due { step: self.step, index: open.index, call: open.call.clone() };
            (due, open.begun)
        };
        self.open.iter().map(open).collect()
    }

    /// What comes next.
    #[must_use]
    pub fn next(&self, effect: impl Fn(&Call) -> Effect) -> Next {
        if let Some(first) = self.open.first() {
            let due =
                |open: &Open| Due { step: self.step, index: open.index, call: open.call.clone() };
            if first.begun > 0 && effect(&first.call) == Effect::Effectful {
                return Next::Doubt(due(first), first.begun);
            }
            let reading =
                self.open.iter().take_while(|open| effect(&open.call) == Effect::ReadOnly);
            let side_by_side: Vec<Due> = reading.map(due).collect();
            return Next::Call(if side_by_side.is_empty() {
                vec![due(first)]
            } else {
                side_by_side
            });
        }
        if self.cut >= CUT_TURNS_MAX {
            return Next::GiveUp("its answers are longer than it may write".to_owned());
        }
        if self.is_cut {
            return Next::SpeakOn(CUT_OFF.to_owned());
        }
        if let Some(Message::Model { text, calls }) = self.messages.last()
            && calls.is_empty()
        {
            let words = if self.words.is_empty() { text } else { &self.words };
            return Next::Spoke(words.clone());
        }
        if self.fruitless >= FRUITLESS_TURNS_MAX {
            return Next::GiveUp(format!(
                "{FRUITLESS_TURNS_MAX} turns in a row led to nothing but errors"
            ));
        }
        if self.step >= TURNS_MAX {
            return Next::GiveUp(format!("{TURNS_MAX} turns did not lead to a result"));
        }
        Next::Ask
    }

    /// What is recorded of a reply: bounded, each call with a name of its own.
    #[must_use]
    pub fn turn(&self, reply: &Reply) -> Recorded {
        let step = self.step.saturating_add(1);
        let mut room = TURN_BYTES_MAX;
        let strange = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
        let mut text = cut(&reply.text.replace(strange, "\u{fffd}"), room / 2);
        room = room.saturating_sub(text.len());
        if text.is_empty() && reply.calls.is_empty() {
            NO_WORDS.clone_into(&mut text);
        }
        let mut calls: Vec<Call> = Vec::new();
        for (place, call) in reply.calls.iter().take(CALLS_PER_TURN_MAX).enumerate() {
            let mut call = call.clone();
            let is_known = calls.iter().any(|other| other.id == call.id);
            if call.id.is_empty() || call.id.len() > NAME_BYTES_MAX || is_known {
                call.id = format!("call_{step}_{place}");
            }
            call.tool = cut(&call.tool, NAME_BYTES_MAX);
            if call.arguments.len() > room {
                call.arguments =
                    format!("[{} bytes of arguments were too many]", call.arguments.len());
            }
            room = room.saturating_sub(call.arguments.len());
            calls.push(call);
        }
        let is_cut = reply.is_cut && calls.is_empty();
        Recorded::Turn { step, text, calls, is_cut }
    }

    /// Takes what is recorded.
    pub fn apply(&mut self, recorded: &Recorded) {
        self.letter = self.letter.max(recorded.letter());
        match recorded {
            Recorded::Turn { step, text, calls, is_cut } => {
                self.settle();
                self.step = *step;
                self.spoke(text, !calls.is_empty(), *is_cut);
                let open =
                    |(index, call): (u32, &Call)| Open { index, call: call.clone(), begun: 0 };
                self.open = (0..).zip(calls).map(open).collect();
                self.answers.clear();
                let arguments: usize = calls.iter().map(|call| call.arguments.len()).sum();
                self.bytes_since += text.len() + arguments;
                let (text, calls) = (text.clone(), calls.clone());
                self.messages.push(Message::Model { text, calls });
            }
            Recorded::Intent { step, index, .. } if *step == self.step => {
                for open in self.open.iter_mut().filter(|open| open.index == *index) {
                    open.begun += 1;
                }
            }
            Recorded::Answer { step, index, text, is_error, .. } if *step == self.step => {
                self.answered(*index, text, *is_error);
            }
            Recorded::Heard { text, .. } => {
                self.bytes_since += text.len();
                self.is_cut &= text != CUT_OFF;
                self.waiting.push(text.clone());
                if self.open.is_empty() {
                    self.settle();
                }
            }
            Recorded::Summary { text, .. } => {
                self.messages.clear();
                self.open.clear();
                self.answers.clear();
                self.known = None;
                self.bytes_since = self.besides + self.opening.len() + text.len();
                self.summary = Some(text.clone());
                self.settle();
            }
            // Of a turn that is not the last: its answer stands, or nobody waits for it any more.
            Recorded::Intent { .. } | Recorded::Answer { .. } => {}
        }
    }

    fn spoke(&mut self, text: &str, calls: bool, is_cut: bool) {
        if self.cut == 0 || calls {
            self.words.clear();
        }
        if !calls && text != NO_WORDS {
            self.words.push_str(text);
        }
        self.is_cut = is_cut;
        self.cut = if is_cut { self.cut + 1 } else { 0 };
    }

    fn answered(&mut self, index: u32, text: &str, is_error: bool) {
        let Some(place) = self.open.iter().position(|open| open.index == index) else { return };
        let call = self.open.remove(place).call;
        self.bytes_since += text.len();
        self.answers.insert(index, Answer { call, text: text.to_owned(), is_error });
        if self.open.is_empty() {
            let failed = self.answers.values().all(|answer| answer.is_error);
            self.fruitless = if failed { self.fruitless + 1 } else { 0 };
            self.settle();
        }
    }

    /// Puts what is complete where the model reads it. Calls that nobody answered before something
    /// else was said are answered by that.
    fn settle(&mut self) {
        for open in std::mem::take(&mut self.open) {
            let text = "[nothing is known of this call]".to_owned();
            self.answers.insert(open.index, Answer { call: open.call, text, is_error: true });
        }
        if !self.answers.is_empty() {
            let answers = std::mem::take(&mut self.answers).into_values().collect();
            self.messages.push(Message::Answers(answers));
        }
        let heard = self.waiting.drain(..).map(Message::User);
        self.messages.extend(heard);
    }
}

/// What the model is told of a call: cut in the middle when it is too long.
#[must_use]
pub fn fitting(text: &str) -> String {
    cut(text, TOOL_ANSWER_BYTES_MAX)
}

/// The beginning and the end of a text, together about so many bytes, and how much is left out.
fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let (mut head, mut tail) = (bytes / 2, text.len() - bytes / 4);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n[{} bytes are left out]\n{}", &text[..head], tail - head, &text[tail..])
}
