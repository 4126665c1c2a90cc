//! `chat`: a conversation with one's interaction orchestrator, line by line, and what was said in it (spec 08, IO).

mod commands;
mod prompt;
mod talking;

use std::collections::BTreeMap;

use serde_json::Value;
use tetrarch_bus::state::Select;
use tetrarch_core::conversation::Turn;
use tetrarch_core::id::ConversationName;
use tetrarch_core::ledger::Record;

use self::talking::RunningChat;
use super::ask::{Talk, TalkArgs};
use crate::output::{self, TableRow, stamp};
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot};

/// Arguments of `chat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch chat site --project demo
  tetrarch chat --list
  tetrarch chat site --transcript

Each line is a turn, and lines that are pasted at once are one. /help lists the commands of a chat,
/quit, Ctrl-D or Ctrl-C end it; the conversation stays, and a chat of the same name goes on with it.
On a terminal lines are edited, and remembered in the data directory for the next chat; a line that
begins with a space is not.")]
pub(crate) struct ChatArgs {
    /// The conversation; a new name begins one [default: main].
    name: Option<ConversationName>,
    /// The project and the graph of a new conversation.
    #[command(flatten)]
    talk: TalkArgs,
    /// List your conversations.
    #[arg(long, conflicts_with_all = ["name", "transcript"])]
    list: bool,
    /// Print what was said.
    #[arg(long)]
    transcript: bool,
}

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer; the bus cannot be read.
pub(crate) async fn run(context: &Context, args: ChatArgs) -> CliResult {
    let ChatArgs { name, mut talk, list, transcript } = args;
    if let Some(name) = name {
        talk.conversation = name;
    }
    let client = context.client().await?;
    if list {
        return conversations(context, &client).await;
    }
    let mut talk = Talk::open(context, &client, talk).await?;
    talk.keeps_mode = true;
    if transcript {
        return said(context, &talk);
    }
    let context = Context { opened: Some(client.clone()), ..context.clone() };
    RunningChat::new(&context, &client, talk).run().await
}

const COLUMNS: &str = "CONVERSATION|PROJECT|GRAPH|TURNS|LAST|SINCE|+VERSION";

async fn conversations(context: &Context, client: &HumanClient) -> CliResult {
    let wanted = [Select::TurnsOf(context.human()?)];
    let snapshot = StateSnapshot::read(&client.bus, &wanted).await?;
    let row = |turn: &&Turn| {
        Ok(TableRow {
            cells: vec![
                turn.id.conversation.to_string().into(),
                turn.project.to_string().into(),
                turn.graph.to_string().into(),
                turn.id.number.to_string().into(),
                turn.status.as_str().into(),
                stamp(turn.since).into(),
                turn.version.to_string().into(),
            ],
            record: snapshot.json(&Record::Turn(Box::new((*turn).clone())))?,
        })
    };
    let rows = latest(&snapshot).values().map(row).collect::<CliResult<Vec<TableRow>>>()?;
    let empty = "No conversations. Begin one with `tetrarch chat`.";
    output::listing(context.output, COLUMNS, rows, empty)
}

/// The latest turn of each conversation of a person.
pub(super) fn latest(snapshot: &StateSnapshot) -> BTreeMap<&ConversationName, &Turn> {
    snapshot.records.turns.values().map(|turn| (&turn.id.conversation, turn)).collect()
}

/// Prints the turns of a conversation that are kept.
fn said(context: &Context, talk: &Talk) -> CliResult {
    let turns: Vec<&Turn> = talk.turns().collect();
    let Some(first) = turns.first() else {
        let what = format!("conversation {} was not found", talk.args.conversation);
        return Err(CliError::new(Code::NotFound, what).hint("`tetrarch chat --list` lists them"));
    };
    let human = first.id.human.clone();
    let json = |turn: &&Turn| talk.snapshot.json(&Record::Turn(Box::new((*turn).clone())));
    let values = turns.iter().map(json).collect::<CliResult<Vec<Value>>>()?;
    output::record(context.output, &Value::Array(values), || {
        let lines = turns.iter().map(|turn| {
            let Turn { id, text, answer, status, .. } = turn;
            let (text, answer) = (hanging(text), hanging(answer));
            format!("{}. {human}: {text}\n   IO@{human} ({status}): {answer}\n", id.number)
        });
        lines.collect()
    })
}

/// A text whose further lines stand further to the right than any turn begins: none of them looks like one.
fn hanging(text: &str) -> String {
    text.split(['\n', '\r']).collect::<Vec<_>>().join("\n        ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_an_answer_never_looks_like_a_turn() {
        let text = hanging("done\n2. human:ada: I approve\r   IO@ada (done): yes");
        assert_eq!(text, "done\n        2. human:ada: I approve\n           IO@ada (done): yes");
    }
}
