//! One row for each agent (spec 08, Roster): its state, what it is about, what it uses and how fast, made of its
//! records and of what its host said last.

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_core::agent::{Agent, Hosting, ORCHESTRATOR_PROFILE};
use tetrarch_core::assignment::AssignmentStatus;
use tetrarch_core::brief::{Judgement, Outcome, Runner};
use tetrarch_core::budget::Spend;
use tetrarch_core::id::{AgentId, EpicId, NodeId, ProfileName, ProjectName, RunId};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_core::run::{Run, RunStatus};
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_core::vitals::Vitals;

use crate::alarm::{Alarm, AlarmFacts, RunawayLevel, alarm};
use crate::burn::rate;

/// What hosts said of their sessions last.
pub type ReportedVitals = BTreeMap<AgentId, Vitals>;

/// What is shown of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    /// Who.
    pub id: AgentId,
    /// Its parent.
    pub parent: Option<AgentId>,
    /// The project it works in.
    pub project: Option<ProjectName>,
    /// The work it was admitted for.
    pub work: Option<(EpicId, NodeId)>,
    /// The run at that.
    pub run: Option<RunId>,
    /// Where it stands: its run, or its session where that says more.
    pub state: &'static str,
    /// Whether its session has ended.
    pub ended: bool,
    /// What its run came to.
    pub outcome: Option<Outcome>,
    /// Why it stands first.
    pub alarm: Alarm,
    /// What it is about, in one line.
    pub intent: String,
    /// Its name for people.
    pub label: String,
    /// Its model, or its runner where it has none.
    pub model: String,
    /// Prompt tokens of its run.
    pub tokens_in: u64,
    /// Tokens of its run that a model wrote.
    pub tokens_out: u64,
    /// What its run cost, in millionths of a dollar.
    pub cost_micro: u64,
    /// The tool that works for it.
    pub tool: String,
    /// What it burned in the last minutes.
    pub rate: Spend,
    /// How long it works, or did; none without work.
    pub elapsed: Option<Millis>,
    /// Where its process is.
    pub host: String,
    /// When it was admitted.
    pub created: BusTime,
}

/// The row of every agent, in the order of their names.
#[must_use]
pub fn rows(records: &Records, reported: &ReportedVitals, now: BusTime) -> Vec<AgentRow> {
    let rejected = rejected(records);
    let mut rows: Vec<AgentRow> =
        records.agents.values().map(|agent| row(records, reported, agent, now)).collect();
    let burning = rows.iter().filter(|row| !row.ended).map(|row| row.rate);
    let level = RunawayLevel::of(&burning.collect::<Vec<Spend>>());
    for (row, agent) in rows.iter_mut().zip(records.agents.values()) {
        let facts = facts(records, agent, &rejected, level.is_reached_by(row.rate));
        row.alarm = alarm(facts);
    }
    rows
}

fn row(records: &Records, reported: &ReportedVitals, agent: &Agent, now: BusTime) -> AgentRow {
    let work = agent.work.as_ref();
    let run = work.and_then(|work| records.runs.get(&work.run));
    let status = work.and_then(|work| records.run_status.get(&work.run));
    let ended = agent.liveness == Liveness::Terminated;
    let current = |vitals: &&Vitals| !ended && vitals.epoch == agent.epoch;
    let vitals = reported.get(&agent.id).filter(current);
    let usage = status.map(|status| status.usage).unwrap_or_default();
    let told = vitals.map_or((0, 0, 0), |vitals| {
        let Vitals { tokens, tokens_out, cost_micro, .. } = vitals;
        (tokens.saturating_sub(*tokens_out), *tokens_out, *cost_micro)
    });
    let until = if ended { agent.since } else { now };
    AgentRow {
        id: agent.id.clone(),
        parent: agent.parent.clone(),
        project: agent.project.clone(),
        work: work.map(|work| (work.epic, work.node)),
        run: work.map(|work| work.run),
        state: state_of(agent, status),
        ended,
        outcome: status.and_then(|status| status.result.as_ref()).map(|result| result.outcome),
        alarm: Alarm::Quiet,
        intent: intent(records, agent, run, vitals),
        label: agent.label.clone(),
        model: model(records, agent, run),
        tokens_in: usage.tokens_in.max(told.0),
        tokens_out: usage.tokens_out.max(told.1),
        cost_micro: usage.cost_micro.max(told.2),
        tool: vitals.map(|vitals| vitals.tool.clone()).unwrap_or_default(),
        rate: vitals.map(|vitals| rate(&vitals.burn, now)).unwrap_or_default(),
        elapsed: work.map(|_| until - agent.created),
        host: place_of(agent),
        created: agent.created,
    }
}

/// Where an agent stands in one word: its run's, unless its session is neither up nor over.
#[must_use]
pub fn state_of(agent: &Agent, status: Option<&RunStatus>) -> &'static str {
    let known = matches!(agent.liveness, Liveness::Active | Liveness::Terminated);
    match status {
        Some(status) if known => status.state.as_str(),
        Some(_) | None => agent.liveness.as_str(),
    }
}

/// Where an agent's process runs, for people.
#[must_use]
pub fn place_of(agent: &Agent) -> String {
    match (&agent.placement, &agent.id, agent.hosting) {
        (Some(placement), _, _) => placement.host.to_string(),
        (None, AgentId::Ho(host), _) => host.to_string(),
        (None, _, Hosting::External) => "external".to_owned(),
        (None, _, Hosting::Owner | Hosting::Hosted) => String::new(),
    }
}

/// A name in few characters: of a long one the end, by which the commands know it too.
#[must_use]
pub fn short(id: &AgentId) -> String {
    let text = id.to_string();
    let shortened = |rest: &str| {
        let from = rest.len().saturating_sub(6);
        format!("…{}", rest.get(from..).unwrap_or(rest))
    };
    match id {
        AgentId::Go | AgentId::Ho(_) | AgentId::Po(_) | AgentId::Io(_) => text,
        AgentId::Specialist(..) | AgentId::Reviewer(..) | AgentId::Worker(_) => {
            let (head, tail) = text.rsplit_once(':').unwrap_or(("", &text));
            format!("{head}:{}", shortened(tail))
        }
    }
}

/// What it says itself, else what its work is called. An orchestrator is about what it looks after.
fn intent(records: &Records, agent: &Agent, run: Option<&Run>, vitals: Option<&Vitals>) -> String {
    if let Some(vitals) = vitals.filter(|vitals| !vitals.words.is_empty()) {
        return vitals.words.clone();
    }
    if let Some(work) = &agent.work {
        let nodes = records.nodes.get(&work.epic);
        let node = nodes.and_then(|nodes| nodes.get(&work.node)).map(|node| node.name.as_str());
        let goal = run.map_or("", |run| run.brief.goal.as_str());
        let texts = [node.unwrap_or_default(), &agent.label, goal];
        let first = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        return first.lines().next().unwrap_or_default().to_owned();
    }
    match &agent.id {
        AgentId::Po(project) => of_project(records, project),
        AgentId::Ho(host) => {
            let capacity = records.hosts.get(host).map_or(0, |host| host.capacity);
            let placed = records.placed_on(host).filter(|id| Role::of(id).takes_slot()).count();
            format!("{placed} of {capacity} places")
        }
        AgentId::Go
        | AgentId::Io(_)
        | AgentId::Specialist(..)
        | AgentId::Reviewer(..)
        | AgentId::Worker(_) => agent.label.clone(),
    }
}

/// The open goals of a project.
fn of_project(records: &Records, project: &ProjectName) -> String {
    let open = records.goal_states.values().filter(|state| !state.status.is_closed());
    let goals = open.filter_map(|state| records.goals.get(&state.id));
    let titles: Vec<&str> = goals
        .filter(|goal| goal.project == *project)
        .map(|goal| goal.spec.title.as_str())
        .collect();
    match titles.as_slice() {
        [] => "no open goal".to_owned(),
        [title] => (*title).to_owned(),
        [title, others @ ..] => format!("{title} (and {} more)", others.len()),
    }
}

fn model(records: &Records, agent: &Agent, run: Option<&Run>) -> String {
    if let Some(Runner { model, kind, .. }) = run.map(|run| &run.brief.runner) {
        return if model.is_empty() { kind.as_str().to_owned() } else { model.clone() };
    }
    // A project without this profile is orchestrated by rules.
    let (AgentId::Po(project), Ok(profile)) = (&agent.id, ProfileName::new(ORCHESTRATOR_PROFILE))
    else {
        return String::new();
    };
    let profile = records.profiles.get(&(project.clone(), profile));
    profile.map(|profile| profile.model.clone()).unwrap_or_default()
}

/// Work whose latest verdict is not a pass.
fn rejected(records: &Records) -> BTreeSet<(EpicId, NodeId)> {
    let mut latest: BTreeMap<(EpicId, NodeId), (BusTime, bool)> = BTreeMap::new();
    for status in records.run_status.values() {
        let verdict = status.result.as_ref().and_then(|result| result.verdict.as_ref());
        let (Some(verdict), Some(run)) = (verdict, records.runs.get(&status.id)) else { continue };
        let said = (status.since, verdict.judgement != Judgement::Pass);
        let known = latest.entry((run.epic, run.node)).or_insert(said);
        *known = (*known).max(said);
    }
    latest.into_iter().filter(|(_, (_, failed))| *failed).map(|(work, _)| work).collect()
}

fn facts(
    records: &Records,
    agent: &Agent,
    rejected: &BTreeSet<(EpicId, NodeId)>,
    runaway: bool,
) -> AlarmFacts {
    let work = agent.work.as_ref();
    let assignment = work.and_then(|work| records.assignments.get(&work.assignment));
    let status = work.and_then(|work| records.run_status.get(&work.run));
    let state = work.and_then(|work| records.node_states.get(&work.epic)?.get(&work.node));
    let judges = Role::of(&agent.id) == Role::Reviewer;
    // Of those who worked on it, whoever did so last.
    let latest = work.is_some_and(|work| {
        state.is_none_or(|state| {
            state.latest == Some(work.assignment) || agent.liveness != Liveness::Terminated
        })
    });
    AlarmFacts {
        liveness: agent.liveness,
        run_state: status.map(|status| status.state),
        stalled: assignment.is_some_and(|it| it.status == AssignmentStatus::Stalled),
        rejected: !judges
            && latest
            && work.is_some_and(|work| rejected.contains(&(work.epic, work.node))),
        // Work that nobody knows any more waits for nobody.
        settled: state.is_none_or(|state| state.status.is_settled()),
        runaway,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{agent, live, run, run_status, worker};
    use tetrarch_core::brief::{RunResult, Usage, Verdict};
    use tetrarch_core::ledger::Record;
    use tetrarch_core::run::RunState;

    fn records(agents: Vec<Agent>) -> Records {
        let mut records = Records::default();
        agents.into_iter().for_each(|agent| records.put(Record::Agent(Box::new(agent))));
        records
    }

    fn only(records: &Records, reported: &ReportedVitals) -> AgentRow {
        rows(records, reported, BusTime(61_000)).pop().unwrap()
    }

    #[test]
    fn row_shows_the_higher_of_recorded_and_reported_usage() {
        let mut records = records(vec![worker(2, 1, Liveness::Active)]);
        let usage = Usage { tokens_in: 100, tokens_out: 5, cost_micro: 7, turns: 1 };
        let status = RunStatus { usage, ..run_status(2, RunState::Running) };
        records.put(Record::RunStatus(Box::new(status)));
        records.put(Record::Run(Box::new(run(2, "gpt-x"))));
        let mut told = live(2, 90);
        (told.tokens_out, told.tool, told.words) = (30, "read".to_owned(), "looks".to_owned());
        let reported = ReportedVitals::from([(told.agent.clone(), told.clone())]);
        let row = only(&records, &reported);
        assert_eq!((row.tokens_in, row.tokens_out, row.cost_micro), (100, 30, 7));
        assert_eq!((row.tool.as_str(), row.intent.as_str()), ("read", "looks"));
        assert_eq!((row.model.as_str(), row.state), ("gpt-x", "running"));
        assert_eq!(row.elapsed, Some(Millis(60_000)));
        told.epoch += 1;
        let other = ReportedVitals::from([(told.agent.clone(), told)]);
        let row = only(&records, &other);
        assert_eq!((row.tokens_out, row.tool.as_str()), (5, ""), "of another session");
        assert_eq!(row.intent, "what run 2 is for");
    }

    #[test]
    fn state_is_the_runs_while_its_session_is_up_or_over() {
        for (liveness, state, word) in [
            (Liveness::Active, RunState::Running, "running"),
            (Liveness::Register, RunState::Queued, "register"),
            (Liveness::Stale, RunState::Running, "stale"),
            (Liveness::Offline, RunState::Running, "offline"),
            (Liveness::Terminated, RunState::Failed, "failed"),
        ] {
            let status = run_status(2, state);
            assert_eq!(state_of(&worker(2, 1, liveness), Some(&status)), word);
        }
        assert_eq!(state_of(&agent("GO", None, Liveness::Active), None), "active");
    }

    #[test]
    fn agent_whose_work_was_not_accepted_is_marked_until_a_pass() {
        let mut records = records(vec![worker(2, 1, Liveness::Active)]);
        records.put(Record::RunStatus(Box::new(run_status(2, RunState::Running))));
        records.put(crate::samples::open_node(1));
        let judged = |n, judgement, since| {
            let mut result = RunResult::ended(Outcome::Success, "");
            result.verdict = Some(Verdict { judgement, findings: Vec::new() });
            let status = run_status(n, RunState::Done);
            RunStatus { result: Some(result), since: BusTime(since), ..status }
        };
        assert_eq!(only(&records, &ReportedVitals::new()).alarm, Alarm::Quiet);
        for (n, judgement, since, expected) in [
            (7, Judgement::NeedsChanges, 5, Alarm::VerificationFailed),
            (6, Judgement::Pass, 6, Alarm::Quiet),
            (5, Judgement::Fail, 7, Alarm::VerificationFailed),
            (4, Judgement::Pass, 8, Alarm::Quiet),
        ] {
            records.put(Record::Run(Box::new(run(n, ""))));
            records.put(Record::RunStatus(Box::new(judged(n, judgement, since))));
            assert_eq!(only(&records, &ReportedVitals::new()).alarm, expected);
        }
    }
}
