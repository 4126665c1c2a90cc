//! Everything that waits for people (spec 08, IO): questions and escalations, conversations that ask, changes before
//! their branches, proposed changes of plans, and what keeps work from starting. What holds up most stands first.

use std::collections::BTreeMap;

use tetrarch_core::change::{Change, ChangeStatus};
use tetrarch_core::conversation::{Turn, TurnStatus};
use tetrarch_core::id::Principal;
use tetrarch_core::obstacle::{Obstacle, ObstacleKind, Subject};
use tetrarch_core::plan::change::Output;
use tetrarch_core::plan::proposal::{DraftStatus, Proposal};
use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;

/// One thing that waits.
#[derive(Debug, Clone, Copy)]
pub enum InboxItem<'s> {
    /// A question.
    Question(&'s Question),
    /// A turn of a conversation that asks the person back.
    Turn(&'s Turn),
    /// A change before its branch.
    Change(&'s Change),
    /// A proposed change of a plan, and whose goal it is.
    Draft(&'s Proposal, &'s Principal),
    /// Something that nobody asks about and that needs somebody.
    Obstacle(&'s Obstacle),
}

/// Who looks, and at how much.
#[derive(Debug, Clone, Copy)]
pub struct InboxScope<'s> {
    /// Whose inbox it is.
    pub human: &'s Principal,
    /// With what waits for other people.
    pub everyone: bool,
    /// With what was decided, answered or withdrawn.
    pub closed: bool,
}

/// What waits, what holds up most first; of equals the oldest. What is over stands last.
#[must_use]
pub fn inbox<'s>(
    records: &'s Records,
    obstacles: &'s [Obstacle],
    scope: InboxScope<'_>,
) -> Vec<InboxItem<'s>> {
    let mut items = all(records, obstacles);
    items.retain(|item| scope.everyone || item.is_for(scope.human, records));
    items.retain(|item| scope.closed || item.is_open());
    // Obstacles come in the order of what they hold up; what is none holds up nothing.
    let place = |item: &InboxItem<'_>| {
        let known = item.obstacle(obstacles);
        known.map_or(usize::MAX, |of| obstacles.iter().take_while(|it| *it != of).count())
    };
    items.sort_by_key(|item| (!item.is_open(), place(item), item.since()));
    items
}

fn all<'s>(records: &'s Records, obstacles: &'s [Obstacle]) -> Vec<InboxItem<'s>> {
    let questions = records.questions.values().map(InboxItem::Question);
    let asking = |turn: &&Turn| turn.status == TurnStatus::Asking;
    let turns = records.turns.values().filter(asking).map(InboxItem::Turn);
    // What expired and is still to be merged is an obstacle.
    let is_obstacle = |change: &Change| {
        let subject = Subject::Change(change.id);
        change.status == ChangeStatus::Expired && obstacles.iter().any(|it| it.subject == subject)
    };
    let changes =
        records.changes.values().filter(|change| !is_obstacle(change)).map(InboxItem::Change);
    let drafts = records.drafts.values().flat_map(BTreeMap::values).filter_map(|draft| {
        let goal = records.goals.get(&draft.epic)?;
        Some(InboxItem::Draft(draft, &goal.owner))
    });
    let asked = |it: &&Obstacle| {
        !matches!(it.kind, ObstacleKind::QuestionOpen | ObstacleKind::ChangeWaiting)
    };
    let obstacles = obstacles.iter().filter(asked).map(InboxItem::Obstacle);
    questions.chain(turns).chain(changes).chain(drafts).chain(obstacles).collect()
}

impl InboxItem<'_> {
    /// Whose it is; none where it is everybody's.
    #[must_use]
    pub fn to(&self, records: &Records) -> Option<Principal> {
        match self {
            Self::Question(question) => Some(question.to.clone()),
            Self::Turn(turn) => Some(Principal::Human(turn.id.human.clone())),
            Self::Change(change) => Some(change.to.clone()),
            Self::Draft(_, owner) => Some((*owner).clone()),
            Self::Obstacle(obstacle) => {
                let epic = obstacle.nodes.first().map(|(epic, _)| epic)?;
                records.goals.get(epic).map(|goal| goal.owner.clone())
            }
        }
    }

    /// Whether it waits for this human: for them, or for any, since no agent decides on it.
    #[must_use]
    pub fn is_for(&self, human: &Principal, records: &Records) -> bool {
        let to = self.to(records);
        match self {
            Self::Turn(_) => to.as_ref() == Some(human),
            // Others have to say yes as well, and once is enough of each.
            Self::Change(change)
                if change.needed > 1 && change.status != ChangeStatus::Approved =>
            {
                !change.given().any(|approval| approval.by == *human)
            }
            Self::Question(_) | Self::Change(_) | Self::Draft(..) | Self::Obstacle(_) => {
                to.is_none_or(|to| to == *human || to.agent().is_some())
            }
        }
    }

    /// Whether it still waits.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::Question(question) => question.status == QuestionStatus::Open,
            Self::Change(change) => !change.status.is_terminal(),
            Self::Draft(draft, _) => draft.status == DraftStatus::Open,
            Self::Turn(_) | Self::Obstacle(_) => true,
        }
    }

    /// Since when; the end of time where nobody knows.
    #[must_use]
    pub fn since(&self) -> BusTime {
        match self {
            Self::Question(question) => question.asked,
            Self::Turn(turn) => turn.since,
            Self::Change(change) => change.proposed,
            Self::Draft(draft, _) => draft.created,
            Self::Obstacle(obstacle) => obstacle.since.unwrap_or(BusTime(u64::MAX)),
        }
    }

    /// The obstacle that it is, with what it holds up and what is to be done.
    #[must_use]
    pub fn obstacle<'o>(&self, obstacles: &'o [Obstacle]) -> Option<&'o Obstacle> {
        let subject = match self {
            Self::Question(question) => Subject::Question(question.id),
            Self::Change(change) => Subject::Change(change.id),
            Self::Turn(_) | Self::Draft(..) => return None,
            Self::Obstacle(it) => return obstacles.iter().find(|other| other == it),
        };
        obstacles.iter().find(|it| it.subject == subject)
    }
}

/// The words of the command that answers a turn that asks, without the program's name.
#[must_use]
pub fn turn_answer(turn: &Turn) -> String {
    format!("ask --conversation {} TEXT", turn.id.conversation)
}

/// What a change will do, to what, until when.
#[must_use]
pub fn change_in_words(change: &Change, now: BusTime) -> String {
    let action = &change.made.action;
    let files = action.files.len();
    let size = format!("{files} files +{} -{}", change.made.additions, change.made.deletions);
    let why = if change.reason.is_empty() { "" } else { ": " };
    let left = change.until - now;
    let given = change.people(|approval| approval.used.is_none());
    let of = if change.needed > 1 {
        format!(", {given} of {} approvals", change.needed)
    } else {
        String::new()
    };
    format!("merge {size} into {}, within {left}{of}{why}{}", action.target, change.reason)
}

/// What becomes of a plan's output; nothing when it stays.
#[must_use]
pub fn output_in_words(output: &Output) -> String {
    match output {
        Output::Kept => String::new(),
        Output::Be(None) => "none any more".to_owned(),
        Output::Be(Some(node)) => format!("is {node} now"),
    }
}

/// What a draft would do to its plan, and why.
#[must_use]
pub fn draft_in_words(draft: &Proposal) -> String {
    format!("plan {}: {}; defines {}", draft.epic, draft.reason, draft.defines())
}
