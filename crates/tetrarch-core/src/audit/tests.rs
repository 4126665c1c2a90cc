//! What is a privileged act, and what the ledger has of it.

use super::*;
use crate::budget::Spend;
use crate::id::{AgentId, EpicId, HostName, NodeId, Ulid};
use crate::owner::Input;
use crate::owner::tests::fleet::{Fleet, create, human, id, join, node, po, project};
use crate::plan::{Blocker, schema};
use crate::request::Page;
use crate::request::goals::GoalVerb;
use crate::request::{HostDrain, Report};

fn epic() -> EpicId {
    EpicId(Ulid(7))
}

fn goal(verb: GoalVerb) -> Op {
    Op::Goal(GoalOp { epic: epic(), verb, reason: "late".to_owned() })
}

fn raise() -> Op {
    let more = Spend { tokens: 50, ..Spend::default() };
    Op::Budget(BudgetOp::Raise { agent: po(), more, reason: "more to do".to_owned() })
}

fn retire(agent: AgentId) -> Op {
    Op::AgentRetire { agent, reason: "no work".to_owned() }
}

/// What the audit keeps of an operation that somebody asks for.
fn kept(from: &Principal, op: Op) -> Option<Act> {
    act(&Fleet::new().ask(from, RequestBody::Op(op)))
}

#[test]
fn human_only_operation_is_audited_and_read_is_not() {
    let list = WorkVerb::List { status: None, page: Page::<NodeId>::default() };
    let host = HostName::new("h1").unwrap();
    let ops = [
        Op::ProjectCreate(create(false)),
        Op::ProjectRetire { project: project() },
        retire(po()),
        Op::HostDrain(HostDrain { host, undo: false, reason: String::new() }),
        Op::CircuitClose { agent: po() },
        raise(),
        Op::AgentStatus { agent: po() },
        Op::Work(WorkOp { epic: epic(), verb: list }),
        join("life1", 1, 2),
    ];
    for op in ops {
        let (name, administration, read) = (op.name(), op.is_administration(), op.is_read());
        let act = kept(&Principal::Agent(po()), op);
        assert!(!administration || act.is_some(), "{name}");
        assert!(!read || act.is_none(), "{name}");
        assert!(act.is_none_or(|act| act.what == name));
    }
}

#[test]
fn agent_operation_by_a_person_is_audited() {
    let block = Op::WorkBlock {
        epic: epic(),
        node: node("T1.1"),
        blocker: Blocker {
            kind: "environment".to_owned(),
            detail: "no disk".to_owned(),
            needs: String::new(),
        },
    };
    let create = Op::GoalCreate { project: project(), plan: Box::new(schema::one_task("Tidy up")) };
    for op in [block, create, goal(GoalVerb::Cancel)] {
        assert_eq!(kept(&Principal::Agent(po()), op.clone()), None, "{}", op.name());
        assert!(kept(&human(), op).is_some());
    }
}

#[test]
fn long_reason_is_cut() {
    let reason = "é".repeat(10_000);
    let act = kept(&human(), Op::AgentRetire { agent: po(), reason }).unwrap();
    assert_eq!(act.about.chars().count(), ABOUT_CHARS_MAX);
    assert!(act.about.starts_with("PO-demo: éé"));
}

#[test]
fn completed_act_is_recorded_with_who_what_why_and_credential() {
    let mut fleet = Fleet::ready();
    let mut request = fleet.ask(&human(), RequestBody::Op(retire(po())));
    request.credential = Some("UKEY".to_owned());
    let entry = fleet.one(Input::Request(Box::new(request.clone())));
    let act = Act {
        what: "agent.retire".to_owned(),
        about: "PO-demo: no work".to_owned(),
        credential: Some("UKEY".to_owned()),
    };
    let request = Some(request.id);
    let done = Audited { actor: human(), act, request, refused: None };
    assert_eq!(acts_of(&entry), [done]);
}

#[test]
fn refused_act_is_recorded_with_its_reason() {
    let mut fleet = Fleet::ready();
    let by = Principal::Agent(po());
    let asked = fleet.asking(&by, RequestBody::Op(retire(po())));
    let acts = acts_of(&fleet.one(asked));
    assert_eq!(acts.len(), 1);
    assert_eq!((&acts[0].actor, acts[0].act.what.as_str()), (&by, "agent.retire"));
    let why = acts[0].refused.as_deref().unwrap();
    assert!(why.starts_with("E_UNAUTHORIZED: "), "{why}");
}

#[test]
fn owner_start_is_an_act_and_a_report_is_none() {
    let mut fleet = Fleet::new();
    let started = acts_of(&fleet.ledger[0]);
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].act.what, "owner.started");
    assert_eq!(started[0].actor, Principal::Agent(AgentId::Go));
    fleet.join("h1", "life1", 20);
    fleet.op(&human(), Op::ProjectCreate(create(false)));
    let ready = fleet.report(&id("PO-demo"), Report::Ready);
    assert_eq!(acts_of(&ready), []);
}

#[test]
fn credential_act_is_recorded_once() {
    let mut fleet = Fleet::new();
    let (what, about) = ("creds.revoke".to_owned(), "human bob: UKEY".to_owned());
    let act = Act { what, about, credential: None };
    let it = CredentialAct { id: RequestId(Ulid(9)), by: human(), ends: None, act: act.clone() };
    let entry = fleet.one(Input::Credential(Box::new(it.clone())));
    let done = Audited { actor: human(), act, request: Some(it.id), refused: None };
    assert_eq!(acts_of(&entry), [done]);
    assert_eq!(acts_of(&fleet.one(Input::Credential(Box::new(it)))), []);
}
