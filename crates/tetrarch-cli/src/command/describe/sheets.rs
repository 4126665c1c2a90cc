//! How everything about one thing is laid out for people.

use tetrarch_bus::journal::Journaled;
use tetrarch_core::agent::{Agent, DEFAULT_PROFILE, ORCHESTRATOR_PROFILE};
use tetrarch_core::assignment::Assignment;
use tetrarch_core::budget::{Account, Meter};
use tetrarch_core::duration;
use tetrarch_core::goal::Goal;
use tetrarch_core::id::{AgentId, EpicId, HostName, ProjectName, RunId};
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_core::run::{Run, RunStatus};
use tetrarch_core::verb::Verbs;
use tetrarch_view::row::place_of;

use crate::StateSnapshot;
use crate::command::describe::handoffs::{self, moment};
use crate::command::describe::journal::{lines, shortened};
use crate::command::get::rows::{cost, said};
use crate::command::plan::ended_earlier;
use crate::output::{Cell, Sheet, age, is_coloured, now, stamp};

/// Everything about an agent.
pub(super) fn agent(snapshot: &StateSnapshot, id: &AgentId, journal: &[Journaled]) -> String {
    let mut sheet = Sheet::new(&id.to_string(), is_coloured());
    let Some(agent) = snapshot.records.agents.get(id) else { return sheet.finish() };
    sheet
        .field("role", Role::of(id).as_str())
        .field("label", agent.label.as_str())
        .field("state", Cell::state(agent.liveness.as_str()))
        .field("reason", agent.reason.as_str())
        .field("since", moment(agent.since))
        .field("created", moment(agent.created))
        .field("session", Cell::some(agent.session))
        .field("epoch", agent.epoch.to_string())
        .field("parent", Cell::some(agent.parent.as_ref()))
        .field("requested by", agent.requested_by.to_string())
        .field("project", Cell::some(agent.project.as_ref()))
        .field("host", place_of(agent))
        .field(
            "depth",
            format!("{} of {} (limit {})", agent.depth, agent.local_max_depth, agent.max_depth),
        )
        .field("deadline", Cell::some(agent.deadline.map(stamp)))
        .field("circuit", if agent.circuit.is_open() { "open" } else { "" })
        .list("tools", agent.tools.names().map(str::to_owned));
    account(&mut sheet, &agent.account);
    let slots = agent.slots.iter().map(|slot| {
        let grant = slot.grant;
        vec![
            slot.child.to_string().into(),
            Cell::some(grant.tokens.map(|tokens| format!("{tokens} tokens"))),
            Cell::some(grant.cost_micro.map(cost)),
            Cell::some(grant.turns.map(|turns| format!("{turns} turns"))),
        ]
    });
    sheet.table("slots", slots.collect());
    let queued = snapshot.records.spawns_queued_for(id).flat_map(|queued| {
        queued.waiting.iter().map(|waiting| {
            vec![
                queued.request.to_string().into(),
                waiting.role.as_str().into(),
                Cell::from(waiting.reason.as_str()),
                waiting.detail.as_str().into(),
                moment(queued.since).into(),
            ]
        })
    });
    sheet.table("queued", queued.collect());
    verbs(&mut sheet, &agent.verbs);
    if let AgentId::Ho(host) = id {
        placed(&mut sheet, snapshot, host);
    }
    if let Some(work) = &agent.work {
        if let Some(found) = snapshot.records.assignments.get(&work.assignment) {
            assignment(&mut sheet, &snapshot.records, found);
        }
        let run = snapshot.records.runs.get(&work.run);
        run_section(&mut sheet, run, snapshot.records.run_status.get(&work.run));
    }
    sheet.table("journal", lines(journal));
    sheet.finish()
}

/// The verbs that were asked of it, the latest last.
fn verbs(sheet: &mut Sheet, verbs: &Verbs) {
    let rows = verbs.receipts.iter().map(|receipt| {
        vec![
            receipt.verb.as_str().into(),
            Cell::state(receipt.stage.as_str()),
            format!(
                "{} ago",
                age(now(), receipt.ended.or(receipt.delivered).unwrap_or(receipt.queued))
            )
            .into(),
            receipt.by.to_string().into(),
            receipt.why.as_str().into(),
        ]
    });
    sheet.table("verbs", rows.collect());
}

fn account(sheet: &mut Sheet, account: &Account) {
    let amount = |meter: Meter, shown: fn(u64) -> String| {
        let limit = meter.limit.map_or_else(|| "unlimited".to_owned(), shown);
        format!("{} spent and {} reserved of {limit}", shown(meter.spent), shown(meter.reserved))
    };
    sheet
        .section("budget")
        .field("tokens", amount(account.tokens(), |tokens| tokens.to_string()))
        .field("cost", amount(account.cost(), cost))
        .field("turns", amount(account.turns(), |turns| turns.to_string()));
}

fn assignment(sheet: &mut Sheet, records: &Records, found: &Assignment) {
    let goal = records.goals.get(&found.epic);
    sheet
        .section("assignment")
        .field("id", found.id.to_string())
        .field("state", Cell::state(found.status.as_str()))
        .field("reason", found.reason.as_str())
        .field("epic", found.epic.to_string())
        .field("node", found.node.to_string())
        .field("attempt", found.attempt.to_string())
        .field("follows", Cell::some(found.follows))
        .field("recovery", found.policy.to_string())
        .field("updated", moment(found.updated))
        .list("origin", goal.into_iter().flat_map(origin));
}

/// Where a goal came from and where answers go.
fn origin(goal: &Goal) -> impl Iterator<Item = String> + '_ {
    goal.spec.origin.iter().map(|(key, text)| format!("{key} {text}"))
}

fn run_section(sheet: &mut Sheet, run: Option<&Run>, status: Option<&RunStatus>) {
    if let Some(run) = run {
        let brief = &run.brief;
        sheet
            .section("run")
            .field("id", run.id.to_string())
            .field("state", Cell::state(status.map_or("", |status| status.state.as_str())))
            .field("since", Cell::some(status.map(|status| moment(status.since))))
            .field("agent", run.agent.to_string())
            .field("session", run.session.to_string())
            .field("epic", run.epic.to_string())
            .field("node", run.node.to_string())
            .field("continues", Cell::some(run.continues))
            .field("created", moment(run.created))
            .field("wall", Cell::some(brief.wall.map(duration::print)))
            .field("profile", brief.runner.profile.as_str())
            .field("runner", brief.runner.kind.as_str())
            .field("command", brief.runner.argv.join(" "))
            .field("workspace", brief.workspace.as_str());
        sheet.passage("goal", &brief.goal);
        sheet.passage("success criteria", &brief.success_criteria.join("\n"));
    }
    let Some(status) = status else { return };
    if let Some(archive) = &status.archive {
        sheet.field("archive", archive.as_str());
    }
    let spend = status.usage.spend();
    sheet
        .section("usage")
        .field("tokens", spend.tokens.to_string())
        .field("cost", cost(spend.cost_micro))
        .field("turns", spend.turns.to_string());
    let Some(result) = &status.result else { return };
    sheet
        .section("result")
        .field("outcome", Cell::state(result.outcome.as_str()))
        .field("error", result.error.as_str())
        .list("artifacts", result.artifacts.iter().map(|a| format!("{} {}", a.sha256, a.name)))
        .list("files", result.evidence.files.iter().cloned())
        .list("commands", result.evidence.commands.iter().cloned())
        .list("tests", result.evidence.tests.iter().cloned())
        .list("commits", result.evidence.commits.iter().cloned());
    if let Some(verdict) = &result.verdict {
        let finding = |place: &str, what: &str| format!("{place}: {what}");
        sheet
            .field("verdict", verdict.judgement.as_str())
            .list("findings", verdict.findings.iter().map(|f| finding(&f.place, &f.what)));
    }
    sheet.passage("deliverable", &result.deliverable);
    sheet.passage("partial", &result.partial);
    sheet.passage("summary", &result.crystallization);
}

/// Everything about a run.
pub(super) fn run(snapshot: &StateSnapshot, id: RunId, journal: &[Journaled]) -> String {
    let mut sheet = Sheet::new(&id.to_string(), is_coloured());
    let run = snapshot.records.runs.get(&id);
    run_section(&mut sheet, run, snapshot.records.run_status.get(&id));
    for found in snapshot.records.assignments.values() {
        assignment(&mut sheet, &snapshot.records, found);
    }
    sheet.table("journal", lines(journal));
    sheet.finish()
}

/// Everything about a goal.
pub(super) fn goal(snapshot: &StateSnapshot, epic: EpicId) -> String {
    let mut sheet = Sheet::new(&epic.to_string(), is_coloured());
    let records = &snapshot.records;
    let Some(goal) = records.goals.get(&epic) else { return sheet.finish() };
    let state = records.goal_states.get(&epic);
    let (plan, spec) = (records.plans.get(&epic), &goal.spec);
    sheet
        .field("title", goal.spec.title.as_str())
        .field("state", Cell::state(state.map_or("", |state| state.status.as_str())))
        .field("done", Cell::some(state.map(|state| format!("{}%", state.percent))))
        .field("since", Cell::some(state.map(|state| moment(state.since))))
        .field("project", goal.project.to_string())
        .field("owner", goal.owner.to_string())
        .field("created", moment(goal.created))
        .field("priority", state.map(|state| said(state.priorities)).unwrap_or_default())
        .field("plan", Cell::some(plan.map(|plan| format!("{} version {}", plan.id, plan.version))))
        .list("tags", spec.tags.iter().cloned())
        .list("stakeholders", spec.stakeholders.iter().cloned())
        .list("origin", origin(goal))
        .list("ended earlier", plan.and_then(ended_earlier));
    sheet.passage("problem", &spec.problem_statement);
    sheet.passage("success criteria", &spec.success_criteria.join("\n"));
    sheet.passage("constraints", &spec.constraints.join("\n"));
    sheet.passage("not about", &spec.non_goals.join("\n"));
    sheet.passage("assumptions", &spec.assumptions.join("\n"));
    let risks = spec.risks.iter().map(|risk| {
        [&risk.risk, &risk.impact, &risk.mitigation].map(|text| text.as_str().into()).to_vec()
    });
    sheet.table("risks", risks.collect());
    sheet.passage("repository", &spec.repo_context);
    let nodes = records.nodes.get(&epic).into_iter().flatten().map(|(id, node)| {
        let states = records.node_states.get(&epic);
        let state = states.and_then(|states| states.get(id));
        vec![
            id.to_string().into(),
            Cell::state(snapshot.node_status(epic, *id).as_str()),
            Cell::some(state.and_then(|state| state.assignee.as_ref())),
            shortened(&node.name).into(),
        ]
    });
    sheet.table("nodes", nodes.collect());
    handoffs::all(&mut sheet, snapshot, epic);
    if let Some(result) = state.and_then(|state| state.result.as_ref()) {
        sheet.passage("result", &result.summary);
        sheet.passage("deliverable", &result.deliverable);
        let artifacts = result.artifacts.iter().map(|artifact| {
            vec![artifact.sha256.as_str().into(), Cell::from(artifact.name.as_str())]
        });
        sheet.table("artifacts", artifacts.collect());
    }
    sheet.finish()
}

/// Everything about a project.
pub(super) fn project(snapshot: &StateSnapshot, name: &ProjectName) -> String {
    let mut sheet = Sheet::new(&format!("project {name}"), is_coloured());
    let records = &snapshot.records;
    let Some(project) = records.projects.get(name) else { return sheet.finish() };
    sheet
        .field("mode", project.mode.as_str())
        .field("state", if project.retired { Cell::state("retired") } else { "in use".into() })
        .field("created by", project.created_by.to_string())
        .field("created", moment(project.created));
    if let Some(agent) = records.agents.get(&AgentId::Po(name.clone())) {
        sheet
            .field("orchestrator", format!("{} on {}", agent.liveness, place_of(agent)))
            .field("slots", agent.slots.len().to_string())
            .list("tools", agent.tools.names().map(str::to_owned));
        account(&mut sheet, &agent.account);
    }
    let profiles = records.profiles.iter().filter(|((project, _), _)| project == name);
    let profiles = profiles.map(|((_, profile_name), profile)| {
        let used = match profile_name.as_str() {
            DEFAULT_PROFILE => "for bare tasks",
            ORCHESTRATOR_PROFILE => "plans and reviews",
            _ => "",
        };
        vec![
            profile_name.as_str().into(),
            profile.kind.as_str().into(),
            shortened(&profile.argv.join(" ")).into(),
            profile.model.as_str().into(),
            Cell::from(used),
        ]
    });
    sheet.table("profiles", profiles.collect());
    let goals = records.goals.values().filter(|goal| goal.project == *name).map(|goal| {
        let state = records.goal_states.get(&goal.id);
        vec![
            goal.id.to_string().into(),
            Cell::state(state.map_or("", |state| state.status.as_str())),
            Cell::some(state.map(|state| format!("{}%", state.percent))),
            shortened(&goal.spec.title).into(),
        ]
    });
    sheet.table("goals", goals.collect());
    sheet.finish()
}

/// Everything about a host.
pub(super) fn host(snapshot: &StateSnapshot, name: &HostName) -> String {
    let mut sheet = Sheet::new(&format!("host {name}"), is_coloured());
    let Some(host) = snapshot.records.hosts.get(name) else { return sheet.finish() };
    let orchestrator = snapshot.records.agents.get(&AgentId::Ho(name.clone()));
    sheet
        .field("state", Cell::state(orchestrator.map_or("", |agent| agent.liveness.as_str())))
        .field("reason", Cell::some(orchestrator.map(|agent| &agent.reason)))
        .field("joined", moment(host.joined))
        .field("capacity", host.capacity.to_string())
        .field("address", host.address.as_str())
        .field("instance", host.instance.as_str())
        .list("labels", host.labels.iter().map(|(key, value)| format!("{key}={value}")));
    placed(&mut sheet, snapshot, name);
    sheet.finish()
}

fn placed(sheet: &mut Sheet, snapshot: &StateSnapshot, host: &HostName) {
    let records = &snapshot.records;
    let line = |agent: &Agent| {
        vec![
            agent.id.to_string().into(),
            Cell::state(agent.liveness.as_str()),
            Cell::some(agent.project.as_ref()),
            Cell::some(agent.work.as_ref().map(|work| work.node)),
        ]
    };
    let agents = records.placed_on(host).filter_map(|id| records.agents.get(id));
    sheet.table("agents", agents.map(line).collect());
}
