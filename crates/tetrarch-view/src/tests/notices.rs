//! What an entry of the ledger gives reason to tell, whom, and by which channel.

use tetrarch_core::goal::GoalSpec;
use tetrarch_core::id::{AgentId, CommitId, NodeId, ProjectName, QuestionId, RunId, Ulid};
use tetrarch_core::ledger::Event;

use super::*;
use crate::samples::turn;

const AT: BusTime = BusTime(5_000);

fn epic() -> EpicId {
    EpicId(Ulid::from_parts(1, 7))
}

fn human(name: &str) -> Principal {
    format!("human:{name}").parse().unwrap()
}

fn entry(records: Vec<Record>) -> Entry {
    Entry { records, ..Entry::empty(CommitId(Ulid::from_parts(1, 1)), 1, AT, 0) }
}

fn goal(owner: &str, origin: &[(&str, &str)]) -> Goal {
    let origin = origin.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    Goal {
        id: epic(),
        project: ProjectName::new("demo").unwrap(),
        spec: GoalSpec {
            title: "the site".to_owned(),
            origin: origin.collect(),
            ..GoalSpec::default()
        },
        owner: owner.parse().unwrap(),
        created: AT,
        updated: AT,
    }
}

fn question(to: &str, status: QuestionStatus) -> Record {
    Record::Question(Box::new(Question {
        id: QuestionId(Ulid::from_parts(1, 3)),
        agent: AgentId::Worker(Ulid::from_parts(1, 2)),
        run: RunId(Ulid::from_parts(1, 2)),
        epic: epic(),
        node: NodeId::task(1, 1),
        escalates: None,
        to: to.parse().unwrap(),
        text: "which\u{1b}[2J one?".to_owned(),
        options: vec!["a".to_owned(), "b".to_owned()],
        status,
        answer: String::new(),
        answered_by: None,
        asked: AT,
        since: AT,
    }))
}

fn state(status: GoalStatus) -> Record {
    Record::GoalState(Box::new(GoalState {
        id: epic(),
        status,
        percent: 100,
        result: None,
        since: AT,
        priorities: Default::default(),
    }))
}

fn notices(records: Vec<Record>) -> Vec<Notice> {
    Notice::of(9, &entry(records))
}

#[test]
fn open_question_is_a_notice_for_whom_it_is_put_to() {
    let [notice] = &notices(vec![question("human:ada", QuestionStatus::Open)])[..] else {
        panic!()
    };
    assert_eq!((notice.kind, notice.at), (NoticeKind::Question, AT));
    assert!(notice.text.ends_with("asks: which\\u{1b}[2J one? (a | b)"), "{}", notice.text);
    assert_eq!(notice.command, format!("answer {} TEXT", notice.id));
    assert!(notice.is_for(&human("ada"), None) && !notice.is_for(&human("bob"), None));
    let of_agent = notices(vec![question("PO-demo", QuestionStatus::Open)]);
    assert!(of_agent[0].is_for(&human("bob"), None), "no agent decides on it");
    for settled in [QuestionStatus::Answered, QuestionStatus::Withdrawn] {
        assert_eq!(notices(vec![question("human:ada", settled)]), []);
    }
}

#[test]
fn goal_that_ended_is_a_notice_for_its_owner_with_its_title() {
    for (status, told) in [
        (GoalStatus::Active, false),
        (GoalStatus::Paused, false),
        (GoalStatus::Completed, true),
        (GoalStatus::Cancelled, true),
        (GoalStatus::Archived, false),
    ] {
        let found = notices(vec![state(status)]);
        assert_eq!(found.len(), usize::from(told), "{status}");
        for notice in found {
            let owned = goal("human:ada", &[]);
            assert!(notice.is_for(&human("ada"), Some(&owned)));
            assert!(!notice.is_for(&human("bob"), Some(&owned)));
            assert!(!notice.is_for(&human("ada"), None), "the goal is not kept");
            assert!(!notice.is_for(&human("ada"), Some(&goal("PO-demo", &[]))));
            assert_eq!(notice.line(Some(&owned)), format!("{} is {status} [the site]", epic()));
        }
    }
}

#[test]
fn turn_is_a_notice_in_the_background_or_by_its_channel() {
    use TurnLane::{Background, Conversation};
    for (lane, status, channel, told) in [
        (Conversation, TurnStatus::Done, None, false),
        (Conversation, TurnStatus::Done, Some("phone"), true),
        (Conversation, TurnStatus::Running, Some("phone"), false),
        (Background, TurnStatus::Queued, None, false),
        (Background, TurnStatus::Asking, None, true),
        (Background, TurnStatus::Done, None, true),
        (Background, TurnStatus::Failed, None, true),
    ] {
        let made = turn(lane, status, channel);
        let found = notices(vec![Record::Turn(Box::new(made))]);
        assert_eq!(found.len(), usize::from(told), "{lane} {status} {channel:?}");
        for notice in found {
            assert!(notice.is_for(&human("ada"), None) && !notice.is_for(&human("bob"), None));
            assert_eq!(notice.channel(None), channel);
        }
    }
}

#[test]
fn goal_of_a_turn_is_told_by_the_turn_alone() {
    let made = turn(TurnLane::Background, TurnStatus::Done, None);
    let found = notices(vec![state(GoalStatus::Completed), Record::Turn(Box::new(made))]);
    assert_eq!(found.iter().map(|notice| notice.kind).collect::<Vec<_>>(), [NoticeKind::Turn]);
}

#[test]
fn notice_goes_by_the_channel_of_its_turn_or_of_the_goals_origin() {
    let [notice] = &notices(vec![question("human:ada", QuestionStatus::Open)])[..] else {
        panic!()
    };
    assert_eq!(notice.channel(None), None);
    assert_eq!(notice.channel(Some(&goal("human:ada", &[("to", "me")]))), None);
    let named = goal("human:ada", &[("to", "me"), ("channel", "pager")]);
    assert_eq!(notice.channel(Some(&named)), Some("pager"));
    let made = turn(TurnLane::Conversation, TurnStatus::Done, Some("phone"));
    let found = notices(vec![Record::Turn(Box::new(made))]);
    assert_eq!(found[0].channel(Some(&named)), Some("phone"));
}

#[test]
fn alert_is_a_notice_for_everybody_once_for_each() {
    let alert = |reason: &str| Event {
        kind: EventKind::Alert,
        actor: Principal::Agent(AgentId::Go),
        agent: Some("PO-demo".parse().unwrap()),
        run: None,
        epic: None,
        node: None,
        request: None,
        reason: reason.to_owned(),
        rule: String::new(),
    };
    let other = Event { kind: EventKind::GoalStatus, ..alert("x") };
    let made = Entry { events: vec![alert("one"), other, alert("two")], ..entry(Vec::new()) };
    let found = Notice::of(9, &made);
    let ids: Vec<&str> = found.iter().map(|notice| notice.id.as_str()).collect();
    assert_eq!(ids, ["alert-9-0", "alert-9-2"]);
    assert!(found.iter().all(|notice| notice.is_for(&human("bob"), None)));
    assert_eq!(found[0].command, "why PO-demo");
}
