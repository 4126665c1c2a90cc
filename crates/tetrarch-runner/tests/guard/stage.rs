//! Hosts of their own for each test, with programs that count and try to get away, and words to
//! wait for what becomes of them. Holds no expectations.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tetrarch_core::id::{HostName, Ulid};
use tetrarch_runner::HostLife;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{interval, timeout};

use crate::machine::{is_alive, is_frozen, send, with_variable};
use crate::roles::{AS_HOST, DUTY, FREEZE_MAX, LIFE, NO_CGROUP, PLACE};

/// Far longer than anything here takes: a bound for a guard that hangs.
const HANGS: Duration = Duration::from_secs(60);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// Looks for what a test leaves behind.
const LAST_LOOKS: usize = 1000;
/// A deadline that no test reaches, in milliseconds.
pub(crate) const FAR: u64 = 600_000;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A family that counts, each member in a file with its number: the program, a child in a session
/// of its own, a daemon by the book, and one that keeps forking.
const FAMILY: &str = r#"
import os, signal, sys, time
# What the kernel sends to a process group whose last parent dies while it stands still.
signal.signal(signal.SIGHUP, signal.SIG_IGN)
place = os.path.dirname(sys.argv[0])
def count(name, forking=False):
    number = 0
    while True:
        number += 1
        if forking:
            child = os.fork()
            if child == 0:
                time.sleep(0.002)
                os._exit(0)
            os.waitpid(child, 0)
        fresh = f"{place}/{name}.{os.getpid()}"
        with open(fresh, "w") as file:
            file.write(f"{os.getpid()} {number}")
        os.rename(fresh, f"{place}/{name}.count")
        time.sleep(0.005)
if os.fork() == 0:
    os.setsid()
    count("session")
if os.fork() == 0:
    count("forking", True)
between = os.fork()
if between == 0:
    os.setsid()
    if os.fork() == 0:
        count("daemon")
    os._exit(0)
os.waitpid(between, 0)
count("leader")
"#;
const MEMBERS: [&str; 4] = ["leader", "session", "daemon", "forking"];

/// A look until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let look = async {
        let mut ticks = interval(LOOK);
        while !is_so() {
            ticks.tick().await;
        }
    };
    timeout(HANGS, look).await.unwrap_or_else(|_| panic!("{what}: did not happen"));
}

/// A host that only this test has.
pub(crate) struct Host {
    pub(crate) place: TempDir,
    instance: String,
    life: HostLife,
    grouped: bool,
    freeze_max: u64,
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// How many processes of earlier lives it killed.
    pub(crate) cleared: usize,
}

impl Host {
    /// A host that looks for control groups or not, and kills what was frozen for that many
    /// milliseconds.
    pub(crate) async fn start(grouped: bool, freeze_max: u64) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let instance = format!("{}-{number}", std::process::id());
        Self::of(instance, grouped, freeze_max).await
    }

    /// The next life of the same host, in a process of its own.
    pub(crate) async fn next_life(&self) -> Self {
        Self::of(self.instance.clone(), self.grouped, self.freeze_max).await
    }

    async fn of(instance: String, grouped: bool, freeze_max: u64) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("family.py"), FAMILY).unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = HostName::new("same").unwrap();
        let life = HostLife::new(&name, &instance, Ulid::from_parts(number, 1));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(AS_HOST)
            .env(LIFE, life.to_string())
            .env(FREEZE_MAX, freeze_max.to_string())
            .env(PLACE, place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if !grouped {
            command.env(NO_CGROUP, "yes");
        }
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let cleared = 0;
        let mut host =
            Self { place, instance, life, grouped, freeze_max, child, input, lines, cleared };
        let cleared = host.hear("cleared ").await;
        host.cleared = cleared.parse().unwrap();
        host.hear("up").await;
        host
    }

    /// Waits for a line that begins like this and gives the rest of it.
    pub(crate) async fn hear(&mut self, begin: &str) -> String {
        let heard = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if let Some(rest) = line.strip_prefix(begin) {
                    return rest.to_owned();
                }
            }
            panic!("the host ended before it said {begin:?}")
        };
        timeout(HANGS, heard).await.unwrap_or_else(|_| panic!("{begin:?} was not said"))
    }

    /// Says a line to the host.
    pub(crate) async fn say(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Tells until when its lease holds, in milliseconds from now. Its guard knows it then.
    pub(crate) async fn beat(&mut self, ms: u64) {
        self.say(&format!("beat {ms}")).await;
        self.hear("told").await;
    }

    /// Starts the family and waits until each member counts.
    pub(crate) async fn family(&mut self) -> Vec<i32> {
        self.say(&format!("start {}/family.py", self.place.path().display())).await;
        self.counts_on().await;
        self.counts().into_values().map(|(pid, _)| pid).collect()
    }

    /// What each member counted: its process and its count.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, (i32, u64)> {
        let read = |name| {
            let path = self.place.path().join(format!("{name}.count"));
            let text = std::fs::read_to_string(path).ok()?;
            let (pid, count) = text.split_once(' ')?;
            Some((name, (pid.parse().ok()?, count.parse().ok()?)))
        };
        MEMBERS.into_iter().filter_map(read).collect()
    }

    /// Waits until every member has counted on.
    pub(crate) async fn counts_on(&self) {
        let before = self.counts();
        until("counting on", || {
            let now = self.counts();
            now.len() == MEMBERS.len()
                && now.iter().all(|(name, now)| before.get(name) != Some(now))
        })
        .await;
    }

    /// Everything that carries the mark of this life.
    pub(crate) fn marked(&self) -> Vec<i32> {
        let life = self.life.to_string();
        with_variable("TETRARCH_HOST_LIFE", |value| value == life)
    }

    /// Waits until everything is frozen, and tells what.
    pub(crate) async fn frozen(&self) -> Vec<i32> {
        let mut found = Vec::new();
        until("freezing", || {
            found = self.marked();
            found.len() >= MEMBERS.len() && found.iter().all(|pid| is_frozen(*pid))
        })
        .await;
        found
    }

    /// Waits until nothing of it is left. Marks are lost before the last of it is dead.
    pub(crate) async fn gone(&self, family: &[i32]) {
        until("killing", || self.marked().is_empty() && !any_alive(family)).await;
    }

    /// The guards that stand over it.
    pub(crate) fn guards(&self) -> Vec<i32> {
        let life = self.life.to_string();
        with_variable(DUTY, |value| value.contains(&life))
    }

    /// Its only guard.
    pub(crate) fn guard(&self) -> i32 {
        let guards = self.guards();
        assert_eq!(guards.len(), 1, "{guards:?}");
        guards[0]
    }

    /// Waits until no guard stands over it any more.
    pub(crate) async fn unguarded(&self) {
        until("the end of the guard", || self.guards().is_empty()).await;
    }

    /// Sends a signal to the host itself.
    pub(crate) fn signal(&self, signal: Signal) {
        send(i32::try_from(self.child.id().unwrap()).unwrap(), signal);
    }

    /// Kills the host itself.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}

impl Drop for Host {
    /// Leaves nothing, also when a test fails: its guard then ends by itself.
    fn drop(&mut self) {
        // A host that the test killed is gone already.
        let _gone = self.child.start_kill();
        for _ in 0..LAST_LOOKS {
            let left = self.marked();
            if left.is_empty() {
                return;
            }
            for pid in left.into_iter().filter_map(Pid::from_raw) {
                // It may have ended meanwhile.
                let _gone = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Whether any of these is alive.
pub(crate) fn any_alive(pids: &[i32]) -> bool {
    pids.iter().any(|pid| is_alive(*pid))
}
