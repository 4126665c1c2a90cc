//! Changes before their branches: what is proposed, who may say yes to what, and that a yes counts
//! once, in its time, for exactly what was looked at.

mod revoked;
mod stranded;

use serde_json::json;

use super::fleet::{Fleet, human, id, plan_of, po, project, reply, success, task, topics};
use crate::change::{Action, ApplyOrder, ApplyOutcome, Approvals, Change, ChangeStatus, Made};
use crate::error::ErrorCode;
use crate::id::{AgentId, ChangeId, EpicId, HostName, HumanName, Principal};
use crate::ledger::{Entry, EventKind};
use crate::limits::{APPROVAL_TTL, REFUSALS_WITHIN};
use crate::mail::{MailBody, OpReply};
use crate::owner::{Input, next_deadline};
use crate::plan::PlanReason;
use crate::request::{FileOp, GateOp, GateVerdict, Op, Report, RequestBody};
use crate::reservation::Mode;
use crate::role::Role;
use crate::time::{BusTime, Millis};

pub(crate) fn made(files: &[&str]) -> Made {
    Made {
        action: Action {
            repository: "/srv/repo/.git".to_owned(),
            target: "refs/heads/main".to_owned(),
            base: "a".repeat(40),
            head: "b".repeat(40),
            diff: "c".repeat(64),
            files: files.iter().map(|&file| file.to_owned()).collect(),
        },
        branch: "refs/heads/tetrarch/run".to_owned(),
        additions: 3,
        deletions: 1,
        size: 100,
        salvaged: false,
    }
}

/// Two tasks that may change `src/**`, and somebody at work on each.
pub(crate) fn working() -> (Fleet, EpicId, [AgentId; 2]) {
    let scope = json!({"scopePaths": ["src/**"]});
    let plan = plan_of(&[task("T1.1", scope.clone()), task("T1.2", scope)]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let agents = ["T1.1", "T1.2"].map(|on| {
        let agent = fleet.worker(epic, on);
        fleet.report(&agent, Report::Ready);
        agent
    });
    (fleet, epic, agents)
}

pub(crate) fn change(fleet: &mut Fleet, agent: &AgentId, made: Made) -> (Entry, Change) {
    let run = fleet.run_of(agent);
    let known: Vec<ChangeId> = fleet.records.changes.keys().copied().collect();
    let entry = fleet.report(agent, Report::Change { run, made: Box::new(made) });
    let mut new = fleet.records.changes.values().filter(|it| !known.contains(&it.id));
    let change = new.next().unwrap().clone();
    (entry, change)
}

pub(crate) fn approve(change: &Change) -> Op {
    let verdict = GateVerdict::Approve { digest: change.made.action.digest() };
    Op::Gate(GateOp::Decide { change: change.id, verdict, reason: String::new() })
}

fn deny(change: &Change) -> Op {
    let reason = "not so".to_owned();
    Op::Gate(GateOp::Decide { change: change.id, verdict: GateVerdict::Deny, reason })
}

pub(crate) fn apply(change: &Change) -> Op {
    Op::Gate(GateOp::Apply { change: change.id })
}

pub(crate) fn ask(fleet: &mut Fleet, op: Op) -> (Entry, OpReply) {
    let input = fleet.asking(&human(), RequestBody::Op(op));
    let entry = fleet.one(input);
    let answer = reply(&entry);
    (entry, answer)
}

fn refused(fleet: &mut Fleet, op: Op, word: &str) {
    let (_, answer) = ask(fleet, op);
    assert_eq!(answer.error, Some(ErrorCode::Conflict), "{answer:?}");
    assert!(answer.detail.contains(word), "{word}: {answer:?}");
}

fn status(fleet: &Fleet, change: &Change) -> ChangeStatus {
    fleet.records.changes[&change.id].status
}

fn orders(entry: &Entry) -> Vec<(String, ApplyOrder)> {
    let mut orders = Vec::new();
    for mail in &entry.mail {
        if let MailBody::Apply(order) = &mail.body {
            orders.push((mail.to.to_string(), (**order).clone()));
        }
    }
    orders
}

fn says(fleet: &mut Fleet, change: &Change, outcome: ApplyOutcome) -> Entry {
    let report = Report::Settled { change: change.id, outcome };
    fleet.report(&AgentId::Ho(HostName::new("h1").unwrap()), report)
}

fn applied() -> ApplyOutcome {
    ApplyOutcome::Applied { commit: "d".repeat(40) }
}

#[test]
fn human_approved_change_is_merged_once() {
    let (mut fleet, epic, [worker, _]) = working();
    let (entry, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    assert!(entry.tells(EventKind::ChangeProposed));
    assert_eq!((waits.status, &waits.to, waits.epic), (ChangeStatus::Proposed, &human(), epic));
    assert_eq!(waits.until, waits.proposed + APPROVAL_TTL);
    refused(&mut fleet, apply(&waits), "it has no approval");

    fleet.end(&worker, success("done"));
    let (entry, answer) = ask(&mut fleet, approve(&waits));
    assert_eq!(answer.error, None, "{answer:?}");
    assert!(orders(&entry).is_empty(), "a yes is no order");
    refused(&mut fleet, approve(&waits), "already approved");

    let (entry, answer) = ask(&mut fleet, apply(&waits));
    assert_eq!(answer.error, None, "{answer:?}");
    let given = orders(&entry);
    let [(to, order)] = given.as_slice() else { panic!("{given:?}") };
    assert_eq!((to.as_str(), &order.action), ("HO@h1", &waits.made.action));
    assert_eq!(order.digest, waits.made.action.digest());
    assert!(order.message.contains("Approved-by: human:Shai"), "{}", order.message);
    refused(&mut fleet, apply(&waits), "already used");
    refused(&mut fleet, deny(&waits), "applying");

    let entry = says(&mut fleet, &waits, applied());
    assert!(entry.tells(EventKind::ChangeSettled));
    let after = &fleet.records.changes[&waits.id];
    assert_eq!((after.status, after.commit.len()), (ChangeStatus::Applied, 40));
    refused(&mut fleet, apply(&waits), "already used");
    refused(&mut fleet, approve(&waits), "already applied");
    let kept = fleet.records.clone();
    says(&mut fleet, &waits, ApplyOutcome::Refused { reason: "late".to_owned() });
    assert_eq!(fleet.records.changes, kept.changes, "what it says again changes nothing");
}

#[test]
fn agent_may_not_approve_and_nobody_may_approve_unseen() {
    let (mut fleet, _, [worker, other]) = working();
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    for by in [worker.clone(), other, po(), AgentId::Ho(HostName::new("h1").unwrap())] {
        for op in [approve(&waits), deny(&waits), apply(&waits)] {
            let answer = fleet.op(&Principal::Agent(by.clone()), op);
            assert_eq!(answer.error, Some(ErrorCode::Unauthorized), "{by}: {answer:?}");
            assert!(answer.detail.contains("only a human may"), "{answer:?}");
        }
    }
    let verdict = GateVerdict::Approve { digest: made(&["src/b"]).action.digest() };
    let reason = String::new();
    refused(
        &mut fleet,
        Op::Gate(GateOp::Decide { change: waits.id, verdict, reason }),
        "review it again",
    );
    assert_eq!(status(&fleet, &waits), ChangeStatus::Proposed);
}

#[test]
fn approval_expires() {
    let (mut fleet, _, [one, other]) = working();
    let (_, first) = change(&mut fleet, &one, made(&["src/a"]));
    let (_, second) = change(&mut fleet, &other, made(&["src/b"]));
    ask(&mut fleet, approve(&first));
    assert!(next_deadline(&fleet.records, &fleet.policy, fleet.now).unwrap() <= first.until);
    fleet.now = BusTime(first.until.0 - 1);
    fleet.one(Input::Tick);
    assert_eq!(status(&fleet, &first), ChangeStatus::Approved);
    fleet.now = first.until;
    refused(&mut fleet, apply(&first), "expired");
    refused(&mut fleet, approve(&second), "expired");
    let entry = fleet.one(Input::Tick);
    assert_eq!(entry.events.iter().filter(|e| e.kind == EventKind::ChangeSettled).count(), 2);
    for change in [&first, &second] {
        assert_eq!(status(&fleet, change), ChangeStatus::Expired);
    }
    refused(&mut fleet, apply(&first), "expired");
}

#[test]
fn denial_is_final_and_has_its_reason() {
    let (mut fleet, _, [worker, _]) = working();
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    let verdict = GateVerdict::Deny;
    let op = GateOp::Decide { change: waits.id, verdict, reason: String::new() };
    assert_eq!(ask(&mut fleet, Op::Gate(op)).1.error, Some(ErrorCode::InvalidRequest));
    let (entry, answer) = ask(&mut fleet, deny(&waits));
    assert_eq!(answer.error, None, "{answer:?}");
    assert_eq!(topics(&entry, &po()), ["info"], "the agent's parent is told");
    assert_eq!(status(&fleet, &waits), ChangeStatus::Denied);
    for op in [approve(&waits), deny(&waits), apply(&waits)] {
        refused(&mut fleet, op, "denied by human:Shai: not so");
    }
    let unknown = Change { id: ChangeId(crate::id::Ulid(7)), ..waits };
    assert_eq!(ask(&mut fleet, apply(&unknown)).1.error, Some(ErrorCode::NotFound));
}

#[test]
fn conflicting_change_may_be_approved_again() {
    let (mut fleet, _, [worker, _]) = working();
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    ask(&mut fleet, approve(&waits));
    ask(&mut fleet, apply(&waits));
    let (files, reason) = (vec!["src/a".to_owned()], "both changed src/a".to_owned());
    says(&mut fleet, &waits, ApplyOutcome::Conflicted { files, reason });
    let after = &fleet.records.changes[&waits.id];
    assert_eq!((after.status, after.conflicts.len()), (ChangeStatus::Conflicted, 1));
    refused(&mut fleet, apply(&waits), "already used");
    fleet.now = fleet.now + Millis(1_000);
    assert_eq!(ask(&mut fleet, approve(&waits)).1.error, None);
    assert_eq!(orders(&ask(&mut fleet, apply(&waits)).0).len(), 1);
    says(&mut fleet, &waits, applied());
    assert_eq!(status(&fleet, &waits), ChangeStatus::Applied);
}

#[test]
fn apply_order_is_repeated_to_a_new_host_life_and_only_it_answers() {
    let (mut fleet, _, [worker, other]) = working();
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    let (_, merged) = change(&mut fleet, &other, made(&["src/b"]));
    for change in [&waits, &merged] {
        ask(&mut fleet, approve(change));
        ask(&mut fleet, apply(change));
    }
    says(&mut fleet, &merged, applied());
    fleet.join("h2", "life1", 20);
    let report = Report::Settled { change: waits.id, outcome: applied() };
    let entry = fleet.report(&id("HO@h2"), report);
    assert!(entry.tells(EventKind::Refused));
    assert_eq!(status(&fleet, &waits), ChangeStatus::Applying);
    let before = ask(&mut fleet, apply(&waits)).0;
    assert!(orders(&before).is_empty());

    let entry = fleet.join("h1", "life2", 20);
    let again = orders(&entry);
    assert_eq!(again.len(), 1, "only what is open");
    assert_eq!(again[0].1.change, waits.id);
    let answer = says(&mut fleet, &waits, applied());
    assert!(!answer.tells(EventKind::Refused), "{:?}", answer.events);
    assert_eq!(status(&fleet, &waits), ChangeStatus::Applied);
}

#[test]
fn absent_host_gets_no_apply_order() {
    let (mut fleet, _, [worker, _]) = working();
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    ask(&mut fleet, approve(&waits));
    fleet.report(&id("HO@h1"), Report::Gone { cause: "stopped".to_owned() });
    let (entry, answer) = ask(&mut fleet, apply(&waits));
    assert_eq!((answer.error, orders(&entry).len()), (Some(ErrorCode::Unavailable), 0));
    assert_eq!(status(&fleet, &waits), ChangeStatus::Approved, "the yes is not used up");
}

#[test]
fn later_change_of_the_same_work_replaces_the_earlier() {
    let (mut fleet, _, [worker, other]) = working();
    let (_, beside) = change(&mut fleet, &other, made(&["src/b"]));
    let (_, first) = change(&mut fleet, &worker, made(&["src/a"]));
    let run = fleet.run_of(&worker);
    let again = Report::Change { run, made: Box::new(made(&["src/a"])) };
    fleet.report(&worker, again);
    assert_eq!(fleet.records.changes.len(), 2, "a report that comes twice is one");
    ask(&mut fleet, approve(&first));
    let (_, second) = change(&mut fleet, &worker, made(&["src/a", "src/c"]));
    assert_eq!(status(&fleet, &first), ChangeStatus::Superseded);
    refused(&mut fleet, apply(&first), "took its place");
    assert_eq!(status(&fleet, &second), ChangeStatus::Proposed);
    assert_eq!(status(&fleet, &beside), ChangeStatus::Proposed);
}

#[test]
fn out_of_scope_change_is_refused_and_the_third_alerts_people() {
    let (mut fleet, epic, [worker, _]) = working();
    let mut reviews = Vec::new();
    for (turn, file) in ["lib/a", "*", "src/../lib"].into_iter().enumerate() {
        let run = fleet.run_of(&worker);
        let mut made = made(&[file]);
        made.additions = turn as u64;
        let entry = fleet.report(&worker, Report::Change { run, made: Box::new(made) });
        reviews.extend(entry.reviews);
        fleet.now = fleet.now + Millis(REFUSALS_WITHIN.0 / 4);
    }
    let all = fleet.records.changes.values().map(|change| change.status);
    assert_eq!(all.collect::<Vec<_>>(), [ChangeStatus::Refused; 2], "the third is no change");
    assert!(reviews.is_empty());
    let (entry, _) = change(&mut fleet, &worker, made(&["src/a", "docs/b"]));
    assert_eq!(topics(&entry, &po()), ["guard.violation"]);
    let [review] = entry.reviews.as_slice() else { panic!("{:?}", entry.reviews) };
    assert_eq!((review.epic, review.asks[0].reason), (epic, PlanReason::GuardViolation));
    assert!(review.asks[0].text.contains("docs/b"), "{review:?}");
}

#[test]
fn change_on_a_foreign_reservation_is_not_applied() {
    let (mut fleet, _, [worker, other]) = working();
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    ask(&mut fleet, approve(&waits));
    let paths = vec!["src/a".to_owned()];
    let (mode, reason) = (Mode::Exclusive, "mine".to_owned());
    let hold = Op::File(FileOp::Reserve { paths, mode, ttl: Some(Millis(60_000)), reason });
    assert_eq!(fleet.op(&Principal::Agent(other.clone()), hold).error, None);
    let (entry, answer) = ask(&mut fleet, apply(&waits));
    assert_eq!((answer.error, orders(&entry).len()), (Some(ErrorCode::Conflict), 0));
    assert!(answer.detail.contains(&other.to_string()), "{answer:?}");
    let (_, refused) = change(&mut fleet, &worker, made(&["src/a", "src/b"]));
    assert_eq!(status(&fleet, &refused), ChangeStatus::Refused);
    assert_eq!(status(&fleet, &waits), ChangeStatus::Superseded);
}

#[test]
fn reviewers_own_change_is_not_proposed() {
    let plan = plan_of(&[task("T1.1", json!({"review": {"domain": "api"}}))]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let worker = fleet.worker(epic, "T1.1");
    fleet.report(&worker, Report::Ready);
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    fleet.end(&worker, success("done"));
    let reviewer = fleet.member(epic, "T1.1", Role::Reviewer);
    fleet.report(&reviewer, Report::Ready);
    let run = fleet.run_of(&reviewer);
    fleet.report(&reviewer, Report::Change { run, made: Box::new(made(&["x"])) });
    assert_eq!(fleet.records.changes.len(), 1);
    assert_eq!(status(&fleet, &waits), ChangeStatus::Proposed);
}

fn person(name: &str) -> Principal {
    Principal::Human(HumanName::new(name).unwrap())
}

/// A change that needs two of Shai, Ada and Ben.
fn needing_two() -> (Fleet, AgentId, Change) {
    let (mut fleet, _, [worker, _]) = working();
    fleet.policy.approvals.of.insert(project(), 2);
    let names = ["Shai", "Ada", "Ben"].map(|name| HumanName::new(name).unwrap());
    fleet.policy.approvals.approvers = names.into();
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    assert_eq!(waits.needed, 2);
    (fleet, worker, waits)
}

#[test]
fn two_distinct_people_must_approve() {
    let (mut fleet, _, waits) = needing_two();
    let answer = fleet.op(&person("Ada"), approve(&waits));
    assert_eq!(answer.error, None, "{answer:?}");
    assert!(answer.detail.contains("1 of 2"), "{answer:?}");
    assert_eq!(status(&fleet, &waits), ChangeStatus::Proposed);
    refused(&mut fleet, apply(&waits), "1 of 2 required approvals");
    let answer = fleet.op(&person("Ada"), approve(&waits));
    assert_eq!(answer.error, Some(ErrorCode::Conflict), "{answer:?}");
    assert!(answer.detail.contains("it has 1 of 2 required approvals"), "{answer:?}");
    let answer = fleet.op(&person("Mallory"), approve(&waits));
    assert_eq!(answer.error, Some(ErrorCode::Unauthorized), "{answer:?}");
    // That fewer are needed from now on is nothing for what waits already.
    fleet.policy.approvals = Approvals::default();
    refused(&mut fleet, apply(&waits), "1 of 2 required approvals");
    assert_eq!(fleet.op(&person("Ben"), approve(&waits)).error, None);
    let (entry, _) = ask(&mut fleet, apply(&waits));
    let message = &orders(&entry)[0].1.message;
    assert!(message.ends_with("Approved-by: human:Ada\nApproved-by: human:Ben\n"), "{message}");
    says(&mut fleet, &waits, applied());
    assert_eq!(status(&fleet, &waits), ChangeStatus::Applied);
}

#[test]
fn conflict_requires_both_approvals_again() {
    let (mut fleet, _, waits) = needing_two();
    for name in ["Ada", "Ben"] {
        assert_eq!(fleet.op(&person(name), approve(&waits)).error, None);
    }
    ask(&mut fleet, apply(&waits));
    let (files, reason) = (vec!["src/a".to_owned()], "both changed src/a".to_owned());
    says(&mut fleet, &waits, ApplyOutcome::Conflicted { files, reason });
    fleet.now = fleet.now + Millis(1_000);
    refused(&mut fleet, apply(&waits), "already used");
    assert_eq!(fleet.op(&person("Ben"), approve(&waits)).error, None);
    refused(&mut fleet, apply(&waits), "1 of 2 required approvals");
    assert_eq!(fleet.op(&person("Ada"), approve(&waits)).error, None);
    assert_eq!(orders(&ask(&mut fleet, apply(&waits)).0).len(), 1);
}

#[test]
fn replacing_change_starts_without_earlier_approvals() {
    let (mut fleet, worker, waits) = needing_two();
    assert_eq!(fleet.op(&person("Ada"), approve(&waits)).error, None);
    let (_, second) = change(&mut fleet, &worker, made(&["src/a", "src/b"]));
    assert_eq!(fleet.op(&person("Ben"), approve(&second)).error, None);
    refused(&mut fleet, apply(&second), "1 of 2 required approvals");
    let answer = fleet.op(&person("Ben"), approve(&waits));
    assert!(answer.detail.contains("took its place"), "{answer:?}");
}

#[test]
fn too_few_approvals_expire() {
    let (mut fleet, _, waits) = needing_two();
    assert_eq!(fleet.op(&person("Ada"), approve(&waits)).error, None);
    fleet.now = BusTime(waits.until.0 - 1);
    fleet.one(Input::Tick);
    assert_eq!(status(&fleet, &waits), ChangeStatus::Proposed);
    fleet.now = waits.until;
    refused(&mut fleet, approve(&waits), "expired");
    fleet.one(Input::Tick);
    assert_eq!(status(&fleet, &waits), ChangeStatus::Expired);
    assert!(fleet.records.changes[&waits.id].reason.starts_with("too few people"));
}
