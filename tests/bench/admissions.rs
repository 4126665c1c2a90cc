//! Admissions per second: 64 requesters, each asking again as soon as it has a free slot, agents
//! that end at once. A closed loop, since what is sought is the highest rate. Its floor is the
//! raw bus doing the writes of a whole such round.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use tetrarch_core::id::EpicId;
use tetrarch_core::limits::CHILDREN_MAX;
use tetrarch_core::mail::MailBody;
use tokio::time::Instant;

use crate::Effort;
use crate::capture::{Capture, Replay, settled};
use crate::fleet::{Fleet, soon};
use crate::requester::Requester;
use crate::table::{Aim, Line, Unit};

/// Messages that a life may store at most, of which plan events are not counted (spec 10).
const LIFE_MESSAGES: f64 = 16.0;
/// The same in bytes, with subjects and headers.
const LIFE_BYTES: f64 = 12.0 * 1024.0;

/// Measures the rate; `requesters` ask side by side.
pub(crate) async fn measure(
    fleet: &Fleet,
    replay: &Replay,
    requesters: &mut [Requester],
    effort: Effort,
) -> Vec<Line> {
    let what = format!("admissions, {} requesters, agents that end at once", requesters.len());
    let mut line = Line::new(&what, Unit::PerSecond, Aim::AtLeast(0.6));
    let admissions = requesters.len() * effort.admissions;
    let (capture, cost) = captured(fleet, requesters, effort.admissions).await;
    tell(&cost);
    let mut stored = [
        Line::new("messages stored for a life", Unit::Messages, Aim::Within(LIFE_MESSAGES)),
        Line::new("bytes stored for a life", Unit::Bytes, Aim::Within(LIFE_BYTES)),
    ];
    for (line, of) in stored.iter_mut().zip([cost.messages(), cost.bytes()]) {
        line.push_alone(of);
    }
    for _ in 0..effort.rounds {
        let epics = goals(fleet, requesters).await;
        settled(fleet).await;
        let ours = round(requesters, &epics, effort.admissions).await;
        settled(fleet).await;
        let floor = replay.run(&capture).await;
        line.push(per_second(admissions, ours), per_second(admissions, floor));
    }
    std::iter::once(line).chain(stored).collect()
}

/// What is stored for a life: of each kind its messages and bytes.
#[derive(Debug)]
pub(crate) struct LifeCost(Vec<(String, f64, f64)>);

impl LifeCost {
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    fn of(capture: &Capture, lives: usize) -> Self {
        let a_life = |of: usize| of as f64 / lives as f64;
        let kinds = capture.kinds().into_iter();
        Self(kinds.map(|(kind, (count, size))| (kind, a_life(count), a_life(size))).collect())
    }

    /// Of each kind its messages and bytes.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&str, f64, f64)> {
        self.0.iter().map(|(kind, messages, bytes)| (kind.as_str(), *messages, *bytes))
    }

    /// Messages of all kinds.
    pub(crate) fn messages(&self) -> f64 {
        self.kinds().map(|(_, messages, _)| messages).sum()
    }

    /// Bytes of all kinds.
    pub(crate) fn bytes(&self) -> f64 {
        self.kinds().map(|(_, _, bytes)| bytes).sum()
    }
}

impl fmt::Display for LifeCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| kind | messages | bytes |\n|---|---|---|")?;
        for (kind, messages, bytes) in self.kinds() {
            writeln!(f, "| {kind} | {messages:.2} | {bytes:.0} |")?;
        }
        writeln!(f, "| all | {:.2} | {:.0} |", self.messages(), self.bytes())
    }
}

#[expect(clippy::print_stdout, reason = "what a life costs where is what is asked for")]
pub(crate) fn tell(cost: &LifeCost) {
    println!("{cost}");
}

/// Has every requester ask so many times; gives what that writes, and what it is of a life.
pub(crate) async fn captured(
    fleet: &Fleet,
    requesters: &mut [Requester],
    each: usize,
) -> (Capture, LifeCost) {
    let lives = requesters.len() * each;
    let epics = goals(fleet, requesters).await;
    // What was stored for them before is none of it.
    settled(fleet).await;
    let (capture, _) = Capture::of(fleet, round(requesters, &epics, each)).await;
    let cost = LifeCost::of(&capture, lives);
    (capture, cost)
}

/// How many of something there were in a second.
pub(crate) fn per_second(count: usize, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let count = count as f64;
    count / time.as_secs_f64()
}

async fn goals(fleet: &Fleet, requesters: &[Requester]) -> Vec<EpicId> {
    let mut epics = Vec::new();
    for requester in requesters {
        epics.push(requester.goal(fleet).await);
    }
    epics
}

/// Has every requester ask so many times; gives how long it took until the last agent had ended.
async fn round(requesters: &mut [Requester], epics: &[EpicId], each: usize) -> Duration {
    let started = Instant::now();
    let all = requesters.iter_mut().zip(epics).map(|(requester, epic)| one(requester, *epic, each));
    soon("every admission", join_all(all)).await;
    started.elapsed()
}

async fn one(requester: &mut Requester, epic: EpicId, count: usize) {
    let (mut asked, mut answered, mut ended) = (0, 0, 0);
    while ended < count {
        while asked < count && asked == answered && answered - ended < CHILDREN_MAX {
            let (_, request) = requester.request(epic);
            request.send(&requester.bus).await;
            asked += 1;
        }
        let body = requester.read().await.0.body;
        if let MailBody::SpawnAnswer(answer) = body {
            assert!(answer.accepted(), "{answer:?}");
            answered += 1;
        } else if matches!(body, MailBody::AgentCompleted { .. }) {
            ended += 1;
        }
    }
}
