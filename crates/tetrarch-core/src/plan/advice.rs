//! Which pending work to take first (spec 05, Insights): a score from the plan's shape, what people
//! and the overseer say, and age. A recommendation; who chooses is the project's orchestrator.

use std::collections::BTreeMap;

use super::insight::{Insights, of_plan};
use super::{Node, NodeStatus};
use crate::id::NodeId;
use crate::priority::Priorities;
use crate::time::{BusTime, Millis};

const DAY_MS: f64 = 86_400_000.0;

/// What a score rests on, each part from 0 to 1 and not yet weighed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Merits {
    /// Its longest path to one that depends on nothing, over the longest of all.
    pub critical_path: f64,
    /// Its PageRank over the highest.
    pub pagerank: f64,
    /// What people say.
    pub user_priority: f64,
    /// What the overseer says.
    pub overseer_priority: f64,
    /// 1 when it is new, half of it after a day.
    pub freshness: f64,
}

impl Merits {
    /// The score, from 0 to 1 (spec 05, Insights).
    #[must_use]
    pub fn score(&self) -> f64 {
        let Self { critical_path, pagerank, user_priority, overseer_priority, freshness } = self;
        0.30 * critical_path
            + 0.20 * pagerank
            + 0.25 * user_priority
            + 0.15 * overseer_priority
            + 0.10 * freshness
    }
}

/// What is known of pending work besides its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// What was said of how urgent it is.
    pub priorities: Priorities,
    /// How long it has been in the plan.
    pub age: Millis,
}

/// Pending work with its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation<K> {
    /// What.
    pub name: K,
    /// What its score rests on.
    pub merits: Merits,
    /// Its score.
    pub score: f64,
    /// Whether it can be begun now.
    pub ready: bool,
}

/// Scores pending work, the best first, equals in their order.
#[must_use]
pub fn recommend<K: Ord + Clone>(
    found: &Insights<K>,
    pending: &BTreeMap<K, Pending>,
) -> Vec<Recommendation<K>> {
    let longest = found.longest.values().copied().max().unwrap_or(0);
    let highest = found.pagerank.values().copied().fold(0.0, f64::max);
    let over = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let mut all: Vec<Recommendation<K>> = pending
        .iter()
        .map(|(name, of)| {
            let path = found.longest.get(name).copied().unwrap_or(0);
            let rank = found.pagerank.get(name).copied().unwrap_or(0.0);
            let merits = Merits {
                critical_path: over(path as f64, longest as f64),
                pagerank: over(rank, highest),
                user_priority: of.priorities.of_user().share(),
                overseer_priority: of.priorities.of_overseer().share(),
                freshness: 1.0 / (1.0 + of.age.0 as f64 / DAY_MS),
            };
            let ready = found.ready.contains(name);
            Recommendation { name: name.clone(), merits, score: merits.score(), ready }
        })
        .collect();
    all.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.name.cmp(&b.name)));
    all
}

/// What a plan says of one leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// Where it stands.
    pub status: NodeStatus,
    /// What was said of how urgent it is.
    pub priorities: Priorities,
    /// When it came into the plan.
    pub created: BusTime,
}

/// Scores the leaves of a plan that nobody has begun.
#[must_use]
pub fn of_leaves(
    nodes: &BTreeMap<NodeId, Node>,
    leaves: &BTreeMap<NodeId, Leaf>,
    now: BusTime,
) -> Vec<Recommendation<NodeId>> {
    let statuses = leaves.iter().map(|(id, leaf)| (*id, leaf.status)).collect();
    let waits = leaves
        .iter()
        .filter(|(_, leaf)| matches!(leaf.status, NodeStatus::Todo | NodeStatus::Queued));
    let pending = waits
        .map(|(id, leaf)| (*id, Pending { priorities: leaf.priorities, age: now - leaf.created }));
    recommend(&of_plan(nodes, &statuses), &pending.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::graph::tests::plan;
    use crate::plan::insight::insights;
    use crate::priority::Priority;

    const DAY: Millis = Millis::from_secs(86_400);

    fn said(user: u32, overseer: u32) -> Priorities {
        let priority = |number| Some(Priority::new(number).unwrap());
        Priorities { user: priority(user), overseer: priority(overseer) }
    }

    #[test]
    fn score_weighs_its_parts() {
        let none = Merits {
            critical_path: 0.0,
            pagerank: 0.0,
            user_priority: 0.0,
            overseer_priority: 0.0,
            freshness: 0.0,
        };
        let scores = [
            (none, 0.0),
            (Merits { critical_path: 1.0, ..none }, 0.30),
            (Merits { pagerank: 1.0, ..none }, 0.20),
            (Merits { user_priority: 1.0, ..none }, 0.25),
            (Merits { overseer_priority: 1.0, ..none }, 0.15),
            (Merits { freshness: 0.5, ..none }, 0.05),
        ];
        for (merits, expected) in scores {
            assert!((merits.score() - expected).abs() < 1e-9, "{merits:?}");
        }
    }

    /// b depends on a; nothing is done. By hand: ranks 1 : 0.5405 (a 0.6491, b 0.3509), longest 0
    /// and 1.
    #[test]
    fn two_nodes_score_as_computed_by_hand() {
        let found = insights(&["a", "b"].into(), &[("b", "a")], &BTreeSet::new());
        let pending = [
            ("a", Pending { priorities: said(100, 0), age: DAY }),
            ("b", Pending { priorities: Priorities::default(), age: Millis(0) }),
        ];
        let best = recommend(&found, &pending.into());
        let [first, second] = best.as_slice() else { panic!("{best:?}") };
        let rank = 1.0 / (1.0 + 0.85);
        assert_eq!((first.name, first.ready), ("b", false));
        let expected = 0.30 + 0.20 * rank + 0.25 * 0.5 + 0.15 * 0.5 + 0.10;
        assert!((first.score - expected).abs() < 1e-6, "{first:?}");
        assert_eq!((second.name, second.ready), ("a", true));
        let expected = 0.20 + 0.25 + 0.10 / 2.0;
        assert!((second.score - expected).abs() < 1e-6, "{second:?}");
    }

    #[test]
    fn only_unstarted_work_is_recommended() {
        use NodeStatus::{Blocked, Cancelled, Done, InProgress, Queued, Todo};
        let nodes = plan(&["P1", "T1.1", "T1.2", "T1.3", "T1.4", "T1.5", "T1.6"]);
        let statuses = [Todo, Queued, InProgress, Blocked, Done, Cancelled];
        let leaf = |(n, status)| {
            let leaf = Leaf { status, priorities: Priorities::default(), created: BusTime(0) };
            (NodeId::task(1, n), leaf)
        };
        let leaves = (1..).zip(statuses).map(leaf).collect();
        let best = of_leaves(&nodes, &leaves, BusTime(5));
        let names: Vec<String> = best.iter().map(|best| best.name.to_string()).collect();
        assert_eq!(names, ["T1.1", "T1.2"], "equals in the plan's order");
    }

    proptest! {
        #[test]
        fn order_is_total_and_deterministic(
            edges in prop::collection::vec((0u8..7, 0u8..7), 0..12),
            said in prop::collection::vec((0u32..=100, 0u32..=100, 0u64..1_000_000_000), 7),
        ) {
            let nodes: BTreeSet<u8> = (0..7).collect();
            let found = insights(&nodes, &edges, &BTreeSet::new());
            let pending: BTreeMap<u8, Pending> = (0..)
                .zip(said)
                .map(|(name, (user, overseer, age))| {
                    (name, Pending { priorities: self::said(user, overseer), age: Millis(age) })
                })
                .collect();
            let best = recommend(&found, &pending);
            prop_assert_eq!(&best, &recommend(&found, &pending));
            prop_assert_eq!(best.len(), 7);
            for pair in best.windows(2) {
                let [first, second] = pair else { continue };
                prop_assert!((0.0..=1.0 + 1e-9).contains(&first.score));
                let before = first.score > second.score
                    || first.score.total_cmp(&second.score).is_eq() && first.name < second.name;
                prop_assert!(before, "{:?} before {:?}", first, second);
            }
        }
    }
}
