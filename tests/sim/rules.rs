//! What the operators of a seed have set.

use tetrarch_core::intensity::Intensity;
use tetrarch_core::order::StopWithin;
use tetrarch_core::overseer::Patience;
use tetrarch_core::overseer::backoff::Backoff;
use tetrarch_core::owner::{Deadlines, Policy};
use tetrarch_core::sweep::MassPolicy;
use tetrarch_core::time::Millis;

use crate::bug::Bug;
use crate::dice::Dice;
use crate::world::WINDOW;

/// What operators of this seed have set.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    pub(crate) mass: MassPolicy,
    pub(crate) bug: Option<Bug>,
}

/// What operators have set in a seed: in some, few failures are borne.
pub(crate) fn by_chance(dice: &mut Dice, bug: Option<Bug>) -> Rules {
    let mut intensity = Intensity { max: u32::MAX, ..Intensity::default() };
    if dice.percent(30) {
        intensity.max = u32::try_from(dice.range(0, 2)).unwrap_or(0);
    }
    let policy = Policy {
        intensity,
        deadlines: deadlines(),
        window: WINDOW,
        // Its senders are not the many of whom shares protect others.
        requests_per_second: 100_000,
        overseer: overseer(dice),
        proposes: dice.percent(30),
        ..Policy::default()
    };
    let mut mass = MassPolicy { per_second: 2, ..MassPolicy::default() };
    if bug == Some(Bug::MassUnguarded) {
        mass.share = 1_000;
    }
    Rules { policy, mass, bug }
}

/// Short enough that agents which wait for what a fault kept from them climb the ladder; in some seeds
/// nothing may be sent for longer than silence is borne.
fn overseer(dice: &mut Dice) -> Patience {
    let mut either = |short, long| Millis(if dice.percent(50) { short } else { long });
    Patience {
        idle_after: either(800, 1_500),
        max_retries: 2,
        min_resend_interval: either(300, 1_000),
        backoff: Backoff { base: either(100, 1_500), max: either(400, 3_000) },
    }
}

/// Short enough to pass while a fleet is at work.
fn deadlines() -> Deadlines {
    let stop = StopWithin { drain: Millis(100), kill_grace: Millis(100) };
    Deadlines {
        spawning: Millis(60_000),
        awaiting_input: Millis(600),
        stop,
        ..Deadlines::default()
    }
}
