//! The governor's table of spec 03, row by row, both ends of each bound.

use super::*;
use crate::budget::Spend;

fn parent(role: Role, depth: u8) -> ParentView {
    ParentView {
        role,
        depth,
        max_depth: 3,
        local_max_depth: 3,
        liveness: Liveness::Active,
        held: 0,
        cap: 3,
        account: Account::default(),
        deadline: None,
        tools: Tools::every(),
        circuit_open: false,
        queued: 0,
    }
}

fn wish(role: Role) -> Wish {
    Wish {
        role,
        taken: false,
        local_max_depth: None,
        budget: Limits::default(),
        wall: None,
        tools: Tools::default(),
        placement: PlacementWish::default(),
        wait: false,
    }
}

fn host(name: &str, capacity: u32, load: u32) -> HostView {
    HostView {
        placement: Placement { host: HostName::new(name).unwrap(), host_epoch: 1 },
        labels: vec![("zone".to_owned(), name.to_owned())],
        capacity,
        load,
    }
}

fn one(parent: &ParentView, standing: Standing, wish: Wish) -> Result<Grant, DenialReason> {
    let hosts = [host("a", 9, 0)];
    let admission = admit(Some(parent), standing, &hosts, &[wish], BusTime(1_000));
    match admission.granted.into_iter().next() {
        Some(grant) => Ok(grant),
        None => Err(admission.denied[0].reason),
    }
}

#[test]
fn depth_2_parent_may_spawn_and_depth_3_parent_may_not() {
    let specialist = parent(Role::Specialist, 2);
    assert_eq!(one(&specialist, Standing::Sponsor, wish(Role::Worker)).unwrap().depth, 3);
    let deep = parent(Role::Specialist, 3);
    let got = one(&deep, Standing::Sponsor, wish(Role::Worker));
    assert_eq!(got, Err(DenialReason::SpawnDepthExceeded));
}

#[test]
fn subtree_limit_refusal_names_the_limit() {
    let mut po = parent(Role::Project, 1);
    po.local_max_depth = 2;
    assert!(one(&po, Standing::Own, wish(Role::Worker)).is_ok());
    po.local_max_depth = 1;
    let admission =
        admit(Some(&po), Standing::Own, &[host("a", 9, 0)], &[wish(Role::Worker)], BusTime(0));
    assert_eq!(admission.denied[0].reason, DenialReason::DepthLimitExceeded);
    assert!(admission.denied[0].detail.contains("local_max_depth is 1"));
    assert_eq!(Admission::overall(&admission.denied), "all_requests_exceed_depth_limit");
}

#[test]
fn local_max_depth_only_tightens() {
    let mut po = parent(Role::Project, 1);
    po.local_max_depth = 2;
    let with = |depth| Wish { local_max_depth: Some(depth), ..wish(Role::Specialist) };
    assert_eq!(one(&po, Standing::Own, with(3)).unwrap().local_max_depth, 2);
    assert_eq!(one(&po, Standing::Own, with(2)).unwrap().local_max_depth, 2);
    assert_eq!(one(&po, Standing::Own, with(1)).unwrap().local_max_depth, 2, "depth is 2");
    assert_eq!(one(&po, Standing::Own, wish(Role::Worker)).unwrap().max_depth, 3);
}

#[test]
fn fourth_child_is_refused() {
    let po = parent(Role::Project, 1);
    let wishes: Vec<Wish> = (0..4).map(|_| wish(Role::Worker)).collect();
    let admission = admit(Some(&po), Standing::Own, &[host("a", 9, 0)], &wishes, BusTime(0));
    assert_eq!(admission.granted.len(), 3);
    let denied = &admission.denied[0];
    assert_eq!((denied.index, denied.reason), (3, DenialReason::ChildrenLimitExceeded));
    assert_eq!((denied.limit, denied.current), (Some(3), Some(3)));
}

#[test]
fn children_of_one_request_count_against_host_capacity() {
    let po = parent(Role::Project, 1);
    let wishes = [wish(Role::Worker), wish(Role::Worker)];
    let admitted =
        |load| admit(Some(&po), Standing::Own, &[host("a", 2, load)], &wishes, BusTime(0));
    assert_eq!(admitted(0).granted.len(), 2);
    let full = admitted(1);
    assert_eq!((full.granted.len(), full.denied[0].index), (1, 1));
    assert_eq!(full.denied[0].reason, DenialReason::NoHostAvailable);
    assert_eq!(Admission::overall(&full.denied), "all_requests_denied");
    assert_eq!(Admission::overall(&[]), "all_requests_denied");
}

#[test]
fn structural_children_take_no_slot() {
    let mut go = parent(Role::Global, 0);
    go.held = 3;
    assert!(one(&go, Standing::Own, wish(Role::Project)).is_ok());
    assert_eq!(
        one(&go, Standing::Own, wish(Role::Worker)),
        Err(DenialReason::RoleNotAllowed),
        "GO never spawns a worker"
    );
}

#[test]
fn specialist_needs_a_sponsor() {
    let specialist = parent(Role::Specialist, 2);
    let got = one(&specialist, Standing::Own, wish(Role::Worker));
    assert_eq!(got, Err(DenialReason::RoleNotAllowed));
}

#[test]
fn parent_must_be_active_and_requested_by_an_authorized_sender() {
    let got = admit(None, Standing::Own, &[], &[wish(Role::Worker)], BusTime(0));
    assert_eq!(got.denied[0].reason, DenialReason::UnknownParent);
    for liveness in Liveness::ALL {
        let po = ParentView { liveness, ..parent(Role::Project, 1) };
        let got = one(&po, Standing::Own, wish(Role::Worker)).map(drop);
        let expected =
            if liveness == Liveness::Active { Ok(()) } else { Err(DenialReason::ParentNotActive) };
        assert_eq!(got, expected, "{liveness}");
    }
    let po = parent(Role::Project, 1);
    let got = one(&po, Standing::None, wish(Role::Worker));
    assert_eq!(got, Err(DenialReason::Unauthorized));
    let po = ParentView { circuit_open: true, ..po };
    assert_eq!(one(&po, Standing::Own, wish(Role::Worker)), Err(DenialReason::CircuitOpen));
}

#[test]
fn budgets_and_tools_stay_within_the_parents() {
    let mut po = parent(Role::Project, 1);
    po.account.limit.tokens = Some(90);
    po.account.spent = Spend { tokens: 30, ..Spend::default() };
    let asking = |tokens| Wish {
        budget: Limits { tokens: Some(tokens), ..Limits::default() },
        ..wish(Role::Worker)
    };
    assert_eq!(one(&po, Standing::Own, asking(60)).unwrap().budget.tokens, Some(60));
    assert_eq!(one(&po, Standing::Own, asking(61)), Err(DenialReason::BudgetExceeded));
    assert_eq!(one(&po, Standing::Own, wish(Role::Worker)).unwrap().budget.tokens, Some(20));
    po.tools = ["read"].into_iter().collect();
    let with = |tools: &[&str]| Wish { tools: tools.iter().copied().collect(), ..asking(1) };
    assert!(one(&po, Standing::Own, with(&["read"])).is_ok());
    assert_eq!(
        one(&po, Standing::Own, with(&["read", "write"])),
        Err(DenialReason::ToolNotAllowed)
    );
}

#[test]
fn wall_clock_is_at_most_the_parents() {
    let mut po = parent(Role::Project, 1);
    po.deadline = Some(BusTime(6_000));
    let with = |ms| Wish { wall: Some(Millis(ms)), ..wish(Role::Worker) };
    assert_eq!(one(&po, Standing::Own, with(5_000)).unwrap().deadline, Some(BusTime(6_000)));
    assert_eq!(one(&po, Standing::Own, with(5_001)), Err(DenialReason::BudgetExceeded));
    let inherited = one(&po, Standing::Own, wish(Role::Worker)).unwrap().deadline;
    assert_eq!(inherited, Some(BusTime(6_000)));
}

#[test]
fn taken_name_is_refused_as_duplicate() {
    let go = parent(Role::Global, 0);
    let got = one(&go, Standing::Own, Wish { taken: true, ..wish(Role::Project) });
    assert_eq!(got, Err(DenialReason::DuplicateIdentity));
}

#[test]
fn placement_takes_the_freest_host_that_fits() {
    let po = parent(Role::Project, 1);
    let hosts = [host("b", 4, 0), host("a", 4, 0), host("c", 9, 6)];
    let place = |wish: Wish| {
        let got = admit(Some(&po), Standing::Own, &hosts, &[wish], BusTime(0));
        got.granted.first().map(|grant| grant.placement.host.to_string())
    };
    assert_eq!(place(wish(Role::Worker)).as_deref(), Some("a"), "ties by name");
    let named = |name: &str| Wish {
        placement: PlacementWish { host: Some(HostName::new(name).unwrap()), labels: vec![] },
        ..wish(Role::Worker)
    };
    assert_eq!(place(named("c")).as_deref(), Some("c"));
    assert_eq!(place(named("d")), None);
    let labelled = Wish {
        placement: PlacementWish { host: None, labels: vec![("zone".to_owned(), "b".to_owned())] },
        ..wish(Role::Worker)
    };
    assert_eq!(place(labelled).as_deref(), Some("b"));
    let full = [host("a", 2, 2)];
    let got = admit(Some(&po), Standing::Own, &full, &[wish(Role::Worker)], BusTime(0));
    assert_eq!(got.denied[0].reason, DenialReason::NoHostAvailable);
}

#[test]
fn sponsor_must_be_an_orchestrator_above() {
    let id = |text: &str| text.parse::<AgentId>().unwrap();
    let s = id("S:api:01JD8Z5W6T4QK3M9X2V7B1N0AE");
    let above = [id("PO-a"), AgentId::Go];
    assert_eq!(standing(&s, &s, &above), Standing::Own);
    assert_eq!(standing(&id("PO-a"), &s, &above), Standing::Sponsor);
    assert_eq!(standing(&AgentId::Go, &s, &above), Standing::Sponsor);
    assert_eq!(standing(&id("PO-b"), &s, &above), Standing::None);
    assert_eq!(standing(&id("HO@a"), &s, &above), Standing::None);
}
