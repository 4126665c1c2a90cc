//! What a session says of itself for its host's renewals.

use super::*;
use crate::converse::{Call, Recorded};
use crate::order::StopWithin;
use crate::run::RunState;
use crate::time::Millis;

#[test]
fn vitals_row_shows_run_state_and_activity() {
    let mut hosted = worker();
    assert_eq!((hosted.run_state(), hosted.progress()), (RunState::Queued, 0));
    hosted.step(NOW, SessionInput::Claimed(ClaimOutcome::Claimed));
    assert_eq!((hosted.run_state(), hosted.progress()), (RunState::Spawning, 0));
    let question =
        RunnerEvent::Ask { id: None, question: "which?".to_owned(), options: Vec::new() };
    let usage = Usage { tokens_in: 3, ..Usage::default() };
    for (seen, (event, state)) in (1..).zip([
        (RunnerEvent::Started { pid: None, isolation: String::new() }, RunState::Running),
        (RunnerEvent::Blocked { reason: "a lock".to_owned() }, RunState::Blocked),
        (RunnerEvent::Unblocked, RunState::Running),
        (question, RunState::AwaitingInput),
        (RunnerEvent::Log { text: "still here".to_owned() }, RunState::AwaitingInput),
        (RunnerEvent::Usage(usage), RunState::AwaitingInput),
    ]) {
        hosted.step(NOW, SessionInput::Runner(event));
        assert_eq!((hosted.run_state(), hosted.progress()), (state, seen));
    }
    assert_eq!(hosted.usage(), usage);
    hosted.step(NOW, letter(MailBody::Answer { question: None, text: "this".to_owned() }));
    assert_eq!((hosted.run_state(), hosted.progress()), (RunState::Running, 6), "mail is no move");
    hosted.step(NOW, letter(MailBody::Stop(order("enough"))));
    assert_eq!(hosted.run_state(), RunState::Cancelling);
}

#[test]
fn activity_follows_the_program_until_its_end() {
    let mut hosted = running(worker());
    let shown = |hosted: &HostedSession| {
        let activity = hosted.activity();
        (activity.tool().to_owned(), activity.words().to_owned())
    };
    let both = |tool: &str, words: &str| (tool.to_owned(), words.to_owned());
    let (done, total) = (None, None);
    let progress = RunnerEvent::Progress { text: "reads\nall of it".to_owned(), done, total };
    hosted.step(NOW, SessionInput::Runner(progress));
    assert_eq!(shown(&hosted), both("", "reads"));
    hosted.step(NOW, SessionInput::Runner(RunnerEvent::Using { tool: "Bash".to_owned() }));
    assert_eq!(shown(&hosted), both("Bash", "reads"));
    let call = Call { id: "1".to_owned(), tool: "grep".to_owned(), arguments: "{}".to_owned() };
    let recorded =
        Recorded::Turn { step: 1, text: "looks".to_owned(), calls: vec![call], is_cut: false };
    let conversed = RunnerEvent::Conversed { recorded: Box::new(recorded), confirm: None };
    hosted.step(NOW, SessionInput::Runner(conversed));
    assert_eq!(shown(&hosted), both("grep", "looks"));
    exited(&mut hosted);
    assert_eq!(shown(&hosted), both("", "looks"));
}

#[test]
fn stop_and_rotation_use_the_hosts_drain_time() {
    for body in [MailBody::Stop(order("enough")), MailBody::Rotate(order("anew"))] {
        let within = StopWithin { drain: Millis(7), kill_grace: Millis(9) };
        let mut hosted = running(worker().stopping_within(within));
        let effects = hosted.step(NOW, letter(body));
        assert_eq!(effects.iter().find_map(given), Some(within));
    }
}

fn given(effect: &SessionEffect) -> Option<StopWithin> {
    match effect {
        SessionEffect::Order(order) => match **order {
            Order::Stop { drain, kill_grace, .. } | Order::Rotate { drain, kill_grace, .. } => {
                Some(StopWithin { drain, kill_grace })
            }
            Order::Start(_)
            | Order::Deliver { .. }
            | Order::Kill { .. }
            | Order::Verb { .. }
            | Order::Apply(_) => None,
        },
        SessionEffect::Claim
        | SessionEffect::Journal(_)
        | SessionEffect::Note(_)
        | SessionEffect::Report(_)
        | SessionEffect::ReadSpawn { .. }
        | SessionEffect::Operate { .. }
        | SessionEffect::Request(..)
        | SessionEffect::Mail(_)
        | SessionEffect::Store(_)
        | SessionEffect::Fetch { .. }
        | SessionEffect::Consumed
        | SessionEffect::Stream(_)
        | SessionEffect::End => None,
    }
}
