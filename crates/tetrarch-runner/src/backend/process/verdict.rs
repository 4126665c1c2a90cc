//! What the runner makes of a program that ended without a result (docs/stdio-protocol.md,
//! Programs that speak no protocol). Pure: the exit code never overrules a result, since a run
//! that gave one does not come here.

use tetrarch_core::brief::{
    Brief, Finding, Judgement, Outcome, RunResult, VERDICT_OF_EXIT, VERDICT_VARIABLE, Verdict,
};
use tetrarch_core::duration;
use tetrarch_core::limits::TEXT_BYTES_MAX;
use tetrarch_core::order::Exit;

use super::ladder::{KillCause, KillLadder};
use super::output::ProgramReport;
use crate::lines::end_of;

/// What stands before the last words of a program.
const STDERR_ENDS: &str = "; stderr ends: ";

/// The result of a program that gave none.
pub(super) fn without_result(exit: &Exit, heard: &ProgramReport, ladder: &KillLadder) -> RunResult {
    let (outcome, error) = judge(exit, heard, ladder);
    let mut result = RunResult::ended(outcome, error);
    result.usage = heard.usage;
    let stdout = heard.stdout.text();
    if outcome == Outcome::Success {
        result.deliverable = stdout;
    } else if stdout.is_empty() {
        result.partial = heard.stderr.text();
    } else {
        result.partial = stdout;
    }
    result
}

/// Whether a program's exit code is its verdict: it reviews, and its profile says so.
pub(super) fn judges_by_exit(brief: &Brief) -> bool {
    let mut env = brief.runner.env.iter();
    let said = env.any(|(name, value)| name == VERDICT_VARIABLE && value == VERDICT_OF_EXIT);
    said && brief.judges.is_some()
}

/// The verdict of a reviewer that judges by its exit code, made of the result it would have as a worker. It
/// ended by itself and spoke no protocol, else it has none.
pub(super) fn judged(
    result: RunResult,
    exit: &Exit,
    heard: &ProgramReport,
    ladder: &KillLadder,
) -> RunResult {
    let Exit::Code(code) = exit else { return result };
    if heard.spoke || ladder.cause().is_some() || ladder.stop_reason().is_some() {
        return result;
    }
    let (out, err) = (heard.stdout.text(), heard.stderr.text());
    let both = [out.trim_end(), err.trim_end()].join("\n");
    let said = end_of(both.trim(), TEXT_BYTES_MAX / 2);
    let (judgement, findings) = if *code == 0 {
        (Judgement::Pass, Vec::new())
    } else {
        let what = format!("exit code {code}: {said}");
        let severity = "high".to_owned();
        (Judgement::Fail, vec![Finding { place: String::new(), what, severity }])
    };
    RunResult {
        outcome: Outcome::Success,
        deliverable: if said.is_empty() { format!("exit code {code}") } else { said.to_owned() },
        verdict: Some(Verdict { judgement, findings }),
        usage: result.usage,
        ..RunResult::ended(Outcome::Success, "")
    }
}

/// A program that failed since its last call of its model was withheld, for the reason `why`, has used up its grant.
pub(super) fn withheld(result: &mut RunResult, why: Option<String>) {
    if let (Outcome::Failure, Some(why)) = (result.outcome, why) {
        result.outcome = Outcome::BudgetExceeded;
        result.error = why;
    }
}

/// Says in a failed result why it failed, before what the program wrote.
pub(super) fn explain(result: &mut RunResult, cause: &str) {
    let at = result.error.find(STDERR_ENDS).unwrap_or(result.error.len());
    result.error.insert_str(at, &format!("; {cause}"));
}

/// Whether a program died: by a signal that nobody here sent. What it was doing is not over, so
/// nothing is made of it.
pub(super) fn died(exit: &Exit, ladder: &KillLadder) -> bool {
    let provoked = ladder.cause().is_some() || ladder.stop_reason().is_some();
    matches!(exit, Exit::Signal(_)) && !provoked
}

/// Whether a program that gave no result ended for its next session. One that speaks no protocol
/// and ended before it was pushed has simply finished, and the wall clock stands above all.
pub(super) fn rotated(heard: &ProgramReport, ladder: &KillLadder) -> bool {
    ladder.is_rotating()
        && match ladder.cause() {
            Some(KillCause::Stopped | KillCause::Lingered | KillCause::Killed) => true,
            Some(KillCause::Wall(_) | KillCause::Turn(_) | KillCause::Processes(_)) => false,
            None => heard.spoke,
        }
}

fn judge(exit: &Exit, heard: &ProgramReport, ladder: &KillLadder) -> (Outcome, String) {
    let stopped = |reason: &str| (Outcome::Cancelled, format!("stopped: {reason}"));
    match (ladder.cause(), ladder.stop_reason()) {
        (Some(KillCause::Killed), _) => (Outcome::Cancelled, "killed on order".to_owned()),
        (Some(KillCause::Wall(wall)), _) => {
            (Outcome::Failure, format!("wall clock of {} ended", duration::print(*wall)))
        }
        (Some(KillCause::Processes(most)), _) => {
            let error = format!("it had more than {most} processes; raise runs.processes_max");
            (Outcome::Failure, error)
        }
        (Some(KillCause::Turn(turn)), _) => {
            let turn = duration::print(*turn);
            let what_to_do = "give the brief a longer turnTimeout, or raise runs.turn_timeout";
            (Outcome::Failure, format!("a turn took longer than {turn}; {what_to_do}"))
        }
        (Some(KillCause::Stopped), reason) => stopped(reason.unwrap_or_default()),
        (None, Some(reason)) => stopped(reason),
        (None, None) if !heard.spoke && *exit == Exit::Code(0) => (Outcome::Success, String::new()),
        (None | Some(KillCause::Lingered), _) => (Outcome::Failure, failure(exit, heard)),
    }
}

fn failure(exit: &Exit, heard: &ProgramReport) -> String {
    let exit = match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    };
    let mut error = if heard.spoke { format!("ended without a result ({exit})") } else { exit };
    if let Some(complaint) = &heard.complaint {
        error.push_str(&format!(
            "; {} the last: {}",
            match heard.malformed {
                1 => "1 line was not an event,".to_owned(),
                more => format!("{more} lines were not events,"),
            },
            end_of(complaint, TEXT_BYTES_MAX / 4)
        ));
    }
    let stderr = heard.stderr.text();
    if !stderr.is_empty() {
        error.push_str(STDERR_ENDS);
        error.push_str(end_of(&stderr, TEXT_BYTES_MAX / 2));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Tail;
    use tetrarch_core::time::Millis;
    use tokio::time::Instant;

    fn heard(spoke: bool) -> ProgramReport {
        let tail = |text: &str| {
            let mut tail = Tail::default();
            tail.push(text.as_bytes());
            tail
        };
        ProgramReport {
            spoke,
            stdout: tail("out\n"),
            stderr: tail("err\n"),
            ..ProgramReport::default()
        }
    }

    fn ladder(stop: Option<u64>, wall: Option<u64>, look: bool) -> KillLadder {
        let now = Instant::now();
        let mut ladder = KillLadder::new(now, wall.map(Millis), None);
        if let Some(drain) = stop {
            ladder.stop(now, Millis(drain), Millis(1), "enough");
        }
        assert_eq!(ladder.due(now).is_some(), look);
        ladder
    }

    #[test]
    fn each_end_has_its_outcome() {
        let free = || ladder(None, None, false);
        let cases = [
            (Exit::Code(0), false, free(), Outcome::Success, ""),
            (Exit::Code(3), false, free(), Outcome::Failure, "exit code 3; stderr ends: err"),
            (Exit::Signal(11), false, free(), Outcome::Failure, "signal 11; stderr ends: err"),
            (
                Exit::Code(0),
                true,
                free(),
                Outcome::Failure,
                "ended without a result (exit code 0); stderr ends: err",
            ),
            (
                Exit::Code(0),
                false,
                ladder(Some(9), None, false),
                Outcome::Cancelled,
                "stopped: enough",
            ),
            (
                Exit::Code(1),
                false,
                ladder(Some(9), None, false),
                Outcome::Cancelled,
                "stopped: enough",
            ),
            (
                Exit::Code(0),
                true,
                ladder(Some(9), None, false),
                Outcome::Cancelled,
                "stopped: enough",
            ),
            (
                Exit::Code(0),
                false,
                ladder(Some(0), None, true),
                Outcome::Cancelled,
                "stopped: enough",
            ),
            (
                Exit::Code(0),
                false,
                ladder(None, Some(0), true),
                Outcome::Failure,
                "wall clock of 0s ended",
            ),
        ];
        for (exit, spoke, ladder, outcome, error) in cases {
            let result = without_result(&exit, &heard(spoke), &ladder);
            assert_eq!(
                (result.outcome, result.error.as_str()),
                (outcome, error),
                "{exit:?} {spoke}"
            );
            let kept =
                if outcome == Outcome::Success { result.deliverable } else { result.partial };
            assert_eq!(kept, "out");
        }
    }

    #[test]
    fn overlong_turn_is_a_failure_despite_a_later_request() {
        let now = Instant::now();
        let mut ladder = KillLadder::new(now, None, Some(Millis::from_secs(2)));
        ladder.in_turn(Some(now));
        assert!(ladder.due(now + std::time::Duration::from_secs(2)).is_some());
        ladder.rotate(now, Millis(9), Millis(1));
        assert!(!died(&Exit::Signal(15), &ladder) && !rotated(&heard(true), &ladder));
        let result = without_result(&Exit::Signal(15), &heard(true), &ladder);
        assert_eq!((result.outcome, result.partial.as_str()), (Outcome::Failure, "out"));
        assert!(result.error.starts_with("a turn took longer than 2s; "), "{}", result.error);
    }

    #[test]
    fn only_a_foreign_signal_is_a_crash() {
        assert!(died(&Exit::Signal(9), &ladder(None, None, false)));
        assert!(!died(&Exit::Code(137), &ladder(None, None, false)));
        assert!(!died(&Exit::Signal(9), &ladder(Some(9), None, false)), "it was asked to stop");
        assert!(!died(&Exit::Signal(9), &ladder(None, Some(0), true)), "its time was over");
    }

    #[test]
    fn only_unfinished_work_goes_on_in_the_next_session() {
        let now = Instant::now();
        let asked = |drain: u64, wall: Option<u64>| {
            let mut ladder = KillLadder::new(now, wall.map(Millis), None);
            ladder.rotate(now, Millis(drain), Millis(1));
            ladder
        };
        assert!(rotated(&heard(true), &asked(9, None)));
        assert!(!rotated(&heard(false), &asked(9, None)), "it finished by itself");
        let pushed = |mut ladder: KillLadder| {
            assert!(ladder.due(now).is_some());
            ladder
        };
        for spoke in [true, false] {
            assert!(rotated(&heard(spoke), &pushed(asked(0, None))));
            assert!(!rotated(&heard(spoke), &pushed(asked(9, Some(0)))), "its time was over");
            assert!(!rotated(&heard(spoke), &ladder(Some(9), None, false)), "nobody asked for it");
            let mut stopped = asked(9, None);
            stopped.stop(now, Millis(9), Millis(1), "enough");
            assert!(!rotated(&heard(spoke), &stopped), "a stop has more to say");
        }
    }

    #[test]
    fn exit_code_of_a_review_command_is_its_verdict() {
        let free = || ladder(None, None, false);
        let of = |exit: Exit, spoke, ladder: &KillLadder| {
            let heard = heard(spoke);
            judged(without_result(&exit, &heard, ladder), &exit, &heard, ladder)
        };
        let passed = of(Exit::Code(0), false, &free());
        assert_eq!(passed.verdict.unwrap().judgement, Judgement::Pass);
        let failed = of(Exit::Code(2), false, &free());
        assert_eq!((failed.outcome, failed.deliverable.as_str()), (Outcome::Success, "out\nerr"));
        let verdict = failed.verdict.unwrap();
        assert_eq!(verdict.judgement, Judgement::Fail);
        assert_eq!(verdict.findings[0].what, "exit code 2: out\nerr");
        for (exit, spoke, ladder) in [
            (Exit::Signal(9), false, free()),
            (Exit::Code(0), true, free()),
            (Exit::Code(0), false, ladder(None, Some(0), true)),
            (Exit::Code(1), false, ladder(Some(9), None, false)),
        ] {
            assert_eq!(of(exit.clone(), spoke, &ladder).verdict, None, "{exit:?} {spoke}");
        }
    }

    #[test]
    fn failure_cause_precedes_the_programs_output() {
        let free = ladder(None, None, false);
        let mut result = without_result(&Exit::Code(3), &heard(false), &free);
        explain(&mut result, "because");
        assert_eq!(result.error, "exit code 3; because; stderr ends: err");
        let silent = ProgramReport::default();
        let mut result = without_result(&Exit::Code(3), &silent, &free);
        explain(&mut result, "because");
        assert_eq!(result.error, "exit code 3; because");
    }

    #[test]
    fn kill_is_a_cancellation() {
        let mut ladder = ladder(None, None, false);
        ladder.kill();
        let result = without_result(&Exit::Signal(9), &heard(false), &ladder);
        assert_eq!(result.outcome, Outcome::Cancelled);
    }
}
