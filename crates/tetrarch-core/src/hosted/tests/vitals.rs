//! What a session says of itself for its host's renewals.

use super::*;
use crate::order::StopWithin;
use crate::run::RunState;
use crate::time::Millis;

#[test]
fn its_row_says_where_the_run_stands_and_that_it_moves() {
    let mut hosted = worker();
    assert_eq!((hosted.run_state(), hosted.progress()), (RunState::Queued, 0));
    hosted.step(NOW, Input::Claimed(ClaimOutcome::Claimed));
    assert_eq!((hosted.run_state(), hosted.progress()), (RunState::Spawning, 0));
    let question = RunnerEvent::Ask { question: "which?".to_owned(), options: Vec::new() };
    let usage = Usage { tokens_in: 3, ..Usage::default() };
    for (seen, (event, state)) in (1..).zip([
        (RunnerEvent::Started { pid: None, isolation: String::new() }, RunState::Running),
        (RunnerEvent::Blocked { reason: "a lock".to_owned() }, RunState::Blocked),
        (RunnerEvent::Unblocked, RunState::Running),
        (question, RunState::AwaitingInput),
        (RunnerEvent::Log { text: "still here".to_owned() }, RunState::AwaitingInput),
        (RunnerEvent::Usage(usage), RunState::AwaitingInput),
    ]) {
        hosted.step(NOW, Input::Runner(event));
        assert_eq!((hosted.run_state(), hosted.progress()), (state, seen));
    }
    assert_eq!(hosted.usage(), usage);
    hosted.step(NOW, letter(MailBody::Answer { question: None, text: "this".to_owned() }));
    assert_eq!((hosted.run_state(), hosted.progress()), (RunState::Running, 6), "mail is no move");
    hosted.step(NOW, letter(MailBody::Stop(order("enough"))));
    assert_eq!(hosted.run_state(), RunState::Cancelling);
}

#[test]
fn a_stop_and_a_rotation_have_the_time_that_their_host_gives() {
    for body in [MailBody::Stop(order("enough")), MailBody::Rotate(order("anew"))] {
        let within = StopWithin { drain: Millis(7), kill_grace: Millis(9) };
        let mut hosted = running(worker().stopping_within(within));
        let effects = hosted.step(NOW, letter(body));
        assert_eq!(effects.iter().find_map(given), Some(within));
    }
}

fn given(effect: &Effect) -> Option<StopWithin> {
    match effect {
        Effect::Order(order) => match **order {
            Order::Stop { drain, kill_grace, .. } | Order::Rotate { drain, kill_grace, .. } => {
                Some(StopWithin { drain, kill_grace })
            }
            Order::Start(_)
            | Order::Deliver { .. }
            | Order::Kill { .. }
            | Order::Verb { .. }
            | Order::Apply(_) => None,
        },
        Effect::Claim
        | Effect::Journal(_)
        | Effect::Report(_)
        | Effect::ReadSpawn { .. }
        | Effect::Operate { .. }
        | Effect::Request(..)
        | Effect::Mail(_)
        | Effect::Store(_)
        | Effect::Consumed
        | Effect::Stream(_)
        | Effect::End => None,
    }
}
