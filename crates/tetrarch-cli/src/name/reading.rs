//! What there is to be named, read from STATE; nothing is read for what is named by its whole id.

use std::collections::BTreeMap;

use tetrarch_bus::Bus;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::agent::Agent;
use tetrarch_core::conversation::is_by_turn;
use tetrarch_core::goal::{Goal, GoalStatus};
use tetrarch_core::id::{AgentId, EpicId, Principal};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::run::Run;

use super::{
    Candidate, NameArgument, NameKind, NodePath, TWO_WORDS, choose, is_plausible, split_place,
    unnamed_goal,
};
use crate::{CliError, CliResult, Code, HumanClient, StateSnapshot};

/// What each text names, in its whole form.
pub(crate) type Resolved = BTreeMap<NameArgument, String>;

/// Whether there is anything to look up for a text.
pub(crate) fn is_open(asked: &NameArgument) -> bool {
    !asked.kind.is_whole(&asked.text) && is_plausible(&asked.text)
}

/// Looks up what texts name.
///
/// # Errors
/// One names several things, or none; the bus cannot be read.
pub(crate) async fn resolve(client: &HumanClient, asked: &[NameArgument]) -> CliResult<Resolved> {
    let mut resolved = Resolved::new();
    for one in asked.iter().filter(|asked| is_open(asked)) {
        let whole = whole(client, one).await?;
        if one.kind == NameKind::Place
            && let Some((goal, node)) = one.text.split_once(TWO_WORDS)
        {
            // Where the two were two words, each stands for the place.
            for word in [goal, node] {
                let word = NameArgument { kind: NameKind::Place, text: word.to_owned() };
                resolved.entry(word).or_insert_with(|| whole.clone());
            }
        }
        resolved.insert(one.clone(), whole);
    }
    Ok(resolved)
}

async fn whole(client: &HumanClient, asked: &NameArgument) -> CliResult<String> {
    let NameArgument { kind, text } = asked;
    if *kind == NameKind::Place {
        return place(client, text).await;
    }
    if matches!(kind, NameKind::Thing | NameKind::Journal) {
        return thing(client, *kind, text).await;
    }
    if *kind == NameKind::Agent && split_place(text).is_some() {
        return agent_on(client, text).await;
    }
    let all = candidates(&client.bus, &client.human, *kind).await?;
    match choose(*kind, text, &all) {
        Ok(one) => Ok(one.id.clone()),
        // A wish may be for a host that has not joined yet.
        Err(_) if *kind == NameKind::Host => Ok(text.clone()),
        Err(error) => Err(error),
    }
}

async fn place(client: &HumanClient, text: &str) -> CliResult<String> {
    let Some((goal, node)) = split_place(text) else {
        let what = format!("{text:?} is not a node");
        return Err(CliError::new(Code::Usage, what)
            .hint("use T1.2 (in the only open goal) or <goal>/T1.2"));
    };
    if let Some(epic) = goal.and_then(|goal| goal.parse::<EpicId>().ok()) {
        return Ok(format!("{epic}/{node}"));
    }
    let goals = candidates(&client.bus, &client.human, NameKind::Goal).await?;
    let goal = match goal {
        Some(goal) => choose(NameKind::Goal, goal, &goals)?,
        None => unnamed_goal(&node.to_string(), &goals)?,
    };
    Ok(format!("{}/{node}", goal.id))
}

/// The agent that works on a node.
async fn agent_on(client: &HumanClient, text: &str) -> CliResult<String> {
    let place: NodePath = place(client, text).await?.parse().map_err(CliError::usage)?;
    let agents =
        StateSnapshot::read_committed(&client.bus, &[Select::Kind(KeyKind::Agent)]).await?;
    let works = |agent: &&Agent| {
        let work = agent.work.as_ref().filter(|_| agent.liveness != Liveness::Terminated);
        work.is_some_and(|work| (work.epic, work.node) == (place.epic, place.node))
    };
    let found = agents.records.agents.values().find(works);
    found.map(|agent| agent.id.to_string()).ok_or_else(|| {
        let NodePath { epic, node } = place;
        CliError::new(Code::NotFound, format!("no agent works on {epic}/{node}"))
            .hint(format!("`tetrarch why {epic}/{node}` says how it stands"))
    })
}

/// Looks among everything that has a name of its own.
async fn thing(client: &HumanClient, kind: NameKind, text: &str) -> CliResult<String> {
    for (prefix, kind) in
        [("project/", NameKind::Project), ("host/", NameKind::Host), ("run/", NameKind::Run)]
    {
        if let Some(name) = text.strip_prefix(prefix) {
            let all = candidates(&client.bus, &client.human, kind).await?;
            let found = choose(kind, name, &all)?;
            let shown = if kind == NameKind::Run { "" } else { prefix };
            return Ok(format!("{shown}{}", found.id));
        }
    }
    if split_place(text).is_some() {
        return place(client, text).await;
    }
    let all = candidates(&client.bus, &client.human, kind).await?;
    Ok(choose(kind, text, &all)?.id.clone())
}

/// Everything of a kind that there is.
///
/// # Errors
/// The bus cannot be read.
pub(crate) async fn candidates(
    bus: &Bus,
    human: &Principal,
    kind: NameKind,
) -> CliResult<Vec<Candidate>> {
    let kinds: &[KeyKind] = match kind {
        NameKind::Agent | NameKind::Principal => &[KeyKind::Agent],
        NameKind::Goal => &[KeyKind::Goal, KeyKind::GoalState, KeyKind::Schedule],
        NameKind::Thing => &[
            KeyKind::Goal,
            KeyKind::GoalState,
            KeyKind::Schedule,
            KeyKind::Run,
            KeyKind::Agent,
            KeyKind::Change,
        ],
        NameKind::Journal => &[KeyKind::Run, KeyKind::RunStatus, KeyKind::Agent],
        NameKind::Place => &[KeyKind::Goal, KeyKind::GoalState, KeyKind::Node],
        NameKind::Run => &[KeyKind::Run],
        NameKind::Question => &[KeyKind::Question],
        NameKind::Change => &[KeyKind::Change],
        NameKind::Draft => &[KeyKind::Draft],
        NameKind::Decidable => &[KeyKind::Change, KeyKind::Draft],
        NameKind::Schedule => &[KeyKind::Schedule],
        NameKind::Reservation => &[KeyKind::Reservation],
        NameKind::Project => &[KeyKind::Project],
        NameKind::Host => &[KeyKind::Host],
        NameKind::Digest => &[KeyKind::RunStatus],
    };
    let wanted: Vec<Select> = kinds.iter().copied().map(Select::Kind).collect();
    let snapshot = StateSnapshot::read_committed(bus, &wanted).await?;
    Ok(found(&snapshot, human, kind))
}

fn found(snapshot: &StateSnapshot, human: &Principal, kind: NameKind) -> Vec<Candidate> {
    let records = &snapshot.records;
    match kind {
        NameKind::Agent | NameKind::Principal => agents(records),
        NameKind::Goal => goals(records, human),
        NameKind::Thing => {
            // `@last` is a goal, and a project's name its orchestrator.
            let goals = goals(records, human).into_iter();
            let mut all: Vec<Candidate> =
                goals.map(|goal| Candidate { aliases: Vec::new(), ..goal }).collect();
            all.extend(not_last(runs(records)));
            all.extend(agents(records));
            all.extend(not_last(changes(records)));
            all
        }
        NameKind::Journal => {
            let mut all = runs(records);
            all.extend(agents(records));
            all.extend(not_last(digests(records)));
            all
        }
        NameKind::Place => nodes(records),
        NameKind::Digest => digests(records),
        NameKind::Decidable => {
            let mut all = changes(records);
            all.extend(drafts(records));
            all
        }
        NameKind::Run => runs(records),
        NameKind::Question => {
            let all = records.questions.values();
            all.map(|asked| candidate(asked.id, &asked.text, asked.asked.0)).collect()
        }
        NameKind::Change => changes(records),
        NameKind::Draft => drafts(records),
        NameKind::Schedule => {
            let all = records.schedules.values();
            all.map(|one| candidate(one.id, one.rhythm.in_words(), one.created.0)).collect()
        }
        NameKind::Reservation => {
            let all = records.reservations.values();
            all.map(|one| candidate(one.id, one.paths.join(" "), one.until.0)).collect()
        }
        NameKind::Project => projects(records),
        NameKind::Host => hosts(records),
    }
}

fn candidate(id: impl std::fmt::Display, title: impl Into<String>, made: u64) -> Candidate {
    let (id, title) = (id.to_string(), title.into());
    Candidate { id, title, made, aliases: Vec::new(), is_mine: true, is_open: true }
}

fn agents(records: &Records) -> Vec<Candidate> {
    let all = records.agents.values().map(|agent| {
        let alias = match &agent.id {
            AgentId::Po(project) => Some(project.to_string()),
            AgentId::Ho(host) => Some(host.to_string()),
            AgentId::Io(human) => Some(human.to_string()),
            AgentId::Go | AgentId::Specialist(..) | AgentId::Reviewer(..) | AgentId::Worker(_) => {
                None
            }
        };
        Candidate {
            aliases: alias.into_iter().collect(),
            // `@last` is a goal: nobody knows which agent began last.
            is_mine: false,
            is_open: agent.liveness != Liveness::Terminated,
            ..candidate(&agent.id, format!("{} {}", agent.liveness, agent.label), agent.created.0)
        }
    });
    all.collect()
}

fn goals(records: &Records, human: &Principal) -> Vec<Candidate> {
    let all = records.goals.values().map(|goal| {
        let status = records.goal_states.get(&goal.id).map(|state| state.status);
        let is_open = matches!(status, Some(GoalStatus::Active | GoalStatus::Paused));
        let project = goal.project.to_string();
        let named = if is_open { vec![format!("PO-{project}"), project] } else { Vec::new() };
        let status = status.map_or("", GoalStatus::as_str);
        Candidate {
            aliases: named,
            is_mine: goal.owner == *human && !gave_itself(records, goal),
            is_open,
            ..candidate(goal.id, format!("{status} {}", goal.spec.title), goal.created.0)
        }
    });
    all.collect()
}

/// Whether a turn of a conversation or a schedule gave a goal: nobody means it by `@last`.
fn gave_itself(records: &Records, goal: &Goal) -> bool {
    let mut own = records.schedules.values().filter(|schedule| schedule.owner == goal.owner);
    is_by_turn(goal) || own.any(|schedule| schedule.has_begun(goal.id))
}

fn nodes(records: &Records) -> Vec<Candidate> {
    let all = records.nodes.iter().flat_map(|(epic, nodes)| {
        nodes.values().map(move |node| candidate(format!("{epic}/{}", node.id), &node.name, 0))
    });
    all.collect()
}

fn digests(records: &Records) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    for status in records.run_status.values() {
        let made = status.since.0;
        let kept = status.archive.iter();
        all.extend(kept.map(|sha256| candidate(sha256, "journals of ended runs", made)));
        let files = status.result.iter().flat_map(|result| &result.artifacts);
        all.extend(files.map(|file| candidate(&file.sha256, &file.name, made)));
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    // The same bytes may be the result of many runs.
    all.dedup_by(|a, b| a.id == b.id);
    all
}

/// What has no part in `@last`.
fn not_last(candidates: Vec<Candidate>) -> impl Iterator<Item = Candidate> {
    candidates.into_iter().map(|one| Candidate { is_mine: false, ..one })
}

fn runs(records: &Records) -> Vec<Candidate> {
    let title = |run: &Run| format!("{} by {}", run.node, run.agent);
    records.runs.values().map(|run| candidate(run.id, title(run), run.created.0)).collect()
}

fn changes(records: &Records) -> Vec<Candidate> {
    let all = records.changes.values().map(|change| {
        let title = format!("{}, for {}", change.status, change.made.action.target);
        candidate(change.id, title, change.proposed.0)
    });
    all.collect()
}

fn drafts(records: &Records) -> Vec<Candidate> {
    let all = records.drafts.values().flat_map(BTreeMap::values);
    all.map(|draft| candidate(draft.id, &draft.reason, draft.created.0)).collect()
}

fn projects(records: &Records) -> Vec<Candidate> {
    let all = records.projects.values().map(|project| Candidate {
        aliases: vec![format!("PO-{}", project.name)],
        is_open: !project.retired,
        ..candidate(&project.name, project.mode.as_str(), project.created.0)
    });
    all.collect()
}

fn hosts(records: &Records) -> Vec<Candidate> {
    let all = records.hosts.values().map(|host| Candidate {
        aliases: vec![format!("HO@{}", host.name)],
        ..candidate(&host.name, &host.address, host.joined.0)
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use tetrarch_core::goal::GoalSpec;
    use tetrarch_core::id::{ProjectName, Ulid};
    use tetrarch_core::ledger::Record;
    use tetrarch_core::schedule::{Deed, Rhythm, Schedule};
    use tetrarch_core::time::{BusTime, Millis};

    use super::*;

    const AT: BusTime = BusTime(1_800_000_000_000);

    fn goal(id: EpicId, human: &Principal, session: &str) -> Goal {
        let origin = (!session.is_empty()).then(|| ("session".to_owned(), session.to_owned()));
        Goal {
            id,
            project: ProjectName::new("main").unwrap(),
            spec: GoalSpec { origin: origin.into_iter().collect(), ..GoalSpec::default() },
            owner: human.clone(),
            created: AT,
            updated: AT,
        }
    }

    #[test]
    fn last_goal_is_the_persons_own_not_that_of_a_turn_or_a_schedule() {
        let human: Principal = "human:ada".parse().unwrap();
        let turn = "turn 1 of ada's conversation main";
        let schedule = Schedule {
            id: "sch_01JD8Z5W6T4QK3M9X2V7B1N0AC".parse().unwrap(),
            owner: human.clone(),
            rhythm: Rhythm::Every(Millis::from_secs(3600)),
            deed: Deed::Goal { project: ProjectName::new("main").unwrap(), plan: String::new() },
            created: AT,
            last: Some(AT),
            next: None,
            fired: 1,
            outcome: String::new(),
        };
        let own = |n: u128| EpicId(Ulid::from_parts(AT.0, n));
        let mut records = Records::default();
        let given = [
            goal(own(1), &human, ""),
            goal(own(2), &human, turn),
            goal(EpicId::derive(AT, turn, "delegation", 3), &human, turn),
            goal(schedule.firing(AT, 0), &human, ""),
            goal(own(3), &"human:bob".parse().unwrap(), ""),
        ];
        records.put(Record::Schedule(Box::new(schedule)));
        for goal in given.clone() {
            records.put(Record::Goal(Box::new(goal)));
        }
        let candidates = goals(&records, &human);
        let is_mine = |goal: &Goal| {
            let id = goal.id.to_string();
            candidates.iter().any(|candidate| candidate.id == id && candidate.is_mine)
        };
        assert_eq!(given.map(|goal| is_mine(&goal)), [true, true, false, false, false]);
    }
}
