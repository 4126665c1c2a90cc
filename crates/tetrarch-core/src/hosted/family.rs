//! The agents below a session's own, as its mail tells of them, and its program's waits for them: `agent.wait`, for
//! which nobody else is asked. A session that goes on from another is given that one's mail, and so knows them again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::error::ErrorCode;
use crate::fit::Room;
use crate::id::{AgentId, RequestId};
use crate::limits::{
    ANSWER_BYTES_MAX, CHILD_TOLD_BYTES_MAX, CHILDREN_KNOWN_MAX, TEXT_BYTES_MAX, WAIT_SECONDS,
    WAIT_SECONDS_MAX, WAITS_MAX,
};
use crate::mail::{ResultReady, SpawnAnswer};
use crate::time::{BusTime, Millis};

use super::operating::{REPLY, WAIT, only};
use super::{HostedSession, SessionEffect};

/// Requests for agents that may be open.
const ASKED_MAX: usize = 64;
/// Artifacts that are named of one agent.
const ARTIFACTS_TOLD_MAX: usize = 20;

/// What is known of the agents below.
#[derive(Debug, Clone, Default)]
pub(super) struct Family {
    /// What is told of each that has ended.
    children: BTreeMap<AgentId, Option<Value>>,
    /// Those that ended, the first of them first.
    ended: Vec<AgentId>,
    /// Requests that nobody answered, or of which somebody waits.
    asked: BTreeSet<RequestId>,
    waits: BTreeMap<RequestId, FamilyWait>,
}

/// A wait of the program.
#[derive(Debug, Clone)]
struct FamilyWait {
    /// For whom; none for all of them.
    named: Option<AgentId>,
    until: BusTime,
}

impl Family {
    /// Agents were asked for.
    pub(super) fn asks(&mut self, request: RequestId) {
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_first();
        }
        self.asked.insert(request);
    }

    /// A request for agents was answered.
    pub(super) fn answered(&mut self, own: &AgentId, answer: &SpawnAnswer) {
        if answer.queued.is_empty() {
            self.asked.retain(|request| Some(*request) != answer.request);
        }
        if answer.parent.as_ref().is_none_or(|parent| parent == own) {
            answer.spawned.iter().for_each(|child| self.knows(child.agent.clone()));
        }
    }

    fn knows(&mut self, child: AgentId) {
        if self.children.len() >= CHILDREN_KNOWN_MAX && !self.ended.is_empty() {
            self.children.remove(&self.ended.remove(0));
        }
        self.children.entry(child).or_default();
    }

    /// One came to something.
    pub(super) fn came_to(&mut self, ready: &ResultReady) {
        let ResultReady { agent, result, verdict, .. } = ready;
        let mut told = ended(agent);
        told["outcome"] = json!(result.outcome.as_str());
        let short = |text: &str| Room::of(CHILD_TOLD_BYTES_MAX).text(text, usize::MAX);
        let fields = [
            ("deliverable", &result.deliverable),
            ("partial", &result.partial),
            ("error", &result.error),
        ];
        for (key, text) in fields.into_iter().filter(|(_, text)| !text.is_empty()) {
            told[key] = json!(short(text));
        }
        if let Some(verdict) = verdict {
            told["verdict"] = json!(verdict.judgement.as_str());
        }
        let artifacts = result.artifacts.iter().take(ARTIFACTS_TOLD_MAX);
        let artifacts: Vec<Value> = artifacts
            .map(|it| json!({"name": it.name, "sha256": it.sha256, "size": it.size}))
            .collect();
        if !artifacts.is_empty() {
            told["artifacts"] = json!(artifacts);
        }
        self.end(agent, told);
    }

    /// One has ended; its result was told before, where there is one.
    pub(super) fn is_over(&mut self, agent: &AgentId, why: &str) {
        if self.children.get(agent).is_some_and(Option::is_some) {
            return;
        }
        let mut told = ended(agent);
        told["error"] = json!(Room::of(TEXT_BYTES_MAX).text(why, usize::MAX));
        self.end(agent, told);
    }

    fn end(&mut self, agent: &AgentId, told: Value) {
        self.knows(agent.clone());
        if self.children.insert(agent.clone(), Some(told)).flatten().is_none() {
            self.ended.push(agent.clone());
        }
    }

    /// When a wait is over.
    pub(super) fn next_deadline(&self) -> Option<BusTime> {
        self.waits.values().map(|wait| wait.until).min()
    }

    /// Waits that are over, each with what is told of it.
    fn over(&mut self, now: BusTime) -> Vec<(RequestId, Value)> {
        let is_over = |wait: &FamilyWait| wait.until <= now || self.has_ended(wait.named.as_ref());
        let over: Vec<RequestId> =
            self.waits.iter().filter(|(_, wait)| is_over(wait)).map(|(id, _)| *id).collect();
        let waits = over.into_iter().filter_map(|id| Some((id, self.waits.remove(&id)?)));
        let waits: Vec<(RequestId, FamilyWait)> = waits.collect();
        waits.into_iter().map(|(id, wait)| (id, self.told(wait.named.as_ref()))).collect()
    }

    fn has_ended(&self, named: Option<&AgentId>) -> bool {
        match named {
            Some(agent) => self.children.get(agent).is_some_and(Option::is_some),
            None => self.asked.is_empty() && self.children.values().all(Option::is_some),
        }
    }

    /// How they stand: those that ended with what they came to.
    fn told(&self, named: Option<&AgentId>) -> Value {
        let of = |child: &&AgentId| named.is_none_or(|named| named == *child);
        let children: Vec<&AgentId> = self.children.keys().filter(of).collect();
        let ended = children.iter().filter(|child| self.has_ended(Some(child))).count();
        let mut detail = match children.len() {
            0 if self.asked.is_empty() => "you have asked for no agents".to_owned(),
            all => format!("{ended} of {all} ended"),
        };
        if named.is_none() && !self.asked.is_empty() {
            detail.push_str(", and a request for agents is not answered yet");
        }
        if ended > 0 {
            detail.push_str("; what they came to as a whole is in their mail");
        }
        let mut room = ANSWER_BYTES_MAX;
        let listed = children.into_iter().map(|child| {
            let told = self.children.get(child).and_then(Option::clone);
            let told =
                told.unwrap_or_else(|| json!({"agent": child.to_string(), "state": "working"}));
            let bytes = told.to_string().len();
            match room.checked_sub(bytes) {
                Some(left) => {
                    room = left;
                    told
                }
                None => json!({"agent": child.to_string(), "state": told["state"]}),
            }
        });
        let listed = Value::Array(listed.collect()).to_string();
        json!({"op": WAIT, "detail": detail, "data": listed})
    }
}

fn ended(agent: &AgentId) -> Value {
    json!({"agent": agent.to_string(), "state": "ended"})
}

impl HostedSession {
    /// The program waits for one of its agents, or for all.
    pub(super) fn wait_for_agents(
        &mut self,
        id: RequestId,
        body: &Map<String, Value>,
        effects: &mut Vec<SessionEffect>,
    ) {
        match self.wait_of(body) {
            Ok(wait) => {
                self.family.waits.insert(id, wait);
                self.settle_waits(effects);
            }
            Err((code, detail)) => self.refuse((WAIT, id), code, detail, effects),
        }
    }

    fn wait_of(&self, body: &Map<String, Value>) -> Result<FamilyWait, (ErrorCode, String)> {
        let wrong = |detail| (ErrorCode::InvalidRequest, detail);
        only(body, &["agent", "seconds"]).map_err(wrong)?;
        let seconds = match body.get("seconds") {
            None => Some(WAIT_SECONDS),
            Some(given) => given.as_u64().filter(|it| (1..=WAIT_SECONDS_MAX).contains(it)),
        };
        let seconds = seconds.ok_or_else(|| {
            wrong(format!("seconds: a number of 1 to {WAIT_SECONDS_MAX} is needed"))
        })?;
        let named = match body.get("agent") {
            None => None,
            Some(given) => {
                let agent = given.as_str().and_then(|text| text.parse::<AgentId>().ok());
                let agent = agent.filter(|agent| self.family.children.contains_key(agent));
                let unknown = || {
                    let detail = format!(
                        "agent: {given} is none of yours; `agent.status` tells how others stand"
                    );
                    (ErrorCode::NotFound, detail)
                };
                Some(agent.ok_or_else(unknown)?)
            }
        };
        if self.family.waits.len() >= WAITS_MAX {
            let detail = format!("{WAITS_MAX} waits are open; wait until one is over");
            return Err((ErrorCode::Unavailable, detail));
        }
        Ok(FamilyWait { named, until: self.now + Millis(seconds * 1_000) })
    }

    /// Answers the waits that are over.
    pub(super) fn settle_waits(&mut self, effects: &mut Vec<SessionEffect>) {
        for (id, told) in self.family.over(self.now) {
            self.answer(REPLY, id, &told, effects);
        }
    }
}
