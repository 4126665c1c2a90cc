//! How urgent goals and work are (spec 05, Insights): what people say of it, and what the overseer says, kept
//! apart. Which node that puts first is in `plan::advice`.

use std::fmt;
use std::str::FromStr;

use crate::words::words;

/// The highest priority.
const HIGHEST: u8 = 100;
/// The words for some of the numbers (spec 05, Records).
const WORDS: [(&str, u8); 4] = [("low", 25), ("normal", 50), ("high", 75), ("urgent", 100)];

/// What people's word weighs of both.
const WEIGHT_OF_USER: u32 = 25;
/// What people's and the overseer's word weigh together.
const WEIGHTS: u32 = 40;

/// Why something is no priority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a priority; allowed: 0 to {HIGHEST}, low, normal, high, urgent")]
pub struct PriorityError {
    given: String,
}

/// How urgent something is, from 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// What counts where nobody has said anything.
    pub const NORMAL: Self = Self(50);

    /// What is to come before the rest.
    pub const HIGH: Self = Self(75);

    /// A priority by its number.
    ///
    /// # Errors
    /// More than 100.
    pub fn new(number: u32) -> Result<Self, PriorityError> {
        let known = u8::try_from(number).ok().filter(|number| *number <= HIGHEST);
        known.map(Self).ok_or_else(|| PriorityError { given: number.to_string() })
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its share of the highest, from 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(HIGHEST)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Priority {
    type Err = PriorityError;
    fn from_str(text: &str) -> Result<Self, PriorityError> {
        if let Some((_, number)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(Self(*number));
        }
        let number = text.parse().map_err(|_| PriorityError { given: text.to_owned() })?;
        Self::new(number)
    }
}

words! {
    /// Whose word a priority is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Voice {
        /// People.
        User = "user",
        /// GO, and the project orchestrators that stand for it.
        Overseer = "overseer",
    }
}

/// What was said of how urgent something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Priorities {
    /// By people.
    pub user: Option<Priority>,
    /// By the overseer.
    pub overseer: Option<Priority>,
}

impl Priorities {
    /// Whether anybody has said anything.
    #[must_use]
    pub fn is_set(self) -> bool {
        self != Self::default()
    }

    /// What people say; normal when they say nothing.
    #[must_use]
    pub fn of_user(self) -> Priority {
        self.user.unwrap_or(Priority::NORMAL)
    }

    /// What the overseer says; normal when it says nothing.
    #[must_use]
    pub fn of_overseer(self) -> Priority {
        self.overseer.unwrap_or(Priority::NORMAL)
    }

    /// Both in one number, in the proportion of the recommendation score (spec 05, Insights).
    #[must_use]
    pub fn weight(self) -> u32 {
        WEIGHT_OF_USER * u32::from(self.of_user().0)
            + (WEIGHTS - WEIGHT_OF_USER) * u32::from(self.of_overseer().0)
    }

    /// The word that both come nearest to; empty while nobody has said anything.
    #[must_use]
    pub fn word(self) -> &'static str {
        let both = self.weight() / WEIGHTS;
        let nearest = WORDS.iter().min_by_key(|(_, number)| both.abs_diff(u32::from(*number)));
        nearest.filter(|_| self.is_set()).map_or("", |(word, _)| word)
    }

    /// The same with one voice's word changed.
    #[must_use]
    pub fn with(self, voice: Voice, priority: Option<Priority>) -> Self {
        match voice {
            Voice::User => Self { user: priority, ..self },
            Voice::Overseer => Self { overseer: priority, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_is_a_number_or_a_known_word() {
        for (text, number) in [("0", 0), ("100", 100), ("low", 25), ("normal", 50), ("urgent", 100)]
        {
            assert_eq!(text.parse::<Priority>().map(Priority::number), Ok(number), "{text}");
        }
        for text in ["", "101", "-1", "High", "1.5"] {
            let error = text.parse::<Priority>().unwrap_err();
            assert!(error.to_string().contains("allowed: 0 to 100"), "{error}");
        }
    }

    #[test]
    fn absent_priority_is_normal() {
        let normal = Some(Priority::NORMAL);
        let said = Priorities { user: normal, overseer: normal };
        assert_eq!(Priorities::default().weight(), said.weight());
        assert!(said.is_set() && !Priorities::default().is_set());
        let urgent = Priorities::default().with(Voice::User, Some(Priority(100)));
        assert_eq!(
            (urgent.word(), said.word(), Priorities::default().word()),
            ("high", "normal", "")
        );
        let least = Priorities { user: Some(Priority(0)), overseer: Some(Priority(0)) };
        let most = urgent.with(Voice::Overseer, Some(Priority(100)));
        assert_eq!((least.word(), most.word()), ("low", "urgent"));
        let both = Priorities::default().with(Voice::Overseer, Some(Priority(100)));
        assert!(urgent.weight() > both.weight(), "people weigh more");
    }
}
