//! `doctor --accept-ledger`: a human decides that the owner goes on with a ledger that it does not
//! recognize (spec 02, Amnesia guard). Only who has the control plane's credential can.

use serde_json::json;
use tetrarch_bus::Bus;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::state::{MetaError, load_meta};
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_engine::{Acceptance, Accepted, EngineError, accept_ledger, memories, remembered};

use crate::output;
use crate::process::{Instance, address};
use crate::{CliResult, ConfirmArgs, Context};

/// What is lost with a ledger that ends there, as far as anybody remembers it.
async fn lost(context: &Context, bus: &Bus, seq: u64) -> CliResult<String> {
    if bus.stream_last_seq(LEDGER).await.map_err(EngineError::from)? != seq {
        // It ends elsewhere, and is not accepted there.
        return Ok(String::new());
    }
    let meta = match load_meta(bus).await {
        Ok(meta) => meta,
        // It is made anew then.
        Err(MetaError::Unreadable(_)) => None,
        Err(error @ MetaError::Read(_)) => {
            return Err(EngineError::from(error).into());
        }
    };
    // Where the data directory knows nothing, the others do.
    let kept = remembered(&context.config.bus.data_dir).await.ok().flatten();
    let known = memories(bus, meta.as_ref(), kept.as_ref()).await?;
    let high = known.iter().map(|(_, memory)| memory.high).max().unwrap_or(0);
    Ok(match high.saturating_sub(seq) {
        0 => ", of which nothing is known to be lost".to_owned(),
        lost => format!(
            ": {lost} entries were acknowledged after it, up to {high}, and are lost but for what STATE \
             has of them"
        ),
    })
}

/// Shows what is lost, accepts the ledger when the human is sure, and prints what was done.
///
/// # Errors
/// They are not; its last sequence is another, an owner is at work, or the credential does not allow it.
pub(super) async fn run(context: &Context, seq: u64, confirm: ConfirmArgs) -> CliResult {
    let bus = context.connect(&CredentialHolder::Control, "doctor").await?;
    let what = format!("accept the ledger through {seq}{}", lost(context, &bus, seq).await?);
    confirm.to(&what)?;
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
            format!("the ledger is the remembered one, through {last}: nothing to do")
        }
        Some(because) => format!(
            "accepted the ledger through {seq}, though {because}\n\
             {filled} sequences were filled, {restored} records are written again as STATE has them; \
             it goes on after {last}\nnext: `tetrarch up`, then `tetrarch doctor --check-ledger`"
        ),
    };
    // A reader that went away has seen enough.
    output::record(context.output, &record, shown)
}
