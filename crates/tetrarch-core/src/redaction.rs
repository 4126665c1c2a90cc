//! No secrets in records: what looks like a credential is replaced by `[redacted:<kind>]` before it is
//! written anywhere (spec 05, Records; spec 10, 25). The forms are well-known ones, told by their
//! prefix or by what stands before them; what merely looks random (ULIDs, digests, commits) is none, unless it is
//! known by its value. Work is linear in the text. Where texts enter is the callers' to know.

mod known;

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

pub use aho_corasick::BuildError;
pub use known::{SECRET_BYTES_MIN, Stream, is_in, know};

/// The forms, each with its kind. Where more than the secret has to be there to know it, the group
/// `secret` is what is replaced.
const FORMS: [(&str, &str); 16] = [
    (
        "private_key",
        r"(?s)-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|PRIVATE KEY BLOCK|NKEY SEED|USER JWT)-----.*?(?:-----END [A-Z0-9 ]*-----|\z)",
    ),
    ("api_key", r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}"),
    ("api_key", r"(?-u:\b)AIza[A-Za-z0-9_-]{35}"),
    ("api_key", r"(?-u:\b)(?:hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|[rs]k_live_[A-Za-z0-9]{16,})"),
    (
        "api_key",
        r"(?-u:\b)(?:pypi-AgEI[A-Za-z0-9_-]{20,}|SG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,})",
    ),
    ("aws_key", r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?-u:\b)"),
    (
        "aws_secret",
        r#"(?i)secret_?access_?key['"]?\s{0,4}[=:]\s{0,4}['"]?(?P<aws_secret>[A-Za-z0-9/+]{40})"#,
    ),
    ("github_token", r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    ("gitlab_token", r"(?-u:\b)glpat-[A-Za-z0-9_-]{20,}"),
    ("slack_token", r"(?-u:\b)xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("slack_token", r"hooks\.slack\.com/services/(?P<slack>[A-Za-z0-9/]{20,})"),
    ("jwt", r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    (
        "authorization",
        r#"(?i)authorization['"]?\s{0,4}[=:]\s{0,4}['"]?(?:bearer|basic|token)\s{1,4}(?P<header>[A-Za-z0-9._~+/=-]{8,})"#,
    ),
    ("authorization", r"(?i)(?-u:\b)bearer\s{1,4}(?P<bearer>[A-Za-z0-9._~+/=-]{20,})"),
    ("url_password", r#"://[^\s/:@'"]*:(?P<url>[^\s/@'"]+)@"#),
    ("nats_seed", r"(?-u:\b)S[ACNOUX][A-Z2-7]{56}(?-u:\b)"),
];

/// Words that run into each other with hyphens are no keys: a key has a digit and a letter.
const MIXED: [&str; 2] = ["api_key", "authorization"];

/// All forms as one, each a group.
static ANY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let groups = FORMS.iter().enumerate().map(|(place, (_, form))| format!("(?P<f{place}>{form})"));
    // The forms are constants, and a test reads them.
    Regex::new(&groups.collect::<Vec<_>>().join("|")).ok()
});

/// A text without what looks like a credential; itself when there is nothing.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    match known::hidden(text) {
        Some(clean) => Cow::Owned(without_forms(&clean).into_owned()),
        None => without_forms(text),
    }
}

fn without_forms(text: &str) -> Cow<'_, str> {
    match &*ANY {
        Some(any) => any.replace_all(text, replaced),
        None => Cow::Borrowed(text),
    }
}

/// The match with its secret replaced, or as it is when it is none.
fn replaced(found: &Captures<'_>) -> String {
    let whole = &found[0];
    let place = (0..FORMS.len()).find(|place| found.name(&format!("f{place}")).is_some());
    let Some((kind, _)) = place.and_then(|place| FORMS.get(place)) else {
        return whole.to_owned();
    };
    let inner = ["aws_secret", "slack", "header", "bearer", "url"];
    let secret = inner.into_iter().find_map(|group| found.name(group));
    let begin = found.get(0).map_or(0, |whole| whole.start());
    let range = secret.map_or(0..whole.len(), |at| at.start() - begin..at.end() - begin);
    let words = &whole[range.clone()];
    let mixed = words.bytes().any(|byte| byte.is_ascii_digit())
        && words.bytes().any(|byte| byte.is_ascii_alphabetic());
    if MIXED.contains(kind) && !mixed {
        return whole.to_owned();
    }
    format!("{}[redacted:{kind}]{}", &whole[..range.start], &whole[range.end..])
}

/// Replaces credentials in every text of a JSON value; says whether there were any. Numbers and the names of fields
/// may only be secrets that are known.
pub fn value(value: &mut Value) -> bool {
    match value {
        Value::String(text) => redact(text),
        Value::Array(items) => each(items),
        Value::Object(fields) => {
            let named = fields.keys().any(|name| is_in(name.as_bytes()));
            if named {
                let clean = |name: String| known::hidden(&name).unwrap_or(name);
                let all = std::mem::take(fields).into_iter();
                *fields = all.map(|(name, value)| (clean(name), value)).collect::<Map<_, _>>();
            }
            each(fields.values_mut()) | named
        }
        Value::Number(number) => {
            let clean = known::hidden(&number.to_string());
            let any = clean.is_some();
            clean.into_iter().for_each(|clean| *value = Value::String(clean));
            any
        }
        Value::Null | Value::Bool(_) => false,
    }
}

/// All of them, also after the first one that has any.
fn each<'v>(values: impl IntoIterator<Item = &'v mut Value>) -> bool {
    let mut any = false;
    for one in values {
        any |= value(one);
    }
    any
}

/// Replaces credentials in a text in place; says whether there were any.
pub fn redact(text: &mut String) -> bool {
    let Cow::Owned(clean) = self::text(text) else { return false };
    let any = clean != *text;
    *text = clean;
    any
}

/// The same for JSON text, which stays JSON: escapes may hide a credential, so it is looked at as
/// what it says. What is no JSON is a text.
pub fn redact_json(json: &mut String) -> bool {
    let Ok(mut said) = serde_json::from_str::<Value>(json) else { return redact(json) };
    let any = value(&mut said);
    if any {
        *json = said.to_string();
    }
    any
}

/// Lines that follow each other, one at a time: a key may begin in one and end in a later one.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// Lines of a key that may still come.
    within: usize,
}

/// Lines of the longest key: what begins one and does not end it hides no more than this.
const KEY_LINES_MAX: usize = 128;

impl Lines {
    /// A line without credentials; none when all of it is within one.
    pub fn clean<'l>(&mut self, line: &'l str) -> Option<Cow<'l, str>> {
        let (begins, ends) = (line.rfind("-----BEGIN "), line.rfind("-----END "));
        if self.within > 0 && begins.is_none() {
            self.within = if ends.is_some() { 0 } else { self.within - 1 };
            return None;
        }
        let clean = text(line);
        self.within = match clean {
            Cow::Owned(_) if begins > ends => KEY_LINES_MAX,
            Cow::Owned(_) | Cow::Borrowed(_) => 0,
        };
        Some(clean)
    }
}

#[cfg(test)]
mod tests;
