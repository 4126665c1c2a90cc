//! Moments and lengths of time as people read them. Moments are always UTC, so that two people
//! who compare logs see the same text.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use tetrarch_core::time::BusTime;

/// The wall clock of this machine. For ages only: nothing is decided on it.
pub(crate) fn now() -> BusTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    BusTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A moment as RFC 3339 with milliseconds and `Z` (spec 02, Encodings). What is beyond the year
/// 9999 shows as its number of milliseconds.
pub(crate) fn stamp(at: BusTime) -> String {
    let moment = i64::try_from(at.0).map(Timestamp::from_millisecond);
    match moment {
        Ok(Ok(moment)) => format!("{moment:.3}"),
        Ok(Err(_)) | Err(_) => format!("{} ms", at.0),
    }
}

/// Reads what [`stamp`] writes, and RFC 3339 with any offset.
///
/// # Errors
/// What would be accepted.
pub(crate) fn read_stamp(text: &str) -> Result<BusTime, String> {
    let read: Result<Timestamp, _> = text.parse();
    let at = read.ok().and_then(|moment| u64::try_from(moment.as_millisecond()).ok());
    at.map(BusTime).ok_or_else(|| format!("{text:?} is not a time such as 2026-11-22T08:00:00Z"))
}

/// How long ago something was, in at most two units.
pub(crate) fn age(now: BusTime, then: BusTime) -> String {
    (now - then).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_785_312_345_678, "2026-07-29T08:05:45.678Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(stamp(BusTime(ms)), text);
            assert_eq!(read_stamp(text), Ok(BusTime(ms)));
        }
        assert_eq!(stamp(BusTime(u64::MAX)), format!("{} ms", u64::MAX));
        assert_eq!(read_stamp("1970-01-01T02:00:01+02:00"), Ok(BusTime(1_000)));
        assert!(read_stamp("1969-12-31T23:59:59Z").is_err(), "the bus is not that old");
        assert!(read_stamp("yesterday").is_err());
    }

    #[test]
    fn future_time_is_not_printed_as_age() {
        assert_eq!(age(BusTime(200_005), BusTime(5)), "3m20s");
        assert_eq!(age(BusTime(5), BusTime(10)), "0ms");
    }
}
