//! Priorities; nothing said is an absent message.

use tetrarch_core::id::NodeId;
use tetrarch_core::priority::{Priorities, Priority};

use super::error::CodecError;
use super::wire::{Wire, field, message};
use crate::proto::v1 as pb;

message!(Priorities, Priorities { user, overseer });

impl Wire<u32> for Priority {
    fn put(&self) -> u32 {
        self.number().into()
    }

    fn get(held: u32) -> Result<Self, CodecError> {
        Self::new(held).map_err(|error| CodecError::field("", error.to_string()))
    }
}

impl Wire<pb::NodePriority> for (NodeId, Option<Priority>) {
    fn put(&self) -> pb::NodePriority {
        pb::NodePriority { node: self.0.put(), priority: self.1.put() }
    }

    fn get(held: pb::NodePriority) -> Result<Self, CodecError> {
        Ok((field("node", held.node)?, field("priority", held.priority)?))
    }
}
