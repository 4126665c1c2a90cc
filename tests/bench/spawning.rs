//! Spawn latency on an idle fleet: from the publish of a request to its answer, at a steady rate
//! that waits for nobody. Requesters take turns, so that an agent that ends late takes no slot
//! that the next request needs. Its floor is a bare client doing the same chain.

use std::collections::HashMap;
use std::time::Duration;

use futures::future::join_all;
use tetrarch_core::id::{EpicId, RequestId};
use tetrarch_core::mail::MailBody;
use tokio::time::{Instant, interval};

use crate::Effort;
use crate::bare::Bare;
use crate::capture::{Capture, settled};
use crate::fleet::{Fleet, soon};
use crate::numbers::Samples;
use crate::requester::Requester;
use crate::table::{Aim, Line, Unit};

/// Time between two requests: each finds the fleet idle again.
const EVERY: Duration = Duration::from_millis(25);

/// Measures the latency of single requests.
pub(crate) async fn measure(
    fleet: &Fleet,
    bare: &mut Bare,
    requesters: &mut [Requester],
    effort: Effort,
) -> Vec<Line> {
    let mut lines = vec![
        Line::new("spawn request to accepted, idle fleet, p50", Unit::Micros, Aim::AtMost(1.5)),
        Line::new("spawn request to accepted, idle fleet, p99", Unit::Micros, Aim::AtMost(3.0)),
    ];
    let epics = goals(fleet, requesters).await;
    let (capture, _) = Capture::of(fleet, round(requesters, &epics, requesters.len())).await;
    effort.show(&capture);
    bare.write(capture.sizes());
    for _ in 0..effort.rounds {
        let epics = goals(fleet, requesters).await;
        settled(fleet).await;
        let ours = round(requesters, &epics, effort.requests).await;
        settled(fleet).await;
        let floor = bare.answers(effort.requests, EVERY).await;
        for (line, share) in lines.iter_mut().zip([0.5, 0.99]) {
            line.push(ours.quantile(share), floor.quantile(share));
        }
    }
    lines
}

async fn goals(fleet: &Fleet, requesters: &[Requester]) -> Vec<EpicId> {
    let mut epics = Vec::new();
    for requester in requesters {
        epics.push(requester.goal(fleet).await);
    }
    epics
}

/// Asks at a steady rate and reads the answers; waits until every agent has ended. `count` is a
/// multiple of the requesters.
async fn round(requesters: &mut [Requester], epics: &[EpicId], count: usize) -> Samples {
    let each = count / requesters.len();
    let turns: Vec<_> = (0..each)
        .flat_map(|_| requesters.iter().zip(epics))
        .map(|(requester, epic)| (requester.bus.clone(), requester.request(*epic)))
        .collect();
    let asking = async {
        let mut sent: HashMap<RequestId, Instant> = HashMap::new();
        let mut beat = interval(EVERY);
        for (bus, (id, request)) in turns {
            beat.tick().await;
            sent.insert(id, Instant::now());
            request.send(&bus).await;
        }
        sent
    };
    let reading = join_all(requesters.iter_mut().map(|requester| answers(requester, each)));
    let both = async { tokio::join!(asking, reading) };
    let (sent, answered) = soon("an answer to every request", both).await;
    let times = answered.into_iter().flatten().map(|(id, at)| at - sent[&id]);
    Samples::new(times.collect())
}

/// Reads so many answers, and when they came, and as many ends of agents.
async fn answers(requester: &mut Requester, count: usize) -> Vec<(RequestId, Instant)> {
    let mut answered = Vec::with_capacity(count);
    let mut ended = 0;
    while answered.len() < count || ended < count {
        let (mail, at) = requester.read().await;
        if let (Some(id), MailBody::SpawnAnswer(answer)) = (mail.correlation, &mail.body) {
            assert!(answer.accepted(), "{answer:?}");
            answered.push((id, at));
        } else if matches!(mail.body, MailBody::AgentCompleted { .. }) {
            ended += 1;
        }
    }
    answered
}
