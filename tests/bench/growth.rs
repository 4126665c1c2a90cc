//! What age costs: children of one epic one after the other, the last of them beside the first (spec 10, growth).
//! Both are this fleet's, so the ratio is that of two halves of one run.

use tetrarch_bus::subject::pattern::PLANS;
use tetrarch_core::id::EpicId;
use tetrarch_core::mail::MailBody;
use tokio::time::Instant;

use crate::Effort;
use crate::capture::settled;
use crate::fleet::{Fleet, soon};
use crate::numbers::Samples;
use crate::requester::Requester;
use crate::table::{Aim, Line, Unit};

/// Stretches of a run that are looked at by themselves.
const STRETCHES: usize = 10;

/// Measures one epic's children. `CHILDREN` says how many, instead of the effort.
pub(crate) async fn measure(fleet: &Fleet, requester: &mut Requester, effort: Effort) -> Vec<Line> {
    let asked = std::env::var("CHILDREN").ok().and_then(|text| text.parse().ok());
    let children: usize = asked.unwrap_or(effort.children);
    let what =
        |what: &str| format!("{what}, the last tenth of {children} children, beside the first");
    let mut accepted = Line::new(&what("request to accepted"), Unit::Micros, Aim::AtMost(1.2));
    let mut events = Line::new(&what("bytes of a plan event"), Unit::Bytes, Aim::AtMost(1.2));
    let epic = requester.goal(fleet).await;
    // What stays in the plan is there before anything is compared.
    stretch(fleet, requester, epic, effort.children.min(2 * STRETCHES * STRETCHES)).await;
    let mut found = Vec::new();
    for at in 1..=STRETCHES {
        let (p50, bytes) = stretch(fleet, requester, epic, children / STRETCHES).await;
        tell(at * children / STRETCHES, p50, bytes);
        found.push((p50, bytes));
    }
    if let (Some(first), Some(last)) = (found.first(), found.last()) {
        accepted.push(last.0, first.0);
        events.push(last.1, first.1);
    }
    vec![accepted, events]
}

#[expect(clippy::print_stdout, reason = "how it grows on the way is what is asked for")]
fn tell(children: usize, p50: f64, bytes: f64) {
    println!("{children} children: accepted p50 {p50:.0} us, {bytes:.0} bytes a plan event");
}

/// So many children, one after the other: the median time to `accepted`, and the bytes of a plan event.
async fn stretch(
    fleet: &Fleet,
    requester: &mut Requester,
    epic: EpicId,
    count: usize,
) -> (f64, f64) {
    let before = fleet.control.stream_extent(PLANS).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..count {
        let (id, request) = requester.request(epic);
        let sent = Instant::now();
        request.send(&requester.bus).await;
        let life = async {
            loop {
                let (mail, at) = requester.read().await;
                if let (Some(of), MailBody::SpawnAnswer(answer)) = (mail.correlation, &mail.body) {
                    assert!(of == id && answer.accepted(), "{answer:?}");
                    times.push(at - sent);
                } else if matches!(mail.body, MailBody::AgentCompleted { .. }) {
                    return;
                }
            }
        };
        soon("a child's life", life).await;
    }
    assert_eq!(times.len(), count, "each was answered before it ended");
    settled(fleet).await;
    let after = fleet.control.stream_extent(PLANS).await.unwrap();
    #[expect(clippy::cast_precision_loss, reason = "it is a mean")]
    let bytes = (after.bytes - before.bytes) as f64 / (after.last - before.last).max(1) as f64;
    (Samples::new(times).quantile(0.5), bytes)
}
