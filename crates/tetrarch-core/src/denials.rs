//! What is denied to one agent, counted so that its orchestrator hears of it once and not each time
//! (spec 03, Spawn protocol): an agent that asks ten thousand times is one alert.

use crate::time::{BusTime, Millis};

/// Denials within this time are told together.
pub const TOGETHER: Millis = Millis(600_000);
/// So many within that time are told although none of them breaks a rule of the hierarchy.
pub const MANY: u32 = 100;

/// An agent's denials of late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Denials {
    /// When the first of them was.
    pub since: BusTime,
    /// How many there were.
    pub count: u32,
    /// Whether its orchestrator was told.
    pub told: bool,
}

impl Denials {
    /// Adds the denials of one request; gives whether its orchestrator is to be told now: of the first
    /// that breaks a rule (`violates`), or when there are many.
    pub fn note(&mut self, denied: usize, violates: bool, now: BusTime) -> bool {
        if self.count == 0 || now - self.since >= TOGETHER {
            *self = Self { since: now, ..Self::default() };
        }
        self.count = self.count.saturating_add(u32::try_from(denied).unwrap_or(u32::MAX));
        let tells = !self.told && (violates || self.count >= MANY);
        self.told |= tells;
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_rule_violation_is_reported_once_per_interval() {
        let mut denials = Denials::default();
        assert!(!denials.note(1, false, BusTime(10)), "no slot is free: that is no violation");
        assert!(denials.note(1, true, BusTime(20)));
        assert!(!denials.note(1, true, BusTime(30)));
        assert!(!denials.note(500, true, BusTime(10 + TOGETHER.0 - 1)), "told already");
        assert_eq!(denials.count, 503);
        assert!(denials.note(1, true, BusTime(10 + TOGETHER.0)), "another time");
        assert_eq!((denials.count, denials.since), (1, BusTime(10 + TOGETHER.0)));
    }

    #[test]
    fn many_harmless_denials_are_reported_once() {
        let mut denials = Denials::default();
        assert!(!denials.note(MANY as usize - 1, false, BusTime(10)));
        assert!(denials.note(1, false, BusTime(10)));
        assert!(!denials.note(10_000, false, BusTime(11)));
    }
}
