//! Cases of silence (spec 04): one session (`liveness`), and many under the sweeper (`sweep`).

use serde_json::{Value, json};
use tetrarch_core::id::HostName;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::sweep::{MassPolicy, Proposal, Signs, Sweeper, Watch, WindowError, Windows};
use tetrarch_core::time::{Millis, Moment};

use crate::vectors::input::{CaseError, CaseMap, CaseValue};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

/// Where the zero of a case's times lies. A sweeper of which nothing is said has listened for
/// ever, so the machine's own zero lies far before it.
const ZERO: u64 = 4_000_000_000_000_000;

const MASS_SILENCE: &str = "sweeper.mass_silence";

pub(super) fn session(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let given =
        given.keys("state window_ms register_deadline_ms last_seen_ms listening_since_ms epoch")?;
    let asked = LivenessInput::read(when)?;
    let state = state(&given, Liveness::Register)?;
    let last = moment(&given, "last_seen_ms", Moment(ZERO))?;
    let listening = moment(&given, "listening_since_ms", Moment(0))?;
    let epoch = given.or("epoch", 1, CaseValue::whole)?;
    let windows = match windows(&given)? {
        Ok(windows) => windows,
        Err(error) => return Ok(impossible(&error)),
    };
    let mut outcome = CaseOutcome::default().set_or("answer", Value::Null, &[json!("none")]);
    let after = match asked {
        LivenessInput::Sweep(at) => {
            windows.judge(Signs { state, last, preparing: false }, listening, at)
        }
        LivenessInput::Heartbeat(told) => match state.heard(epoch, told.unwrap_or(epoch)) {
            Some(after) => after,
            None => {
                outcome = outcome.set("answer", "superseded");
                state
            }
        },
        LivenessInput::To(to) => match state.to(to) {
            Ok(after) => after,
            Err(error) => {
                outcome = outcome.set("error", "illegal_transition").set_detail(error.to_string());
                state
            }
        },
    };
    Ok(outcome.set("state", after.as_str()))
}

/// What happens to the session.
enum LivenessInput {
    Sweep(Moment),
    /// With its epoch; none is the current one.
    Heartbeat(Option<u64>),
    To(Liveness),
}

impl LivenessInput {
    fn read(when: &CaseValue<'_>) -> Result<Self, CaseError> {
        let input = when.keys("at_ms heartbeat to")?;
        match (input.get("at_ms"), input.get("heartbeat"), input.get("to")) {
            (Some(at), None, None) => Ok(Self::Sweep(read_moment(&at)?)),
            (None, Some(heartbeat), None) => {
                let heartbeat = heartbeat.keys("epoch at_ms")?;
                moment(&heartbeat, "at_ms", Moment(ZERO))?;
                Ok(Self::Heartbeat(heartbeat.or("epoch", None, |field| field.whole().map(Some))?))
            }
            (None, None, Some(to)) => Ok(Self::To(word(&to)?)),
            (_, _, _) => Err(when.wrong("one of at_ms, heartbeat, to")),
        }
    }
}

pub(super) fn sweep(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let given = given.keys("window_ms listening_since_ms agents")?;
    let now = read_moment(&when.keys("at_ms")?.need("at_ms")?)?;
    let listening = moment(&given, "listening_since_ms", Moment(0))?;
    let agents = given.each("agents", agent)?;
    let windows = match windows(&given)? {
        Ok(windows) => windows,
        Err(error) => return Ok(impossible(&error)),
    };
    let mut sweeper = Sweeper::new(windows, MassPolicy::default());
    sweeper.listening(listening, now);
    let mut hosts: Vec<&str> = Vec::new();
    for (index, agent) in agents.iter().enumerate() {
        let host = hosts.iter().position(|host| *host == agent.host).unwrap_or(hosts.len());
        if host == hosts.len() {
            hosts.push(agent.host);
        }
        let watch = Watch {
            who: index,
            // A case's hosts are told apart, whatever they are called.
            host: HostName::new(&host.to_string()).map_err(|error| CaseError(error.to_string()))?,
            epoch: 1,
            state: agent.state,
            agents: 1,
        };
        sweeper.track(watch, agent.last);
    }
    Ok(swept(&agents, sweeper.sweep(now)))
}

struct AgentCase<'a> {
    id: &'a str,
    host: &'a str,
    state: Liveness,
    last: Moment,
}

fn agent<'a>(field: &CaseValue<'a>) -> Result<AgentCase<'a>, CaseError> {
    let input = field.keys("id host state last_seen_ms")?;
    Ok(AgentCase {
        id: input.need("id")?.text()?,
        host: input.or("host", "", CaseValue::text)?,
        state: state(&input, Liveness::Active)?,
        last: moment(&input, "last_seen_ms", Moment(ZERO))?,
    })
}

fn swept(agents: &[AgentCase<'_>], proposals: Vec<Proposal<usize>>) -> CaseOutcome {
    let (mut offline, mut stale, mut alerts) = (Vec::new(), Vec::new(), Vec::new());
    for proposal in proposals {
        match proposal {
            Proposal::Offline { who, .. } => offline.push(who),
            Proposal::Stale { who, .. } => stale.push(who),
            Proposal::MassSilence { .. } => alerts.push(MASS_SILENCE),
            Proposal::Active { .. } => {}
        }
    }
    let mut outcome = CaseOutcome::default();
    for (key, oldest_first) in [("offline", offline), ("stale", stale)] {
        let ids = |indexes: &[usize]| -> Value {
            indexes.iter().filter_map(|index| agents.get(*index)).map(|agent| agent.id).collect()
        };
        let mut as_given = oldest_first.clone();
        as_given.sort_unstable();
        // Spec 11 does not say which order the ids have.
        outcome = outcome.set_or(key, ids(&as_given), &[ids(&oldest_first)]);
    }
    outcome.set("alerts", alerts)
}

fn windows(given: &CaseMap<'_>) -> Result<Result<Windows, WindowError>, CaseError> {
    let millis = |key, default| given.or(key, default, |field| field.whole().map(Millis));
    let deadline = given.maybe("register_deadline_ms", |field| field.whole().map(Millis))?;
    let windows = Windows::new(millis("window_ms", tetrarch_core::limits::WINDOW)?);
    Ok(match (windows, deadline) {
        (Ok(windows), Some(deadline)) => Ok(windows.with_register_deadline(deadline)),
        (windows, _) => windows,
    })
}

fn impossible(error: &WindowError) -> CaseOutcome {
    CaseOutcome::default().set_error("window").set_detail(error.to_string())
}

fn state(input: &CaseMap<'_>, default: Liveness) -> Result<Liveness, CaseError> {
    input.or("state", default, word)
}

fn word(field: &CaseValue<'_>) -> Result<Liveness, CaseError> {
    field.one(&Liveness::ALL, Liveness::as_str)
}

fn moment(input: &CaseMap<'_>, key: &str, default: Moment) -> Result<Moment, CaseError> {
    input.or(key, default, read_moment)
}

fn read_moment(field: &CaseValue<'_>) -> Result<Moment, CaseError> {
    Ok(Moment(ZERO.saturating_add(field.whole()?)))
}
