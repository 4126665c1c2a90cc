//! Typed access to the parts of a document tree; everything that is wrong is collected with
//! its path. It knows no plan.

use std::cell::RefCell;
use std::fmt::Display;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::brief::Tools;
use crate::budget::Limits;
use crate::duration::{self, DURATION_FORMS};
use crate::id::{IdError, NodeId};
use crate::limits::{LIST_MAX, TEXT_BYTES_MAX};
use crate::plan::schema::{PlanProblem, spelling};
use crate::time::Millis;

/// Problems of a document that are told; whoever mends these is told the rest.
const PROBLEMS_MAX: usize = 100;
/// Problems of a document up to which a key that was meant is looked for, which takes long.
const MEANT_MAX: usize = 20;

/// What was found to be wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Problems(RefCell<Vec<PlanProblem>>);

impl Problems {
    pub(crate) fn add(
        &self,
        path: impl Into<String>,
        problem: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        let mut found = self.0.borrow_mut();
        if found.len() < PROBLEMS_MAX {
            let (path, problem, allowed) = (path.into(), problem.into(), allowed.into());
            found.push(PlanProblem { path, problem, allowed });
        } else if found.len() == PROBLEMS_MAX {
            let (path, problem) =
                ("plan".to_owned(), format!("has more than {PROBLEMS_MAX} problems"));
            found.push(PlanProblem { path, problem, allowed: "none; mend these first".to_owned() });
        }
    }

    fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(crate) fn into_found(self) -> Vec<PlanProblem> {
        self.0.into_inner()
    }
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Entry<'a> {
    path: String,
    value: &'a Value,
    problems: &'a Problems,
}

impl<'a> Entry<'a> {
    pub(crate) fn root(value: &'a Value, problems: &'a Problems) -> Self {
        Self { path: String::new(), value, problems }
    }

    pub(crate) fn path(&self) -> &str {
        if self.path.is_empty() { "plan" } else { &self.path }
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    pub(crate) fn wrong(&self, problem: impl Into<String>, allowed: impl Into<String>) {
        self.problems.add(self.path(), problem, allowed);
    }

    fn wrong_kind(&self, allowed: &str) {
        let kind = match self.value {
            Value::Null => "empty",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "a mapping",
        };
        self.wrong(format!("is {kind}"), allowed);
    }

    /// The value as a mapping with these keys, written in camelCase or snake_case.
    pub(crate) fn map(&self, keys: &'static [&'static str]) -> Option<Fields<'a>> {
        let Value::Object(map) = self.value else {
            self.wrong_kind(&format!("a mapping with the keys {}", keys.join(", ")));
            return None;
        };
        let fields = Fields { path: self.path.clone(), map, keys, problems: self.problems };
        fields.check_keys();
        Some(fields)
    }

    /// The value as a mapping from names to anything.
    pub(crate) fn pairs(&self, allowed: &str) -> Vec<(&'a str, Self)> {
        let Value::Object(map) = self.value else {
            self.wrong_kind(allowed);
            return Vec::new();
        };
        self.check_length(map.len(), LIST_MAX);
        let entry = |key: &str, value| Self {
            path: format!("{}.{key}", self.path),
            value,
            problems: self.problems,
        };
        map.iter().map(|(key, value)| (key.as_str(), entry(key, value))).collect()
    }

    /// The value as a list of at most `max` entries; what is over that is not looked at.
    pub(crate) fn list(&self, max: usize, allowed: &str) -> Vec<Self> {
        let Value::Array(values) = self.value else {
            self.wrong_kind(allowed);
            return Vec::new();
        };
        self.check_length(values.len(), max);
        let entry = |(index, value)| Self {
            path: format!("{}[{index}]", self.path),
            value,
            problems: self.problems,
        };
        values.iter().take(max).enumerate().map(entry).collect()
    }

    fn check_length(&self, len: usize, max: usize) {
        if len > max {
            let problem = format!("has {len} entries; the limit is {max} entries");
            self.wrong(problem, format!("at most {max} entries"));
        }
    }

    /// The value as a text of at most `max` bytes.
    pub(crate) fn text(&self, max: usize) -> Option<String> {
        let Value::String(text) = self.value else {
            self.wrong_kind("a text");
            return None;
        };
        if text.len() > max {
            let problem = format!("has {} bytes; the limit is {max} bytes", text.len());
            self.wrong(problem, format!("a text of at most {max} bytes"));
            return None;
        }
        Some(text.clone())
    }

    /// The value as a text that says something.
    pub(crate) fn filled_text(&self, max: usize) -> Option<String> {
        let text = self.text(max)?;
        if text.trim().is_empty() {
            self.wrong("is an empty text", "a text that is not empty");
        }
        Some(text)
    }

    /// The value as a name that people read: one that neither moves their cursor nor turns the text around it.
    pub(crate) fn shown_name(&self, max: usize) -> Option<String> {
        let text = self.filled_text(max)?;
        let hides = |c: &char| is_bidirectional(*c) || c.is_control() && !matches!(c, '\n' | '\t');
        if let Some(hidden) = text.chars().find(hides) {
            let kind = if is_bidirectional(hidden) { "bidirectional " } else { "" };
            let problem = format!("holds the {kind}control character U+{:04X}", u32::from(hidden));
            self.wrong(problem, "a text without invisible characters");
        }
        Some(text)
    }

    /// The value as true or false.
    pub(crate) fn truth(&self) -> Option<bool> {
        let truth = self.value.as_bool();
        if truth.is_none() {
            self.wrong_kind("true or false");
        }
        truth
    }

    /// The value as a list of texts, each of which says something.
    pub(crate) fn texts(&self) -> Vec<String> {
        let entries = self.list(LIST_MAX, "a list of texts");
        entries.iter().filter_map(|entry| entry.filled_text(TEXT_BYTES_MAX)).collect()
    }

    /// The value as a text that `read` understands.
    pub(crate) fn word<T>(&self, allowed: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let Value::String(text) = self.value else {
            self.wrong_kind(allowed);
            return None;
        };
        let word = read(text);
        if word.is_none() {
            self.wrong(format!("is {text:?}"), allowed);
        }
        word
    }

    fn id<T: FromStr<Err: Display>>(&self, allowed: &str) -> Option<T> {
        let Value::String(text) = self.value else {
            self.wrong_kind(allowed);
            return None;
        };
        text.parse().map_err(|error: T::Err| self.wrong(fault(&error), allowed)).ok()
    }

    pub(crate) fn name<T: FromStr<Err = IdError>>(&self) -> Option<T> {
        self.id("1 to 64 of A-Z a-z 0-9 _ -, starting with a letter or digit")
    }

    pub(crate) fn node_id(&self) -> Option<NodeId> {
        self.id("an id such as P1, T1.2 or S1.2.3")
    }

    /// The value as a whole number within these ends.
    pub(crate) fn whole(&self, min: u64, max: u64) -> Option<u64> {
        let number = self.value.as_u64().filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let allowed = if max == u64::MAX {
                format!("a whole number from {min}")
            } else {
                format!("a whole number from {min} to {max}")
            };
            self.wrong(format!("is {}", self.value), allowed);
        }
        number
    }

    /// The value as a number times a million, rounded.
    fn millionths(&self, allowed: &str) -> Option<u64> {
        let scaled = self.value.as_f64().map(|number| (number * 1e6).round());
        let fits = scaled.filter(|scaled| (1.0..1e18).contains(scaled));
        if fits.is_none() {
            self.wrong(format!("is {}", self.value), allowed);
        }
        // Within the ends just checked nothing is lost.
        fits.map(|scaled| scaled as u64)
    }

    /// The value as a length of time: text such as `30s`, or seconds.
    pub(crate) fn duration(&self) -> Option<Millis> {
        let allowed = format!("more than nothing: seconds, or {DURATION_FORMS}");
        let length = match self.value {
            Value::String(text) => duration::parse(text).map_err(|error| fault(&error)),
            Value::Number(_) => {
                return self.millionths(&allowed).map(|micros| Millis(micros.div_ceil(1_000)));
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                self.wrong_kind(&allowed);
                return None;
            }
        };
        match length {
            Ok(Millis(0)) => self.wrong("is nothing", allowed),
            Ok(length) => return Some(length),
            Err(error) => self.wrong(error, allowed),
        }
        None
    }

    /// The value as limits per counter.
    pub(crate) fn budget(&self) -> Limits {
        let Some(fields) = self.map(&["tokens", "costUsd", "turns"]) else {
            return Limits::default();
        };
        let count = |key| fields.get(key).and_then(|entry| entry.whole(1, u64::MAX));
        let cost = fields.get("costUsd");
        Limits {
            tokens: count("tokens"),
            cost_micro: cost.and_then(|cost| cost.millionths("dollars, from 0.000001")),
            turns: count("turns"),
        }
    }
}

/// A mapping with known keys.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
    keys: &'static [&'static str],
    problems: &'a Problems,
}

impl<'a> Fields<'a> {
    fn check_keys(&self) {
        for given in self.map.keys() {
            if self.problems.len() > PROBLEMS_MAX {
                return;
            }
            let known = self.keys.iter().find(|key| *key == given || snake_case(key) == *given);
            match known {
                None => {
                    let mut problem = "is an unknown key".to_owned();
                    let is_early = self.problems.len() < MEANT_MAX;
                    if let Some(key) = is_early.then(|| spelling::meant(given, self.keys)).flatten()
                    {
                        problem = format!("{problem}; did you mean {key}?");
                    }
                    self.problems.add(self.at(given), problem, self.keys.join(", "));
                }
                Some(key) if key != given && self.map.contains_key(*key) => {
                    let allowed = format!("{key} or {given}, not both");
                    self.problems.add(self.at(given), "is given twice", allowed);
                }
                Some(_) => {}
            }
        }
    }

    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of a key, given in camelCase; an empty value counts as none.
    pub(crate) fn get(&self, key: &str) -> Option<Entry<'a>> {
        let snake = snake_case(key);
        let (given, value) = match self.map.get(key) {
            Some(value) => (key, value),
            None => (snake.as_str(), self.map.get(&snake)?),
        };
        (!value.is_null()).then(|| Entry { path: self.at(given), value, problems: self.problems })
    }

    pub(crate) fn missing(&self, key: &str, allowed: &str) {
        self.problems.add(self.at(key), "is missing", allowed);
    }

    /// Bounds the mapping's bytes as compact JSON, `without` the values of some keys.
    pub(crate) fn check_size(&self, without: &[&str], max: usize) {
        let kept = self.map.iter().filter(|(key, _)| !without.contains(&key.as_str()));
        let size: usize = kept.map(|(key, value)| key.len() + value.to_string().len() + 4).sum();
        if size > max {
            let problem = format!("has {size} bytes in all; the limit is {max} bytes");
            self.problems.add(&self.path, problem, "shorter texts; long ones are artifacts");
        }
    }

    pub(crate) fn text(&self, key: &str, max: usize) -> Option<String> {
        self.get(key).and_then(|entry| entry.text(max))
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        self.get(key).map(|entry| entry.texts()).unwrap_or_default()
    }

    pub(crate) fn tools(&self) -> Tools {
        self.texts("tools").into_iter().collect()
    }

    pub(crate) fn name<T: FromStr<Err = IdError>>(&self, key: &str) -> Option<T> {
        self.get(key).and_then(|entry| entry.name())
    }

    pub(crate) fn word<T>(
        &self,
        key: &str,
        allowed: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.get(key).and_then(|entry| entry.word(allowed, read))
    }

    pub(crate) fn budget(&self) -> Limits {
        self.get("budget").map(|entry| entry.budget()).unwrap_or_default()
    }

    pub(crate) fn wall(&self) -> Option<Millis> {
        self.get("wall").and_then(|entry| entry.duration())
    }
}

/// Whether it changes the direction of the text that follows.
fn is_bidirectional(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A key as it is written with underscores.
#[must_use]
pub fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// What an error says is wrong; what is allowed instead is said of the key.
fn fault(error: &impl Display) -> String {
    let text = error.to_string();
    text.rsplit_once("; allowed: ").map_or(text.as_str(), |(fault, _)| fault).to_owned()
}
