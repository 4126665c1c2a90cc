//! What the epoch that a sender of mail says it has is worth, when its record may lag behind its mail (spec 02, Mail).

/// What an epoch that a sender says it has is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochClaim {
    /// It is the committed one.
    Current,
    /// A later one is committed.
    Over,
    /// It may be committed and not yet be seen.
    Ahead,
    /// Nobody has it.
    Impossible,
}

/// Judges the epoch that a sender says against the committed one. A sender that publishes for
/// itself learns of an epoch by the answer to its registration, so it is never ahead by more than one.
#[must_use]
pub fn claim(committed: u64, said: u64, publishes_itself: bool) -> EpochClaim {
    match said.checked_sub(committed) {
        None => EpochClaim::Over,
        Some(0) => EpochClaim::Current,
        Some(ahead) if publishes_itself && ahead > 1 => EpochClaim::Impossible,
        Some(_) => EpochClaim::Ahead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_that_nobody_can_have_is_told_from_one_not_yet_seen() {
        let rows = [
            (3, 3, true, EpochClaim::Current),
            (3, 2, true, EpochClaim::Over),
            (3, 4, true, EpochClaim::Ahead),
            (3, 5, true, EpochClaim::Impossible),
            (3, u64::MAX, true, EpochClaim::Impossible),
            (3, 5, false, EpochClaim::Ahead),
            (3, 0, false, EpochClaim::Over),
        ];
        for (committed, said, publishes_itself, expected) in rows {
            let found = claim(committed, said, publishes_itself);
            assert_eq!(found, expected, "{committed} {said} {publishes_itself}");
        }
    }
}
