//! What the roster asks the owner for, the diffs and moments that it reads, the command lines that it runs: each answered by one input.

use tetrarch_core::id::ChangeId;
use tetrarch_core::request::Op;
use tetrarch_roster::input::RosterInput;
use tetrarch_roster::past::FleetMoment;
use tetrarch_view::fold::RecordFold;
use tokio::sync::mpsc::Sender;

use crate::command::calling::{CalledProgram, CommandCall, CommandWords};
use crate::command::change::diff_to_decide;
use crate::command::replay::{self, PastImages};
use crate::history::Since;
use crate::{CliResult, HumanClient, new_id};

/// Asks the owner, and tells the request's id and the answer.
pub(super) async fn operate(client: HumanClient, tell: Sender<RosterInput>, ticket: u64, op: Op) {
    let id = new_id();
    // Whoever quits meanwhile hears no more.
    let _gone = tell.send(RosterInput::Sent { ticket, id }).await;
    let outcome = client.told(id, &op).await;
    let _gone = tell.send(RosterInput::Answered { ticket, outcome }).await;
}

/// Reads the diff of a change and tells it.
pub(super) async fn read_diff(
    client: HumanClient,
    tell: Sender<RosterInput>,
    change: ChangeId,
    digest: String,
    sha256: String,
) {
    let diff = diff_to_decide(&client, change, &sha256).await;
    let _gone = tell.send(RosterInput::Diff { change, digest, diff }).await;
}

/// Reads the fleet of a moment and tells it.
pub(super) async fn read_past(
    client: HumanClient,
    tell: Sender<RosterInput>,
    ticket: u64,
    to: String,
) {
    let read = match Since::read(&to) {
        Ok(moment) => past(&client, moment).await.map_err(|error| error.what),
        Err(why) => Err(why),
    };
    let _gone = tell.send(RosterInput::Past { ticket, read }).await;
}

async fn past(client: &HumanClient, moment: Since) -> CliResult<Box<FleetMoment>> {
    let PastImages { through, at, images, .. } = replay::past(&client.bus, moment).await?;
    Ok(Box::new(FleetMoment { seq: through, at, fold: RecordFold::past(&images) }))
}

/// Runs a command line, and tells what it printed.
pub(super) async fn run(
    program: CalledProgram,
    tell: Sender<RosterInput>,
    ticket: u64,
    line: String,
) {
    let outcome = match words(&line) {
        Some(words) => {
            CommandCall { of: &program, line: CommandWords { words, input: None } }.run().await
        }
        None => Err("a quotation mark is not closed".to_owned()),
    };
    let _gone = tell.send(RosterInput::Printed { ticket, outcome }).await;
}

/// The words of a line, as a shell reads them, without the program's name.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = shlex::split(line)?;
    if words.first().is_some_and(|word| word == "tetrarch") {
        words.remove(0);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_split_as_by_a_shell_and_loses_the_name_of_the_program() {
        for (line, read) in [
            ("goal list", Some(&["goal", "list"][..])),
            ("tetrarch why @last/T1.1", Some(&["why", "@last/T1.1"])),
            ("answer q 'use the second'", Some(&["answer", "q", "use the second"])),
            ("answer q 'open", None),
        ] {
            let read = read.map(|words| words.iter().map(ToString::to_string).collect());
            assert_eq!(words(line), read, "{line}");
        }
    }
}
