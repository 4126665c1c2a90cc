//! The session tree of one person, drawn and as JSON. What is in it is `tetrarch-view`'s.

use serde_json::{Value, json};
use tetrarch_core::conversation::Turn;
use tetrarch_core::ledger::Record;
use tetrarch_view::amount::cost;
use tetrarch_view::row::AgentRow;
use tetrarch_view::session_tree::{SessionBranch, SessionTree};

use super::{TreeOptions, line, prefix};
use crate::output::{Cell, align, one_line};
use crate::{CliResult, StateSnapshot};

/// Characters of a turn's text that a line shows.
const SAID_SHOWN: usize = 60;

/// As lines for people.
pub(super) fn draw(tree: &SessionTree<'_>, options: &TreeOptions) -> String {
    let mut lines: Vec<Vec<Cell>> = tree.root.map(|row| line(row, "")).into_iter().collect();
    let place = |more: &[bool]| prefix(more, options.drawn);
    let last = tree.conversations.len().saturating_sub(1);
    for (at, branch) in tree.conversations.iter().enumerate() {
        let more = at < last;
        let name = format!("{}{}", place(&[more]), branch.name);
        lines.push(vec![name.into(), "conversation".into(), Cell::some(branch.project())]);
        for (index, turn) in branch.turns.iter().enumerate() {
            let next = index + 1 < branch.turns.len();
            let said = one_line(&json!(turn.text));
            lines.push(vec![
                format!("{}turn {}", place(&[more, next]), turn.id.number).into(),
                turn.lane_and_mode().into(),
                Cell::state(turn.status.as_str()),
                said.chars().take(SAID_SHOWN).collect::<String>().as_str().into(),
            ]);
            let agents = tree.agents(turn);
            for (count, (depth, row)) in agents.iter().enumerate() {
                // Whether another of its level follows, below the same.
                let follows = |level: usize| {
                    let rest = agents.iter().skip(count + 1).map(|(depth, _)| *depth);
                    rest.take_while(|at| *at >= level).any(|at| at == level)
                };
                let levels: Vec<bool> = (0..=*depth).map(follows).collect();
                let spent = Cell::some((row.cost_micro > 0).then(|| cost(row.cost_micro)));
                let shown = line(row, &place(&[&[more, next], levels.as_slice()].concat()));
                lines.push(shown.into_iter().chain([spent]).collect());
            }
        }
    }
    align(&lines, options.coloured)
}

/// As programs get it.
///
/// # Errors
/// A record cannot be written.
pub(super) fn json(tree: &SessionTree<'_>, snapshot: &StateSnapshot) -> CliResult<Value> {
    let agent = |row: &&AgentRow| {
        let agent = snapshot.records.agents.get(&row.id).cloned();
        agent.map(|agent| snapshot.json(&Record::Agent(Box::new(agent)))).transpose()
    };
    let turn = |turn: &&Turn| {
        let agents: CliResult<Vec<_>> =
            tree.agents(turn).iter().map(|(_, row)| agent(row)).collect();
        let record = snapshot.json(&Record::Turn(Box::new((*turn).clone())))?;
        Ok(json!({"turn": record, "agents": agents?}))
    };
    let conversation = |branch: &SessionBranch<'_>| {
        let turns: CliResult<Vec<Value>> = branch.turns.iter().map(turn).collect();
        Ok(json!({"conversation": branch.name.as_str(), "turns": turns?}))
    };
    let all: CliResult<Vec<Value>> = tree.conversations.iter().map(conversation).collect();
    let root = tree.root.as_ref().map(agent).transpose()?.flatten();
    Ok(json!({"agent": root, "conversations": all?}))
}
