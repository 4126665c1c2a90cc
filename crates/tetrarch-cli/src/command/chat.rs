//! `chat`: a conversation with one's interaction orchestrator, line by line, and what was said in it (spec 08, IO).

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Read, stdin};

use serde_json::Value;
use tetrarch_bus::state::Select;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnStatus};
use tetrarch_core::id::ConversationName;
use tetrarch_core::ledger::Record;
use tetrarch_core::limits::TURN_TEXT_BYTES_MAX;
use tetrarch_core::request::Op;
use tokio::sync::mpsc;

use super::ask::following::{TurnFollower, TurnNews, words_of};
use super::ask::{Talk, TalkArgs, unanswered};
use crate::output::{self, TableRow, stamp};
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot};

/// Arguments of `chat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch chat site --project demo
  tetrarch chat --list
  tetrarch chat site --transcript

Each line is a turn. /status shows the turns that have not ended, /quit ends the chat; the
conversation stays, and a chat of the same name goes on with it.")]
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
    let talk = Talk::open(context, &client, talk).await?;
    if transcript { said(context, &talk) } else { talk_here(&client, talk).await }
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

/// Lines of standard input, at most one of them ahead. A line that is too long comes in parts that are refused.
fn lines() -> mpsc::Receiver<std::io::Result<String>> {
    let (lines, taken) = mpsc::channel(1);
    std::thread::spawn(move || {
        let most = TURN_TEXT_BYTES_MAX as u64 + 2;
        loop {
            let mut line = String::new();
            let read = match stdin().lock().take(most).read_line(&mut line) {
                Ok(0) => return,
                Ok(_) => Ok(line),
                Err(error) => Err(error),
            };
            let ended = read.is_err();
            if lines.blocking_send(read).is_err() || ended {
                return;
            }
        }
    });
    taken
}

async fn talk_here(client: &HumanClient, mut talk: Talk) -> CliResult {
    let mut lines = lines();
    let open = talk.turns().rev().find(|turn| !turn.status.is_over()).cloned();
    let asks = open.as_ref().filter(|turn| turn.status == TurnStatus::Asking);
    match (asks, &open) {
        (Some(turn), _) => output::text(&turn.answer).map(drop)?,
        (None, Some(turn)) => {
            let follower = talk.follow(client, turn.id.number, 0).await?;
            follow(client, follower, &mut lines).await?;
        }
        (None, None) => {}
    }
    let (mut refused, mut undone, mut asks) = (None, false, false);
    loop {
        prompt();
        let Some(line) = lines.recv().await.transpose()? else { break };
        match line.trim() {
            "" => {}
            "/quit" => break,
            "/status" => status(client, &talk).await?,
            word if word.starts_with('/') => output::say("commands: /status, /quit"),
            _ => match talk.say(client, &line, TurnLane::Conversation).await {
                Ok(follower) => match follow(client, follower, &mut lines).await? {
                    Followed::Answered => asks = false,
                    Followed::Undone => (asks, undone) = (false, true),
                    Followed::Asks => asks = true,
                    Followed::Left => break,
                },
                // What is wrong with one line does not end the chat.
                Err(error) => {
                    output::say(&error.what);
                    refused = Some(error.code);
                }
            },
        }
    }
    // A person saw it when it was said; a program has only the exit code.
    if stdin().is_terminal() {
        return Ok(());
    }
    match refused {
        Some(code) => Err(CliError::new(code, "not every line was taken")),
        None if undone => Err(CliError::new(Code::Failed, "not every line was done")),
        None if asks => Err(CliError::new(Code::Failed, "no line answers what was asked last")),
        None => Ok(()),
    }
}

/// What following a turn came to.
enum Followed {
    /// It was answered.
    Answered,
    /// It failed, or its work was not done.
    Undone,
    /// It asks, or its agent does, and no line has answered it.
    Asks,
    /// Ctrl-C.
    Left,
}

fn prompt() {
    if output::is_terminal() {
        output::say("you:");
    }
}

/// Follows a turn to its end; the next line answers what an agent asks.
async fn follow(
    client: &HumanClient,
    mut follower: TurnFollower,
    lines: &mut mpsc::Receiver<std::io::Result<String>>,
) -> CliResult<Followed> {
    loop {
        match follower.next().await? {
            TurnNews::Progress(line) | TurnNews::Still(line) => output::say(&line),
            TurnNews::Settled(_) => {}
            TurnNews::Question(asked) => {
                output::text(&words_of(&asked))?;
                let question = asked.id;
                let Some(line) = lines.recv().await.transpose()? else {
                    return Ok(Followed::Asks);
                };
                let text = line.trim_end().to_owned();
                let answered = client.operate(&Op::QuestionAnswer { question, text }).await;
                if let Err(error) = answered {
                    output::say(&error.what);
                }
            }
            TurnNews::Ended(turn) => {
                output::text(&turn.answer)?;
                return Ok(match unanswered(&follower.snapshot, &turn) {
                    None => Followed::Answered,
                    Some(_) if turn.status == TurnStatus::Asking => Followed::Asks,
                    Some(_) => Followed::Undone,
                });
            }
            TurnNews::Interrupted => return Ok(Followed::Left),
        }
    }
}

async fn status(client: &HumanClient, talk: &Talk) -> CliResult {
    let snapshot = StateSnapshot::read(&client.bus, &[Select::TurnsOf(talk.human.clone())]).await?;
    let open = snapshot.records.open_turns(&talk.human);
    let lines: Vec<String> = open
        .map(|turn| {
            let at = turn.position.as_ref().map(|position| format!(" at {}", position.at));
            format!("{}: {} ({}){}", turn.id, turn.status, turn.lane, at.unwrap_or_default())
        })
        .collect();
    output::say(&if lines.is_empty() {
        "nothing is under way".to_owned()
    } else {
        lines.join("\n")
    });
    Ok(())
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
