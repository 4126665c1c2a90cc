//! Operations on changes before their branches, and what runs and hosts report of them.

use tetrarch_core::change::ApplyOutcome;
use tetrarch_core::request::{GateOp, GateVerdict, Op, Report};

use crate::codec::tests::samples::{change, id, words};

pub(super) fn ops() -> [Op; 3] {
    let decide = |verdict, reason: &str| {
        let reason = reason.to_owned();
        Op::Gate(GateOp::Decide { change: id("chg_~"), verdict, reason })
    };
    [
        decide(GateVerdict::Approve { digest: "e".repeat(64) }, ""),
        decide(GateVerdict::Deny, "not so"),
        Op::Gate(GateOp::Apply { change: id("chg_~") }),
    ]
}

pub(super) fn reports() -> [Report; 4] {
    let settled = |outcome| Report::Settled { change: id("chg_~"), outcome };
    let (files, reason) = (words("a b"), "both".to_owned());
    [
        Report::Change { run: id("run_~"), made: Box::new(change::made(true)) },
        settled(ApplyOutcome::Applied { commit: "d".repeat(40) }),
        settled(ApplyOutcome::Conflicted { files, reason: reason.clone() }),
        settled(ApplyOutcome::Refused { reason }),
    ]
}
