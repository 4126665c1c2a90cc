//! `tetrarch doctor`: looks at this machine, the bus and the ledger, and says for each thing
//! whether it is well and what to do if it is not. It repairs nothing, unless a human accepts a
//! ledger with it.

mod accept;
mod bus;
mod ledger;
mod machine;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use tetrarch_bus::creds::CredentialHolder;

use crate::confirm::ConfirmArgs;
use crate::context::Context;
use crate::exit::{CliError, Code};
use crate::output::{self, Cell, Tone, align, is_coloured};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tetrarch doctor\n  tetrarch doctor -o json\n  tetrarch doctor --check-ledger\n  tetrarch doctor --accept-ledger 4711 --yes"
)]
pub(crate) struct DoctorArgs {
    /// Replay the whole ledger, report broken invariants and compare the result with STATE.
    #[arg(long)]
    check_ledger: bool,
    /// Accept a ledger that the owner does not recognize; SEQ is its last sequence.
    #[arg(long, value_name = "SEQ", conflicts_with = "check_ledger")]
    accept_ledger: Option<u64>,
    /// Do not ask for confirmation.
    #[command(flatten)]
    sure: ConfirmArgs,
}

/// Begins the names of checks of layers.
const LAYER: &str = "isolation: ";

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CheckStatus {
    /// It is well.
    Ok,
    /// It works, but not as well as it could.
    Warn,
    /// It does not work.
    Fail,
}

impl CheckStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Warn => Tone::Warn,
            Self::Fail => Tone::Bad,
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DoctorCheck {
    name: String,
    verdict: CheckStatus,
    what: String,
    next: Option<String>,
    /// The state of a layer of isolation and what it stops, where that is what was looked at.
    layer: Option<(&'static str, &'static str)>,
}

impl DoctorCheck {
    fn new(name: &str, verdict: CheckStatus, what: impl Into<String>) -> Self {
        Self { name: name.to_owned(), verdict, what: what.into(), next: None, layer: None }
    }

    fn ok(name: &str, what: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Ok, what)
    }

    fn warn(name: &str, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..Self::new(name, CheckStatus::Warn, what) }
    }

    fn fail(name: &str, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..Self::new(name, CheckStatus::Fail, what) }
    }

    fn json(&self) -> Value {
        let mut all = json!({
            "check": self.name,
            "verdict": self.verdict.as_str(),
            "what": self.what,
            "next": self.next,
        });
        if let Some((state, stops)) = self.layer {
            all["state"] = state.into();
            all["stops"] = stops.into();
        }
        all
    }

    /// Its line in the table of layers.
    fn layer_line(&self) -> Option<Vec<Cell>> {
        let (state, stops) = self.layer?;
        let state = Cell::from(state).toned(self.verdict.tone());
        let next = self.next.as_ref().map(|next| format!("; {next}")).unwrap_or_default();
        let layer = self.name.trim_start_matches(LAYER);
        Some(vec![layer.into(), state, stops.into(), format!("{}{next}", self.what).into()])
    }

    fn lines(&self) -> Vec<Vec<Cell>> {
        let verdict = Cell::from(self.verdict.as_str()).toned(self.verdict.tone());
        let mut what = self.what.lines();
        let first = what.next().unwrap_or_default();
        let mut lines = vec![vec![verdict, self.name.as_str().into(), first.into()]];
        let below = |text: String| vec![Cell::default(), Cell::default(), text.into()];
        lines.extend(what.map(|line| below(line.to_owned())));
        lines.extend(self.next.as_ref().map(|next| below(format!("next: {next}"))));
        lines
    }
}

/// Runs the command.
///
/// # Errors
/// A check failed: 6 when it is the bus that does not answer, else 1.
pub(crate) async fn run(context: &Context, args: DoctorArgs) -> Result<(), CliError> {
    if args.check_ledger {
        let bus = context.connect(&party(context)?, "doctor").await?;
        return ledger::run(context, &bus).await;
    }
    if let Some(seq) = args.accept_ledger {
        return accept::run(context, seq, args.sure).await;
    }
    let mut checks = machine::checks(context).await;
    let unreachable = match bus::connect(context).await {
        Ok((bus, check)) => {
            checks.push(check);
            checks.extend(bus::checks(context, &bus).await);
            false
        }
        Err(check) => {
            let failed = check.verdict == CheckStatus::Fail;
            checks.push(check);
            failed
        }
    };
    let all: Vec<Value> = checks.iter().map(DoctorCheck::json).collect();
    let shown = || {
        let (layers, others): (Vec<&DoctorCheck>, Vec<&DoctorCheck>) =
            checks.iter().partition(|check| check.layer.is_some());
        let lines: Vec<Vec<Cell>> = others.iter().flat_map(|check| check.lines()).collect();
        let head = ["ISOLATION", "STATE", "STOPS", "HERE, OR WHAT TO DO"].map(Cell::from).to_vec();
        let layers = layers.iter().filter_map(|check| check.layer_line());
        let layers: Vec<Vec<Cell>> = [head].into_iter().chain(layers).collect();
        format!("{}\n{}", align(&lines, is_coloured()), align(&layers, is_coloured()))
    };
    // A reader that went away has seen enough.
    output::record(context.output, &Value::Array(all), shown).map(drop)?;
    let failed = checks.iter().filter(|check| check.verdict == CheckStatus::Fail).count();
    match (failed, unreachable) {
        (0, _) => Ok(()),
        (_, true) => Err(CliError::new(Code::BusUnreachable, "cannot connect to the bus")),
        (_, false) => Err(CliError::new(Code::Failed, format!("{failed} of the checks failed"))),
    }
}

/// As whom to look: the control plane where its keys are, since people do not see every stream;
/// elsewhere the human who asks.
fn party(context: &Context) -> Result<CredentialHolder, CliError> {
    if context.config.bus.url.is_none() {
        return Ok(CredentialHolder::Control);
    }
    Ok(CredentialHolder::Human(context.human()?))
}
