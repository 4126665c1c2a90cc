//! Agents by parent, the top first: whom a tree shows, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_core::id::{AgentId, EpicId, NodeId};
use tetrarch_core::role::Role;
use tetrarch_core::time::BusTime;

use crate::row::AgentRow;

/// Those that are shown, by parent.
#[derive(Debug, Default)]
pub struct Lineage<'a> {
    shown: BTreeMap<&'a AgentId, &'a AgentRow>,
    children: BTreeMap<&'a AgentId, Vec<&'a AgentRow>>,
}

impl<'a> Lineage<'a> {
    /// Those that are wanted, and those above them.
    #[must_use]
    pub fn of(rows: &'a [AgentRow], wanted: impl Fn(&AgentRow) -> bool) -> Self {
        let known: BTreeMap<&AgentId, &AgentRow> = rows.iter().map(|row| (&row.id, row)).collect();
        let mut shown = BTreeMap::new();
        for row in rows.iter().filter(|row| wanted(row)) {
            let mut next = Some(row);
            while let Some(row) = next {
                if shown.insert(&row.id, row).is_some() {
                    break;
                }
                next = row.parent.as_ref().and_then(|parent| known.get(parent)).copied();
            }
        }
        let mut children: BTreeMap<&AgentId, Vec<&AgentRow>> = BTreeMap::new();
        for row in shown.values().copied() {
            if let Some(parent) = &row.parent {
                children.entry(parent).or_default().push(row);
            }
        }
        for siblings in children.values_mut() {
            siblings.sort_by_cached_key(|row| place_among_siblings(row));
        }
        Self { shown, children }
    }

    /// Whether nobody is shown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// GO, and agents whose parent is not known.
    #[must_use]
    pub fn roots(&self) -> Vec<&'a AgentRow> {
        let is_root = |row: &&&AgentRow| {
            row.parent.as_ref().is_none_or(|parent| !self.shown.contains_key(parent))
        };
        self.shown.values().filter(is_root).copied().collect()
    }

    /// Its children, in their order.
    #[must_use]
    pub fn below(&self, id: &AgentId) -> &[&'a AgentRow] {
        self.children.get(id).map_or(&[], Vec::as_slice)
    }

    /// Visits everybody, parents first, each once: with, for each level above, whether more siblings follow.
    /// Below whoever it says no to nobody is visited.
    pub fn walk(&self, mut visit: impl FnMut(&'a AgentRow, &[bool]) -> bool) {
        let (mut seen, mut more) = (BTreeSet::new(), Vec::new());
        for root in self.roots() {
            self.descend(root, &mut more, &mut seen, &mut visit);
        }
    }

    fn descend(
        &self,
        row: &'a AgentRow,
        more: &mut Vec<bool>,
        seen: &mut BTreeSet<&'a AgentId>,
        visit: &mut impl FnMut(&'a AgentRow, &[bool]) -> bool,
    ) {
        if !seen.insert(&row.id) || !visit(row, more) {
            return;
        }
        let below = self.below(&row.id);
        for (at, child) in below.iter().enumerate() {
            more.push(at + 1 < below.len());
            self.descend(child, more, seen, visit);
            more.pop();
        }
    }

    /// Everybody below, children and theirs.
    #[must_use]
    pub fn all_below(&self, id: &AgentId) -> Vec<&'a AgentRow> {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::from([id.clone()]));
        let mut next: Vec<&AgentRow> = self.below(id).to_vec();
        while let Some(row) = next.pop() {
            if seen.insert(row.id.clone()) {
                found.push(row);
                next.extend(self.below(&row.id));
            }
        }
        found
    }
}

/// Orchestrators by role, then by name; sub-agents in the order of their work.
fn place_among_siblings(row: &AgentRow) -> (Role, Option<(EpicId, NodeId)>, BusTime, AgentId) {
    let role = Role::of(&row.id);
    // Specialists, reviewers and workers of one plan stand together.
    let role = if role.takes_slot() { Role::Worker } else { role };
    (role, row.work, row.created, row.id.clone())
}
