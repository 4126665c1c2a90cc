//! Notes of a project (spec 06, The brief): written, searched and deleted by its agents in their current session, and
//! by people.

use serde_json::{Value, json};

use crate::error::{ErrorCode, Refusal};
use crate::id::{NoteName, ProjectName};
use crate::ledger::{EventKind, Record, RecordKey};
use crate::limits::{NOTE_BYTES_MAX, NOTE_WORDS_BYTES_MAX, NOTE_WORDS_MAX, NOTES_MAX};
use crate::mail::OpReply;
use crate::note::ProjectNote;
use crate::request::{NoteOp, Request};
use crate::step::Draft;

use super::files::{listed_project, page_of};
use super::operations::known_project;

const RULE: &str = "06 The brief";

/// Decides on an operation.
///
/// # Errors
/// No such project or note, somebody else's project, another version than expected, too much.
pub(super) fn operate(
    draft: &mut Draft<'_>,
    request: &Request,
    op: &NoteOp,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    match op {
        NoteOp::Put { project, name, text, expect_version } => {
            let project = listed_project(draft, request, project.as_ref())?;
            known_project(draft, &project)?;
            let version = put(draft, request, (project, name), text, *expect_version)?;
            Ok(OpReply { detail: format!("{name} is version {version}"), ..reply })
        }
        NoteOp::Delete { project, name } => {
            let project = listed_project(draft, request, project.as_ref())?;
            if !draft.base().notes.contains_key(&(project.clone(), name.clone())) {
                let detail = format!(
                    "note {name} was not found in {project}; `tetrarch note list {project}` lists all"
                );
                return Err(Refusal::new(ErrorCode::NotFound, detail));
            }
            let words = format!("{project}/{name}");
            draft.event(EventKind::NoteDeleted, RULE, words).agent =
                request.sender.from.agent().cloned();
            draft.forget(RecordKey::Note(project, name.clone()));
            Ok(reply)
        }
        NoteOp::Search { project, words, page } => {
            let project = listed_project(draft, request, project.as_ref())?;
            let words = sought(words)?;
            let found = draft.base().notes.values().filter(|note| note.project == project);
            let found = found.filter(|note| note.has_all(&words));
            let after = page.after.as_ref();
            let wanted: Vec<&ProjectNote> =
                found.filter(|note| after.is_none_or(|after| note.name > *after)).collect();
            let (data, detail) = page_of(&wanted, page.limit, shown, |note| note.name.to_string());
            Ok(OpReply { detail, data: Some(data), ..reply })
        }
    }
}

/// The words that are looked for, in lower case.
///
/// # Errors
/// Too many, or too long: each is looked for in every note.
fn sought(text: &str) -> Result<Vec<String>, Refusal> {
    let count = text.split_whitespace().count();
    if text.len() > NOTE_WORDS_BYTES_MAX || count > NOTE_WORDS_MAX {
        let detail = format!(
            "words: {} bytes with {count} words; allowed: {NOTE_WORDS_BYTES_MAX} bytes with {NOTE_WORDS_MAX}",
            text.len()
        );
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    Ok(text.split_whitespace().map(str::to_lowercase).collect())
}

fn put(
    draft: &mut Draft<'_>,
    request: &Request,
    (project, name): (ProjectName, &NoteName),
    text: &str,
    expected: Option<u64>,
) -> Result<u64, Refusal> {
    if !(1..=NOTE_BYTES_MAX).contains(&text.len()) {
        let detail = format!("text: {} bytes; allowed: 1 to {NOTE_BYTES_MAX}", text.len());
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    if text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')) {
        let detail = "text: it has control characters; allowed: lines and tabs".to_owned();
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    let notes = &draft.base().notes;
    let known = notes.get(&(project.clone(), name.clone())).map_or(0, |note| note.version);
    if let Some(expected) = expected.filter(|expected| *expected != known) {
        let detail = format!(
            "{name} is version {known}, not {expected}; read it, and write it anew with expectVersion {known}"
        );
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let count = notes.keys().filter(|(of, _)| *of == project).count();
    if known == 0 && count >= NOTES_MAX {
        let detail = format!("{project} has {NOTES_MAX} notes, the limit; delete or replace one");
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    // A note of this name may have been deleted: its versions are not used again.
    let (author, version) = (request.sender.from.clone(), request.seq.max(known + 1));
    let words = format!("{project}/{name}: version {version}");
    draft.event(EventKind::NoteWritten, RULE, words).agent = author.agent().cloned();
    let (name, text) = (name.clone(), text.to_owned());
    let note = ProjectNote { project, name, text, author, version, updated: draft.now };
    draft.put(Record::Note(Box::new(note)));
    Ok(version)
}

fn shown(note: &ProjectNote) -> Value {
    json!({
        "name": note.name.as_str(),
        "text": note.text,
        "author": note.author.to_string(),
        "version": note.version.to_string(),
        "updatedUnixMs": note.updated.0.to_string(),
    })
}
