//! Moments and lengths of time as people read them. Moments are always UTC, so that two people
//! who compare logs see the same text.

use std::time::{SystemTime, UNIX_EPOCH};

use tetrarch_core::time::BusTime;

const MS_PER_DAY: u64 = 86_400_000;

/// The wall clock of this machine. For ages only: nothing is decided on it.
pub(crate) fn now() -> BusTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    BusTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A moment as RFC 3339 with milliseconds and `Z` (spec 02, Encodings).
pub(crate) fn stamp(at: BusTime) -> String {
    let (year, month, day) = date(at.0 / MS_PER_DAY);
    let ms = at.0 % MS_PER_DAY;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1_000)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar. Years are
/// counted from March on, so that the leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// How long ago something was, in at most two units.
pub(crate) fn age(now: BusTime, then: BusTime) -> String {
    (now - then).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_785_312_345_678, "2026-07-29T08:05:45.678Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(stamp(BusTime(ms)), text);
        }
    }

    #[test]
    fn what_is_still_to_come_is_no_time_ago() {
        assert_eq!(age(BusTime(200_005), BusTime(5)), "3m20s");
        assert_eq!(age(BusTime(5), BusTime(10)), "0ms");
    }
}
