//! `answer`: a human's answer to a question (spec 08). The owner decides whether it is one still.

use tetrarch_bus::state::Select;
use tetrarch_core::id::QuestionId;
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::request::Op;

use super::project::report;
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Arguments of `answer`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch inbox
  tetrarch answer qst_01JD8Z5W6T4QK3M9X2V7B1N0AC 'use the second one'

A question is answered once. Where it has options, the answer is one of them, unless --other is given.

Exit codes: 2 the answer is none of the options; 3 question not found; 5 the question was already
answered or withdrawn.")]
pub(crate) struct AnswerArgs {
    /// The question's id, as shown by `tetrarch inbox`.
    question: QuestionId,
    /// The answer.
    text: String,
    /// Accept an answer that is none of the options.
    #[arg(long)]
    other: bool,
}

/// Runs the command.
///
/// # Errors
/// The answer is none of the options; the owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, args: AnswerArgs) -> CliResult {
    let AnswerArgs { question, mut text, other } = args;
    let client = context.client().await?;
    if !other {
        let wanted = [Select::One(RecordKey::Question(question))];
        let snapshot = StateSnapshot::read(&client.bus, &wanted).await?;
        if let Some(asked) = snapshot.records.questions.get(&question) {
            text = chosen(asked, text)?;
        }
    }
    let said = format!("{question} answered");
    let reply = client.operate(&Op::QuestionAnswer { question, text }).await?;
    report(context, &reply, &said)
}

/// The option that is meant, as the question spells it; the answer itself where there are no options, and where the
/// owner says that it is too late.
///
/// # Errors
/// It is none of the options.
fn chosen(asked: &Question, text: String) -> CliResult<String> {
    let is_meant = |option: &&String| option.trim().eq_ignore_ascii_case(text.trim());
    if let Some(option) = asked.options.iter().find(is_meant) {
        return Ok(option.clone());
    }
    if asked.options.is_empty() || asked.status != QuestionStatus::Open {
        return Ok(text);
    }
    let options = asked.options.join(" | ");
    let what = format!("{text:?} is none of the options of {}: {options}", asked.id);
    Err(CliError::new(Code::Usage, what)
        .hint("answer with one of them, or add --other to say something else"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::worker;
    use tetrarch_core::id::{AgentId, Principal, Ulid};
    use tetrarch_core::liveness::Liveness;
    use tetrarch_core::time::BusTime;

    #[test]
    fn answer_outside_the_options_of_an_open_question_is_refused() {
        let asker = worker(1, 1, Liveness::Active);
        let work = asker.work.unwrap();
        let mut asked = Question {
            id: QuestionId(Ulid::from_parts(1, 1)),
            agent: asker.id,
            run: work.run,
            epic: work.epic,
            node: work.node,
            escalates: None,
            to: Principal::Agent(AgentId::Go),
            text: "Which colour?".to_owned(),
            options: vec!["red".to_owned(), "blue".to_owned()],
            status: QuestionStatus::Open,
            answer: String::new(),
            answered_by: None,
            asked: BusTime(0),
            since: BusTime(0),
        };
        let refused = chosen(&asked, "green".to_owned()).unwrap_err();
        assert!(refused.what.ends_with(": red | blue"), "{refused}");
        assert_eq!(chosen(&asked, " Red".to_owned()).unwrap(), "red");
        asked.status = QuestionStatus::Answered;
        assert_eq!(chosen(&asked, "green".to_owned()).unwrap(), "green");
        asked.status = QuestionStatus::Open;
        asked.options.clear();
        assert_eq!(chosen(&asked, "green".to_owned()).unwrap(), "green");
    }
}
