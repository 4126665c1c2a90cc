//! Mail that is given to a program and not taken by it yet.

use super::*;
use crate::id::DispatchId;
use crate::limits::MAIL_IN_HAND_MAX;
use crate::mail::StatusRequest;

fn mail(body: MailBody, at: u64) -> SessionInput {
    let SessionInput::Mail { from, mail, json, .. } = letter(body) else { panic!("no mail") };
    SessionInput::Mail { from, mail, json, place: at }
}

fn info(at: u64) -> SessionInput {
    mail(MailBody::Info { text: "look".to_owned() }, at)
}

fn taken(hosted: &mut HostedSession, place: u64) -> Vec<SessionEffect> {
    hosted.step(NOW, SessionInput::Runner(RunnerEvent::Taken { place }))
}

#[test]
fn a_message_is_consumed_when_its_program_has_it() {
    let mut hosted = running(worker());
    let progress = hosted.progress();
    assert_eq!(kinds(&hosted.step(NOW, info(3))), ["journal", "deliver"]);
    assert_eq!(kinds(&hosted.step(NOW, info(5))), ["journal", "deliver"]);
    assert_eq!(hosted.first_in_hand(), Some(3));
    assert_eq!(taken(&mut hosted, 3), [SessionEffect::Consumed]);
    assert_eq!(hosted.first_in_hand(), Some(5));
    assert_eq!(taken(&mut hosted, 3), [], "told once");
    assert_eq!(taken(&mut hosted, 5), [SessionEffect::Consumed]);
    assert_eq!((hosted.first_in_hand(), hosted.progress()), (None, progress));
}

#[test]
fn mail_is_left_where_it_is_while_too_much_is_not_taken() {
    let mut hosted = running(worker());
    let most = u64::try_from(MAIL_IN_HAND_MAX).unwrap();
    for place in 1..most {
        hosted.step(NOW, info(place));
        assert!(!hosted.holds_mail(), "{place}");
    }
    hosted.step(NOW, info(most));
    assert!(hosted.holds_mail());
    taken(&mut hosted, 1);
    assert!(!hosted.holds_mail());
}

#[test]
fn a_status_request_is_consumed_when_its_program_has_it() {
    let mut hosted = running(worker());
    let dispatch = DispatchId(Ulid(77));
    let asked = MailBody::StatusRequest(StatusRequest {
        dispatch,
        assignment: AssignmentId(Ulid(5)),
        node: "T1.1".parse().unwrap(),
        session: SessionId(Ulid(3)),
        text: String::new(),
    });
    assert_eq!(kinds(&hosted.step(NOW, mail(asked.clone(), 4))), ["journal", "deliver"]);
    let effects = taken(&mut hosted, 4);
    let consumed =
        SessionEffect::Report(Box::new(Report::Consumed { run: hosted.run(), dispatch }));
    assert_eq!(effects, [SessionEffect::Consumed, consumed.clone()]);
    assert_eq!(hosted.step(NOW, mail(asked, 6)), [consumed], "one that is known is told at once");
}
