//! Asking a model until its answer is valid, at most so many times (spec 05, The planner). What is said is
//! decided here; saying it is the shell's.

use serde_json::Value;

use crate::converse::cost::{Tokens, tokens_of};
use crate::limits::{LIST_MAX, PLANNER_PROBLEMS_BYTES_MAX, PLANNER_REPEAT_BYTES_MAX};
use crate::redaction;

use super::template::Template;
use super::{Bounds, Planning, Proposal, answer, schema};

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// We, before anything else.
    System,
    /// We.
    User,
    /// The model.
    Model,
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// By whom.
    pub by: Speaker,
    /// What.
    pub text: String,
}

/// One question with what was said so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialogue {
    planning: Planning,
    bounds: Bounds,
    turns: Vec<Turn>,
    attempts: u32,
    took: Tokens,
    problems: Vec<String>,
}

/// What follows from an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// It is sent back with what is wrong with it.
    Ask(Box<Dialogue>),
    /// That was the last one.
    End(Proposal),
}

impl Dialogue {
    /// The first thing that is said about a question.
    #[must_use]
    pub fn begin(planning: &Planning, bounds: Bounds) -> Self {
        let template = Template::of(planning.purpose);
        let schema = schema::answer(planning.purpose, bounds);
        let system = format!("{}\nJSON Schema of the answer:\n{schema}\n", template.text);
        let turns = vec![
            Turn { by: Speaker::System, text: system },
            Turn { by: Speaker::User, text: planning.inputs.clone() },
        ];
        let took = Tokens::default();
        Self { planning: planning.clone(), bounds, turns, attempts: 0, took, problems: Vec::new() }
    }

    /// Bytes that the model reads next.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.turns.iter().map(|turn| turn.text.len()).sum()
    }

    /// What was said so far; the model is next.
    #[must_use]
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// What the answer has to satisfy.
    #[must_use]
    pub fn schema(&self) -> Value {
        schema::answer(self.planning.purpose, self.bounds)
    }

    /// Notes that an attempt at asking failed; another may follow.
    pub fn troubled(&mut self, why: &str) {
        self.problems.push(why.to_owned());
    }

    /// Counts a request that the model heard, or may have heard, and that brought no answer: what it read.
    pub fn heard(&mut self) {
        let input = tokens_of(self.bytes());
        self.took.input = self.took.input.saturating_add(input);
    }

    /// Takes an answer and what it took. `check` says what of the schema it does not satisfy.
    #[must_use]
    pub fn answered(
        mut self,
        (text, took): (&str, Tokens),
        check: impl FnOnce(&Value) -> Vec<String>,
    ) -> Next {
        self.attempts += 1;
        self.count(text, took);
        let read = answer::json_of(text).and_then(|value| {
            // The rules of plans say more of what is wrong than their schema does.
            answer::read(&self.planning, self.bounds, &value)?;
            let found = check(&value);
            if found.is_empty() { Ok(value) } else { Err(found) }
        });
        let found = match read {
            Ok(mut value) => {
                redaction::value(&mut value);
                return Next::End(self.end(Some(value.to_string())));
            }
            Err(found) => bounded(&found),
        };
        let attempt = self.attempts;
        self.problems.extend(found.iter().map(|problem| format!("answer {attempt}: {problem}")));
        if self.attempts >= self.calls() {
            return Next::End(self.end(None));
        }
        let said = start(text, PLANNER_REPEAT_BYTES_MAX).to_owned();
        let again = format!(
            "That answer is not valid:\n- {}\nAnswer again with the whole JSON object, corrected.",
            found.join("\n- ")
        );
        self.turns.truncate(2);
        self.turns.push(Turn { by: Speaker::Model, text: said });
        self.turns.push(Turn { by: Speaker::User, text: again });
        Next::Ask(Box::new(self))
    }

    /// Answers that may be asked for.
    fn calls(&self) -> u32 {
        let most = self.bounds.repairs.saturating_add(1);
        if self.planning.calls == 0 { most } else { most.min(self.planning.calls) }
    }

    /// Whoever does not count is counted.
    fn count(&mut self, text: &str, took: Tokens) {
        let counted =
            Tokens { input: tokens_of(self.bytes()), cached: 0, output: tokens_of(text.len()) };
        let Tokens { input, cached, output } =
            if took == Tokens::default() { counted } else { took };
        self.took = Tokens {
            input: self.took.input.saturating_add(input),
            cached: self.took.cached.saturating_add(cached),
            output: self.took.output.saturating_add(output),
        };
    }

    /// Gives up asking.
    #[must_use]
    pub fn failed(mut self, why: &str) -> Proposal {
        self.problems.push(why.to_owned());
        self.end(None)
    }

    fn end(self, answer: Option<String>) -> Proposal {
        let problems = bounded(&self.problems);
        let (id, attempts, took) = (self.planning.id, self.attempts, self.took);
        Proposal { id, answer, attempts, took, problems }
    }
}

/// As many problems as there is room for, without the credentials that a model may have said.
pub(crate) fn bounded(problems: &[String]) -> Vec<String> {
    let mut room = PLANNER_PROBLEMS_BYTES_MAX;
    let mut kept = Vec::new();
    for problem in problems.iter().take(LIST_MAX) {
        let problem = redaction::text(problem);
        let text = start(&problem, room.min(PLANNER_PROBLEMS_BYTES_MAX / 4));
        if text.is_empty() {
            break;
        }
        room -= text.len();
        kept.push(text.to_owned());
    }
    kept
}

/// The beginning of a text, of at most so many bytes.
fn start(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
