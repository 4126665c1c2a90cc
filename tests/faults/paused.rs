//! A process stands still at a step until the others have noticed, and goes on: what it does then
//! changes nothing any more.

use rustix::process::Pid;
use tetrarch_core::id::AgentId;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_failpoint::{Failpoint, ProcessRole};
use tetrarch_tests::Program;

use crate::case::{Fault, death_before, faults, steps, turn};
use crate::stage::{SECOND, STEPS_OF_A_FLEET, Stage, let_go, until_gone};

#[tokio::test(flavor = "multi_thread")]
async fn owner_paused_at_a_failpoint_changes_nothing_on_resume() {
    paused(&[ProcessRole::Owner]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_or_guard_paused_at_a_failpoint_changes_nothing_on_resume() {
    paused(&[ProcessRole::Host, ProcessRole::Guard]).await;
}

async fn paused(parties: &[ProcessRole]) {
    let mut steps = steps(Fault::Pause, parties);
    // A guard that stands still while its host is there freezes nothing (decision 0010).
    steps.retain(|step| *step != Failpoint::DeadlinePassed);
    for steps in steps.chunks(STEPS_OF_A_FLEET) {
        let mut stage = Stage::start().await;
        let mut standby = stage.fleet.standby();
        stage.second = Some(stage.fleet.second_host(SECOND));
        for &step in steps {
            pause_at(&mut stage, &mut standby, step).await;
        }
        drop(standby);
        stage.end();
    }
}

async fn pause_at(stage: &mut Stage, standby: &mut Program, step: Failpoint) {
    let turn = turn(step);
    let owner = stage.epoch(&AgentId::Go).await;
    let running = stage.begin(&faults(step, Fault::Pause), turn);
    stage.take_turn(&running, turn).await;
    if let Some(death) = death_before(step) {
        let pid = stage.reached(death);
        until_gone(pid);
        if stage.second.as_ref().is_some_and(|second| is(second, pid)) {
            stage.second = Some(stage.fleet.second_host_that_comes_up(SECOND));
        }
    }
    let pid = stage.reached(step);
    match step.role() {
        ProcessRole::Owner => {
            stage.until_back(&AgentId::Go, owner).await;
            let_go(pid);
            until_gone(pid);
            if is(standby, pid) {
                *standby = stage.fleet.standby();
            }
        }
        ProcessRole::Host => host_goes_on(stage, pid).await,
        ProcessRole::Guard => {
            until_offline(stage, &format!("HO@{SECOND}").parse().unwrap()).await;
            let_go(pid);
        }
    }
    stage.end_turn(&running, turn).await;
    stage.settle(running);
}

/// A host that stood still finds out that its lease is another's, ends what it ran and itself, and
/// its next life joins.
async fn host_goes_on(stage: &mut Stage, pid: Pid) {
    let second = stage.second.as_ref().is_some_and(|second| is(second, pid));
    let host = format!("HO@{}", if second { SECOND } else { "h1" }).parse().unwrap();
    let before = stage.epoch(&host).await;
    until_offline(stage, &host).await;
    let_go(pid);
    until_gone(pid);
    if second {
        stage.second = Some(stage.fleet.second_host(SECOND));
    }
    stage.until_back(&host, before).await;
}

async fn until_offline(stage: &mut Stage, host: &AgentId) {
    let offline =
        |records: &Records| (records.agents.get(host)?.liveness == Liveness::Offline).then_some(());
    stage.ledger.until(&format!("{host} is offline"), offline).await;
}

fn is(program: &Program, pid: Pid) -> bool {
    i32::try_from(program.pid()).is_ok_and(|own| own == pid.as_raw_nonzero().get())
}
