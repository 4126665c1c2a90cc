//! What keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use tetrarch_core::agent::Agent;
use tetrarch_core::change::{Change, ChangeStatus};
use tetrarch_core::id::{RequestId, Ulid};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::request::{GateOp, GateVerdict, Op};
use tetrarch_core::run::RunState;
use tetrarch_core::time::BusTime;
use tetrarch_core::verb::{Receipt, Stage, Wanted};
use tetrarch_view::news::FleetNews;
use tetrarch_view::order::SortColumn;

use super::Session;
use super::fleet::{DIFF, NOW, change, fold, model, question, worker_id};
use super::news::entry;
use super::screens::screen;
use crate::input::{RosterEffect, RosterInput, WatchedRun};
use crate::model::{Pane, RosterModel};

fn session() -> Session {
    Session::of(model(120, 40))
}

/// The only operation that was to be done.
fn op(session: &mut Session) -> Op {
    let mut done = session.done();
    done.retain(|effect| matches!(effect, RosterEffect::Operate { .. }));
    assert_eq!(done.len(), 1, "{done:?}");
    let Some(RosterEffect::Operate { op, .. }) = done.pop() else { panic!("nothing was asked") };
    *op
}

fn selected(session: &Session) -> String {
    session.model().selected.as_ref().unwrap().to_string()
}

fn names(model: &RosterModel) -> Vec<String> {
    model.lines.iter().map(|line| model.rows[line.row].id.to_string()).collect()
}

#[test]
fn selection_moves_within_the_list() {
    let mut it = session();
    assert_eq!(selected(&it), worker_id(2).to_string(), "who waits for input is first");
    it.keys("k");
    assert_eq!(selected(&it), worker_id(2).to_string());
    it.keys("G");
    assert_eq!(selected(&it), "PO-demo");
    it.keys("j");
    assert_eq!(selected(&it), "PO-demo");
    it.keys("kk");
    assert_eq!(selected(&it), "GO");
    it.key(KeyCode::Home).key(KeyCode::Down);
    assert_eq!(selected(&it), worker_id(3).to_string());
}

#[test]
fn filter_narrows_the_list_while_it_is_typed() {
    let mut it = session();
    it.keys("/PO-de");
    assert_eq!(names(it.model()), ["PO-demo"]);
    it.key(KeyCode::Enter).keys("j");
    assert_eq!(selected(&it), "PO-demo");
    it.key(KeyCode::Esc);
    assert_eq!(names(it.model()).len(), 6);
    it.keys("/xyzzyx").key(KeyCode::Backspace).keys("q");
    assert!(names(it.model()).is_empty() && !it.model().quits, "what is typed is no command");
    it.key(KeyCode::Esc);
    assert_eq!(names(it.model()).len(), 6);
    it.give(RosterInput::Paste("nobody pastes here".to_owned()));
    assert_eq!(names(it.model()).len(), 6);
}

#[test]
fn order_changes_by_column_and_back() {
    let mut it = session();
    it.keys(">>");
    assert_eq!(it.model().wish.column, SortColumn::State);
    it.keys("r");
    assert!(it.model().wish.reversed);
    it.keys("<");
    assert_eq!((it.model().wish.column, it.model().wish.reversed), (SortColumn::Name, false));
    assert_eq!(names(it.model())[..3], ["GO", "HO@box", "PO-demo"]);
    it.keys("0");
    assert_eq!(it.model().wish.column, SortColumn::Attention);
}

#[test]
fn ended_agents_and_children_are_shown_and_hidden() {
    let mut it = session();
    let ended = worker_id(5).to_string();
    assert!(!names(it.model()).contains(&ended));
    it.keys("d");
    assert!(names(it.model()).contains(&ended));
    it.keys("/PO").key(KeyCode::Enter).key(KeyCode::Esc).keys("G");
    it.keys("-");
    assert!(!names(it.model()).contains(&ended), "collapsed");
    it.keys("+");
    assert!(names(it.model()).contains(&ended));
}

#[test]
fn focus_reads_along_with_the_run_and_stops_on_leaving() {
    let mut it = session();
    it.key(KeyCode::Enter);
    let run = fold().records.agents[&worker_id(2)].work.as_ref().unwrap().run;
    let watched = WatchedRun { agent: worker_id(2), run };
    assert_eq!(it.done(), [RosterEffect::Watch(Some(watched))]);
    assert_eq!(it.model().pane, Pane::Focus);
    it.key(KeyCode::Tab).key(KeyCode::Tab).key(KeyCode::Tab);
    assert_eq!(it.done(), []);
    it.key(KeyCode::Esc);
    assert_eq!(it.done(), [RosterEffect::Watch(None)]);
    assert_eq!(it.model().pane, Pane::Agents);
}

#[test]
fn steer_is_typed_sent_and_followed_to_its_effect() {
    let mut it = session();
    it.keys("s").key(KeyCode::Enter);
    assert_eq!(it.done(), [], "an empty text steers nobody");
    it.keys("s").keys("use metres");
    it.give(RosterInput::Paste(", not\nfeet".to_owned()));
    it.key(KeyCode::Enter);
    let text = "use metres, not feet".to_owned();
    let wanted = VerbOp { agent: worker_id(2), wanted: Wanted::Steer { text } };
    assert_eq!(op(&mut it), Op::Verb(wanted));
    assert!(screen(&it).contains(": asked"), "{}", screen(&it));
    let id = RequestId(Ulid::from_parts(1, 99));
    it.give(RosterInput::Sent { ticket: 1, id });
    let answered = RosterInput::Answered { ticket: 1, outcome: Ok("queued".to_owned()) };
    it.give(answered);
    for (stage, shown) in [
        (Stage::Queued, "queued 01:01:00"),
        (Stage::Delivered, "queued 01:01:00, delivered 01:01:01"),
        (Stage::Effective, "queued 01:01:00, delivered 01:01:01, effective 01:01:02"),
    ] {
        it.give(RosterInput::Fleet(FleetNews::Entries(vec![receipt(id, stage)])))
            .give(RosterInput::Tick(NOW));
        assert!(screen(&it).contains(shown), "{shown}:\n{}", screen(&it));
    }
    it.key(KeyCode::Esc);
    assert!(it.model().acts.is_empty() && !screen(&it).contains("effective"));
}

fn receipt(id: RequestId, stage: Stage) -> (u64, Entry) {
    let mut agent: Agent = fold().records.agents[&worker_id(2)].clone();
    let at = BusTime(3_660_000);
    let mut receipt = Receipt {
        id,
        verb: tetrarch_core::verb::Verb::Steer,
        run: agent.work.as_ref().unwrap().run,
        by: super::fleet::human(),
        stage: Stage::Queued,
        queued: at,
        delivered: None,
        ended: None,
        why: String::new(),
    };
    if stage >= Stage::Delivered {
        receipt.reach(Stage::Delivered, BusTime(at.0 + 1_000), "");
    }
    receipt.reach(stage, BusTime(at.0 + 2_000), "");
    agent.verbs.receipts = vec![receipt];
    (2 + stage as u64, entry(vec![Record::Agent(Box::new(agent))]))
}

#[test]
fn stop_needs_another_key_than_its_own() {
    let mut it = session();
    for no in [KeyCode::Char('x'), KeyCode::Enter, KeyCode::Esc, KeyCode::Char('n')] {
        it.keys("x").key(no);
        assert_eq!(it.done(), [], "{no:?}");
        assert!(it.model().prompt.is_none());
    }
    it.keys("xy");
    let reason = "a human asked".to_owned();
    assert_eq!(op(&mut it), Op::AgentRetire { agent: worker_id(2), reason });
    it.keys("G").keys("kkx");
    assert!(screen(&it).contains("GO has ended, or ends with its process"), "{}", screen(&it));
}

#[test]
fn pause_and_interrupt_go_to_whoever_is_looked_at() {
    let mut it = session();
    it.keys("j").key(KeyCode::Enter);
    it.done();
    it.keys("p");
    let verb = |wanted| Op::Verb(VerbOp { agent: worker_id(3), wanted });
    assert_eq!(op(&mut it), verb(Wanted::Pause));
    it.keys("i").key(KeyCode::Enter);
    let reason = "a human asked".to_owned();
    assert_eq!(op(&mut it), verb(Wanted::Interrupt { reason }));
    let mut status = fold().records.run_status.values().nth(1).unwrap().clone();
    status.state = RunState::PausedByUser;
    let paused = entry(vec![Record::RunStatus(Box::new(status))]);
    it.give(RosterInput::Fleet(FleetNews::Entries(vec![(9, paused)]))).give(RosterInput::Tick(NOW));
    it.keys("p");
    assert_eq!(op(&mut it), verb(Wanted::Resume));
}

#[test]
fn question_is_answered_by_a_digit_or_by_text() {
    let mut it = session();
    it.keys("a");
    let answer = |text: &str| Op::QuestionAnswer { question: question().id, text: text.to_owned() };
    it.keys("3");
    assert_eq!(it.done(), [], "there are two options");
    it.keys("2");
    assert_eq!(op(&mut it), answer("HTML"));
    it.key(KeyCode::Enter).keys("both").key(KeyCode::Enter);
    assert_eq!(op(&mut it), answer("both"));
}

#[test]
fn approval_is_for_exactly_the_digest_that_was_shown() {
    let mut it = session();
    it.keys("aj");
    let digest = change().made.action.digest();
    let sha256 = change().made.action.diff;
    let read = RosterEffect::ReadDiff { change: change().id, digest: digest.clone(), sha256 };
    assert_eq!(it.done(), [read]);
    it.keys("yY");
    assert_eq!(it.done(), [], "it was not shown yet");
    let shown = |digest: &str, diff: Result<&str, &str>| RosterInput::Diff {
        change: change().id,
        digest: digest.to_owned(),
        diff: diff.map(str::to_owned).map_err(str::to_owned),
    };
    it.give(shown("0000", Ok(DIFF))).keys("yY");
    assert_eq!(it.done(), [], "that is of another one");
    it.give(shown(&digest, Err("it is away"))).keys("yY");
    assert_eq!(it.done(), [], "what cannot be read was not shown");
    it.give(shown(&digest, Ok(DIFF))).keys("yy");
    assert_eq!(it.done(), [], "another key than the one that asked");
    it.keys("yY");
    let verdict = GateVerdict::Approve { digest };
    let decide = |verdict, reason: &str| {
        let reason = reason.to_owned();
        Op::Gate(GateOp::Decide { change: change().id, verdict, reason })
    };
    assert_eq!(op(&mut it), decide(verdict, ""));
    it.keys("n").key(KeyCode::Enter);
    assert_eq!(it.done(), [], "a no needs a reason");
    it.keys("n").keys("too early").key(KeyCode::Enter);
    assert_eq!(op(&mut it), decide(GateVerdict::Deny, "too early"));

    // What was shown is no longer what would be merged.
    let mut other = change();
    other.made.action.head = "4".repeat(40);
    it.give(RosterInput::Fleet(FleetNews::Entries(vec![(9, of(other))]))).keys("yY");
    assert_eq!(it.done(), [], "though it is not drawn yet");
    it.give(RosterInput::Tick(NOW));
    assert!(matches!(it.done().as_slice(), [RosterEffect::ReadDiff { .. }]), "it is read anew");
    it.keys("yY");
    assert_eq!(it.done(), []);
}

fn of(change: Change) -> Entry {
    entry(vec![Record::Change(Box::new(change))])
}

#[test]
fn only_an_approved_change_is_merged() {
    let mut it = session();
    it.keys("aj");
    it.done();
    it.keys("mY");
    assert_eq!(it.done(), []);
    let approved = Change { status: ChangeStatus::Approved, ..change() };
    it.give(RosterInput::Fleet(FleetNews::Entries(vec![(9, of(approved))])))
        .give(RosterInput::Tick(NOW));
    it.keys("mY");
    assert_eq!(op(&mut it), Op::Gate(GateOp::Apply { change: change().id }));
}

#[test]
fn mouse_selects_and_opens_and_the_wheel_scrolls() {
    let mut it = session();
    let mouse = |kind, row| {
        let modifiers = KeyModifiers::NONE;
        RosterInput::Mouse(MouseEvent { kind, column: 3, row, modifiers })
    };
    let down = MouseEventKind::Down(MouseButton::Left);
    it.give(mouse(down, 3));
    assert_eq!(selected(&it), worker_id(3).to_string());
    it.give(mouse(down, 0)).give(mouse(down, 39));
    assert_eq!(selected(&it), worker_id(3).to_string(), "neither is a line of the list");
    it.give(mouse(MouseEventKind::ScrollDown, 3));
    assert_eq!(selected(&it), "HO@box");
    it.give(mouse(MouseEventKind::ScrollUp, 3)).give(mouse(down, 4));
    it.give(mouse(down, 4));
    assert_eq!(it.model().focus.agent, Some(worker_id(4)));
}

#[test]
fn quit_keys_work_and_control_keys_type_nothing() {
    let control = |key| RosterInput::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL));
    let mut it = session();
    it.keys("s").give(control('s')).give(control('u'));
    assert!(!it.model().quits && it.model().prompt.as_ref().unwrap().text.is_empty());
    it.give(control('c'));
    assert!(it.model().quits);
    let mut it = session();
    it.keys("?q");
    assert!(!it.model().quits, "it leaves the help");
    it.keys("q");
    assert!(it.model().quits);
}

#[test]
fn conversations_are_shown_with_their_agents_and_left() {
    let mut it = session();
    it.keys("c");
    assert_eq!(it.model().pane, Pane::Conversations);
    let shown = screen(&it);
    for part in ["ada", "main", "turn 3", "rebuild\\u{1b}[2J the 世界 site", "awaiting-input"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    it.keys("G");
    assert_eq!(it.model().conversations_top, 6);
    it.keys("c");
    assert_eq!(it.model().pane, Pane::Agents);
}

#[test]
fn plan_of_the_selected_agent_is_shown_and_changed() {
    let mut it = session();
    it.keys("P");
    assert_eq!((it.model().pane, it.model().plan.lines.len()), (Pane::Plan, 7));
    it.keys("]");
    assert_eq!(it.model().plan.lines.len(), 7, "there is one goal");
    it.key(KeyCode::Esc);
    assert_eq!(it.model().pane, Pane::Agents);
}
