//! Where the child of an agent that a host runs may work.

use serde_json::json;

use super::fleet::{Fleet, plan_of, po, request, task, tasks, wish};
use crate::brief::{Tools, Worktree};
use crate::id::{AgentId, EpicId, ProfileName, RunId, Ulid};
use crate::limits::{LIST_MAX, RECORD_BYTES_MAX};
use crate::mail::SpawnAnswer;
use crate::request::{BriefWish, SpawnRequest, SubagentWish, TaskWish};
use crate::role::Role;

#[test]
fn hosted_child_works_only_where_its_profile_or_parent_does() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(5));
    let parent = fleet.worker(epic, "T1.1");
    let own = fleet.agent(&parent).work.as_ref().unwrap().run.to_string();
    let other = RunId(Ulid(7)).to_string();
    let places = [
        ("/etc", false),
        ("/", false),
        ("../keys", false),
        (".", false),
        (".homes", false),
        ("shared/link", false),
        ("{result:T1.2}", false),
        (&other, false),
        ("shared", true),
        (&own, true),
        ("", true),
    ];
    for (workspace, taken) in places {
        let brief = BriefWish { workspace: workspace.to_owned(), ..brief() };
        let answer = fleet.spawn(&parent, request(epic, "-", vec![wanting(brief)]));
        let refused = answer.denied.iter().any(|it| it.detail.contains("brief.workspace"));
        assert_eq!(!refused, taken, "{workspace}: {answer:?}");
    }
}

#[test]
fn orchestrators_child_works_only_where_its_profile_says_and_as_apart() {
    let mut plan = plan_of(&[task("T1.1", json!({"profile": "apart"}))]);
    let silent = json!({"argv": ["work"], "workspace": "/srv/code", "tools": ["run"]});
    let mut explicit = silent.clone();
    explicit["worktree"] = json!("isolated");
    for (profile, least, workspace, taken) in [
        (&explicit, Worktree::Isolated, "/etc", false),
        (&explicit, Worktree::Isolated, "/srv", false),
        (&explicit, Worktree::Isolated, "../x", false),
        (&explicit, Worktree::Isolated, "/srv/code", true),
        (&explicit, Worktree::Isolated, "", true),
        (&silent, Worktree::Auto, "", true),
    ] {
        plan["profiles"]["apart"] = profile.clone();
        let (mut fleet, epic) = Fleet::with_goal(plan.clone());
        let brief = BriefWish {
            workspace: workspace.to_owned(),
            worktree: Some(Worktree::None),
            ..brief()
        };
        let mut wanted = wanting(brief);
        wanted.profile = Some("apart".parse().unwrap());
        wanted.tools = Some(Tools::default());
        let answer = fleet.spawn(&po(), request(epic, "-", vec![wanted]));
        let refused = answer.denied.iter().any(|it| it.detail.contains("brief.workspace"));
        assert_eq!((answer.accepted(), !refused), (taken, taken), "{workspace}: {answer:?}");
        for child in &answer.spawned {
            let given = &fleet.records.runs[&fleet.run_of(&child.agent)].brief;
            let found = (given.workspace.as_str(), given.worktree);
            assert_eq!(found, ("/srv/code", least));
        }
    }
}

#[test]
fn lists_of_a_brief_are_bounded_by_name() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let list = |count| vec!["a".to_owned(); count];
    for (count, taken) in [(LIST_MAX, true), (LIST_MAX + 1, false)] {
        for (field, brief) in [
            ("scope_paths", BriefWish { scope_paths: list(count), ..brief() }),
            ("key_facts", BriefWish { key_facts: list(count), ..brief() }),
            ("success_criteria", BriefWish { success_criteria: list(count), ..brief() }),
        ] {
            let answer = fleet.spawn(&po(), request(epic, "-", vec![wanting(brief)]));
            let named = format!("brief.{field}: {count} given; at most {LIST_MAX}");
            let is_refused = answer.denied.iter().any(|it| it.detail.contains(&named));
            assert_eq!(is_refused, !taken, "{field} {count}: {answer:?}");
        }
    }
}

#[test]
fn brief_of_many_placeholders_is_refused_at_the_cost_of_one_record() {
    let mut plan = tasks(1);
    plan["title"] = json!("g".repeat(1_000));
    let (mut fleet, epic) = Fleet::with_goal(plan);
    for (count, taken) in [(0, true), (20_000, false)] {
        let key_facts = vec!["{goal}".repeat(count / LIST_MAX); LIST_MAX];
        let wanted = wanting(BriefWish { key_facts, ..brief() });
        let answer = fleet.spawn(&po(), request(epic, "-", vec![wanted]));
        assert_eq!(answer.accepted(), taken, "{answer:?}");
        let weighed = answer
            .suggestion
            .split_once("about ")
            .and_then(|(_, bytes)| bytes.split_once(' ')?.0.parse::<usize>().ok());
        assert!(taken || weighed.unwrap() < 8 * RECORD_BYTES_MAX, "{weighed:?}");
    }
}

#[test]
fn child_is_held_to_the_rules_of_its_parent() {
    let rule = |tool: &str| json!([{"tool": tool, "action": "ask"}]);
    let llm = |rules: serde_json::Value| json!({"runner": "llm", "provider": "openai", "model": "m", "permissions": rules});
    let fields = json!({"role": "specialist", "domain": "code", "profile": "careful"});
    let mut plan = plan_of(&[task("T1.1", fields)]);
    plan["profiles"]["careful"] = llm(rule("run"));
    plan["profiles"]["other"] = llm(rule("edit"));
    plan["profiles"]["free"] = llm(json!([]));
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let parent = fleet.member(epic, "T1.1", Role::Specialist);
    for (profile, rules) in
        [("careful", &["ask run"][..]), ("other", &["ask run", "ask edit"]), ("free", &["ask run"])]
    {
        let mut wanted = wanting(brief());
        wanted.profile = Some(ProfileName::new(profile).unwrap());
        let request =
            SpawnRequest { parent: Some(parent.clone()), ..request(epic, "-", vec![wanted]) };
        let answer = fleet.spawn(&po(), request);
        let child = &answer.spawned.first().unwrap_or_else(|| panic!("{answer:?}")).agent;
        let lists = &fleet.records.runs[&fleet.run_of(child)].brief.runner.permissions;
        let held: Vec<String> =
            lists.iter().flat_map(|list| &list.rules).map(ToString::to_string).collect();
        assert_eq!(held, rules, "{profile}");
    }
}

fn brief() -> BriefWish {
    let success_criteria = vec!["it holds".to_owned()];
    BriefWish { goal: "do it".to_owned(), success_criteria, ..BriefWish::default() }
}

fn wanting(brief: BriefWish) -> SubagentWish {
    let mut wanted = wish(Role::Worker);
    wanted.budget.turns = Some(1);
    wanted.task = TaskWish::Brief(brief);
    wanted
}

/// A specialist in its own worktree of `/srv/code`, held to a scope.
fn kept_apart(scope: &str) -> (Fleet, EpicId, AgentId) {
    let fields =
        json!({"role": "specialist", "domain": "code", "profile": "apart", "scope_paths": [scope]});
    let mut plan = plan_of(&[task("T1.1", fields)]);
    plan["profiles"]["apart"] =
        json!({"argv": ["work"], "workspace": "/srv/code", "worktree": "isolated"});
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    (fleet, epic, specialist)
}

/// What the specialist asks for, sent by its orchestrator.
fn sponsored(fleet: &mut Fleet, epic: EpicId, by: &AgentId, brief: BriefWish) -> SpawnAnswer {
    let there = brief.workspace == "/srv/code";
    let mut wanted = wanting(brief);
    // In the parent's own place its worktree holds whatever the profile is.
    let named = if there { None } else { Some("apart".parse().unwrap()) };
    wanted.profile = named;
    let parent = Some(by.clone());
    fleet.spawn(&po(), SpawnRequest { parent, ..request(epic, "-", vec![wanted]) })
}

#[test]
fn childs_worktree_is_as_strict_as_its_parents_in_the_same_place() {
    let (mut fleet, epic, specialist) = kept_apart("src/**");
    let shared = BriefWish { worktree: Some(Worktree::None), ..brief() };
    let there = BriefWish { workspace: "/srv/code".to_owned(), ..shared.clone() };
    let elsewhere = BriefWish { workspace: "shared".to_owned(), ..shared.clone() };
    for brief in [there, shared, elsewhere] {
        let answer = sponsored(&mut fleet, epic, &specialist, brief);
        let child = &answer.spawned.first().unwrap_or_else(|| panic!("{answer:?}")).agent;
        let given = &fleet.records.runs[&fleet.run_of(child)].brief;
        assert_eq!(given.worktree, Worktree::Isolated, "{}", given.workspace);
        assert_eq!(given.scope_paths, ["src/**"], "the parent's");
    }
}

#[test]
fn childs_scope_lies_within_its_parents() {
    for (parents, scope, taken) in [
        ("src/**", "src/**", true),
        ("src/**", "./src/a/*.rs", true),
        ("src/**", "src", false),
        ("src/**", "srcs/a", false),
        ("src/**", "**", false),
        ("src/**", ".", false),
        ("src/**", "src/../auth.py", false),
        ("src/", "src/a.rs", true),
        ("src/", "src", true),
        ("src/", "srcs", false),
        ("src/*.rs", "src/a.rs", false),
        (".", "anything/**", true),
        ("**", "anything", true),
    ] {
        let (mut fleet, epic, specialist) = kept_apart(parents);
        let brief = BriefWish { scope_paths: vec![scope.to_owned()], ..brief() };
        let answer = sponsored(&mut fleet, epic, &specialist, brief);
        let refused = answer.denied.iter().any(|it| it.detail.contains("brief.scope_paths"));
        let found = (refused, answer.spawned.len());
        assert_eq!(found, (!taken, usize::from(taken)), "{scope} in {parents}: {answer:?}");
    }
}
