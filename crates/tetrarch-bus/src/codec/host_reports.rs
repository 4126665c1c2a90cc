//! Reports of one host that go out as one message in its orchestrator's name (spec 02, Few messages). Each
//! is read as if it had come alone, on the subject and with the headers that it would have had: the
//! message says nothing about who may report for whom.

use async_nats::HeaderMap;
use serde_json::Value;
use tetrarch_core::id::{AgentId, HostName, Principal, RequestId, SessionId};
use tetrarch_core::limits::{HOST_REPORTS_MAX, REQUEST_BYTES_MAX};
use tetrarch_core::request::{Report, Request};

use super::error::CodecError;
use super::request::{decode_request, decode_request_at, derived_id, unreadable};
use super::wire::{Wire, field};
use super::{json, report};
use crate::envelope::Envelope;
use crate::proto::v1 as pb;
use crate::subject::{Subject, WrongRequest, speaks_for};

/// A report of an agent that a host runs.
#[derive(Debug, Clone, PartialEq)]
pub struct HostedReport {
    /// Who reports.
    pub agent: AgentId,
    /// Its session.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
    /// A W3C `traceparent`.
    pub trace: Option<String>,
    /// The idempotency key.
    pub id: RequestId,
    /// What it reports.
    pub report: Report,
}

/// The body of a message with these reports. What bounds it is checked where it is sent.
///
/// # Errors
/// A body that cannot be written as JSON.
pub fn encode_reports<'r>(
    reports: impl Iterator<Item = &'r HostedReport>,
) -> Result<Vec<u8>, CodecError> {
    let one = |it: &HostedReport| pb::HostedReport {
        agent: it.agent.put(),
        session: it.session.put(),
        epoch: it.epoch,
        traceparent: it.trace.clone().unwrap_or_default(),
        report: Some(report::put(&it.report, it.id)),
    };
    json::write("HostReports", &pb::HostReports { reports: reports.map(one).collect() })
}

/// Reads a message of `REQUESTS` by its subject's text, as [`decode_request_at`] does: the request that it
/// is, or those that a host sent together, in their order. One of them that cannot be read is a malformed
/// request of its host's orchestrator. There is at least one.
///
/// # Errors
/// As [`decode_request_at`].
pub fn decode_requests(
    subject: &str,
    headers: &HeaderMap,
    payload: &[u8],
    seq: u64,
) -> Result<Vec<Request>, CodecError> {
    let Some((host, reports)) = together(subject, payload) else {
        return decode_request_at(subject, headers, payload, seq).map(|request| vec![request]);
    };
    let malformed = |body: &[u8], error: &CodecError| {
        let from = Principal::Agent(AgentId::Ho(host.clone()));
        let wrong = WrongRequest { from, via: Some(host.clone()), spawn: false };
        unreadable(wrong, (subject, headers, body), seq, error)
    };
    if !(1..=HOST_REPORTS_MAX).contains(&reports.len()) {
        let reason = format!("expected a list of 1 to {HOST_REPORTS_MAX} reports");
        return Ok(vec![malformed(payload, &CodecError::field("reports", reason))]);
    }
    let read = reports.into_iter().enumerate().map(|(index, report)| {
        let body = report.to_string();
        let read = alone(&host, report, seq);
        let mut request = read.unwrap_or_else(|error| {
            malformed(body.as_bytes(), &error.under(&format!("reports[{index}]")))
        });
        if request.given_id().is_none() {
            request.id = derived_id(seq, index);
        }
        request
    });
    Ok(read.collect())
}

/// The host of a message with reports of its agents, and those; none for any other.
fn together(subject: &str, payload: &[u8]) -> Option<(HostName, Vec<Value>)> {
    let parsed = subject.parse().ok()?;
    let Subject::Report { from: Principal::Agent(AgentId::Ho(_)), via: Some(host) } = parsed else {
        return None;
    };
    let fits = payload.len() <= REQUEST_BYTES_MAX;
    let mut body = fits.then(|| json::parse("HostReports", payload).ok()).flatten()?;
    let reports = body.get_mut("reports")?;
    Some((host, reports.as_array_mut().map(std::mem::take).unwrap_or_default()))
}

/// One of a host's reports, as if it had come alone.
fn alone(host: &HostName, mut value: Value, seq: u64) -> Result<Request, CodecError> {
    let body = value.as_object_mut().and_then(|object| object.remove("report"));
    let body = body.ok_or_else(|| CodecError::missing().under("report"))?;
    let head: pb::HostedReport = json::event(value)?;
    let (from, via) = (Principal::Agent(field("agent", head.agent)?), Some(host.clone()));
    if !speaks_for(via.as_ref(), &from) {
        return Err(CodecError::field("agent", format!("{host} does not publish for {from}")));
    }
    let subject = Subject::Report { from, via };
    let envelope = Envelope {
        session: field("session", head.session)?,
        epoch: (head.epoch > 0).then_some(head.epoch),
        trace: Some(head.traceparent),
        ..Envelope::default()
    };
    decode_request(&subject, &envelope.headers(&subject), body.to_string().as_bytes(), seq)
}
