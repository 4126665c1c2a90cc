//! The rows of people: who of them may ask for what (decision 0086). Each role may do what the one before it
//! may; what is in no list is for admins.

use tetrarch_core::words;

use super::super::matches;

words! {
    /// What a person is to the fleet. Everybody reads what is public; each may do more than the one before.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Person {
        /// Reads, and asks what only reads.
        Viewer = "viewer",
        /// Has work begun, changed and ended; a goal may bring the commands that it is done with.
        Operator = "operator",
        /// Decides what waits for a person: changes, drafts, questions, budgets; writes to agents.
        Approver = "approver",
        /// Whatever a person may do: also makes projects and changes profiles.
        Admin = "admin",
    }
}

const VIEWER: [&str; 7] = [
    "op.agent.status",
    "op.file.list",
    "op.note.search",
    "op.schedule.list",
    "op.todo.graph_insights",
    "op.todo.list",
    "op.todo.recommend",
];

const OPERATOR: [&str; 35] = [
    "op.agent.interrupt",
    "op.agent.pause",
    "op.agent.replace",
    "op.agent.resume",
    "op.agent.retire",
    "op.agent.rotate",
    "op.agent.steer",
    "op.apply.request",
    "op.conversation.cancel",
    "op.conversation.say",
    "op.file.release",
    "op.file.reserve",
    "op.goal.archive",
    "op.goal.cancel",
    "op.goal.create",
    "op.goal.pause",
    "op.goal.prioritise",
    "op.goal.resume",
    "op.goal.update",
    "op.host.drain",
    "op.human.join",
    "op.note.delete",
    "op.note.put",
    "op.overseer.tick",
    "op.schedule.create",
    "op.schedule.delete",
    "op.todo.add",
    "op.todo.complete",
    "op.todo.merge",
    "op.todo.plan",
    "op.todo.reprioritise",
    "op.todo.split",
    "op.work.block",
    "op.work.unblock",
    "spawn.request.*.*",
];

/// A session takes an answer, and an order to end, from whichever person writes it: mail is for those who decide.
const APPROVER: [&str; 7] = [
    "ctl.*",
    "mail.*",
    "op.approval.decide",
    "op.budget.raise",
    "op.circuit.close",
    "op.question.answer",
    "op.todo.draft",
];

impl Person {
    /// The first role whose people may publish this subject under their own name.
    #[must_use]
    pub fn least(subject: &str) -> Option<Self> {
        let may = |person: &Self| sends(*person, "*").iter().any(|row| matches(row, subject));
        Self::ALL.into_iter().find(may)
    }
}

/// What a person of this role publishes under a name.
pub(super) fn sends(person: Person, principal: &str) -> Vec<String> {
    let rows: Vec<&[&str]> = match person {
        Person::Viewer => vec![&VIEWER],
        Person::Operator => vec![&VIEWER, &OPERATOR],
        Person::Approver => vec![&VIEWER, &OPERATOR, &APPROVER],
        Person::Admin => return super::sends_as(principal),
    };
    rows.concat().into_iter().map(|row| format!("{row}.{principal}")).collect()
}
