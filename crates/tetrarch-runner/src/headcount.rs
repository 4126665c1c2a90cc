//! Counts the processes of a run where its control group has no controller that does (cgroup v2 beside v1, or
//! not handed down): what forks without end is found before the machine has no processes left.
//!
//! The guard freezes such a run: it is alone in its session, so that thousands of busy processes leave it time
//! where the kernel shares processors out by session. The runner kills the run, and says why.

use std::future::pending;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::cgroup::ControlGroup;
use crate::containment::Containment;

/// Time between two counts.
pub(crate) const COUNT_EVERY: Duration = Duration::from_millis(100);

/// What counts the processes of one run.
#[derive(Debug)]
pub(crate) struct Headcount {
    /// The group, the most it may have, and when it is counted; none where the kernel limits them or nothing does.
    counted: Option<(ControlGroup, u64, Interval)>,
}

impl Headcount {
    /// For a run in this group, if it has one.
    pub(crate) fn of(group: Option<&ControlGroup>, containment: &Containment) -> Self {
        let counted = group.and_then(|group| {
            let most = group.counted(containment)?;
            let mut every = interval(COUNT_EVERY);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Some((group.clone(), most, every))
        });
        Self { counted }
    }

    /// Returns how many there may be, once there are more. Nothing is lost when it is not waited for any more.
    pub(crate) async fn exceeded(&mut self) -> u64 {
        let Some((group, most, every)) = &mut self.counted else { return pending().await };
        loop {
            every.tick().await;
            // A read of a few kilobytes from a file system in memory.
            if group.has_more_than(*most) {
                return *most;
            }
        }
    }
}

/// Freezes every run below a host's group that has more processes than this, for as long as the process lives.
/// Blocks.
pub(crate) fn freeze_crowds(home: PathBuf, most: u64) {
    let home = ControlGroup::at(home);
    loop {
        thread::sleep(COUNT_EVERY);
        for run in home.runs().filter(|run| run.is_counted() && run.has_more_than(most)) {
            run.freeze();
        }
    }
}
