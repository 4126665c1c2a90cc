//! Spawn latency on an idle fleet: from the publish of a request to its answer, at a steady rate
//! that waits for nobody. Its floor is a bare client doing the same chain.

use std::collections::HashMap;
use std::time::Duration;

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
/// Requests of one epic: its plan grows with each.
const OF_ONE_EPIC: usize = 16;

/// Measures the latency of single requests.
pub(crate) async fn measure(
    fleet: &Fleet,
    bare: &mut Bare,
    requester: &mut Requester,
    effort: Effort,
) -> Vec<Line> {
    let mut lines = vec![
        Line::new("spawn request to accepted, idle fleet, p50", Unit::Micros, Aim::AtMost(1.5)),
        Line::new("spawn request to accepted, idle fleet, p99", Unit::Micros, Aim::AtMost(3.0)),
    ];
    let epics = goals(fleet, requester, OF_ONE_EPIC).await;
    let (capture, _) = Capture::of(fleet, round(requester, &epics, OF_ONE_EPIC)).await;
    effort.show(&capture);
    bare.write(capture.sizes());
    for _ in 0..effort.rounds {
        let epics = goals(fleet, requester, effort.requests).await;
        settled(fleet).await;
        let ours = round(requester, &epics, effort.requests).await;
        settled(fleet).await;
        let floor = bare.answers(effort.requests, EVERY).await;
        for (line, share) in lines.iter_mut().zip([0.5, 0.99]) {
            line.push(ours.quantile(share), floor.quantile(share));
        }
    }
    lines
}

async fn goals(fleet: &Fleet, requester: &Requester, requests: usize) -> Vec<EpicId> {
    let mut epics = Vec::new();
    for _ in 0..requests.div_ceil(OF_ONE_EPIC) {
        epics.push(requester.goal(fleet).await);
    }
    epics
}

/// Asks at a steady rate and reads the answers; waits until every agent has ended.
async fn round(requester: &mut Requester, epics: &[EpicId], count: usize) -> Samples {
    let requests: Vec<_> = (0..count)
        .filter_map(|number| epics.get(number / OF_ONE_EPIC))
        .map(|epic| requester.request(*epic))
        .collect();
    let bus = requester.bus.clone();
    let asking = async {
        let mut sent: HashMap<RequestId, Instant> = HashMap::new();
        let mut beat = interval(EVERY);
        for (id, request) in requests {
            beat.tick().await;
            sent.insert(id, Instant::now());
            request.send(&bus).await;
        }
        sent
    };
    let reading = async {
        let mut answered: HashMap<RequestId, Instant> = HashMap::new();
        let mut ended = 0;
        while answered.len() < count || ended < count {
            let (mail, at) = requester.read().await;
            if let (Some(id), MailBody::SpawnAnswer(answer)) = (mail.correlation, &mail.body) {
                assert!(answer.accepted(), "{answer:?}");
                answered.insert(id, at);
            } else if matches!(mail.body, MailBody::AgentCompleted { .. }) {
                ended += 1;
            }
        }
        answered
    };
    let both = async { tokio::join!(asking, reading) };
    let (sent, answered) = soon("an answer to every request", both).await;
    Samples::new(sent.iter().map(|(id, at)| answered[id] - *at).collect())
}
