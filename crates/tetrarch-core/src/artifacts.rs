//! Which artifacts may go (spec 06, Artifacts): those that nothing names, and what is left of
//! uploads that never ended, once they are old enough. Whatever text names an artifact keeps it.
//! Pure; reading, renewing and removing are shells'.

use std::collections::BTreeSet;

use crate::limits::ARCHIVE_KEPT;
use crate::time::{BusTime, Millis};

/// Digits of an artifact's name.
const DIGITS: usize = 64;

/// Names of artifacts.
pub type Names = BTreeSet<String>;

/// Notes every name of an artifact in a text: 64 lower-case hexadecimal digits that are not part of
/// a longer row of letters and digits.
pub fn named_in(text: &[u8], names: &mut Names) {
    for word in text.split(|byte| !byte.is_ascii_alphanumeric()) {
        let digits = word.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if word.len() == DIGITS && digits {
            names.extend(std::str::from_utf8(word).ok().map(str::to_owned));
        }
    }
}

/// An artifact that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its name, the sha256 of its bytes.
    pub sha256: String,
    /// The upload that its bytes came with.
    pub upload: String,
    /// The sequence of its description.
    pub seq: u64,
    /// When it was stored, or stored again.
    pub since: BusTime,
    /// Whether it is an ended run's journal, or a part of one.
    pub is_journal: bool,
}

/// The artifacts that nothing names and that are as old as `kept`; journals, whoever names them, are kept
/// for [`ARCHIVE_KEPT`] at least.
#[must_use]
pub fn unnamed<'a>(
    stored: &'a [Stored],
    names: &Names,
    now: BusTime,
    kept: Millis,
) -> Vec<&'a Stored> {
    let may_go = |it: &&Stored| {
        let kept = if it.is_journal { kept.max(ARCHIVE_KEPT) } else { kept };
        !names.contains(&it.sha256) && now - it.since >= kept
    };
    stored.iter().filter(may_go).collect()
}

/// The uploads that no artifact's bytes came with; they may go when their last part is as old as
/// an artifact that may.
#[must_use]
pub fn unended<'a>(uploads: &'a [String], stored: &[Stored]) -> Vec<&'a String> {
    let ended: BTreeSet<&String> = stored.iter().map(|it| &it.upload).collect();
    uploads.iter().filter(|upload| !ended.contains(upload)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(digit: &str) -> String {
        digit.repeat(DIGITS)
    }

    #[test]
    fn artifact_name_is_found_anywhere_and_nothing_else_matches() {
        let found = |text: &str| {
            let mut names = Names::new();
            named_in(text.as_bytes(), &mut names);
            names.into_iter().collect::<Vec<_>>()
        };
        let (a, b) = (name("a"), name("0"));
        for text in [
            a.clone(),
            format!("{{\"sha256\":\"{a}\"}}"),
            format!("see {a}."),
            format!("\n\u{0}{a}\u{1}"),
            format!("ä{a}ö"),
        ] {
            assert_eq!(found(&text), std::slice::from_ref(&a), "{text}");
        }
        assert_eq!(found(&format!("{a},{b} {a}")), [b, a.clone()]);
        for text in [
            String::new(),
            a[1..].to_owned(),
            format!("{a}a"),
            format!("x{a}"),
            name("A"),
            name("g"),
            format!("{}_{}", &a[..32], &a[32..]),
        ] {
            assert_eq!(found(&text), [""; 0], "{text}");
        }
        let mut names = Names::new();
        named_in(&[&[0xff, 0xfe], a.as_bytes(), &[0xff]].concat(), &mut names);
        assert_eq!(names.len(), 1, "among bytes that are no text");
    }

    #[test]
    fn only_old_unreferenced_artifacts_are_swept() {
        let stored = |digit: &str, since: u64| Stored {
            sha256: name(digit),
            upload: digit.to_owned(),
            seq: since,
            since: BusTime(since),
            is_journal: false,
        };
        let all = [stored("a", 100), stored("b", 100), stored("c", 101), stored("d", 900)];
        let names = Names::from([name("b")]);
        let going = |now: u64| {
            let going = unnamed(&all, &names, BusTime(now), Millis(50));
            going.iter().map(|it| it.upload.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(going(149), [""; 0]);
        assert_eq!(going(150), ["a"]);
        assert_eq!(going(151), ["a", "c"]);
        // A clock that runs back makes nothing old.
        assert_eq!(going(50), [""; 0]);
        // A journal is kept for longer, and not for ever.
        let journal = [Stored { is_journal: true, ..stored("a", 100) }];
        for (age, goes) in [(50, 0), (ARCHIVE_KEPT.0 - 1, 0), (ARCHIVE_KEPT.0, 1)] {
            let now = BusTime(100 + age);
            assert_eq!(unnamed(&journal, &names, now, Millis(50)).len(), goes, "{age}");
        }
        let uploads = ["a", "x", "c"].map(str::to_owned);
        assert_eq!(unended(&uploads, &all), ["x"]);
    }
}
