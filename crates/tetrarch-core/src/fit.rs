//! Makes what agents report fit: a report is a fact and cannot be refused, so its texts are cut
//! where a commit has no room for them, and say so. Whole texts are artifacts (spec 05, Bounds).

use crate::brief::{Artifact, Evidence, Finding, RunResult, Verdict};
use crate::limits::{
    ARTIFACT_LIST_BYTES_MAX, DELIVERABLE_BYTES_MAX, RESULT_WORDS_MAX, SUMMARY_BYTES_MAX,
    TEXT_BYTES_MAX,
};

/// What stands at the end of a text that was cut.
const CUT: &str = " [cut]";

/// Room for texts, in bytes.
#[derive(Debug)]
pub(crate) struct Room(usize);

impl Room {
    /// This much.
    pub(crate) fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    /// As much of a text as there is room for, at most `most` bytes of it.
    pub(crate) fn text(&mut self, text: &str, most: usize) -> String {
        let most = most.min(self.0);
        if text.len() <= most {
            self.0 -= text.len();
            return text.to_owned();
        }
        let mut end = most.saturating_sub(CUT.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0 = 0;
        format!("{}{CUT}", &text[..end])
    }

    /// As many texts as there is room for.
    pub(crate) fn list(&mut self, texts: &[String]) -> Vec<String> {
        let mut kept = Vec::new();
        for text in texts {
            if self.0 <= CUT.len() {
                break;
            }
            kept.push(self.text(text, TEXT_BYTES_MAX));
        }
        kept
    }

    fn findings(&mut self, found: &[Finding]) -> Vec<Finding> {
        let mut kept = Vec::new();
        for finding in found {
            if self.0 <= CUT.len() {
                break;
            }
            kept.push(Finding {
                place: self.text(&finding.place, TEXT_BYTES_MAX),
                what: self.text(&finding.what, TEXT_BYTES_MAX),
                severity: self.text(&finding.severity, TEXT_BYTES_MAX),
            });
        }
        kept
    }
}

/// A result whose texts fit; what matters most has its room first.
pub(crate) fn result(result: &RunResult) -> RunResult {
    let mut room = Room::of(RESULT_WORDS_MAX);
    let error = room.text(&result.error, TEXT_BYTES_MAX);
    let crystallization = room.text(&result.crystallization, SUMMARY_BYTES_MAX);
    let verdict = result.verdict.as_ref().map(|verdict| Verdict {
        judgement: verdict.judgement,
        findings: room.findings(&verdict.findings),
    });
    let Evidence { files, commands, tests, commits } = &result.evidence;
    let evidence = Evidence {
        files: room.list(files),
        commands: room.list(commands),
        tests: room.list(tests),
        commits: room.list(commits),
    };
    let mut shelf = ARTIFACT_LIST_BYTES_MAX;
    let fits = |artifact: &&Artifact| {
        let size = artifact.name.len() + artifact.media_type.len() + artifact.sha256.len();
        let there = size <= shelf;
        shelf = shelf.saturating_sub(size);
        there
    };
    RunResult {
        outcome: result.outcome,
        deliverable: Room::of(DELIVERABLE_BYTES_MAX).text(&result.deliverable, usize::MAX),
        partial: room.text(&result.partial, usize::MAX),
        artifacts: result.artifacts.iter().take_while(fits).cloned().collect(),
        usage: result.usage,
        evidence,
        crystallization,
        verdict,
        error,
    }
}
