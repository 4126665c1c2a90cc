//! What a configuration value can be: the kinds, reading them from files and from text, and
//! saying what a kind allows (spec 12). It knows no key and no layer.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value as Json, json};
use tetrarch_core::duration::{self, DURATION_FORMS};
use tetrarch_core::id::HostName;
use tetrarch_core::secret::{ALL_FORMS, SecretSource};
use tetrarch_core::size::{self, SIZE_FORMS};
use tetrarch_core::time::Millis;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// The word for a place that is not listened at.
pub(super) const OFF: &str = "off";

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ValueKind {
    /// Any text that is not empty.
    Text,
    /// A file or directory.
    Path,
    /// One of some words.
    Word(&'static [&'static str]),
    /// A length of time, in milliseconds from and to.
    Span(u64, u64),
    /// A length of time in whole seconds, from and to.
    Seconds(u64, u64),
    /// A size, in bytes from and to.
    Size(u64, u64),
    /// A whole number, from and to.
    Whole(u64, u64),
    /// One of some whole numbers.
    OneOf(&'static [u64]),
    /// A share of a whole, above 0 and up to 1.
    Share,
    /// Yes or no.
    Flag,
    /// A list of names.
    Names,
    /// A list of absolute paths.
    Paths,
    /// Names with a value each.
    Labels,
    /// A wait that grows from a base to a most.
    Growth,
    /// What is logged.
    Filter,
    /// Addresses of the bus.
    BusUrls,
    /// The address of a collector.
    CollectorUrl,
    /// An address to listen at.
    Listen,
    /// An address of this machine that no other machine reaches, or `off`.
    Loopback,
    /// The name of the variable that holds a secret, never the secret.
    KeyFrom,
    /// A host's name.
    Host,
}

impl ValueKind {
    /// What a value of this kind may be, for people.
    pub(crate) fn allowed(self) -> String {
        let span = |ms| duration::print(Millis(ms));
        match self {
            Self::Text => "any text that is not empty".to_owned(),
            Self::Path => "a path in UTF-8".to_owned(),
            Self::Word(words) => words.join(", "),
            Self::Span(from, u64::MAX) => format!("at least {}, as {DURATION_FORMS}", span(from)),
            Self::Span(from, to) => {
                format!("{} to {}, as {DURATION_FORMS}", span(from), span(to))
            }
            Self::Seconds(from, to) => format!("{from}s to {to}s in whole seconds"),
            Self::Size(from, to) => {
                format!("{} to {}, as {SIZE_FORMS}", size::print(from), size::print(to))
            }
            Self::Whole(from, to) => format!("a whole number from {from} to {to}"),
            Self::OneOf(numbers) => {
                let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
                texts.join(", ")
            }
            Self::Share => "a number above 0 and up to 1".to_owned(),
            Self::Flag => "true, false".to_owned(),
            Self::Names => "a list of names".to_owned(),
            Self::Paths => "a list of absolute paths".to_owned(),
            Self::Labels => "names with a value each, as { zone = \"b\" }".to_owned(),
            Self::Growth => {
                "{ base = \"2m\", max = \"30m\" }, from 1s, the base not above the most".to_owned()
            }
            Self::Filter => "off, error, warn, info, debug, trace, or by part: \
                             info,tetrarch_engine=debug"
                .to_owned(),
            Self::BusUrls => {
                "nats://<host>:<port> or tls://<host>:<port>, several with commas".to_owned()
            }
            Self::CollectorUrl => "http://<host>:<port> or https://<host>:<port>".to_owned(),
            Self::Listen => "<address>:<port>".to_owned(),
            Self::Loopback => {
                "127.0.0.1:<port>, [::1]:<port> or off; reach it from elsewhere by ssh -L"
                    .to_owned()
            }
            Self::KeyFrom => ALL_FORMS.to_owned(),
            Self::Host => "a name of A-Z a-z 0-9 _ -, starting with a letter or digit".to_owned(),
        }
    }

    /// Reads the text of a variable or an option; none when this kind does not allow it.
    pub(crate) fn read_text(self, text: &str) -> Option<Json> {
        let json = match self {
            Self::Whole(..) | Self::OneOf(_) => json!(text.parse::<u64>().ok()?),
            Self::Share => json!(text.parse::<f64>().ok()?),
            Self::Flag => json!(text.parse::<bool>().ok()?),
            Self::Names | Self::Paths => text.split(',').filter(|name| !name.is_empty()).collect(),
            Self::Labels | Self::Growth => {
                let pairs = text.split(',').filter(|pair| !pair.is_empty());
                let pairs =
                    pairs.map(|pair| Some((pair.split_once('=')?.0, pair.split_once('=')?.1)));
                let pairs: Option<Vec<_>> = pairs.collect();
                Json::Object(pairs?.into_iter().map(|(k, v)| (k.to_owned(), json!(v))).collect())
            }
            Self::Text
            | Self::Path
            | Self::Word(_)
            | Self::Span(..)
            | Self::Seconds(..)
            | Self::Size(..)
            | Self::Filter
            | Self::BusUrls
            | Self::CollectorUrl
            | Self::Listen
            | Self::Loopback
            | Self::KeyFrom
            | Self::Host => json!(text),
        };
        self.read(&json)
    }

    /// Reads a value of a file; none when this kind does not allow it. Lengths of time and sizes come out in
    /// their shortest form, pairs in order, so that equal values are the same.
    pub(crate) fn read(self, json: &Json) -> Option<Json> {
        let is_text = |right: fn(&str) -> bool| full(json).is_some_and(right);
        let right = match self {
            Self::Share => json.as_f64().is_some_and(|share| share > 0.0 && share <= 1.0),
            Self::Flag => json.is_boolean(),
            Self::Whole(from, to) => json.as_u64().is_some_and(|it| (from..=to).contains(&it)),
            Self::OneOf(numbers) => json.as_u64().is_some_and(|it| numbers.contains(&it)),
            Self::Names => json.as_array()?.iter().all(|name| full(name).is_some()),
            Self::Paths => {
                let is_absolute = |path| full(path).is_some_and(|path| path.starts_with('/'));
                json.as_array()?.iter().all(is_absolute)
            }
            Self::Labels => {
                let pairs = json.as_object()?.iter().map(|(key, value)| Some((key, full(value)?)));
                return pairs.collect::<Option<BTreeMap<_, _>>>().map(|labels| json!(labels));
            }
            Self::Growth => return growth(json),
            Self::Span(from, to) => {
                let span = duration::parse(full(json)?).ok()?;
                return (from..=to).contains(&span.0).then(|| json!(duration::print(span)));
            }
            Self::Seconds(from, to) => {
                let span = duration::parse(full(json)?).ok()?;
                let whole = span.0.is_multiple_of(1000) && (from..=to).contains(&(span.0 / 1000));
                return whole.then(|| json!(duration::print(span)));
            }
            Self::Size(from, to) => {
                let bytes = size::parse(full(json)?).ok()?;
                return (from..=to).contains(&bytes).then(|| json!(size::print(bytes)));
            }
            Self::Word(words) => full(json).is_some_and(|text| words.contains(&text)),
            Self::Filter => is_text(|text| {
                EnvFilter::try_new(text).is_ok() && text.split(',').all(is_directive)
            }),
            Self::BusUrls => {
                is_text(|text| text.split(',').all(|url| has_host(url, &["nats://", "tls://"])))
            }
            Self::CollectorUrl => is_text(|text| has_host(text, &["http://", "https://"])),
            Self::Listen => is_text(|text| {
                let parts = text.rsplit_once(':');
                parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
            }),
            Self::Loopback => is_text(|text| {
                let at = text.parse::<SocketAddr>();
                text == OFF || at.is_ok_and(|at| at.ip().is_loopback())
            }),
            Self::KeyFrom => is_text(|text| SecretSource::parse(text).is_some()),
            Self::Host => is_text(|text| HostName::new(text).is_ok()),
            Self::Text | Self::Path => is_text(|_| true),
        };
        right.then(|| json.clone())
    }
}

/// Whether a part of a filter is a level, or names a target in the form `target=level`. The library takes any
/// other word for a target that logs everything, so a misspelled level would log nothing.
fn is_directive(part: &str) -> bool {
    part.contains(['=', '[']) || part.parse::<LevelFilter>().is_ok() || part.starts_with("tetrarch")
}

fn growth(json: &Json) -> Option<Json> {
    let fields = json.as_object().filter(|fields| fields.len() == 2)?;
    let span = |name| duration::parse(full(fields.get(name)?)?).ok();
    let (base, most) = (span("base")?, span("max")?);
    let print = duration::print;
    (Millis(1000) <= base && base <= most).then(|| json!({"base": print(base), "max": print(most)}))
}

/// A text that is not empty.
fn full(json: &Json) -> Option<&str> {
    json.as_str().filter(|text| !text.trim().is_empty())
}

fn has_host(url: &str, schemes: &[&str]) -> bool {
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with([':', '/']))
}

/// A value as people write it: lists and pairs as in a variable, nothing as a dash.
pub(super) fn shown(value: &Json) -> String {
    let some = match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) => value.to_string(),
        Json::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(","),
        Json::Object(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{key}={}", shown(value)));
            pairs.collect::<Vec<_>>().join(",")
        }
    };
    if some.is_empty() { "-".to_owned() } else { some }
}
