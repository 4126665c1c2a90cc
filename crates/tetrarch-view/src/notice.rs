//! What a person is told when they do not look (spec 08, IO): something waits for them, a goal ended, something is
//! wrong. A notice is made from the entry of the ledger that brought it about; where it goes follows from the goal that
//! it is about.

use tetrarch_core::change::{Change, ChangeStatus};
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnStatus, is_by_turn};
use tetrarch_core::goal::{Goal, GoalState, GoalStatus};
use tetrarch_core::id::{ChannelName, EpicId, NodeId, Principal};
use tetrarch_core::ledger::{Entry, EventKind, Record, RecordKey};
use tetrarch_core::limits::TEXT_BYTES_MAX;
use tetrarch_core::plan::proposal::{DraftStatus, Proposal};
use tetrarch_core::plan::{NodeState, NodeStatus};
use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;
use tetrarch_core::words;

use crate::inbox::{change_in_words, draft_in_words, turn_answer};
use crate::text::visible;

/// Where a goal's origin names the channel that answers go to.
const CHANNEL_KEY: &str = "channel";

words! {
    /// What a notice is about.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum NoticeKind {
        /// An agent asks, or an escalation does.
        Question = "question",
        /// A task is blocked until somebody unblocks it.
        Blocked = "blocked",
        /// A change waits before its branch.
        Change = "change",
        /// A change of a plan is proposed, or somebody asks to look at one.
        Draft = "draft",
        /// A turn of a conversation asks or ended that nobody watches.
        Turn = "turn",
        /// A goal was reached or cancelled.
        Goal = "goal",
        /// Something is wrong.
        Alert = "alert",
    }
}

/// Whom a notice concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Concerned {
    /// Every person.
    Everybody,
    /// One person, or any where it is an agent's: no agent decides on it.
    DecidedBy(Principal),
    /// The owner of the goal that it is about.
    GoalOwner,
}

/// Something that people are told once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What it is known by: the same however often the entry is read.
    pub id: String,
    /// What it is about.
    pub kind: NoticeKind,
    /// In words, with control characters made visible.
    pub text: String,
    /// The goal that it is about.
    pub epic: Option<EpicId>,
    /// When it came about.
    pub at: BusTime,
    /// The words of the command that shows or answers it, without the program's name.
    pub command: String,
    concerned: Concerned,
    channel: Option<ChannelName>,
    /// The record that says whether it is still so.
    record: Option<RecordKey>,
}

impl Notice {
    /// What one entry of the ledger gives reason to tell.
    #[must_use]
    pub fn of(entry: &Entry) -> Vec<Self> {
        let asks = |epic: EpicId, node: NodeId| {
            entry.records.iter().any(|record| {
                matches!(record, Record::Question(it) if (it.epic, it.node) == (epic, node))
            })
        };
        let of_record = entry.records.iter().filter_map(|record| {
            if let Record::Question(question) = record {
                Self::question(question)
            } else if let Record::Change(change) = record {
                Self::change(change)
            } else if let Record::Draft(draft) = record {
                Self::draft(draft)
            } else if let Record::Turn(turn) = record {
                Self::turn(turn)
            } else if let Record::NodeState(epic, state) = record {
                Self::blocked(*epic, state).filter(|_| !asks(*epic, state.id))
            } else if let Record::GoalState(state) = record {
                Self::goal(state)
            } else {
                None
            }
        });
        let alerts = entry.events.iter().zip(0_u64..);
        let alerts = alerts.filter(|(event, _)| event.kind == EventKind::Alert);
        let alerts = alerts.map(|(event, place)| {
            let command = match &event.agent {
                Some(agent) => format!("why {agent}"),
                None => "events --kind alert".to_owned(),
            };
            let id = format!("alert-{}-{place}", entry.commit);
            Self {
                epic: event.epic,
                concerned: Concerned::Everybody,
                ..Self::new(id, NoticeKind::Alert, &event.reason, entry.at, command)
            }
        });
        let reviews = entry.reviews.iter().flat_map(|review| {
            let asks = review.asks.iter().filter(|ask| ask.draft.is_none()).zip(0_u64..);
            asks.map(|(ask, place)| {
                let id = format!("review-{}-{}-{place}", entry.commit, review.epic);
                let text = format!("{} asks to look at the plan: {}", ask.by, ask.text);
                let command = format!("plan show {}", review.epic);
                let notice = Self::new(id, NoticeKind::Draft, &text, review.at, command);
                Self { epic: Some(review.epic), ..notice }
            })
        });
        of_record.chain(alerts).chain(reviews).collect()
    }

    fn new(id: String, kind: NoticeKind, text: &str, at: BusTime, command: String) -> Self {
        let mut text = visible(text);
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        let concerned = Concerned::GoalOwner;
        Self { id, kind, text, epic: None, at, command, concerned, channel: None, record: None }
    }

    fn question(question: &Question) -> Option<Self> {
        if question.status != QuestionStatus::Open {
            return None;
        }
        let Question { id, agent, text, options, .. } = question;
        let choice =
            if options.is_empty() { String::new() } else { format!(" ({})", options.join(" | ")) };
        let text = format!("{agent} asks: {text}{choice}");
        let command = format!("answer {id} TEXT");
        let notice =
            Self::new(id.to_string(), NoticeKind::Question, &text, question.asked, command);
        let concerned = Concerned::DecidedBy(question.to.clone());
        let record = Some(RecordKey::Question(question.id));
        Some(Self { epic: Some(question.epic), concerned, record, ..notice })
    }

    /// At most one for each attempt, however often it is blocked.
    fn blocked(epic: EpicId, state: &NodeState) -> Option<Self> {
        let blocker = state.blocker.as_ref().filter(|_| state.status == NodeStatus::Blocked)?;
        let id = format!("{epic}-{}-{}", state.id, state.attempts);
        let text = format!("{} is blocked: {}: {}", state.id, blocker.kind, blocker.detail);
        let command = format!("why {epic}/{}", state.id);
        let notice = Self::new(id, NoticeKind::Blocked, &text, state.since, command);
        let record = Some(RecordKey::NodeState(epic, state.id));
        Some(Self { epic: Some(epic), record, ..notice })
    }

    fn change(change: &Change) -> Option<Self> {
        let (says, id) = match change.status {
            ChangeStatus::Proposed => ("asks to", change.id.to_string()),
            ChangeStatus::Conflicted => ("could not", format!("{}.{}", change.id, change.since.0)),
            ChangeStatus::Approved
            | ChangeStatus::Applying
            | ChangeStatus::Applied
            | ChangeStatus::Denied
            | ChangeStatus::Refused
            | ChangeStatus::Expired
            | ChangeStatus::Superseded => return None,
        };
        let words = change_in_words(change, change.proposed);
        let text = format!("{} {says} {words}", change.agent);
        let command = format!("change show {}", change.id);
        // Others have to say yes as well.
        let concerned = if change.needed > 1 {
            Concerned::Everybody
        } else {
            Concerned::DecidedBy(change.to.clone())
        };
        let notice = Self::new(id, NoticeKind::Change, &text, change.since, command);
        let record = Some(RecordKey::Change(change.id));
        Some(Self { epic: Some(change.epic), concerned, record, ..notice })
    }

    fn draft(draft: &Proposal) -> Option<Self> {
        if draft.status != DraftStatus::Open {
            return None;
        }
        let text = format!("{} proposes a change: {}", draft.author, draft_in_words(draft));
        let (id, command) = (draft.id.to_string(), format!("plan drafts {}", draft.epic));
        let notice = Self::new(id, NoticeKind::Draft, &text, draft.created, command);
        let record = Some(RecordKey::Draft(draft.epic, draft.id));
        Some(Self { epic: Some(draft.epic), record, ..notice })
    }

    /// A turn that its person follows on a terminal needs no notice; one of the background, or one that names a channel, does.
    fn turn(turn: &Turn) -> Option<Self> {
        if turn.lane != TurnLane::Background && turn.channel.is_none() {
            return None;
        }
        let (says, command) = match turn.status {
            TurnStatus::Asking => (" asks", turn_answer(turn)),
            TurnStatus::Done => ("", format!("chat {}", turn.id.conversation)),
            TurnStatus::Failed => (" failed", "events --kind turn".to_owned()),
            TurnStatus::Queued | TurnStatus::Running => return None,
        };
        let text = format!("{}{says}: {}", turn.id, turn.answer);
        let id = format!("turn-{}-{}-{}", turn.id.conversation, turn.id.number, turn.moved);
        let notice = Self::new(id, NoticeKind::Turn, &text, turn.since, command);
        let concerned = Concerned::DecidedBy(Principal::Human(turn.id.human.clone()));
        let asks = turn.status == TurnStatus::Asking;
        let record = asks.then(|| RecordKey::Turn(turn.id.clone()));
        Some(Self { epic: turn.epic, concerned, channel: turn.channel.clone(), record, ..notice })
    }

    fn goal(state: &GoalState) -> Option<Self> {
        let GoalState { id: epic, status, since, .. } = state;
        match status {
            GoalStatus::Completed | GoalStatus::Cancelled => {}
            GoalStatus::Active | GoalStatus::Paused | GoalStatus::Archived => return None,
        }
        let (id, text) = (format!("{epic}.{status}"), format!("{epic} is {status}"));
        let command = format!("describe {epic}");
        let notice = Self::new(id, NoticeKind::Goal, &text, *since, command);
        Some(Self { epic: Some(*epic), ..notice })
    }

    /// Whether this person is to be told. `goal` is the one that it is about; none where that is not kept any more.
    #[must_use]
    pub fn is_for(&self, human: &Principal, goal: Option<&Goal>) -> bool {
        match &self.concerned {
            Concerned::Everybody => true,
            Concerned::DecidedBy(person @ Principal::Human(_)) => person == human,
            Concerned::DecidedBy(Principal::Agent(_)) => true,
            // Whoever waits for a turn is told by the turn that its goal ended.
            Concerned::GoalOwner => goal.is_some_and(|goal| {
                let by_turn = self.kind == NoticeKind::Goal && is_by_turn(goal);
                goal.owner == *human && !by_turn
            }),
        }
    }

    /// The record that says whether it is still so; none of what has happened for good.
    #[must_use]
    pub fn record(&self) -> Option<RecordKey> {
        self.record.clone()
    }

    /// Whether it is still so, where its record was read: what somebody has answered meanwhile is no news. A record that is
    /// not there, or as old, may not show yet what the ledger tells.
    #[must_use]
    pub fn holds(&self, records: &Records) -> bool {
        let Some(key) = &self.record else { return true };
        let found = if let RecordKey::Question(id) = key {
            records.questions.get(id).map(|it| (it.since, Self::question(it)))
        } else if let RecordKey::Change(id) = key {
            records.changes.get(id).map(|it| (it.since, Self::change(it)))
        } else if let RecordKey::Draft(epic, id) = key {
            let draft = records.drafts.get(epic).and_then(|drafts| drafts.get(id));
            draft.map(|it| (it.since, Self::draft(it)))
        } else if let RecordKey::Turn(id) = key {
            records.turns.get(id).map(|it| (it.since, Self::turn(it)))
        } else if let RecordKey::NodeState(epic, id) = key {
            let state = records.node_states.get(epic).and_then(|states| states.get(id));
            state.map(|it| (it.since, Self::blocked(*epic, it)))
        } else {
            None
        };
        found
            .is_none_or(|(since, now)| since <= self.at || now.is_some_and(|now| now.id == self.id))
    }

    /// The channel where it goes, and nowhere else: that of the turn, or of the origin of the goal of this person; none where
    /// nobody said.
    #[must_use]
    pub fn channel<'n>(&'n self, human: &Principal, goal: Option<&'n Goal>) -> Option<&'n str> {
        let goal = goal.filter(|goal| goal.owner == *human);
        let origin = goal.into_iter().flat_map(|goal| &goal.spec.origin);
        let named = { origin }.find(|(key, _)| key == CHANNEL_KEY).map(|(_, name)| name.as_str());
        self.channel.as_ref().map(ChannelName::as_str).or(named)
    }

    /// It in one line, with the title of its goal.
    #[must_use]
    pub fn line(&self, goal: Option<&Goal>) -> String {
        match goal {
            Some(goal) => format!("{} [{}]", self.text, visible(&goal.spec.title)),
            None => self.text.clone(),
        }
    }
}

#[cfg(test)]
#[path = "tests/notices.rs"]
mod tests;
