//! A test in namespaces of its own: what it does to the network and what it mounts is nobody
//! else's, and gone when its last process is. Such a test is run again by itself inside them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::Program;

/// Tells a test that it is inside.
const INSIDE: &str = "TETRARCH_TEST_INSIDE";
/// Where the parts of a test's network meet.
const BRIDGE: &str = "hub0";

/// Runs `body` with a network and mounts of its own. `test` is the whole name of the calling test.
/// Where this user cannot have them, it says that the test is skipped and why.
///
/// # Panics
/// The test fails inside.
#[expect(clippy::print_stdout, reason = "a skipped test has to be seen")]
pub fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        ip("link set lo up");
        body();
        return;
    }
    let Some(unshare) = ways().into_iter().find(|way| works(way)) else {
        println!("skipped: {test} needs a network and mounts of its own: root, or user namespaces");
        return;
    };
    let program = std::env::current_exe().unwrap();
    let mut inside = Command::new("unshare");
    inside.args(unshare).arg(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let status = inside.status().unwrap();
    assert!(status.success(), "{test}, run in namespaces of its own: {status}");
}

/// How `unshare` may be called: as root, or as root of a user namespace.
fn ways() -> [Vec<&'static str>; 2] {
    let own = ["--net", "--mount"];
    [own.to_vec(), ["--user", "--map-root-user"].into_iter().chain(own).collect()]
}

/// Everything that a test does inside, tried.
fn works(way: &[&str]) -> bool {
    let trial = "ip link set lo up && ip link add hub0 type bridge && mount -t tmpfs none /mnt";
    let mut command = Command::new("unshare");
    command.args(way).args(["sh", "-c", trial]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Mounts a small disk; it goes with the test's mounts.
///
/// # Panics
/// It cannot be mounted.
pub fn small_disk(at: &Path, mib: u32) {
    std::fs::create_dir_all(at).unwrap();
    let size = format!("size={mib}m");
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(at).status();
    assert!(mount.unwrap().success());
}

/// Puts a hub into the test's own network, to which parts are joined; it has the address 10.0.0.1.
///
/// # Panics
/// It cannot be made.
pub fn hub() {
    ip(&format!("link add {BRIDGE} type bridge"));
    ip(&format!("addr add 10.0.0.1/24 dev {BRIDGE}"));
    ip(&format!("link set {BRIDGE} up"));
}

/// A part of the network that can be cut off. It is gone with the process that holds it.
#[derive(Debug)]
pub struct Part {
    number: u8,
    holder: Program,
}

impl Part {
    /// Joins a part, with the address 10.0.0.`number`, to the hub.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    pub fn join(number: u8) -> Self {
        let mut holder = Command::new("unshare");
        holder.args(["--net", "sh", "-c", "ip link set lo up && echo there && exec sleep 3600"]);
        let mut holder = Program::start(&mut holder);
        holder.line(|line| line.trim() == "there");
        let (near, far, pid) = (format!("v{number}"), format!("w{number}"), holder.pid());
        ip(&format!("link add {near} type veth peer name {far} netns {pid}"));
        ip(&format!("link set {near} master {BRIDGE} up"));
        let part = Self { number, holder };
        part.ip(&format!("addr add 10.0.0.{number}/24 dev {far}"));
        part.ip(&format!("link set {far} up"));
        part
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> String {
        format!("10.0.0.{}", self.number)
    }

    /// What has to stand before a command that is to run there.
    #[must_use]
    pub fn within(&self) -> Vec<String> {
        let pid = self.holder.pid().to_string();
        ["nsenter", "--net", "--target", &pid, "--"].iter().map(|&word| word.to_owned()).collect()
    }

    /// A command that runs there.
    #[must_use]
    pub fn command(&self, command: &Command) -> Command {
        let within = self.within();
        let mut there = Command::new(&within[0]);
        there.args(&within[1..]).arg(command.get_program()).args(command.get_args());
        there.env_clear();
        if let Some(dir) = command.get_current_dir() {
            there.current_dir(dir);
        }
        there.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        there
    }

    /// Cuts it off from everybody: what is sent either way is lost without a word.
    pub fn cut(&self) {
        ip(&format!("link set v{} nomaster", self.number));
    }

    /// Lets it back.
    pub fn mend(&self) {
        ip(&format!("link set v{} master {BRIDGE}", self.number));
    }

    /// Cuts it and another part off from each other alone.
    pub fn cut_from(&self, other: &Self) {
        self.ip(&format!("route add blackhole {}/32", other.address()));
        other.ip(&format!("route add blackhole {}/32", self.address()));
    }

    fn ip(&self, words: &str) {
        let mut command = Command::new("ip");
        command.args(words.split(' ')).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let status = self.command(&command).status().unwrap();
        assert!(status.success(), "ip {words}");
    }
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(status.success(), "ip {words}");
}
