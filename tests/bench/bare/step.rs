//! The links of the bare chain and how a message says which one it is. Everything else in a
//! message is there for its size only.

use bytes::Bytes;

/// A link of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A request that is answered.
    Ask,
    /// A goal is given.
    Goal,
    /// Its plan is there.
    Planned,
    /// The orchestrator asks for a specialist.
    AskLead,
    /// The specialist's launch.
    LaunchLead,
    /// It is up.
    Up,
    /// It asks its orchestrator for workers.
    Sponsor,
    /// The orchestrator asks for them.
    AskLeaves,
    /// A worker's launch.
    LaunchLeaf,
    /// A worker's result, to the owner.
    LeafResult,
    /// A worker's result, to its specialist.
    LeafReady,
    /// The specialist's result.
    LeadResult,
    /// The plan is done.
    Reached,
    /// The orchestrator's result.
    GoalResult,
    /// The goal has its result.
    Done,
}

impl Step {
    const ALL: [Self; 15] = [
        Self::Ask,
        Self::Goal,
        Self::Planned,
        Self::AskLead,
        Self::LaunchLead,
        Self::Up,
        Self::Sponsor,
        Self::AskLeaves,
        Self::LaunchLeaf,
        Self::LeafResult,
        Self::LeafReady,
        Self::LeadResult,
        Self::Reached,
        Self::GoalResult,
        Self::Done,
    ];
}

/// What a message of the bare chain says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) step: Step,
    /// Which tree, or which request.
    pub(super) tree: u32,
    /// Which specialist of it.
    pub(super) lead: u8,
}

/// What begins such a message.
const MARK: u8 = 0xb5;
/// Bytes of a note.
const LENGTH: usize = 7;

impl Note {
    /// A note of a tree.
    pub(super) fn of(step: Step, tree: u32) -> Self {
        Self { step, tree, lead: 0 }
    }

    /// The same at another link.
    pub(super) fn at(self, step: Step) -> Self {
        Self { step, ..self }
    }

    /// A message of `size` bytes that says it.
    pub(super) fn written(self, size: usize) -> Bytes {
        let place = Step::ALL.iter().position(|step| *step == self.step).unwrap_or(0);
        let mut bytes = vec![MARK, u8::try_from(place).unwrap_or(0), self.lead];
        bytes.extend(self.tree.to_be_bytes());
        bytes.resize(size.max(LENGTH), b'.');
        bytes.into()
    }

    /// What a message says; none when it is no note.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [MARK, place, lead, tree @ ..] = bytes.get(..LENGTH)? else { return None };
        let step = *Step::ALL.get(usize::from(*place))?;
        Some(Self { step, tree: u32::from_be_bytes(tree.try_into().ok()?), lead: *lead })
    }
}
