//! Turns of conversations, found by whose they are and by the goals that are worked on for them; graphs and notes.

use super::{Ended, Records};
use crate::conversation::{Turn, TurnId};
use crate::graph::GraphRecord;
use crate::id::{ConversationName, EpicId, GraphName, HumanName, NoteName, ProjectName};
use crate::note::ProjectNote;

impl Records {
    pub(super) fn put_graph(&mut self, graph: GraphRecord) {
        self.graphs.insert((graph.project.clone(), graph.name.clone()), graph);
    }

    pub(super) fn remove_graph(&mut self, project: &ProjectName, name: &GraphName) {
        self.graphs.remove(&(project.clone(), name.clone()));
    }

    pub(super) fn put_note(&mut self, note: ProjectNote) {
        self.notes.insert((note.project.clone(), note.name.clone()), note);
    }

    pub(super) fn remove_note(&mut self, project: &ProjectName, name: &NoteName) {
        self.notes.remove(&(project.clone(), name.clone()));
    }

    pub(super) fn put_turn(&mut self, turn: Turn) {
        self.remove_turn(&turn.id);
        if turn.status.is_over() {
            self.indexes.ended.insert((turn.since, Ended::Turn(turn.id.clone())));
        } else {
            let open = self.indexes.talking.entry(turn.id.human.clone()).or_default();
            open.insert(turn.id.clone());
        }
        if let Some(epic) = turn.epic {
            self.indexes.worked_for.insert(epic, turn.id.clone());
        }
        self.turns.insert(turn.id.clone(), turn);
    }

    pub(super) fn remove_turn(&mut self, id: &TurnId) {
        let Some(turn) = self.turns.remove(id) else { return };
        self.indexes.ended.remove(&(turn.since, Ended::Turn(turn.id)));
        if let Some(epic) = turn.epic {
            self.indexes.worked_for.remove(&epic);
        }
        if let Some(open) = self.indexes.talking.get_mut(&id.human) {
            open.remove(id);
            if open.is_empty() {
                self.indexes.talking.remove(&id.human);
            }
        }
    }

    /// A person's turns that have not ended.
    pub fn open_turns(&self, human: &HumanName) -> impl Iterator<Item = &Turn> {
        let open = self.indexes.talking.get(human).into_iter().flatten();
        open.filter_map(|id| self.turns.get(id))
    }

    /// The turn that a goal is worked on for.
    #[must_use]
    pub fn turn_of(&self, epic: EpicId) -> Option<&Turn> {
        self.turns.get(self.indexes.worked_for.get(&epic)?)
    }

    /// The turns of a conversation that are kept, in order.
    pub fn turns_of(
        &self,
        human: &HumanName,
        conversation: &ConversationName,
    ) -> impl DoubleEndedIterator<Item = &Turn> {
        let id =
            |number| TurnId { human: human.clone(), conversation: conversation.clone(), number };
        self.turns.range(id(0)..=id(u64::MAX)).map(|(_, turn)| turn)
    }
}
