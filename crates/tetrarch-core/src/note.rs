//! Notes: what agents and people of a project write down for those who come after them (spec 06, The brief). A record;
//! what may become of one is decided in `owner/notes.rs`.

use crate::id::{NoteName, Principal, ProjectName};
use crate::time::BusTime;

/// A note of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectNote {
    /// The project.
    pub project: ProjectName,
    /// Its name there.
    pub name: NoteName,
    /// What it says.
    pub text: String,
    /// Who wrote it last.
    pub author: Principal,
    /// Grows with every write, also over a deletion.
    pub version: u64,
    /// When it was written last.
    pub updated: BusTime,
}

impl ProjectNote {
    /// Whether its name or text has all of these words, which are in lower case.
    #[must_use]
    pub fn has_all(&self, words: &[String]) -> bool {
        let (name, text) = (self.name.as_str().to_lowercase(), self.text.to_lowercase());
        words.iter().all(|word| name.contains(word) || text.contains(word))
    }
}
