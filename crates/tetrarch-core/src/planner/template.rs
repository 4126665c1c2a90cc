//! Prompt templates, each with its id and its hash (spec 05, The planner): whoever changes a template gives
//! it the next id, which a test reminds of.

use crate::id::sha256_hex;

use super::{Bounds, Purpose, schema};

/// A prompt template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// Its id, with its version.
    pub id: &'static str,
    /// What the model is told first.
    pub text: &'static str,
    purpose: Purpose,
}

impl Template {
    /// The template for a purpose.
    #[must_use]
    pub fn of(purpose: Purpose) -> Self {
        let (id, text) = match purpose {
            Purpose::Plan => {
                ("plan.2", concat!(include_str!("plan.txt"), include_str!("../plan/splitting.txt")))
            }
            Purpose::Split => ("split.2", include_str!("split.txt")),
        };
        Self { id, text, purpose }
    }

    /// Lower-case hexadecimal sha256 of the text and of the answer's schema under these bounds.
    #[must_use]
    pub fn hash(self, bounds: Bounds) -> String {
        let schema = schema::answer(self.purpose, bounds);
        sha256_hex(format!("{}\n{schema}", self.text).as_bytes())
    }
}
