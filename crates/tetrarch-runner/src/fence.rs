//! Freezes, thaws and kills every process of one life of a host (spec 04, Hosts), or of one run (spec
//! 06, The three verbs). Knows no deadline.
//!
//! By the cgroup where there is one, which holds what joins it later too. What is not in it is stopped one by one, until a look finds nothing new: what one process forks before it is
//! stopped, the next look finds.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cgroup::ControlGroup;
use crate::mark::{HostLife, ProcessMark};
use crate::procfs::ProcessInfo;
use crate::sweep::{KnownProcesses, Traces, send};

/// Looks of one freezing. A family that forks faster than it is stopped goes on to the next.
const LOOKS_MAX: usize = 64;

/// Looks of the freezing of programs that do not fork: one that stops them, one that finds no more.
const LOOKS: u32 = 2;
/// Measurements of a look, of which the shortest counts: the others were held up.
const MEASURED: usize = 5;

/// How long this machine takes to freeze what a host runs. Blocks for a few looks through its
/// processes, some milliseconds each.
#[must_use]
pub fn freeze_time(life: &HostLife) -> Duration {
    let mut fence = Fence::around(life.clone(), None);
    let look = || {
        let began = Instant::now();
        fence.look();
        began.elapsed()
    };
    std::iter::repeat_with(look).take(MEASURED).min().unwrap_or_default() * LOOKS
}

/// Around the processes of one life of a host, or of one run.
#[derive(Debug)]
pub(crate) struct Fence {
    traces: Traces,
    /// What the last look found: marks are lost by dying, descent by the death of a parent.
    known: KnownProcesses,
    /// What was told to stop. It may not have stopped yet.
    told: KnownProcesses,
}

impl Fence {
    /// Around what this life started; `cgroup` is where its host makes its control group.
    pub(crate) fn around(life: HostLife, cgroup: Option<PathBuf>) -> Self {
        Self::of(Traces::of_mark(ProcessMark::Life(life), cgroup.map(ControlGroup::at)))
    }

    /// Around what these find.
    pub(crate) fn of(traces: Traces) -> Self {
        Self { traces, known: KnownProcesses::new(), told: KnownProcesses::new() }
    }

    /// Freezes all of it; false when nothing is there.
    pub(crate) fn freeze(&mut self) -> bool {
        let held = self.traces.cgroup().is_some_and(ControlGroup::freeze);
        let mut told_now = KnownProcesses::new();
        let mut any = false;
        for _ in 0..LOOKS_MAX {
            let (alive, in_cgroup) = self.look();
            any = !alive.is_empty();
            let mut news = false;
            for process in alive {
                let frozen = process.stopped || held && in_cgroup.contains(&process.pid);
                let before = told_now.insert(process.pid, process.started);
                if frozen || before == Some(process.started) {
                    continue;
                }
                news = true;
                self.told.insert(process.pid, process.started);
                self.send(process, Signal::STOP);
            }
            if !news {
                break;
            }
        }
        any
    }

    /// Lets all of it run again.
    pub(crate) fn thaw(&mut self) {
        let (alive, _) = self.look();
        for process in alive {
            if process.stopped || self.told.get(&process.pid) == Some(&process.started) {
                self.send(process, Signal::CONT);
            }
        }
        self.told.clear();
        self.release();
    }

    /// Lets run what joins the host's cgroup from here on.
    pub(crate) fn release(&self) {
        if let Some(cgroup) = self.traces.cgroup() {
            cgroup.thaw();
        }
    }

    /// Kills what is there; true when nothing is left. To be called until it is.
    pub(crate) fn kill(&mut self) -> bool {
        self.known = self.traces.look(&self.known).alive;
        self.known.is_empty()
    }

    /// Whether nothing is there.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.look().0.is_empty()
    }

    /// Removes what is left of the host's cgroup. Only when the host is gone.
    pub(crate) fn clear_up(&self) {
        if let Some(cgroup) = self.traces.cgroup() {
            cgroup.remove();
        }
    }

    /// What is alive, and what of it is in the cgroup.
    fn look(&mut self) -> (Vec<ProcessInfo>, Vec<i32>) {
        let (mut present, in_cgroup) = self.traces.present(&self.known);
        present.retain(|process| !process.zombie);
        self.known = present.iter().map(|process| (process.pid, process.started)).collect();
        (present, in_cgroup)
    }

    fn send(&self, process: ProcessInfo, signal: Signal) {
        if let Err(cause) = send(process, signal) {
            tracing::warn!(of = ?self.traces, pid = process.pid, %cause, "it takes no signal");
        }
    }
}
