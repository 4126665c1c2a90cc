//! Changes before their branches.

use tetrarch_core::change::{Action, ApplyOrder, Approval, Change, ChangeStatus, Made};
use tetrarch_core::time::BusTime;

use super::{id, words};

pub(in crate::codec::tests) fn made(full: bool) -> Made {
    Made {
        action: Action {
            repository: "/srv/repo/.git".to_owned(),
            target: "refs/heads/main".to_owned(),
            base: "a".repeat(40),
            head: "b".repeat(40),
            diff: "c".repeat(64),
            files: if full {
                vec!["src/a".to_owned(), "a\n\u{1b}b".to_owned()]
            } else {
                words("a")
            },
        },
        branch: "refs/heads/tetrarch/run".to_owned(),
        additions: 3,
        deletions: 1,
        size: 100,
        salvaged: full,
    }
}

pub(in crate::codec::tests) fn order(message: String) -> ApplyOrder {
    ApplyOrder {
        change: id("chg_~"),
        run: id("run_~"),
        digest: "e".repeat(64),
        action: made(true).action,
        branch: "refs/heads/tetrarch/run".to_owned(),
        message,
        at: BusTime(5),
        host_epoch: 4,
    }
}

pub(super) fn sample(full: bool) -> Change {
    let made = made(full);
    let approval = Approval {
        by: id("human:ada"),
        digest: made.action.digest(),
        at: BusTime(2),
        until: BusTime(9),
        used: Some(BusTime(3)),
    };
    Change {
        id: id("chg_~"),
        agent: id("W:~"),
        epoch: 2,
        run: id("run_~"),
        assignment: id("asg_~"),
        epic: id("goal_~"),
        node: id("T1.2"),
        project: full.then(|| id("demo")),
        host: id("h1"),
        scope: if full { words("src/**") } else { Vec::new() },
        made,
        to: id("human:ada"),
        status: if full { ChangeStatus::Conflicted } else { ChangeStatus::Proposed },
        reason: if full { "both changed it".to_owned() } else { String::new() },
        conflicts: if full { words("src/a") } else { Vec::new() },
        needed: if full { 2 } else { 1 },
        earlier: if full {
            vec![Approval { by: id("human:ben"), ..approval.clone() }]
        } else {
            Vec::new()
        },
        approval: full.then_some(approval),
        commit: if full { "d".repeat(40) } else { String::new() },
        proposed: BusTime(1),
        until: BusTime(9),
        since: BusTime(4),
    }
}
