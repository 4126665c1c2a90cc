//! Records of questions to people.

use tetrarch_core::question::{Question, QuestionStatus};

use super::wire::{message, words};

words!(QuestionStatus);

message! { Question, QuestionRecord {
    id, agent, run, epic, node, escalates, to, text, options, status, answer, answered_by,
    asked: asked_unix_ms, since: since_unix_ms,
} }
