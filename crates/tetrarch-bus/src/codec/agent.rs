//! Records of agents, hosts, projects, profiles and notes.

use tetrarch_core::agent::{
    Agent, DelegationOptions, Ending, HeldGrant, Host, Hosting, LostRun, Mode, Placement, Profile,
    Project, Slot, Unsettled, Work,
};
use tetrarch_core::brief::Served;
use tetrarch_core::denials::Denials;
use tetrarch_core::id::AgentId;
use tetrarch_core::intensity::{Circuit, FailureCause, Failures};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::note::ProjectNote;
use tetrarch_core::time::BusTime;

use super::error::CodecError;
use super::wire::{Wire, absent, kept, message, words};

words!(FailureCause, Hosting, Liveness, Mode);

message!(Placement, Placement { host, host_epoch });
message!(Slot, Slot { child, grant });
message!(LostRun, LostRun { run, charged as kept });
message!(HeldGrant, HeldGrant { child, grant, spent as kept, runs });
message!(Work, Work { epic, node, assignment, run });
message!(Ending, Ending { cause, reason, until: until_unix_ms });
message!(Denials, Denials { since: since_unix_ms, count, told });

message!(Agent, Agent {
    id, session, epoch, liveness, reason, since: since_unix_ms, ending, mail_read,
    denials as absent, parent, depth, max_depth, local_max_depth, requested_by, project, hosting,
    placement, label, slots, account as kept,
    unsettled: Unsettled { runs: lost_runs, grants: held_grants },
    deadline: deadline_unix_ms, tools,
    circuit_open <- |agent: &Self| agent.circuit.is_open(),
    circuit: Circuit {
        failures: failures_unix_ms, opened: circuit_opened_unix_ms, cause: circuit_cause,
    },
    work, verbs as absent, created: created_unix_ms,
    // Every agent's ancestors end at GO, which `core::check` holds.
    root <- |_: &Self| AgentId::Go.put(),
    retired,
});

message!(Host, Host { name, instance, labels, capacity, address, joined: joined_unix_ms, drained });
message!(Project, Project { name, mode, created_by, created: created_unix_ms, retired, fencing });

message!(
    ProjectNote,
    ProjectNote { project, name, text, author, version, updated: updated_unix_ms }
);

message!(DelegationOptions, DelegationOptions { mode, profiles });

message!(Profile, Profile {
    name, description, kind: runner, argv, env, pass_env, writable, model,
    served: Served {
        provider: provider, base_url: base_url, key_from: key_from,
        max_output_tokens: max_output_tokens, context_tokens: context_tokens,
    },
    prompt, tools, permissions as absent, mcp_servers, (budget, wall): budget, workspace, worktree,
});

impl Wire<Vec<u64>> for Failures {
    fn put(&self) -> Vec<u64> {
        self.times().iter().map(Wire::put).collect()
    }

    fn get(held: Vec<u64>) -> Result<Self, CodecError> {
        Ok(Self::new(held.into_iter().map(BusTime).collect()))
    }
}
