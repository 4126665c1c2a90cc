//! A question to the planner.

use tetrarch_core::budget::Spend;
use tetrarch_core::goal::Goal;
use tetrarch_core::planner::{Planning, PlanningStatus, Purpose};
use tetrarch_core::time::BusTime;

use super::{id, words};

pub(super) fn sample(full: bool, goal: Goal) -> Planning {
    Planning {
        id: id("dsp_~"),
        at: BusTime(1),
        purpose: if full { Purpose::Split } else { Purpose::Plan },
        epic: id("goal_~"),
        goal: full.then(|| Box::new(goal)),
        assignment: full.then(|| id("asg_~")),
        node: full.then(|| id("T1.2")),
        base_version: 7,
        model: "m".to_owned(),
        template: "split.1".to_owned(),
        template_hash: "h".to_owned(),
        inputs: "{}".to_owned(),
        status: if full { PlanningStatus::Refused } else { PlanningStatus::Asked },
        calls: 4,
        set_aside: Spend { tokens: 5, cost_micro: 6, turns: 7 },
        used: Spend { tokens: 8, cost_micro: 9, turns: 10 },
        attempts: 3,
        answer: "{\"phases\":[]}".to_owned(),
        problems: words("a b"),
        reason: "r".to_owned(),
        since: BusTime(2),
        trace: full.then(|| "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
    }
}
