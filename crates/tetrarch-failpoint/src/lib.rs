//! Where a process may be ended or paused on purpose (docs/decisions/0018): every step of the
//! protocol has a name, and the shells say when they have reached it. Without the feature `armed`,
//! which only the package of the tests switches on, reaching a step is nothing.

#[cfg(all(feature = "armed", not(debug_assertions)))]
compile_error!("failpoints are for test builds: build this without the feature `armed`");

#[cfg(feature = "armed")]
mod armed;
mod step;

pub use step::{Failpoint, ProcessRole};

/// Says that this process has reached a step. When the step is armed the process ends, or stands
/// still until it is continued, right here.
#[inline]
pub fn reach(step: Failpoint) {
    reach_if(step, || true);
}

/// The same for a step that is only reached when this is so. It is not asked in other builds.
#[inline]
pub fn reach_if(step: Failpoint, is_so: impl FnOnce() -> bool) {
    #[cfg(feature = "armed")]
    armed::reach_if(step, is_so);
    #[cfg(not(feature = "armed"))]
    let _unused = (step, is_so);
}
