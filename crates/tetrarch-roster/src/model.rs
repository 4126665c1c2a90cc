//! What is shown: the records and what was made of them, which pane is open, and what was asked for.

use std::collections::VecDeque;

use tetrarch_core::change::Change;
use tetrarch_core::conversation::TurnId;
use tetrarch_core::id::{
    AgentId, ChangeId, DraftId, EpicId, Principal, QuestionId, RequestId, RunId,
};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::time::BusTime;
use tetrarch_view::inbox::{InboxItem, InboxScope, inbox};
use tetrarch_view::news::FleetImage;
use tetrarch_view::order::{ListLine, ListWish, find, lines};
use tetrarch_view::outline::{OutlineLine, outline};
use tetrarch_view::row::{AgentRow, rows};

use crate::diff::{DiffRow, ShownDiff};
use crate::events::{EventsPane, FULL_LINES, in_sight};
use crate::input::WatchedRun;
use crate::past::{PastView, TravelWish};

/// Entries of a journal that are kept.
pub const ENTRIES_MAX: usize = 500;
/// Characters of streamed text that are kept.
pub const STREAMED_MAX: usize = 16_384;
/// Acts whose outcome is shown.
const ACTS_MAX: usize = 3;
/// Lines above the list of agents.
const HEAD_LINES: u16 = 2;

/// What fills the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pane {
    /// The agents.
    #[default]
    Agents,
    /// One agent.
    Focus,
    /// What waits for people.
    Inbox,
    /// A plan.
    Plan,
    /// What people said, and who works for it.
    Conversations,
    /// What happened.
    Events,
    /// What a command line printed.
    Command,
}

/// What of one agent is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FocusTab {
    /// Its journal.
    #[default]
    Transcript,
    /// Its contract and its work.
    Brief,
    /// What it changed.
    Change,
}

impl FocusTab {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Transcript, Self::Brief, Self::Change];
}

/// One agent, looked at.
#[derive(Debug, Default)]
pub struct FocusPane {
    /// Who.
    pub agent: Option<AgentId>,
    /// Whose journal is read along.
    pub watched: Option<WatchedRun>,
    /// The end of its journal, with when each entry was stored.
    pub entries: VecDeque<(BusTime, JournalEvent)>,
    /// What came since the last entry.
    pub streamed: String,
    /// What is shown of it.
    pub tab: FocusTab,
    /// Lines above the end of the transcript, below the beginning of everything else.
    pub scroll: usize,
}

/// What waits, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboxKey {
    /// A question.
    Question(QuestionId),
    /// A turn that asks.
    Turn(TurnId),
    /// A change.
    Change(ChangeId),
    /// A draft of a plan.
    Draft(EpicId, DraftId),
    /// What nobody asks about: its kind and what it is about, in words.
    Obstacle(String),
}

impl InboxKey {
    /// The name of an item.
    #[must_use]
    pub fn of(item: &InboxItem<'_>) -> Self {
        match item {
            InboxItem::Question(question) => Self::Question(question.id),
            InboxItem::Turn(turn) => Self::Turn(turn.id.clone()),
            InboxItem::Change(change) => Self::Change(change.id),
            InboxItem::Draft(draft, _) => Self::Draft(draft.epic, draft.id),
            InboxItem::Obstacle(it) => Self::Obstacle(format!("{} {}", it.kind, it.subject)),
        }
    }
}

/// The inbox.
#[derive(Debug, Default)]
pub struct InboxPane {
    /// What keeps work from starting, as of the last time.
    pub obstacles: Vec<Obstacle>,
    /// The one that is shown in full.
    pub selected: Option<InboxKey>,
    /// Lines of it above the first that is shown.
    pub scroll: usize,
    /// Whose end was on the screen last, and the digest of it where it is a change.
    pub read: Option<(InboxKey, String)>,
}

/// A plan.
#[derive(Debug, Default)]
pub struct PlanPane {
    /// Whose.
    pub epic: Option<EpicId>,
    /// Its lines.
    pub lines: Vec<OutlineLine>,
    /// Lines above the first that is shown.
    pub scroll: usize,
}

/// A command line, and what it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPane {
    /// By which it is answered.
    pub ticket: u64,
    /// The line, without the program's name.
    pub line: String,
    /// What it printed, or what it said when it failed; none while it runs.
    pub outcome: Option<Result<String, String>>,
    /// Lines above the first that is shown.
    pub scroll: usize,
}

/// What a text that is typed is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptKind {
    /// The filter of the list.
    Filter,
    /// A text before the next step of an agent.
    Steer(AgentId),
    /// Why an agent's turn is aborted.
    Interrupt(AgentId),
    /// Whether an agent is to stop.
    Stop(AgentId),
    /// The answer to a question.
    Answer(QuestionId),
    /// Whether a change of this digest is approved.
    Approve(ChangeId, String),
    /// Whether an approved change is merged.
    Merge(ChangeId),
    /// Whether a draft is applied.
    ApproveDraft(EpicId, DraftId),
    /// Why a change is denied.
    Deny(ChangeId),
    /// Why a draft is rejected.
    Reject(EpicId, DraftId),
    /// The moment of which the fleet is shown.
    Moment,
    /// A command line.
    Command,
}

/// A text that is typed, or a question that a key answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPrompt {
    /// What for.
    pub kind: PromptKind,
    /// What was typed.
    pub text: String,
}

/// Something that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedAct {
    /// By which it is answered; 0 for what was not sent.
    pub ticket: u64,
    /// What, in words.
    pub what: String,
    /// Of whom receipts come.
    pub agent: Option<AgentId>,
    /// The request, once it was sent.
    pub id: Option<RequestId>,
    /// What the owner said; none while it has not.
    pub outcome: Option<Result<String, String>>,
}

/// All of it.
#[derive(Debug)]
pub struct RosterModel {
    /// Who looks.
    pub human: Principal,
    /// With colours.
    pub coloured: bool,
    /// The fleet.
    pub fleet: FleetImage,
    /// When it is.
    pub now: BusTime,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// A row for each agent, in the order of their names.
    pub rows: Vec<AgentRow>,
    /// Which of them are listed, and how.
    pub wish: ListWish,
    /// The lines of the list.
    pub lines: Vec<ListLine>,
    /// Who is selected.
    pub selected: Option<AgentId>,
    /// Lines above the first that is shown.
    pub top: usize,
    /// What fills the screen.
    pub pane: Pane,
    /// Lines of the help above the first that is shown, while it is shown.
    pub help: Option<usize>,
    /// One agent.
    pub focus: FocusPane,
    /// What waits.
    pub inbox: InboxPane,
    /// The diff that was read last.
    pub diff: Option<ShownDiff>,
    /// A plan.
    pub plan: PlanPane,
    /// Lines above the first of the conversations that is shown.
    pub conversations_top: usize,
    /// What happened.
    pub events: EventsPane,
    /// A command line that was typed here, while what it prints is shown.
    pub command: Option<CommandPane>,
    /// The past, while it is shown in place of the fleet.
    pub past: Option<PastView>,
    /// The moment that is read.
    pub travel: Option<TravelWish>,
    /// What is typed.
    pub prompt: Option<TextPrompt>,
    /// What was asked for last.
    pub acts: VecDeque<AskedAct>,
    /// How often something was asked for.
    pub tickets: u64,
    /// Whether something was heard that is not shown yet.
    pub heard: bool,
    /// Whether it looks other than when it was drawn.
    pub changed: bool,
    /// Whether it is over.
    pub quits: bool,
}

impl RosterModel {
    /// An empty screen of so many columns and lines.
    #[must_use]
    pub fn new(human: Principal, coloured: bool, size: (u16, u16), now: BusTime) -> Self {
        Self {
            human,
            coloured,
            fleet: FleetImage::default(),
            now,
            size,
            rows: Vec::new(),
            wish: ListWish::default(),
            lines: Vec::new(),
            selected: None,
            top: 0,
            pane: Pane::default(),
            help: None,
            focus: FocusPane::default(),
            inbox: InboxPane::default(),
            diff: None,
            plan: PlanPane::default(),
            conversations_top: 0,
            events: EventsPane::default(),
            command: None,
            past: None,
            travel: None,
            prompt: None,
            acts: VecDeque::new(),
            tickets: 0,
            heard: false,
            changed: true,
            quits: false,
        }
    }

    /// Makes what is shown of what was heard.
    pub(crate) fn refresh(&mut self) {
        self.rows = rows(&self.fleet.fold.records, &self.fleet.reported, self.now);
        self.look_for_obstacles();
        if self.pane == Pane::Plan {
            self.outline();
        }
        self.list();
        self.heard = false;
        self.changed = true;
    }

    /// Makes the lines of the list anew; who was selected stays selected, or who stands there then.
    pub(crate) fn list(&mut self) {
        let before = self.place();
        self.lines = lines(&self.rows, &self.wish);
        let at = self.selected.as_ref().and_then(|id| self.place_of(id)).or(before).unwrap_or(0);
        self.select(at);
    }

    pub(crate) fn look_for_obstacles(&mut self) {
        self.inbox.obstacles =
            tetrarch_core::obstacle::of_fleet(&self.fleet.fold.records, &self.fleet.telemetry);
        let keys: Vec<InboxKey> = self.waiting().iter().map(InboxKey::of).collect();
        let stays = self.inbox.selected.as_ref().is_some_and(|key| keys.contains(key));
        if !stays {
            self.inbox.selected = keys.into_iter().next();
            self.inbox.scroll = 0;
        }
    }

    pub(crate) fn outline(&mut self) {
        self.plan.lines =
            self.plan.epic.map(|epic| outline(&self.fleet.fold, epic)).unwrap_or_default();
    }

    /// What waits for whoever looks.
    #[must_use]
    pub fn waiting(&self) -> Vec<InboxItem<'_>> {
        let scope = InboxScope { human: &self.human, everyone: false, closed: false };
        inbox(&self.fleet.fold.records, &self.inbox.obstacles, scope)
    }

    /// The item that is shown in full.
    #[must_use]
    pub fn chosen(&self) -> Option<InboxItem<'_>> {
        let key = self.inbox.selected.as_ref()?;
        self.waiting().into_iter().find(|item| InboxKey::of(item) == *key)
    }

    /// Who is selected.
    #[must_use]
    pub fn row(&self) -> Option<&AgentRow> {
        find(&self.rows, self.selected.as_ref()?)
    }

    /// Whom a key is about: who is looked at, or who is selected.
    #[must_use]
    pub fn subject(&self) -> Option<&AgentRow> {
        match self.pane {
            Pane::Focus => find(&self.rows, self.focus.agent.as_ref()?),
            Pane::Agents
            | Pane::Inbox
            | Pane::Plan
            | Pane::Conversations
            | Pane::Events
            | Pane::Command => self.row(),
        }
    }

    /// The place of who is selected among the lines.
    #[must_use]
    pub fn place(&self) -> Option<usize> {
        self.selected.as_ref().and_then(|id| self.place_of(id))
    }

    fn place_of(&self, id: &AgentId) -> Option<usize> {
        let row = self.rows.binary_search_by(|row| row.id.cmp(id)).ok()?;
        self.lines.iter().position(|line| line.row == row)
    }

    /// Selects the line at a place, or the last one, and brings it into sight.
    pub(crate) fn select(&mut self, place: usize) {
        let place = place.min(self.lines.len().saturating_sub(1));
        let row = self.lines.get(place).and_then(|line| self.rows.get(line.row));
        self.selected = row.map(|row| row.id.clone());
        self.top = in_sight(self.top, place, self.list_height(), self.lines.len());
    }

    /// Lines of the list that are shown.
    #[must_use]
    pub fn list_height(&self) -> usize {
        usize::from(self.body_height())
    }

    /// Lines of the events that are shown above the one that is shown in full.
    #[must_use]
    pub fn events_height(&self) -> usize {
        let height = self.list_height();
        if height > 2 * FULL_LINES { height - FULL_LINES } else { height }
    }

    /// Lines between head and foot.
    #[must_use]
    pub fn body_height(&self) -> u16 {
        self.size.1.saturating_sub(self.head_height() + self.foot_height())
    }

    /// Lines above everything: those of the pane, and one while the past is shown or read.
    fn head_height(&self) -> u16 {
        HEAD_LINES + u16::from(self.travels())
    }

    /// Whether the past is shown, or read.
    #[must_use]
    pub fn travels(&self) -> bool {
        self.past.is_some() || self.travel.is_some()
    }

    /// The fleet as it is, which is not what is shown while the past is.
    pub(crate) fn live(&mut self) -> &mut FleetImage {
        self.past.as_mut().map_or(&mut self.fleet, |past| &mut past.live)
    }

    /// Lines below everything: what was asked for, and the labels or what is typed.
    #[must_use]
    pub fn foot_height(&self) -> u16 {
        u16::try_from(self.acts.len()).unwrap_or(0) + 1
    }

    /// The agent at a line of the screen.
    #[must_use]
    pub fn line_at(&self, line: u16) -> Option<usize> {
        let from = line.checked_sub(self.head_height())?;
        let place = self.top + usize::from(from);
        (from < self.body_height() && place < self.lines.len()).then_some(place)
    }

    /// The change that a run of an agent made last.
    #[must_use]
    pub fn change_of(&self, agent: &AgentId) -> Option<&Change> {
        let made = self.fleet.fold.records.changes.values().filter(|change| change.agent == *agent);
        made.max_by_key(|change| (change.proposed, change.id))
    }

    /// The lines of a change's diff as the change is now; none while it is not shown whole.
    pub(crate) fn diff_rows(&self, change: &Change) -> Option<&[DiffRow]> {
        let digest = change.made.action.digest();
        let shown = self.diff.as_ref()?;
        let whole = matches!(shown.text, Some(Ok(_)));
        (whole && shown.change == change.id && shown.digest == digest).then_some(&*shown.rows)
    }

    /// Keeps something that was asked for.
    pub(crate) fn keep(&mut self, act: AskedAct) {
        self.acts.push_back(act);
        if self.acts.len() > ACTS_MAX {
            self.acts.pop_front();
        }
        self.select(self.place().unwrap_or(0));
    }

    /// Says something that nobody was asked for.
    pub(crate) fn say(&mut self, what: &str) {
        let outcome = Some(Err(String::new()));
        let what = what.to_owned();
        self.keep(AskedAct { ticket: 0, what, agent: None, id: None, outcome });
    }

    /// Whether an amount of time changes what is shown: who works does so for longer.
    pub(crate) fn shows_time(&self) -> bool {
        match self.pane {
            Pane::Agents => {
                let shown = self.lines.iter().skip(self.top).take(self.list_height());
                let mut rows = shown.filter_map(|line| self.rows.get(line.row));
                rows.any(|row| row.elapsed.is_some() && !row.ended)
            }
            Pane::Focus => self.subject().is_some_and(|row| row.elapsed.is_some() && !row.ended),
            Pane::Inbox | Pane::Plan | Pane::Conversations | Pane::Events | Pane::Command => false,
        }
    }

    /// Whether a run's journal is the one that is read along.
    pub(crate) fn is_watched(&self, run: RunId) -> bool {
        self.focus.watched.as_ref().is_some_and(|watched| watched.run == run)
    }
}
