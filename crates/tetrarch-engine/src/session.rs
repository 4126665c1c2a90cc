//! What every hosted session does on the bus under its own name: claim, report, ask, write,
//! and judge who wrote to it. Shared by agents, project and interaction orchestrators.

use std::sync::Arc;

use bytes::Bytes;
use tetrarch_bus::Bus;
use tetrarch_bus::artifact::Artifacts;
use tetrarch_bus::codec::{self, HostedReport};
use tetrarch_bus::cursor::{self, Claimed};
use tetrarch_bus::envelope::{Envelope, once_msg_id};
use tetrarch_bus::inbox::{Incoming, Wakeup};
use tetrarch_bus::intake::{DeadLetter, dead_letter};
use tetrarch_bus::send::{Author, Reports, send_mail, send_request};
use tetrarch_bus::subject::{OpName, Origin, Subject};
use tetrarch_core::cursor::{Claim, Cursor};
use tetrarch_core::id::{AgentId, HostName, Principal, RequestId, RunId, SessionId};
use tetrarch_core::mail::receipt::{self, About, Receipt, SetAside, Stage};
use tetrarch_core::mail::{Lane, Launch, Mail, MailBody};
use tetrarch_core::order::StopWithin;
use tetrarch_core::request::{Op, Report, Sender, SpawnRequest};
use tetrarch_core::time::BusTime;

use crate::clock::Clock;
use crate::correspond::Correspondents;
use crate::error::{EngineResult, note_dead};

/// What the sessions of one host share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// The connection for control: claims, journals, requests, mail.
    pub(crate) bus: Bus,
    /// The watch over this connection's inboxes.
    pub(crate) wakeup: Arc<Wakeup>,
    /// Where they report.
    pub(crate) reports: Reports,
    /// The artifacts.
    pub(crate) artifacts: Artifacts,
    /// Who may write to whom.
    pub(crate) correspondents: Correspondents,
    /// The clock.
    pub(crate) clock: Clock,
    /// This life of the host.
    pub(crate) claim: Claim,
    /// How long a program that is asked to stop has.
    pub(crate) stop_within: StopWithin,
}

/// A message with what was found of its sender.
#[derive(Debug)]
pub(crate) struct CheckedMessage {
    /// What came in.
    pub(crate) incoming: Incoming,
    /// Why it is not for this session's agent to handle; none when it is.
    pub(crate) refusal: Option<String>,
}

/// A message whose sender may write here.
pub(crate) struct Admitted {
    /// What it says.
    pub(crate) mail: Mail,
    /// Who wrote it.
    pub(crate) from: Principal,
    /// The entry of the ledger it comes from; 0 when it is not the owner's.
    pub(crate) ledger_seq: u64,
    /// Its bytes as they came.
    pub(crate) payload: Bytes,
    /// Its place on the mail lane; 0 for control.
    pub(crate) place: u64,
}

/// One session's voice on the bus.
#[derive(Clone)]
pub(crate) struct Session {
    /// What the host's sessions share.
    pub(crate) shared: Shared,
    /// Who.
    pub(crate) agent: AgentId,
    /// Which incarnation.
    pub(crate) session: SessionId,
    /// Its epoch.
    pub(crate) epoch: u64,
    /// The host that publishes for it.
    pub(crate) via: Option<HostName>,
    /// The session's own trace, a W3C `traceparent`.
    pub(crate) trace: Option<String>,
}

impl Session {
    /// The session that a launch orders.
    pub(crate) fn hosted(shared: Shared, launch: &Launch, trace: Option<String>) -> Self {
        let via = Some(shared.claim.host.clone());
        let Launch { agent, session, epoch, .. } = launch.clone();
        Self { shared, agent, session, epoch, via, trace }
    }

    /// The host orchestrator's own.
    pub(crate) fn of_host(shared: Shared, session: SessionId) -> Self {
        let agent = AgentId::Ho(shared.claim.host.clone());
        let (epoch, via) = (shared.claim.host_epoch, Some(shared.claim.host.clone()));
        Self { shared, agent, session, epoch, via, trace: None }
    }

    fn author(&self) -> Author {
        Author {
            from: Principal::Agent(self.agent.clone()),
            via: self.via.clone(),
            session: Some(self.session),
            epoch: self.epoch,
        }
    }

    /// Claims the cursor for this life of the host. That of a new agent, which makes its `first` run, is
    /// not sealed.
    pub(crate) async fn claim(&self, first: Option<RunId>) -> EngineResult<Claimed> {
        let Shared { bus, claim, .. } = &self.shared;
        let Some(run) = first else {
            return Ok(cursor::claim(bus, &self.agent, self.epoch, claim).await?);
        };
        let first = Cursor::first(self.agent.clone(), self.session, run, claim.clone());
        Ok(cursor::claim_first(bus, first, claim).await?)
    }

    /// Writes how far the inbox is handled; gives the cursor's new sequence.
    pub(crate) async fn move_cursor(&self, cursor: &Cursor, expected: u64) -> EngineResult<u64> {
        Ok(cursor::write_cursor(&self.shared.bus, cursor, expected).await?)
    }

    /// Reports to the owner. The same report has the same id.
    pub(crate) async fn report(&self, id: RequestId, report: &Report) -> EngineResult {
        let report = HostedReport {
            agent: self.agent.clone(),
            session: self.session,
            epoch: self.epoch,
            trace: self.trace.clone(),
            id,
            report: report.clone(),
        };
        Ok(self.shared.reports.send(report).await?)
    }

    /// Asks the governor for agents.
    pub(crate) async fn request(
        &self,
        id: RequestId,
        request: &SpawnRequest,
        trace: Option<&str>,
    ) -> EngineResult {
        let subject = Subject::SpawnRequest {
            epic: request.epic,
            node: request.node,
            from: Principal::Agent(self.agent.clone()),
            via: self.via.clone(),
        };
        let payload = codec::encode_spawn_request(request, id)?;
        self.send(&subject, id, payload, trace).await
    }

    /// Asks the owner for something else.
    pub(crate) async fn operate(
        &self,
        id: RequestId,
        op: &Op,
        trace: Option<&str>,
    ) -> EngineResult {
        let subject = Subject::Op {
            op: OpName::of(op),
            from: Principal::Agent(self.agent.clone()),
            via: self.via.clone(),
        };
        self.send(&subject, id, codec::encode_op(op, id)?, trace).await
    }

    /// Asks the owner for an operation as a program wrote it: the owner says what is wrong with it.
    pub(crate) async fn ask(&self, id: RequestId, op: &str, body: String) -> EngineResult {
        let op = match op.parse() {
            Ok(op) => op,
            Err(error) => {
                tracing::error!(%error, "a session asked for no operation");
                return Ok(());
            }
        };
        let from = Principal::Agent(self.agent.clone());
        self.send(&Subject::Op { op, from, via: self.via.clone() }, id, body.into(), None).await
    }

    async fn send(
        &self,
        subject: &Subject,
        id: RequestId,
        payload: Vec<u8>,
        trace: Option<&str>,
    ) -> EngineResult {
        let envelope = Envelope {
            // A program and its next session ask again under the same id, and the owner has to see that,
            // to answer again: it may have refused what the session before asked.
            msg_id: Some(once_msg_id(&id.to_string())),
            session: Some(self.session),
            epoch: Some(self.epoch),
            trace: trace.map(str::to_owned).or_else(|| self.trace.clone()),
            ..Envelope::default()
        };
        let headers = envelope.headers(subject);
        send_request(&self.shared.bus, subject, headers, Bytes::from(payload), None).await?;
        Ok(())
    }

    /// Writes to somebody. `id` tells the same mail when it is sent again.
    pub(crate) async fn write(&self, mail: &Mail, id: &str) -> EngineResult {
        send_mail(&self.shared.bus, &self.author(), mail, id, None).await?;
        Ok(())
    }

    /// Finds out whether a message is for this session's agent to handle. Waits for STATE.
    pub(crate) async fn judge(&self, incoming: Incoming) -> CheckedMessage {
        let refusal = match &incoming.content {
            Ok((mail, sender)) if is_foreign(sender) && is_unknown(mail) => {
                Some(format!("topic {} is unknown", mail.body.topic()))
            }
            Ok((mail, sender))
                if mail.body.is_owners_order() && sender.from != Principal::Agent(AgentId::Go) =>
            {
                Some(format!("{} is an order of GO alone", mail.body.topic()))
            }
            Ok((_, sender)) => {
                let lane = incoming.lane;
                self.shared.correspondents.may_write(sender, &self.agent, lane).await.err()
            }
            Err(error) => Some(error.to_string()),
        };
        CheckedMessage { incoming, refusal }
    }

    /// Keeps a message among the dead letters, with the reason, and has its writer told. What tells
    /// of another message is only kept, and so is what GO wrote: the ledger has that.
    pub(crate) async fn set_aside(&self, incoming: &Incoming, reason: String) -> EngineResult {
        let Incoming { seq, subject, payload, .. } = incoming;
        let letter = DeadLetter {
            origin: Origin::Mail,
            seq: *seq,
            subject: subject.clone(),
            reason: reason.clone(),
            payload: payload.clone(),
        };
        note_dead(&letter);
        if let Err(error) = dead_letter(&self.shared.bus, &letter).await {
            tracing::error!(%error, "storing a dead letter failed");
        }
        let of = incoming.about();
        let Some((from, via)) = incoming.writer() else { return Ok(()) };
        if receipt::is_about_mail(&of.topic) || from == Principal::Agent(AgentId::Go) {
            return Ok(());
        }
        let at = BusTime(incoming.time_unix_ms);
        self.report_set_aside(at, SetAside { of, from, via, reason }).await
    }

    /// Has the owner tell the writer of a message that it was set aside.
    pub(crate) async fn report_set_aside(&self, at: BusTime, letter: SetAside) -> EngineResult {
        let number = usize::try_from(letter.of.seq).unwrap_or(usize::MAX);
        let id = RequestId::derive(at, &self.agent.to_string(), "set_aside", number);
        self.report(id, &Report::SetAside(letter)).await
    }

    /// Tells the writer of a message how far it came, under an id that is the same for every
    /// repetition by this session.
    pub(crate) async fn tell(&self, to: &Principal, of: &About, stage: Stage) {
        let mail = Mail {
            to: to.clone(),
            epic: None,
            correlation: None,
            cause: of.topic.clone(),
            ack_required: false,
            trace: None,
            body: MailBody::Receipt(Receipt { of: of.clone(), stage }),
        };
        let id = format!("{}-of-{}", stage.as_str(), of.seq);
        if let Err(error) = self.write(&mail, &id).await {
            tracing::error!(%to, %error, "a receipt could not be sent");
        }
    }

    /// The message, when this agent handles it; it counts as consumed at once, since nothing is kept
    /// of it. Else it is set aside.
    pub(crate) async fn admit(&self, incoming: Incoming) -> EngineResult<Option<Admitted>> {
        let CheckedMessage { incoming, refusal } = self.judge(incoming).await;
        if let Some(reason) = refusal {
            self.set_aside(&incoming, reason).await?;
            return Ok(None);
        }
        let of = incoming.about();
        let admitted = Admitted::of(incoming);
        if let Some(Admitted { mail, from, .. }) = &admitted
            && mail.owes_receipts()
        {
            for stage in Stage::ALL {
                self.tell(from, &of, stage).await;
            }
        }
        Ok(admitted)
    }
}

impl Admitted {
    /// What can be read of a message.
    pub(crate) fn of(incoming: Incoming) -> Option<Self> {
        let Incoming { lane, seq, ledger_seq, content, payload, .. } = incoming;
        let (mail, sender) = content.ok()?;
        let place = if lane == Lane::Mail { seq } else { 0 };
        Some(Self { mail, from: sender.from, ledger_seq, payload, place })
    }
}

/// Sent by an agent that publishes for itself: what it means by a topic of its own nobody knows,
/// while one that our own versions do not know is of a later one (spec 02, Mail).
fn is_foreign(sender: &Sender) -> bool {
    let own = matches!(sender.from, Principal::Human(_) | Principal::Agent(AgentId::Go));
    sender.via.is_none() && !own
}

fn is_unknown(mail: &Mail) -> bool {
    matches!(mail.body, MailBody::Unknown { .. })
}
