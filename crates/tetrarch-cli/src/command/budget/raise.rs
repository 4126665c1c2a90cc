//! `budget raise`: a human adds to what an agent may spend while its run goes on (spec 09, Human gate).
//! The owner decides.

use serde_json::Value;
use tetrarch_bus::codec::encode_op;
use tetrarch_bus::subject::OpName;
use tetrarch_core::budget::Spend;
use tetrarch_core::id::{AgentId, RequestId};
use tetrarch_core::mail::OpReply;
use tetrarch_core::request::{BudgetOp, Op};

use crate::command::project::{dollars, reply_json};
use crate::output;
use crate::{CliError, CliResult, Code, Context, new_id};

/// Arguments of `budget raise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Amounts are added to the grant: two raises by 50k add 100k. A raise of a child is taken from the
free amount of its parent; a project's grant comes from nowhere else. A raise must arrive before
the grant is used up. It cannot hold up a run that is ending.

Examples:
  tetrarch budget raise W:01JD8Z5W6T4QK3M9X2V7B1N0AC --tokens +50k --cost-usd +1.50
  tetrarch budget raise PO-demo --tokens 2M --turns 100 --reason 'the second half'

Exit codes: 3 agent not found; 5 the agent or its run is ending, or an agent above it has not
enough free (the error names the agent to raise first).")]
pub(crate) struct RaiseArgs {
    /// The agent.
    agent: AgentId,
    /// Model tokens to add, such as 50k, 2M or 1500.
    #[arg(long, value_parser = amount)]
    tokens: Option<u64>,
    /// Dollars to add, such as 1.50.
    #[arg(long, value_parser = cost)]
    cost_usd: Option<u64>,
    /// Turns to add.
    #[arg(long, value_parser = amount)]
    turns: Option<u64>,
    /// The reason, for the ledger and the agent.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// Retry a raise whose answer was lost, under the same id. It is applied once.
    #[arg(long)]
    request_id: Option<RequestId>,
}

/// A number, with k or M for thousands or millions, with or without a plus before it.
fn amount(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is not an amount; allowed: 1500, 50k, 2M, with or without a +");
    let digits = text.strip_prefix('+').unwrap_or(text);
    let (digits, unit) = match digits.as_bytes().last() {
        Some(b'k') => (digits.strip_suffix('k').unwrap_or(digits), 1_000),
        Some(b'M') => (digits.strip_suffix('M').unwrap_or(digits), 1_000_000),
        Some(_) | None => (digits, 1),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    count.checked_mul(unit).ok_or_else(wrong)
}

/// Dollars as millionths of one, with or without a plus before them.
fn cost(text: &str) -> Result<u64, String> {
    dollars(text.strip_prefix('+').unwrap_or(text)).map(Into::into)
}

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(super) async fn run(context: &Context, args: RaiseArgs) -> CliResult {
    let RaiseArgs { agent, tokens, cost_usd, turns, reason, request_id } = args;
    let more = Spend {
        tokens: tokens.unwrap_or(0),
        cost_micro: cost_usd.unwrap_or(0),
        turns: turns.unwrap_or(0),
    };
    let op = Op::Budget(BudgetOp::Raise { agent, more, reason });
    let id = request_id.unwrap_or_else(new_id);
    let payload = encode_op(&op, id).map_err(CliError::usage)?;
    let asked = context.client().await?.ask(OpName::of(&op), id, payload, None).await;
    let reply = asked.map_err(|error| unanswered(error, id))?;
    output::record(context.output, &json(&reply), || format!("{}\n", reply.detail))
}

/// Whoever was not answered does not know whether it was done.
fn unanswered(error: CliError, id: RequestId) -> CliError {
    match error.code {
        Code::Failed | Code::BusUnreachable if error.hint.is_none() => {
            error.hint(format!("retry with --request-id {id}; the raise is applied once"))
        }
        Code::Failed
        | Code::BusUnreachable
        | Code::Usage
        | Code::NotFound
        | Code::Denied
        | Code::Conflict
        | Code::Interrupted => error,
    }
}

/// The reply, with the grant as it is now.
fn json(reply: &OpReply) -> Value {
    let mut value = reply_json(reply);
    let data = reply.data.as_deref().and_then(|data| serde_json::from_str::<Value>(data).ok());
    value["grant"] = data.map_or(Value::Null, |mut data| data["grant"].take());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_with_units() {
        for (text, expected) in
            [("1500", 1_500), ("+20", 20), ("+50k", 50_000), ("2M", 2_000_000), ("0", 0)]
        {
            assert_eq!(amount(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "+",
            "k",
            "-5",
            "++5",
            "5K",
            "1.5k",
            "5 k",
            "99999999999999999999",
            "99999999999999999k",
        ] {
            assert!(amount(text).is_err(), "{text}");
        }
        assert_eq!((cost("+1.50"), cost("0.000001")), (Ok(1_500_000), Ok(1)));
        assert!(cost("-1").is_err() && cost("++1").is_err());
    }

    #[test]
    fn unanswered_raise_is_told_how_to_repeat_it() {
        let id = new_id();
        let lost = unanswered(CliError::new(Code::Failed, "no answer"), id);
        assert!(lost.hint.unwrap().contains(&id.to_string()));
        assert_eq!(unanswered(CliError::new(Code::Conflict, "no"), id).hint, None);
    }
}
