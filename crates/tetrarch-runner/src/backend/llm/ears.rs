//! What a conversation hears while something is under way: orders to end, letters, and that what it told is
//! recorded. Nothing that is under way is abandoned before its boundary, nor goes on after it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tetrarch_core::order::Inbound;
use tetrarch_core::time::Millis;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::seat::Asked;

/// Letters that wait to be read; the oldest give way.
const LETTERS_MAX: usize = 64;

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
pub(super) struct Letter {
    pub(super) topic: String,
    pub(super) from: String,
    pub(super) body: String,
}

/// The ears of one conversation.
#[derive(Debug)]
pub(super) struct Ears {
    lines: mpsc::Receiver<Inbound>,
    lines_open: bool,
    asked: watch::Receiver<Asked>,
    /// What it is asked to do, and until when what is under way may take.
    ending: Option<(Halt, Instant)>,
    wall: Option<(Instant, Millis)>,
    noted: u64,
    letters: VecDeque<Letter>,
}

impl Ears {
    pub(super) fn new(
        lines: mpsc::Receiver<Inbound>,
        mut asked: watch::Receiver<Asked>,
        wall: Option<Millis>,
    ) -> Self {
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
            letters: VecDeque::new(),
        }
    }

    /// The oldest letter that nobody has read.
    pub(super) fn letter(&mut self) -> Option<Letter> {
        self.letters.pop_front()
    }

    /// The oldest unread letter of one of these topics.
    pub(super) fn letter_of(&mut self, topics: &[&str]) -> Option<Letter> {
        let place = self.letters.iter().position(|it| topics.contains(&it.topic.as_str()))?;
        self.letters.remove(place)
    }

    /// Takes in what has arrived and says whether to end here.
    pub(super) fn boundary(&mut self) -> Result<(), Halt> {
        while let Ok(line) = self.lines.try_recv() {
            self.take(line);
        }
        if !matches!(self.asked.has_changed(), Ok(false)) {
            self.take_order();
        }
        self.due(Yields::AtOnce).map_or(Ok(()), Err)
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

    /// Waits for a letter of one of these topics; of any, when none is named.
    pub(super) async fn await_letter(&mut self, topics: &[&str]) -> Result<Letter, Halt> {
        loop {
            let found = if topics.is_empty() { self.letter() } else { self.letter_of(topics) };
            if let Some(letter) = found {
                return Ok(letter);
            }
            self.listen(Yields::AtOnce).await?;
        }
    }

    /// Waits for one thing to happen.
    async fn listen(&mut self, yields: Yields) -> Result<(), Halt> {
        if let Some(halt) = self.due(yields) {
            return Err(halt);
        }
        let ends = [self.wall.as_ref().map(|(at, _)| *at), self.ending.as_ref().map(|(_, at)| *at)];
        let deadline = ends.into_iter().flatten().min();
        tokio::select! {
            changed = self.asked.changed() => match changed {
                Ok(()) => self.take_order(),
                Err(_) => self.ending = Some((Halt::Killed, Instant::now())),
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
            (Some(_) | None, _) => None,
        }
    }

    fn take_order(&mut self) {
        let until = |drain: Millis| {
            let now = Instant::now();
            now.checked_add(Duration::from_millis(drain.0)).unwrap_or(now)
        };
        self.ending = match self.asked.borrow_and_update().clone() {
            Asked::Nothing => None,
            Asked::Stop { drain, reason, .. } => Some((Halt::Stopped(reason), until(drain))),
            Asked::Rotate { drain, .. } => Some((Halt::Rotated, until(drain))),
            Asked::Kill => Some((Halt::Killed, Instant::now())),
        };
    }

    fn take(&mut self, line: Inbound) {
        match line {
            Inbound::Mail { topic, from, body } => {
                if self.letters.len() >= LETTERS_MAX {
                    self.letters.pop_front();
                }
                self.letters.push_back(Letter { topic, from, body });
            }
            Inbound::Noted(number) => self.noted = self.noted.max(number),
            // It makes no checkpoints.
            Inbound::Saved => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    fn ears(wall: Option<Millis>) -> (mpsc::Sender<Inbound>, watch::Sender<Asked>, Ears) {
        let (lines, lines_out) = mpsc::channel(8);
        let (asked, asked_out) = watch::channel(Asked::Nothing);
        (lines, asked, Ears::new(lines_out, asked_out, wall))
    }

    fn stop() -> Asked {
        Asked::Stop { drain: Millis(30_000), kill_grace: Millis(5), reason: "enough".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_what_has_no_effect_at_once_and_the_rest_after_its_drain() {
        let (_lines, asked, mut ears) = ears(None);
        ears.boundary().unwrap();
        asked.send_replace(stop());
        let halt = Err(Halt::Stopped("enough".to_owned()));
        assert_eq!(ears.during(Yields::AtOnce, pending::<()>()).await, halt);
        assert_eq!(ears.boundary(), halt);
        let began = Instant::now();
        assert_eq!(ears.during(Yields::AfterDrain, async { 7 }).await, Ok(7));
        assert_eq!(ears.during(Yields::AfterDrain, pending::<()>()).await, halt);
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_kill_and_the_wall_clock_wait_for_nothing() {
        let (_lines, asked, mut ears) = ears(Some(Millis(1_000)));
        let wall = Err(Halt::Wall(Millis(1_000)));
        assert_eq!(ears.during(Yields::AfterDrain, pending::<()>()).await, wall);
        asked.send_replace(Asked::Kill);
        assert_eq!(ears.boundary(), Err(Halt::Killed));
        drop(asked);
        assert_eq!(ears.during(Yields::AfterDrain, pending::<()>()).await, Err(Halt::Killed));
    }

    #[tokio::test]
    async fn letters_are_kept_in_order_and_found_by_topic() {
        let (lines, _asked, mut ears) = ears(None);
        for topic in ["info", "answer", "result.ready"] {
            let (from, body) = ("GO".to_owned(), "{}".to_owned());
            lines.send(Inbound::Mail { topic: topic.to_owned(), from, body }).await.unwrap();
        }
        lines.send(Inbound::Noted(2)).await.unwrap();
        ears.noted(2).await.unwrap();
        assert_eq!(ears.await_letter(&["answer"]).await.unwrap().topic, "answer");
        assert_eq!(ears.await_letter(&[]).await.unwrap().topic, "info");
        assert_eq!(ears.letter().unwrap().topic, "result.ready");
        assert_eq!(ears.letter(), None);
    }
}
