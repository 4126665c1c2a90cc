//! A question to people, open and answered.

use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::time::BusTime;

use super::{id, words};

pub(super) fn sample(full: bool) -> Question {
    Question {
        id: id("qst_~"),
        agent: id("W:~"),
        run: id("run_~"),
        epic: id("goal_~"),
        node: id("T1.2"),
        escalates: full.then(|| id("asg_~")),
        to: id("human:ada"),
        text: "which?".to_owned(),
        options: words("a b"),
        status: if full { QuestionStatus::Answered } else { QuestionStatus::Open },
        answer: if full { "b".to_owned() } else { String::new() },
        answered_by: full.then(|| id("human:ada")),
        asked: BusTime(1),
        since: BusTime(2),
    }
}
