//! Drafts: proposed by agents, put to people, applied, refined, rejected, replaced; a bounded number of
//! them, forgotten with their goal.

use serde_json::json;

use super::*;
use crate::id::DraftId;
use crate::limits::{DRAFTS_KEPT_MAX, DRAFTS_OPEN_MAX, GOAL_KEPT};
use crate::mail::MailBody;
use crate::owner::Input;
use crate::plan::proposal::{DraftStatus, DraftVerdict, Proposal};

fn draft<C>(wanted: Wanted<C>) -> Wanted<C> {
    Wanted { mode: PlanMode::Draft, ..wanted }
}

fn proposing(epic: EpicId, fields: serde_json::Value) -> PlanOp {
    let PlanOp::Add(added) = add(epic, "P1", fields) else { panic!() };
    PlanOp::Add(draft(added))
}

fn decide(epic: EpicId, draft: DraftId, verdict: DraftVerdict, reason: &str) -> PlanOp {
    PlanOp::Decide { epic, draft, verdict, reason: reason.to_owned() }
}

impl Fleet {
    fn proposes(&mut self, from: &Principal, op: PlanOp) -> (Entry, DraftId) {
        let (entry, reply) = self.changes(from, op);
        let data: serde_json::Value = serde_json::from_str(&reply.data.unwrap()).unwrap();
        (entry, data["draft"].as_str().unwrap().parse().unwrap())
    }

    fn draft(&self, epic: EpicId, id: DraftId) -> &Proposal {
        &self.records.drafts[&epic][&id]
    }
}

/// What an entry has sent to somebody, as topic and words.
fn told(entry: &Entry, to: &Principal) -> Vec<(String, String)> {
    let own = entry.mail.iter().filter(|mail| mail.to == *to);
    own.filter_map(|mail| {
        let (MailBody::ReviewNeeded { reason: text } | MailBody::Info { text }) = &mail.body else {
            return None;
        };
        Some((mail.body.topic().to_owned(), text.clone()))
    })
    .collect()
}

#[test]
fn agents_draft_is_put_to_people_and_applied_on_approval() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let from = Principal::Agent(po());
    let version = fleet.version(epic);
    let (entry, id) = fleet.proposes(&from, proposing(epic, json!({"deps": ["T1.1"]})));
    assert!(entry.plans.is_empty(), "the plan is as it was");
    let [review] = entry.reviews.as_slice() else { panic!("{:?}", entry.reviews) };
    assert_eq!((review.epic, review.version), (epic, version));
    let ask = &review.asks[0];
    assert_eq!((&ask.by, ask.draft, ask.reason), (&from, Some(id), PlanReason::Replan));
    for to in [go(), human()] {
        let told = told(&entry, &to);
        assert_eq!(told.len(), 1, "{to}");
        assert_eq!(told[0].0, "plan.review_needed");
        assert!(told[0].1.contains("added T1.3: because"), "{told:?}");
    }
    let kept = fleet.draft(epic, id).clone();
    assert_eq!(
        (kept.author, kept.base_version, kept.status),
        (from.clone(), version, DraftStatus::Open)
    );

    // The plan goes on meanwhile, elsewhere.
    fleet.worker(epic, "T1.2");
    let now = fleet.version(epic);
    let approve = decide(epic, id, DraftVerdict::Approve, "good");
    let (entry, reply) = fleet.changes(&human(), approve.clone());
    assert_eq!((reply.version, reply.detail.as_str()), (Some(now + 1), "added T1.3"));
    assert_eq!(
        (entry.plans[0].source, entry.plans[0].reason),
        (PlanSource::Human, PlanReason::Replan)
    );
    assert_eq!(told(&entry, &from).len(), 1);
    let kept = fleet.draft(epic, id);
    assert_eq!(
        (kept.status, kept.version, &kept.decided_by),
        (DraftStatus::Approved, Some(now + 1), &Some(human()))
    );
    let again = fleet.refuses(&human(), approve, ErrorCode::Conflict);
    assert!(again.detail.contains("is approved by human:Shai"), "{}", again.detail);
}

#[test]
fn draft_with_an_outdated_base_stays_open() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let version = fleet.version(epic);
    let (_, id) =
        fleet.proposes(&Principal::Agent(po()), proposing(epic, json!({"deps": ["T1.1"]})));
    fleet.worker(epic, "T1.1");
    let op = decide(epic, id, DraftVerdict::Approve, "");
    let reply = fleet.refuses(&human(), op, ErrorCode::Conflict);
    assert_eq!(reply.version, Some(version + 1));
    assert_eq!(fleet.draft(epic, id).status, DraftStatus::Open);
    // Somebody else took the id that it was to have.
    let (_, id) = fleet.proposes(&Principal::Agent(po()), proposing(epic, json!({})));
    fleet.changes(&human(), add(epic, "P1", json!({"name": "faster"})));
    let op = decide(epic, id, DraftVerdict::Approve, "");
    fleet.refuses(&human(), op, ErrorCode::Conflict);
}

#[test]
fn draft_of_a_worker_has_no_tools_beyond_its_own() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = Principal::Agent(fleet.worker(epic, "T1.1"));
    let wide = || proposing(epic, json!({"tools": ["network"]}));
    fleet.refuses(&worker, wide(), ErrorCode::Unauthorized);
    let (_, id) = fleet.proposes(&Principal::Agent(po()), wide());
    assert_eq!(fleet.draft(epic, id).defines(), "T1.3 (network)", "as whoever approves sees it");
    let (_, id) = fleet.proposes(&worker, proposing(epic, json!({})));
    assert_eq!(fleet.draft(epic, id).defines(), "T1.3");
}

#[test]
fn people_and_owner_decide_and_the_author_may_withdraw() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = Principal::Agent(fleet.worker(epic, "T1.1"));
    let from = Principal::Agent(po());
    let (_, id) = fleet.proposes(&worker, proposing(epic, json!({})));
    for (by, verdict) in [
        (&from, DraftVerdict::Approve),
        (&from, DraftVerdict::Reject),
        (&worker, DraftVerdict::Approve),
        (&worker, DraftVerdict::Refine),
    ] {
        fleet.refuses(by, decide(epic, id, verdict, "r"), ErrorCode::Unauthorized);
    }
    for verdict in [DraftVerdict::Refine, DraftVerdict::Reject] {
        fleet.refuses(&human(), decide(epic, id, verdict, ""), ErrorCode::InvalidRequest);
    }
    let (entry, _) = fleet.changes(&human(), decide(epic, id, DraftVerdict::Refine, "shorter"));
    assert_eq!(fleet.draft(epic, id).status, DraftStatus::Open);
    assert!(told(&entry, &worker)[0].1.contains("refined: shorter"));
    fleet.changes(&worker, decide(epic, id, DraftVerdict::Reject, "never mind"));
    assert_eq!(fleet.draft(epic, id).status, DraftStatus::Rejected);
    let (_, id) = fleet.proposes(&worker, proposing(epic, json!({})));
    fleet.changes(&go(), decide(epic, id, DraftVerdict::Approve, ""));
    assert_eq!(fleet.node(epic, "T1.3").status, NodeStatus::Queued);
    let unknown = DraftId(crate::id::Ulid(3));
    fleet.refuses(&human(), decide(epic, unknown, DraftVerdict::Approve, ""), ErrorCode::NotFound);
}

#[test]
fn draft_replaces_another() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let from = Principal::Agent(po());
    let (_, first) = fleet.proposes(&from, proposing(epic, json!({})));
    let PlanOp::Add(better) = proposing(epic, json!({"deps": ["T1.1"]})) else { panic!() };
    let replacing = |better: &Wanted<Box<Addition>>, id| {
        PlanOp::Add(Wanted { replaces: Some(id), ..better.clone() })
    };
    let (_, second) = fleet.proposes(&from, replacing(&better, first));
    assert_eq!(fleet.draft(epic, first).status, DraftStatus::Superseded);
    assert_eq!(fleet.draft(epic, second).status, DraftStatus::Open);
    fleet.refuses(&from, replacing(&better, first), ErrorCode::Conflict);
    let worker = Principal::Agent(fleet.worker(epic, "T1.2"));
    fleet.refuses(&worker, replacing(&better, second), ErrorCode::Unauthorized);
}

#[test]
fn open_and_kept_drafts_are_bounded() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let from = Principal::Agent(po());
    let mut open = Vec::new();
    for _ in 0..DRAFTS_OPEN_MAX {
        open.push(fleet.proposes(&from, proposing(epic, json!({}))).1);
    }
    let reply = fleet.refuses(&from, proposing(epic, json!({})), ErrorCode::Conflict);
    assert!(reply.detail.contains("8 open drafts"), "{}", reply.detail);
    let oldest = open[0];
    for _ in 0..DRAFTS_KEPT_MAX {
        let id = open.remove(0);
        fleet.changes(&human(), decide(epic, id, DraftVerdict::Reject, "no"));
        open.push(fleet.proposes(&from, proposing(epic, json!({}))).1);
        assert!(fleet.records.drafts[&epic].len() <= DRAFTS_KEPT_MAX);
    }
    assert!(!fleet.records.drafts[&epic].contains_key(&oldest), "the oldest gave way");
    assert!(open.iter().all(|id| fleet.draft(epic, *id).status == DraftStatus::Open));
}

#[test]
fn draft_is_validated_on_creation() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let from = Principal::Agent(po());
    let PlanOp::Plan(nothing) = whole(&fleet, epic, &tasks(1)) else { panic!() };
    let nothing = PlanOp::Plan(draft(nothing));
    let reply = fleet.refuses(&from, nothing, ErrorCode::InvalidPlan);
    assert!(reply.detail.contains("nothing to propose"), "{}", reply.detail);
    fleet.refuses(&from, proposing(epic, json!({"deps": ["T9.9"]})), ErrorCode::InvalidPlan);
    let other = Principal::Agent("PO-other".parse().unwrap());
    fleet.refuses(&other, proposing(epic, json!({})), ErrorCode::NotFound);
    let long: Vec<_> = (2..=7)
        .map(|n| task(&format!("T1.{n}"), json!({"objective": "x".repeat(15_000)})))
        .collect();
    let mut plan = tasks(1);
    plan["phases"][0]["tasks"].as_array_mut().unwrap().extend(long);
    let PlanOp::Plan(large) = whole(&fleet, epic, &plan) else { panic!() };
    let large = PlanOp::Plan(draft(large));
    let reply = fleet.refuses(&from, large, ErrorCode::InvalidPlan);
    assert!(reply.detail.contains("in parts"), "{}", reply.detail);
}

#[test]
fn only_people_and_owner_draft_and_one_commit_is_one_event() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let (entry, _) = fleet.proposes(&human(), proposing(epic, json!({})));
    assert!(entry.reviews.is_empty(), "whoever may decide asks nobody");
    let ops = [go(), Principal::Agent(po())]
        .map(|from| (from, RequestBody::Op(Op::Plan(proposing(epic, json!({}))))));
    let inputs = ops.map(|(from, op)| fleet.asking(&from, op)).to_vec();
    let entry = fleet.group(inputs);
    let [review] = entry.reviews.as_slice() else { panic!("{:?}", entry.reviews) };
    assert_eq!(review.asks.len(), 2);
}

#[test]
fn drafts_are_forgotten_with_their_goal() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    fleet.proposes(&Principal::Agent(po()), proposing(epic, json!({})));
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("done"));
    fleet.now = fleet.now + GOAL_KEPT + GOAL_KEPT;
    for _ in 0..4 {
        fleet.one(Input::Tick);
    }
    assert!(fleet.records.goals.is_empty() && fleet.records.drafts.is_empty());
}
