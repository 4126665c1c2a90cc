//! `answer`: a human's answer to a question (spec 08). The owner decides whether it is one still.

use tetrarch_core::id::QuestionId;
use tetrarch_core::request::Op;

use super::project::ask;
use crate::{CliResult, Context};

/// Arguments of `answer`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch inbox
  tetrarch answer qst_01JD8Z5W6T4QK3M9X2V7B1N0AC 'use the second one'

A question is answered once.

Exit codes: 3 question not found; 5 the question was already answered or withdrawn.")]
pub(crate) struct AnswerArgs {
    /// The question's id, as shown by `tetrarch inbox`.
    question: QuestionId,
    /// The answer.
    text: String,
}

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, args: AnswerArgs) -> CliResult {
    let AnswerArgs { question, text } = args;
    let said = format!("{question} answered");
    ask(context, &Op::QuestionAnswer { question, text }, |_| said).await
}
