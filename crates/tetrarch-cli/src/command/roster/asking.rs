//! What the roster asks the owner for, and the diffs that it reads: each answered by one input.

use tetrarch_core::id::ChangeId;
use tetrarch_core::request::Op;
use tetrarch_roster::input::RosterInput;
use tokio::sync::mpsc::Sender;

use crate::command::change::diff_to_decide;
use crate::{HumanClient, new_id};

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
