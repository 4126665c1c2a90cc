//! Kill -9 at a step: whoever follows goes on, nothing recorded is made again, nothing runs twice,
//! nothing is left.

use tetrarch_failpoint::{Failpoint, ProcessRole};

use crate::case::{Fault, faults, steps, turn};
use crate::stage::{STEPS_OF_A_FLEET, Stage, until_gone};

#[tokio::test(flavor = "multi_thread")]
async fn owner_killed_at_a_failpoint_is_replaced() {
    killed(&[ProcessRole::Owner]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_or_guard_killed_at_a_failpoint_is_replaced() {
    killed(&[ProcessRole::Host, ProcessRole::Guard]).await;
}

async fn killed(parties: &[ProcessRole]) {
    for steps in steps(Fault::Kill, parties).chunks(STEPS_OF_A_FLEET) {
        let mut stage = Stage::start().await;
        for &step in steps {
            kill_at(&mut stage, step).await;
        }
        stage.end();
    }
}

async fn kill_at(stage: &mut Stage, step: Failpoint) {
    let turn = turn(step);
    let follower = stage.follower(step.role()).await;
    let faults = faults(step, Fault::Kill);
    let running = stage.begin(&faults, turn);
    stage.take_turn(&running, turn).await;
    for (step, _) in faults {
        until_gone(stage.reached(step));
    }
    stage.end_turn(&running, turn).await;
    stage.settle(running);
    if let Some((follower, before)) = follower {
        stage.until_back(&follower, before).await;
    }
    stage.without_second();
}
