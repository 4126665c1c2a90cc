//! What a program says, without credentials: before anything else is done with it (spec 05, Records).
//! Paths of its files stay, for they are read; what the files hold is not looked at.

use crate::brief::{Finding, RunResult};
use crate::converse::Recorded;
use crate::order::RunnerEvent;
use crate::redaction::{Lines, redact, redact_json};

/// An event without credentials; none when it is a line within one.
pub(super) fn redacted(lines: &mut Lines, event: RunnerEvent) -> Option<RunnerEvent> {
    let mut event = event;
    match &mut event {
        RunnerEvent::Log { text } | RunnerEvent::Text { text } => {
            let clean = lines.clean(text)?.into_owned();
            *text = clean;
        }
        RunnerEvent::SpawnFailed { error: text }
        | RunnerEvent::Progress { text, .. }
        | RunnerEvent::Using { tool: text }
        | RunnerEvent::Blocked { reason: text }
        | RunnerEvent::Receipt { why: text, .. }
        | RunnerEvent::Returned { errors: text }
        | RunnerEvent::SetAside { call: text, .. }
        | RunnerEvent::Spent { call: text, .. } => {
            redact(text);
        }
        RunnerEvent::Write { to, text, .. } => {
            redact(to);
            redact(text);
        }
        RunnerEvent::Operate { body: json, .. }
        | RunnerEvent::Checkpoint { state: json, .. }
        | RunnerEvent::Spawn { request: json }
        | RunnerEvent::Update { update: json } => {
            redact_json(json);
        }
        RunnerEvent::HandOver { file, .. } => {
            redact(&mut file.name);
        }
        RunnerEvent::Ask { question, options, .. } => {
            redact(question);
            each(options);
        }
        RunnerEvent::Result { result: said, files } => {
            result(said);
            each(files.iter_mut().map(|file| &mut file.name));
        }
        RunnerEvent::Exited { result: Some(said), .. } => result(said),
        RunnerEvent::Conversed { recorded: said, .. } => recorded(said),
        RunnerEvent::Started { .. }
        | RunnerEvent::Usage(_)
        | RunnerEvent::Unblocked
        | RunnerEvent::Taken { .. }
        | RunnerEvent::Changed { .. }
        | RunnerEvent::Settled { .. }
        | RunnerEvent::Compacting { .. }
        | RunnerEvent::Exited { result: None, .. } => {}
    }
    Some(event)
}

fn recorded(recorded: &mut Recorded) {
    match recorded {
        Recorded::Turn { text, calls, .. } => {
            redact(text);
            for call in calls {
                redact(&mut call.tool);
                redact_json(&mut call.arguments);
            }
        }
        Recorded::Answer { text, .. }
        | Recorded::Heard { text, .. }
        | Recorded::Summary { text, .. } => {
            redact(text);
        }
        Recorded::Intent { tool, .. } => {
            redact(tool);
        }
    }
}

fn result(result: &mut RunResult) {
    redact_json(&mut result.deliverable);
    redact_json(&mut result.partial);
    redact(&mut result.crystallization);
    redact(&mut result.error);
    let evidence = &mut result.evidence;
    each(&mut evidence.files);
    each(&mut evidence.commands);
    each(&mut evidence.tests);
    each(&mut evidence.commits);
    if let Some(verdict) = &mut result.verdict {
        for Finding { place, what, severity } in &mut verdict.findings {
            each([place, what, severity]);
        }
    }
    each(result.artifacts.iter_mut().map(|artifact| &mut artifact.name));
}

fn each<'t>(texts: impl IntoIterator<Item = &'t mut String>) {
    for text in texts {
        redact(text);
    }
}
