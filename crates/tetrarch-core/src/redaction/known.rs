//! Secrets that are known by their values: what this process read from where secrets are kept is hidden as it is and in
//! the encodings in which programs print it (docs/decisions/0088). Says nothing about where secrets are read.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};
use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};

/// The shortest secret that is known by its value, in bytes: words and numbers that are shorter stand in any text.
pub const SECRET_BYTES_MIN: usize = 8;
/// Secrets that are known at once: of more the earliest are forgotten, such as the tokens of a command that gives another
/// one each time.
const SECRETS_MAX: usize = 1_000;
/// What stands for a secret.
const MARK: &str = "[redacted:secret]";
/// Characters of a line at which common encoders break base64.
const WRAPPED_AT: [usize; 2] = [64, 76];
/// Escapes within escapes that are looked through.
const NESTED_MAX: u32 = 3;
/// The longest escape of a byte: `\u0041`.
const ESCAPE_BYTES_MAX: usize = 6;

/// What this process knows. It is the process's and not a run's, since its log, its traces and its errors are of no run.
static KNOWN: RwLock<Option<Arc<Known>>> = RwLock::new(None);

/// From now on hides a secret in every text of this process, each of its lines by itself. Says whether all of it is hidden:
/// what has less than [`SECRET_BYTES_MIN`] bytes is not.
///
/// # Errors
/// There are more secrets than can be looked for.
pub fn know(secret: &[u8]) -> Result<bool, BuildError> {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let mut secrets = known.as_ref().map(|known| known.secrets.clone()).unwrap_or_default();
    let (mut whole, mut news) = (true, false);
    for line in secret.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        // The head and the foot of a key in PEM are the same for all of them.
        if line.starts_with(b"-----") || line.is_empty() {
            continue;
        }
        if line.len() < SECRET_BYTES_MIN || holds(MARK.as_bytes(), line) {
            whole = false;
        } else if !secrets.iter().any(|known| known == line) {
            secrets.push(line.to_vec());
            news = true;
        }
    }
    if news {
        let beyond = secrets.len().saturating_sub(SECRETS_MAX);
        secrets.drain(..beyond);
        *known = Some(Arc::new(Known::of(secrets)?));
    }
    Ok(whole)
}

/// Whether there is a secret in these bytes.
#[must_use]
pub fn is_in(bytes: &[u8]) -> bool {
    current().is_some_and(|known| !known.find(bytes, NESTED_MAX).is_empty())
}

/// A text without the secrets that are known; none when there are none in it.
pub(super) fn hidden(text: &str) -> Option<String> {
    let clean = current()?.hidden(text.as_bytes());
    match clean {
        Cow::Borrowed(_) => None,
        Cow::Owned(clean) => Some(String::from_utf8_lossy(&clean).into_owned()),
    }
}

fn current() -> Option<Arc<Known>> {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Bytes that come in pieces, without secrets, wherever the pieces are cut. What may be the beginning of a secret is held
/// back, never beyond the end of its line, and never more than a bound that follows from the longest secret.
#[derive(Debug, Default)]
pub struct Stream {
    held: Vec<u8>,
    found: bool,
}

impl Stream {
    /// Takes a piece; gives what can be passed on. What is text stays text.
    pub fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        let Some(known) = current() else {
            return [&std::mem::take(&mut self.held), piece].concat();
        };
        self.held.extend_from_slice(piece);
        let (clean, found) = known.release(&mut self.held);
        self.found |= found;
        clean
    }

    /// What is left at the end.
    pub fn rest(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let Some(known) = current() else { return held };
        let found = known.find(&held, NESTED_MAX);
        self.found |= !found.is_empty();
        marked(&held, &found)
    }

    /// Whether there was a secret in what it gave so far.
    #[must_use]
    pub fn found(&self) -> bool {
        self.found
    }
}

/// Secrets and all that is looked for because of them.
#[derive(Debug)]
struct Known {
    /// In the order in which they became known.
    secrets: Vec<Vec<u8>>,
    forms: AhoCorasick,
    /// The most bytes of a text that one secret may take.
    longest: usize,
}

impl Known {
    fn of(secrets: Vec<Vec<u8>>) -> Result<Self, BuildError> {
        let forms: BTreeSet<Vec<u8>> = secrets.iter().flat_map(|secret| forms(secret)).collect();
        let longest = forms.iter().map(Vec::len).max().unwrap_or_default() * ESCAPE_BYTES_MAX;
        // A table of all states would be hundreds of times the secrets' size.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let forms = AhoCorasick::builder().kind(kind).build(&forms)?;
        Ok(Self { secrets, forms, longest })
    }

    /// Where secrets are, in order and apart from each other.
    fn find(&self, text: &[u8], nested: u32) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> =
            self.forms.find_overlapping_iter(text).map(|it| it.range()).collect();
        for (mark, unescape) in [(b'%', percent as Unescape), (b'\\', backslash)] {
            if nested == 0 || !text.contains(&mark) {
                continue;
            }
            let plain = Plain::of(text, mark, unescape);
            if plain.bytes.len() < text.len() {
                let within = self.find(&plain.bytes, nested - 1);
                found.extend(within.into_iter().map(|range| plain.range(range)));
            }
        }
        found.sort_by_key(|range| range.start);
        found.dedup_by(|next, before| {
            let overlaps = next.start < before.end;
            if overlaps {
                before.end = before.end.max(next.end);
            }
            overlaps
        });
        found
    }

    fn hidden<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let found = self.find(text, NESTED_MAX);
        if found.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(marked(text, &found)) }
    }

    /// Takes from what is held all that cannot be part of a secret that is still coming, and says whether there was one.
    fn release(&self, held: &mut Vec<u8>) -> (Vec<u8>, bool) {
        let line = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut end = line.max(held.len().saturating_sub(self.longest));
        while end > 0 && held.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
            end -= 1;
        }
        let mut found = self.find(held, NESTED_MAX);
        found.retain(|range| range.start < end);
        end = found.last().map_or(end, |last| last.end.max(end));
        let rest = held.split_off(end);
        (marked(&std::mem::replace(held, rest), &found), !found.is_empty())
    }
}

/// A text with marks instead of its secrets.
fn marked(text: &[u8], found: &[Range<usize>]) -> Vec<u8> {
    let (mut clean, mut from) = (Vec::with_capacity(text.len()), 0);
    for range in found {
        clean.extend_from_slice(&text[from..range.start]);
        clean.extend_from_slice(MARK.as_bytes());
        from = range.end;
    }
    clean.extend_from_slice(&text[from..]);
    clean
}

/// How a secret is written without escapes.
fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let hex = [HEXLOWER.encode(secret), HEXUPPER.encode(secret)];
    let mut forms = vec![secret.to_vec()];
    forms.extend(hex.map(String::into_bytes));
    // Forms of the web write a blank as a plus.
    forms.push(secret.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect());
    for before in 0..3 {
        let bytes = [&[0; 2][..before], secret].concat();
        // Characters that say nothing but the secret: what is before or after it changes the others.
        let own = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        for encoding in [BASE64_NOPAD, BASE64URL_NOPAD] {
            let text = encoding.encode(&bytes).into_bytes();
            let own = &text[own.clone()];
            if before == 0 {
                let lines = WRAPPED_AT.into_iter().flat_map(|at| own.chunks(at));
                let lines = lines.filter(|line| line.len() >= SECRET_BYTES_MIN);
                forms.extend(lines.map(<[u8]>::to_vec));
            }
            forms.push(own.to_vec());
        }
    }
    forms
}

/// A text with its escapes read.
struct Plain {
    bytes: Vec<u8>,
    /// Where in the text each byte begins, and its end.
    starts: Vec<usize>,
}

/// Reads the escape that a text begins with: what it says and how long it is.
type Unescape = fn(&[u8]) -> Option<(Vec<u8>, usize)>;

impl Plain {
    fn of(text: &[u8], mark: u8, unescape: Unescape) -> Self {
        let (mut bytes, mut starts) =
            (Vec::with_capacity(text.len()), Vec::with_capacity(text.len()));
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            let escaped = if byte == mark { unescape(&text[at..]) } else { None };
            let (said, length) = escaped.unwrap_or_else(|| (vec![byte], 1));
            starts.extend(said.iter().map(|_| at));
            bytes.extend(said);
            at += length;
        }
        starts.push(text.len());
        Self { bytes, starts }
    }

    fn range(&self, range: Range<usize>) -> Range<usize> {
        self.starts[range.start]..self.starts[range.end]
    }
}

/// `%41`, as in addresses.
fn percent(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let byte = number(text.get(1..3)?)?;
    Some((vec![u8::try_from(byte).ok()?], 3))
}

/// `\n`, `\"`, `\x41`, `\u0041`, as in JSON and in most languages.
fn backslash(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let byte = match text.get(1)? {
        b'u' => return utf16(text),
        b'x' => return Some((vec![u8::try_from(number(text.get(2..4)?)?).ok()?], 4)),
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0C,
        byte @ (b'"' | b'\'' | b'/' | b'\\') => *byte,
        _ => return None,
    };
    Some((vec![byte], 2))
}

/// A character, which may take two escapes.
fn utf16(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        number(digits)
    };
    let units = [Some(unit(0)?), unit(6)];
    let letter = char::decode_utf16(units.into_iter().flatten()).next()?.ok()?;
    Some((letter.to_string().into_bytes(), letter.len_utf16() * 6))
}

fn number(digits: &[u8]) -> Option<u16> {
    let hex = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| hex)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests;
