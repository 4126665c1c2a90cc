//! What one person started: their orchestrator, their conversations, each turn, and the agents that work or worked
//! for it (spec 07, Session tree). It is put together from the records and kept nowhere.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tetrarch_core::conversation::Turn;
use tetrarch_core::id::{AgentId, ConversationName, HumanName};
use tetrarch_core::ledger::Record;
use tetrarch_view::row::AgentRow;

use super::{TreeOptions, line, prefix};
use crate::output::{Cell, align, one_line};
use crate::{CliResult, StateSnapshot};

/// Turns of each conversation that are shown unless all are wanted: the latest.
const TURNS_SHOWN: usize = 10;

/// The tree of one person.
pub(super) struct PersonTree<'s> {
    io: AgentId,
    rows: &'s [AgentRow],
    conversations: BTreeMap<&'s ConversationName, Vec<&'s Turn>>,
}

impl<'s> PersonTree<'s> {
    /// What the records say of a person.
    pub(super) fn of(
        snapshot: &'s StateSnapshot,
        human: &HumanName,
        rows: &'s [AgentRow],
        all: bool,
    ) -> Self {
        let mut conversations: BTreeMap<&ConversationName, Vec<&Turn>> = BTreeMap::new();
        let turns = snapshot.records.turns.values().filter(|turn| turn.id.human == *human);
        for turn in turns {
            conversations.entry(&turn.id.conversation).or_default().push(turn);
        }
        for turns in conversations.values_mut().filter(|_| !all) {
            let older = turns.len().saturating_sub(TURNS_SHOWN);
            turns.drain(..older);
        }
        Self { io: AgentId::Io(human.clone()), rows, conversations }
    }

    /// Whether the person never had an orchestrator.
    pub(super) fn is_empty(&self) -> bool {
        self.root().is_none() && self.conversations.is_empty()
    }

    fn root(&self) -> Option<&'s AgentRow> {
        self.rows.iter().find(|row| row.id == self.io)
    }

    fn agents(&self, turn: &Turn) -> Vec<&'s AgentRow> {
        let of = |row: &&AgentRow| row.work.is_some_and(|(epic, _)| Some(epic) == turn.epic);
        self.rows.iter().filter(of).collect()
    }

    /// As lines for people.
    pub(super) fn draw(&self, options: &TreeOptions) -> String {
        let mut lines: Vec<Vec<Cell>> = self.root().map(|row| line(row, "")).into_iter().collect();
        let place = |more: &[bool]| prefix(more, options.drawn);
        let last = self.conversations.len().saturating_sub(1);
        for (at, (name, turns)) in self.conversations.iter().enumerate() {
            let more = at < last;
            let project = turns.last().map(|turn| turn.project.to_string()).unwrap_or_default();
            lines.push(vec![
                format!("{}{name}", place(&[more])).into(),
                "conversation".into(),
                project.as_str().into(),
            ]);
            for (index, turn) in turns.iter().enumerate() {
                let next = index + 1 < turns.len();
                let said = one_line(&json!(turn.text));
                lines.push(vec![
                    format!("{}turn {}", place(&[more, next]), turn.id.number).into(),
                    turn.lane.as_str().into(),
                    Cell::state(turn.status.as_str()),
                    said.chars().take(60).collect::<String>().as_str().into(),
                ]);
                let agents = self.agents(turn);
                for (count, row) in agents.iter().enumerate() {
                    let others = count + 1 < agents.len();
                    lines.push(line(row, &place(&[more, next, others])));
                }
            }
        }
        align(&lines, options.coloured)
    }

    /// As programs get it.
    ///
    /// # Errors
    /// A record cannot be written.
    pub(super) fn json(&self, snapshot: &StateSnapshot) -> CliResult<Value> {
        let agent = |row: &&AgentRow| {
            let agent = snapshot.records.agents.get(&row.id).cloned();
            agent.map(|agent| snapshot.json(&Record::Agent(Box::new(agent)))).transpose()
        };
        let turn = |turn: &&Turn| {
            let agents: CliResult<Vec<_>> = self.agents(turn).iter().map(agent).collect();
            let record = snapshot.json(&Record::Turn(Box::new((*turn).clone())))?;
            Ok(json!({"turn": record, "agents": agents?}))
        };
        let conversation = |(name, turns): (&&ConversationName, &Vec<&Turn>)| {
            let turns: CliResult<Vec<Value>> = turns.iter().map(turn).collect();
            Ok(json!({"conversation": name.as_str(), "turns": turns?}))
        };
        let all: CliResult<Vec<Value>> = self.conversations.iter().map(conversation).collect();
        let root = self.root().as_ref().map(agent).transpose()?.flatten();
        Ok(json!({"agent": root, "conversations": all?}))
    }
}
