//! Reading what several fields say together, each error naming the field.

use std::fmt::Display;
use std::str::FromStr;

use tetrarch_core::request::Page;
use tetrarch_core::time::Millis;

use super::error::CodecError;
use super::wire::{Wire, field};

/// A page of a list, from its `limit` (0: as many as there is room for) and its `after`.
pub(super) fn page<K>(limit: u32, after: String) -> Result<Page<K>, CodecError>
where
    Option<K>: Wire<String>,
{
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Page { limit: Some(most).filter(|most| *most > 0), after: field("after", after)? })
}

/// A page's `limit`.
pub(super) fn limit<K>(page: &Page<K>) -> u32 {
    page.limit.map_or(0, |most| u32::try_from(most).unwrap_or(u32::MAX))
}

/// Text that may be absent.
pub(super) fn optional<T>(field: &str, value: &str) -> Result<Option<T>, CodecError>
where
    T: FromStr,
    T::Err: Display,
{
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|error: T::Err| CodecError::field(field, error.to_string()))
}

/// A length of time, given as text such as `30s`, in seconds or in milliseconds.
pub(super) fn length(
    field: &str,
    text: &str,
    seconds: Option<u64>,
    millis: Option<u64>,
) -> Result<Option<Millis>, CodecError> {
    let given = usize::from(!text.is_empty()) + [seconds, millis].iter().flatten().count();
    if given > 1 {
        return Err(CodecError::field(field, "is given more than once; give it in one unit only"));
    }
    if !text.is_empty() {
        let parsed = tetrarch_core::duration::parse(text);
        return parsed.map(Some).map_err(|error| CodecError::field(field, error.to_string()));
    }
    if let Some(seconds) = seconds {
        let millis = seconds.checked_mul(1_000);
        let millis = millis.ok_or_else(|| CodecError::field(field, "is too long"))?;
        return Ok(Some(Millis(millis)));
    }
    Ok(millis.map(Millis))
}
