//! What a run changed in a worktree: its diff is stored, and it is reported right before the result.

use super::*;
use crate::brief::Artifact;
use crate::owner::tests::changes::made;

fn changed(hosted: &mut HostedSession) -> Vec<SessionEffect> {
    let diff = LocalFile {
        name: "change.diff".to_owned(),
        path: "/w/change.diff".to_owned(),
        media_type: "text/x-diff".to_owned(),
    };
    let made = Box::new(made(&["src/a"]));
    hosted.step(NOW, SessionInput::Runner(RunnerEvent::Changed { made, diff }))
}

fn stored(sha256: &str) -> SessionInput {
    SessionInput::Stored(vec![Artifact {
        name: "change.diff".to_owned(),
        sha256: sha256.to_owned(),
        size: 100,
        media_type: "text/x-diff".to_owned(),
    }])
}

fn reported(effects: &[SessionEffect]) -> Vec<&'static str> {
    let kind = |effect: &SessionEffect| {
        if let SessionEffect::Report(report) = effect { Some(report.kind()) } else { None }
    };
    effects.iter().filter_map(kind).collect()
}

#[test]
fn change_is_reported_right_before_the_result() {
    let mut hosted = running(worker());
    hosted.step(
        NOW,
        SessionInput::Runner(RunnerEvent::Result { result: success(), files: Vec::new() }),
    );
    assert_eq!(kinds(&changed(&mut hosted)), ["store"]);
    let diff = made(&[]).action.diff;
    assert_eq!(kinds(&hosted.step(NOW, stored(&diff))), ["journal"]);
    assert_eq!(reported(&exited(&mut hosted)), ["change", "result"]);
}

#[test]
fn change_not_stored_verbatim_is_not_proposed() {
    for kept in [stored(&"0".repeat(64)), SessionInput::Stored(Vec::new())] {
        let mut hosted = running(worker());
        hosted.step(
            NOW,
            SessionInput::Runner(RunnerEvent::Result { result: success(), files: Vec::new() }),
        );
        changed(&mut hosted);
        assert_eq!(kinds(&hosted.step(NOW, kept)), ["journal"]);
        assert_eq!(reported(&exited(&mut hosted)), ["result"]);
    }
}

#[test]
fn crashed_session_reports_no_change() {
    let mut hosted = running(worker());
    changed(&mut hosted);
    hosted.step(NOW, stored(&made(&[]).action.diff));
    let exit = Exit::Signal(9);
    let effects =
        hosted.step(NOW, SessionInput::Runner(RunnerEvent::Exited { exit, result: None }));
    assert_eq!(reported(&effects), ["crashed"]);
}
