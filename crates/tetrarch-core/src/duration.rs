//! Lengths of time as people write them in configuration, plans and flags (spec 12).
//! Text only: nothing here knows a clock or a bound.

use crate::time::Millis;

/// What a length of time looks like.
pub const DURATION_FORMS: &str =
    "whole numbers with d, h, m, s or ms, largest first: 250ms, 5s, 2m, 1h30m, 30d";

/// The units, largest first, in milliseconds. `ms` is read before `m`: a unit is all the
/// letters up to the next digit.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Why a text is no length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It has not the form.
    #[error("{text:?} is not a duration; allowed: {DURATION_FORMS}")]
    Form {
        /// The text that was given.
        text: String,
    },
    /// A unit comes twice or after a smaller one.
    #[error("{text:?} has {unit:?} out of place; allowed: {DURATION_FORMS}")]
    Order {
        /// The text that was given.
        text: String,
        /// The unit that comes too late.
        unit: String,
    },
    /// More milliseconds than can be counted.
    #[error("{text:?} is too long; allowed: at most {max}", max = print(Millis(u64::MAX)))]
    TooLong {
        /// The text that was given.
        text: String,
    },
}

/// Reads a length of time such as `5s`, `2m`, `1h30m` or `250ms` (spec 12).
///
/// # Errors
/// What is wrong with the text and the forms that are allowed.
pub fn parse(text: &str) -> Result<Millis, DurationError> {
    let form = || DurationError::Form { text: text.to_owned() };
    let too_long = || DurationError::TooLong { text: text.to_owned() };
    let mut rest = text;
    let mut total = 0u64;
    let mut units_left = UNITS.as_slice();
    while !rest.is_empty() {
        let (digits, after) = split_at_first(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_at_first(after, |c| c.is_ascii_digit());
        if digits.is_empty() || !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(form());
        }
        let Some(place) = units_left.iter().position(|(name, _)| *name == unit) else {
            return Err(DurationError::Order { text: text.to_owned(), unit: unit.to_owned() });
        };
        let number: u64 = digits.parse().map_err(|_| too_long())?;
        let part = number.checked_mul(units_left[place].1).ok_or_else(too_long)?;
        total = total.checked_add(part).ok_or_else(too_long)?;
        units_left = &units_left[place + 1..];
        rest = after;
    }
    if text.is_empty() { Err(form()) } else { Ok(Millis(total)) }
}

/// Writes a length of time so that [`parse`] reads the same one; nothing is `0s`.
#[must_use]
pub fn print(length: Millis) -> String {
    let mut left = length.0;
    let mut text = String::new();
    for (name, unit) in UNITS {
        if left >= unit {
            text.push_str(&format!("{}{name}", left / unit));
            left %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Writes a length of time in at most two units, the rest left out, for events, questions and tables:
/// `850ms`, `12s`, `3m20s`, `5h10m`, `2d4h`. It is not meant to be read back.
#[must_use]
pub fn rough(length: Millis) -> String {
    let Millis(ms) = length;
    let seconds = ms / 1_000;
    let pair = |large: u64, small: u64, names: (&str, &str)| match small {
        0 => format!("{large}{}", names.0),
        _ => format!("{large}{}{small}{}", names.0, names.1),
    };
    match seconds {
        0 => format!("{ms}ms"),
        1..=59 => format!("{seconds}s"),
        60..=3_599 => pair(seconds / 60, seconds % 60, ("m", "s")),
        3_600..=86_399 => pair(seconds / 3_600, seconds / 60 % 60, ("h", "m")),
        _ => pair(seconds / 86_400, seconds / 3_600 % 24, ("d", "h")),
    }
}

fn split_at_first(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn documented_duration_forms_are_parsed() {
        for (text, millis) in [
            ("5s", 5_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("30d", 2_592_000_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("90m", 5_400_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Millis(millis)), "{text}");
        }
    }

    #[test]
    fn invalid_duration_is_refused() {
        for text in ["", "5", "s", "5 s", "-5s", "1.5s", "5sec", "5S", "s5", "5s2", "+5s", "5ſ"] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, DurationError::Form { .. }), "{text}: {error}");
            assert!(error.to_string().contains("1h30m"), "{error}");
        }
        for text in ["5s2m", "5s5s", "1ms1s"] {
            assert!(matches!(parse(text), Err(DurationError::Order { .. })), "{text}");
        }
    }

    #[test]
    fn longest_duration_is_accepted_and_one_more_refused() {
        assert_eq!(parse("18446744073709551615ms"), Ok(Millis(u64::MAX)));
        for text in ["18446744073709551616ms", "213503982335d", "18446744073709551s616ms"] {
            assert!(matches!(parse(text), Err(DurationError::TooLong { .. })), "{text}");
        }
    }

    #[test]
    fn rough_form_has_at_most_two_units() {
        for (ms, text) in [
            (0, "0ms"),
            (850, "850ms"),
            (1_000, "1s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (200_000, "3m20s"),
            (3_600_000, "1h"),
            (18_637_000, "5h10m"),
            (187_200_000, "2d4h"),
        ] {
            assert_eq!(rough(Millis(ms)), text);
            assert_eq!(Millis(ms).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn printed_duration_round_trips(millis: u64) {
            prop_assert_eq!(parse(&print(Millis(millis))), Ok(Millis(millis)));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,30}") {
            if let Ok(length) = parse(&text) {
                prop_assert_eq!(parse(&print(length)), Ok(length));
            }
        }
    }
}
