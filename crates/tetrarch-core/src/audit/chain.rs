//! The form in which the audit trail leaves the ledger: lines of JSON, each with its number and the sha256 of
//! the line before, a header first and a seal last. Whoever changes a line has to change all after it, and then
//! the seal has another head.

use std::fmt;

use serde_json::{Value, json};

use crate::id::sha256_hex;

const HEADER: &str = "header";
const ENTRY: &str = "entry";
const SEAL: &str = "seal";

/// Writes a trail line by line.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    lines: u64,
    head: Option<String>,
}

impl Chain {
    /// The first line, with its end: what the trail is of. `body` is JSON on one line.
    #[must_use]
    pub fn header(&mut self, body: &str) -> String {
        self.line(HEADER, body)
    }

    /// The next line, with its end: an act. `body` is JSON on one line.
    #[must_use]
    pub fn entry(&mut self, body: &str) -> String {
        self.line(ENTRY, body)
    }

    /// The last line, with its end.
    #[must_use]
    pub fn seal(&mut self) -> String {
        let entries = self.lines.saturating_sub(1);
        self.line(SEAL, &json!({ "entries": entries }).to_string())
    }

    /// The sha256 of the last line, in lower-case hexadecimal; that of nothing when there is none.
    #[must_use]
    pub fn head(&self) -> String {
        self.head.clone().unwrap_or_else(|| sha256_hex(b""))
    }

    fn line(&mut self, kind: &str, body: &str) -> String {
        self.lines += 1;
        let line =
            format!(r#"{{"line":{},"previous":"{}","{kind}":{body}}}"#, self.lines, self.head());
        self.head = Some(sha256_hex(line.as_bytes()));
        line + "\n"
    }
}

/// A trail that is whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Verified {
    /// What it is of.
    pub header: Value,
    /// Its acts, each with the number of its line.
    pub entries: Vec<(u64, Value)>,
    /// The sha256 of the line before the seal: it stands for all of them.
    pub head: String,
}

/// Where a trail breaks first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The line's number, from 1.
    pub line: u64,
    /// What is wrong, and what that comes of.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Looks whether a trail is as it was written.
///
/// # Errors
/// Where it is not, first.
pub fn verify(bytes: &[u8]) -> Result<Verified, Broken> {
    let (mut chain, mut header, mut entries) = (Chain::default(), None, Vec::new());
    let mut rest = bytes;
    while !rest.is_empty() {
        let number = chain.lines + 1;
        let broken = |what: String| Broken { line: number, what };
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return Err(broken("it is incomplete: the file was cut off there".to_owned()));
        };
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        let said = Said::read(line).map_err(broken)?;
        said.follows(&chain).map_err(broken)?;
        match (said.kind, header.is_some()) {
            (HEADER, false) => header = Some(said.body),
            (ENTRY, true) => entries.push((number, said.body)),
            (SEAL, true) => {
                // Nothing follows that would tell of it.
                if chain.clone().seal().trim_end().as_bytes() != line {
                    let what = format!("the seal does not match {} entries", entries.len());
                    return Err(broken(format!("{what}: it was altered")));
                }
                if !after.is_empty() {
                    let what = "lines were added after the seal".to_owned();
                    return Err(Broken { line: number + 1, what });
                }
                let Some(header) = header else { break };
                return Ok(Verified { header, entries, head: chain.head() });
            }
            (kind, _) => {
                return Err(broken(format!("a line of kind {kind:?} is not allowed here")));
            }
        }
        chain = Chain { lines: number, head: Some(sha256_hex(line)) };
        rest = after;
    }
    let what = "the seal is missing: the file was cut off, or the export did not finish".to_owned();
    Err(Broken { line: chain.lines + 1, what })
}

/// What a line says.
struct Said {
    line: u64,
    previous: String,
    kind: &'static str,
    body: Value,
}

impl Said {
    fn read(line: &[u8]) -> Result<Self, String> {
        let altered = |what: String| format!("{what}: it was altered, or not written by an export");
        let mut value: Value = serde_json::from_slice(line)
            .map_err(|error| altered(format!("it is not JSON ({error})")))?;
        let missing = |name: &str| altered(format!("it has no {name:?}"));
        let number = value.get("line").and_then(Value::as_u64).ok_or_else(|| missing("line"))?;
        let previous = value.get("previous").and_then(Value::as_str);
        let previous = previous.ok_or_else(|| missing("previous"))?.to_owned();
        let kind = [HEADER, ENTRY, SEAL].into_iter().find(|kind| value.get(kind).is_some());
        let kind = kind.ok_or_else(|| missing(ENTRY))?;
        Ok(Self { line: number, previous, kind, body: value[kind].take() })
    }

    fn follows(&self, before: &Chain) -> Result<(), String> {
        let (number, head) = (before.lines + 1, before.head());
        if self.line != number {
            return Err(format!(
                "its number is {}: lines before it were removed, inserted or moved",
                self.line
            ));
        }
        if self.previous != head {
            return Err(format!(
                "it follows a line with sha256 {:.12}..., the line before has {head:.12}...: that line, or \
                 this one, was altered",
                self.previous
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
