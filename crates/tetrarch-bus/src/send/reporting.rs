//! Reports of one host's agents (spec 02, Few messages): while a message with reports is on its way, those
//! that come wait, and go out together as the next one. Their order stays. It does not know what they say.

use bytes::Bytes;
use tetrarch_core::id::Principal;
use tetrarch_core::limits::{HOST_REPORTS_MAX, REQUEST_BYTES_MAX};
use tokio::sync::{mpsc, oneshot};

use super::{Author, SendError, publish, redacted, send_request};
use crate::client::Bus;
use crate::codec::{self, CodecError, HostedReport};
use crate::envelope::{Envelope, KIND, SCHEMA_VERSION, once_msg_id};
use crate::subject::Subject;

/// What a report takes in a message of several beside its own body, in bytes at most.
const HEAD_BYTES_MAX: usize = 320;

/// Where the agents of a host report.
#[derive(Debug, Clone)]
pub struct Reports(mpsc::Sender<WaitingReport>);

/// A report with who waits until it is stored.
#[derive(Debug)]
struct WaitingReport {
    report: HostedReport,
    /// Its body when it goes out alone.
    payload: Bytes,
    stored: oneshot::Sender<Result<(), SendError>>,
}

impl Reports {
    /// Reports of the agents of a host, sent in the name of its orchestrator by the future, which ends with
    /// the last of those who may report.
    pub fn new(bus: Bus, host: Author) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (report, arriving) = mpsc::channel(HOST_REPORTS_MAX);
        (Self(report), serve(bus, host, arriving))
    }

    /// Reports to the owner, and waits until that is stored, however long it takes.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(&self, report: HostedReport) -> Result<(), SendError> {
        let payload = codec::encode_report(&report.report, report.id)?.into();
        let (stored, outcome) = oneshot::channel();
        let waiting = WaitingReport { report, payload, stored };
        self.0.send(waiting).await.map_err(|_| SendError::Ended)?;
        outcome.await.map_err(|_| SendError::Ended)?
    }
}

async fn serve(bus: Bus, host: Author, mut arriving: mpsc::Receiver<WaitingReport>) {
    let mut waiting = Vec::new();
    loop {
        if waiting.is_empty() {
            let Some(first) = arriving.recv().await else { return };
            waiting.push(first);
        }
        while waiting.len() < HOST_REPORTS_MAX
            && let Ok(next) = arriving.try_recv()
        {
            waiting.push(next);
        }
        let count = fitting(waiting.iter().map(|it| it.payload.len()));
        send(&bus, &host, waiting.drain(..count).collect()).await;
    }
}

/// How many of those that wait, with bodies of so many bytes, go out as one message: as many as fit, and one
/// however large it is.
fn fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fit = sizes.take(HOST_REPORTS_MAX).take_while(|size| {
        bytes += size + HEAD_BYTES_MAX;
        bytes <= REQUEST_BYTES_MAX
    });
    fit.count().max(1)
}

/// Sends reports, as one message if the server takes it; a refusal of one is then nobody else's.
async fn send(bus: &Bus, host: &Author, reports: Vec<WaitingReport>) {
    let sent = reports.len() > 1
        && together(bus, host, &reports)
            .await
            .inspect_err(|error| tracing::warn!(%error, "reports are sent one by one"))
            .is_ok();
    for waiting in reports {
        let outcome = if sent { Ok(()) } else { alone(bus, host, &waiting).await };
        // Whoever waited may have ended.
        let _unheard = waiting.stored.send(outcome);
    }
}

async fn together(bus: &Bus, host: &Author, reports: &[WaitingReport]) -> Result<(), SendError> {
    let Author { from, via, session, epoch } = host.clone();
    let subject = Subject::Report { from, via };
    let msg_id = reports.first().map(|it| once_msg_id(&it.report.id.to_string()));
    let envelope = Envelope { msg_id, session, epoch: Some(epoch), ..Envelope::default() };
    let mut headers = envelope.headers(&subject);
    headers.insert(KIND, format!("reports/{SCHEMA_VERSION}"));
    let payload = redacted(codec::encode_reports(reports.iter().map(|it| &it.report))?);
    if payload.len() > REQUEST_BYTES_MAX {
        let (what, size) = ("reports".to_owned(), payload.len());
        return Err(CodecError::TooLarge { what, size, max: REQUEST_BYTES_MAX }.into());
    }
    publish(bus, &subject.to_string(), headers, payload.into(), None).await?;
    Ok(())
}

async fn alone(bus: &Bus, host: &Author, waiting: &WaitingReport) -> Result<(), SendError> {
    let HostedReport { agent, session, epoch, trace, id, .. } = &waiting.report;
    let subject = Subject::Report { from: Principal::Agent(agent.clone()), via: host.via.clone() };
    let envelope = Envelope {
        msg_id: Some(once_msg_id(&id.to_string())),
        session: Some(*session),
        epoch: Some(*epoch),
        trace: trace.clone(),
        ..Envelope::default()
    };
    let headers = envelope.headers(&subject);
    send_request(bus, &subject, headers, waiting.payload.clone(), None).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::{AgentId, Domain, RequestId, SessionId, Ulid};
    use tetrarch_core::request::Report;

    use super::*;

    #[test]
    fn as_many_reports_go_out_together_as_fit() {
        let half = REQUEST_BYTES_MAX / 2 - HEAD_BYTES_MAX;
        for (sizes, expected) in [
            (vec![10], 1),
            (vec![REQUEST_BYTES_MAX], 1),
            (vec![REQUEST_BYTES_MAX, 10], 1),
            (vec![10, REQUEST_BYTES_MAX, 10], 1),
            (vec![10, 10, REQUEST_BYTES_MAX], 2),
            (vec![half, half, 0], 2),
            (vec![half, half + 1], 1),
            (vec![0; HOST_REPORTS_MAX], HOST_REPORTS_MAX),
            (vec![0; HOST_REPORTS_MAX + 1], HOST_REPORTS_MAX),
        ] {
            assert_eq!(fitting(sizes.iter().copied()), expected, "{sizes:?}");
        }
    }

    #[test]
    fn head_of_the_longest_report_stays_below_its_bound() {
        let longest = HostedReport {
            agent: AgentId::Specialist(Domain::new(&"d".repeat(64)).unwrap(), Ulid(u128::MAX)),
            session: SessionId(Ulid(u128::MAX)),
            epoch: u64::MAX,
            trace: Some("0".repeat(55)),
            id: RequestId(Ulid(u128::MAX)),
            report: Report::Ready,
        };
        let alone = codec::encode_report(&longest.report, longest.id).unwrap().len();
        let whole = codec::encode_reports([&longest].into_iter()).unwrap().len();
        assert!(whole - alone <= HEAD_BYTES_MAX, "{}", whole - alone);
    }
}
