//! What an armed step does. It is armed by a file of its name in the directory that `FAILPOINT_DIR`
//! names, which says `kill` or `stop`. The first process that reaches the step renames the file to
//! `<step>.<pid>`, so that a step takes effect once however many processes reach it, and whoever
//! armed it sees that it did, and in which process.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::Step;

/// Where the files are.
const DIRECTORY: &str = "FAILPOINT_DIR";
/// Longer than a stopped process needs to stand still in every thread. The rest of it passes after
/// it was continued.
const UNTIL_STOPPED: Duration = Duration::from_millis(50);

/// Does what is armed for this step.
pub(crate) fn reach_if(step: Step, is_so: impl FnOnce() -> bool) {
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
    // A process may always send a signal to itself.
    let _sent = kill_process(getpid(), signal);
    std::thread::sleep(UNTIL_STOPPED);
}
