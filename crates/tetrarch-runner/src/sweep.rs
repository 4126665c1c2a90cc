//! Finds and kills every process of a run or of a host's life, those in sessions of their own
//! too, and waits until none is left (spec 06, Runners; spec 09, On the host). Never matches by a
//! process's name.
//!
//! A process belongs to a run when it is in the run's cgroup, carries the run's id in its
//! environment and is not in another run's cgroup, is in the program's process group, or descends from one that does; to
//! a host's life likewise.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal, set_child_subreaper,
};
use tokio::task::JoinError;
use tokio::time::sleep;

use crate::cgroup::ControlGroup;
use crate::children::reap;
use crate::mark::{HostLife, ProcessMark};
use crate::procfs::{self, ProcessInfo};

/// First pause between two looks; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
/// Longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Ancestors of a process that are looked at.
const ANCESTORS_MAX: usize = 64;
/// Processes that are named in a line of the log.
const SHOWN_MAX: usize = 10;

/// By what the processes of a run or of a host's life are known.
#[derive(Debug, Clone)]
pub(crate) struct Traces {
    mark: ProcessMark,
    cgroup: Option<ControlGroup>,
    /// The program, which leads the process group.
    leader: Option<ProcessInfo>,
}

/// What a sweep came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SweptProcesses {
    /// How many processes were killed.
    pub killed: usize,
    /// Processes of other users that may not be killed.
    pub out_of_reach: BTreeSet<i32>,
}

/// Kills every process that another life of this host left on this machine and returns when none
/// is left: those in sessions of their own and those that lost their parents too (spec 04,
/// Hosts). A guard of such a life then has nothing left to guard and ends by itself.
///
/// To be called before the host joins, by the one process that holds the host's instance.
pub async fn clear_earlier_lives(present: &HostLife) -> SweptProcesses {
    Traces::of_mark(ProcessMark::OtherLives(present.clone()), None).until_gone().await
}

impl Traces {
    /// The traces of a program that was just started as leader of its process group.
    pub(crate) fn of_program(mark: ProcessMark, leader: Pid, cgroup: Option<ControlGroup>) -> Self {
        Self { mark, cgroup, leader: procfs::process(leader.as_raw_nonzero().get()) }
    }

    /// The traces of processes that this process may not have started.
    pub(crate) fn of_mark(mark: ProcessMark, cgroup: Option<ControlGroup>) -> Self {
        Self { mark, cgroup, leader: None }
    }

    /// Whether a process is of the program, by what no process can give itself: its cgroup, or its descent.
    pub(crate) fn has(&self, pid: i32) -> bool {
        if self.cgroup.as_ref().is_some_and(|cgroup| cgroup.members().contains(&pid)) {
            return true;
        }
        let Some(leader) = self.leader else { return false };
        let parent = |process: &ProcessInfo| procfs::process(process.parent);
        let mut line = std::iter::successors(procfs::process(pid), parent).take(ANCESTORS_MAX);
        line.any(|it| (it.pid, it.started) == (leader.pid, leader.started))
    }

    /// Kills what can be killed at once, without looking for more.
    pub(crate) fn kill_now(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        self.signal_group(Signal::KILL);
    }

    /// Asks the process group to end. Only while the program has not been waited for: afterwards
    /// its number may name another group.
    pub(crate) fn term(&self) {
        self.signal_group(Signal::TERM);
    }

    fn signal_group(&self, signal: Signal) {
        let Some(group) = self.leader.and_then(|leader| Pid::from_raw(leader.pid)) else {
            return;
        };
        if let Err(cause) = kill_process_group(group, signal) {
            tracing::debug!(of = %self.mark, %cause, "the process group takes no signal");
        }
    }

    /// Kills every process and returns when none is left. To be called when the program itself
    /// has been waited for.
    ///
    /// A process that the kernel cannot end yet (in uninterruptible sleep) is waited for without
    /// bound: a run is not over while it may still write.
    pub(crate) async fn until_gone(self) -> SweptProcesses {
        let of = self.mark.to_string();
        let swept = until_none_is_left(&of, |known| {
            let traces = self.clone();
            tokio::task::spawn_blocking(move || traces.look(&known))
        })
        .await;
        if let Some(cgroup) = self.cgroup {
            let removed = tokio::task::spawn_blocking(move || cgroup.remove()).await;
            if let Err(cause) = removed {
                tracing::error!(of, %cause, "removing the cgroup failed");
            }
        }
        swept
    }

    /// One look: kills what is there and takes the exit status of what is dead and nobody waits
    /// for. A process that is
    /// dying still holds its files, but has lost the marks it could be found by; so what is `known`
    /// from an earlier look counts until it is dead, and so does every orphan that is dying,
    /// whosever it was.
    pub(crate) fn look(&self, known: &KnownProcesses) -> SweepPass {
        let mut look = SweepPass::default();
        let own = own_pid();
        let (members, in_cgroup) = self.present(known);
        // Not before the members are known: a dying one has lost its marks.
        if let (Some(cgroup), false) = (&self.cgroup, in_cgroup.is_empty()) {
            cgroup.kill();
        }
        for process in members {
            if process.zombie {
                if process.parent == own {
                    reap(process.pid);
                }
                continue;
            }
            match send(process, Signal::KILL) {
                Ok(()) => {
                    look.alive.insert(process.pid, process.started);
                    look.killed += usize::from(!process.dying && !known.contains_key(&process.pid));
                }
                Err(cause) => {
                    tracing::warn!(of = %self.mark, pid = process.pid, %cause, "cannot kill");
                    look.out_of_reach.insert(process.pid);
                }
            }
        }
        look
    }

    /// The processes there are, and which of them are in the cgroup.
    pub(crate) fn present(&self, known: &KnownProcesses) -> (Vec<ProcessInfo>, Vec<i32>) {
        let in_cgroup = self.cgroup.as_ref().map(ControlGroup::members).unwrap_or_default();
        let all = procfs::processes();
        let members = self.members(&all, &in_cgroup, known, |pid, mark| {
            // A program can give any mark to what it starts, also another run's.
            let marked = procfs::has_variable(pid, mark.variable(), |value| mark.fits(value));
            marked && !self.cgroup.as_ref().is_some_and(|own| own.has_beside_it(pid))
        });
        (members, in_cgroup)
    }

    /// The cgroup, if there is one.
    pub(crate) fn cgroup(&self) -> Option<&ControlGroup> {
        self.cgroup.as_ref()
    }

    /// The processes looked for among all. `carries` tells whether a process was started with a
    /// mark.
    fn members(
        &self,
        all: &[ProcessInfo],
        in_cgroup: &[i32],
        known: &KnownProcesses,
        carries: impl Fn(i32, &ProcessMark) -> bool,
    ) -> Vec<ProcessInfo> {
        let own = own_pid();
        let by_pid: BTreeMap<i32, ProcessInfo> =
            all.iter().map(|process| (process.pid, *process)).collect();
        let since = self.leader.map_or(0, |leader| leader.started);
        let in_group = |process: &ProcessInfo| {
            self.leader.is_some_and(|leader| leader.pid == process.group)
                && descends(process, own, &by_pid)
        };
        let mut found: BTreeSet<i32> = in_cgroup.iter().copied().collect();
        found.extend(
            all.iter()
                .filter(|process| process.started >= since && process.pid != own)
                .filter(|process| in_group(process) || carries(process.pid, &self.mark))
                .map(|process| process.pid),
        );
        found.extend(
            all.iter()
                .filter(|process| {
                    known.get(&process.pid) == Some(&process.started)
                        || (process.dying && process.parent == own)
                })
                .map(|process| process.pid),
        );
        let mut open: Vec<i32> = found.iter().copied().collect();
        while let Some(parent) = open.pop() {
            for child in all.iter().filter(|one| one.parent == parent && one.pid != own) {
                if found.insert(child.pid) {
                    open.push(child.pid);
                }
            }
        }
        found.remove(&own);
        found.iter().filter_map(|pid| by_pid.get(pid).copied()).collect()
    }
}

/// Looks until a look finds nothing alive. One that fails has seen nothing, which is not the same.
async fn until_none_is_left<F>(
    of: &str,
    mut look: impl FnMut(KnownProcesses) -> F,
) -> SweptProcesses
where
    F: Future<Output = Result<SweepPass, JoinError>>,
{
    let mut known = KnownProcesses::new();
    let mut killed = 0;
    let mut pause = PAUSE_FIRST;
    loop {
        match look(known.clone()).await {
            Ok(look) if look.alive.is_empty() => {
                return SweptProcesses {
                    killed: killed + look.killed,
                    out_of_reach: look.out_of_reach,
                };
            }
            Ok(look) => {
                if pause == PAUSE_MAX {
                    let left: Vec<i32> = look.alive.keys().take(SHOWN_MAX).copied().collect();
                    tracing::warn!(
                        of,
                        count = look.alive.len(),
                        ?left,
                        "killed processes are still there"
                    );
                }
                known.extend(look.alive);
                killed += look.killed;
            }
            Err(cause) => {
                tracing::error!(of, %cause, "a look for what is left failed; looking again");
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Processes that were found before: number and start.
pub(crate) type KnownProcesses = BTreeMap<i32, u64>;

/// What one look came to.
#[derive(Debug, Default)]
pub(crate) struct SweepPass {
    /// What is not dead yet.
    pub(crate) alive: KnownProcesses,
    /// How many of them were killed in this look for the first time.
    killed: usize,
    out_of_reach: BTreeSet<i32>,
}

/// Whether `ancestor` is above a process. The chain is finite: a parent is older than its child,
/// and a table read while it changes is cut at the number of its entries.
fn descends(process: &ProcessInfo, ancestor: i32, by_pid: &BTreeMap<i32, ProcessInfo>) -> bool {
    let mut parent = process.parent;
    for _ in 0..by_pid.len() {
        if parent == ancestor {
            return true;
        }
        match by_pid.get(&parent) {
            Some(next) => parent = next.parent,
            None => return false,
        }
    }
    false
}

/// Sends a signal to exactly this process, never to one that got its number since.
pub(crate) fn send(process: ProcessInfo, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return Ok(());
    };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(()),
        Err(cause) => return Err(cause.into()),
    };
    if procfs::process(process.pid).is_none_or(|now| now.started != process.started) {
        return Ok(());
    }
    match pidfd_send_signal(handle, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(cause) => Err(cause.into()),
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Makes this process the parent of every orphan among its descendants, so that a daemon cannot
/// get away by losing its parent. Says why when the kernel refuses.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Waits for the orphans that came to this process and died: nobody else does. Blocks.
pub(crate) fn reap_orphans() {
    let own = own_pid();
    let dead = procfs::processes().into_iter().filter(|one| one.zombie && one.parent == own);
    dead.for_each(|process| reap(process.pid));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;
    use tetrarch_core::id::RunId;
    use ulid::Ulid;

    fn process(pid: i32, parent: i32, group: i32, started: u64) -> ProcessInfo {
        ProcessInfo { pid, parent, group, zombie: false, stopped: false, dying: false, started }
    }

    fn run() -> ProcessMark {
        ProcessMark::Run(RunId(Ulid::from_parts(1, 1)))
    }

    fn pids(found: &[ProcessInfo]) -> Vec<i32> {
        found.iter().map(|process| process.pid).collect()
    }

    #[test]
    fn descendant_of_the_program_is_of_it_and_a_marked_stranger_is_not() {
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", "sleep 60 & wait"]).process_group(0);
        let mut program = shell.spawn().unwrap();
        let pid = Pid::from_child(&program);
        let traces = Traces::of_program(run(), pid, None);
        let child = loop {
            let all = procfs::processes();
            let mut children = all.iter().filter(|it| it.parent == pid.as_raw_nonzero().get());
            if let Some(child) = children.next() {
                break child.pid;
            }
        };
        let mut stranger = std::process::Command::new("sleep");
        let mut stranger =
            stranger.arg("60").env("TETRARCH_RUN", run().to_string()).spawn().unwrap();
        let of = [
            pid.as_raw_nonzero().get(),
            child,
            Pid::from_child(&stranger).as_raw_nonzero().get(),
            own_pid(),
        ];
        let is = of.map(|pid| traces.has(pid));
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        traces.kill_now();
        program.wait().unwrap();
        assert_eq!(is, [true, true, false, false]);
    }

    #[test]
    fn members_are_found_by_group_mark_cgroup_descent_and_memory() {
        let own = own_pid();
        let leader = process(own + 10, own, own + 10, 50);
        let traces = Traces { mark: run(), cgroup: None, leader: Some(leader) };
        let all = [
            process(own, 1, own, 1),
            process(own + 11, own, own + 10, 51),
            process(own + 12, own, own + 12, 52),
            process(own + 13, own + 12, own + 13, 53),
            process(own + 14, own, own + 14, 54),
            process(own + 15, own, own + 15, 55),
            process(own + 16, own, own + 16, 49),
            process(own + 17, 1, own + 10, 60),
            process(own + 18, 1, own + 18, 61),
            process(own + 19, 1, own + 19, 62),
            ProcessInfo { dying: true, ..process(own + 20, own, own + 20, 63) },
            ProcessInfo { dying: true, ..process(own + 21, 1, own + 21, 63) },
        ];
        let known = KnownProcesses::from([(own + 18, 61), (own + 19, 59)]);
        let marked = [own, own + 12, own + 16];
        let carries = |pid: i32, mark: &ProcessMark| {
            assert_eq!(*mark, run());
            marked.contains(&pid)
        };
        let found = traces.members(&all, &[own + 14], &known, carries);
        assert_eq!(pids(&found), [own + 11, own + 12, own + 13, own + 14, own + 18, own + 20]);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_scan_differs_from_an_empty_scan() {
        let mut looks = 0;
        let swept = until_none_is_left("a run", |known| {
            looks += 1;
            let number = looks;
            tokio::spawn(async move {
                assert_ne!(number, 1, "on purpose");
                let alive = if number == 2 {
                    KnownProcesses::from([(7, 1)])
                } else {
                    KnownProcesses::new()
                };
                assert_eq!(known.len(), usize::from(number > 2));
                SweepPass { killed: alive.len(), alive, out_of_reach: BTreeSet::new() }
            })
        });
        assert_eq!(swept.await, SweptProcesses { killed: 1, out_of_reach: BTreeSet::new() });
        assert_eq!(looks, 3);
    }

    #[test]
    fn earlier_life_is_recognized_by_its_mark_alone() {
        let own = own_pid();
        let traces = Traces::of_mark(run(), None);
        let all = [process(own + 1, 1, own + 1, 5), process(own + 2, 1, own + 2, 5)];
        let found = traces.members(&all, &[], &KnownProcesses::new(), |pid, _| pid == own + 2);
        assert_eq!(pids(&found), [own + 2]);
    }

    #[test]
    fn descent_excludes_this_process_and_its_children() {
        let own = own_pid();
        let traces = Traces::of_mark(run(), None);
        let all = [
            process(own + 1, 1, own + 1, 5),
            process(own, own + 1, own, 6),
            process(own + 2, own, own + 2, 7),
        ];
        let found = traces.members(&all, &[], &KnownProcesses::new(), |pid, _| pid == own + 1);
        assert_eq!(pids(&found), [own + 1]);
    }
}
