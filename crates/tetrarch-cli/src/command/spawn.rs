//! `spawn`: asks the governor for agents on a human's behalf and shows its decision (spec 03,
//! Spawn protocol).

use serde_json::{Value, json};
use tetrarch_bus::codec;
use tetrarch_bus::subject::Subject;
use tetrarch_core::budget::Limits;
use tetrarch_core::duration;
use tetrarch_core::id::{AgentId, Domain, EpicId, HostName, NodeId, ProfileName};
use tetrarch_core::limits::SUBAGENTS_PER_REQUEST_MAX;
use tetrarch_core::mail::{Denied, MailBody, SpawnAnswer};
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{SpawnRequest, SubagentWish, TaskWish};
use tetrarch_core::role::Role;
use tetrarch_core::time::Millis;

use crate::command::project::BudgetLimitArgs;
use crate::output::{self, Cell, align, is_coloured};
use crate::{CliError, CliResult, Code, Context, new_id};

/// Arguments of `spawn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch spawn PO-demo worker --epic goal_01JD8Z5W6T4QK3M9X2V7B1N0AC --task 'count the files'
  tetrarch spawn PO-demo specialist --domain api --epic goal_01JD8Z5W6T4QK3M9X2V7B1N0AC \\
      --node T1.2 --task 'describe the interface'
  tetrarch spawn PO-demo worker --count 5 --queue --epic goal_01JD8Z5W6T4QK3M9X2V7B1N0AC \\
      --task 'search'

Exit codes: 4 the request was denied.")]
pub(crate) struct SpawnArgs {
    /// The parent of the new agents.
    parent: AgentId,
    /// The role: specialist, reviewer or worker.
    #[arg(value_parser = role)]
    role: Role,
    /// The task, in words.
    #[arg(long)]
    task: String,
    /// The goal.
    #[arg(long)]
    epic: EpicId,
    /// The node of the plan [default: add a new node].
    #[arg(long)]
    node: Option<NodeId>,
    /// The domain of specialists and reviewers.
    #[arg(long)]
    domain: Option<Domain>,
    /// The profile [default: the project's `default`].
    #[arg(long)]
    profile: Option<ProfileName>,
    /// The number of agents.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::try_from(SUBAGENTS_PER_REQUEST_MAX).unwrap_or(i64::MAX)))]
    count: u8,
    /// A label for people.
    #[arg(long, default_value = "", hide_default_value = true)]
    label: String,
    /// The allowed tools, separated by commas [default: the profile's].
    #[arg(long, value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// The host.
    #[arg(long)]
    host: Option<HostName>,
    /// The longest run time, such as 30m.
    #[arg(long, value_parser = duration::parse)]
    wall: Option<Millis>,
    /// The budget.
    #[command(flatten)]
    budget: BudgetLimitArgs,
    /// Queue the request if only a free slot or a place on a host is missing.
    #[arg(long)]
    queue: bool,
    /// The reason, for the ledger.
    #[arg(long, default_value = "a human asked")]
    reason: String,
}

fn role(text: &str) -> Result<Role, String> {
    let roles =
        || format!("{text:?} is not a role of sub-agents; allowed: specialist, reviewer, worker");
    Role::parse(text).filter(|role| role.takes_slot()).ok_or_else(roles)
}

/// Runs the command.
///
/// # Errors
/// The governor refuses (4), does not answer, or the request is malformed.
pub(crate) async fn run(context: &Context, args: SpawnArgs) -> CliResult {
    let client = context.client().await?;
    let id = new_id();
    let wanted = request(args);
    let payload = codec::encode_spawn_request(&wanted, id).map_err(CliError::usage)?;
    let SpawnRequest { epic, node, .. } = wanted;
    let subject = Subject::SpawnRequest { epic, node, from: client.human.clone(), via: None };
    let mail = client.request(&subject, id, payload, None).await?;
    let MailBody::SpawnAnswer(answer) = mail else {
        return Err(CliError::new(Code::Failed, "the answer is not an answer to a spawn request"));
    };
    if !answer.refused() {
        output::record(context.output, &value(&answer), || sheet(&answer))?;
    }
    verdict(&answer)
}

fn request(args: SpawnArgs) -> SpawnRequest {
    let wish = SubagentWish {
        role: args.role,
        domain: args.domain,
        task: TaskWish::Task(args.task),
        suggested_actor_id: args.label,
        local_max_depth: None,
        budget: Limits::from(args.budget),
        wall: args.wall,
        tools: args.tools.map(|tools| tools.into_iter().collect()),
        profile: args.profile,
        placement: PlacementWish { host: args.host, labels: Vec::new() },
    };
    SpawnRequest {
        epic: args.epic,
        node: args.node,
        parent: Some(args.parent),
        requested_by: None,
        reason: args.reason,
        caller_depth: None,
        caller_max_depth: None,
        caller_local_max_depth: None,
        subagents: vec![wish; usize::from(args.count)],
        ack_required: true,
        wait: args.queue,
    }
}

/// Fails when at least one was refused, with the reasons and what to do instead.
fn verdict(answer: &SpawnAnswer) -> CliResult {
    if answer.denied.is_empty() && !answer.refused() {
        return Ok(());
    }
    let each: Vec<String> = answer
        .denied
        .iter()
        .map(|denied| {
            let numbers = match (denied.limit, denied.current) {
                (Some(limit), Some(current)) => format!(" (limit {limit}, current {current})"),
                (Some(limit), None) => format!(" (limit {limit})"),
                (None, _) => String::new(),
            };
            format!(
                "{} {}: {}{numbers}: {}",
                denied.role, denied.index, denied.reason, denied.detail
            )
        })
        .collect();
    let head = if !answer.refused() { "some requests were denied" } else { "denied" };
    let overall = if answer.reason.is_empty() {
        head.to_owned()
    } else {
        format!("{head}: {}", answer.reason)
    };
    let what = std::iter::once(overall).chain(each).collect::<Vec<_>>().join("\n  ");
    let error = CliError::new(Code::Denied, what);
    let hint = match (answer.suggestion.as_str(), answer.retry) {
        ("", false) => return Err(error),
        (suggestion, false) => suggestion.to_owned(),
        ("", true) => "try again later".to_owned(),
        (suggestion, true) => format!("{suggestion}; or try again later"),
    };
    Err(error.hint(hint))
}

fn sheet(answer: &SpawnAnswer) -> String {
    let lines: Vec<Vec<Cell>> = answer
        .spawned
        .iter()
        .map(|spawned| {
            vec![
                spawned.agent.to_string().into(),
                spawned.node.to_string().into(),
                spawned.host.to_string().into(),
                format!("depth {}", spawned.depth).into(),
            ]
        })
        .collect();
    let queued = answer.queued.iter().map(|queued| {
        vec![
            format!("{} {}", queued.role, queued.index).into(),
            Cell::state("queued"),
            queued.reason.as_str().into(),
            queued.detail.as_str().into(),
        ]
    });
    align(&lines.into_iter().chain(queued).collect::<Vec<_>>(), is_coloured())
}

fn value(answer: &SpawnAnswer) -> Value {
    let spawned: Vec<Value> = answer
        .spawned
        .iter()
        .map(|spawned| {
            json!({
                "actorId": spawned.agent.to_string(),
                "sessionId": spawned.session.to_string(),
                "epoch": spawned.epoch,
                "depth": spawned.depth,
                "planNodeId": spawned.node.to_string(),
                "host": spawned.host.to_string(),
            })
        })
        .collect();
    let refused = |all: &[Denied]| -> Vec<Value> {
        let each = all.iter().map(|denied| {
            json!({
                "index": denied.index,
                "role": denied.role.as_str(),
                "reason": denied.reason.as_str(),
                "limit": denied.limit,
                "current": denied.current,
                "detail": denied.detail,
            })
        });
        each.collect()
    };
    json!({
        "requestId": answer.request.map(|request| request.to_string()),
        "spawnedAgents": spawned,
        "deniedAgents": refused(&answer.denied),
        "queuedAgents": refused(&answer.queued),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetrarch_core::error::DenialReason;
    use tetrarch_core::id::{RequestId, Ulid};

    #[test]
    fn denial_shows_cause_and_next_step() {
        let denied = Denied {
            index: 0,
            role: Role::Worker,
            reason: DenialReason::ChildrenLimitExceeded,
            limit: Some(3),
            current: Some(3),
            detail: "3 of 3 slots are held".to_owned(),
        };
        let answer = SpawnAnswer {
            request: Some(RequestId(Ulid::from_parts(1, 1))),
            denied: vec![denied],
            reason: "all_requests_denied".to_owned(),
            suggestion: "complete it yourself".to_owned(),
            ..SpawnAnswer::default()
        };
        let error = verdict(&answer).unwrap_err();
        assert_eq!(error.code, Code::Denied);
        assert!(
            error.what.contains("children_limit_exceeded (limit 3, current 3)"),
            "{}",
            error.what
        );
        assert_eq!(error.hint.as_deref(), Some("complete it yourself"));
    }

    #[test]
    fn only_sub_agents_are_spawned() {
        assert_eq!(role("worker"), Ok(Role::Worker));
        assert_eq!(role("S"), Ok(Role::Specialist));
        assert!(role("host").is_err() && role("coder").is_err());
    }
}
