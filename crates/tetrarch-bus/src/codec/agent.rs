//! Records of agents, hosts, projects and profiles.

use tetrarch_core::agent::{
    Agent, Ending, HeldGrant, Host, Hosting, LostRun, Mode, Placement, Profile, Project, Slot,
    Unsettled, Work,
};
use tetrarch_core::brief::{RunnerKind, Served, Worktree};
use tetrarch_core::budget::Spend;
use tetrarch_core::denials::Denials;
use tetrarch_core::intensity::{Circuit, FailureCause, Failures};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::time::BusTime;

use super::brief::names;
use super::error::CodecError;
use super::{budget, read, verbs};
use crate::proto::v1 as pb;

const HOSTINGS: [Hosting; 3] = [Hosting::Hosted, Hosting::External, Hosting::Owner];

fn hosting_word(hosting: Hosting) -> &'static str {
    match hosting {
        Hosting::Hosted => "hosted",
        Hosting::External => "external",
        Hosting::Owner => "owner",
    }
}

/// A mode, which has to be one of the words.
pub(super) fn mode(field: &str, text: &str) -> Result<Mode, CodecError> {
    read::word(field, text, &Mode::ALL, Mode::as_str)
}

impl From<&Placement> for pb::Placement {
    fn from(placement: &Placement) -> Self {
        Self { host: placement.host.to_string(), host_epoch: placement.host_epoch }
    }
}

impl TryFrom<pb::Placement> for Placement {
    type Error = CodecError;
    fn try_from(placement: pb::Placement) -> Result<Self, CodecError> {
        Ok(Self { host: read::text("host", &placement.host)?, host_epoch: placement.host_epoch })
    }
}

impl From<&Slot> for pb::Slot {
    fn from(slot: &Slot) -> Self {
        Self { child: slot.child.to_string(), grant: budget::written(slot.grant, None) }
    }
}

impl TryFrom<pb::Slot> for Slot {
    type Error = CodecError;
    fn try_from(slot: pb::Slot) -> Result<Self, CodecError> {
        let (grant, _) = budget::read("grant", slot.grant)?;
        Ok(Self { child: read::text("child", &slot.child)?, grant })
    }
}

impl From<&LostRun> for pb::LostRun {
    fn from(lost: &LostRun) -> Self {
        Self { run: lost.run.to_string(), charged: Some(lost.charged.into()) }
    }
}

impl TryFrom<pb::LostRun> for LostRun {
    type Error = CodecError;
    fn try_from(lost: pb::LostRun) -> Result<Self, CodecError> {
        let charged = lost.charged.map(Spend::from).unwrap_or_default();
        Ok(Self { run: read::text("run", &lost.run)?, charged })
    }
}

impl From<&HeldGrant> for pb::HeldGrant {
    fn from(held: &HeldGrant) -> Self {
        Self {
            child: held.child.to_string(),
            grant: budget::written(held.grant, None),
            spent: Some(held.spent.into()),
            runs: held.runs.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::HeldGrant> for HeldGrant {
    type Error = CodecError;
    fn try_from(held: pb::HeldGrant) -> Result<Self, CodecError> {
        let (grant, _) = budget::read("grant", held.grant)?;
        Ok(Self {
            child: read::text("child", &held.child)?,
            grant,
            spent: held.spent.map(Spend::from).unwrap_or_default(),
            runs: read::each("runs", held.runs)?,
        })
    }
}

impl From<&Work> for pb::Work {
    fn from(work: &Work) -> Self {
        Self {
            epic: work.epic.to_string(),
            node: work.node.to_string(),
            assignment: work.assignment.to_string(),
            run: work.run.to_string(),
        }
    }
}

impl TryFrom<pb::Work> for Work {
    type Error = CodecError;
    fn try_from(work: pb::Work) -> Result<Self, CodecError> {
        Ok(Self {
            epic: read::text("epic", &work.epic)?,
            node: read::text("node", &work.node)?,
            assignment: read::text("assignment", &work.assignment)?,
            run: read::text("run", &work.run)?,
        })
    }
}

impl From<&Ending> for pb::Ending {
    fn from(ending: &Ending) -> Self {
        Self {
            cause: ending.cause.as_str().to_owned(),
            reason: ending.reason.clone(),
            until_unix_ms: ending.until.0,
        }
    }
}

impl TryFrom<pb::Ending> for Ending {
    type Error = CodecError;
    fn try_from(ending: pb::Ending) -> Result<Self, CodecError> {
        let causes = &FailureCause::ALL;
        Ok(Self {
            cause: read::word("cause", &ending.cause, causes, FailureCause::as_str)?,
            reason: ending.reason,
            until: BusTime(ending.until_unix_ms),
        })
    }
}

impl From<&Agent> for pb::Agent {
    fn from(agent: &Agent) -> Self {
        Self {
            id: agent.id.to_string(),
            session: read::show(agent.session.as_ref()),
            epoch: agent.epoch,
            liveness: agent.liveness.as_str().to_owned(),
            reason: agent.reason.clone(),
            since_unix_ms: agent.since.0,
            ending: agent.ending.as_ref().map(Into::into),
            mail_read: agent.mail_read,
            denials: (agent.denials != Denials::default()).then_some(pb::Denials {
                since_unix_ms: agent.denials.since.0,
                count: agent.denials.count,
                told: agent.denials.told,
            }),
            parent: read::show(agent.parent.as_ref()),
            depth: agent.depth.into(),
            max_depth: agent.max_depth.into(),
            local_max_depth: agent.local_max_depth.into(),
            requested_by: agent.requested_by.to_string(),
            project: read::show(agent.project.as_ref()),
            hosting: hosting_word(agent.hosting).to_owned(),
            placement: agent.placement.as_ref().map(Into::into),
            label: agent.label.clone(),
            slots: agent.slots.iter().map(Into::into).collect(),
            account: Some((&agent.account).into()),
            lost_runs: agent.unsettled.runs.iter().map(Into::into).collect(),
            held_grants: agent.unsettled.grants.iter().map(Into::into).collect(),
            deadline_unix_ms: agent.deadline.map(|deadline| deadline.0),
            tools: names(&agent.tools),
            circuit_open: agent.circuit.is_open(),
            circuit_opened_unix_ms: agent.circuit.opened.map(|at| at.0),
            circuit_cause: agent.circuit.cause.clone(),
            failures_unix_ms: times(&agent.circuit.failures),
            work: agent.work.as_ref().map(Into::into),
            verbs: verbs::written(&agent.verbs),
            created_unix_ms: agent.created.0,
        }
    }
}

impl TryFrom<pb::Agent> for Agent {
    type Error = CodecError;
    fn try_from(agent: pb::Agent) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &agent.id)?,
            session: read::optional("session", &agent.session)?,
            epoch: agent.epoch,
            liveness: read::word("liveness", &agent.liveness, &Liveness::ALL, Liveness::as_str)?,
            reason: agent.reason,
            since: BusTime(agent.since_unix_ms),
            ending: read::maybe("ending", agent.ending)?,
            mail_read: agent.mail_read,
            denials: agent.denials.map_or_else(Denials::default, |it| Denials {
                since: BusTime(it.since_unix_ms),
                count: it.count,
                told: it.told,
            }),
            parent: read::optional("parent", &agent.parent)?,
            depth: read::small("depth", agent.depth)?,
            max_depth: read::small("maxDepth", agent.max_depth)?,
            local_max_depth: read::small("localMaxDepth", agent.local_max_depth)?,
            requested_by: read::text("requestedBy", &agent.requested_by)?,
            project: read::optional("project", &agent.project)?,
            hosting: read::word("hosting", &agent.hosting, &HOSTINGS, hosting_word)?,
            placement: read::maybe("placement", agent.placement)?,
            label: agent.label,
            slots: read::each("slots", agent.slots)?,
            account: read::maybe("account", agent.account)?.unwrap_or_default(),
            unsettled: Unsettled {
                runs: read::each("lostRuns", agent.lost_runs)?,
                grants: read::each("heldGrants", agent.held_grants)?,
            },
            deadline: agent.deadline_unix_ms.map(BusTime),
            tools: agent.tools.into_iter().collect(),
            circuit: Circuit {
                failures: failures(agent.failures_unix_ms),
                opened: agent.circuit_opened_unix_ms.map(BusTime),
                cause: agent.circuit_cause,
            },
            work: read::maybe("work", agent.work)?,
            verbs: read::maybe("verbs", agent.verbs)?.unwrap_or_default(),
            created: BusTime(agent.created_unix_ms),
        })
    }
}

/// Times of failures, for a record.
pub(super) fn times(failures: &Failures) -> Vec<u64> {
    failures.times().iter().map(|time| time.0).collect()
}

/// Failures of a record.
pub(super) fn failures(times: Vec<u64>) -> Failures {
    Failures::new(times.into_iter().map(BusTime).collect())
}

impl From<&Host> for pb::Host {
    fn from(host: &Host) -> Self {
        Self {
            name: host.name.to_string(),
            instance: host.instance.clone(),
            labels: read::map(&host.labels),
            capacity: host.capacity,
            address: host.address.clone(),
            joined_unix_ms: host.joined.0,
            drained: host.drained,
        }
    }
}

impl TryFrom<pb::Host> for Host {
    type Error = CodecError;
    fn try_from(host: pb::Host) -> Result<Self, CodecError> {
        Ok(Self {
            name: read::text("name", &host.name)?,
            instance: host.instance,
            labels: read::pairs(host.labels),
            capacity: host.capacity,
            address: host.address,
            joined: BusTime(host.joined_unix_ms),
            drained: host.drained,
        })
    }
}

impl From<&Project> for pb::Project {
    fn from(project: &Project) -> Self {
        Self {
            name: project.name.to_string(),
            mode: project.mode.as_str().to_owned(),
            created_by: project.created_by.to_string(),
            created_unix_ms: project.created.0,
            retired: project.retired,
            fencing: project.fencing,
        }
    }
}

impl TryFrom<pb::Project> for Project {
    type Error = CodecError;
    fn try_from(project: pb::Project) -> Result<Self, CodecError> {
        Ok(Self {
            name: read::text("name", &project.name)?,
            mode: mode("mode", &project.mode)?,
            created_by: read::text("createdBy", &project.created_by)?,
            created: BusTime(project.created_unix_ms),
            retired: project.retired,
            fencing: project.fencing,
        })
    }
}

impl From<&Profile> for pb::Profile {
    fn from(profile: &Profile) -> Self {
        Self {
            name: profile.name.to_string(),
            runner: profile.kind.as_str().to_owned(),
            argv: profile.argv.clone(),
            env: read::map(&profile.env),
            pass_env: profile.pass_env.clone(),
            writable: profile.writable.clone(),
            model: profile.model.clone(),
            prompt: profile.prompt.clone(),
            provider: profile.served.provider.clone(),
            base_url: profile.served.base_url.clone(),
            key_from: profile.served.key_from.clone(),
            max_output_tokens: profile.served.max_output_tokens,
            context_tokens: profile.served.context_tokens,
            tools: names(&profile.tools),
            budget: budget::written(profile.budget, profile.wall),
            workspace: profile.workspace.clone(),
            worktree: profile.worktree.map_or_else(String::new, |it| it.as_str().to_owned()),
        }
    }
}

impl TryFrom<pb::Profile> for Profile {
    type Error = CodecError;
    fn try_from(profile: pb::Profile) -> Result<Self, CodecError> {
        let (limits, wall) = budget::read("budget", profile.budget)?;
        Ok(Self {
            name: read::text("name", &profile.name)?,
            kind: read::word("runner", &profile.runner, &RunnerKind::ALL, RunnerKind::as_str)?,
            argv: profile.argv,
            env: read::pairs(profile.env),
            pass_env: profile.pass_env,
            writable: profile.writable,
            model: profile.model,
            served: Served {
                provider: profile.provider,
                base_url: profile.base_url,
                key_from: profile.key_from,
                max_output_tokens: profile.max_output_tokens,
                context_tokens: profile.context_tokens,
            },
            prompt: profile.prompt,
            tools: profile.tools.into_iter().collect(),
            budget: limits,
            wall,
            workspace: profile.workspace,
            worktree: read::some(profile.worktree)
                .map(|word| read::word("worktree", &word, &Worktree::ALL, Worktree::as_str))
                .transpose()?,
        })
    }
}
