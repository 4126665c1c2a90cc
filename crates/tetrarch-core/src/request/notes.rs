//! Operations on the notes of a project (spec 06, The brief). Nothing here decides.

use crate::id::{NoteName, ProjectName};

use super::Page;

/// `note.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteOp {
    /// `note.put`: a note is written, or written anew.
    Put {
        /// Where; the sender's own project unless said.
        project: Option<ProjectName>,
        /// Its name.
        name: NoteName,
        /// What it says.
        text: String,
        /// The version that is replaced, 0 for none; whichever there is unless said.
        expect_version: Option<u64>,
    },
    /// `note.delete`.
    Delete {
        /// Where; the sender's own project unless said.
        project: Option<ProjectName>,
        /// Which.
        name: NoteName,
    },
    /// `note.search`: those that have all of these words.
    Search {
        /// Where; the sender's own project unless said.
        project: Option<ProjectName>,
        /// Words of their name or text, in either case; none find all.
        words: String,
        /// Which of them.
        page: Page<NoteName>,
    },
}

impl NoteOp {
    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "note.put",
            Self::Delete { .. } => "note.delete",
            Self::Search { .. } => "note.search",
        }
    }
}
