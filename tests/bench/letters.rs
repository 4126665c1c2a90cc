//! Mail, stored to handled: from the acknowledgement of a mail until its reader's cursor says
//! that it is handled, under a steady load that waits for nobody. Its floor is a raw publish with
//! its acknowledgement and its delivery.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use futures::StreamExt;
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::MAIL;
use tetrarch_bus::{Bus, codec};
use tetrarch_core::id::{AgentId, HumanName, Principal};
use tetrarch_core::mail::{Lane, Mail, MailBody};
use tetrarch_core::request::Op;
use tetrarch_tests::Server;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};

use crate::Effort;
use crate::fleet::{Fleet, new_id, soon};
use crate::numbers::Samples;
use crate::requester::{Outgoing, Requester};
use crate::table::{Aim, Line, Unit};

/// Time between two mails.
const EVERY: Duration = Duration::from_millis(4);

/// Measures mail from a human and from an agent to an interaction orchestrator.
pub(crate) async fn measure(
    fleet: &Fleet,
    bare: &Server,
    writer: &Requester,
    effort: Effort,
) -> Vec<Line> {
    let human = HumanName::new("bench").unwrap();
    let reader = AgentId::Io(human.clone());
    fleet.active(&reader, async { drop(fleet.operate(&Op::HumanJoin { human }).await) }).await;
    let line = |what: &str, aim| Line::new(what, Unit::Micros, aim);
    let mut lines = vec![
        line("mail from a human, stored to handled, p50", Aim::AtMost(2.0)),
        line("mail from a human, stored to handled, p99", Aim::None),
        line("mail from a human, sent to handled, p50", Aim::None),
        line("mail from an agent, stored to handled, p50", Aim::AtMost(2.0)),
        line("mail from an agent, stored to handled, p99", Aim::None),
        line("mail from an agent, sent to handled, p50", Aim::None),
    ];
    let to_reader = Principal::Agent(reader.clone());
    for _ in 0..effort.rounds {
        let from_human = |id: &str| letter(&fleet.human, &to_reader, id, None);
        let of_human = ours(fleet, &fleet.desk, &reader, from_human, effort.letters).await;
        let from = Principal::Agent(writer.agent.clone());
        let from_agent = |id: &str| letter(&from, &to_reader, id, Some(writer));
        let of_agent = ours(fleet, &writer.bus, &reader, from_agent, effort.letters).await;
        let raw = |id: &str| letter(&fleet.human, &to_reader, id, None);
        let floor = floor(bare, raw, effort.letters).await;
        let all = [of_human, of_agent].into_iter().flat_map(|handled| {
            let Handled { since_stored, since_sent } = handled;
            [since_stored.quantile(0.5), since_stored.quantile(0.99), since_sent.quantile(0.5)]
        });
        let shares = [0.5, 0.99, 0.5].into_iter().cycle();
        for ((line, ours), share) in lines.iter_mut().zip(all).zip(shares) {
            line.push(ours, floor.quantile(share));
        }
    }
    lines
}

fn letter(from: &Principal, to: &Principal, id: &str, of: Option<&Requester>) -> Outgoing {
    let mail = Mail {
        to: to.clone(),
        epic: None,
        correlation: None,
        cause: "bench".to_owned(),
        ack_required: false,
        trace: None,
        body: MailBody::Info { text: "how long does this take?".to_owned() },
    };
    let subject = Subject::Mail { lane: Lane::Mail, to: to.clone(), from: from.clone(), via: None };
    let plain = || Envelope { msg_id: Some(id.to_owned()), ..Envelope::default() };
    let envelope = of.map_or_else(plain, |requester| requester.envelope(id));
    Outgoing {
        subject: subject.to_string(),
        headers: envelope.headers(&subject),
        payload: codec::encode_mail(&mail).unwrap().into(),
    }
}

/// Sends mails at a steady rate; for each, its sequence and when it was stored is told.
async fn send(
    bus: &Bus,
    letter: impl Fn(&str) -> Outgoing,
    count: usize,
    stored: mpsc::UnboundedSender<(u64, Instant, Instant)>,
) {
    let mut beat = interval(EVERY);
    for _ in 0..count {
        let Outgoing { subject, headers, payload } = letter(&new_id().to_string());
        beat.tick().await;
        let sent = Instant::now();
        let ack = bus.start_publish(&subject, headers, payload, None).await.unwrap();
        let stored = stored.clone();
        drop(tokio::spawn(async move {
            let seq = ack.stored().await.unwrap();
            // Whoever counts may have stopped.
            let _counted = stored.send((seq, sent, Instant::now()));
        }));
    }
}

/// How long mails took until they were handled.
struct Handled {
    since_stored: Samples,
    since_sent: Samples,
}

async fn ours(
    fleet: &Fleet,
    bus: &Bus,
    reader: &AgentId,
    letter: impl Fn(&str) -> Outgoing,
    count: usize,
) -> Handled {
    let subject = Subject::Cursor(reader.clone()).to_string();
    let mut cursors = fleet.control.client().subscribe(subject).await.unwrap();
    fleet.control.client().flush().await.unwrap();
    let (tell, mut stored) = mpsc::unbounded_channel();
    let handled = async {
        let mut times: BTreeMap<u64, (Instant, Instant)> = BTreeMap::new();
        let mut moves: Vec<(u64, Instant)> = Vec::new();
        let mut last = 0;
        while times.len() < count || last < *times.keys().last().unwrap_or(&0) {
            tokio::select! {
                Some((seq, sent, at)) = stored.recv() => drop(times.insert(seq, (sent, at))),
                Some(message) = cursors.next() => {
                    let at = Instant::now();
                    last = codec::decode_cursor(&message.payload).unwrap().positions.mail;
                    moves.push((last, at));
                }
            }
        }
        let first_past = |seq: u64| moves.iter().find(|(position, _)| *position >= seq).unwrap().1;
        let since = |from: fn(&(Instant, Instant)) -> Instant| {
            let taken = times
                .iter()
                .map(|(seq, moments)| first_past(*seq).saturating_duration_since(from(moments)));
            Samples::new(taken.collect())
        };
        Handled { since_stored: since(|(_, stored)| *stored), since_sent: since(|(sent, _)| *sent) }
    };
    let both = async { tokio::join!(send(bus, letter, count, tell), handled).1 };
    soon("the handling of every mail", both).await
}

async fn floor(server: &Server, letter: impl Fn(&str) -> Outgoing, count: usize) -> Samples {
    let (sender, reader) = (server.control().await, server.control().await);
    let stream = reader.jetstream().get_stream_no_info(MAIL).await.unwrap();
    let config = pull::Config {
        deliver_policy: DeliverPolicy::New,
        ack_policy: AckPolicy::None,
        memory_storage: true,
        ..pull::Config::default()
    };
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut messages = consumer.messages().await.unwrap();
    let (tell, mut stored) = mpsc::unbounded_channel();
    let delivered = async {
        let mut times: BTreeMap<u64, (Instant, Instant)> = BTreeMap::new();
        let mut came: BTreeMap<u64, Instant> = BTreeMap::new();
        while times.len() < count || came.len() < count {
            tokio::select! {
                Some((seq, sent, at)) = stored.recv() => drop(times.insert(seq, (sent, at))),
                Some(message) = messages.next() => {
                    let at = Instant::now();
                    let seq = message.unwrap().info().unwrap().stream_sequence;
                    came.insert(seq, at);
                }
            }
        }
        let taken = times.iter().map(|(seq, (sent, acked))| (*acked).max(came[seq]) - *sent);
        Samples::new(taken.collect())
    };
    let both = async { tokio::join!(send(&sender, letter, count, tell), delivered).1 };
    soon("the delivery of every mail", both).await
}
