//! The amnesia guard (spec 02): whether a ledger is the one that was written to, and all of it.
//! What is remembered of it is kept in STATE and in the owner's data directory; keeping is the
//! shell's. What a ledger that was accepted all the same has to be given back is `owner::restoring`.

use std::fmt;

/// What is remembered of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    /// When the server made it, as it says it; empty before anything was written.
    pub created: String,
    /// The highest sequence that was ever acknowledged.
    pub high: u64,
}

/// Where it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// STATE's own record.
    State,
    /// The owner's data directory.
    DataDirectory,
}

impl fmt::Display for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State => "STATE",
            Self::DataDirectory => "the data directory",
        })
    }
}

/// How the ledger is not the one that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Amnesia {
    /// Another stream is there.
    #[error("it was made at {found}, but {keeper} knows one that was made at {known}")]
    Another {
        /// When the one that is there was made.
        found: String,
        /// When the remembered one was.
        known: String,
        /// Who remembers that.
        keeper: Keeper,
    },
    /// Its end is missing.
    #[error("its last sequence is {last}, but {keeper} knows that {high} was acknowledged")]
    Shorter {
        /// The last sequence that is there.
        last: u64,
        /// The highest that was acknowledged.
        high: u64,
        /// Who remembers that.
        keeper: Keeper,
    },
}

impl Memory {
    /// Compares a ledger with what is remembered of it: when the server made it, and its last
    /// sequence, 0 when it is empty.
    ///
    /// # Errors
    /// How they differ.
    pub fn recognize(&self, keeper: Keeper, created: &str, last: u64) -> Result<(), Amnesia> {
        if !self.created.is_empty() && self.created != created {
            let (found, known) = (created.to_owned(), self.created.clone());
            return Err(Amnesia::Another { found, known, keeper });
        }
        if last < self.high {
            return Err(Amnesia::Shorter { last, high: self.high, keeper });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_that_is_another_or_shorter_is_not_recognized() {
        let memory = Memory { created: "then".to_owned(), high: 7 };
        let compare = |memory: &Memory, created, last| {
            memory
                .recognize(Keeper::DataDirectory, created, last)
                .map_err(|error| error.to_string())
        };
        assert_eq!(compare(&Memory::default(), "now", 0), Ok(()), "a new installation");
        assert_eq!(compare(&memory, "then", 7), Ok(()));
        assert_eq!(compare(&memory, "then", 8), Ok(()));
        let shorter = compare(&memory, "then", 6).unwrap_err();
        assert!(shorter.contains("the data directory knows that 7"), "{shorter}");
        for last in [0, 6, 7, 8] {
            let another = compare(&memory, "now", last).unwrap_err();
            assert!(another.contains("made at now"), "{another}");
        }
    }
}
