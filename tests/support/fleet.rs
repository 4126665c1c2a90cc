//! An installation of a test's own, used as a user does: `tetrarch up` in a fresh data
//! directory, commands against it. Whatever it started is gone when the test is over.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tetrarch_bus::Bus;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::{Authority, CredentialHolder};
use tetrarch_bus::server::endpoint;
use tetrarch_core::id::HostName;

use crate::cluster::Cluster;
use crate::processes::{Process, processes_of};
use crate::program::{Ended, Program};

/// The variable by which an installation is told of a bus that is not its own.
const BUS_URL: &str = "TETRARCH_BUS_URL";
/// The human in whose name tests ask.
const HUMAN: &str = "ada";
/// The host that `up` runs.
const HOST: &str = "h1";
/// How the binary with failpoints is built.
const BUILD_FAILPOINTS: &str =
    "cargo build --workspace --features tetrarch-tests/failpoints --bin tetrarch-failpoints";
/// Looks for processes at the end: one may start another while it is being killed.
const ROUNDS: usize = 3;

/// The binary under test: `TETRARCH_BIN`, else the workspace's own, built as this one is.
#[must_use]
pub fn binary() -> PathBuf {
    let built = if cfg!(debug_assertions) { "debug/tetrarch" } else { "release/tetrarch" };
    found("TETRARCH_BIN", built)
}

/// The same with failpoints (docs/decisions/0018).
///
/// # Panics
/// It was not built.
#[must_use]
pub fn binary_with_failpoints() -> PathBuf {
    let path = target().join("debug/tetrarch-failpoints");
    assert!(path.is_file(), "{} is missing: {BUILD_FAILPOINTS}", path.display());
    path
}

/// The Python with the foreign client: `TETRARCH_PYTHON`, else the one `tests/run` makes.
#[must_use]
pub fn python() -> PathBuf {
    found("TETRARCH_PYTHON", "venv/bin/python")
}

fn found(variable: &str, in_target: &str) -> PathBuf {
    let own = || target().join(in_target);
    std::env::var_os(variable).map_or_else(own, PathBuf::from)
}

/// The server's binary: `TETRARCH_NATS_SERVER`, else the one in the target directory.
pub(crate) fn nats_server() -> Option<PathBuf> {
    let fetched = target().join("nats-server");
    let named = std::env::var_os("TETRARCH_NATS_SERVER").map(PathBuf::from);
    named.or_else(|| fetched.is_file().then_some(fetched))
}

pub(crate) fn target() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(own, PathBuf::from)
}

/// An installation.
#[derive(Debug)]
pub struct Fleet {
    dir: TempDir,
    binary: PathBuf,
    environment: Vec<(String, String)>,
    options: Vec<String>,
    up: Option<Program>,
}

impl Fleet {
    /// A fresh data directory in which nothing runs.
    #[must_use]
    pub fn prepared() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for below in ["home", "data", "cwd"] {
            std::fs::create_dir(dir.path().join(below)).unwrap();
        }
        Self { dir, binary: binary(), environment: Vec::new(), options: Vec::new(), up: None }
    }

    /// A fleet that is up.
    #[must_use]
    pub fn up() -> Self {
        Self::prepared().started()
    }

    /// With another binary.
    #[must_use]
    pub fn with_binary(mut self, binary: PathBuf) -> Self {
        self.binary = binary;
        self
    }

    /// Brought up.
    #[must_use]
    pub fn started(mut self) -> Self {
        self.start();
        self
    }

    /// With a variable in the environment of every command.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// With an option for `up`.
    #[must_use]
    pub fn with_option(mut self, option: &str, value: &str) -> Self {
        self.options.extend([option.to_owned(), value.to_owned()]);
        self
    }

    /// Runs `up` and waits until it says that it is ready.
    pub fn start(&mut self) {
        let mut command = self.command(["up", "--name", HOST]);
        let mut up = Program::start(command.args(&self.options));
        up.line(|line| line.starts_with("ready"));
        self.up = Some(up);
    }

    /// Its `up`, which the caller ends.
    pub fn take_up(&mut self) -> Program {
        self.up.take().unwrap()
    }

    /// Stops `up` as Ctrl-C does and waits for its end.
    pub fn stop(&mut self) -> Ended {
        let up = self.up.take().unwrap();
        up.signal(Signal::INT);
        up.ended()
    }

    /// Its data directory.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A directory that belongs to the test: where commands are started.
    #[must_use]
    pub fn cwd(&self) -> PathBuf {
        self.dir.path().join("cwd")
    }

    /// The address of its bus: the one it is told of, else its own.
    #[must_use]
    pub fn url(&self) -> String {
        let told = self.environment.iter().rev().find(|(name, _)| name == BUS_URL);
        told.map_or_else(|| endpoint(&self.data_dir()).unwrap(), |(_, url)| url.clone())
    }

    /// Uses servers of its own from now on, with so many copies of everything.
    #[must_use]
    pub fn on(self, cluster: &Cluster, replicas: usize) -> Self {
        self.with_env(BUS_URL, cluster.urls())
            .with_env("TETRARCH_BUS_REPLICAS", replicas.to_string())
    }

    /// Starts an owner beside whoever is there, and waits until it owns the ledger.
    #[must_use]
    pub fn owner(&self) -> Program {
        let mut owner = self.spawn(["serve", "--global"]);
        owner.line(|line| line.trim() == "ready");
        owner
    }

    /// Starts a host and waits until it has joined.
    #[must_use]
    pub fn host(&self, name: &str) -> Program {
        let mut host = self.spawn(["host", "--name", name, "--capacity", "64"]);
        host.line(|line| line.trim() == "ready");
        host
    }

    /// Writes a file into the test's directory and gives its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.cwd().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A command of the binary, in an environment that holds nothing of the machine's own.
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(args).env_clear().current_dir(self.cwd());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.dir.path().join("home")).env("USER", HUMAN);
        command.env("TETRARCH_BUS_DATA_DIR", self.data_dir());
        // Those that look at the page name an address; many fleets would want the same one.
        command.env("TETRARCH_PEOPLE_PAGE_LISTEN", "off");
        if let Some(server) = nats_server() {
            command.env("TETRARCH_NATS_SERVER", server);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts a command.
    pub fn spawn<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Program {
        Program::start(&mut self.command(args))
    }

    /// Runs a command to its end.
    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ended {
        let mut program = self.spawn(args);
        program.close_input();
        program.ended()
    }

    /// Runs a command that has to succeed, and gives what it printed.
    ///
    /// # Panics
    /// It did not succeed.
    pub fn ok<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let mut command = self.command(args);
        let what = format!("{command:?}");
        let mut program = Program::start(&mut command);
        program.close_input();
        let ended = program.ended();
        assert_eq!(ended.code, Some(0), "{what}\n{}\n{}", ended.out, ended.err);
        ended.out
    }

    /// Runs a command that has to succeed, and gives the JSON it printed.
    ///
    /// # Panics
    /// It did not succeed, or printed no JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let out = self.ok(args.iter().copied().chain(["-o", "json"]));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}\n{out}"))
    }

    /// Starts a second host beside the first, with more room than that, so that new work goes there.
    #[must_use]
    pub fn second_host(&self, name: &str) -> Program {
        let mut second = self.second_host_that_comes_up(name);
        second.line(|line| line.trim() == "ready");
        second
    }

    /// The same without waiting until it is ready.
    #[must_use]
    pub fn second_host_that_comes_up(&self, name: &str) -> Program {
        let credential = self.credentials(&CredentialHolder::Host(HostName::new(name).unwrap()));
        let mut second = self.command(["host", "--name", name, "--capacity", "64"]);
        second.args(["--url", &self.url()]).arg("--credentials").arg(credential);
        Program::start(second.arg("--data-dir").arg(self.cwd().join("far")))
    }

    /// Starts an owner that stands by for the one that `up` runs.
    #[must_use]
    pub fn standby(&self) -> Program {
        let mut standby = self.command(["serve", "--global", "--url", &self.url()]);
        standby.arg("--credentials").arg(self.credentials(&CredentialHolder::Control));
        Program::start(standby.arg("--data-dir").arg(self.cwd().join("standby")))
    }

    /// A connection as a party.
    pub async fn bus(&self, party: &CredentialHolder) -> Bus {
        let options = ConnectOptions {
            urls: self.url().split(',').map(str::to_owned).collect(),
            credentials: Some(self.credentials(party)),
            name: "test".to_owned(),
            ..ConnectOptions::default()
        };
        Bus::connect(&options).await.unwrap()
    }

    /// The credential of a party.
    #[must_use]
    pub fn credentials(&self, party: &CredentialHolder) -> PathBuf {
        Authority::open_or_create(&self.data_dir()).unwrap().mint(party).unwrap()
    }

    /// A connection as the owner.
    pub async fn control(&self) -> Bus {
        self.bus(&CredentialHolder::Control).await
    }

    /// Every living process of this installation.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        processes_of(self.dir.path())
    }

    /// Every living process of its hosted agents.
    #[must_use]
    pub fn agents(&self) -> Vec<Process> {
        self.processes().into_iter().filter(|process| process.agent.is_some()).collect()
    }

    /// What a fleet that did not do what was expected shows: its processes, and its agents as it tells them itself.
    #[expect(clippy::print_stderr, reason = "for whoever asks why a test failed")]
    fn show(&self) {
        for process in self.processes() {
            eprintln!("--- process {} {:?}: {}", process.pid, process.agent, process.command);
        }
        for of in ["agents", "runs"] {
            match self.command(["get", of, "-o", "wide"]).stdin(Stdio::null()).output() {
                Ok(told) => eprintln!("--- {of}\n{}", String::from_utf8_lossy(&told.stdout)),
                Err(error) => eprintln!("--- {of}: {error}"),
            }
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show();
        }
        if let Some(up) = self.up.take() {
            drop(up);
        }
        // What `up` ran ends with it, the bus does not; each is found by this test's own directory.
        for _ in 0..ROUNDS {
            for process in self.processes() {
                if let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) {
                    let _gone_or_not = kill_process(pid, Signal::KILL);
                }
            }
        }
        // For whoever asks why: `tetrarch up` there, and its events can be read.
        if std::thread::panicking() && std::env::var_os("KEEP_FAILED").is_some() {
            self.dir.disable_cleanup(true);
        }
    }
}
