//! Amounts as a narrow column shows them.

use tetrarch_core::time::BusTime;

/// A count in at most five characters where that is enough: `950`, `12.3k`, `1.2M`.
#[must_use]
pub fn count(amount: u64) -> String {
    let scaled = |unit: u64, name: &str| {
        let tenths = amount / (unit / 10);
        if tenths < 1_000 {
            format!("{}.{}{name}", tenths / 10, tenths % 10)
        } else {
            format!("{}{name}", tenths / 10)
        }
    };
    match amount {
        0..1_000 => amount.to_string(),
        1_000..1_000_000 => scaled(1_000, "k"),
        1_000_000..1_000_000_000 => scaled(1_000_000, "M"),
        1_000_000_000.. => scaled(1_000_000_000, "G"),
    }
}

/// A cost: cents, and more digits below one; nothing for none. `micro`: in millionths of a dollar.
#[must_use]
pub fn cost(micro: u64) -> String {
    match micro {
        0 => String::new(),
        1..10_000 => format!("$0.{:04}", micro / 100),
        10_000.. => format!("${}.{:02}", micro / 1_000_000, micro / 10_000 % 100),
    }
}

/// The time of day of a moment, in UTC.
#[must_use]
pub fn clock(at: BusTime) -> String {
    let seconds = at.0 / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// A part of a whole as a bar of so many characters: full only when the part is the whole, or more.
#[must_use]
pub fn bar(part: u64, whole: u64, width: usize) -> String {
    let wide = u128::try_from(width).unwrap_or(0);
    let filled = u128::from(part.min(whole)) * wide / u128::from(whole.max(1));
    let filled = usize::try_from(filled).unwrap_or(width);
    "█".repeat(filled) + &"░".repeat(width - filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_change_their_unit_at_its_bound() {
        let counts = [
            (0, "0"),
            (999, "999"),
            (1_000, "1.0k"),
            (99_999, "99.9k"),
            (100_000, "100k"),
            (999_999, "999k"),
            (1_000_000, "1.0M"),
            (999_999_999, "999M"),
            (1_000_000_000, "1.0G"),
        ];
        counts.iter().for_each(|(amount, text)| assert_eq!(count(*amount), *text));
        let costs = [
            (0, ""),
            (99, "$0.0000"),
            (9_999, "$0.0099"),
            (10_000, "$0.01"),
            (1_234_567, "$1.23"),
            (123_000_000, "$123.00"),
        ];
        costs.iter().for_each(|(micro, text)| assert_eq!(cost(*micro), *text));
    }

    #[test]
    fn bar_is_full_only_at_the_whole() {
        for (part, filled) in [(0, 0), (9, 0), (10, 1), (99, 9), (100, 10), (101, 10)] {
            assert_eq!(bar(part, 100, 10).matches('█').count(), filled, "{part}");
        }
        assert_eq!((bar(0, 0, 3).as_str(), bar(5, 9, 0).as_str()), ("░░░", ""));
    }

    #[test]
    fn clock_shows_the_time_of_day() {
        assert_eq!(clock(BusTime(86_400_000 * 3 + 3_661_999)), "01:01:01");
    }
}
