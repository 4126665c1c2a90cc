//! Signs of life: the body of a host's lease (protobuf) and an external agent's heartbeat
//! (JSON). What they mean is the sweeper's business.

use prost::Message as _;
use tetrarch_core::budget::Spend;
use tetrarch_core::burn::Burn;
use tetrarch_core::id::AgentId;
use tetrarch_core::limits::{COMMIT_BYTES_MAX, CONTROL_BYTES_MAX};
use tetrarch_core::vitals::Vitals;

use super::error::{CodecError, within};
use super::wire::{Wire, field, kept, message};
use super::{json, read};
use crate::proto::v1 as pb;

/// What a host says of itself with every renewal (spec 04, Hosts).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostLease {
    /// Agents it takes.
    pub capacity: u32,
    /// Agents it runs.
    pub load: u32,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Rows of agents that changed; all of them once a window.
    pub rows: Vec<Vitals>,
}

/// The bytes that a row takes in the body of a host's lease.
#[must_use]
pub fn row_size(row: &Vitals) -> usize {
    let message: pb::Vitals = row.put();
    let length = message.encoded_len();
    prost::length_delimiter_len(length) + 1 + length
}

/// The body of a host's lease.
///
/// # Errors
/// More bytes than one write may have: the rows must be spread over the window.
pub fn encode_host_lease(lease: &HostLease) -> Result<Vec<u8>, CodecError> {
    let message: pb::HostLease = lease.put();
    within("host lease", message.encoded_len(), COMMIT_BYTES_MAX)?;
    Ok(message.encode_to_vec())
}

/// Reads the body of a host's lease.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_host_lease(payload: &[u8]) -> Result<HostLease, CodecError> {
    within("host lease", payload.len(), COMMIT_BYTES_MAX)?;
    let lease = pb::HostLease::decode(payload)
        .map_err(|error| CodecError::Protobuf { what: "host lease", reason: error.to_string() })?;
    HostLease::get(lease)
}

message!(HostLease, HostLease { capacity, load, labels, rows });

/// The body of a heartbeat.
///
/// # Errors
/// A body that cannot be written as JSON.
pub fn encode_heartbeat(vitals: &Vitals) -> Result<Vec<u8>, CodecError> {
    let message: pb::Vitals = vitals.put();
    json::write("Vitals", &message)
}

/// Reads the body of a heartbeat, which names its agent only if it likes to.
///
/// # Errors
/// What is wrong, with the field; an agent that is not the subject's.
pub fn decode_heartbeat(agent: &AgentId, payload: &[u8]) -> Result<Vitals, CodecError> {
    within("heartbeat", payload.len(), CONTROL_BYTES_MAX)?;
    let mut vitals: pb::Vitals = json::read(payload)?;
    let claimed: Option<AgentId> = read::optional("agent", &vitals.agent)?;
    if claimed.is_some_and(|claimed| claimed != *agent) {
        return Err(CodecError::field("agent", format!("the subject names {agent}")));
    }
    vitals.agent = agent.to_string();
    if vitals.epoch == 0 {
        vitals.epoch = 1;
    }
    Vitals::get(vitals)
}

/// Amounts without the zeros at the end.
fn trimmed(amounts: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut amounts: Vec<u64> = amounts.collect();
    let kept = amounts.iter().rposition(|amount| *amount > 0).map_or(0, |last| last + 1);
    amounts.truncate(kept);
    amounts
}

fn burn(newest: u64, tokens: &[u64], cost_micro: &[u64]) -> Burn {
    let amount = |amounts: &[u64], at: usize| amounts.get(at).copied().unwrap_or(0);
    let count = tokens.len().max(cost_micro.len());
    Burn::noted(
        newest,
        (0..count).map(|at| Spend {
            tokens: amount(tokens, at),
            cost_micro: amount(cost_micro, at),
            turns: 0,
        }),
    )
}

impl Wire<pb::Vitals> for Vitals {
    fn put(&self) -> pb::Vitals {
        pb::Vitals {
            agent: self.agent.put(),
            session: self.session.put(),
            epoch: self.epoch,
            run_state: self.run_state.put(),
            positions: Some(self.positions.put()),
            progress: self.progress,
            tokens: self.tokens,
            turns: self.turns,
            cost_micro: self.cost_micro,
            tokens_out: self.tokens_out,
            tool: self.tool.clone(),
            words: self.words.clone(),
            burn_newest: self.burn.newest(),
            burn_tokens: trimmed(self.burn.amounts().map(|amount| amount.tokens)),
            burn_cost_micro: trimmed(self.burn.amounts().map(|amount| amount.cost_micro)),
        }
    }

    fn get(held: pb::Vitals) -> Result<Self, CodecError> {
        Ok(Self {
            agent: field("agent", held.agent)?,
            session: field("session", held.session)?,
            epoch: held.epoch,
            run_state: field("run_state", held.run_state)?,
            positions: kept::get("positions", held.positions)?,
            progress: held.progress,
            tokens: held.tokens,
            turns: held.turns,
            cost_micro: held.cost_micro,
            tokens_out: held.tokens_out,
            tool: held.tool,
            words: held.words,
            burn: burn(held.burn_newest, &held.burn_tokens, &held.burn_cost_micro),
        })
    }
}
