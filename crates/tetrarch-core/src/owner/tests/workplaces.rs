//! Where the child of an agent that a host runs may work.

use super::fleet::{Fleet, request, tasks, wish};
use crate::id::{RunId, Ulid};
use crate::request::{BriefWish, TaskWish};
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
        let mut wanted = wish(Role::Worker);
        wanted.budget.turns = Some(1);
        let brief = BriefWish {
            goal: "do it".to_owned(),
            key_facts: Vec::new(),
            output_schema: None,
            success_criteria: vec!["it holds".to_owned()],
            definition_of_done: String::new(),
            workspace: workspace.to_owned(),
            scope_paths: Vec::new(),
            turn_timeout: None,
            worktree: None,
        };
        wanted.task = TaskWish::Brief(brief);
        let answer = fleet.spawn(&parent, request(epic, "-", vec![wanted]));
        let refused = answer.denied.iter().any(|it| it.detail.contains("brief.workspace"));
        assert_eq!(!refused, taken, "{workspace}: {answer:?}");
    }
}
