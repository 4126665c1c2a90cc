//! Operations on reservations of files (spec 05, Reservations). Nothing here decides.

use crate::id::{ProjectName, ReservationId};
use crate::reservation::Mode;
use crate::time::Millis;

use super::Page;

/// `file.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOp {
    /// `file.reserve`: the sender's session wants to hold paths of its project.
    Reserve {
        /// Globs, relative to the project's root.
        paths: Vec<String>,
        /// Whether others may hold them too.
        mode: Mode,
        /// For how long at the most.
        ttl: Option<Millis>,
        /// What for.
        reason: String,
    },
    /// `file.release`: by its holder, or a human.
    Release {
        /// Which.
        reservation: ReservationId,
    },
    /// `file.list`: what is held in a project.
    List {
        /// Which; the sender's own unless said.
        project: Option<ProjectName>,
        /// Which of it.
        page: Page<ReservationId>,
    },
}

impl FileOp {
    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reserve { .. } => "file.reserve",
            Self::Release { .. } => "file.release",
            Self::List { .. } => "file.list",
        }
    }
}
