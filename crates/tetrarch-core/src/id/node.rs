//! Ids of work nodes: they say where in a plan a node stands, and their order is the plan's.

use std::fmt;
use std::str::FromStr;

use super::IdError;

/// Where in a plan a piece of work stands: `P1`, `T1.2` or `S1.2.3` (spec 05).
/// The order is the plan's: a phase, then its tasks, each with its subtasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    phase: u32,
    task: u32,
    subtask: u32,
}

/// The tier of a plan a node stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// First tier.
    Phase,
    /// Second tier.
    Task,
    /// Third tier.
    Subtask,
}

const NODE_FORMS: &str = "P<n>, T<n>.<n> or S<n>.<n>.<n> with numbers from 1";

impl NodeId {
    /// The id of a phase; numbers start at 1.
    #[must_use]
    pub fn phase(phase: u32) -> Self {
        Self { phase, task: 0, subtask: 0 }
    }

    /// The id of a task.
    #[must_use]
    pub fn task(phase: u32, task: u32) -> Self {
        Self { phase, task, subtask: 0 }
    }

    /// The id of a subtask.
    #[must_use]
    pub fn subtask(phase: u32, task: u32, subtask: u32) -> Self {
        Self { phase, task, subtask }
    }

    /// The tier this id stands on.
    #[must_use]
    pub fn tier(self) -> Tier {
        match (self.task, self.subtask) {
            (0, _) => Tier::Phase,
            (_, 0) => Tier::Task,
            (_, _) => Tier::Subtask,
        }
    }

    /// The node above, none for a phase.
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        match self.tier() {
            Tier::Phase => None,
            Tier::Task => Some(Self::phase(self.phase)),
            Tier::Subtask => Some(Self::task(self.phase, self.task)),
        }
    }

    /// The number within its own tier, from 1.
    #[must_use]
    pub fn ordinal(self) -> u32 {
        match self.tier() {
            Tier::Phase => self.phase,
            Tier::Task => self.task,
            Tier::Subtask => self.subtask,
        }
    }

    /// The phase it belongs to (or is).
    #[must_use]
    pub fn phase_number(self) -> u32 {
        self.phase
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tier() {
            Tier::Phase => write!(f, "P{}", self.phase),
            Tier::Task => write!(f, "T{}.{}", self.phase, self.task),
            Tier::Subtask => write!(f, "S{}.{}.{}", self.phase, self.task, self.subtask),
        }
    }
}

impl FromStr for NodeId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let form =
            |position| IdError::Form { text: text.to_owned(), expected: NODE_FORMS, position };
        let mut chars = text.chars();
        let tier = chars.next().ok_or(IdError::Empty { what: "node id", expected: NODE_FORMS })?;
        let wanted = match tier {
            'P' => 1,
            'T' => 2,
            'S' => 3,
            _ => return Err(form(0)),
        };
        let mut numbers = [0u32; 3];
        let parts: Vec<&str> = chars.as_str().split('.').collect();
        let mut position = 1;
        for (index, part) in parts.iter().enumerate() {
            let canonical = !part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit());
            let number = part.parse::<u32>().ok().filter(|_| canonical && index < wanted);
            match (number, numbers.get_mut(index)) {
                (Some(number), Some(slot)) => *slot = number,
                (_, _) => return Err(form(position)),
            }
            position += part.chars().count() + 1;
        }
        if parts.len() != wanted {
            return Err(form(text.chars().count()));
        }
        let [phase, task, subtask] = numbers;
        Ok(Self { phase, task, subtask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn node_ids_parse_and_order_as_the_plan() {
        for text in ["P1", "T1.2", "S1.2.3", "S5.7.7"] {
            assert_eq!(text.parse::<NodeId>().unwrap().to_string(), text);
        }
        for text in
            ["", "P", "P0", "P01", "T1", "T1.2.3", "S1.2", "X1", "P1.", "P-1", "P4294967296"]
        {
            assert!(text.parse::<NodeId>().is_err(), "{text}");
        }
        let mut ids: Vec<NodeId> =
            ["P2", "S1.2.1", "T1.10", "T1.2", "P1"].iter().map(|t| t.parse().unwrap()).collect();
        ids.sort();
        let text: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["P1", "T1.2", "S1.2.1", "T1.10", "P2"]);
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_without_panic(text in ".{0,20}") {
            if let Ok(id) = text.parse::<NodeId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
