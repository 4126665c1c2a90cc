//! Questions to people and to the planner, found by what is asked of them, and how much work of an epic is kept.

use super::{Ended, Indexes, Records};
use crate::id::{AgentId, DispatchId, EpicId, QuestionId};
use crate::question::{Question, QuestionStatus};

impl Records {
    pub(super) fn put_question(&mut self, question: Question) {
        self.remove_question(question.id);
        if question.status == QuestionStatus::Open {
            self.indexes.open.insert(question.id);
        } else {
            self.indexes.ended.insert((question.since, Ended::Question(question.id)));
        }
        self.indexes.asked.entry(question.agent.clone()).or_default().insert(question.id);
        self.questions.insert(question.id, question);
    }

    pub(super) fn remove_question(&mut self, id: QuestionId) {
        let Some(question) = self.questions.remove(&id) else { return };
        self.indexes.ended.remove(&(question.since, Ended::Question(id)));
        self.indexes.open.remove(&id);
        if let Some(asked) = self.indexes.asked.get_mut(&question.agent) {
            asked.remove(&id);
            if asked.is_empty() {
                self.indexes.asked.remove(&question.agent);
            }
        }
    }

    /// Questions that are open.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.indexes.open.iter().filter_map(|id| self.questions.get(id))
    }

    /// Questions to the planner for which something is set aside.
    pub fn set_aside(&self) -> impl Iterator<Item = DispatchId> {
        self.indexes.set_aside.iter().copied()
    }

    /// Whether a run or an assignment that is kept belongs to an epic.
    #[must_use]
    pub fn is_worked_on(&self, epic: EpicId) -> bool {
        self.indexes.worked.contains_key(&epic)
    }

    /// Every question that an agent asked and that is kept.
    pub fn asked_by(&self, agent: &AgentId) -> impl Iterator<Item = &Question> {
        let ids = self.indexes.asked.get(agent).into_iter().flatten();
        ids.filter_map(|id| self.questions.get(id))
    }
}

impl Indexes {
    /// One run or assignment of an epic is kept no more.
    pub(super) fn unwork(&mut self, epic: EpicId) {
        if let Some(count) = self.worked.get_mut(&epic) {
            *count -= 1;
            if *count == 0 {
                self.worked.remove(&epic);
            }
        }
    }
}
