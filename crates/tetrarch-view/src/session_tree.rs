//! What people started: their conversations, each turn, and the agents that work or worked for it (spec 07, Session
//! tree). It is put together from the records and kept nowhere.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use tetrarch_core::conversation::Turn;
use tetrarch_core::id::{AgentId, ConversationName, EpicId, HumanName, ProjectName};
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;

use crate::order::find;
use crate::row::AgentRow;

/// Turns of each conversation that are shown unless all are wanted: the latest.
pub const TURNS_SHOWN: usize = 10;

/// The tree of one person.
#[derive(Debug)]
pub struct SessionTree<'r> {
    /// Whose.
    pub human: &'r HumanName,
    /// Their orchestrator; none before they said anything.
    pub root: Option<&'r AgentRow>,
    /// Their conversations, where something happened last first.
    pub conversations: Vec<SessionBranch<'r>>,
    agents: Rc<AgentsByGoal<'r>>,
}

/// Who works or worked on each goal.
type AgentsByGoal<'r> = BTreeMap<EpicId, Vec<&'r AgentRow>>;

fn by_goal(rows: &[AgentRow]) -> AgentsByGoal<'_> {
    let mut agents = AgentsByGoal::new();
    for row in rows {
        if let Some((epic, _)) = row.work {
            agents.entry(epic).or_default().push(row);
        }
    }
    agents
}

/// One conversation.
#[derive(Debug)]
pub struct SessionBranch<'r> {
    /// Its name.
    pub name: &'r ConversationName,
    /// Its turns, the latest last; never empty.
    pub turns: Vec<&'r Turn>,
}

impl SessionBranch<'_> {
    /// Whose agents work for it.
    #[must_use]
    pub fn project(&self) -> Option<&ProjectName> {
        self.turns.last().map(|turn| &turn.project)
    }

    fn moved(&self) -> BusTime {
        self.turns.iter().map(|turn| turn.since).max().unwrap_or(BusTime(0))
    }
}

impl<'r> SessionTree<'r> {
    /// What the records say of a person: at most so many of the latest turns of each conversation.
    #[must_use]
    pub fn of(
        records: &'r Records,
        rows: &'r [AgentRow],
        human: &'r HumanName,
        turns_max: usize,
    ) -> Self {
        let turns = records.turns.values().filter(|turn| turn.id.human == *human).collect();
        Self::with(human, turns, rows, Rc::new(by_goal(rows)), turns_max)
    }

    /// The trees of everybody who has conversations, this person's first.
    #[must_use]
    pub fn everybody(
        records: &'r Records,
        rows: &'r [AgentRow],
        first: Option<&HumanName>,
    ) -> Vec<Self> {
        let agents = Rc::new(by_goal(rows));
        let mut people: BTreeMap<&HumanName, Vec<&Turn>> = BTreeMap::new();
        for turn in records.turns.values() {
            people.entry(&turn.id.human).or_default().push(turn);
        }
        let tree = |(human, turns)| Self::with(human, turns, rows, Rc::clone(&agents), TURNS_SHOWN);
        let mut trees: Vec<Self> = people.into_iter().map(tree).collect();
        trees.sort_by_key(|tree| Some(tree.human) != first);
        trees
    }

    fn with(
        human: &'r HumanName,
        turns: Vec<&'r Turn>,
        rows: &'r [AgentRow],
        agents: Rc<AgentsByGoal<'r>>,
        turns_max: usize,
    ) -> Self {
        let mut branches: BTreeMap<&ConversationName, Vec<&Turn>> = BTreeMap::new();
        for turn in turns {
            branches.entry(&turn.id.conversation).or_default().push(turn);
        }
        let branch = |(name, mut turns): (_, Vec<_>)| {
            turns.drain(..turns.len().saturating_sub(turns_max));
            SessionBranch { name, turns }
        };
        let mut conversations: Vec<SessionBranch<'_>> = branches.into_iter().map(branch).collect();
        conversations.sort_by_key(|branch| Reverse(branch.moved()));
        let root = find(rows, &AgentId::Io(human.clone()));
        Self { human, root, conversations, agents }
    }

    /// Whether the person never had an orchestrator.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.is_none() && self.conversations.is_empty()
    }

    /// The agents that work or worked for a turn.
    #[must_use]
    pub fn agents(&self, turn: &Turn) -> &[&'r AgentRow] {
        turn.epic.and_then(|epic| self.agents.get(&epic)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
#[path = "tests/session_trees.rs"]
mod tests;
