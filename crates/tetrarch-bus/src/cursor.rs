//! An agent's cursor on the bus: reading it, moving it, and claiming it before the agent is
//! started (spec 02, Cursor and fencing). Whether a claim holds is judged by the core.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::{Bus, RawMessage};
use crate::codec::{self, CodecError};
use crate::error::{PublishError, ReadError};
use crate::follow::{FollowStep, StreamFollower};
use crate::retry::Retry;
use crate::subject::Subject;
use crate::subject::pattern::{CURSORS, MAIL};
use crate::{stamp, surely};
use tetrarch_core::cursor::{self, Claim, Cursor};
use tetrarch_core::id::AgentId;

/// How long a seal may take to show: it is acknowledged before the launch order goes out, but a
/// replica may lag.
const SEAL_SHOWS_WITHIN: Duration = Duration::from_secs(10);

/// Why a cursor was not read, moved or claimed.
#[derive(Debug, thiserror::Error)]
pub enum CursorError {
    /// Another session's, or another writer's, cursor stands there: stop the session.
    #[error(
        "cannot write the cursor of {agent}: another session moved it to sequence {last}; this session ends"
    )]
    Fenced {
        /// Whose cursor.
        agent: AgentId,
        /// The sequence of the cursor that stands there, 0 when it is gone.
        last: u64,
    },
    /// What stands there cannot be read.
    #[error("cannot read the cursor of {agent} at sequence {seq}: {error}")]
    Undecodable {
        /// Whose cursor.
        agent: AgentId,
        /// Its sequence.
        seq: u64,
        /// What is wrong with it.
        error: Box<CodecError>,
    },
    /// The cursor breaks a bound.
    #[error(transparent)]
    Encoding(#[from] CodecError),
    /// The server refuses the write for good.
    #[error(transparent)]
    Refused(#[from] PublishError),
    /// The server refuses the read for good.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

/// What came of claiming a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The claim is ours: start the agent from these positions; write on after `seq`.
    Ours {
        /// The cursor as claimed.
        cursor: Cursor,
        /// Its sequence.
        seq: u64,
        /// Whether it is the agent's first cursor, so that no session of it wrote or read anything before.
        is_first: bool,
    },
    /// An earlier life of this host claimed it: report `host_restart`, do not start.
    EarlierLife {
        /// The cursor as it claimed it.
        cursor: Cursor,
    },
    /// Another epoch or another host: do not start.
    DoNotStart {
        /// What stands there; none when the agent was never sealed.
        cursor: Option<Cursor>,
    },
}

/// An agent's cursor and its sequence, none when it never had one. Waits while the bus is away.
///
/// # Errors
/// It is unreadable, for good.
pub async fn read_cursor(bus: &Bus, agent: &AgentId) -> Result<Option<(Cursor, u64)>, CursorError> {
    let subject = Subject::Cursor(agent.clone()).to_string();
    let found = surely::last_by_subject(bus, CURSORS, &subject).await?;
    found.map(|message| decoded(agent, &message)).transpose()
}

/// What was read of `MAIL` beyond its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeyondEnd {
    /// How many agents' positions are.
    pub agents: u64,
    /// The highest of them.
    pub position: u64,
    /// The stream's last sequence, 0 when it is empty.
    pub last: u64,
}

/// Whether `MAIL` ends before what agents read of it: it was made anew, or is an older copy. Reads
/// every cursor.
///
/// # Errors
/// A refusal that stays.
pub async fn beyond(bus: &Bus) -> Result<Option<BeyondEnd>, ReadError> {
    let mut positions = BTreeMap::new();
    let mut follower = StreamFollower::new(bus.clone(), CURSORS, Vec::new(), 1);
    while let FollowStep::Message { message, pending } = follower.step().await {
        if let Ok(cursor) = codec::decode_cursor(&message.payload) {
            let highest = cursor.positions.mail.max(cursor.positions.ctl);
            positions.insert(message.subject, highest);
        }
        if pending == 0 {
            break;
        }
    }
    // Asked for after the cursors, so that none of them can be ahead of it.
    let last = surely::stream_last_seq(bus, MAIL).await?;
    let over = || positions.values().filter(|position| **position > last);
    let agents = u64::try_from(over().count()).unwrap_or(u64::MAX);
    Ok(over().max().map(|position| BeyondEnd { agents, position: *position, last }))
}

/// Writes a cursor over the one at sequence `expected`, 0 when there is none; gives its sequence.
/// An unknown outcome is resolved by sending the same again.
///
/// # Errors
/// See [`CursorError`]; `Fenced` ends the session.
pub async fn write_cursor(bus: &Bus, cursor: &Cursor, expected: u64) -> Result<u64, CursorError> {
    let subject = Subject::Cursor(cursor.agent.clone());
    let payload = codec::encode_cursor(cursor)?.into();
    let headers = stamp::of_session(cursor.session, cursor.epoch).headers(&subject);
    match surely::publish(bus, &subject.to_string(), &headers, &payload, Some(expected)).await {
        Ok(seq) => Ok(seq),
        Err(PublishError::WrongLast { last, .. }) => {
            match surely::named(bus, CURSORS, last).await? {
                Some(found) if found.payload == payload && last > expected => Ok(last),
                Some(_) | None => Err(CursorError::Fenced { agent: cursor.agent.clone(), last }),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Claims the cursor of an agent whose session of `epoch` is to be started here. It writes only
/// over this epoch's seal, so at most one life of one host gets it (spec 02).
///
/// # Errors
/// See [`CursorError`].
pub async fn claim(
    bus: &Bus,
    agent: &AgentId,
    epoch: u64,
    ours: &Claim,
) -> Result<Claimed, CursorError> {
    let subject = Subject::Cursor(agent.clone());
    let mut lagging = Retry::until(SEAL_SHOWS_WITHIN);
    let mut found = read_cursor(bus, agent).await?;
    loop {
        let Some((cursor, seq)) = found else {
            if !lagging.pause().await {
                return Ok(Claimed::DoNotStart { cursor: None });
            }
            found = read_cursor(bus, agent).await?;
            continue;
        };
        match cursor::judge_claim(&cursor, epoch, ours) {
            cursor::ClaimOutcome::Claimed => {
                return Ok(Claimed::Ours { cursor, seq, is_first: false });
            }
            cursor::ClaimOutcome::EarlierLife => return Ok(Claimed::EarlierLife { cursor }),
            cursor::ClaimOutcome::DoNotStart => {
                if cursor.epoch >= epoch || !lagging.pause().await {
                    return Ok(Claimed::DoNotStart { cursor: Some(cursor) });
                }
                found = read_cursor(bus, agent).await?;
            }
            cursor::ClaimOutcome::ClaimAgain => {
                let claimed = Cursor { claim: Some(ours.clone()), ..cursor };
                let payload = codec::encode_cursor(&claimed)?.into();
                let headers = stamp::of_session(claimed.session, epoch).headers(&subject);
                let text = subject.to_string();
                match surely::publish(bus, &text, &headers, &payload, Some(seq)).await {
                    Ok(seq) => {
                        return Ok(Claimed::Ours { cursor: claimed, seq, is_first: false });
                    }
                    Err(PublishError::WrongLast { last, .. }) => {
                        found = match surely::named(bus, CURSORS, last).await? {
                            Some(message) => Some(decoded(agent, &message)?),
                            None => read_cursor(bus, agent).await?,
                        };
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

/// Claims the cursor of a new agent by writing its first one, which nothing may precede; where
/// something does, as [`claim`] does.
///
/// # Errors
/// See [`CursorError`].
pub async fn claim_first(bus: &Bus, first: Cursor, ours: &Claim) -> Result<Claimed, CursorError> {
    match write_cursor(bus, &first, 0).await {
        Ok(seq) => Ok(Claimed::Ours { cursor: first, seq, is_first: true }),
        // Somebody claimed it, or the owner sealed it: for a later session, or as earlier versions do.
        Err(CursorError::Fenced { .. }) => claim(bus, &first.agent, first.epoch, ours).await,
        Err(error) => Err(error),
    }
}

fn decoded(agent: &AgentId, message: &RawMessage) -> Result<(Cursor, u64), CursorError> {
    match codec::decode_cursor(&message.payload) {
        Ok(cursor) => Ok((cursor, message.seq)),
        Err(error) => Err(CursorError::Undecodable {
            agent: agent.clone(),
            seq: message.seq,
            error: Box::new(error),
        }),
    }
}
