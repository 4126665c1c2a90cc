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
}

impl Fence {
    /// Around what this life started; `cgroup` is where its host makes its control group.
    pub(crate) fn around(life: HostLife, cgroup: Option<PathBuf>) -> Self {
        Self::of(Traces::of_mark(ProcessMark::Life(life), cgroup.map(ControlGroup::at)))
    }

    /// Around what these find.
    pub(crate) fn of(traces: Traces) -> Self {
        Self { traces, known: KnownProcesses::new() }
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
                self.send(process, Signal::STOP);
            }
            if !news {
                break;
            }
        }
        any
    }

    /// Lets all of it run again. Every process is told, whoever froze it: one that was told to stop
    /// while its group was frozen looks like one that was not, and stops when the group is released.
    pub(crate) fn thaw(&mut self) {
        let (alive, _) = self.look();
        for process in alive {
            self.send(process, Signal::CONT);
        }
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::thread;

    use rustix::process::{Pid, kill_process};
    use tetrarch_core::id::{RunId, Ulid};

    use super::*;
    use crate::cgroup::Cgroups;
    use crate::containment::Containment;

    /// Far longer than an answer takes: a bound for a process that stands still.
    const STANDS_STILL: Duration = Duration::from_secs(30);

    #[test]
    #[expect(
        clippy::print_stderr,
        reason = "whoever reads the test's output learns that it tried nothing"
    )]
    fn process_stopped_in_a_frozen_group_runs_after_a_successors_thaw() {
        let Ok(cgroups) = Cgroups::prepare_trial(None, &Containment::default()) else {
            eprintln!("no cgroup v2 can be written here: nothing was tried");
            return;
        };
        let group = cgroups.for_call("fence").unwrap();
        let mut cat = Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        group.join(pid).unwrap();
        assert!(group.freeze());
        kill_process(pid, Signal::STOP).unwrap();

        let run = RunId(Ulid::from_parts(1, 1));
        Fence::of(Traces::of_mark(ProcessMark::Run(run), Some(group.clone()))).thaw();

        let (tell, told) = mpsc::channel();
        let output = child.stdout.take().unwrap();
        thread::spawn(move || tell.send(BufReader::new(output).lines().next()));
        child.stdin.as_mut().unwrap().write_all(b"on\n").unwrap();
        let line = told.recv_timeout(STANDS_STILL);
        child.kill().unwrap();
        child.wait().unwrap();
        group.remove();
        cgroups.remove();
        assert_eq!(line.unwrap().unwrap().unwrap(), "on");
    }
}
