//! Work that no profile of its project can do is refused before it begins (docs/decisions/0060).

use serde_json::{Value, json};

use super::fleet::{Fleet, create, human, plan_of, po, project, request, task, topics, wish};
use crate::agent::{DelegationOptions, Mode};
use crate::brief::Tools;
use crate::conversation::Turn;
use crate::error::{DenialReason, ErrorCode};
use crate::id::{AgentId, EpicId, NodeId, Principal, ProfileName};
use crate::ledger::Record;
use crate::mail::{MailBody, OpReply};
use crate::owner::Input;
use crate::plan::change::NewNode;
use crate::plan::schema::{self, PlanFile};
use crate::request::conversations::TurnSay;
use crate::request::planning::{Addition, PlanMode, PlanOp, Wanted};
use crate::request::schedules::ScheduleOp;
use crate::request::{Op, ProjectCreate, Report, SpawnRequest};
use crate::role::Role;
use crate::schedule::{Deed, Rhythm};
use crate::time::Millis;

fn file(document: &Value) -> Box<PlanFile> {
    Box::new(schema::parse_either(document).unwrap())
}

fn give(fleet: &mut Fleet, document: &Value) -> OpReply {
    fleet.op(&human(), Op::GoalCreate { project: project(), plan: file(document) })
}

fn apply(fleet: &mut Fleet, name: &str) {
    let profile = schema::parse_profile(&json!({"name": name, "argv": ["work"]})).unwrap();
    let op = Op::ProfileApply { project: project(), profile: Box::new(profile) };
    assert_eq!(fleet.op(&human(), op).error, None);
}

fn bare() -> Value {
    json!({"goal": {"title": "Find out why the build is slow"}})
}

#[test]
fn goal_without_any_profile_is_refused_and_not_kept() {
    let mut fleet = Fleet::ready();
    let refused = give(&mut fleet, &bare());
    assert_eq!(refused.error, Some(ErrorCode::InvalidPlan));
    assert_eq!(
        refused.detail,
        "no profile for this work: T1.1 needs the profile \"default\"; there are no profiles; give a \
         task or its review a command with `run:`, name a profile with `profile:`, add \"default\" under \
         `profiles:` in the plan, or give the project one: `tetrarch profile apply demo <file>`"
    );
    assert!(fleet.records.goals.is_empty() && fleet.records.plans.is_empty());
    apply(&mut fleet, "default");
    assert_eq!(give(&mut fleet, &bare()).error, None, "as soon as there is one");
}

#[test]
fn goal_without_a_plan_is_done_by_the_only_profile_that_reads_it() {
    let profile = |name: &str| match name {
        "default" | "rust" => json!({"name": name, "argv": ["cargo", "test"]}),
        name => json!({"name": name, "runner": "claude"}),
    };
    let with = |names: &[&str]| {
        let mut fleet = Fleet::ready();
        for name in names {
            let profile = Box::new(schema::parse_profile(&profile(name)).unwrap());
            let op = Op::ProfileApply { project: project(), profile };
            assert_eq!(fleet.op(&human(), op).error, None);
        }
        let reply = give(&mut fleet, &bare());
        (fleet, reply)
    };
    for (names, done_by) in [
        (&["claude"][..], Some("claude")),
        (&["claude", "orchestrator", "rust"], Some("claude")),
        (&["claude", "default"], None),
        (&["default"], None),
    ] {
        let (fleet, reply) = with(names);
        assert_eq!(reply.error, None, "{names:?}");
        let (epic, task) = (*fleet.records.goals.keys().next().unwrap(), NodeId::task(1, 1));
        let profile = fleet.records.nodes[&epic][&task].profile.as_ref().map(ProfileName::as_str);
        assert_eq!(profile, done_by, "{names:?}");
    }
    for names in [&["claude", "codex"][..], &["orchestrator"], &["rust"]] {
        let (_, refused) = with(names);
        let why = refused.detail;
        assert!(why.contains("T1.1 needs the profile \"default\""), "{names:?}: {why}");
    }
    let mut fleet = Fleet::ready();
    let brings = json!({"goal": {"title": "x"}, "profiles": {"claude": {"runner": "claude"}}});
    assert_eq!(give(&mut fleet, &brings).error, None, "one that comes with the goal");
}

#[test]
fn profile_lets_its_project_use_its_tools_also_when_that_begins_anew() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    let bare = || Op::ProjectCreate(ProjectCreate { tools: Tools::default(), ..create(false) });
    fleet.op(&human(), bare());
    fleet.report(&po(), Report::Ready);
    let has = |fleet: &Fleet| fleet.records.agents[&po()].tools.has("broom");
    assert!(!has(&fleet));
    let profile = json!({"name": "default", "argv": ["sweep"], "tools": ["broom"]});
    let profile = Box::new(schema::parse_profile(&profile).unwrap());
    fleet.op(&human(), Op::ProfileApply { project: project(), profile });
    assert!(has(&fleet));
    fleet.op(&human(), Op::AgentRetire { agent: po(), reason: "no need".to_owned() });
    fleet.report(&po(), Report::Gone { cause: "no need".to_owned() });
    assert_eq!(fleet.op(&human(), bare()).error, None);
    assert!(has(&fleet));
}

#[test]
fn goal_adds_new_profiles_and_changes_none() {
    let mut fleet = Fleet::ready();
    apply(&mut fleet, "default");
    let brings = |argv: &str| {
        let mut goal = bare();
        goal["profiles"] = json!({"default": {"argv": [argv]}, "another": {"argv": ["work"]}});
        goal
    };
    let refused = give(&mut fleet, &brings("steal"));
    assert_eq!(refused.error, Some(ErrorCode::Conflict));
    assert!(refused.detail.contains("another profile \"default\""), "{}", refused.detail);
    let later = Deed::Goal { project: project(), plan: brings("steal").to_string() };
    let rhythm = Rhythm::Every(Millis::from_secs(60));
    let op = Op::Schedule(ScheduleOp::Create { rhythm, deed: Box::new(later) });
    assert_eq!(fleet.op(&human(), op).error, Some(ErrorCode::Conflict));
    assert_eq!(fleet.records.profiles.len(), 1, "nothing of it is kept");
    assert_eq!(give(&mut fleet, &brings("work")).error, None, "the same is no other");
    assert_eq!(fleet.records.profiles.len(), 2);
}

#[test]
fn agents_add_no_profiles_with_goals_or_schedules() {
    let mut fleet = Fleet::ready();
    apply(&mut fleet, "default");
    let orchestrator = Principal::Agent(po());
    let mut brings = bare();
    brings["profiles"] = json!({"default": {"argv": ["work"]}});
    let give = |fleet: &mut Fleet, document: &Value| {
        let goal = Op::GoalCreate { project: project(), plan: file(document) };
        let deed = Deed::Goal { project: project(), plan: document.to_string() };
        let rhythm = Rhythm::Every(Millis::from_secs(60));
        let schedule = Op::Schedule(ScheduleOp::Create { rhythm, deed: Box::new(deed) });
        [fleet.op(&orchestrator, goal), fleet.op(&orchestrator, schedule)]
    };
    assert!(give(&mut fleet, &brings).iter().all(|reply| reply.error.is_none()), "they are there");
    let key = json!({"runner": "llm", "provider": "openai", "model": "m", "keyFrom": "env:KEY"});
    for new in [json!({"argv": ["steal"]}), key] {
        brings["profiles"]["another"] = new;
        for refused in give(&mut fleet, &brings) {
            assert_eq!(refused.error, Some(ErrorCode::Unauthorized), "{}", refused.detail);
            assert!(refused.detail.contains("profile apply demo"), "{}", refused.detail);
        }
    }
    let command = plan_of(&[task("T1.1", json!({"run": "steal"}))]);
    assert!(give(&mut fleet, &command).iter().all(|reply| reply.error.is_some()));
    assert_eq!(fleet.records.profiles.len(), 1, "nothing of it is kept");
}

#[test]
fn every_node_without_a_profile_is_named_at_once() {
    let mut fleet = Fleet::ready();
    apply(&mut fleet, "coder");
    let plan = plan_of(&[
        task(
            "T1.1",
            json!({"profile": "coder", "review": {"domain": "general", "profile": "critic"}}),
        ),
        task("T1.2", json!({"profile": "tester"})),
        task("T1.3", json!({"review": {"domain": "general"}})),
        task("T1.4", json!({"profile": "brought"})),
    ]);
    let mut brings = plan;
    brings["profiles"] = json!({"brought": {"argv": ["work"]}});
    let refused = give(&mut fleet, &brings);
    assert_eq!(refused.error, Some(ErrorCode::InvalidPlan));
    for said in [
        "the review of T1.1 needs the profile \"critic\"",
        "T1.3 needs the profile \"default\"",
        "T1.2 needs the profile \"tester\"",
        "available: brought, coder",
    ] {
        assert!(refused.detail.contains(said), "{said}: {}", refused.detail);
    }
    assert!(!refused.detail.contains("T1.4"), "{}", refused.detail);
    assert!(!fleet.records.profiles.keys().any(|(_, name)| name.as_str() == "brought"));
    brings["profiles"] = json!({
        "brought": {"argv": ["work"]}, "critic": {"argv": ["work"]},
        "tester": {"argv": ["work"]}, "default": {"argv": ["work"]},
    });
    assert_eq!(give(&mut fleet, &brings).error, None);
}

#[test]
fn review_of_a_command_without_a_judge_is_refused() {
    let mut fleet = Fleet::ready();
    let plan = plan_of(&[json!({"id": "T1.1", "name": "test", "run": "make", "review": true})]);
    let refused = give(&mut fleet, &plan);
    assert_eq!(refused.error, Some(ErrorCode::InvalidPlan));
    for said in ["the review of the command T1.1", "`run:`"] {
        assert!(refused.detail.contains(said), "{said}: {}", refused.detail);
    }
    apply(&mut fleet, "orchestrator");
    assert_eq!(give(&mut fleet, &plan).error, None, "the orchestrator's profile reviews it");
}

#[test]
fn task_with_subtasks_needs_no_profile() {
    let mut fleet = Fleet::ready();
    apply(&mut fleet, "coder");
    let subtask = json!({"id": "S1.1.1", "name": "a", "acceptance": ["a"], "profile": "coder"});
    let plan = plan_of(&[task("T1.1", json!({"subtasks": [subtask]}))]);
    assert_eq!(give(&mut fleet, &plan).error, None);
}

fn add(fleet: &mut Fleet, epic: EpicId, profile: Option<&str>, mode: PlanMode) -> OpReply {
    let mut document = json!({"name": "more", "acceptance": ["more"]});
    if let Some(profile) = profile {
        document["profile"] = json!(profile);
    }
    let parent = "P1".parse().unwrap();
    let node: NewNode = schema::parse_new(&document, parent).unwrap().remove(0);
    let what = Ok(Box::new(Addition { parent, node }));
    let wanted = Wanted {
        epic,
        base_version: None,
        mode,
        replaces: None,
        reason: "more to do".to_owned(),
        what,
    };
    fleet.op(&human(), Op::Plan(PlanOp::Add(wanted)))
}

#[test]
fn change_or_draft_without_a_usable_profile_is_refused() {
    let mut fleet = Fleet::ready();
    apply(&mut fleet, "coder");
    let epic =
        give(&mut fleet, &plan_of(&[task("T1.1", json!({"profile": "coder"}))])).epic.unwrap();
    for mode in [PlanMode::Apply, PlanMode::Draft] {
        let refused = add(&mut fleet, epic, None, mode);
        assert_eq!(refused.error, Some(ErrorCode::InvalidPlan));
        assert!(refused.detail.contains(" needs the profile \"default\""), "{}", refused.detail);
        assert_eq!(add(&mut fleet, epic, Some("coder"), mode).error, None);
    }
}

fn schedule(fleet: &mut Fleet, plan: &Value) -> OpReply {
    let deed = Deed::Goal { project: project(), plan: plan.to_string() };
    let rhythm = Rhythm::Every(Millis::from_secs(60));
    fleet.op(&human(), Op::Schedule(ScheduleOp::Create { rhythm, deed: Box::new(deed) }))
}

#[test]
fn schedule_without_a_usable_profile_is_refused() {
    let mut fleet = Fleet::ready();
    let refused = schedule(&mut fleet, &bare());
    assert_eq!(refused.error, Some(ErrorCode::InvalidPlan));
    assert!(fleet.records.schedules.is_empty());
    apply(&mut fleet, "default");
    assert_eq!(schedule(&mut fleet, &bare()).error, None);
}

#[test]
fn schedule_with_a_lost_profile_starts_nothing_and_tells_its_owner() {
    let mut fleet = Fleet::ready();
    apply(&mut fleet, "default");
    let made = schedule(&mut fleet, &bare());
    fleet.records.profiles.clear();
    let id = made.detail.parse().unwrap();
    fleet.now = fleet.records.schedules[&id].next.unwrap();
    let entry = fleet.one(Input::Tick);
    assert!(fleet.records.goals.is_empty());
    let outcome = &fleet.records.schedules[&id].outcome;
    assert!(outcome.contains("T1.1 needs the profile \"default\""), "{outcome}");
    let told = entry.mail.iter().find(|mail| mail.to == human());
    assert!(told.is_some(), "{:?}", topics(&entry, &po()));
}

#[test]
fn spawn_without_a_default_profile_is_denied_by_name() {
    let mut fleet = Fleet::ready();
    apply(&mut fleet, "coder");
    let plan = plan_of(&[task("T1.1", json!({"profile": "coder"}))]);
    let epic = give(&mut fleet, &plan).epic.unwrap();
    let answer = fleet.spawn(&po(), request(epic, "-", vec![wish(Role::Worker)]));
    assert_eq!(answer.denied[0].reason, DenialReason::InvalidRequest);
    let expected = "runner: the project demo has no profile \"default\" (it has: coder); add it with \
                    `tetrarch profile apply demo <file>`";
    assert_eq!(answer.denied[0].detail, expected);
}

/// A specialist that may delegate, of a project with these profiles; and what its launch says of them.
fn delegating(profiles: &Value) -> (Fleet, EpicId, AgentId) {
    let fields = json!({"role": "specialist", "domain": "code", "profile": "lead"});
    let mut plan = plan_of(&[task("T1.1", fields)]);
    plan["profiles"] = profiles.clone();
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    (fleet, epic, specialist)
}

fn llm(model: &str) -> Value {
    json!({"runner": "llm", "provider": "openai", "model": model, "tools": ["agent_spawn"]})
}

#[test]
fn agent_of_a_solo_turn_has_no_agents_of_its_own() {
    let profiles = json!({
        "lead": {"argv": ["lead"], "tools": ["agent_spawn"]}, "default": {"argv": ["work"]},
    });
    let (mut fleet, epic, lead) = delegating(&profiles);
    let mode = Some(Mode::Solo);
    super::conversing::say(&mut fleet, TurnSay { mode, ..super::conversing::said("main", "x") });
    let (_, turn) = fleet.records.turns.first_key_value().unwrap();
    let turn = Turn { epic: Some(epic), ..turn.clone() };
    let before = fleet.records.clone();
    fleet.records.put(Record::Turn(Box::new(turn)));
    let answer = fleet.sponsored(epic, &lead);
    assert_eq!(answer.denied[0].reason, DenialReason::ChildrenLimitExceeded, "{answer:?}");
    fleet.records = before;
    assert_eq!(fleet.sponsored(epic, &lead).denied, []);
}

#[test]
fn specialist_is_told_mode_and_profiles_with_its_launch() {
    let lacking = json!({"argv": ["work"]});
    for (lead, told) in [(llm("large"), true), (lacking, false)] {
        let hands = json!({"argv": ["work"], "description": "edits files"});
        let command = json!({"argv": ["work"]});
        let (fleet, ..) =
            delegating(&json!({"lead": lead, "hands": hands, "run-0123456789ab": command}));
        let mail = fleet.ledger.iter().flat_map(|entry| &entry.mail);
        let launches = mail.filter_map(|mail| {
            let MailBody::Launch(launch) = &mail.body else { return None };
            let specialist = matches!(launch.agent, AgentId::Specialist(..));
            specialist.then(|| launch.delegation.clone())
        });
        let [delegation] = launches.collect::<Vec<_>>().try_into().unwrap();
        let pair = |name: &str, purpose: &str| (name.to_owned(), purpose.to_owned());
        let profiles = vec![
            pair("default", "process"),
            pair("hands", "edits files"),
            pair("lead", "llm large"),
        ];
        let expected = DelegationOptions { mode: Mode::Orchestrator, profiles };
        assert_eq!(delegation, told.then_some(expected));
    }
}

#[test]
fn model_is_the_profiles_else_the_parents_and_default_is_its_own() {
    let bare = json!({"runner": "llm"});
    let profiles = json!({
        "lead": llm("large"), "hands": bare, "small": llm("small"), "default": llm("root"),
    });
    let (mut fleet, epic, specialist) = delegating(&profiles);
    for (named, model) in [("hands", "large"), ("small", "small"), ("default", "root")] {
        let mut wanted = wish(Role::Worker);
        wanted.profile = Some(named.parse().unwrap());
        wanted.tools = Some(Tools::default());
        let parent = Some(specialist.clone());
        let request = SpawnRequest { parent, ..request(epic, "-", vec![wanted.clone()]) };
        let answer = fleet.spawn(&po(), request);
        let child = &answer.spawned.first().unwrap_or_else(|| panic!("{answer:?}")).agent;
        let runner = &fleet.records.runs[&fleet.run_of(child)].brief.runner;
        assert_eq!((runner.model.as_str(), runner.served.provider.as_str()), (model, "openai"));
    }
}

#[test]
fn child_of_an_orchestrator_inherits_from_default_or_is_denied() {
    for (root, model) in [(Some(llm("root")), Some("root")), (None, None)] {
        let mut profiles = json!({"lead": {"runner": "llm"}});
        if let Some(root) = root {
            profiles["default"] = root;
        }
        let mut plan = plan_of(&[task("T1.1", json!({"profile": "lead"}))]);
        plan["profiles"] = profiles;
        let (mut fleet, epic) = Fleet::with_goal(plan);
        let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![wish(Role::Worker)]));
        let run = answer.spawned.first().map(|child| fleet.run_of(&child.agent));
        let found = run.map(|run| fleet.records.runs[&run].brief.runner.model.as_str());
        assert_eq!(found, model, "{answer:?}");
        let names =
            answer.denied.iter().any(|it| it.detail.contains("leaves its model to its parent"));
        assert_eq!(names, model.is_none());
    }
}
