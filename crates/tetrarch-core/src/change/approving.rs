//! How many people have to approve a change, who may, and which approvals count (spec 09, Human gate).
//! What becomes of the change then is the owner's.

use std::collections::{BTreeMap, BTreeSet};

use super::Change;
use crate::id::{HumanName, Principal, ProjectName};
use crate::time::BusTime;

/// How many people have to approve a change, and who may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approvals {
    /// How many, where nothing is said of a project; at least one.
    pub needed: u32,
    /// How many in these projects.
    pub of: BTreeMap<ProjectName, u32>,
    /// Who may; empty: every human.
    pub approvers: BTreeSet<HumanName>,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { needed: 1, of: BTreeMap::new(), approvers: BTreeSet::new() }
    }
}

impl Approvals {
    /// How many a change of this project needs.
    #[must_use]
    pub fn needed(&self, project: Option<&ProjectName>) -> u32 {
        let said = project.and_then(|project| self.of.get(project)).copied();
        said.unwrap_or(self.needed).max(1)
    }

    /// Whether the approval of this one is taken.
    #[must_use]
    pub fn may(&self, by: &Principal) -> bool {
        match by {
            Principal::Human(name) => self.approvers.is_empty() || self.approvers.contains(name),
            Principal::Agent(_) => false,
        }
    }
}

/// A human's yes to one action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Whose.
    pub by: Principal,
    /// The digest of what was approved.
    pub digest: String,
    /// When it was given.
    pub at: BusTime,
    /// From when it counts no more.
    pub until: BusTime,
    /// When it was used; it can be once.
    pub used: Option<BusTime>,
}

/// Why a change may not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotApproved {
    /// Nobody approved it.
    #[error("it has no approval; review it in `tetrarch inbox` and approve it")]
    Missing,
    /// The approval was used.
    #[error("its approval was already used; an approval can be used once")]
    Used,
    /// Not as many people as have to.
    #[error(
        "it has {given} of {needed} required approvals; `tetrarch inbox` shows it to the other approvers"
    )]
    TooFew {
        /// People whose approval counts.
        given: usize,
        /// How many there have to be.
        needed: u32,
    },
    /// The approval is for something else.
    #[error("the approval is for {approved}, but {present} would be applied")]
    OtherDigest {
        /// The digest that was approved.
        approved: String,
        /// That of what is there.
        present: String,
    },
    /// The approval is too old.
    #[error("its approval expired {by_ms} ms ago")]
    Expired {
        /// Milliseconds since it did.
        by_ms: u64,
    },
    /// It was not given by a human.
    #[error("{by} is not a human")]
    NotHuman {
        /// Whose it is.
        by: Principal,
    },
}

impl Change {
    /// Whether it may be applied now (spec 09, Human gate; spec 10, invariant 19): by approvals of as many
    /// different humans as it needs, for exactly what is there, not expired and not used. Gives the latest.
    ///
    /// # Errors
    /// What is missing.
    pub fn approved_at(&self, now: BusTime) -> Result<&Approval, NotApproved> {
        let given = self.people(|approval| self.counts(approval, now).is_ok());
        if given > 0 && !self.is_enough(given) {
            return Err(NotApproved::TooFew { given, needed: self.needed });
        }
        let approval = self.approval.as_ref().ok_or(NotApproved::Missing)?;
        self.counts(approval, now)?;
        Ok(approval)
    }

    /// The approvals of the present round, which no order to merge has used.
    pub fn given(&self) -> impl Iterator<Item = &Approval> {
        self.earlier.iter().chain(&self.approval).filter(|approval| approval.used.is_none())
    }

    /// Different people who approved what is there, by those approvals that are taken.
    #[must_use]
    pub fn people(&self, taken: impl Fn(&Approval) -> bool) -> usize {
        let all = self.earlier.iter().chain(&self.approval).filter(|approval| taken(approval));
        all.map(|approval| &approval.by).collect::<BTreeSet<_>>().len()
    }

    /// Whether so many people are as many as it needs.
    #[must_use]
    pub fn is_enough(&self, people: usize) -> bool {
        u32::try_from(people).is_ok_and(|people| people >= self.needed)
    }

    /// Whether one approval counts: of a human, for exactly what is there, not used, not expired.
    fn counts(&self, approval: &Approval, now: BusTime) -> Result<(), NotApproved> {
        if approval.by.agent().is_some() {
            return Err(NotApproved::NotHuman { by: approval.by.clone() });
        }
        let present = self.made.action.digest();
        if approval.digest != present {
            return Err(NotApproved::OtherDigest { approved: approval.digest.clone(), present });
        }
        if approval.used.is_some() {
            return Err(NotApproved::Used);
        }
        if approval.until <= now {
            return Err(NotApproved::Expired { by_ms: (now - approval.until).0 });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
