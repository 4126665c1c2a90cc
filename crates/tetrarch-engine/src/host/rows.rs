//! Which sessions' rows a renewal of the host's lease carries: what changed, and a third of all in
//! turn, so that each comes once a window at least and no write is too large (spec 04, Hosts).

use std::collections::HashMap;

use tetrarch_bus::codec::row_size;
use tetrarch_core::id::AgentId;
use tetrarch_core::limits::COMMIT_BYTES_MAX;
use tetrarch_core::vitals::Vitals;

/// Renewals in which every row comes once.
const TURNS: usize = 3;
/// What the rows of one renewal may take, in bytes: the host's labels stand beside them.
const ROWS_BYTES_MAX: usize = COMMIT_BYTES_MAX / 8 * 7;

/// Whose turn it is, and what was told of everybody.
#[derive(Debug, Default)]
pub(super) struct VitalsRotation {
    /// The last one whose turn it was.
    after: Option<AgentId>,
    told: HashMap<AgentId, Vitals>,
}

impl VitalsRotation {
    /// The rows of the next renewal.
    pub(super) fn next(&mut self, mut rows: Vec<Vitals>) -> Vec<Vitals> {
        rows.sort_unstable_by(|one, other| one.agent.cmp(&other.agent));
        let present = |agent: &AgentId| rows.binary_search_by(|row| row.agent.cmp(agent)).is_ok();
        self.told.retain(|agent, _| present(agent));
        let first =
            rows.partition_point(|row| self.after.as_ref().is_some_and(|a| row.agent <= *a));
        rows.rotate_left(first);
        let in_turn = rows.len().div_ceil(TURNS);
        let mut room = ROWS_BYTES_MAX;
        let mut chosen = Vec::new();
        for (place, row) in rows.into_iter().enumerate() {
            if place >= in_turn && self.told.get(&row.agent) == Some(&row) {
                continue;
            }
            let Some(left) = room.checked_sub(row_size(&row)) else { break };
            room = left;
            if place < in_turn {
                self.after = Some(row.agent.clone());
            }
            self.told.insert(row.agent.clone(), row.clone());
            chosen.push(row);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetrarch_core::cursor::Positions;
    use tetrarch_core::id::{SessionId, Ulid};

    fn row(place: u128, progress: u64) -> Vitals {
        Vitals {
            agent: AgentId::Worker(Ulid::from_parts(1, place)),
            session: SessionId(Ulid::from_parts(1, place)),
            epoch: 1,
            run_state: None,
            positions: Positions::default(),
            progress,
            tokens: 0,
            tokens_out: 0,
            turns: 0,
            cost_micro: 0,
            burn: Default::default(),
            tool: String::new(),
            words: String::new(),
        }
    }

    fn rows(count: u128) -> Vec<Vitals> {
        (0..count).rev().map(|place| row(place, 0)).collect()
    }

    #[test]
    fn every_row_comes_in_three_renewals_and_changed_rows_at_once() {
        for count in [0, 1, 2, 3, 4, 100] {
            let mut turns = VitalsRotation::default();
            assert_eq!(turns.next(rows(count)).len(), rows(count).len(), "all of them are new");
            let mut seen: Vec<Vitals> = (0..3).flat_map(|_| turns.next(rows(count))).collect();
            let sent = seen.len();
            seen.sort_unstable_by(|one, other| one.agent.cmp(&other.agent));
            seen.dedup();
            assert_eq!(seen.len(), rows(count).len());
            assert!(sent <= seen.len() + 2, "{sent} of {count}");
        }
        let mut turns = VitalsRotation::default();
        turns.next(rows(9));
        let mut moved = rows(9);
        moved[0].progress = 1;
        let told = turns.next(moved.clone());
        assert_eq!(told.len(), 4, "three in turn, and the one that moved");
        assert!(told.contains(&moved[0]));
    }

    #[test]
    fn renewal_is_bounded_and_everybody_gets_a_turn() {
        let count = 20_000;
        let mut turns = VitalsRotation::default();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..40 {
            let told = turns.next(rows(count));
            let size: usize = told.iter().map(row_size).sum();
            assert!(size <= ROWS_BYTES_MAX, "{size}");
            seen.extend(told.into_iter().map(|row| row.agent));
        }
        assert_eq!(seen.len(), rows(count).len());
    }

    #[test]
    fn departed_session_is_forgotten() {
        let mut turns = VitalsRotation::default();
        turns.next(rows(9));
        turns.next(rows(2));
        assert_eq!(turns.told.len(), 2);
    }
}
