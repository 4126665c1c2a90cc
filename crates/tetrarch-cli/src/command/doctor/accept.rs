//! `doctor --accept-ledger`: a human decides that the owner goes on with a ledger that it does not
//! recognize (spec 02, Amnesia guard). Only who has the control plane's credential can.

use serde_json::json;
use tetrarch_bus::creds::Party;
use tetrarch_engine::{Acceptance, Accepted, accept_ledger};

use crate::context::Context;
use crate::exit::CliError;
use crate::output;
use crate::process::{Instance, address};

/// Accepts the ledger and prints what was done.
///
/// # Errors
/// Its last sequence is another, an owner is at work, or the credential does not allow it.
pub(super) async fn run(context: &Context, seq: u64) -> Result<(), CliError> {
    let bus = context.connect(&Party::Control, "doctor").await?;
    let acceptance = Acceptance {
        seq,
        by: context.human()?,
        instance: Instance::fresh().id,
        address: address(),
        data_dir: context.config.bus.data_dir.clone(),
    };
    let Accepted { because, filled, restored, last } = accept_ledger(bus, acceptance).await?;
    let record = json!({
        "accepted": because.is_some(),
        "because": because,
        "filled": filled,
        "restored": restored,
        "last": last,
    });
    let shown = || match &because {
        None => {
            format!("the ledger is the one that is remembered, through {last}: nothing was done")
        }
        Some(because) => format!(
            "accepted the ledger through {seq}, though {because}\n\
             {filled} sequences were filled, {restored} records are written again as STATE has them; \
             it goes on after {last}\nnext: start the owner, then tetrarch doctor --check-ledger"
        ),
    };
    // A reader that went away has seen enough.
    output::record(context.output, &record, shown).map(drop)
}
