//! What an entry of the ledger gives reason to tell, whom, and by which channel.

use tetrarch_core::id::{
    AgentId, CommitId, DraftId, NodeId, PlanId, ProjectName, QuestionId, RunId, Ulid,
};
use tetrarch_core::ledger::Event;
use tetrarch_core::plan::proposal::{PlanReview, ReviewAsk};
use tetrarch_core::plan::{Blocker, PlanReason};

use super::*;
use crate::samples::{goal, node_state, turn};

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
    Notice::of(&entry(records))
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
            assert_eq!(notice.channel(&human("ada"), None), channel);
        }
    }
}

#[test]
fn goal_of_a_turn_is_told_by_the_turn_alone() {
    let ended = &notices(vec![state(GoalStatus::Completed)])[0];
    let turn = "turn 3 of ada's conversation main";
    let made_of_it = goal("human:ada", &[("session", turn)]);
    let of_turn = Goal { id: EpicId::derive(AT, turn, "delegation", 1), ..made_of_it.clone() };
    assert!(!ended.is_for(&human("ada"), Some(&of_turn)));
    assert!(ended.is_for(&human("ada"), Some(&made_of_it)), "the person made it of what was said");
    let elsewhere = goal("human:ada", &[("session", "a chat of another program")]);
    assert!(ended.is_for(&human("ada"), Some(&elsewhere)));
    let asks = &notices(vec![question("human:ada", QuestionStatus::Open)])[0];
    assert!(asks.is_for(&human("ada"), Some(&of_turn)), "it waits for somebody");
}

#[test]
fn plan_that_somebody_is_to_look_at_is_a_notice_unless_a_draft_is() {
    let ask = |draft: Option<DraftId>| ReviewAsk {
        by: "PO-demo".parse().unwrap(),
        reason: PlanReason::Replan,
        draft,
        text: "nothing fits".to_owned(),
    };
    let review = PlanReview {
        epic: epic(),
        plan: PlanId(Ulid::from_parts(1, 8)),
        project: ProjectName::new("demo").unwrap(),
        version: 1,
        asks: vec![ask(Some(DraftId(Ulid::from_parts(1, 4)))), ask(None)],
        trace: None,
        at: AT,
    };
    let found = Notice::of(&Entry { reviews: vec![review], ..entry(Vec::new()) });
    assert_eq!((found.len(), found[0].kind), (1, NoticeKind::Draft));
    assert_eq!(found[0].text, "PO-demo asks to look at the plan: nothing fits");
}

#[test]
fn notice_goes_by_the_channel_of_its_turn_or_of_the_goals_origin() {
    let [notice] = &notices(vec![question("human:ada", QuestionStatus::Open)])[..] else {
        panic!()
    };
    assert_eq!(notice.channel(&human("ada"), None), None);
    assert_eq!(notice.channel(&human("ada"), Some(&goal("human:ada", &[("to", "me")]))), None);
    let named = goal("human:ada", &[("to", "me"), ("channel", "pager")]);
    assert_eq!(notice.channel(&human("ada"), Some(&named)), Some("pager"));
    let made = turn(TurnLane::Conversation, TurnStatus::Done, Some("phone"));
    let found = notices(vec![Record::Turn(Box::new(made))]);
    assert_eq!(found[0].channel(&human("ada"), Some(&named)), Some("phone"));
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
    let found = Notice::of(&made);
    let ids: Vec<&str> = found.iter().map(|notice| notice.id.as_str()).collect();
    let commit = CommitId(Ulid::from_parts(1, 1));
    assert_eq!(ids, [format!("alert-{commit}-0"), format!("alert-{commit}-2")]);
    assert!(found.iter().all(|notice| notice.is_for(&human("bob"), None)));
    assert_eq!(found[0].command, "why PO-demo");
}

#[test]
fn blocked_task_is_a_notice_once_for_each_attempt_unless_it_asks() {
    let state = |attempts: u32, status: NodeStatus| {
        let detail = "no luck".to_owned();
        let blocker =
            Blocker { kind: "attempts_exhausted".to_owned(), detail, needs: String::new() };
        let mut state = node_state("T1.1", status);
        (state.attempts, state.blocker) = (attempts, Some(blocker));
        Record::NodeState(epic(), Box::new(state))
    };
    let found = notices(vec![state(2, NodeStatus::Blocked)]);
    assert_eq!((found.len(), found[0].kind), (1, NoticeKind::Blocked));
    assert_eq!(found[0].text, "T1.1 is blocked: attempts_exhausted: no luck");
    assert!(found[0].is_for(&human("ada"), Some(&goal("human:ada", &[]))));
    assert_ne!(found[0].id, notices(vec![state(3, NodeStatus::Blocked)])[0].id);
    assert_eq!(notices(vec![state(2, NodeStatus::InProgress)]), []);
    let asked = vec![state(2, NodeStatus::Blocked), question("human:ada", QuestionStatus::Open)];
    assert_eq!(notices(asked).iter().map(|it| it.kind).collect::<Vec<_>>(), [NoticeKind::Question]);
}

#[test]
fn notice_of_what_was_settled_meanwhile_holds_no_longer() {
    let [notice] = &notices(vec![question("human:ada", QuestionStatus::Open)])[..] else {
        panic!()
    };
    let mut records = Records::default();
    assert!(notice.holds(&records), "it may not be there yet");
    for (since, status, holds) in [
        (AT, QuestionStatus::Open, true),
        (BusTime(AT.0 + 1), QuestionStatus::Answered, false),
        (BusTime(AT.0 + 1), QuestionStatus::Withdrawn, false),
    ] {
        let Record::Question(asked) = question("human:ada", status) else { panic!() };
        records.put(Record::Question(Box::new(Question { since, ..*asked })));
        assert_eq!(notice.holds(&records), holds, "{status}");
    }
    let asking = turn(TurnLane::Background, TurnStatus::Asking, None);
    let asks = notices(vec![Record::Turn(Box::new(asking.clone()))]);
    let before =
        Turn { moved: 1, status: TurnStatus::Running, since: BusTime(AT.0 - 1), ..asking.clone() };
    records.put(Record::Turn(Box::new(before)));
    assert!(asks[0].holds(&records), "the record is older");
    let answered = Turn { status: TurnStatus::Running, since: BusTime(AT.0 + 1), ..asking };
    records.put(Record::Turn(Box::new(answered)));
    assert!(!asks[0].holds(&records));
    let ended = notices(vec![state(GoalStatus::Completed)]);
    assert!(ended[0].record().is_none() && ended[0].holds(&Records::default()), "for good");
}

#[test]
fn channel_of_a_goal_is_its_owners_alone() {
    let [notice] = &notices(vec![question("PO-demo", QuestionStatus::Open)])[..] else { panic!() };
    let named = goal("human:ada", &[("channel", "pager")]);
    assert_eq!(notice.channel(&human("ada"), Some(&named)), Some("pager"));
    assert_eq!(notice.channel(&human("bob"), Some(&named)), None);
}
