//! Reading the parts of a message, each error naming the field. Empty text is an absent value.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use tetrarch_core::request::Page;
use tetrarch_core::time::Millis;

use super::error::CodecError;

/// Text that has to be there and parse.
pub(super) fn text<T>(field: &str, value: &str) -> Result<T, CodecError>
where
    T: FromStr,
    T::Err: Display,
{
    optional(field, value)?.ok_or_else(|| CodecError::Missing { field: field.to_owned() })
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

/// A page of a list, from its `limit` (0: as many as there is room for) and its `after`.
pub(super) fn page<K>(limit: u32, after: &str) -> Result<Page<K>, CodecError>
where
    K: FromStr,
    K::Err: Display,
{
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Page { limit: Some(most).filter(|most| *most > 0), after: optional("after", after)? })
}

/// A page's `limit` and `after`.
pub(super) fn shown_page<K: Display>(page: &Page<K>) -> (u32, String) {
    let limit = page.limit.map_or(0, |most| u32::try_from(most).unwrap_or(u32::MAX));
    (limit, show(page.after.as_ref()))
}

/// One of a closed set of words.
pub(super) fn word<T: Copy>(
    field: &str,
    value: &str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<T, CodecError> {
    let found = all.iter().copied().find(|one| name(*one) == value);
    found.ok_or_else(|| {
        if value.is_empty() {
            return CodecError::Missing { field: field.to_owned() };
        }
        let allowed: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        let allowed = allowed.join(", ");
        CodecError::field(field, format!("unknown word {value:?}; allowed: {allowed}"))
    })
}

/// A message that has to be there.
pub(super) fn message<P, C>(field: &str, value: Option<P>) -> Result<C, CodecError>
where
    C: TryFrom<P, Error = CodecError>,
{
    maybe(field, value)?.ok_or_else(|| CodecError::Missing { field: field.to_owned() })
}

/// A message that may be absent.
pub(super) fn maybe<P, C>(field: &str, value: Option<P>) -> Result<Option<C>, CodecError>
where
    C: TryFrom<P, Error = CodecError>,
{
    value.map(C::try_from).transpose().map_err(|error| error.under(field))
}

/// A list of messages.
pub(super) fn each<P, C>(field: &str, values: Vec<P>) -> Result<Vec<C>, CodecError>
where
    C: TryFrom<P, Error = CodecError>,
{
    let at = |(index, value)| {
        C::try_from(value).map_err(|error: CodecError| error.under(&format!("{field}[{index}]")))
    };
    values.into_iter().enumerate().map(at).collect()
}

/// A list of texts that parse.
pub(super) fn texts<T>(field: &str, values: &[String]) -> Result<Vec<T>, CodecError>
where
    T: FromStr,
    T::Err: Display,
{
    let at = |(index, value): (usize, &String)| text(&format!("{field}[{index}]"), value);
    values.iter().enumerate().map(at).collect()
}

/// A number of at most 255.
pub(super) fn small(field: &str, value: u32) -> Result<u8, CodecError> {
    u8::try_from(value).map_err(|_| CodecError::field(field, format!("{value} is more than 255")))
}

/// Pairs of text, in order.
pub(super) fn pairs(map: BTreeMap<String, String>) -> Vec<(String, String)> {
    map.into_iter().collect()
}

/// Pairs as a map: sorted, the last of equal names.
pub(super) fn map(pairs: &[(String, String)]) -> BTreeMap<String, String> {
    pairs.iter().cloned().collect()
}

/// A value as text, empty when there is none.
pub(super) fn show<T: Display>(value: Option<&T>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

/// Text that is absent when empty.
pub(super) fn some(value: String) -> Option<String> {
    if value.is_empty() { None } else { Some(value) }
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
