//! Versions of nats-server: reading and comparing them.

use std::fmt;
use std::str::FromStr;

/// The oldest nats-server the bus contract works with (spec 02).
pub const MIN_VERSION: Version = Version { major: 2, minor: 14, patch: 5 };

/// A release number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

/// A text that holds no release number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read a version such as 2.15.1 in {0:?}")]
pub struct VersionError(pub String);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// Reads `2.15.1`, `v2.15.1`, `2.15.0-dev` or `nats-server: v2.15.1`.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let wrong = || VersionError(text.to_owned());
        let word = text.split_whitespace().last().ok_or_else(wrong)?;
        let word = word.strip_prefix('v').unwrap_or(word);
        let mut numbers = word.splitn(3, '.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part.get(..end).and_then(|digits| digits.parse::<u32>().ok())
        });
        let mut next = || numbers.next().flatten().ok_or_else(wrong);
        Ok(Self { major: next()?, minor: next()?, patch: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_version_texts_are_parsed() {
        for text in ["2.15.1", "v2.15.1", "nats-server: v2.15.1\n", "2.15.1-RC.2"] {
            let version: Version = text.parse().unwrap();
            assert_eq!(version.to_string(), "2.15.1", "{text}");
        }
        for text in ["", "nats-server", "2.15", "x.y.z"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn versions_are_ordered_numerically() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("2.9.30") < MIN_VERSION);
        assert!(version("2.14.4") < MIN_VERSION);
        assert!(version("2.14.5") >= MIN_VERSION);
        assert!(version("2.14.10") > MIN_VERSION);
        assert!(version("10.0.0") > MIN_VERSION);
    }
}
