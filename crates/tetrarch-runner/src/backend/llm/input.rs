//! What a conversation hears while something is under way: orders to end, verbs, mail, and what comes of
//! what it told. Nothing that is under way is abandoned before its boundary, nor goes on after it.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tetrarch_core::id::RequestId;
use tetrarch_core::limits::MAIL_IN_HAND_MAX;
use tetrarch_core::order::{Inbound, RunnerEvent};
use tetrarch_core::time::Millis;
use tetrarch_core::verb::{Command, Stage, Wanted};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::channels::{RunChannels, StopRequest, Teller};

/// Why a conversation ends without having come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Halt {
    /// It was asked to stop.
    Stopped(String),
    /// Its next session goes on.
    Rotated,
    /// At once.
    Killed,
    /// Its time is over.
    Wall(Millis),
    /// Its turn is aborted; it goes on when it is steered.
    Interrupted,
}

/// When something that is under way gives way to a request to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Yields {
    /// At once: it has no effect.
    AtOnce,
    /// When the time to reach a boundary is over.
    AfterDrain,
}

/// A message from the agent's inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InboxMessage {
    pub(super) topic: String,
    pub(super) from: String,
    pub(super) body: String,
    /// Its place in the inbox; 0 for what was never there.
    pub(super) place: u64,
    /// The request that it answers.
    pub(super) answers: Option<RequestId>,
}

impl InboxMessage {
    /// Whether it is about a plan, or about how its work goes: the model begins with these (spec 02, Mail).
    fn is_of_plan(&self) -> bool {
        let subject = self.topic.split_once('.').map(|(subject, _)| subject);
        self.topic == "status.request" || subject == Some("plan")
    }
}

/// What one conversation hears.
#[derive(Debug)]
pub(super) struct ConversationInput {
    lines: mpsc::Receiver<Inbound>,
    lines_open: bool,
    asked: watch::Receiver<StopRequest>,
    /// What it is asked to do, and until when what is under way may take.
    ending: Option<(Halt, Instant)>,
    wall: Option<(Instant, Millis)>,
    noted: u64,
    mails: VecDeque<InboxMessage>,
    /// What became of what was to be set aside.
    verdicts: BTreeMap<String, Result<(), String>>,
    verbs: mpsc::Receiver<Command>,
    verbs_open: bool,
    /// Texts for the next boundary.
    steers: VecDeque<Command>,
    interrupt: Option<Command>,
    /// It is to stand still; whether it does.
    pause: Option<(RequestId, bool)>,
    /// What is still to be told of verbs, and of mails that were read.
    receipts: VecDeque<RunnerEvent>,
    teller: Teller,
}

impl ConversationInput {
    pub(super) fn new(channels: RunChannels, wall: Option<Millis>) -> Self {
        let RunChannels { lines, mut asked, verbs, teller } = channels;
        asked.mark_changed();
        let end =
            |wall: Millis| Some((Instant::now().checked_add(Duration::from_millis(wall.0))?, wall));
        Self {
            lines,
            lines_open: true,
            asked,
            ending: None,
            wall: wall.and_then(end),
            noted: 0,
            mails: VecDeque::new(),
            verdicts: BTreeMap::new(),
            verbs,
            verbs_open: true,
            steers: VecDeque::new(),
            interrupt: None,
            pause: None,
            receipts: VecDeque::new(),
            teller,
        }
    }

    /// The oldest mail about the plan that nobody has read, else the oldest.
    pub(super) fn next_mail(&mut self) -> Option<InboxMessage> {
        let of_plan = self.mails.iter().position(InboxMessage::is_of_plan);
        self.read(of_plan.unwrap_or(0))
    }

    /// The oldest mail that nobody has read and that came before this place.
    pub(super) fn mail_before(&mut self, place: u64) -> Option<InboxMessage> {
        let first = self.mails.front().is_some_and(|it| it.place < place);
        if first { self.read(0) } else { None }
    }

    /// Takes a mail out, which is told: until then it is not consumed.
    fn read(&mut self, at: usize) -> Option<InboxMessage> {
        let mail = self.mails.remove(at)?;
        let place = mail.place;
        self.receipts.extend((place > 0).then_some(RunnerEvent::Taken { place }));
        Some(mail)
    }

    /// Takes in what has arrived, stands still while that is wanted, and says whether to end here.
    pub(super) async fn boundary(&mut self) -> Result<(), Halt> {
        while let Ok(command) = self.verbs.try_recv() {
            self.take_command(command);
        }
        while let Ok(line) = self.lines.try_recv() {
            self.take(line);
        }
        if !matches!(self.asked.has_changed(), Ok(false)) {
            self.take_order();
        }
        self.tell_receipts().await;
        while let Some((id, stands)) = self.pause {
            if !stands {
                self.pause = Some((id, true));
                self.receipt(id, Stage::Effective, "");
            }
            self.listen(Yields::AtOnce).await?;
        }
        self.due(Yields::AtOnce).map_or(Ok(()), Err)
    }

    /// The oldest text that is to be put before the next step.
    pub(super) fn steer(&mut self) -> Option<Command> {
        self.steers.pop_front()
    }

    /// The turn was aborted: says so, and waits until a text comes.
    pub(super) async fn steered(&mut self) -> Result<(), Halt> {
        if let Some(command) = self.interrupt.take() {
            self.receipt(command.id, Stage::Effective, "");
        }
        self.tell_receipts().await;
        while self.steers.is_empty() {
            match self.listen(Yields::AtOnce).await {
                Err(Halt::Interrupted) => {
                    let again = self.interrupt.take();
                    let why = "its turn was aborted already";
                    again.into_iter().for_each(|it| self.receipt(it.id, Stage::Refused, why));
                }
                heard => heard?,
            }
        }
        Ok(())
    }

    /// Says how far a verb has come.
    pub(super) async fn confirm(&mut self, id: RequestId) {
        self.receipt(id, Stage::Effective, "");
        self.tell_receipts().await;
    }

    /// Waits until it is known whether a call may be made; why not.
    pub(super) async fn verdict(&mut self, call: &str) -> Result<Result<(), String>, Halt> {
        loop {
            if let Some(verdict) = self.verdicts.remove(call) {
                return Ok(verdict);
            }
            self.listen(Yields::AtOnce).await?;
        }
    }

    /// Waits for something, and listens meanwhile.
    pub(super) async fn during<T>(
        &mut self,
        yields: Yields,
        work: impl Future<Output = T>,
    ) -> Result<T, Halt> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                heard = self.listen(yields) => heard?,
            }
        }
    }

    /// Waits until what was told under this number is recorded.
    pub(super) async fn noted(&mut self, number: u64) -> Result<(), Halt> {
        while self.noted < number {
            self.listen(Yields::AfterDrain).await?;
        }
        Ok(())
    }

    /// Waits for a mail that is wanted. When so many others wait that no more come, it gives the oldest of
    /// those, to be heard first.
    pub(super) async fn await_mail(
        &mut self,
        wanted: impl Fn(&InboxMessage) -> bool,
    ) -> Result<InboxMessage, Halt> {
        loop {
            let full = (self.mails.len() >= MAIL_IN_HAND_MAX).then_some(0);
            let found = self.mails.iter().position(&wanted).or(full);
            if let Some(mail) = found.and_then(|at| self.read(at)) {
                return Ok(mail);
            }
            self.listen(Yields::AtOnce).await?;
        }
    }

    /// Waits for one thing to happen.
    async fn listen(&mut self, yields: Yields) -> Result<(), Halt> {
        if let Some(halt) = self.due(yields) {
            return Err(halt);
        }
        self.tell_receipts().await;
        let ends = [self.wall.as_ref().map(|(at, _)| *at), self.ending.as_ref().map(|(_, at)| *at)];
        let deadline = ends.into_iter().flatten().min();
        tokio::select! {
            changed = self.asked.changed() => match changed {
                Ok(()) => self.take_order(),
                Err(_) => self.ending = Some((Halt::Killed, Instant::now())),
            },
            command = self.verbs.recv(), if self.verbs_open => match command {
                Some(command) => self.take_command(command),
                None => self.verbs_open = false,
            },
            line = self.lines.recv(), if self.lines_open => match line {
                Some(line) => self.take(line),
                None => self.lines_open = false,
            },
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {}
        }
        self.due(yields).map_or(Ok(()), Err)
    }

    fn due(&self, yields: Yields) -> Option<Halt> {
        let now = Instant::now();
        match (&self.ending, &self.wall) {
            (Some((Halt::Killed, _)), _) => Some(Halt::Killed),
            (_, Some((at, wall))) if *at <= now => Some(Halt::Wall(*wall)),
            (Some((halt, _)), _) if yields == Yields::AtOnce => Some(halt.clone()),
            (Some((halt, at)), _) if *at <= now => Some(halt.clone()),
            (_, _) if self.interrupt.is_some() => Some(Halt::Interrupted),
            (Some(_) | None, _) => None,
        }
    }

    fn take_order(&mut self) {
        let until = |drain: Millis| {
            let now = Instant::now();
            now.checked_add(Duration::from_millis(drain.0)).unwrap_or(now)
        };
        self.ending = match self.asked.borrow_and_update().clone() {
            StopRequest::Nothing => None,
            StopRequest::Stop { drain, reason, .. } => Some((Halt::Stopped(reason), until(drain))),
            StopRequest::Rotate { drain, .. } => Some((Halt::Rotated, until(drain))),
            StopRequest::Kill => Some((Halt::Killed, Instant::now())),
        };
    }

    fn take(&mut self, line: Inbound) {
        match line {
            Inbound::Mail { topic, from, body, place, answers } => {
                self.mails.push_back(InboxMessage { topic, from, body, place, answers });
            }
            Inbound::Noted(number) => self.noted = self.noted.max(number),
            Inbound::Granted { call } => drop(self.verdicts.insert(call, Ok(()))),
            Inbound::Withheld { call, why } => drop(self.verdicts.insert(call, Err(why))),
            Inbound::BudgetWarning { counter, used, limit } => {
                let (topic, from) = ("budget".to_owned(), "your host".to_owned());
                let body = format!("{used} of {limit} {counter} are used; come to an end in time");
                self.mails.push_back(InboxMessage { topic, from, body, place: 0, answers: None });
            }
            Inbound::BudgetRaised { limit } => {
                let (topic, from) = ("budget".to_owned(), "your host".to_owned());
                let body = format!("your grant was raised to {} in all; go on", limit.carved());
                self.mails.push_back(InboxMessage { topic, from, body, place: 0, answers: None });
            }
            // It makes no checkpoints.
            Inbound::Saved => {}
        }
    }

    fn take_command(&mut self, command: Command) {
        self.receipt(command.id, Stage::Delivered, "");
        match command.wanted {
            Wanted::Steer { .. } => self.steers.push_back(command),
            Wanted::Interrupt { .. } if self.interrupt.is_some() => {
                self.receipt(command.id, Stage::Refused, "its turn is being aborted already");
            }
            Wanted::Interrupt { .. } => self.interrupt = Some(command),
            Wanted::Pause if self.pause.is_some() => {
                self.receipt(command.id, Stage::Refused, "it is paused already");
            }
            Wanted::Pause => self.pause = Some((command.id, false)),
            Wanted::Resume => {
                if let Some((id, false)) = self.pause.take() {
                    self.receipt(id, Stage::Refused, "it was to go on before it stood still");
                }
                self.receipt(command.id, Stage::Effective, "");
            }
        }
    }

    fn receipt(&mut self, id: RequestId, stage: Stage, why: &str) {
        let why = why.to_owned();
        self.receipts.push_back(RunnerEvent::Receipt { id, stage, why });
    }

    /// Tells what is still to be told. Dropped half way it loses nothing.
    pub(super) async fn tell_receipts(&mut self) {
        while let Some(event) = self.receipts.front() {
            self.teller.tell(event.clone()).await;
            self.receipts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tetrarch_core::id::{AgentId, Principal, RunId, Ulid};
    use tetrarch_core::order::Observed;
    use tokio::time::timeout;

    /// The other ends of what the input hears and tells.
    struct Ends {
        lines: mpsc::Sender<Inbound>,
        asked: watch::Sender<StopRequest>,
        verbs: mpsc::Sender<Command>,
        told: mpsc::Receiver<Observed>,
        _closing: watch::Sender<Option<Instant>>,
    }

    impl Ends {
        async fn say(&self, id: u64, wanted: Wanted) {
            let (id, by) = (RequestId(Ulid(id.into())), Principal::Agent(AgentId::Go));
            self.verbs.send(Command { id, by, wanted }).await.unwrap();
        }

        async fn post(&self, topic: &str, place: u64) {
            let (from, body) = ("GO".to_owned(), "{}".to_owned());
            let (topic, answers) = (topic.to_owned(), None);
            self.lines.send(Inbound::Mail { topic, from, body, place, answers }).await.unwrap();
        }

        /// The receipts so far: which verb, how far.
        fn receipts(&mut self) -> Vec<(u64, Stage)> {
            let mut all = Vec::new();
            while let Ok(Observed { event, .. }) = self.told.try_recv() {
                let RunnerEvent::Receipt { id, stage, .. } = event else { panic!("{event:?}") };
                all.push((u64::try_from(id.0.0).unwrap(), stage));
            }
            all
        }
    }

    fn input(wall: Option<Millis>) -> (Ends, ConversationInput) {
        let (lines, lines_out) = mpsc::channel(8);
        let (asked, asked_out) = watch::channel(StopRequest::Nothing);
        let (verbs, verbs_out) = mpsc::channel(8);
        let (observed, told) = mpsc::channel(64);
        let (closing, closing_out) = watch::channel(None);
        let teller = Teller::new(RunId(Ulid(1)), observed, closing_out);
        let channels = RunChannels { lines: lines_out, asked: asked_out, verbs: verbs_out, teller };
        (
            Ends { lines, asked, verbs, told, _closing: closing },
            ConversationInput::new(channels, wall),
        )
    }

    fn stop() -> StopRequest {
        StopRequest::Stop {
            drain: Millis(30_000),
            kill_grace: Millis(5),
            reason: "enough".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stop_ends_read_only_work_at_once_and_the_rest_after_drain() {
        let (ends, mut input) = input(None);
        input.boundary().await.unwrap();
        ends.asked.send_replace(stop());
        let halt = Err(Halt::Stopped("enough".to_owned()));
        assert_eq!(input.during(Yields::AtOnce, pending::<()>()).await, halt);
        assert_eq!(input.boundary().await, halt);
        let began = Instant::now();
        assert_eq!(input.during(Yields::AfterDrain, async { 7 }).await, Ok(7));
        assert_eq!(input.during(Yields::AfterDrain, pending::<()>()).await, halt);
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn kill_and_wall_clock_are_immediate() {
        let (ends, mut input) = input(Some(Millis(1_000)));
        let wall = Err(Halt::Wall(Millis(1_000)));
        assert_eq!(input.during(Yields::AfterDrain, pending::<()>()).await, wall);
        ends.asked.send_replace(StopRequest::Kill);
        assert_eq!(input.boundary().await, Err(Halt::Killed));
        drop(ends);
        assert_eq!(input.during(Yields::AfterDrain, pending::<()>()).await, Err(Halt::Killed));
    }

    #[tokio::test]
    async fn mail_is_kept_in_order_and_found_by_topic() {
        let (ends, mut input) = input(None);
        for topic in ["info", "answer", "result.ready"] {
            ends.post(topic, 0).await;
        }
        ends.lines.send(Inbound::Noted(2)).await.unwrap();
        input.noted(2).await.unwrap();
        let answer = input.await_mail(|it| it.topic == "answer").await.unwrap();
        assert_eq!(answer.topic, "answer");
        assert_eq!(input.await_mail(|_| true).await.unwrap().topic, "info");
        assert_eq!(input.next_mail().unwrap().topic, "result.ready");
        assert_eq!(input.next_mail(), None);
    }

    #[tokio::test]
    async fn mail_about_the_plan_is_read_first() {
        let (ends, mut input) = input(None);
        let all = ["info", "plan.updated", "result.ready", "status.request", "plan.updated"];
        for (place, topic) in (1..).zip(all) {
            ends.post(topic, place).await;
        }
        input.boundary().await.unwrap();
        let read = std::iter::from_fn(|| input.next_mail()).map(|mail| mail.place);
        assert_eq!(read.collect::<Vec<_>>(), [2, 4, 5, 1, 3]);
    }

    #[tokio::test]
    async fn no_letter_is_dropped_and_each_that_was_read_is_told() {
        let (mut ends, mut input) = input(None);
        let all = MAIL_IN_HAND_MAX as u64 + 8;
        for place in 1..=all {
            ends.post("info", place).await;
            input.boundary().await.unwrap();
        }
        ends.post("answer", all + 1).await;
        let mut read = Vec::new();
        loop {
            let mail = input.await_mail(|it| it.topic == "answer").await.unwrap();
            read.push(mail.place);
            if mail.topic == "answer" {
                break;
            }
        }
        input.boundary().await.unwrap();
        let taken = std::iter::from_fn(|| ends.told.try_recv().ok()).map(|told| {
            let RunnerEvent::Taken { place } = told.event else { panic!("{:?}", told.event) };
            place
        });
        assert_eq!(taken.collect::<Vec<_>>(), read, "what was not read is not told");
        let first = read.len() as u64;
        assert_eq!(read[..read.len() - 1], (1..first).collect::<Vec<_>>());
        for place in first..=all {
            assert_eq!(input.next_mail().unwrap().place, place);
        }
        assert_eq!(input.next_mail(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn verbs_are_taken_at_boundaries_and_each_is_answered() {
        let (mut ends, mut input) = input(None);
        ends.say(1, Wanted::Steer { text: "left".to_owned() }).await;
        input.boundary().await.unwrap();
        assert_eq!(ends.receipts(), [(1, Stage::Delivered)]);
        let steer = input.steer().unwrap();
        input.confirm(steer.id).await;
        assert_eq!((steer.wanted.text(), ends.receipts()), ("left", vec![(1, Stage::Effective)]));

        ends.say(2, Wanted::Pause).await;
        input.during(Yields::AtOnce, async { 7 }).await.unwrap();
        assert_eq!(ends.receipts(), [], "what is under way goes on");
        let stands = timeout(Duration::from_secs(60), input.boundary()).await;
        assert!(stands.is_err(), "it stands still");
        ends.say(3, Wanted::Resume).await;
        input.boundary().await.unwrap();
        let pause = [(2, Stage::Delivered), (2, Stage::Effective)];
        let resume = [(3, Stage::Delivered), (3, Stage::Effective)];
        assert_eq!(ends.receipts(), [pause, resume].concat());

        ends.say(4, Wanted::Interrupt { reason: String::new() }).await;
        let aborted = input.during(Yields::AfterDrain, pending::<()>()).await;
        assert_eq!(aborted, Err(Halt::Interrupted));
        ends.say(5, Wanted::Interrupt { reason: String::new() }).await;
        ends.say(6, Wanted::Steer { text: "on".to_owned() }).await;
        input.steered().await.unwrap();
        assert_eq!(input.steer().unwrap().wanted.text(), "on");
        input.boundary().await.unwrap();
        let said = ends.receipts();
        for told in [(4, Stage::Effective), (5, Stage::Refused), (6, Stage::Delivered)] {
            assert!(said.contains(&told), "{said:?}");
        }
    }

    #[tokio::test]
    async fn call_waits_for_its_own_verdict() {
        let (ends, mut input) = input(None);
        let why = "too dear".to_owned();
        ends.lines
            .send(Inbound::Withheld { call: "b".to_owned(), why: why.clone() })
            .await
            .unwrap();
        ends.lines.send(Inbound::Granted { call: "a".to_owned() }).await.unwrap();
        assert_eq!(input.verdict("a").await, Ok(Ok(())));
        assert_eq!(input.verdict("b").await, Ok(Err(why)));
    }
}
