//! In which order a hosted session is claimed, journaled, started, heard and ended.

mod conversing;
mod ends;
mod family;
mod operating;
mod spending;
mod taking;
mod verbs;
mod vitals;
mod worktree;

use super::*;
use crate::brief::{Brief, ExpectedOutput, Runner, RunnerKind, Tools, Usage, Worktree};
use crate::budget::Limits;
use crate::error::ErrorCode;
use crate::id::{AgentId, AssignmentId, EpicId, ProfileName, ProjectName, SessionId, Ulid};
use crate::limits::{DELIVERABLE_BYTES_MAX, LOG_JOURNALED_WITHIN, SPONSOR_ANSWER_WITHIN};
use crate::mail::{Duty, MailBody, SessionOrder, SpawnAnswer};
use crate::order::LocalFile;
use crate::time::Millis;

const NOW: BusTime = BusTime(1_000_000);

fn brief() -> Brief {
    Brief {
        goal: "count".to_owned(),
        key_facts: Vec::new(),
        expected_output: ExpectedOutput::Text,
        success_criteria: vec!["counted".to_owned()],
        definition_of_done: String::new(),
        tools: Tools::default(),
        workspace: String::new(),
        scope_paths: Vec::new(),
        budget: Limits::default(),
        wall: None,
        turn_timeout: None,
        runner: Runner {
            profile: ProfileName::new("default").unwrap(),
            kind: RunnerKind::Process,
            argv: vec!["true".to_owned()],
            env: Vec::new(),
            pass_env: Vec::new(),
            writable: Vec::new(),
            model: String::new(),
            served: Default::default(),
            permissions: Vec::new(),
            mcp_servers: Vec::new(),
            prompt: String::new(),
        },
        worktree: Worktree::None,
        inputs: Vec::new(),
        judges: None,
    }
}

fn session(agent: &str) -> HostedSession {
    let agent: AgentId = agent.parse().unwrap();
    let run = Run {
        id: RunId(Ulid(2)),
        agent: agent.clone(),
        session: SessionId(Ulid(3)),
        epoch: 1,
        epic: EpicId(Ulid(4)),
        node: "T1.1".parse().unwrap(),
        assignment: AssignmentId(Ulid(5)),
        brief: brief(),
        continues: None,
        placement: None,
        created: NOW,
    };
    let launch = Launch {
        agent,
        session: run.session,
        epoch: 1,
        host_epoch: 1,
        parent: "PO-a".parse().unwrap(),
        project: Some(ProjectName::new("a").unwrap()),
        depth: 2,
        delegation: None,
        duty: Duty::Run(run.clone()),
    };
    HostedSession::new(launch, run, "h".to_owned(), None, None)
}

fn worker() -> HostedSession {
    session(&format!("W:{}", Ulid(1)))
}

fn started(mut hosted: HostedSession) -> HostedSession {
    assert_eq!(hosted.begin(), [SessionEffect::Claim]);
    hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    let started = RunnerEvent::Started { pid: Some(1), isolation: String::new() };
    hosted.step(NOW, SessionInput::Runner(started));
    hosted
}

/// That it started is journaled.
fn running(hosted: HostedSession) -> HostedSession {
    let mut hosted = started(hosted);
    hosted.step(NOW + LOG_JOURNALED_WITHIN, SessionInput::Tick);
    hosted
}

fn success() -> Box<RunResult> {
    let mut result = RunResult::ended(Outcome::Success, "");
    result.deliverable = "42".to_owned();
    result.usage = Usage { turns: 1, ..Usage::default() };
    Box::new(result)
}

fn exited(hosted: &mut HostedSession) -> Vec<SessionEffect> {
    hosted
        .step(NOW, SessionInput::Runner(RunnerEvent::Exited { exit: Exit::Code(0), result: None }))
}

fn letter(body: MailBody) -> SessionInput {
    let mail = Mail {
        to: "PO-a".parse().unwrap(),
        epic: None,
        correlation: None,
        cause: String::new(),
        ack_required: false,
        trace: None,
        body,
    };
    let from = Principal::Agent(AgentId::Go);
    SessionInput::Mail { from, mail: Box::new(mail), json: "{}".to_owned(), place: 0 }
}

fn order(reason: &str) -> SessionOrder {
    SessionOrder {
        agent: format!("W:{}", Ulid(1)).parse().unwrap(),
        session: Some(SessionId(Ulid(3))),
        epoch: 1,
        host_epoch: 1,
        reason: reason.to_owned(),
    }
}

/// The kinds of effects, for saying an order in one line.
fn kinds(effects: &[SessionEffect]) -> Vec<&'static str> {
    let kind = |effect: &SessionEffect| match effect {
        SessionEffect::Claim => "claim",
        SessionEffect::Journal(_) => "journal",
        SessionEffect::Note(_) => "note",
        SessionEffect::Order(order) => match **order {
            Order::Start(_) => "start",
            Order::Deliver { .. } => "deliver",
            Order::Stop { .. } => "stop",
            Order::Rotate { .. } => "rotate",
            Order::Kill { .. } => "kill",
            Order::Verb { .. } => "verb",
            Order::Apply(_) => "apply",
        },
        SessionEffect::Report(_) => "report",
        SessionEffect::ReadSpawn { .. } => "read spawn",
        SessionEffect::Request(..) => "request",
        SessionEffect::Operate { .. } => "operate",
        SessionEffect::Mail(_) => "mail",
        SessionEffect::Store(_) => "store",
        SessionEffect::Fetch { .. } => "fetch",
        SessionEffect::Consumed => "consumed",
        SessionEffect::Stream(_) => "stream",
        SessionEffect::End => "end",
    };
    effects.iter().map(kind).collect()
}

#[test]
fn session_is_claimed_journaled_started_and_reported_in_order() {
    let mut hosted = worker();
    assert_eq!(kinds(&hosted.begin()), ["claim"]);
    let effects = hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    assert_eq!(kinds(&effects), ["journal", "start"], "nothing starts before its journal says so");
    let started = RunnerEvent::Started { pid: Some(1), isolation: String::new() };
    let effects = hosted.step(NOW, SessionInput::Runner(started));
    assert_eq!(kinds(&effects), ["report"], "nobody waits for the journal");
    assert!(matches!(&effects[0], SessionEffect::Report(report) if **report == Report::Ready));
}

#[test]
fn start_is_journaled_with_what_follows_or_when_its_time_is_over() {
    let is_start = |event: &JournalEvent| matches!(event, JournalEvent::Started { .. });
    let mut hosted = started(worker());
    assert_eq!(hosted.next_deadline(), Some(NOW + LOG_JOURNALED_WITHIN));
    let effects = hosted.step(NOW, SessionInput::Runner(RunnerEvent::Unblocked));
    assert!(matches!(&effects[0], SessionEffect::Note(event) if is_start(event)), "{effects:?}");
    assert_eq!(kinds(&effects)[..2], ["note", "journal"]);
    assert_eq!(hosted.next_deadline(), None);

    let mut hosted = started(worker());
    let early = BusTime(NOW.0 + LOG_JOURNALED_WITHIN.0 - 1);
    assert_eq!(hosted.step(early, SessionInput::Tick), []);
    let effects = hosted.step(NOW + LOG_JOURNALED_WITHIN, SessionInput::Tick);
    assert!(matches!(&effects[..], [SessionEffect::Journal(event)] if is_start(event)));
    assert_eq!(hosted.next_deadline(), None);

    let mut hosted = started(worker());
    let result = RunnerEvent::Result { result: success(), files: Vec::new() };
    hosted.step(NOW, SessionInput::Runner(result));
    assert_eq!(kinds(&exited(&mut hosted)), ["note", "note", "journal", "report", "end"]);
}

#[test]
fn start_of_what_has_no_effects_waits_for_no_journal() {
    let mut hosted = worker();
    hosted.run.brief.runner.kind = RunnerKind::Echo;
    let effects = hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    assert_eq!(kinds(&effects), ["start"]);
    let started = RunnerEvent::Started { pid: None, isolation: String::new() };
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Runner(started))), ["report"]);
    let result = RunnerEvent::Result { result: success(), files: Vec::new() };
    hosted.step(NOW, SessionInput::Runner(result));
    let effects = exited(&mut hosted);
    assert_eq!(kinds(&effects), ["note", "note", "note", "journal", "report", "end"], "one entry");
}

#[test]
fn lost_claim_starts_nothing() {
    let effects = worker().step(NOW, SessionInput::Claimed(ClaimOutcome::DoNotStart));
    assert_eq!(kinds(&effects), ["end"]);
    let mut hosted = worker();
    let effects = hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::EarlierLife));
    assert_eq!(kinds(&effects), ["report", "end"]);
    let mut hosted = worker();
    assert_eq!(
        kinds(&hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::ClaimAgain))),
        ["claim"]
    );
}

#[test]
fn result_is_reported_only_when_every_process_is_gone() {
    let mut hosted = running(worker());
    let told = RunnerEvent::Result { result: success(), files: Vec::new() };
    let effects = hosted.step(NOW, SessionInput::Runner(told));
    assert!(!kinds(&effects).contains(&"report"), "{effects:?}");
    assert_eq!(kinds(&exited(&mut hosted)), ["note", "journal", "report", "end"]);
    assert!(hosted.step(NOW, SessionInput::Tick).is_empty(), "it is over");
}

#[test]
fn crashed_program_leaves_its_work_to_the_next_session() {
    let mut hosted = running(worker());
    let died = RunnerEvent::Exited { exit: Exit::Signal(9), result: None };
    let effects = hosted.step(NOW, SessionInput::Runner(died));
    assert_eq!(kinds(&effects), ["journal", "report", "end"]);
    let crashed = Report::Crashed { cause: "signal 9".to_owned() };
    assert!(matches!(&effects[1], SessionEffect::Report(report) if **report == crashed));

    let mut hosted = running(worker());
    let result = RunnerEvent::Result { result: success(), files: Vec::new() };
    hosted.step(NOW, SessionInput::Runner(result));
    let died = RunnerEvent::Exited { exit: Exit::Signal(9), result: None };
    let effects = hosted.step(NOW, SessionInput::Runner(died));
    assert_eq!(kinds(&effects), ["note", "journal", "report", "end"], "its work was done");
}

#[test]
fn checkpoint_is_confirmed_on_request_after_it_is_journaled() {
    let checkpoint = |confirm| RunnerEvent::Checkpoint { state: "1".to_owned(), confirm };
    let mut hosted = running(worker());
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Runner(checkpoint(false)))), ["journal"]);
    let effects = hosted.step(NOW, SessionInput::Runner(checkpoint(true)));
    assert_eq!(kinds(&effects), ["journal", "deliver"]);
}

#[test]
fn result_waits_for_its_files() {
    let mut hosted = running(worker());
    let file = LocalFile {
        name: "report.md".to_owned(),
        path: "/w/report.md".to_owned(),
        media_type: "text/markdown".to_owned(),
    };
    let told = RunnerEvent::Result { result: success(), files: vec![file] };
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Runner(told))), ["store"]);
    assert!(exited(&mut hosted).is_empty(), "not before they are stored");
    let kept = Artifact {
        name: "report.md".to_owned(),
        sha256: "0".repeat(64),
        size: 3,
        media_type: "text/markdown".to_owned(),
    };
    let effects = hosted.step(NOW, SessionInput::Stored(vec![kept.clone()]));
    let reported = effects.iter().find_map(|effect| {
        if let SessionEffect::Report(report) = effect
            && let Report::Result { result, .. } = &**report
        {
            return Some(result.clone());
        }
        None
    });
    assert_eq!(reported.unwrap().artifacts, [kept]);
}

#[test]
fn oversized_deliverable_becomes_an_artifact() {
    for (len, stored) in [(DELIVERABLE_BYTES_MAX, false), (DELIVERABLE_BYTES_MAX + 1, true)] {
        let mut hosted = running(worker());
        let mut result = success();
        result.deliverable = "x".repeat(len);
        let told = RunnerEvent::Result { result, files: Vec::new() };
        let effects = hosted.step(NOW, SessionInput::Runner(told));
        assert_eq!(kinds(&effects).contains(&"store"), stored, "{len} bytes");
    }
}

#[test]
fn program_ending_without_a_result_has_failed() {
    let mut hosted = running(worker());
    let effects = exited(&mut hosted);
    let failed = effects.iter().any(|effect| {
        matches!(effect, SessionEffect::Report(report)
            if matches!(&**report, Report::Result { result, .. }
                if result.outcome == Outcome::Failure))
    });
    assert!(failed, "{effects:?}");
}

#[test]
fn stop_drains_and_kill_is_reported_when_all_processes_are_gone() {
    let mut hosted = running(worker());
    let effects = hosted.step(NOW, letter(MailBody::Stop(order("enough"))));
    assert!(kinds(&effects).contains(&"stop"), "{effects:?}");
    let mut hosted = running(worker());
    let effects = hosted.step(NOW, letter(MailBody::Kill(order("replaced"))));
    assert_eq!(kinds(&effects), ["kill"]);
    let effects = exited(&mut hosted);
    assert_eq!(kinds(&effects), ["journal", "report", "end"]);
    let gone = Report::Gone { cause: "replaced".to_owned() };
    assert!(
        matches!(&effects[1], SessionEffect::Report(report) if **report == gone),
        "{effects:?}"
    );
}

#[test]
fn superseded_session_is_killed_silently() {
    let mut hosted = running(worker());
    let effects = hosted.step(NOW, letter(MailBody::Superseded(order("another epoch"))));
    assert_eq!(kinds(&effects), ["kill"]);
    assert_eq!(kinds(&exited(&mut hosted)), ["end"], "its session is no longer current");
}

#[test]
fn order_for_another_session_is_dropped() {
    let mut hosted = running(worker());
    let other = SessionOrder { session: Some(SessionId(Ulid(99))), ..order("old") };
    assert!(hosted.step(NOW, letter(MailBody::Kill(other))).is_empty());
}

#[test]
fn fenced_session_kills_its_program() {
    let mut hosted = running(worker());
    assert_eq!(kinds(&hosted.step(NOW, SessionInput::Fenced)), ["kill"]);
    assert_eq!(kinds(&exited(&mut hosted)), ["end"]);
}

pub(super) fn wanted() -> Box<SpawnRequest> {
    Box::new(SpawnRequest {
        epic: EpicId(Ulid(4)),
        node: None,
        parent: None,
        requested_by: None,
        reason: "help".to_owned(),
        caller_depth: None,
        caller_max_depth: None,
        caller_local_max_depth: None,
        subagents: Vec::new(),
        ack_required: true,
        wait: false,
    })
}

#[test]
fn specialist_asks_its_sponsor_and_reports_silence_at_the_deadline() {
    let mut hosted = running(session(&format!("S:api:{}", Ulid(1))));
    let effects = hosted.step(NOW, SessionInput::SpawnRead(Ok((None, wanted()))));
    assert!(kinds(&effects).contains(&"mail"), "to its PO, not to the governor: {effects:?}");
    let due = NOW + SPONSOR_ANSWER_WITHIN;
    assert_eq!(hosted.next_deadline(), Some(due));
    assert!(hosted.step(BusTime(due.0 - 1), SessionInput::Tick).is_empty());
    assert_eq!(kinds(&hosted.step(due, SessionInput::Tick)), ["report"]);
    assert_eq!(hosted.next_deadline(), None);
}

#[test]
fn sponsor_answer_ends_the_wait() {
    let mut hosted = running(session(&format!("S:api:{}", Ulid(1))));
    let request = RequestId(Ulid(77));
    hosted.step(NOW, SessionInput::SpawnRead(Ok((Some(request), wanted()))));
    let answer = SpawnAnswer { request: Some(request), ..SpawnAnswer::default() };
    let effects = hosted.step(NOW, letter(MailBody::SponsorAnswer(answer)));
    assert!(kinds(&effects).contains(&"deliver"), "{effects:?}");
    assert_eq!(hosted.next_deadline(), None);
    assert!(hosted.step(NOW + SPONSOR_ANSWER_WITHIN + Millis(1), SessionInput::Tick).is_empty());
}

#[test]
fn spawn_request_of_other_roles_goes_to_the_owner() {
    let mut hosted = running(worker());
    let effects = hosted.step(NOW, SessionInput::SpawnRead(Ok((None, wanted()))));
    assert!(kinds(&effects).contains(&"request"), "{effects:?}");
}

#[test]
fn plain_output_is_journaled_after_a_second() {
    let mut hosted = running(worker());
    let line = || SessionInput::Runner(RunnerEvent::Log { text: "line".to_owned() });
    hosted.step(NOW, line());
    hosted.step(NOW + Millis(400), line());
    let due = hosted.next_deadline().unwrap();
    assert_eq!(due, NOW + LOG_JOURNALED_WITHIN, "since the first line");
    assert!(hosted.step(BusTime(due.0 - 1), SessionInput::Tick).is_empty());
    assert_eq!(kinds(&hosted.step(due, SessionInput::Tick)), ["journal"]);
    assert_eq!(hosted.next_deadline(), None);
}

#[test]
fn log_lines_are_streamed_at_once_and_journaled_together() {
    let mut hosted = running(worker());
    for _ in 0..3 {
        let line = RunnerEvent::Log { text: "line".to_owned() };
        assert_eq!(kinds(&hosted.step(NOW, SessionInput::Runner(line))), ["stream"]);
    }
    let progress = RunnerEvent::Progress { text: "on".to_owned(), done: None, total: None };
    let effects = hosted.step(NOW, SessionInput::Runner(progress));
    let gathered = effects.iter().any(|effect| {
        matches!(effect, SessionEffect::Journal(JournalEvent::Log { text }) if text.matches("line").count() == 3)
    });
    assert!(gathered, "{effects:?}");
}
