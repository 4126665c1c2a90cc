//! Sizes as people write them in configuration (spec 12). Text only.

/// What a size looks like.
pub const SIZE_FORMS: &str = "a whole number with B, KiB, MiB, GiB or TiB: 512B, 64MiB";

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Why a text is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It has not the form.
    #[error("{text:?} is not a size; allowed: {SIZE_FORMS}")]
    Form {
        /// The text that was given.
        text: String,
    },
    /// More bytes than can be counted.
    #[error("{text:?} is too large; allowed: at most {max} bytes", max = u64::MAX)]
    TooLarge {
        /// The text that was given.
        text: String,
    },
}

/// Reads a size such as `64MiB`, in bytes (spec 12).
///
/// # Errors
/// What is wrong with the text and the forms that are allowed.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let form = || SizeError::Form { text: text.to_owned() };
    let too_large = || SizeError::TooLarge { text: text.to_owned() };
    let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(form)?;
    let (digits, unit) = text.split_at(end);
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(form)?;
    if digits.is_empty() {
        return Err(form());
    }
    let number: u64 = digits.parse().map_err(|_| too_large())?;
    number.checked_mul(factor).ok_or_else(too_large)
}

/// Writes a size, in bytes, in the largest unit that keeps it whole.
#[must_use]
pub fn print(bytes: u64) -> String {
    let fitting = UNITS.into_iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    let (name, unit) = fitting.unwrap_or(("B", 1));
    format!("{}{name}", bytes / unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_parsed_in_bytes() {
        for (text, bytes) in [
            ("0B", 0),
            ("512B", 512),
            ("1KiB", 1024),
            ("64MiB", 67_108_864),
            ("8GiB", 8_589_934_592),
            ("16777215TiB", 16_777_215 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_size_is_refused() {
        for text in ["", "64", "MiB", "64 MiB", "64MB", "64mib", "-1B", "1.5MiB", "1MiB1B"] {
            assert!(matches!(parse(text), Err(SizeError::Form { .. })), "{text}");
        }
        for text in ["16777216TiB", "18446744073709551616B"] {
            assert!(matches!(parse(text), Err(SizeError::TooLarge { .. })), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_size_round_trips(bytes: u64, shift in 0u32..50) {
            let bytes = bytes << shift;
            prop_assert_eq!(parse(&print(bytes)), Ok(bytes));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,30}") {
            if let Ok(bytes) = parse(&text) {
                prop_assert_eq!(parse(&print(bytes)), Ok(bytes));
            }
        }
    }
}
