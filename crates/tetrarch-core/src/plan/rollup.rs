//! Derived statuses: what a task with subtasks, a phase and a goal come to from their leaves
//! (spec 05, Roll-up). It looks at statuses only; what is ready is decided in `graph`.

use std::collections::{BTreeMap, BTreeSet};

use crate::goal::GoalStatus;
use crate::id::NodeId;
use crate::plan::NodeStatus;
use crate::plan::folding::{EndedChildren, FoldedChildren};
use crate::words::words;

/// What an epic comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    /// The status of every node; a leaf's is the one that was given.
    pub statuses: BTreeMap<NodeId, NodeStatus>,
    /// What the goal comes to.
    pub goal: GoalRollup,
    /// Where the leaves stand, those that left the plan with them.
    pub counts: NodeCounts,
    /// Leaves done of leaves not cancelled, in percent, rounded down; 0 when there are none.
    pub percent: u8,
}

words! {
    /// What a goal comes to: the same rule as for tasks and phases, with `completed` for done.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum GoalRollup {
        /// Every phase is cancelled.
        Cancelled = "cancelled",
        /// Every phase is settled and at least one is done.
        Completed = "completed",
        /// Every phase that is not settled is blocked.
        Blocked = "blocked",
        /// Work has begun.
        InProgress = "in_progress",
        /// Work is ready.
        Queued = "queued",
        /// Nothing is ready.
        Todo = "todo",
    }
}

impl GoalRollup {
    /// Where a goal that is worked on stands by it: `active` until everything is settled.
    #[must_use]
    pub fn status(self) -> GoalStatus {
        match self {
            Self::Cancelled => GoalStatus::Cancelled,
            Self::Completed => GoalStatus::Completed,
            Self::Blocked | Self::InProgress | Self::Queued | Self::Todo => GoalStatus::Active,
        }
    }

    fn of(status: NodeStatus) -> Self {
        match status {
            NodeStatus::Cancelled => Self::Cancelled,
            NodeStatus::Done => Self::Completed,
            NodeStatus::Blocked => Self::Blocked,
            NodeStatus::InProgress => Self::InProgress,
            NodeStatus::Queued => Self::Queued,
            NodeStatus::Todo => Self::Todo,
        }
    }
}

/// How many stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCounts {
    /// Not ready.
    pub todo: u32,
    /// Ready, waiting for an agent.
    pub queued: u32,
    /// Worked on.
    pub in_progress: u32,
    /// Waiting until something holds.
    pub blocked: u32,
    /// Accepted.
    pub done: u32,
    /// Given up.
    pub cancelled: u32,
}

impl NodeCounts {
    /// How many are neither done nor given up.
    #[must_use]
    pub fn unsettled(self) -> u32 {
        self.todo + self.queued + self.in_progress + self.blocked
    }

    fn add(&mut self, status: NodeStatus) {
        let count = match status {
            NodeStatus::Todo => &mut self.todo,
            NodeStatus::Queued => &mut self.queued,
            NodeStatus::InProgress => &mut self.in_progress,
            NodeStatus::Blocked => &mut self.blocked,
            NodeStatus::Done => &mut self.done,
            NodeStatus::Cancelled => &mut self.cancelled,
        };
        *count += 1;
    }

    /// Nodes of ended children that are in the plan no more; what failed of them was given up.
    fn add_folded(&mut self, ended: &EndedChildren) {
        self.done += ended.done;
        self.cancelled += ended.failed + ended.cancelled;
    }

    fn status(self) -> NodeStatus {
        let unsettled = self.unsettled();
        let settled = self.done + self.cancelled;
        if unsettled + settled == 0 {
            NodeStatus::Todo
        } else if unsettled == 0 && self.done == 0 {
            NodeStatus::Cancelled
        } else if unsettled == 0 {
            NodeStatus::Done
        } else if self.blocked == unsettled {
            NodeStatus::Blocked
        } else if self.in_progress + self.done > 0 {
            NodeStatus::InProgress
        } else if self.queued > 0 {
            NodeStatus::Queued
        } else {
            NodeStatus::Todo
        }
    }
}

/// Derives the status of every node of an epic, its goal and its progress (spec 05, Roll-up).
///
/// `leaves` holds the statuses that were given; those of nodes with children in `all`, and of
/// phases, are ignored, since they are derived. `all` names every node; a leaf without a
/// status counts as `todo`, and so does a phase without tasks. `folded` is what left the plan.
#[must_use]
pub fn rollup(
    leaves: &BTreeMap<NodeId, NodeStatus>,
    all: &[NodeId],
    folded: &FoldedChildren,
) -> Rollup {
    let known = all.iter().chain(leaves.keys()).chain(folded.keys());
    let mut nodes: BTreeSet<NodeId> = known.copied().collect();
    let ancestors: Vec<NodeId> = nodes.iter().filter_map(|id| id.parent()).collect();
    nodes.extend(ancestors.iter().filter_map(|id| id.parent()));
    nodes.extend(ancestors);

    let mut tallies: BTreeMap<NodeId, NodeCounts> = BTreeMap::new();
    let mut statuses = BTreeMap::new();
    let (mut goal, mut work) = (NodeCounts::default(), NodeCounts::default());
    for (phase, ended) in folded {
        tallies.entry(*phase).or_default().add_folded(ended);
        work.add_folded(ended);
    }
    // Backwards through the plan's order every node comes after its children.
    for id in nodes.into_iter().rev() {
        let parent = id.parent();
        let status = match (tallies.get(&id), parent) {
            (Some(children), _) => children.status(),
            (None, None) => NodeStatus::Todo,
            (None, Some(_)) => {
                let given = leaves.get(&id).copied().unwrap_or(NodeStatus::Todo);
                work.add(given);
                given
            }
        };
        parent.map_or(&mut goal, |parent| tallies.entry(parent).or_default()).add(status);
        statuses.insert(id, status);
    }
    let goal = GoalRollup::of(goal.status());
    Rollup { statuses, goal, counts: work, percent: percent(work) }
}

fn percent(work: NodeCounts) -> u8 {
    let wanted = u64::from(work.unsettled()) + u64::from(work.done);
    let percent = u64::from(work.done) * 100 / wanted.max(1);
    u8::try_from(percent).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of_tasks(children: &[NodeStatus]) -> Rollup {
        let leaves: BTreeMap<NodeId, NodeStatus> =
            (1u32..).zip(children).map(|(n, status)| (NodeId::task(1, n), *status)).collect();
        let all: Vec<NodeId> = leaves.keys().copied().chain([NodeId::phase(1)]).collect();
        rollup(&leaves, &all, &FoldedChildren::new())
    }

    /// The rule as spec 05 words it, on plain lists.
    fn reference(children: &[NodeStatus]) -> NodeStatus {
        use NodeStatus::{Blocked, Cancelled, Done, InProgress, Queued, Todo};
        let any = |wanted: &[NodeStatus]| children.iter().any(|child| wanted.contains(child));
        let mut unsettled = children.iter().filter(|child| !child.is_settled());
        if !children.is_empty() && children.iter().all(|child| *child == Cancelled) {
            Cancelled
        } else if children.iter().all(|child| child.is_settled()) && any(&[Done]) {
            Done
        } else if !children.is_empty() && unsettled.all(|child| *child == Blocked) {
            Blocked
        } else if any(&[InProgress, Done]) {
            InProgress
        } else if any(&[Queued]) {
            Queued
        } else {
            Todo
        }
    }

    #[test]
    fn every_pair_of_children_follows_the_rule() {
        for one in NodeStatus::ALL {
            for two in NodeStatus::ALL {
                let got = of_tasks(&[one, two]).statuses[&NodeId::phase(1)];
                assert_eq!(got, reference(&[one, two]), "{one} {two}");
            }
        }
    }

    #[test]
    fn rule_rows_apply_in_order() {
        use NodeStatus::{Blocked, Cancelled, Done, InProgress, Queued, Todo};
        for (children, expected) in [
            (vec![Cancelled, Cancelled], Cancelled),
            (vec![Done, Cancelled], Done),
            (vec![Done, Blocked, Blocked], Blocked),
            (vec![Cancelled, Blocked], Blocked),
            (vec![Blocked, Queued], Queued),
            (vec![Blocked, InProgress], InProgress),
            (vec![Blocked, Todo], Todo),
            (vec![Done, Todo], InProgress),
            (vec![Cancelled, Todo], Todo),
            (vec![Todo, Queued], Queued),
            (vec![Todo], Todo),
        ] {
            let got = of_tasks(&children);
            assert_eq!(got.statuses[&NodeId::phase(1)], expected, "{children:?}");
            assert_eq!(got.goal, GoalRollup::of(expected), "{children:?}");
        }
    }

    #[test]
    fn statuses_climb_through_all_three_tiers() {
        let task = NodeId::task(1, 1);
        let leaves = BTreeMap::from([
            (NodeId::subtask(1, 1, 1), NodeStatus::Done),
            (NodeId::subtask(1, 1, 2), NodeStatus::Blocked),
            (NodeId::task(1, 2), NodeStatus::Cancelled),
            // Derived, whatever is given.
            (task, NodeStatus::Done),
            (NodeId::phase(1), NodeStatus::Done),
        ]);
        let got =
            rollup(&leaves, &[NodeId::phase(1), task, NodeId::phase(2)], &FoldedChildren::new());
        assert_eq!(got.statuses[&task], NodeStatus::Blocked);
        assert_eq!(got.statuses[&NodeId::phase(1)], NodeStatus::Blocked);
        assert_eq!(got.statuses[&NodeId::phase(2)], NodeStatus::Todo);
        assert_eq!(got.goal, GoalRollup::Todo);
        assert_eq!(got.goal.status(), GoalStatus::Active);
        assert_eq!(got.percent, 50);
    }

    #[test]
    fn percent_counts_done_of_uncancelled_rounded_down() {
        use NodeStatus::{Cancelled, Done, Todo};
        for (children, expected) in [
            (vec![Todo, Done, Done], 66),
            (vec![Todo, Cancelled], 0),
            (vec![Done, Cancelled], 100),
            (vec![Cancelled], 0),
            (vec![], 0),
        ] {
            assert_eq!(of_tasks(&children).percent, expected, "{children:?}");
        }
    }

    proptest! {
        #[test]
        fn any_children_follow_the_rule(picks in prop::collection::vec(0usize..6, 0..9)) {
            let children: Vec<NodeStatus> = picks.iter().map(|pick| NodeStatus::ALL[*pick]).collect();
            prop_assert_eq!(of_tasks(&children).statuses[&NodeId::phase(1)], reference(&children));
        }
    }
}
