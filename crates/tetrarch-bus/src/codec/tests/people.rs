//! Each operation, and which people may ask for it: the policy table against what operations there are.

use std::collections::BTreeSet;

use serde_json::json;
use tetrarch_core::request::conversations::ConversationOp;
use tetrarch_core::request::planning::PlanOp;
use tetrarch_core::request::schedules::ScheduleOp;
use tetrarch_core::request::work::WorkVerb;
use tetrarch_core::request::{FileOp, GateOp, NoteOp, Op, RequestBody};

use super::requests::{decode_json, ops};
use super::samples::U;
use crate::subject::OpName;
use crate::subject::pattern::matches;
use crate::subject::pattern::policy::{CredentialRole, Person, grant};

/// A new operation has no place here until somebody says whose it is.
fn least(op: &Op) -> Person {
    match op {
        Op::AgentStatus { .. } => Person::Viewer,
        Op::AgentReplace { .. }
        | Op::AgentRetire { .. }
        | Op::AgentRotate { .. }
        | Op::Goal(_)
        | Op::GoalUpdate(_)
        | Op::GoalCreate { .. }
        | Op::HostDrain(_)
        | Op::HumanJoin { .. }
        | Op::OverseerTick(_)
        | Op::Verb(_)
        | Op::WorkBlock { .. } => Person::Operator,
        Op::Conversation(ConversationOp::Say(_) | ConversationOp::Cancel { .. }) => {
            Person::Operator
        }
        Op::Conversation(ConversationOp::Move(_) | ConversationOp::Graph(_)) => Person::Admin,
        Op::File(FileOp::List { .. }) | Op::Schedule(ScheduleOp::List { .. }) => Person::Viewer,
        Op::File(FileOp::Reserve { .. } | FileOp::Release { .. })
        | Op::Schedule(ScheduleOp::Create { .. } | ScheduleOp::Delete { .. }) => Person::Operator,
        Op::Note(NoteOp::Search { .. }) => Person::Viewer,
        Op::Note(NoteOp::Put { .. } | NoteOp::Delete { .. }) => Person::Operator,
        Op::Work(op) => match op.verb {
            WorkVerb::List { .. } | WorkVerb::Insights { .. } | WorkVerb::Recommend { .. } => {
                Person::Viewer
            }
            WorkVerb::Complete(_) | WorkVerb::Reprioritise { .. } | WorkVerb::Unblock { .. } => {
                Person::Operator
            }
        },
        Op::Plan(PlanOp::Plan(_) | PlanOp::Add(_) | PlanOp::Split(_) | PlanOp::Merge(_))
        | Op::Gate(GateOp::Apply { .. }) => Person::Operator,
        Op::Plan(PlanOp::Decide { .. })
        | Op::Gate(GateOp::Decide { .. })
        | Op::Budget(_)
        | Op::CircuitClose { .. }
        | Op::QuestionAnswer { .. } => Person::Approver,
        Op::AgentRegister
        | Op::HostJoin(_)
        | Op::ProfileApply { .. }
        | Op::ProjectCreate(_)
        | Op::ProjectMode { .. }
        | Op::ProjectRetire { .. } => Person::Admin,
    }
}

fn may(person: Person, subject: &str) -> bool {
    grant(CredentialRole::Human(person))
        .publish
        .iter()
        .any(|row| matches(&row.replace("{{name()}}", "ada"), subject))
}

/// Those that are read with a plan are not written by `encode_op`, and so not among the samples.
fn every_op() -> Vec<Op> {
    let plan = json!({"title": "t", "phases": [
        {"id": "P1", "name": "p", "tasks": [{"id": "T1.1", "name": "n", "acceptance": ["a"]}]}]});
    let epic = format!("goal_{U}");
    let bodies = [
        ("goal.create", json!({"requestId": U, "project": "demo", "plan": plan})),
        ("todo.plan", json!({"requestId": U, "epic": epic, "baseVersion": 1, "plan": plan})),
    ];
    let read = bodies.map(|(name, body)| {
        let subject = format!("op.{name}.human:ada");
        let RequestBody::Op(op) = decode_json(&subject, &body).body else { panic!("{name}") };
        op
    });
    ops().into_iter().chain(read).collect()
}

#[test]
fn operation_is_allowed_for_its_role_and_above() {
    let mut seen = BTreeSet::new();
    for op in every_op() {
        let (name, least) = (OpName::of(&op), least(&op));
        let subject = format!("op.{name}.human:ada");
        for person in Person::ALL {
            assert_eq!(may(person, &subject), person >= least, "{person:?}: {name}");
            assert!(!may(person, &format!("op.{name}.human:eve")), "{person:?}: {name}");
            assert!(!may(person, &format!("op.{name}.human:ada.h1")), "{person:?}: {name}");
        }
        assert_eq!(Person::least(&subject), Some(least), "{name}");
        assert_eq!(least == Person::Viewer, op.is_read(), "{name}: viewers read, and nothing else");
        seen.insert(subject);
    }
    let rows = grant(CredentialRole::Human(Person::Approver)).publish;
    let rows = rows.iter().filter(|row| row.starts_with("op."));
    let unknown: Vec<_> =
        rows.filter(|row| !seen.contains(&row.replace("{{name()}}", "ada"))).collect();
    assert_eq!(unknown, Vec::<&String>::new(), "rows for which there is no operation");
}

#[test]
fn spawn_mail_and_reports_are_allowed_by_role() {
    for (subject, least) in [
        ("spawn.request.goal_1.-.human:ada", Person::Operator),
        ("mail.GO.human:ada", Person::Approver),
        ("ctl.W:1.human:ada", Person::Approver),
        ("report.human:ada", Person::Admin),
    ] {
        for person in Person::ALL {
            assert_eq!(may(person, subject), person >= least, "{person:?}: {subject}");
        }
        assert_eq!(Person::least(subject), Some(least), "{subject}");
    }
    for nobodys in ["ledger.main", "$KV.STATE.agent.GO", "op.goal.human:ada", "mail.human:ada"] {
        assert_eq!(Person::least(nobodys), None, "{nobodys}");
    }
}

#[test]
fn every_role_reads_the_same_subjects() {
    let admin = grant(CredentialRole::Human(Person::Admin));
    let reads = |publish: &[String]| -> Vec<String> {
        publish.iter().filter(|row| row.starts_with('$')).cloned().collect()
    };
    for person in Person::ALL {
        let grant = grant(CredentialRole::Human(person));
        assert_eq!(grant.subscribe, admin.subscribe, "{person:?}");
        assert_eq!(reads(&grant.publish), reads(&admin.publish), "{person:?}");
        let others = grant.publish.iter().filter(|row| !row.starts_with('$'));
        for row in others {
            assert!(admin.publish.iter().any(|wide| matches(wide, row)), "{person:?}: {row}");
        }
    }
}
