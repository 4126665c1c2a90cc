//! Priorities; nothing said is an absent message.

use tetrarch_core::priority::{Priorities, Priority};

use super::error::CodecError;
use super::wire::{Wire, message};

message!(Priorities, Priorities { user, overseer });

impl Wire<u32> for Priority {
    fn put(&self) -> u32 {
        self.number().into()
    }

    fn get(held: u32) -> Result<Self, CodecError> {
        Self::new(held).map_err(|error| CodecError::field("", error.to_string()))
    }
}
