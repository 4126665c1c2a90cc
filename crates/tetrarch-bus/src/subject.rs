//! Subject text: built and parsed here and nowhere else, from typed parts, totally (spec 02).
//! A subject has exactly one text; any other writing of the same parts is refused.
//! Nothing here knows what a subject means to its receiver.

pub mod form;
pub mod key;
mod op_name;
pub mod pattern;
mod token;

use std::fmt;
use std::str::FromStr;

use tetrarch_core::id::{AgentId, EpicId, HostName, NodeId, Principal, RunId};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::mail::Lane;

pub use key::KeyKind;
pub use op_name::{OPS, OpName, OpNameError};
pub use token::SubjectError;
use token::SubjectTokens;

/// The key in STATE of what the owner knows of itself.
pub const META_KEY: &str = "meta";

/// What is a dead letter's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The ledger.
    Ledger,
    /// Requests, operations, reports.
    Requests,
    /// Mail and control.
    Mail,
    /// Plan events.
    Plans,
    /// Cursors.
    Cursors,
    /// Journals.
    Runs,
}

impl Origin {
    /// Every origin.
    pub const ALL: [Self; 6] =
        [Self::Ledger, Self::Requests, Self::Mail, Self::Plans, Self::Cursors, Self::Runs];

    /// The stream's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ledger => pattern::LEDGER,
            Self::Requests => pattern::REQUESTS,
            Self::Mail => pattern::MAIL,
            Self::Plans => pattern::PLANS,
            Self::Cursors => pattern::CURSORS,
            Self::Runs => pattern::RUNS,
        }
    }
}

/// A subject, in typed parts. `via` is the last token of what a host orchestrator publishes for
/// an agent it hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The ledger's one subject.
    Ledger,
    /// A spawn request.
    SpawnRequest {
        /// The epic.
        epic: EpicId,
        /// The node; none is written `-`.
        node: Option<NodeId>,
        /// Who asks.
        from: Principal,
        /// The host that publishes for it.
        via: Option<HostName>,
    },
    /// An operation.
    Op {
        /// Which.
        op: OpName,
        /// Who asks.
        from: Principal,
        /// The host that publishes for it.
        via: Option<HostName>,
    },
    /// A report to the owner.
    Report {
        /// Who reports.
        from: Principal,
        /// The host that publishes for it.
        via: Option<HostName>,
    },
    /// Mail or control.
    Mail {
        /// Which lane.
        lane: Lane,
        /// To whom.
        to: Principal,
        /// Who writes.
        from: Principal,
        /// The host that publishes for it.
        via: Option<HostName>,
    },
    /// The first event of a plan.
    PlanCreated(EpicId),
    /// A later event of a plan.
    PlanUpdated(EpicId),
    /// Somebody should look at a plan.
    PlanReviewNeeded(EpicId),
    /// A heartbeat.
    Heartbeat(AgentId),
    /// A cursor.
    Cursor(AgentId),
    /// A run's journal.
    Run {
        /// Whose run it is.
        agent: AgentId,
        /// The run.
        run: RunId,
    },
    /// A run's text as it comes.
    Stream {
        /// Whose run it is.
        agent: AgentId,
        /// The run.
        run: RunId,
    },
    /// What could not be handled.
    Dead(Origin),
    /// A record's value in STATE.
    State(RecordKey),
    /// What the owner knows of itself, in STATE.
    StateMeta,
    /// The lease of the owner.
    LeaseGo,
    /// What the keeper of the managed bus writes to see that it still stores.
    LeaseBus,
    /// The lease of a host.
    LeaseHost(HostName),
}

impl Subject {
    /// Everything that is written to a party on one lane, as a subscription's pattern.
    #[must_use]
    pub fn inbox(lane: Lane, to: &Principal) -> String {
        format!("{}.{to}.>", lane_word(lane))
    }

    /// The plan events of one epic, as a subscription's pattern.
    #[must_use]
    pub fn plan_events(epic: EpicId) -> String {
        format!("plan.*.{epic}")
    }

    /// The heartbeats of every agent, as a subscription's pattern.
    #[must_use]
    pub fn heartbeats() -> &'static str {
        "hb.*"
    }

    /// Who published it, for subjects that say so.
    #[must_use]
    pub fn sender(&self) -> Option<(&Principal, Option<&HostName>)> {
        if let Self::SpawnRequest { from, via, .. }
        | Self::Op { from, via, .. }
        | Self::Report { from, via }
        | Self::Mail { from, via, .. } = self
        {
            return Some((from, via.as_ref()));
        }
        None
    }
}

fn lane_word(lane: Lane) -> &'static str {
    match lane {
        Lane::Mail => "mail",
        Lane::Ctl => "ctl",
    }
}

/// A last token, when there is one.
struct Via<'a>(&'a Option<HostName>);

impl fmt::Display for Via<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(host) => write!(f, ".{host}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger => f.write_str(pattern::LEDGER_SUBJECT),
            Self::SpawnRequest { epic, node, from, via } => {
                write!(f, "spawn.request.{epic}.{}.{from}{}", key::node_token(*node), Via(via))
            }
            Self::Op { op, from, via } => write!(f, "op.{op}.{from}{}", Via(via)),
            Self::Report { from, via } => write!(f, "report.{from}{}", Via(via)),
            Self::Mail { lane, to, from, via } => {
                write!(f, "{}.{to}.{from}{}", lane_word(*lane), Via(via))
            }
            Self::PlanCreated(epic) => write!(f, "plan.created.{epic}"),
            Self::PlanUpdated(epic) => write!(f, "plan.updated.{epic}"),
            Self::PlanReviewNeeded(epic) => write!(f, "plan.review_needed.{epic}"),
            Self::Heartbeat(agent) => write!(f, "hb.{agent}"),
            Self::Cursor(agent) => write!(f, "cursor.{agent}"),
            Self::Run { agent, run } => write!(f, "run.{agent}.{run}"),
            Self::Stream { agent, run } => write!(f, "stream.{agent}.{run}"),
            Self::Dead(origin) => write!(f, "dead.{}", origin.as_str()),
            Self::State(record) => write!(f, "{}{}", key::STATE_PREFIX, key::record_key(record)),
            Self::StateMeta => write!(f, "{}{META_KEY}", key::STATE_PREFIX),
            Self::LeaseGo => f.write_str(&pattern::lease_go()),
            Self::LeaseBus => f.write_str(&pattern::lease_bus()),
            Self::LeaseHost(host) => f.write_str(&pattern::lease_host(host)),
        }
    }
}

impl FromStr for Subject {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, SubjectError> {
        if let Some(record) = text.strip_prefix(key::STATE_PREFIX) {
            if record == META_KEY {
                return Ok(Self::StateMeta);
            }
            return key::parse_at(text, record, key::STATE_TOKENS).map(Self::State);
        }
        let tokens = SubjectTokens::of(text, 0);
        match tokens.word(0) {
            "ledger" => tokens.exactly("ledger.main", 2).and_then(|()| {
                tokens.literal(1, "main")?;
                Ok(Self::Ledger)
            }),
            "spawn" | "op" | "report" | "mail" | "ctl" => parse_sent(&tokens),
            "plan" => parse_plan(&tokens),
            "hb" => tokens.only(AGENT).map(Self::Heartbeat),
            "cursor" => tokens.only(AGENT).map(Self::Cursor),
            "run" => {
                let read = tokens.pair("run.<agent>.<run>", (AGENT, RUN));
                read.map(|(agent, run)| Self::Run { agent, run })
            }
            "stream" => {
                let read = tokens.pair("stream.<agent>.<run>", (AGENT, RUN));
                read.map(|(agent, run)| Self::Stream { agent, run })
            }
            "dead" => {
                let found =
                    Origin::ALL.into_iter().find(|origin| origin.as_str() == tokens.word(1));
                tokens.exactly("dead.<stream>", 2)?;
                found.map(Self::Dead).ok_or_else(|| tokens.wrong(1, "a stream's name"))
            }
            "$KV" => parse_lease(&tokens),
            _ => Err(tokens.wrong(0, ROOTS)),
        }
    }
}

const AGENT: &str = "an agent id";
const RUN: &str = "a run's id, run_<ulid>";
const EPIC: &str = "an epic's id, goal_<ulid>";
const PARTY: &str = "an agent's identity or human:<name>";
const HOST: &str = "a host's name";
const ROOTS: &str = "ledger, spawn, op, report, mail, ctl, plan, hb, cursor, run, stream, dead \
                     or a key of STATE or LEASES";

/// Subjects that name their sender, with or without the host that publishes for it.
fn parse_sent(tokens: &SubjectTokens<'_>) -> Result<Subject, SubjectError> {
    let (form, from_at) = match tokens.word(0) {
        "spawn" => ("spawn.request.<epic>.<node>.<from>[.<host>]", 4),
        "op" => ("op.<name>.<from>[.<host>]", 3),
        "report" => ("report.<from>[.<host>]", 1),
        _ => ("mail|ctl.<to>.<from>[.<host>]", 2),
    };
    tokens.between(form, from_at + 1, from_at + 2)?;
    let via = match tokens.len() - 1 {
        last if last > from_at => Some(tokens.parse(last, HOST)?),
        _ => None,
    };
    let from = tokens.parse(from_at, PARTY)?;
    if !speaks_for(via.as_ref(), &from) {
        return Err(tokens.wrong(from_at, "an agent that a host runs, or that host itself"));
    }
    Ok(match tokens.word(0) {
        "spawn" => {
            tokens.literal(1, "request")?;
            let node = key::parse_node(tokens, 3)?;
            Subject::SpawnRequest { epic: tokens.parse(2, EPIC)?, node, from, via }
        }
        "op" => {
            let op = OpName::of_tokens(tokens.word(1), tokens.word(2));
            let op = op.map_err(|error| tokens.refused(error.second_token() + 1, &error))?;
            Subject::Op { op, from, via }
        }
        "report" => Subject::Report { from, via },
        word => {
            let lane = if word == "ctl" { Lane::Ctl } else { Lane::Mail };
            Subject::Mail { lane, to: tokens.parse(1, PARTY)?, from, via }
        }
    })
}

/// Whether a host may publish in this party's name: people, GO and other hosts have credentials of their own. Of
/// the agents that it may speak for, where they are placed decides (core).
pub(crate) fn speaks_for(via: Option<&HostName>, from: &Principal) -> bool {
    let Some(via) = via else { return true };
    match from {
        Principal::Human(_) | Principal::Agent(AgentId::Go) => false,
        Principal::Agent(AgentId::Ho(host)) => host == via,
        Principal::Agent(
            AgentId::Po(_)
            | AgentId::Io(_)
            | AgentId::Specialist(..)
            | AgentId::Reviewer(..)
            | AgentId::Worker(_),
        ) => true,
    }
}

fn parse_plan(tokens: &SubjectTokens<'_>) -> Result<Subject, SubjectError> {
    tokens.exactly("plan.created|updated|review_needed.<epic>", 3)?;
    let epic = tokens.parse(2, EPIC)?;
    match tokens.word(1) {
        "created" => Ok(Subject::PlanCreated(epic)),
        "updated" => Ok(Subject::PlanUpdated(epic)),
        "review_needed" => Ok(Subject::PlanReviewNeeded(epic)),
        _ => Err(tokens.wrong(1, "created, updated or review_needed")),
    }
}

fn parse_lease(tokens: &SubjectTokens<'_>) -> Result<Subject, SubjectError> {
    tokens.exactly("$KV.LEASES.GO|BUS|HO=<host>", 3)?;
    tokens.literal(1, "LEASES")?;
    match tokens.word(2).strip_prefix("HO=") {
        Some(host) => {
            let host = HostName::new(host).map_err(|error| tokens.refused(2, &error))?;
            Ok(Subject::LeaseHost(host))
        }
        None if tokens.word(2) == "BUS" => Ok(Subject::LeaseBus),
        None => tokens.literal(2, "GO").map(|()| Subject::LeaseGo),
    }
}

/// What can be read of a request's subject that is wrong elsewhere, so that the sender is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongRequest {
    /// Who sent it.
    pub from: Principal,
    /// The host that published it.
    pub via: Option<HostName>,
    /// Whether it was meant to be a spawn request.
    pub spawn: bool,
}

impl WrongRequest {
    /// Reads the sender of a request's subject; none when even that is wrong.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let tokens = SubjectTokens::of(text, 0);
        let from_at = match tokens.word(0) {
            "spawn" => 4,
            "op" => 3,
            "report" => 1,
            _ => return None,
        };
        tokens.between("", from_at + 1, from_at + 2).ok()?;
        let from = tokens.parse(from_at, PARTY).ok()?;
        let via = match tokens.len() - 1 {
            last if last > from_at => Some(tokens.parse(last, HOST).ok()?),
            _ => None,
        };
        // Who did not send it is not told.
        speaks_for(via.as_ref(), &from).then(|| Self {
            from,
            via,
            spawn: tokens.word(0) == "spawn",
        })
    }
}

#[cfg(test)]
mod tests;
