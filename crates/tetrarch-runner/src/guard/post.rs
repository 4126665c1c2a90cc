//! The guard's side: waits for its host's words and for the deadline, and fences the host when it
//! passes (spec 04, Hosts). It trusts nothing but its own clock, and outlives its host as long as
//! anything is left to guard.
//!
//! It logs nothing: whoever reads its host's log may be gone or stand still, and then a line
//! would hold it up. What it did it tells its host, through a pipe that is never full.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tetrarch_failpoint::{Failpoint, reach, reach_if};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::clock::BootTime;
use super::word::{GuardOrder, GuardReply};
use crate::fence::Fence;
use crate::headcount::freeze_crowds;
use crate::mark::HostLife;

/// Longest wait for the deadline in one piece: a wait does not end while the machine is
/// suspended, the deadline does.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Time between two looks for what escaped the freezing, and for what is left of a dead host.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Time between two looks for what is being killed.
const KILL_PAUSE: Duration = Duration::from_millis(20);
/// Looks at this short pause once the host is gone: where its end leaves a process group an orphan,
/// the kernel lets what is frozen in it run again, a moment after the guard heard of the end.
const HURRIED_LOOKS: u32 = 25;
/// Looks in a row that must find nothing left of a dead host: a program that it was just
/// starting carries its mark a moment later.
const EMPTY_LOOKS: u32 = 2;
/// Words of the host that wait.
const WORDS_MAX: usize = 16;

/// What a guard is told when it is started.
#[derive(Debug, Clone)]
pub struct GuardDuty {
    /// The life of the host whose processes it guards.
    pub life: HostLife,
    /// How long they may be frozen before they are killed (`host.freeze_max`).
    pub freeze_max: Duration,
    /// The control group below which the host puts its runs, if it can have one.
    pub cgroup: Option<PathBuf>,
    /// Most processes of one run; a run with more is frozen where the kernel keeps no count.
    pub processes_max: Option<u64>,
}

/// Stands guard over one life of a host until the host says `end`, or is gone and has left
/// nothing. Blocks; to be the only thing its process does.
///
/// The process leaves its session and ignores INT, TERM and HUP: they are meant for the host, and
/// whoever ends the host that way must not end its fence. Standard input and output are the
/// host's.
///
/// # Errors
/// Signals cannot be ignored.
pub fn guard_main(duty: GuardDuty) -> io::Result<()> {
    // Refused to a process that leads its group already; nothing but the terminal is lost by it.
    let _session = rustix::process::setsid();
    let _deaf = ignore_signals()?;
    let (tell, words) = sync_channel(WORDS_MAX);
    thread::spawn(move || listen(&tell));
    if let Some((home, most)) = duty.cgroup.clone().zip(duty.processes_max) {
        thread::spawn(move || freeze_crowds(home, most));
    }
    say(GuardReply::Ready);
    GuardPost::new(duty).stand(&words);
    Ok(())
}

/// Without handlers of its own for them, which only a runtime installs safely, a process dies of
/// these signals. They stay installed; the runtime keeps the pipe they write to.
fn ignore_signals() -> io::Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        drop(signal(kind)?);
    }
    drop(entered);
    Ok(runtime)
}

/// Passes on what the host says, until it is gone.
fn listen(tell: &SyncSender<GuardOrder>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        if let Some(order) = GuardOrder::read(&line)
            && tell.send(order).is_err()
        {
            return;
        }
    }
}

fn say(answer: GuardReply) {
    let mut out = io::stdout().lock();
    // A host that is gone does not listen.
    let _unheard = writeln!(out, "{}", answer.as_str()).and_then(|()| out.flush());
}

/// Whether the processes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreezeState {
    /// Not known: a guard before this one may have frozen them.
    Unknown,
    /// They run.
    Free,
    /// They are frozen.
    Frozen { since: BootTime, expired: bool },
}

/// Whether the guard is still needed, and when it looks again.
enum GuardStep {
    Look(Duration),
    Leave,
}

struct GuardPost {
    fence: Fence,
    freeze_max: Duration,
    /// When the host's lease is over; none before the first beat.
    deadline: Option<BootTime>,
    state: FreezeState,
    /// Whether the host ordered to kill all and it is not done.
    killing: bool,
    host_gone: bool,
    empty_looks: u32,
    /// Looks since it is.
    looks_alone: u32,
}

impl GuardPost {
    fn new(duty: GuardDuty) -> Self {
        Self {
            fence: Fence::around(duty.life, duty.cgroup),
            freeze_max: duty.freeze_max,
            deadline: None,
            state: FreezeState::Unknown,
            killing: false,
            host_gone: false,
            empty_looks: 0,
            looks_alone: 0,
        }
    }

    fn stand(mut self, words: &Receiver<GuardOrder>) {
        loop {
            let pause = match self.act(BootTime::now()) {
                GuardStep::Look(pause) => pause,
                GuardStep::Leave => return self.fence.clear_up(),
            };
            if self.host_gone {
                thread::sleep(pause);
                continue;
            }
            match words.recv_timeout(pause) {
                Ok(GuardOrder::Beat(until)) => self.deadline = Some(until),
                Ok(GuardOrder::Kill) => {
                    self.killing = true;
                    self.deadline = None;
                }
                Ok(GuardOrder::End) => return,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.host_gone = true,
            }
        }
    }

    fn act(&mut self, now: BootTime) -> GuardStep {
        if self.killing {
            if !self.fence.kill() {
                return GuardStep::Look(KILL_PAUSE);
            }
            self.killing = false;
            self.state = FreezeState::Unknown;
            self.fence.release();
            say(GuardReply::Killed);
        }
        // A host that never had a lease and is gone has none.
        if self.deadline.map_or(self.host_gone, |deadline| deadline <= now) {
            return self.hold(now);
        }
        if self.deadline.is_some() && self.state != FreezeState::Free {
            self.fence.thaw();
            if matches!(self.state, FreezeState::Frozen { .. }) {
                say(GuardReply::Thawed);
            }
            self.state = FreezeState::Free;
        }
        let wait = self.deadline.map_or(WAIT_MAX, |deadline| now.until(deadline).min(WAIT_MAX));
        if !self.host_gone {
            return GuardStep::Look(wait);
        }
        let empty = self.fence.is_empty();
        self.unless_empty(empty, wait.min(LOOK_PAUSE))
    }

    /// Keeps all frozen, and kills it when that lasts too long.
    fn hold(&mut self, now: BootTime) -> GuardStep {
        let (since, expired, anew) = match self.state {
            FreezeState::Frozen { since, expired } => (since, expired, false),
            FreezeState::Unknown | FreezeState::Free => (now, false, true),
        };
        self.state = FreezeState::Frozen { since, expired };
        let end = since.plus(self.freeze_max);
        if now < end {
            reach_if(Failpoint::DeadlinePassed, || anew);
            let any = self.fence.freeze();
            if anew {
                reach(Failpoint::Frozen);
                say(GuardReply::Frozen);
            }
            self.looks_alone += u32::from(self.host_gone);
            let hurried = self.host_gone && any && self.looks_alone <= HURRIED_LOOKS;
            let pause = if hurried { KILL_PAUSE } else { LOOK_PAUSE };
            return self.unless_empty(!any, now.until(end).min(pause));
        }
        if !self.fence.kill() {
            return GuardStep::Look(KILL_PAUSE);
        }
        if !expired {
            self.state = FreezeState::Frozen { since, expired: true };
            say(GuardReply::Expired);
        }
        self.unless_empty(true, LOOK_PAUSE)
    }

    /// A guard is needed by its host, and after that by what its host left.
    fn unless_empty(&mut self, empty: bool, pause: Duration) -> GuardStep {
        self.empty_looks = if empty { self.empty_looks + 1 } else { 0 };
        if self.host_gone && self.empty_looks >= EMPTY_LOOKS {
            return GuardStep::Leave;
        }
        GuardStep::Look(pause)
    }
}
