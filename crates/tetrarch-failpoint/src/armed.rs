//! What an armed step does. It is armed by a file of its name in the directory that `FAILPOINT_DIR`
//! names, which says `kill` or `stop`. The first process that reaches the step renames the file to
//! `<step>.<pid>`, so that a step takes effect once however many processes reach it, and whoever
//! armed it sees that it did, and in which process.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};

use crate::Failpoint;

/// Where the files are.
const DIRECTORY: &str = "FAILPOINT_DIR";
/// Time between two looks at whether the process stood still, and goes on.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// A look that comes this much later was held up by standing still: tests pause for longer, a busy
/// machine for less.
const STOOD_STILL: Duration = Duration::from_millis(200);

/// Does what is armed for this step.
pub(crate) fn reach_if(step: Failpoint, is_so: impl FnOnce() -> bool) {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let armed = Path::new(&dir).join(step.name());
    let Ok(order) = std::fs::read_to_string(&armed) else { return };
    if !is_so() {
        return;
    }
    let fired = armed.with_extension(getpid().as_raw_nonzero().to_string());
    if std::fs::rename(&armed, &fired).is_err() {
        // Another was here first.
        return;
    }
    let signal = if order.trim() == "stop" { Signal::STOP } else { Signal::KILL };
    let mut looked = Instant::now();
    // A process may always send a signal to itself.
    let _sent = kill_process(getpid(), signal);
    // The stop may reach this thread a moment later than others; it goes on when they do.
    while looked.elapsed() < STOOD_STILL {
        looked = Instant::now();
        std::thread::sleep(LOOK_EVERY);
    }
}
