//! The lanes in front of an interaction orchestrator: how many turns may stand in one, and which begins next (spec
//! 07, Lanes).

use crate::limits::LANE_MAX;
use crate::words::parsed_words;

parsed_words! {
    /// A lane of a person. Lanes never wait for each other.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
    pub enum TurnLane {
        /// What the person says: one turn at a time, in order.
        #[default]
        Conversation = "conversation",
        /// What nobody waits for: one at a time, in order.
        Background = "background",
        /// Verbs.
        Control = "control",
    }
}

/// A lane has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("lane_full: the lane {lane} has {depth} turns; the limit is {limit}; wait until one ends")]
pub struct LaneFull {
    /// Which.
    pub lane: TurnLane,
    /// Turns in it that have not ended.
    pub depth: usize,
    /// How many there may be.
    pub limit: usize,
}

/// Whether a lane with so many turns takes one more. `limit` is [`LANE_MAX`] unless said.
///
/// # Errors
/// It is full.
pub fn admit(lane: TurnLane, depth: usize, limit: Option<usize>) -> Result<(), LaneFull> {
    let limit = limit.unwrap_or(LANE_MAX);
    if depth < limit { Ok(()) } else { Err(LaneFull { lane, depth, limit }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_is_full_at_its_limit_and_says_depth_and_limit() {
        for lane in TurnLane::ALL {
            assert_eq!(admit(lane, LANE_MAX - 1, None), Ok(()));
            let full = admit(lane, LANE_MAX, None).unwrap_err();
            assert_eq!((full.depth, full.limit), (LANE_MAX, LANE_MAX));
            assert_eq!(admit(lane, 0, Some(0)).unwrap_err().limit, 0);
        }
        let full = admit(TurnLane::Background, 40, Some(2)).unwrap_err();
        let words =
            "lane_full: the lane background has 40 turns; the limit is 2; wait until one ends";
        assert_eq!(full.to_string(), words);
    }
}
