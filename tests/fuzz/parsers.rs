//! Everything that reads what others wrote, each as a function of bytes: no bytes make it panic,
//! and what it read it writes so that it reads the same again. The one list for the fuzzer, which
//! makes up bytes for ever, and for the ordinary tests, which replay its corpus.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use tetrarch_bus::HeaderMap;
use tetrarch_bus::codec::{self, CodecError};
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::key::parse_record_key;
use tetrarch_core::id::{AgentId, EpicId, HostName, NodeId, Principal, ProjectName, Ulid};
use tetrarch_core::plan::schema;
use tetrarch_core::{duration, size};

/// A parser: its name, which is that of its corpus, and what it is given.
pub(crate) type Parser = (&'static str, fn(&[u8]));

/// Every parser.
pub(crate) const PARSERS: [Parser; 18] = [
    ("agent_id", |bytes| spelled::<AgentId>(bytes)),
    ("cursor", |bytes| stable(bytes, codec::decode_cursor, codec::encode_cursor)),
    ("duration", |bytes| drop(text(bytes).map(duration::parse))),
    ("entry", |bytes| stable(bytes, codec::decode_entry, codec::encode_entry)),
    ("heartbeat", heartbeat),
    ("host_lease", |bytes| stable(bytes, codec::decode_host_lease, codec::encode_host_lease)),
    ("journal", |bytes| stable(bytes, codec::decode_journal, codec::encode_journal)),
    ("mail", mail),
    ("names", names),
    ("node_id", |bytes| spelled::<NodeId>(bytes)),
    ("plan", plan),
    ("plan_event", |bytes| stable(bytes, codec::decode_plan_event, codec::encode_plan_event)),
    ("program_line", |bytes| drop(tetrarch_runner::explain_line(bytes))),
    ("record", record),
    ("request", request),
    ("size", |bytes| drop(text(bytes).map(size::parse))),
    ("spawn_body", |bytes| drop(codec::decode_spawn_body(bytes, EpicId(Ulid(1)), None))),
    ("subject", |bytes| spelled::<Subject>(bytes)),
];

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// A subject, then a line's end, then what was published there.
fn addressed(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((text(&bytes[..end])?, &bytes[end + 1..]))
}

fn spelled<T: FromStr + Display + PartialEq + Debug>(bytes: &[u8]) {
    if let Some(read) = text(bytes).and_then(|text| text.parse::<T>().ok()) {
        let written = read.to_string();
        assert_eq!(written.parse().ok(), Some(read), "{written}");
    }
}

fn names(bytes: &[u8]) {
    spelled::<Principal>(bytes);
    if let Some(text) = text(bytes) {
        for name in [
            HostName::new(text).map(|name| name.to_string()),
            ProjectName::new(text).map(|name| name.to_string()),
        ] {
            assert!(name.is_err() || name.as_deref() == Ok(text), "{name:?}");
        }
    }
}

/// What is read and can be written is read the same again. It may be too large to be written.
fn stable<T: PartialEq + Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, CodecError>,
    encode: impl Fn(&T) -> Result<Vec<u8>, CodecError>,
) {
    if let Ok(read) = decode(bytes)
        && let Ok(written) = encode(&read)
    {
        assert_eq!(decode(&written).ok(), Some(read));
    }
}

fn heartbeat(bytes: &[u8]) {
    stable(bytes, |bytes| codec::decode_heartbeat(&AgentId::Go, bytes), codec::encode_heartbeat);
}

fn plan(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice(bytes) {
        for problem in schema::parse(&value).err().unwrap_or_default() {
            assert!(!problem.to_string().is_empty());
        }
        drop(schema::parse_profile(&value));
    }
}

fn mail(bytes: &[u8]) {
    let Some((subject, payload)) = addressed(bytes) else { return };
    drop(codec::mail_body_json(payload));
    let read = |payload: &[u8]| {
        codec::decode_mail(subject, &HeaderMap::new(), payload).map(|(mail, _)| mail)
    };
    stable(payload, read, codec::encode_mail);
}

fn record(bytes: &[u8]) {
    let Some((subject, payload)) = addressed(bytes) else { return };
    drop(parse_record_key(subject));
    let read = |payload: &[u8]| codec::record_from_json(subject, payload);
    stable(payload, read, |(record, seq)| codec::record_json(record, *seq));
}

/// Whatever can be published where requests are: a known sender is always answered.
fn request(bytes: &[u8]) {
    let Some((subject, payload)) = addressed(bytes) else { return };
    let read = codec::decode_requests(subject, &HeaderMap::new(), payload, 1);
    let known = matches!(
        subject.parse(),
        Ok(Subject::SpawnRequest { .. } | Subject::Op { .. } | Subject::Report { .. })
    );
    assert!(read.is_ok() || !known, "{subject}: {read:?}");
}
