//! Files that a session's program hands over while it works, and artifacts that it reads: those that it handed over
//! itself, and those that its brief or its mail names. A name is the hash of what it names, so whoever was told it
//! was to read that. The store is its shell's.

use std::collections::VecDeque;

use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use crate::artifacts::{Names, named_in};
use crate::brief::{Artifact, Brief, RunResult};
use crate::error::ErrorCode;
use crate::id::RequestId;
use crate::limits::{ARTIFACT_PIECE_BYTES, ARTIFACTS_NAMED_MAX, LIST_MAX};
use crate::order::LocalFile;

use super::operating::{GET, PUT, REPLY, only};
use super::{HostedSession, Keep, SessionEffect};

/// What was handed over, and what was named.
#[derive(Debug, Clone, Default)]
pub(super) struct HandedOver {
    /// What is stored, to be told with the result.
    stored: Vec<Artifact>,
    /// The call whose file is being stored.
    open: Option<RequestId>,
    /// Names that stood in mail, the first first.
    named: VecDeque<String>,
}

/// An artifact that was read for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedArtifact {
    /// Its media type.
    pub media_type: String,
    /// All of it.
    pub bytes: Vec<u8>,
}

impl HandedOver {
    /// Notes what a message names.
    pub(super) fn hears(&mut self, json: &str) {
        let mut names = Names::new();
        named_in(json.as_bytes(), &mut names);
        for name in names {
            if self.named.contains(&name) {
                continue;
            }
            if self.named.len() >= ARTIFACTS_NAMED_MAX {
                self.named.pop_front();
            }
            self.named.push_back(name);
        }
    }

    /// Whether a file is being stored.
    pub(super) fn is_storing(&self) -> bool {
        self.open.is_some()
    }

    /// The result with what was handed over before it.
    pub(super) fn with(&self, mut result: RunResult) -> RunResult {
        let is_new = |it: &&Artifact| result.artifacts.iter().all(|known| known.name != it.name);
        let more: Vec<Artifact> = self.stored.iter().filter(is_new).cloned().collect();
        result.artifacts.extend(more);
        result
    }

    fn knows(&self, brief: &Brief, sha256: &str) -> bool {
        self.stored.iter().any(|it| it.sha256 == sha256)
            || self.named.iter().any(|name| name == sha256)
            || names_of(brief).contains(sha256)
    }
}

/// The artifacts that a brief names.
fn names_of(brief: &Brief) -> Names {
    let mut names = Names::new();
    let inputs = brief.inputs.iter();
    names.extend(inputs.clone().flat_map(|it| &it.artifacts).map(|it| it.sha256.clone()));
    let texts = [&brief.goal, &brief.definition_of_done, &brief.runner.prompt].into_iter();
    let texts = texts.chain(&brief.key_facts).chain(&brief.success_criteria);
    for text in texts.chain(inputs.map(|it| &it.deliverable)) {
        named_in(text.as_bytes(), &mut names);
    }
    names
}

impl HostedSession {
    /// The program hands over a file.
    pub(super) fn hand_over(
        &mut self,
        id: RequestId,
        file: LocalFile,
        effects: &mut Vec<SessionEffect>,
    ) {
        let is_known = self.handed.stored.iter().any(|it| it.name == file.name);
        let refused = if self.result.is_some() {
            Some("the result of its run was given already".to_owned())
        } else if self.handed.stored.len() >= LIST_MAX && !is_known {
            Some(format!("{LIST_MAX} files were handed over; pack several into one"))
        } else {
            None
        };
        match refused {
            Some(detail) => self.refuse((PUT, id), ErrorCode::Unavailable, detail, effects),
            None => {
                self.handed.open = Some(id);
                effects.push(SessionEffect::Store(vec![Keep::File(file)]));
            }
        }
    }

    /// The file that was handed over is stored, or could not be.
    pub(super) fn handed_over(&mut self, kept: Vec<Artifact>, effects: &mut Vec<SessionEffect>) {
        let Some(id) = self.handed.open.take() else { return };
        let Some(artifact) = kept.into_iter().next() else {
            let detail = "the file was not stored; the journal of the run says why".to_owned();
            return self.refuse((PUT, id), ErrorCode::Unavailable, detail, effects);
        };
        let Artifact { name, sha256, size, media_type } = &artifact;
        let told = json!({
            "op": PUT, "detail": format!("{name} is stored, and is told with your result"),
            "data": json!({"sha256": sha256, "size": size, "mediaType": media_type}).to_string(),
        });
        self.handed.stored.retain(|known| known.name != artifact.name);
        self.handed.stored.push(artifact);
        self.answer(REPLY, id, &told, effects);
    }

    /// The program reads an artifact.
    pub(super) fn fetch(
        &mut self,
        id: RequestId,
        body: &Map<String, Value>,
        effects: &mut Vec<SessionEffect>,
    ) {
        match self.fetch_of(body) {
            Ok((sha256, offset)) => effects.push(SessionEffect::Fetch { id, sha256, offset }),
            Err((code, detail)) => self.refuse((GET, id), code, detail, effects),
        }
    }

    fn fetch_of(&self, body: &Map<String, Value>) -> Result<(String, u64), (ErrorCode, String)> {
        let wrong = |detail: &str| (ErrorCode::InvalidRequest, detail.to_owned());
        only(body, &["sha256", "offset"]).map_err(|detail| wrong(&detail))?;
        let sha256 = body.get("sha256").and_then(Value::as_str);
        let sha256 = sha256.ok_or_else(|| wrong("sha256: the name of an artifact is needed"))?;
        let offset = body.get("offset").map_or(Some(0), Value::as_u64);
        let offset = offset.ok_or_else(|| wrong("offset: a number of bytes is needed"))?;
        if !self.handed.knows(&self.run.brief, sha256) {
            let detail = format!(
                "sha256: {sha256} is named neither by your brief nor by your mail; ask who has it to write you its name"
            );
            return Err((ErrorCode::Unauthorized, detail));
        }
        Ok((sha256.to_owned(), offset))
    }

    /// An artifact was read, from this byte on, or could not be.
    pub(super) fn fetched(
        &mut self,
        id: RequestId,
        offset: u64,
        fetched: Result<FetchedArtifact, String>,
        effects: &mut Vec<SessionEffect>,
    ) {
        match fetched.and_then(|artifact| piece(&artifact, offset)) {
            Ok(told) => self.answer(REPLY, id, &told, effects),
            Err(detail) => self.refuse((GET, id), ErrorCode::Unavailable, detail, effects),
        }
    }
}

/// A piece of an artifact: as text where it is one, in base64 otherwise.
fn piece(artifact: &FetchedArtifact, offset: u64) -> Result<Value, String> {
    let FetchedArtifact { media_type, bytes } = artifact;
    let size = bytes.len();
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    let Some(rest) = bytes.get(from..) else {
        return Err(format!("offset: {offset} is behind its end; it has {size} bytes"));
    };
    let part = rest.get(..ARTIFACT_PIECE_BYTES).unwrap_or(rest);
    // The last letter may go on in the next piece.
    let whole = match std::str::from_utf8(part) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() && part.len() < rest.len() => {
            part.get(..error.valid_up_to()).and_then(|part| std::str::from_utf8(part).ok())
        }
        Err(_) => None,
    };
    let (encoding, data, taken) = match whole {
        Some(text) => ("utf-8", text.to_owned(), text.len()),
        None => ("base64", BASE64.encode(part), part.len()),
    };
    let end = from + taken;
    let more = if end < size { format!("; go on at offset {end}") } else { String::new() };
    Ok(json!({
        "op": GET, "size": size, "mediaType": media_type, "offset": offset, "encoding": encoding,
        "next": (end < size).then_some(end),
        "detail": format!("[bytes {from} to {end} of {size}, {media_type}, {encoding}{more}]"),
        "data": data,
    }))
}
