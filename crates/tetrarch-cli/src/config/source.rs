//! Where values come from: files with their lines, variables, options (spec 12, Layers). It
//! reads and says what is wrong where; which layer wins is the caller's.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::keys::{ConfigKey, KEYS, below};
use super::value::ValueKind;
use crate::{CliError, CliResult, Code};

/// What every variable of ours starts with.
const VARIABLES: &str = "TETRARCH_";
/// Variables of ours that are no configuration: where the server binary is, and what hosts and
/// examples tell the programs they start.
const NO_CONFIGURATION: [&str; 13] = [
    "TETRARCH_NATS_SERVER",
    "TETRARCH_BIN",
    "TETRARCH_PYTHON",
    "TETRARCH_ARGS",
    "TETRARCH_CWD",
    "TETRARCH_PLAN_DIR",
    "TETRARCH_AGENT",
    "TETRARCH_SESSION",
    "TETRARCH_EPOCH",
    "TETRARCH_RUN",
    "TETRARCH_EPIC",
    "TETRARCH_NODE",
    "TETRARCH_TASK",
];

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// Nobody said anything.
    Default,
    /// A file, and the line from 1.
    File(PathBuf, usize),
    /// A variable.
    Variable(String),
    /// An option.
    Option(&'static str),
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Option(name) => f.write_str(name),
        }
    }
}

/// One value that somebody set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SetValue {
    pub(super) key: &'static ConfigKey,
    pub(super) value: Json,
    pub(super) from: ValueSource,
}

/// Everything that is wrong with the configuration, each with its place, so that people mend it at once.
#[derive(Debug, Default)]
pub(super) struct ConfigErrors(Vec<String>);

impl ConfigErrors {
    pub(super) fn add(&mut self, what: String) {
        self.0.push(what);
    }

    fn refuse(&mut self, from: &ValueSource, key: &ConfigKey, shown: &str) {
        let (name, allowed) = (key.name, key.kind.allowed());
        // Somebody may have written the secret itself.
        let shown = if key.kind == ValueKind::KeyFrom { "..." } else { shown };
        self.add(format!("{from}: {name} = {shown} is not allowed; allowed: {allowed}"));
    }

    /// Whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One error of all that was found.
    ///
    /// # Errors
    /// Something was found.
    pub(super) fn into_result(self) -> CliResult {
        let what = match self.0.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            several => {
                format!(
                    "the configuration has {} errors:\n  {}",
                    several.len(),
                    several.join("\n  ")
                )
            }
        };
        Err(CliError::new(Code::Usage, what)
            .hint("correct each value, or remove it to use the default"))
    }
}

/// The values of a file; none when the file is not there and need not be.
///
/// # Errors
/// The file cannot be read. What is wrong in it is added to `faults`.
pub(super) fn file(
    path: &Path,
    required: bool,
    faults: &mut ConfigErrors,
) -> CliResult<Option<Vec<SetValue>>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !required => return Ok(None),
        Err(error) => {
            let what = format!("cannot read configuration {}: {error}", path.display());
            return Err(CliError::new(Code::Usage, what));
        }
    };
    let reading = File { path, text: &text };
    let mut sets = Vec::new();
    match DeTable::parse(&text) {
        Ok(table) => reading.walk("", table.get_ref(), &mut sets, faults),
        Err(error) => {
            let from = reading.at(error.span().map_or(0, |span| span.start));
            faults.add(format!("{from}: invalid TOML: {}", error.message()));
        }
    }
    Ok(Some(sets))
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn at(&self, offset: usize) -> ValueSource {
        let before = self.text.get(..offset).unwrap_or_default();
        ValueSource::File(self.path.to_owned(), before.matches('\n').count() + 1)
    }

    fn walk(
        &self,
        prefix: &str,
        table: &DeTable<'_>,
        sets: &mut Vec<SetValue>,
        faults: &mut ConfigErrors,
    ) {
        for (word, value) in table {
            let from = self.at(word.span().start);
            let word = word.get_ref();
            let name =
                if prefix.is_empty() { word.to_string() } else { format!("{prefix}.{word}") };
            let json = json_of(value);
            if let Some(key) = ConfigKey::named(&name) {
                let value = json.and_then(|json| self.placed(key, key.kind.read(&json)?));
                let shown = || self.text.get(value_span(table, word)).unwrap_or("this").to_owned();
                match value {
                    Some(value) => sets.push(SetValue { key, value, from }),
                    None => faults.refuse(&from, key, &shown()),
                }
            } else if below(&name).is_empty() {
                let allowed = below(prefix).join(", ");
                faults.add(format!("{from}: unknown key {name}; allowed here: {allowed}"));
            } else if let DeValue::Table(inner) = value.get_ref() {
                self.walk(&name, inner, sets, faults);
            } else {
                let allowed = below(&name).join(", ");
                let what = format!("{from}: {name} is a table, not a value; its keys: {allowed}");
                faults.add(what);
            }
        }
    }

    /// A relative path of a file counts from the file's own directory; none when that is no UTF-8.
    fn placed(&self, key: &ConfigKey, value: Json) -> Option<Json> {
        match (&value, self.path.parent()) {
            (Json::String(path), Some(dir)) if key.kind == ValueKind::Path => {
                dir.join(path).to_str().map(Json::from)
            }
            _ => Some(value),
        }
    }
}

fn value_span(table: &DeTable<'_>, word: &str) -> std::ops::Range<usize> {
    let found = table.iter().find(|(key, _)| key.get_ref() == word);
    found.map_or(0..0, |(_, value)| value.span())
}

/// A TOML value as JSON; none for what no key takes.
fn json_of(value: &Spanned<DeValue<'_>>) -> Option<Json> {
    let is_datetime = matches!(value.get_ref(), DeValue::Datetime(_));
    let json = (!is_datetime).then(|| Json::deserialize(ValueDeserializer::from(value.clone())));
    json?.ok()
}

/// The values of variables. One that starts like ours and is unknown is an error: it would be a
/// typing error that nobody notices.
pub(super) fn variables(
    environment: impl Iterator<Item = (OsString, OsString)>,
    faults: &mut ConfigErrors,
) -> Vec<SetValue> {
    let mut sets = Vec::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLES)) else { continue };
        if NO_CONFIGURATION.contains(&name) {
            continue;
        }
        let from = ValueSource::Variable(name.to_owned());
        let Some(key) = KEYS.iter().find(|key| key.variable() == name) else {
            faults.add(format!(
                "{from}: unknown variable; allowed: TETRARCH_<SECTION>_<KEY>, such as {}",
                KEYS.first().map(ConfigKey::variable).unwrap_or_default()
            ));
            continue;
        };
        let read = value.to_str().and_then(|text| key.kind.read_text(text));
        match read {
            Some(value) => sets.push(SetValue { key, value, from }),
            None => faults.refuse(&from, key, &format!("{value:?}")),
        }
    }
    sets
}

/// The value of an option.
pub(super) fn option(
    name: &'static str,
    key: &'static str,
    text: &OsStr,
    faults: &mut ConfigErrors,
) -> Option<SetValue> {
    let key = ConfigKey::named(key)?;
    let from = ValueSource::Option(name);
    let read = text.to_str().and_then(|text| key.kind.read_text(text));
    if read.is_none() {
        faults.refuse(&from, key, &format!("{text:?}"));
    }
    read.map(|value| SetValue { key, value, from })
}
