//! Operations on what begins at set times (spec 05, Schedules): `schedule.create`, `schedule.delete`,
//! `schedule.list`.

use crate::id::ScheduleId;
use crate::schedule::{Deed, Rhythm};

use super::Page;

/// An operation on schedules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleOp {
    /// Something is to begin at set times.
    Create {
        /// When.
        rhythm: Rhythm,
        /// What.
        deed: Box<Deed>,
    },
    /// It is not to begin any more.
    Delete {
        /// Which.
        schedule: ScheduleId,
    },
    /// What begins at set times is told.
    List {
        /// Which of it.
        page: Page<ScheduleId>,
    },
}

impl ScheduleOp {
    /// The names in subjects.
    pub const NAMES: [&str; 3] = ["schedule.create", "schedule.delete", "schedule.list"];

    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "schedule.create",
            Self::Delete { .. } => "schedule.delete",
            Self::List { .. } => "schedule.list",
        }
    }
}
