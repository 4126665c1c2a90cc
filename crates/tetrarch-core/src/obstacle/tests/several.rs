//! Several obstacles at a time, what is progress and no obstacle, and how long a standstill is borne.

use serde_json::json;

use super::{block, fleet, found, goal, placed, set, solo_outside, trip, well, with_mode};
use crate::agent::Mode;
use crate::id::EpicId;
use crate::limits::{OBSTACLE_BORNE, RETURN_AWAITED};
use crate::liveness::Liveness;
use crate::obstacle::{ObstacleKind as Kind, Telemetry, of_epic, standstill};
use crate::owner::tests::fleet::{Fleet, id, plan_of, po, request, success, task, wish};
use crate::request::Report;
use crate::request::goals::GoalVerb;
use crate::role::Role;
use crate::time::Millis;

#[test]
fn obstacle_outside_the_records_comes_first() {
    let (mut fleet, epic) = fleet();
    trip(&mut fleet, "");
    let alone = Telemetry { owner: false, halted: Some("the disk is full".to_owned()) };
    let kinds = |telemetry: &Telemetry| -> Vec<(Kind, usize)> {
        let all = of_epic(&fleet.records, telemetry, epic);
        all.iter().map(|it| (it.kind, it.holds_up)).collect()
    };
    assert_eq!(kinds(&alone), [(Kind::OwnerAbsent, 3), (Kind::CircuitOpen, 0)]);
    let full = Telemetry { owner: true, ..alone };
    assert_eq!(kinds(&full), [(Kind::Halted, 3), (Kind::CircuitOpen, 0)]);
    assert_eq!(kinds(&well()), [(Kind::CircuitOpen, 3)]);
}

#[test]
fn waiting_for_a_slot_is_progress() {
    let (mut fleet, epic) = fleet();
    with_mode(&mut fleet, Mode::Tight);
    fleet.worker(epic, "T1.1");
    assert_eq!(found(&fleet, epic), []);
}

#[test]
fn goal_whose_orchestrators_agents_all_work_for_others_says_so() {
    let (mut fleet, first) = fleet();
    with_mode(&mut fleet, Mode::Tight);
    let second = fleet.goal(plan_of(&[task("T1.1", json!({}))]));
    fleet.worker(first, "T1.1");
    let [taken] = found(&fleet, second).try_into().unwrap();
    assert_eq!((taken.kind, taken.holds_up), (Kind::SlotsTaken, 1));
    assert_eq!(taken.what, format!("all 1 agents of PO-demo work for other goals: {first}"));
    assert_eq!(standstill(&fleet.records, &[taken], second), None, "it waits for their end");
    assert_eq!(found(&fleet, first), []);
}

#[test]
fn worker_of_a_lost_host_waits_for_a_host() {
    let (mut fleet, epic) = fleet();
    let worker = fleet.worker(epic, "T1.1");
    for lost in [&worker, &po(), &id("HO@h1")] {
        set(&mut fleet, lost, |it| it.liveness = Liveness::Offline);
    }
    let all = found(&fleet, epic);
    let kinds: Vec<(Kind, usize)> = all.iter().map(|it| (it.kind, it.holds_up)).collect();
    assert_eq!(kinds, [(Kind::NoHost, 3)]);
    assert_eq!(standstill(&fleet.records, &all, epic), Some(RETURN_AWAITED));
}

#[test]
fn obstacle_blocking_most_comes_first() {
    let (mut fleet, epic) = fleet();
    block(&mut fleet, epic, "manual");
    solo_outside(&mut fleet);
    let all = found(&fleet, epic);
    let kinds: Vec<(Kind, usize)> = all.iter().map(|it| (it.kind, it.holds_up)).collect();
    assert_eq!(kinds, [(Kind::WorkBlocked, 2), (Kind::NoSlots, 1)]);
}

#[test]
fn archived_goal_has_no_obstacles() {
    let (mut fleet, epic) = fleet();
    goal(&mut fleet, epic, GoalVerb::Pause);
    goal(&mut fleet, epic, GoalVerb::Cancel);
    assert_eq!(found(&fleet, epic), []);
}

#[test]
fn standstill_is_tolerated_as_long_as_its_obstacles() {
    let borne = |happens: &dyn Fn(&mut Fleet, EpicId)| -> Option<Millis> {
        let (mut fleet, epic) = fleet();
        happens(&mut fleet, epic);
        standstill(&fleet.records, &found(&fleet, epic), epic)
    };
    assert_eq!(borne(&|_, _| {}), None, "somebody will be asked for");
    assert_eq!(borne(&|fleet, _| trip(fleet, "")), Some(OBSTACLE_BORNE));
    let working = |fleet: &mut Fleet, epic| {
        fleet.worker(epic, "T1.1");
        trip(fleet, "");
    };
    assert_eq!(borne(&working), None, "somebody still works");
    assert_eq!(borne(&|fleet, epic| goal(fleet, epic, GoalVerb::Pause)), None, "it is resumed");
    let one_of_two = |fleet: &mut Fleet, epic| placed(fleet, epic, "yes");
    assert_eq!(borne(&one_of_two), None, "T1.3 may begin");
    let for_good = |fleet: &mut Fleet, epic| {
        placed(fleet, epic, "yes");
        let spawned = fleet.spawn(&po(), request(epic, "T1.3", vec![wish(Role::Worker)]));
        let other = spawned.spawned[0].agent.clone();
        fleet.report(&other, Report::Ready);
        fleet.end(&other, success("done"));
    };
    assert_eq!(borne(&for_good), Some(OBSTACLE_BORNE));
}
