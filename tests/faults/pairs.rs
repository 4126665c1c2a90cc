//! Two deaths in one plan, each at a step of its own. `FAULT_PAIRS` says how many pairs are taken (1),
//! `FAULT_SEED` where chance begins (1); a failure names its pair.

use tetrarch_failpoint::Failpoint;

use crate::case::{Fault, Turn, death_before, turn};
use crate::stage::{STEPS_OF_A_FLEET, Stage};

fn number(name: &str) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Pairs of steps that every plan gets to, one before the other or the other way round.
fn pairs() -> Vec<[Failpoint; 2]> {
    let by_itself = |step: &Failpoint| turn(*step) == Turn::Dies && death_before(*step).is_none();
    let steps: Vec<Failpoint> = Failpoint::ALL.iter().copied().filter(by_itself).collect();
    let all = steps.iter().enumerate();
    let all: Vec<[Failpoint; 2]> =
        all.flat_map(|(n, &one)| steps[n + 1..].iter().map(move |&other| [one, other])).collect();
    // Two primes, so that what is chosen is spread over all of them.
    let (seed, count) = (number("FAULT_SEED"), number("FAULT_PAIRS"));
    let chosen = (0..count).map(|n| (seed * 7_919 + n * 10_007) % all.len() as u64);
    chosen.map(|place| all[place as usize]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_deaths_in_one_plan_cost_no_more_than_each_alone() {
    for pairs in pairs().chunks(STEPS_OF_A_FLEET) {
        let mut stage = Stage::start().await;
        for pair in pairs {
            die_twice(&mut stage, *pair).await;
        }
        stage.end();
    }
}

async fn die_twice(stage: &mut Stage, pair: [Failpoint; 2]) {
    let mut followers = Vec::new();
    for step in pair {
        followers.extend(stage.follower(step.role()).await.map(|follower| (step, follower)));
    }
    let running = stage.begin(&pair.map(|step| (step, Fault::Kill)), Turn::Dies);
    stage.settle(running);
    for (step, (follower, before)) in followers {
        // After the one death the other step may not be on the way any more.
        if !stage.disarm(step) {
            continue;
        }
        stage.reached(step);
        stage.until_back(&follower, before).await;
    }
}
