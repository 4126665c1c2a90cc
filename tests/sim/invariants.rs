//! The invariants of spec 10 that can be looked at here: each with the faults that would break it,
//! planted one at a time, which have to be found as what they are.

mod n01_depth;
mod n02_width;
mod n03_one_decision;
mod n04_one_start;
mod n05_slots;
mod n06_epochs;
mod n07_replacement;
mod n08_one_owner;
mod n10_transitions;
mod n11_observed_silence;
mod n12_resumption;
mod n13_plan_versions;
mod n14_intent;
mod n15_mail;
mod n18_budgets;
mod n20_replay;
mod n21_bounds;
mod n22_placement;
mod n23_restraint;
mod n27_settling;
mod n28_memory;
mod n29_idleness;
mod tick;

use crate::bug::Bug;
use crate::world;

/// Seeds within which a planted bug has to be found.
const SEEDS: u64 = 200;

/// A planted bug is found, and told as this.
fn found(bug: Bug, expected: &str) {
    let broken = (0..SEEDS).filter_map(|seed| world::run(seed, Some(bug)).broken);
    let mut otherwise = None;
    for broken in broken {
        if broken.contains(expected) {
            return;
        }
        otherwise.get_or_insert(broken);
    }
    panic!("{bug:?} was not found, or not as {expected} {otherwise:?}");
}
