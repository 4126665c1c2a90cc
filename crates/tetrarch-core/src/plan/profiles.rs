//! Which profile executes a node (spec 12, Profiles), and which nodes of a plan have none. Such work is refused
//! before it begins (docs/decisions/0060): by the owner, and earlier by the command line.

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::{DEFAULT_PROFILE, ORCHESTRATOR_PROFILE, Profile, is_command};
use crate::id::{NodeId, ProfileName};
use crate::plan::{Node, graph};

/// The profile that executes a node: its own, else the project's default.
#[must_use]
pub fn executing(node: Option<&Node>) -> &str {
    let named = node.and_then(|node| node.profile.as_ref());
    named.map_or(DEFAULT_PROFILE, ProfileName::as_str)
}

/// The profile of work that nobody planned, in a project without the profile `default`: the only one whose agents
/// take a task in words. A command that ends well has not done what it never read.
#[must_use]
pub fn sole<'a>(known: impl IntoIterator<Item = &'a Profile>) -> Option<&'a ProfileName> {
    let known: Vec<&Profile> = known.into_iter().collect();
    let reads_it =
        |it: &&&Profile| it.kind.calls_models() && it.name.as_str() != ORCHESTRATOR_PROFILE;
    let names: BTreeSet<&ProfileName> = known.iter().filter(reads_it).map(|it| &it.name).collect();
    let is_needed = known.iter().all(|it| it.name.as_str() != DEFAULT_PROFILE);
    let mut names = names.into_iter();
    names.next().filter(|_| is_needed && names.next().is_none())
}

/// Nodes that name profiles which are not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Each profile that is missing, with what needs it.
    pub needed: BTreeMap<String, Vec<String>>,
    /// The profiles that there are; commands of plans, which nobody names, are not among them.
    pub known: Vec<String>,
}

impl Missing {
    /// What is wrong, in words.
    #[must_use]
    pub fn problem(&self) -> String {
        let needed = self.needed.iter().map(|(profile, by)| {
            let (by, need) = (by.join(", "), if by.len() == 1 { "needs" } else { "need" });
            format!("{by} {need} the profile {profile:?}")
        });
        let needed: Vec<String> = needed.collect();
        let known = match self.known.as_slice() {
            [] => "there are no profiles".to_owned(),
            known => format!("available: {}", known.join(", ")),
        };
        format!("no profile for this work: {}; {known}", needed.join("; "))
    }

    /// A profile that is missing: `default` rather than another.
    #[must_use]
    pub fn first(&self) -> &str {
        let first =
            self.needed.keys().next().filter(|_| !self.needed.contains_key(DEFAULT_PROFILE));
        first.map_or(DEFAULT_PROFILE, String::as_str)
    }

    /// What to do about it in a project, in words.
    #[must_use]
    pub fn cure(&self, project: &str) -> String {
        format!(
            "give a task or its review a command with `run:`, name a profile with `profile:`, add {name:?} under \
             `profiles:` in the plan, or {}",
            Self::cure_of(project),
            name = self.first()
        )
    }

    /// What to do about it in a project where there is no plan to change.
    #[must_use]
    pub fn cure_of(project: &str) -> String {
        format!("give the project one: `tetrarch profile apply {project} <file>`")
    }
}

/// A leaf, or its review, and the profile that executes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need<'a> {
    /// The leaf.
    pub node: NodeId,
    /// Whether its review needs it.
    pub review: bool,
    /// The profile's name.
    pub profile: &'a str,
}

/// What the leaves of a plan and their reviews need.
#[must_use]
pub fn needs(nodes: &BTreeMap<NodeId, Node>) -> Vec<Need<'_>> {
    let mut needs = Vec::new();
    for node in nodes.values().filter(|node| graph::is_leaf(nodes, node.id)) {
        needs.push(Need { node: node.id, review: false, profile: executing(Some(node)) });
        let Some(review) = &node.review else { continue };
        // A review that names none is the orchestrator's, else its node's profile does it, which a command cannot.
        let own = is_command(executing(Some(node))).then_some(ORCHESTRATOR_PROFILE);
        if let Some(profile) = review.profile.as_ref().map(ProfileName::as_str).or(own) {
            needs.push(Need { node: node.id, review: true, profile });
        }
    }
    needs
}

/// The leaves of a plan, and their reviews, whose profile is not among those there are.
///
/// # Errors
/// All of them at once.
pub fn check<'a>(
    nodes: &BTreeMap<NodeId, Node>,
    looked_at: impl Fn(&NodeId) -> bool,
    known: impl IntoIterator<Item = &'a ProfileName>,
) -> Result<(), Missing> {
    let known: BTreeSet<&str> = known.into_iter().map(ProfileName::as_str).collect();
    let mut needed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let missing = |need: &Need<'_>| looked_at(&need.node) && !known.contains(need.profile);
    for need in needs(nodes).into_iter().filter(missing) {
        let review = nodes.get(&need.node).and_then(|node| node.review.as_ref());
        let by = match review.filter(|_| need.review) {
            Some(review) if review.profile.is_none() => "the review of the command ",
            Some(_) => "the review of ",
            None => "",
        };
        needed.entry(need.profile.to_owned()).or_default().push(format!("{by}{}", need.node));
    }
    if needed.is_empty() {
        return Ok(());
    }
    let known = known.into_iter().filter(|name| !is_command(name));
    Err(Missing { needed, known: known.map(str::to_owned).collect() })
}
