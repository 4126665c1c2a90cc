//! What people started: their conversations, each turn, and the agents that work or worked for it (spec 07, Session
//! tree). It is put together from the records and kept nowhere.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use tetrarch_core::conversation::{Turn, TurnId, turn_of};
use tetrarch_core::id::{AgentId, ConversationName, EpicId, HumanName, ProjectName};
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;

use crate::lineage::Lineage;
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
    agents: Rc<AgentsByTurn<'r>>,
}

/// Who works or worked for each turn: an agent after the one that it works for, with how far it stands below the first.
type AgentsByTurn<'r> = BTreeMap<TurnId, Vec<(usize, &'r AgentRow)>>;

fn by_turn<'r>(records: &'r Records, rows: &'r [AgentRow]) -> AgentsByTurn<'r> {
    // A turn names its latest goal alone; each goal names its turn, until it is put away.
    let latest = records.turns.values().filter_map(|turn| Some((turn.epic?, turn.id.clone())));
    let of_goals = records.goals.values().filter_map(|goal| Some((goal.id, turn_of(goal)?)));
    let turns: BTreeMap<EpicId, TurnId> = latest.chain(of_goals).collect();
    let turn = |row: &AgentRow| turns.get(&row.work?.0);
    let mut agents = AgentsByTurn::new();
    let lineage = Lineage::of(rows, |row| turn(row).is_some());
    lineage.walk(|row, more| {
        if let Some(turn) = turn(row) {
            agents.entry(turn.clone()).or_default().push((more.len(), row));
        }
        true
    });
    for agents in agents.values_mut() {
        let least = agents.iter().map(|(depth, _)| *depth).min().unwrap_or(0);
        agents.iter_mut().for_each(|(depth, _)| *depth -= least);
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
        Self::with(human, turns, rows, Rc::new(by_turn(records, rows)), turns_max)
    }

    /// The trees of everybody who has conversations, this person's first.
    #[must_use]
    pub fn everybody(
        records: &'r Records,
        rows: &'r [AgentRow],
        first: Option<&HumanName>,
    ) -> Vec<Self> {
        let agents = Rc::new(by_turn(records, rows));
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
        agents: Rc<AgentsByTurn<'r>>,
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

    /// The agents that work or worked for a turn, for any of its goals: each after the one that it works for, with
    /// how far it stands below the first.
    #[must_use]
    pub fn agents(&self, turn: &Turn) -> &[(usize, &'r AgentRow)] {
        self.agents.get(&turn.id).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
#[path = "tests/session_trees.rs"]
mod tests;
