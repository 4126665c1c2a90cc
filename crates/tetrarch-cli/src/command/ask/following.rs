//! A turn as it goes on: what the ledger says of it and of the goal that is worked on for it, in words, at once. While
//! it says nothing, that something still runs.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use tetrarch_bus::Bus;
use tetrarch_bus::journal::JournalName;
use tetrarch_bus::lease::Renewals;
use tetrarch_bus::spoken::SpokenWords;
use tetrarch_bus::tail::{LedgerItem, follow_ledger};
use tetrarch_core::agent::{Agent, Work};
use tetrarch_core::conversation::{Turn, TurnId, TurnStatus};
use tetrarch_core::id::{AgentId, NodeId, QuestionId};
use tetrarch_core::ledger::{Entry, EventKind, Record};
use tetrarch_core::question::{Question, QuestionStatus};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::unmixed;
use crate::{CliError, CliResult, Code, StateSnapshot};

/// The longest silence while something runs (spec 07, Streaming).
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Lines of what an agent says at once that are told; its journal has all.
const LINES_MAX: usize = 100;

/// What somebody who follows a turn is told.
#[derive(Debug)]
pub(in crate::command) enum TurnNews {
    /// What happened, in words, or what its agent says.
    Progress(String),
    /// Nothing happened for a while: what still runs.
    Still(String),
    /// An agent asks its person something.
    Question(Box<Question>),
    /// A question waits for its person no longer.
    Settled(QuestionId),
    /// The turn ended, or asks.
    Ended(Box<Turn>),
    /// Ctrl-C.
    Interrupted,
}

/// Follows one turn.
pub(in crate::command) struct TurnFollower {
    bus: Bus,
    id: TurnId,
    entries: Pin<Box<dyn Stream<Item = LedgerItem> + Send>>,
    interrupt: Signal,
    began: Instant,
    /// When something was told last.
    said: Instant,
    /// What happened and was not told yet: of one entry.
    untold: VecDeque<TurnNews>,
    renewals: Renewals,
    /// Turns that agents have made, as their hosts say.
    turns: BTreeMap<AgentId, u64>,
    /// The run of its agent, and what it says.
    speaking: Option<(JournalName, SpokenWords)>,
    /// What it asks is new only after more moves than these.
    answered: u64,
    /// The person's turns as they are.
    pub(in crate::command) snapshot: StateSnapshot,
}

impl TurnFollower {
    /// A follower of what the ledger says from an entry on, given what was read after that.
    ///
    /// # Errors
    /// Signals or hosts cannot be heard.
    pub(super) async fn new(
        bus: &Bus,
        (from, snapshot): (u64, StateSnapshot),
        id: TurnId,
        answered: u64,
    ) -> CliResult<Self> {
        let entries = Box::pin(follow_ledger(bus, from, 0));
        let interrupt = signal(SignalKind::interrupt())?;
        let (began, untold) = (Instant::now(), VecDeque::new());
        let (renewals, turns) = (Renewals::listen(bus).await?, BTreeMap::new());
        let said = began;
        Ok(Self {
            bus: bus.clone(),
            speaking: None,
            id,
            entries,
            interrupt,
            began,
            said,
            untold,
            renewals,
            turns,
            answered,
            snapshot,
        })
    }

    /// Which turn.
    pub(in crate::command) fn id(&self) -> &TurnId {
        &self.id
    }

    fn asks(&self, turn: &Turn) -> bool {
        turn.status == TurnStatus::Asking && turn.moved > self.answered
    }

    /// The turn as it is.
    pub(in crate::command) fn turn(&self) -> Option<&Turn> {
        self.snapshot.records.turns.get(&self.id)
    }

    /// What is heard next. Dropped before it says something, it loses nothing.
    ///
    /// # Errors
    /// The ledger cannot be read any more.
    pub(in crate::command) async fn next(&mut self) -> CliResult<TurnNews> {
        loop {
            if let Some(news) = self.untold.pop_front() {
                self.said = Instant::now();
                return Ok(news);
            }
            if let Some(turn) = self.turn().filter(|turn| turn.status.is_over() || self.asks(turn))
            {
                return Ok(TurnNews::Ended(Box::new(turn.clone())));
            }
            self.listen().await;
            let item = tokio::select! {
                biased;
                _ = self.interrupt.recv() => return Ok(TurnNews::Interrupted),
                item = self.entries.next() => item,
                words = spoken(&mut self.speaking) => {
                    let lines = words.lines().filter(|line| !line.trim().is_empty());
                    let lines = lines.take(LINES_MAX).map(|line| TurnNews::Progress(format!("  {line}")));
                    self.untold.extend(lines);
                    continue;
                }
                renewal = self.renewals.next() => {
                    self.turns.extend(renewal.rows.into_iter().map(|row| (row.agent, row.turns)));
                    continue;
                }
                () = tokio::time::sleep_until((self.said + SILENCE_MAX).into()) => {
                    self.said = Instant::now();
                    let at = self.turn().and_then(|turn| self.turn_of_agent(turn)).unwrap_or_default();
                    let passed = self.began.elapsed().as_secs();
                    return Ok(TurnNews::Still(format!("{}{at} ({passed} s)", still(self.turn()))));
                }
            };
            let Some(LedgerItem { seq, entry, .. }) = item else {
                return Err(CliError::new(Code::BusUnreachable, "the ledger cannot be followed"));
            };
            let Ok(entry) = entry else { continue };
            let before = self.turn().cloned();
            self.snapshot.apply(seq, &entry);
            let after = self.snapshot.records.turns.get(&self.id);
            self.untold.extend(news(before.as_ref(), after, &entry).map(TurnNews::Progress));
            self.untold.extend(questions(after, entry));
        }
    }

    /// The agent that works for a person's turn: what is delegated is a goal of one task. Its own agents have other nodes.
    fn agent_of(&self, turn: &Turn) -> Option<&Agent> {
        let mut agents = self.snapshot.records.agents.values().filter(|agent| agent.has_process());
        let delegated =
            |work: &Work| Some(work.epic) == turn.epic && work.node == NodeId::task(1, 1);
        agents.find(|agent| agent.work.as_ref().is_some_and(delegated))
    }

    /// Listens to the agent that works for the turn, and to no other. What is not heard is in its journal.
    async fn listen(&mut self) {
        let agent = self.turn().filter(|turn| turn.working).and_then(|turn| self.agent_of(turn));
        let Some(name) = agent.and_then(|agent| {
            let run = agent.work.as_ref()?.run;
            Some(JournalName { agent: agent.id.clone(), run })
        }) else {
            return;
        };
        if self.speaking.as_ref().is_some_and(|(known, _)| *known == name) {
            return;
        }
        match SpokenWords::of(&self.bus, &name).await {
            Ok(words) => self.speaking = Some((name, words)),
            Err(error) => tracing::debug!(%error, "the words of an agent are not heard"),
        }
    }

    /// In which turn of how many the agent is that works for a person's turn.
    fn turn_of_agent(&self, turn: &Turn) -> Option<String> {
        let records = &self.snapshot.records;
        let agent = self.agent_of(turn)?;
        let most = records.runs.get(&agent.work.as_ref()?.run)?.brief.budget.turns;
        let most = most.map_or_else(String::new, |most| format!(" of {most}"));
        Some(format!(", {} in turn {}{most}", agent.id, self.turns.get(&agent.id)?))
    }
}

/// What an agent says next; nothing ever where none is listened to.
async fn spoken(speaking: &mut Option<(JournalName, SpokenWords)>) -> String {
    match speaking {
        Some((_, words)) => words.next().await,
        None => std::future::pending().await,
    }
}

/// What goes on while nothing is heard.
fn still(turn: Option<&Turn>) -> String {
    let at = turn.and_then(|turn| turn.position.as_ref()).map(|position| position.at.to_string());
    if turn.is_some_and(|turn| turn.status == TurnStatus::Queued) {
        return "still queued".to_owned();
    }
    at.map_or_else(|| "about to begin".to_owned(), |at| format!("still at {at}"))
}

/// What an entry says of a turn, in words.
fn news(
    before: Option<&Turn>,
    after: Option<&Turn>,
    entry: &Entry,
) -> impl Iterator<Item = String> + use<> {
    let mut lines = Vec::new();
    let Some(after) = after else { return lines.into_iter() };
    if before.is_none_or(|before| before.moved < after.moved) && after.moved > 0 {
        let at = after.position.as_ref().map(|position| position.at.to_string());
        let at = at.unwrap_or_default();
        lines.push(if after.working {
            format!("{at}: asking project {} for an agent", after.project)
        } else {
            at
        });
    }
    let of_goal =
        entry.events.iter().filter(|event| event.epic.is_some() && event.epic == after.epic);
    for event in of_goal {
        let agent = event.agent.as_ref().map(ToString::to_string).unwrap_or_default();
        if event.kind == EventKind::AgentAdmitted {
            lines.push(format!("delegated to {agent}"));
        } else if event.kind == EventKind::AgentReplaced {
            lines.push(format!("{agent} goes on in its next session"));
        } else if event.kind == EventKind::NodeStatus
            && let Some((_, ended)) = event.reason.split_once("in_progress -> ")
        {
            lines.push(ended.to_owned());
        }
    }
    lines.into_iter()
}

/// The questions of agents that work for a turn, which an entry asks or settles.
fn questions(turn: Option<&Turn>, entry: Entry) -> impl Iterator<Item = TurnNews> + use<> {
    let epic = turn.and_then(|turn| turn.epic);
    entry.records.into_iter().filter_map(move |record| {
        let Record::Question(question) = record else { return None };
        if epic != Some(question.epic) {
            return None;
        }
        Some(match question.status {
            QuestionStatus::Open => TurnNews::Question(question),
            QuestionStatus::Answered | QuestionStatus::Withdrawn => TurnNews::Settled(question.id),
        })
    })
}

/// A question as its person reads it.
pub(in crate::command) fn words_of(question: &Question) -> String {
    format!("{} asks: {}", question.agent, unmixed(&question.text))
}
