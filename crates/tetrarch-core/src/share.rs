//! Fair shares: how much one sender may ask in a time, so that it does not take the time of others (spec 09,
//! On the bus). A token bucket for each sender, filled by the bus's own time: what waited while no owner
//! was up counts when it was sent.

mod pace;

use std::collections::BTreeMap;
use std::fmt;

use crate::id::{AgentId, HostName, Principal};
use crate::limits::UNREAD_MAX;
use crate::request::work::{WorkOp, WorkVerb};
use crate::request::{FileOp, Op, Request, RequestBody, Sender};
use crate::time::{BusTime, Millis};

pub use pace::{Overuse, Pace, Talkers, Told};

/// Senders that are remembered; those who asked nothing of late are forgotten first.
const SENDERS_MAX: usize = 10_000;
/// Seconds of its rate that a sender may ask at once.
const BURST_SECONDS: u64 = 2;
/// How many times as much a host may ask, which asks for all its agents.
pub(crate) const HOST_TIMES: u64 = 10;
/// As how many requests one counts that walks through a whole plan, reads or writes notes, reserves files, begins a
/// session or moves a whole goal: it takes the owner's time, or room on the ledger, as they do.
const COSTLY: u64 = 20;
/// Time in milliseconds of the owner's processor that any decision may take.
const QUICK: Millis = Millis(20);
/// A decision that is not quick takes so many times the rest of its time from its sender's share: no sender has more
/// than a quarter of the owner's time for such requests.
const SLOW_TIMES: u64 = 4;
/// Bytes of a request that cost nothing beside the request itself.
const SMALL_BYTES: usize = 4 * 1024;
/// KiB of larger requests in a second, and at once: what is decided on is kept for a while, in memory and on the
/// ledger.
const LARGE_PER_SECOND: u64 = 64;
const LARGE_AT_ONCE: u64 = 64 * 1024;
/// Bytes that a decision may write and cost nothing beside its request; what is beyond counts as a large request does.
const WRITTEN_BYTES: usize = 16 * 1024;
/// As how many requests a message counts that is passed on to people: each of them has it in two inboxes.
const PASSED_ON: u64 = 100;
/// Requests beyond its share that a sender is told of, in a second.
const TOLD_PER_SECOND: u64 = 10;

/// Whose share it is: the credential that published.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// An agent outside, or a person.
    Own(Principal),
    /// A host, for every agent that it hosts.
    Host(HostName),
}

impl Holder {
    /// Whose share a request is of.
    #[must_use]
    pub fn of(sender: &Sender) -> Self {
        let Sender { from, via, .. } = sender;
        Self::of_mail(from, via.as_ref())
    }

    /// Whose share a message is of, by its writer and the host that published it.
    #[must_use]
    pub fn of_mail(from: &Principal, via: Option<&HostName>) -> Self {
        via.map_or_else(|| Self::Own(from.clone()), |via| Self::Host(via.clone()))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(who) => who.fmt(f),
            Self::Host(host) => write!(f, "HO@{host}"),
        }
    }
}

/// Mail of one sender that an agent has not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// Who does not read it.
    pub reader: AgentId,
    /// Who wrote it.
    pub from: Principal,
    /// How many messages.
    pub count: u64,
}

/// Why a request is beyond its sender's share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Excess {
    /// It asks for more than so many a second.
    Rate(u64),
    /// Its large requests are more than so many KiB a second.
    Large(u64),
    /// So many of its requests wait for a decision.
    Waiting(u64),
    /// An agent has more than [`UNREAD_MAX`] messages of it unread.
    Unread(Backlog),
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is decided on.
    Within,
    /// It is refused, and its sender told why.
    Refused(Excess),
    /// It is dropped, as so many of its sender's were just refused.
    Dropped,
}

/// Tokens, in thousandths.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: u64,
    most: u64,
    at: BusTime,
    /// When what it owes has come in.
    debt_until: BusTime,
}

impl Bucket {
    fn full(burst: u64, at: BusTime) -> Self {
        let most = burst.saturating_mul(1_000);
        Self { tokens: most, most, at, debt_until: BusTime(0) }
    }

    /// Lets `rate` a second come in, up to what there can be.
    fn fill(&mut self, rate: u64, at: BusTime) {
        let passed = at.0.saturating_sub(self.at.0);
        self.tokens = self.tokens.saturating_add(passed.saturating_mul(rate)).min(self.most);
        self.at = self.at.max(at);
    }

    /// Takes so many, when they are there. Nothing takes more than there can be.
    fn take(&mut self, many: u64, rate: u64, at: BusTime) -> bool {
        self.fill(rate, at);
        let wanted = many.saturating_mul(1_000).min(self.most);
        let taken = self.tokens >= wanted;
        self.tokens -= if taken { wanted } else { 0 };
        taken
    }

    /// Takes so many, also those that are not there: nothing comes in until they would have.
    fn owe(&mut self, many: u64, rate: u64, at: BusTime) {
        self.charge(Millis(many.saturating_mul(1_000) / rate), rate, at);
    }

    /// Takes what comes in within a time; of what is not there, nothing comes in until it would have.
    fn charge(&mut self, time: Millis, rate: u64, at: BusTime) {
        self.fill(rate, at);
        let owed = time.0.saturating_mul(rate);
        let missing = owed.saturating_sub(self.tokens);
        self.tokens = self.tokens.saturating_sub(owed);
        if missing > 0 {
            self.at = BusTime(self.at.0.saturating_add(missing / rate));
            self.debt_until = self.at;
        }
    }

    /// Whether more was taken than had come in by a moment, which may be earlier than the last taking: a request counts
    /// when it was stored, what its decision took when it was made.
    fn owes(&self, at: BusTime) -> bool {
        self.debt_until > at
    }
}

/// What one sender has left.
#[derive(Debug, Clone, Copy)]
struct Left {
    requests: Bucket,
    /// KiB of large requests.
    large: Bucket,
    /// Refusals that it is told of.
    told: Bucket,
}

/// What every sender has left.
#[derive(Debug, Clone)]
pub struct Shares {
    rate: u64,
    left: BTreeMap<Holder, Left>,
    beyond: BTreeMap<Holder, u64>,
    /// The largest backlog of each sender.
    backlogs: BTreeMap<Principal, Backlog>,
}

impl Shares {
    /// Shares of `rate` requests a second, at least one.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        let (left, beyond, backlogs) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { rate: rate.max(1), left, beyond, backlogs }
    }

    /// Takes what of mail is unread now, in place of what was; gives what is news of it.
    pub fn unread(&mut self, found: Vec<Backlog>) -> Vec<Backlog> {
        let before = std::mem::take(&mut self.backlogs);
        for backlog in found.into_iter().filter(|backlog| backlog.count > UNREAD_MAX) {
            let largest = self.backlogs.entry(backlog.from.clone()).or_insert(backlog.clone());
            if largest.count < backlog.count {
                *largest = backlog;
            }
        }
        let news = self.backlogs.iter().filter(|(from, _)| !before.contains_key(from));
        news.map(|(_, backlog)| backlog.clone()).collect()
    }

    /// Whether a sender's requests are refused because of unread mail.
    #[must_use]
    pub fn has_backlogs(&self) -> bool {
        !self.backlogs.is_empty()
    }

    /// Counts a request of so many bytes that was stored at a moment. What a host reports of its agents is never too much:
    /// it is told once.
    pub fn judge(&mut self, request: &Request, bytes: usize, at: BusTime) -> Verdict {
        if is_hosted_report(request) {
            return Verdict::Within;
        }
        let beyond = bytes.saturating_sub(SMALL_BYTES).div_ceil(1024);
        let large = u64::try_from(beyond).unwrap_or(u64::MAX);
        let many = Asked { requests: weight(&request.body), large };
        let holder = Holder::of(&request.sender);
        match &request.body {
            RequestBody::Report(_) => self.take(&holder, many, at),
            RequestBody::Spawn(_) | RequestBody::Op(_) | RequestBody::Malformed { .. } => {
                self.judge_of(&holder, &request.sender.from, many, at)
            }
        }
    }

    /// Whether one more request of a sender may wait, stored at a moment, of which so many wait: as many as it may ask at
    /// once. More of them wait only where it asks faster than it is decided on, which others are not to wait for.
    pub fn room(&mut self, request: &Request, waiting: usize, at: BusTime) -> Verdict {
        let holder = Holder::of(&request.sender);
        let most = self.rate_of(&holder).saturating_mul(BURST_SECONDS);
        if is_hosted_report(request) || u64::try_from(waiting).is_ok_and(|it| it < most) {
            return Verdict::Within;
        }
        *self.beyond.entry(holder.clone()).or_default() += 1;
        self.refuse(&holder, Excess::Waiting(most), at)
    }

    /// Counts the processor's time that a decision took, on a request that was judged before and decided on at this
    /// moment. What a host reports costs it nothing, as it is never too much.
    pub fn took(&mut self, request: &Request, took: Millis, at: BusTime) {
        if is_hosted_report(request) {
            return;
        }
        let holder = Holder::of(&request.sender);
        let rate = self.rate_of(&holder);
        let beyond = took.0.saturating_sub(QUICK.0);
        if let Some(left) = self.left.get_mut(&holder) {
            left.requests.charge(Millis(beyond.saturating_mul(SLOW_TIMES)), rate, at);
        }
    }

    /// Counts about how many bytes the decision on a request wrote. What a host reports costs it nothing.
    pub fn wrote(&mut self, request: &Request, bytes: usize, at: BusTime) {
        let beyond = bytes.saturating_sub(WRITTEN_BYTES).div_ceil(1024);
        if beyond == 0 || is_hosted_report(request) {
            return;
        }
        let holder = Holder::of(&request.sender);
        let beyond = u64::try_from(beyond).unwrap_or(u64::MAX);
        if let Some(left) = self.left.get_mut(&holder) {
            left.large.owe(beyond, LARGE_PER_SECOND * times(&holder), at);
        }
    }

    fn rate_of(&self, holder: &Holder) -> u64 {
        self.rate.saturating_mul(times(holder))
    }

    fn judge_of(&mut self, holder: &Holder, from: &Principal, many: Asked, at: BusTime) -> Verdict {
        let verdict = self.take(holder, many, at);
        match (verdict, self.backlogs.get(from).cloned()) {
            (Verdict::Within, Some(backlog)) => self.refuse(holder, Excess::Unread(backlog), at),
            (verdict, _) => verdict,
        }
    }

    fn refuse(&mut self, holder: &Holder, why: Excess, at: BusTime) -> Verdict {
        let left = self.left.get_mut(holder);
        let told = left.is_some_and(|left| left.told.take(1, TOLD_PER_SECOND, at));
        if told { Verdict::Refused(why) } else { Verdict::Dropped }
    }

    /// Counts a message to GO that was read at a moment, of a writer and the host that published it; says whether it is
    /// within its writer's share. `passed_on`: GO writes it on to people.
    pub fn takes_mail(
        &mut self,
        (from, via): (&Principal, Option<&HostName>),
        passed_on: bool,
        at: BusTime,
    ) -> bool {
        let holder = Holder::of_mail(from, via);
        let requests = if passed_on { PASSED_ON } else { 1 };
        self.take(&holder, Asked { requests, ..ONE }, at) == Verdict::Within
    }

    fn take(&mut self, holder: &Holder, many: Asked, at: BusTime) -> Verdict {
        let (rate, times) = (self.rate_of(holder), times(holder));
        if !self.left.contains_key(holder) {
            self.forget();
            let full = Left {
                requests: Bucket::full(rate.saturating_mul(BURST_SECONDS), at),
                large: Bucket::full(LARGE_AT_ONCE, at),
                told: Bucket::full(TOLD_PER_SECOND * BURST_SECONDS, at),
            };
            self.left.insert(holder.clone(), full);
        }
        let Some(left) = self.left.get_mut(holder) else { return Verdict::Within };
        let owes = left.large.owes(at);
        let excess = if !left.requests.take(many.requests, rate, at) {
            Excess::Rate(self.rate)
        } else if owes || !left.large.take(many.large, LARGE_PER_SECOND * times, at) {
            Excess::Large(LARGE_PER_SECOND)
        } else {
            return Verdict::Within;
        };
        *self.beyond.entry(holder.clone()).or_default() += 1;
        self.refuse(holder, excess, at)
    }

    /// Who asked more than its share since this was asked last, and how many requests were beyond it.
    pub fn beyond(&mut self) -> Vec<(Holder, u64)> {
        std::mem::take(&mut self.beyond).into_iter().collect()
    }

    /// Requests a second.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Makes room for one more: who asked longest ago has its whole share again, or nearly.
    fn forget(&mut self) {
        if self.left.len() < SENDERS_MAX {
            return;
        }
        let oldest = self.left.iter().min_by_key(|(_, left)| left.requests.at);
        if let Some(holder) = oldest.map(|(holder, _)| holder.clone()) {
            self.left.remove(&holder);
        }
        if self.beyond.len() >= SENDERS_MAX {
            self.beyond.pop_first();
        }
    }
}

/// What a request takes of its sender's share.
#[derive(Debug, Clone, Copy)]
struct Asked {
    requests: u64,
    /// In KiB.
    large: u64,
}

/// One small request.
const ONE: Asked = Asked { requests: 1, large: 0 };

/// How many times a sender's share its holder has.
pub(crate) fn times(holder: &Holder) -> u64 {
    match holder {
        Holder::Own(_) => 1,
        Holder::Host(_) => HOST_TIMES,
    }
}

/// Whether a host reports of its agents: it is told once, so it is never too much.
fn is_hosted_report(request: &Request) -> bool {
    request.sender.via.is_some() && matches!(request.body, RequestBody::Report(_))
}

/// As how many requests it counts.
fn weight(body: &RequestBody) -> u64 {
    match body {
        RequestBody::Op(Op::Work(WorkOp { verb, .. })) => match verb {
            WorkVerb::List { .. } | WorkVerb::Insights { .. } | WorkVerb::Recommend { .. } => {
                COSTLY
            }
            WorkVerb::Complete(_) | WorkVerb::Reprioritise { .. } | WorkVerb::Unblock { .. } => 1,
        },
        RequestBody::Op(
            Op::Note(_)
            | Op::File(FileOp::Reserve { .. })
            | Op::AgentRegister
            | Op::AgentRotate { .. }
            | Op::Goal(_),
        ) => COSTLY,
        RequestBody::Op(_)
        | RequestBody::Spawn(_)
        | RequestBody::Report(_)
        | RequestBody::Malformed { .. } => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{EpicId, RequestId, Ulid};
    use crate::request::{NoteOp, Page, Report};

    fn of(name: &str) -> Holder {
        Holder::Own(name.parse().unwrap())
    }

    fn request_of(name: &str) -> Request {
        Request {
            seq: 1,
            sender: Sender { from: name.parse().unwrap(), via: None, session: None, epoch: 1 },
            id: RequestId(Ulid(1)),
            digest: String::new(),
            trace: None,
            credential: None,
            body: RequestBody::Op(Op::AgentStatus { agent: AgentId::Go }),
        }
    }

    fn taken(shares: &mut Shares, holder: &Holder, at: u64, times: usize) -> [usize; 3] {
        let mut counts = [0; 3];
        for _ in 0..times {
            counts[match shares.take(holder, ONE, BusTime(at)) {
                Verdict::Within => 0,
                Verdict::Refused(why) => {
                    assert_eq!(why, Excess::Rate(shares.rate()));
                    1
                }
                Verdict::Dropped => 2,
            }] += 1;
        }
        counts
    }

    #[test]
    fn two_second_burst_is_allowed_and_one_more_refused() {
        let mut shares = Shares::new(100);
        assert_eq!(taken(&mut shares, &of("PO-a"), 0, 201), [200, 1, 0]);
        assert_eq!(taken(&mut shares, &of("PO-b"), 0, 200), [200, 0, 0], "each has its own");
    }

    #[test]
    fn share_refills_with_time_up_to_the_burst() {
        let mut shares = Shares::new(100);
        taken(&mut shares, &of("PO-a"), 0, 200);
        assert_eq!(taken(&mut shares, &of("PO-a"), 9, 1), [0, 1, 0], "a tenth of 100 ms is 0.9");
        assert_eq!(taken(&mut shares, &of("PO-a"), 10, 2), [1, 1, 0]);
        assert_eq!(taken(&mut shares, &of("PO-a"), 3_600_000, 201), [200, 1, 0]);
    }

    #[test]
    fn large_requests_have_a_share_of_their_own() {
        let mut shares = Shares::new(1_000_000);
        let asked = request_of("PO-a");
        let mut judged = |bytes, at| shares.judge(&asked, bytes, BusTime(at));
        let large = 64 * 1024 + SMALL_BYTES;
        for _ in 0..1_024 {
            assert_eq!(judged(large, 0), Verdict::Within);
            assert_eq!(judged(SMALL_BYTES, 0), Verdict::Within, "costs nothing of it");
        }
        assert_eq!(judged(SMALL_BYTES + 1, 0), Verdict::Refused(Excess::Large(LARGE_PER_SECOND)));
        assert_eq!(judged(SMALL_BYTES, 0), Verdict::Within);
        assert_eq!(judged(large, 999), Verdict::Refused(Excess::Large(LARGE_PER_SECOND)));
        assert_eq!(judged(large, 1_000), Verdict::Within);
    }

    #[test]
    fn what_is_written_beyond_a_bound_counts_as_a_large_request() {
        let (mut shares, asked) = (Shares::new(1_000), request_of("PO-a"));
        let judged = |shares: &mut Shares, at| shares.judge(&asked, 0, BusTime(at));
        assert_eq!(judged(&mut shares, 0), Verdict::Within);
        shares.wrote(&asked, WRITTEN_BYTES, BusTime(0));
        let all = usize::try_from(LARGE_AT_ONCE).unwrap() * 1024;
        shares.wrote(&asked, WRITTEN_BYTES + all, BusTime(0));
        assert_eq!(judged(&mut shares, 0), Verdict::Within, "it owes nothing");
        shares.wrote(&asked, WRITTEN_BYTES + 64 * 1024, BusTime(0));
        let refused = Verdict::Refused(Excess::Large(LARGE_PER_SECOND));
        assert_eq!(judged(&mut shares, 999), refused);
        assert_eq!(judged(&mut shares, 1_000), Verdict::Within);
    }

    #[test]
    fn request_stored_before_another_was_decided_is_within_the_share() {
        let (mut shares, asked) = (Shares::new(1_000), request_of("PO-a"));
        assert_eq!(shares.judge(&asked, 0, BusTime(0)), Verdict::Within);
        shares.wrote(&asked, WRITTEN_BYTES + 1, BusTime(500));
        assert_eq!(shares.judge(&asked, 0, BusTime(100)), Verdict::Within);
    }

    #[test]
    fn mail_that_is_passed_on_to_people_counts_as_many() {
        let mut shares = Shares::new(1_000);
        let from = Principal::Agent("PO-a".parse().unwrap());
        let mut within = || {
            let taken = (0..100).filter(|_| shares.takes_mail((&from, None), true, BusTime(0)));
            taken.count()
        };
        assert_eq!((within(), within()), (20, 0));
    }

    #[test]
    fn refusals_are_reported_at_their_own_rate() {
        let mut shares = Shares::new(1);
        assert_eq!(taken(&mut shares, &of("PO-a"), 0, 1_000), [2, 20, 978]);
        assert_eq!(taken(&mut shares, &of("PO-a"), 1_000, 1_000), [1, 10, 989]);
        assert_eq!(shares.beyond(), [(of("PO-a"), 1_997)]);
        assert_eq!(shares.beyond(), []);
    }

    #[test]
    fn host_may_ask_for_its_agents() {
        let mut shares = Shares::new(100);
        let host = Holder::Host(HostName::new("h1").unwrap());
        assert_eq!(taken(&mut shares, &host, 0, 2_001), [2_000, 1, 0]);
    }

    #[test]
    fn earlier_moment_refills_nothing() {
        let mut shares = Shares::new(100);
        taken(&mut shares, &of("PO-a"), 5_000, 200);
        assert_eq!(taken(&mut shares, &of("PO-a"), 0, 1), [0, 1, 0]);
        assert_eq!(taken(&mut shares, &of("PO-a"), 5_000, 1), [0, 1, 0]);
    }

    #[test]
    fn slow_decision_takes_four_times_its_time_from_the_share() {
        let (mut shares, asked) = (Shares::new(100), request_of("PO-a"));
        let judged =
            |shares: &mut Shares, at| shares.judge(&asked, 0, BusTime(at)) == Verdict::Within;
        assert!(judged(&mut shares, 0));
        shares.took(&asked, QUICK, BusTime(0));
        assert_eq!(
            taken(&mut shares, &of("PO-a"), 0, 199),
            [199, 0, 0],
            "a quick one costs nothing more"
        );
        assert!(judged(&mut shares, 10_000));
        shares.took(&asked, Millis(QUICK.0 + 250), BusTime(10_000));
        assert_eq!(taken(&mut shares, &of("PO-a"), 10_000, 100), [99, 1, 0], "a second's worth");
        shares.took(&asked, Millis(QUICK.0 + 1_000), BusTime(20_000));
        assert!(!judged(&mut shares, 22_009), "4 s of it, less the 2 s that were there");
        assert!(judged(&mut shares, 22_010));
        assert_eq!(taken(&mut shares, &of("PO-b"), 20_000, 200), [200, 0, 0], "others have theirs");
    }

    #[test]
    fn slow_report_costs_its_host_nothing_and_a_slow_request_does() {
        let host = HostName::new("h1").unwrap();
        let mut asked = request_of("W:01JD8Z5W6T4QK3M9X2V7B1N0AC");
        asked.sender.via = Some(host.clone());
        let report = Request { body: RequestBody::Report(Report::Ready), ..asked.clone() };
        for (slow, left) in [(report, 1_999), (asked.clone(), 0)] {
            let mut shares = Shares::new(100);
            assert_eq!(shares.judge(&asked, 0, BusTime(0)), Verdict::Within);
            shares.took(&slow, Millis(5_000), BusTime(0));
            let found = taken(&mut shares, &Holder::Host(host.clone()), 0, 1_999)[0];
            assert_eq!(found, left, "{:?}", slow.body);
        }
    }

    #[test]
    fn tracked_senders_are_bounded_by_eviction() {
        let mut shares = Shares::new(1);
        for number in 0..=SENDERS_MAX {
            let at = u64::try_from(number).unwrap();
            taken(&mut shares, &of(&format!("PO-{number}")), at, 3);
        }
        assert_eq!(shares.left.len(), SENDERS_MAX);
        assert!(!shares.left.contains_key(&of("PO-0")));
    }

    #[test]
    fn plan_read_counts_as_several_requests_within_one_share() {
        let epic = EpicId(Ulid(1));
        let verb = WorkVerb::List { status: None, page: Page::default() };
        let listed = RequestBody::Op(Op::Work(WorkOp { epic, verb }));
        let status = RequestBody::Op(Op::AgentStatus { agent: AgentId::Go });
        assert_eq!((weight(&listed), weight(&status)), (COSTLY, 1));
        let (words, page) = (String::new(), Page::default());
        let search = RequestBody::Op(Op::Note(NoteOp::Search { project: None, words, page }));
        assert_eq!(weight(&search), COSTLY);
        let mut shares = Shares::new(100);
        let mut within = |holder: &str, body: &RequestBody, at| {
            shares.take(&of(holder), Asked { requests: weight(body), ..ONE }, BusTime(at))
                == Verdict::Within
        };
        assert_eq!((0..12).filter(|_| within("PO-a", &listed, 0)).count(), 10);
        assert!(!within("PO-a", &listed, 199), "19.9 came back");
        assert!(within("PO-a", &listed, 200));
        assert_eq!((0..250).filter(|_| within("PO-b", &status, 0)).count(), 200);
        let mut few = Shares::new(1);
        assert_eq!(
            few.take(&of("PO-a"), Asked { requests: COSTLY, ..ONE }, BusTime(0)),
            Verdict::Within
        );
        assert_ne!(few.take(&of("PO-a"), ONE, BusTime(0)), Verdict::Within, "that was all of it");
    }

    fn backlog(reader: &str, from: &str, count: u64) -> Backlog {
        let from: Principal = from.parse().unwrap();
        Backlog { reader: reader.parse().unwrap(), from, count }
    }

    #[test]
    fn sender_with_too_much_unread_mail_is_refused_until_read() {
        let mut shares = Shares::new(100);
        let (from, holder) = ("PO-a".parse().unwrap(), of("PO-a"));
        let judged = |shares: &mut Shares| shares.judge_of(&holder, &from, ONE, BusTime(0));
        assert_eq!(shares.unread(vec![backlog("PO-b", "PO-a", UNREAD_MAX)]), []);
        assert_eq!(judged(&mut shares), Verdict::Within, "as many as are allowed");
        let (more, most) =
            (backlog("PO-b", "PO-a", UNREAD_MAX + 1), backlog("PO-c", "PO-a", 12_000));
        let found = vec![most.clone(), more.clone()];
        assert_eq!(shares.unread(found), std::slice::from_ref(&most));
        assert_eq!(judged(&mut shares), Verdict::Refused(Excess::Unread(most)));
        let other = shares.judge_of(&of("PO-d"), &"PO-d".parse().unwrap(), ONE, BusTime(0));
        assert_eq!(other, Verdict::Within, "others are not");
        assert_eq!(shares.unread(vec![more.clone()]), [], "it was told of");
        assert_eq!(judged(&mut shares), Verdict::Refused(Excess::Unread(more)));
        assert!(shares.has_backlogs());
        assert_eq!(shares.unread(Vec::new()), []);
        assert_eq!(judged(&mut shares), Verdict::Within, "it was read");
    }
}
