//! What agents answer, and what follows from it.

use super::*;
use crate::ledger::Record;

#[test]
fn update_restarts_the_ladder_and_output_does_not() {
    let (mut fleet, _, worker) = working(2);
    let at = due(&fleet, &worker);
    oversee(&mut fleet, at);
    says(&mut fleet, &worker, r#"{"status": "in_progress", "summary": "half of it"}"#);
    let going = assignment(&fleet, &worker).clone();
    assert_eq!(going.status, AssignmentStatus::Active);
    assert_eq!((going.recovery.retries, going.recovery.consumed), (0, true));
    assert!(going.reason.contains("half of it"), "{}", going.reason);

    let at = due(&fleet, &worker);
    oversee(&mut fleet, at);
    let heard = at + Millis(60_000);
    let at = due(&fleet, &worker);
    fleet.now = at;
    let progressed = [(worker.clone(), heard)].into();
    fleet.one(Input::Oversee(Telemetry { since: BusTime(0), progressed, ..Telemetry::default() }));
    let going = assignment(&fleet, &worker).clone();
    assert_eq!(going.status, AssignmentStatus::Active, "output ends the stall");
    assert_eq!((going.recovery.retries, going.recovery.last_activity), (1, heard));
    assert_eq!(due(&fleet, &worker), heard + IDLE_AFTER);
}

#[test]
fn agent_missing_its_announced_update_is_asked() {
    let (mut fleet, _, worker) = working(2);
    let later = fleet.now + RESEND_AFTER + Millis(1);
    let run = fleet.run_of(&worker);
    let report = Report::Update {
        run,
        dispatch: None,
        update: r#"{"summary": "a long build"}"#.to_owned(),
        expected: Some(later),
    };
    fleet.report(&worker, report);
    assert_eq!(asked(&oversee(&mut fleet, before(later))), []);
    assert_eq!(asked(&oversee(&mut fleet, later)).len(), 1);
    assert_eq!(asked(&oversee(&mut fleet, later)), []);
}

#[test]
fn blocked_update_with_blockers_is_escalated_at_once() {
    let (fleet, epic, worker, _) = escalated(2);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
    let blocker = fleet.node(epic, "T1.1").blocker.clone().unwrap();
    assert!(blocker.detail.contains("a key for the shop"), "{}", blocker.detail);
    let (mut fleet, _, worker) = working(2);
    says(&mut fleet, &worker, r#"{"status": "blocked"}"#);
    assert_eq!(questions(&fleet.records), [], "it does not say by what");
}

#[test]
fn done_without_evidence_is_asked_for_it_before_escalation() {
    let (mut fleet, epic, worker) = working(2);
    let done = r#"{"overseerUpdate": {"status": "done"}}"#;
    let entry = says(&mut fleet, &worker, done);
    let [asked_for] = asked(&entry).try_into().unwrap();
    assert!(asked_for.text.contains("evidence"), "{}", asked_for.text);
    assert_eq!(asked(&says(&mut fleet, &worker, done)), [], "it was just asked");
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::InProgress);
    fleet.now = fleet.now + RESEND_AFTER;
    assert_eq!(asked(&says(&mut fleet, &worker, done)).len(), 1);
    fleet.now = fleet.now + RESEND_AFTER;
    let entry = says(&mut fleet, &worker, done);
    assert_eq!(killed(&entry), [&worker], "two requests did not help");

    let (mut fleet, epic, worker) = working(2);
    let at = due(&fleet, &worker);
    assert_eq!(asked(&oversee(&mut fleet, at)).len(), 1);
    let run = fleet.run_of(&worker);
    let unasked = Report::Update { run, dispatch: None, update: done.to_owned(), expected: None };
    assert!(assignment(&fleet, &worker).recovery.backoff_until > at);
    assert_eq!(asked(&fleet.report(&worker, unasked)), [], "nothing is sent within a backoff");
    assert_eq!(asked(&says(&mut fleet, &worker, done)).len(), 1, "an answer ends it");
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::InProgress);

    let (mut fleet, epic, worker) = working(2);
    let shown = r#"{"status": "done", "evidence": {"testsRun": ["all: ok"]}}"#;
    assert_eq!(asked(&says(&mut fleet, &worker, shown)), []);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::InProgress, "its result ends it");
}

#[test]
fn unreadable_or_unrelated_update_is_refused_with_the_reason() {
    let (mut fleet, _, worker) = working(2);
    let was = assignment(&fleet, &worker).clone();
    for (update, says_so) in [
        ("I am fine", "no overseerUpdate"),
        (r#"{"mood": "fine"}"#, "unknown key mood"),
        (r#"{"workNodeId": "T1.2"}"#, "is not what it works on, which is T1.1"),
        (r#"{"goalId": "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC"}"#, "is not what it works on"),
    ] {
        let entry = says(&mut fleet, &worker, update);
        let refused = entry.events.iter().find(|event| event.kind == EventKind::Refused);
        assert!(refused.unwrap().reason.contains(says_so), "{update}: {refused:?}");
        assert_eq!(assignment(&fleet, &worker), &was, "{update}");
    }
}

#[test]
fn unreceived_evidence_request_is_resent_with_its_id() {
    let (mut fleet, _, worker) = working(2);
    let run = fleet.run_of(&worker);
    let done = r#"{"status": "done"}"#.to_owned();
    let unasked = Report::Update { run, dispatch: None, update: done, expected: None };
    let first = asked(&fleet.report(&worker, unasked.clone()));
    assert_eq!(first.len(), 1);
    fleet.now = fleet.now + RESEND_AFTER;
    assert_eq!(asked(&fleet.report(&worker, unasked.clone())), first, "it was not read");
    assert_eq!(assignment(&fleet, &worker).status, AssignmentStatus::Active);
    arrives(&mut fleet, &worker, first[0].dispatch);
    fleet.now = fleet.now + RESEND_AFTER;
    let killed_then = fleet.report(&worker, unasked);
    assert_eq!(killed(&killed_then), [&worker], "it was asked twice");
}

#[test]
fn relaunched_session_is_not_asked_again_within_the_interval() {
    let (mut fleet, _, worker) = working(2);
    let done = |fleet: &mut Fleet| {
        let run = fleet.run_of(&worker);
        let update = r#"{"status": "done"}"#.to_owned();
        asked(
            &fleet.report(&worker, Report::Update { run, dispatch: None, update, expected: None }),
        )
    };
    let first = done(&mut fleet);
    assert_eq!(first.len(), 1);
    let sent = assignment(&fleet, &worker).recovery.last_retry.unwrap();
    fleet.policy.overseer.backoff.max = Millis(0);
    fleet.report(&worker, Report::Crashed { cause: "signal 9".to_owned() });
    fleet.report(&worker, Report::Ready);
    let of = assignment(&fleet, &worker).id;
    let mut open = fleet.records.assignments[&of].clone();
    open.recovery.backoff_until = BusTime(0);
    fleet.records.put(Record::Assignment(Box::new(open)));
    fleet.now = before(sent + RESEND_AFTER);
    assert_eq!(done(&mut fleet), [], "it was asked before its interval was over");
    fleet.now = sent + RESEND_AFTER;
    let again = done(&mut fleet);
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].session, first[0].session);
}

#[test]
fn escalation_says_where_its_goal_came_from() {
    let mut plan = plan_of(&[task("T1.1", json!({}))]);
    plan["goal"] = json!({"origin": {"channel": "irc", "to": "eve"}});
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let worker = fleet.worker(epic, "T1.1");
    says(&mut fleet, &worker, r#"{"status": "blocked", "blockers": ["a key for the shop"]}"#);
    let mail = fleet.ledger.iter().flat_map(|entry| &entry.mail);
    let asked = mail.filter_map(|mail| {
        let MailBody::Question { origin, .. } = &mail.body else { return None };
        Some(origin.clone())
    });
    let [origin] = asked.collect::<Vec<_>>().try_into().unwrap();
    let pair = |key: &str, text: &str| (key.to_owned(), text.to_owned());
    assert_eq!(origin, [pair("channel", "irc"), pair("to", "eve")]);
}
