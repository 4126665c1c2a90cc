//! The page as a browser gets it: texts that agents wrote, what can be decided on, and how long a large fleet takes.

mod diffs;
#[path = "../../tetrarch-view/src/tests/samples.rs"]
#[expect(dead_code, reason = "other crates use the rest")]
mod samples;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tetrarch_core::change::{Action, Change, ChangeStatus, Made};
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnStatus};
use tetrarch_core::goal::{Goal, GoalSpec, GoalState, GoalStatus};
use tetrarch_core::id::{
    AssignmentId, ChangeId, DraftId, EpicId, HostName, NodeId, Principal, ProjectName, QuestionId,
    RequestId, RunId, Ulid,
};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::{Event, EventKind, Record};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::plan::change::{Edit, Output};
use tetrarch_core::plan::proposal::{DraftStatus, Proposal};
use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::run::RunState;
use tetrarch_core::time::BusTime;
use tetrarch_view::event::EventRow;
use tetrarch_view::news::{FleetNews, LinkState};
use tetrarch_view::text::is_hidden;

use self::samples::{agent, live, node, node_state, run, run_status, turn, worker};
use crate::address::{PageView, PastMoment, everybody};
use crate::render::{PageExtra, PageModel, PageVisit, PastFleet, document, regions};
use crate::session::PageAct;

/// What agents may write: markup, the end of an attribute, control and direction characters.
const HOSTILE: &str =
    "<script>alert(1)</script>\"><img src=x onerror=alert(1)>'&\u{202e}\x1b[2J\u{200b}\0";
const NOW: BusTime = BusTime(100_000);

fn epic() -> EpicId {
    EpicId(Ulid::from_parts(1, 7))
}

fn human() -> Principal {
    "human:ada".parse().unwrap()
}

fn question() -> Question {
    Question {
        id: QuestionId(Ulid::from_parts(1, 20)),
        agent: worker(2, 1, Liveness::Active).id,
        run: RunId(Ulid::from_parts(1, 2)),
        epic: epic(),
        node: NodeId::task(1, 1),
        escalates: None,
        to: human(),
        text: HOSTILE.to_owned(),
        options: vec![HOSTILE.to_owned(), "B".to_owned()],
        status: QuestionStatus::Open,
        answer: HOSTILE.to_owned(),
        answered_by: None,
        asked: BusTime(0),
        since: BusTime(0),
    }
}

fn change(status: ChangeStatus) -> Change {
    let action = Action {
        repository: format!("/{HOSTILE}"),
        target: format!("refs/heads/{HOSTILE}"),
        base: "1".repeat(40),
        head: "2".repeat(40),
        diff: "3".repeat(64),
        files: vec![HOSTILE.to_owned(), "src/p\u{430}yment.rs".to_owned()],
    };
    Change {
        id: ChangeId(Ulid::from_parts(1, 30)),
        agent: worker(2, 1, Liveness::Active).id,
        epoch: 1,
        run: RunId(Ulid::from_parts(1, 2)),
        assignment: AssignmentId(Ulid::from_parts(1, 2)),
        epic: epic(),
        node: NodeId::task(1, 1),
        project: None,
        host: HostName::new("box").unwrap(),
        scope: Vec::new(),
        made: Made {
            action,
            branch: HOSTILE.to_owned(),
            additions: 1,
            deletions: 1,
            size: 90,
            salvaged: false,
        },
        to: human(),
        status,
        reason: HOSTILE.to_owned(),
        conflicts: vec![HOSTILE.to_owned()],
        needed: 1,
        earlier: Vec::new(),
        approval: None,
        commit: String::new(),
        proposed: BusTime(0),
        until: BusTime(90_000_000),
        since: BusTime(0),
    }
}

fn draft() -> Proposal {
    let mut put = node("T1.3", HOSTILE);
    (put.objective, put.acceptance) = (HOSTILE.to_owned(), vec![HOSTILE.to_owned()]);
    Proposal {
        id: DraftId(Ulid::from_parts(1, 40)),
        epic: epic(),
        author: human(),
        base_version: 1,
        edit: Edit {
            puts: vec![put],
            removes: vec![NodeId::task(1, 2)],
            output: Output::default(),
        },
        reason: HOSTILE.to_owned(),
        status: DraftStatus::Open,
        notes: HOSTILE.to_owned(),
        decided_by: None,
        version: None,
        created: BusTime(0),
        since: BusTime(0),
    }
}

fn said() -> Turn {
    let said = turn(TurnLane::Conversation, TurnStatus::Asking, None);
    Turn { text: HOSTILE.repeat(20), answer: HOSTILE.to_owned(), ..said }
}

/// A fleet in which every text that somebody else writes is hostile.
fn model(status: ChangeStatus) -> PageModel {
    let spec = GoalSpec { title: HOSTILE.to_owned(), ..GoalSpec::default() };
    let (project, owner) = (ProjectName::new("demo").unwrap(), human());
    let goal = Goal { id: epic(), project, spec, owner, created: BusTime(0), updated: BusTime(0) };
    let state = GoalState {
        id: epic(),
        status: GoalStatus::Active,
        percent: 20,
        result: None,
        since: BusTime(0),
        priorities: Default::default(),
    };
    let mut busy = worker(2, 1, Liveness::Active);
    (busy.label, busy.reason) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    let mut made = run(2, HOSTILE);
    made.brief.goal = HOSTILE.to_owned();
    made.brief.success_criteria = vec![HOSTILE.to_owned()];
    let mut working = node_state("T1.1", NodeStatus::InProgress);
    working.assignee = Some(busy.id.clone());
    let mut second = node("T1.2", HOSTILE);
    second.depends_on = vec![NodeId::task(1, 1)];
    let records = [
        Record::Goal(Box::new(goal)),
        Record::GoalState(Box::new(state)),
        Record::Node(epic(), Box::new(node("P1", HOSTILE))),
        Record::Node(epic(), Box::new(node("T1.1", HOSTILE))),
        Record::Node(epic(), Box::new(second)),
        Record::NodeState(epic(), Box::new(working)),
        Record::Agent(Box::new(agent("GO", None, Liveness::Active))),
        Record::Agent(Box::new(agent("PO-demo", Some("GO"), Liveness::Active))),
        Record::Agent(Box::new(busy)),
        Record::Agent(Box::new(worker(3, 2, Liveness::Terminated))),
        Record::Run(Box::new(made)),
        Record::RunStatus(Box::new(run_status(2, RunState::AwaitingInput))),
        Record::Question(Box::new(question())),
        Record::Change(Box::new(change(status))),
        Record::Draft(Box::new(draft())),
        Record::Turn(Box::new(said())),
    ];
    let mut model = PageModel::new(human());
    model.fleet.fold.add(records.map(|record| (record, 1)));
    let mut told = live(2, 90);
    (told.tool, told.words) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    model.fleet.hear(FleetNews::Reported(vec![told]));
    model.fleet.hear(FleetNews::Linked(LinkState::Live));
    model.refresh(NOW);
    model
}

fn visit() -> PageVisit<'static> {
    let id = RequestId(Ulid::from_parts(1, 1));
    let act =
        PageAct { id, what: HOSTILE.to_owned(), agent: None, outcome: Err(HOSTILE.to_owned()) };
    PageVisit { place: "/place/", form: "the-form", acts: vec![act] }
}

fn diff(status: ChangeStatus) -> PageExtra {
    PageExtra::Diff(change(status).made.action.digest(), Ok(format!("+{HOSTILE}\n-b\n@@\n")))
}

fn shown(status: ChangeStatus, view: &PageView, extra: &PageExtra) -> String {
    document(&model(status), &visit(), view, extra)
}

#[test]
fn hostile_texts_are_only_text_in_every_view() {
    let id = worker(2, 1, Liveness::Active).id;
    let log = JournalEvent::Log { text: HOSTILE.to_owned() };
    let happened = Event {
        kind: EventKind::Alert,
        actor: human(),
        agent: Some(id.clone()),
        run: None,
        epic: Some(epic()),
        node: Some(NodeId::task(1, 1)),
        request: None,
        reason: HOSTILE.to_owned(),
        rule: HOSTILE.to_owned(),
    };
    let row = EventRow { seq: 7, at: NOW, event: happened };
    let why = || HOSTILE.to_owned();
    let waiting = change(ChangeStatus::Proposed);
    let then = PastFleet { seq: 7, kept: (1, 9), model: model(ChangeStatus::Proposed) };
    for (view, extra) in [
        (everybody(), PageExtra::Nothing),
        (PageView::read("", "q=script").unwrap(), PageExtra::Nothing),
        (
            PageView::Agent(id),
            PageExtra::Transcript(VecDeque::from([(NOW, log)]), HOSTILE.to_owned()),
        ),
        (PageView::Goals, PageExtra::Nothing),
        (PageView::Plan(epic()), PageExtra::Nothing),
        (PageView::History(epic()), PageExtra::Versions(Err(why()))),
        (PageView::Inbox(true), PageExtra::Nothing),
        (PageView::Conversations, PageExtra::Nothing),
        (PageView::Question(question().id), PageExtra::Nothing),
        (PageView::Change(waiting.id), diff(ChangeStatus::Proposed)),
        (PageView::Change(waiting.id), PageExtra::Diff(waiting.made.action.digest(), Err(why()))),
        (PageView::Draft(draft().id), PageExtra::Nothing),
        (PageView::Hosts, PageExtra::Bus(Err(why()))),
        (PageView::Cost, PageExtra::Nothing),
        (PageView::Events(None), PageExtra::Events(Ok(vec![row]))),
        (PageView::Past(PastMoment::Seq(7)), PageExtra::Past(Err(why()))),
        (PageView::Past(PastMoment::Seq(7)), PageExtra::Past(Ok(Box::new(then)))),
        (PageView::Search(HOSTILE.to_owned()), PageExtra::Nothing),
        (PageView::Search("script".to_owned()), PageExtra::Nothing),
    ] {
        let html = shown(ChangeStatus::Proposed, &view, &extra);
        assert!(html.contains("&lt;script&gt;alert(1)"), "{view:?} shows none of it");
        assert!(!html.contains("<script>") && !html.contains("<img"), "{view:?}: {html}");
        let hidden = html.chars().find(|c| *c != '\n' && is_hidden(*c));
        assert_eq!(hidden, None, "{view:?}");
        assert!(html.contains("\\u{202e}\\u{1b}[2J\\u{200b}"), "{view:?} makes it visible");
        for (name, part) in regions(&model(ChangeStatus::Proposed), &visit(), &view, &extra) {
            assert!(!part.contains("<script") && !part.contains("<img"), "{view:?} {name}");
            assert!(!part.contains('\r'), "an event would end there");
        }
    }
}

#[test]
fn page_uses_nothing_that_its_policy_refuses() {
    let id = worker(2, 1, Liveness::Active).id;
    for view in [everybody(), PageView::Agent(id), PageView::Plan(epic()), PageView::Inbox(false)] {
        let html = shown(ChangeStatus::Proposed, &view, &PageExtra::Nothing);
        for inline in
            [" style=", "<style", " onclick", " onload", "javascript:", "http://", "https://"]
        {
            assert!(!html.contains(inline), "{view:?}: {inline}");
        }
        assert!(html.contains("<script src=\"page.js\" defer></script>"));
    }
}

#[test]
fn change_is_approved_only_with_its_diff_shown() {
    use ChangeStatus::{Applied, Approved, Conflicted, Denied, Proposed};
    let approve = "name=\"do\" value=\"approve\"";
    let merge = "name=\"do\" value=\"merge\"";
    let view = PageView::Change(change(Proposed).id);
    for (status, offers) in [
        (Proposed, (true, false)),
        (Conflicted, (true, false)),
        (Approved, (false, true)),
        (Applied, (false, false)),
        (Denied, (false, false)),
    ] {
        let html = shown(status, &view, &diff(status));
        assert_eq!((html.contains(approve), html.contains(merge)), offers, "{status:?}");
        let digest = change(status).made.action.digest();
        let bound = format!("name=\"digest\" value=\"{digest}\"");
        assert_eq!(html.contains(&bound), offers.0, "{status:?}");
        assert_eq!(html.contains("<dt>will</dt>"), !status.is_terminal(), "{status:?}");
    }
    let unread =
        PageExtra::Diff(change(Proposed).made.action.digest(), Err("it is gone".to_owned()));
    let other = PageExtra::Diff("4".repeat(64), Ok("+x".to_owned()));
    for (extra, word) in [
        (unread, "without the diff: it is gone"),
        (other, "not the same any more"),
        (PageExtra::Nothing, "not the same"),
    ] {
        let html = shown(Proposed, &view, &extra);
        assert!(!html.contains(approve) && html.contains(word), "{word}");
    }
}

#[test]
fn agent_that_awaits_input_shows_its_question_and_no_pause() {
    let html = shown(
        ChangeStatus::Proposed,
        &PageView::Agent(worker(2, 1, Liveness::Active).id),
        &PageExtra::Nothing,
    );
    let question = PageView::Question(question().id).href();
    assert!(html.contains(&format!("<dt>asks</dt><dd><a href=\"{question}\"")), "{html}");
    assert!(!html.contains("value=\"pause\""), "{html}");
}

#[test]
fn every_form_that_asks_for_something_carries_its_token() {
    let id = worker(2, 1, Liveness::Active).id;
    for (view, forms) in [
        (PageView::Agent(id), 3),
        (PageView::Question(question().id), 3),
        (PageView::Draft(draft().id), 2),
        (PageView::Agent(worker(3, 2, Liveness::Terminated).id), 0),
        (PageView::Agent("GO".parse().unwrap()), 0),
        (everybody(), 0),
    ] {
        let html = shown(ChangeStatus::Proposed, &view, &PageExtra::Nothing);
        assert_eq!(html.matches("method=\"post\"").count(), forms, "{view:?}");
        let tokens = html.matches("<input type=\"hidden\" name=\"form\" value=\"the-form\">");
        assert_eq!(tokens.count(), forms, "{view:?}");
    }
}

#[test]
fn fleet_is_listed_as_the_roster_orders_it() {
    let html = shown(ChangeStatus::Proposed, &everybody(), &PageExtra::Nothing);
    let places = ["row-W:", "row-GO", "row-PO-demo"].map(|row| html.find(row).unwrap());
    assert!(places.is_sorted(), "who waits for a person stands first: {places:?}");
    assert!(html.contains("3 of 4 agents, 1 with an alert"), "{html}");
    let all =
        shown(ChangeStatus::Proposed, &PageView::read("", "ended=1").unwrap(), &PageExtra::Nothing);
    assert_eq!(all.matches("class=\"row\"").count(), 4);
}

#[test]
fn draft_shows_all_that_it_defines_before_it_is_approved() {
    let mut model = model(ChangeStatus::Proposed);
    let mut it = draft();
    let put = &mut it.edit.puts[0];
    put.key_facts = vec!["ignore all of it".to_owned(), "and run it".to_owned()];
    put.scope_paths = vec!["/**".to_owned()];
    put.definition_of_done = "it is gone".to_owned();
    put.budget.tokens = Some(999_999_999);
    put.placement.labels = vec![("disk".to_owned(), "ssd".to_owned())];
    put.max_attempts = 10;
    it.edit.output = Output::Be(Some(NodeId::task(1, 3)));
    let id = it.id;
    model.fleet.fold.add([(Record::Draft(Box::new(it)), 9)]);
    let html = document(&model, &visit(), &PageView::Draft(id), &PageExtra::Nothing);
    for text in [
        "ignore all of it",
        "and run it",
        "/**",
        "it is gone",
        "999999999",
        "ssd",
        "10",
        "is T1.3 now",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
}

#[test]
fn plan_is_drawn_with_its_critical_path_and_listed_too() {
    let html = shown(ChangeStatus::Proposed, &PageView::Plan(epic()), &PageExtra::Nothing);
    assert_eq!(html.matches("<rect x").count(), 2, "leaves alone are drawn");
    assert_eq!(html.matches("<rect class=\"bar").count(), 2, "at work, then waiting");
    assert!(html.contains("class=\"edge critical\"") && html.contains("* T1.1 in_progress"));
    assert!(html.contains("T1.1 → T1.2"), "the path in words");
    assert_eq!(html.matches("<th scope=\"row\"").count(), 3, "the table has phases too");
}

/// Agents of a large fleet.
const AGENTS: u128 = 10_000;
/// What a page of it may take.
const PAGE_MAX: Duration = Duration::from_millis(200);
/// Bytes that it may have.
const PAGE_BYTES_MAX: usize = 400_000;
/// Pages that are made.
const PAGES: u32 = 5;

#[test]
#[expect(clippy::print_stdout, reason = "the figures are what this is run for")]
fn page_of_ten_thousand_agents_takes_less_than_200_ms() {
    let mut model = model(ChangeStatus::Proposed);
    for n in 100..100 + AGENTS {
        let records = [
            Record::Agent(Box::new(worker(n, u32::try_from(n).unwrap(), Liveness::Active))),
            Record::RunStatus(Box::new(run_status(n, RunState::Running))),
            Record::Run(Box::new(run(n, "gpt-5-mini"))),
        ];
        model.fleet.fold.add(records.map(|record| (record, 1)));
    }
    let begun = Instant::now();
    model.refresh(NOW);
    let heard = begun.elapsed();
    let mut bytes = 0;
    let pages = (0..PAGES).map(|_| {
        let begun = Instant::now();
        bytes = document(&model, &visit(), &everybody(), &PageExtra::Nothing).len();
        begun.elapsed()
    });
    // The best of some, since the machine does other things too.
    let took = pages.min().unwrap();
    println!(
        "page of {AGENTS} agents: {:.1} ms, {bytes} bytes; all rows anew: {:.1} ms",
        took.as_secs_f64() * 1e3,
        heard.as_secs_f64() * 1e3,
    );
    assert!(took < PAGE_MAX, "{took:?}");
    assert!(bytes < PAGE_BYTES_MAX, "{bytes}");
}
