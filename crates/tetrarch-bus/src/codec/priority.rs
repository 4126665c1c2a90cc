//! Priorities; nothing said is an absent message.

use tetrarch_core::priority::{Priorities, Priority};

use super::error::CodecError;
use crate::proto::v1 as pb;

/// Priorities as they are written.
pub(super) fn written(priorities: Priorities) -> Option<pb::Priorities> {
    let number = |priority: Option<Priority>| priority.map(|said| u32::from(said.number()));
    let Priorities { user, overseer } = priorities;
    priorities.is_set().then(|| pb::Priorities { user: number(user), overseer: number(overseer) })
}

/// Reads priorities.
pub(super) fn read(message: Option<pb::Priorities>) -> Result<Priorities, CodecError> {
    let Some(pb::Priorities { user, overseer }) = message else {
        return Ok(Priorities::default());
    };
    Ok(Priorities {
        user: number("priorities.user", user)?,
        overseer: number("priorities.overseer", overseer)?,
    })
}

/// Reads one; none is nothing said.
pub(super) fn number(field: &str, number: Option<u32>) -> Result<Option<Priority>, CodecError> {
    let wrong =
        |error: tetrarch_core::priority::PriorityError| CodecError::field(field, error.to_string());
    number.map(|number| Priority::new(number).map_err(wrong)).transpose()
}
