//! Starts programs with the rights of a thread that has given up its own (spec 06, Isolation;
//! spec 09, On the host). Landlock, the filter of system calls and "no new privileges" belong to a
//! thread and go to what it starts, so a thread of its own is confined, starts the program and
//! ends: nothing runs between fork and exec, and this process keeps its rights.
//!
//! What is done in such a thread must start no thread of this process, which would be confined too.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use tetrarch_core::destination::Network;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use crate::children::{self, WaitedChild};
use crate::containment::{SandboxPolicy, real};
use crate::isolation::{LANDLOCK, Layer, NETWORK_LAYER, PROCESSES_LAYER};
use crate::proxy::{self, Proxy};
use crate::syscalls;

/// Most open files of a process, and the largest file it writes, in bytes: far above what programs
/// need, and below what takes a machine down. No core is dumped: it would hold what the program
/// read.
const LIMITS: [(Resource, u64, &str); 3] = [
    (Resource::Nofile, 65_536, "65536 open files"),
    (Resource::Fsize, 64 << 30, "files of 64 GiB"),
    (Resource::Core, 0, "no core dumps"),
];
/// What root may still do: to files, to its own processes and to become another user, as installing and building take
/// it. All else concerns the machine, its network, its clock and other processes, which landlock does not cover.
const KEPT: [CapabilitySet; 8] = [
    CapabilitySet::CHOWN,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::FOWNER,
    CapabilitySet::FSETID,
    CapabilitySet::KILL,
    CapabilitySet::SETGID,
    CapabilitySet::SETUID,
    CapabilitySet::SETPCAP,
];
/// Where devices are. None is opened but [`DEVICES`]: among the others are the terminals of the user.
const ALL_DEVICES: &str = "/dev";
/// What every program may open besides files: no disk, no memory of the machine, no terminal.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"];
/// Sockets of the machine's own kind, and of its network.
const LOCAL: [libc::c_int; 2] = [libc::AF_UNIX, libc::AF_NETLINK];
const INTERNET: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_NETLINK, libc::AF_INET, libc::AF_INET6];

/// A program that was started, and how it is confined.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) pid: Pid,
    pub(crate) awaited: WaitedChild,
    pub(crate) layers: Vec<Layer>,
    /// The way out of one that reaches some hosts alone.
    pub(crate) proxy: Option<Proxy>,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStarted {
    /// A layer that is required is missing.
    #[error("isolation is required, but {0}")]
    NotContained(String),
    /// Nothing else keeps programs to some hosts and ports.
    #[error("{0}")]
    NoAllowance(String),
    /// The system does not start it.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

/// Starts a program within its bounds; where a layer is required and missing it is not started, or
/// killed at once. To be called in a runtime.
pub(crate) fn start(command: &mut Command, sandbox: &SandboxPolicy) -> Result<Started, NotStarted> {
    let runtime = Handle::current();
    if let Network::Only(destinations) = &sandbox.network {
        proxy::announce(command, destinations);
    }
    let ((started, starter), mut layers, listener) = within(sandbox, || {
        let _entered = runtime.enter();
        (children::start(command), rustix::thread::gettid())
    })?;
    until_gone(starter);
    let proxy = listener
        .map(|it| Proxy::serve(it, sandbox.network.clone(), sandbox.gateway))
        .transpose()?;
    let (mut child, pid, awaited) = started?;
    let limits = limits(pid);
    if sandbox.required && !limits.active {
        child.start_kill()?;
        return Err(NotStarted::NotContained(limits.to_string()));
    }
    layers.push(limits);
    expendable(pid);
    Ok(Started { child, pid, awaited, layers, proxy })
}

/// Waits until the kernel has done with a thread that has ended, which takes it microseconds: until then its children
/// are that thread's, and a signal for the death of a parent would come of its end.
fn until_gone(thread: Pid) {
    let place = PathBuf::from(format!("/proc/self/task/{}", thread.as_raw_nonzero()));
    while place.exists() {
        thread::yield_now();
    }
}

/// Does something in a thread that is kept within bounds; not at all where a layer is required and
/// missing. Gives what came of it, the layers, and where it finds its way out.
pub(crate) fn within<T: Send>(
    sandbox: &SandboxPolicy,
    work: impl FnOnce() -> T + Send,
) -> Result<(T, Vec<Layer>, Option<TcpListener>), NotStarted> {
    thread::scope(|scope| {
        let confine = || {
            let (network, listener) = network(sandbox);
            if let (Network::Only(_), false) = (&sandbox.network, network.active) {
                return Err(NotStarted::NoAllowance(network.words));
            }
            let layers = vec![privileges(), files(sandbox), processes(), network];
            match layers.iter().find(|layer| !layer.active) {
                Some(missing) if sandbox.required => {
                    Err(NotStarted::NotContained(missing.to_string()))
                }
                Some(_) | None => Ok((work(), layers, listener)),
            }
        };
        thread::Builder::new()
            .name("confined".to_owned())
            .spawn_scoped(scope, confine)?
            .join()
            .map_err(|_| io::Error::other("the thread that starts programs failed"))?
    })
}

fn privileges() -> Layer {
    let held = rustix::thread::set_no_new_privs(true).and_then(|()| disempower());
    let refused = held == Err(rustix::io::Errno::PERM);
    let words = "setuid programs give no rights, root has some over files alone".to_owned();
    let held = held.map(|()| words).map_err(|cause| cause.to_string());
    Layer::new("no new privileges", held).refused_if(refused)
}

/// Takes what would lead around the other layers. Programs of root have what the bounds and the inheritable set leave
/// them; others have only what they inherit as ambient, which ends with the inheritable set.
fn disempower() -> rustix::io::Result<()> {
    let kept = KEPT.into_iter().collect::<CapabilitySet>();
    if rustix::process::geteuid().is_root() {
        // Also those that are known to the kernel alone.
        for power in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
            match capability_is_in_bounding_set(power) {
                Ok(true) if !kept.contains(power) => remove_capability_from_bounding_set(power)?,
                Ok(_) => {}
                // The kernel has no more.
                Err(rustix::io::Errno::INVAL) => break,
                Err(cause) => return Err(cause),
            }
        }
    }
    let held = capabilities(None)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { inheritable: none, ..held })
}

/// Gives programs none of the files, sockets and pipes that this process has open, also not those that whoever started it
/// left open; and has them begin with the limits, before there is time to make a child.
pub(crate) fn close_to_programs() {
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
    let limits = limits(rustix::process::getpid());
    if !limits.active {
        tracing::warn!(%limits, "programs have them only after their start");
    }
}

/// Landlock: reads what the host's user may read, writes below the named places only, and sends
/// signals to nobody outside.
fn files(sandbox: &SandboxPolicy) -> Layer {
    let held = confine_files(sandbox).map_err(|cause| cause.to_string()).and_then(|status| {
        let abi = match status.landlock {
            LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
            LandlockStatus::NotEnabled => {
                return Err("the kernel has it switched off; add landlock to lsm=".to_owned());
            }
            LandlockStatus::NotImplemented => {
                return Err("the kernel has none; it needs Linux 6.2 with landlock".to_owned());
            }
        };
        // Before it, any file could still be cut to nothing.
        if abi < ABI::V3 as i32 || status.ruleset == RulesetStatus::NotEnforced {
            return Err(format!(
                "the kernel's version {abi} does not cover truncation; it needs Linux 6.2"
            ));
        }
        let places: Vec<String> =
            sandbox.writable.iter().map(|place| place.display().to_string()).collect();
        Ok(format!("version {abi}, writes only below {}", places.join(", ")))
    });
    Layer::new(LANDLOCK, held)
}

fn confine_files(sandbox: &SandboxPolicy) -> Result<RestrictionStatus, Box<dyn std::error::Error>> {
    let all = AccessFs::from_all(ABI::V5);
    let reading = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
    // A device that a privileged program makes in its workspace would lead to the machine's disks.
    let writing = all & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    let mut rules = Ruleset::default().handle_access(all)?.scope(Scope::from_all(ABI::V6))?;
    if sandbox.network == Network::Off {
        rules = rules.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    let mut rules = rules.create()?;
    let add = |rules: RulesetCreated, place: &Path, access| {
        give(rules, place, ResolveFlags::empty(), access)
    };
    let mut hidden: Vec<PathBuf> = sandbox.hidden.iter().map(|place| real(place)).collect();
    hidden.push(PathBuf::from(ALL_DEVICES));
    // Names are no secret, and rights reach down: what may be listed is listed everywhere.
    rules = add(rules, Path::new("/"), AccessFs::ReadDir.into())?;
    for place in &around(Path::new("/"), &hidden) {
        rules = add(rules, place, reading)?;
    }
    for place in &sandbox.readable {
        rules = give(rules, place, ResolveFlags::NO_SYMLINKS, reading)?;
    }
    for device in DEVICES {
        rules = add(rules, Path::new(device), writing | AccessFs::IoctlDev)?;
    }
    for place in &sandbox.writable {
        rules = give(rules, place, ResolveFlags::NO_SYMLINKS, writing)?;
    }
    Ok(rules.restrict_self()?)
}

/// Adds rights to what a path leads to.
fn give(
    rules: RulesetCreated,
    place: &Path,
    how: ResolveFlags,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let opened = openat2(CWD, place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how);
    // What is not there cannot be opened; whoever makes it has other rules.
    let Ok(opened) = opened.map(fs::File::from) else { return Ok(rules) };
    let is_dir = opened.metadata().is_ok_and(|facts| facts.is_dir());
    let access = if is_dir { access } else { access & AccessFs::from_file(ABI::V5) };
    rules.add_rule(PathBeneath::new(opened, access))
}

/// The places that hold everything but what is hidden: rights can be given, never taken away.
fn around(place: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if hidden.iter().any(|hidden| place.starts_with(hidden)) {
        return Vec::new();
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(place)) {
        return vec![place.to_owned()];
    }
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    // A link leads to what has a rule of its own, or to what is hidden.
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    real.flat_map(|entry| around(&entry.path(), hidden)).collect()
}

/// No sockets but those of the machine's own kind: neither TCP nor UDP nor raw packets, also not
/// to the machine itself. A Unix socket that lies in the file system can still be connected to. Whoever reaches
/// some hosts alone has sockets, in a network where there is nobody but the way out.
fn network(sandbox: &SandboxPolicy) -> (Layer, Option<TcpListener>) {
    let (held, listener) = match &sandbox.network {
        Network::Open => (Ok("allowed".to_owned()), None),
        Network::Off => {
            let held = syscalls::keep_to_families(&LOCAL);
            (
                held.map(|()| {
                    "off, local sockets aside, also those of the user's other programs".to_owned()
                }),
                None,
            )
        }
        Network::Only(destinations) => match proxy::enter() {
            Ok(listener) => {
                let mut all: Vec<String> = destinations.iter().map(ToString::to_string).collect();
                all.extend(sandbox.gateway.map(|_| "its model gateway".to_owned()));
                let held = syscalls::keep_to_families(&INTERNET);
                (held.map(|()| format!("{} alone, by a proxy", all.join(", "))), Some(listener))
            }
            Err(cause) => (Err(no_namespace(&cause)), None),
        },
    };
    (Layer::new(NETWORK_LAYER, held), listener)
}

/// What landlock does not cover of other processes of the user.
fn processes() -> Layer {
    let words =
        "limits, priorities and processors of others, and the user's keys, are out of reach";
    Layer::new(PROCESSES_LAYER, syscalls::keep_to_itself().map(|()| words.to_owned()))
}

fn no_namespace(cause: &io::Error) -> String {
    format!(
        "single destinations cannot be allowed on this host: a network namespace was refused ({cause}); run the host with the capability CAP_SYS_ADMIN, or allow all with the tool `network`"
    )
}

/// Limits belong to a process, so they are set when it is there: before it is told anything, and
/// before a program of any size has made a child.
pub(crate) fn limits(pid: Pid) -> Layer {
    let set = LIMITS.iter().try_for_each(|(resource, most, _)| {
        let own = getrlimit(*resource);
        let maximum = Some(own.maximum.map_or(*most, |own| own.min(*most)));
        let current = own.current.map_or(maximum, |own| maximum.map(|most| most.min(own)));
        match prlimit(Some(pid), *resource, Rlimit { current, maximum }) {
            // It has ended already.
            Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(cause) => Err(cause.to_string()),
        }
    });
    Layer::new("limits", set.map(|()| LIMITS.map(|(_, _, words)| words).join(", ")))
}

/// What a program counts for when the machine has no memory left, beside its size: half of all memory, so that it
/// goes before what supervises it.
const OOM_SCORE: &str = "500";

fn expendable(pid: Pid) {
    let place = format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero());
    if let Err(cause) = fs::write(&place, OOM_SCORE) {
        tracing::debug!(place, %cause, "a program is not among the first to go when memory is short");
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn sandbox(writable: &[&Path]) -> SandboxPolicy {
        let writable = writable.iter().map(|place| PathBuf::from(*place)).collect();
        SandboxPolicy { writable, ..SandboxPolicy::default() }
    }

    #[expect(clippy::print_stdout, reason = "what a machine cannot show is said, not passed over")]
    fn holds(layers: &[Layer], name: &str) -> bool {
        let layer = layers.iter().find(|layer| layer.name == name).unwrap();
        if !layer.active {
            println!("skipped: no {name} here: {}", layer.words);
        }
        layer.active
    }

    #[test]
    fn confined_program_writes_only_where_permitted() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("in"), place.path().join("out"));
        for dir in [&inside, &outside] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(outside.join("kept"), "kept").unwrap();
        let tried = || {
            let read = fs::read_to_string(outside.join("kept"));
            let refused = [
                fs::write(outside.join("new"), "x"),
                fs::write(outside.join("kept"), "x"),
                fs::File::options().write(true).open(outside.join("kept")).map(drop),
                fs::create_dir(outside.join("dir")),
                fs::remove_file(outside.join("kept")),
                fs::rename(outside.join("kept"), inside.join("taken")),
                std::os::unix::fs::symlink("x", outside.join("link")),
            ];
            let allowed = [
                fs::write(inside.join("new"), "x"),
                fs::create_dir(inside.join("dir")),
                fs::rename(inside.join("new"), inside.join("dir/moved")),
                fs::write("/dev/null", "x"),
            ];
            (read, refused, allowed)
        };
        let ((read, refused, allowed), layers, _) = within(&sandbox(&[&inside]), tried).unwrap();
        if holds(&layers, "landlock") {
            assert_eq!(read.unwrap(), "kept");
            for (at, refused) in refused.into_iter().enumerate() {
                assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{at}");
            }
            for allowed in allowed {
                allowed.unwrap();
            }
        }
        fs::write(outside.join("new"), "this process has kept its rights").unwrap();
    }

    #[test]
    fn hidden_path_is_unreadable_except_its_writable_parts() {
        let place = tempfile::tempdir().unwrap();
        let (kept, work) = (place.path().join("data/credentials"), place.path().join("data/work"));
        let beside = place.path().join("beside");
        fs::create_dir_all(&work).unwrap();
        for file in [&kept, &work.join("file"), &beside] {
            fs::write(file, "content").unwrap();
        }
        std::os::unix::fs::symlink("data", place.path().join("link")).unwrap();
        let tried = || {
            let listed = fs::read_dir(place.path().join("data")).map(Iterator::count);
            (listed, [&kept, &work.join("file"), &beside].map(fs::read_to_string))
        };
        let hidden = vec![place.path().join("data"), place.path().join("not there")];
        let sandbox = SandboxPolicy { hidden, ..sandbox(&[&work]) };
        let ((listed, [kept, work, beside]), layers, _) = within(&sandbox, tried).unwrap();
        if holds(&layers, "landlock") {
            assert_eq!(kept.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(
                (listed.unwrap(), work.unwrap(), beside.unwrap()),
                (2, "content".to_owned(), "content".to_owned())
            );
        }
    }

    #[test]
    fn directory_that_became_a_link_gives_no_rights() {
        let place = tempfile::tempdir().unwrap();
        let (keys, work) = (place.path().join("keys"), place.path().join("work"));
        fs::create_dir(&keys).unwrap();
        fs::write(keys.join("key"), "secret").unwrap();
        // As it is after the directory was looked at and found to be none that is hidden.
        std::os::unix::fs::symlink(&keys, &work).unwrap();
        let sandbox = SandboxPolicy { hidden: vec![keys], ..sandbox(&[&work]) };
        let tried = || (fs::read_to_string(work.join("key")), fs::write(work.join("key"), "x"));
        let ((read, written), layers, _) = within(&sandbox, tried).unwrap();
        if holds(&layers, "landlock") {
            for refused in [read.map(drop), written] {
                assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            }
        }
    }

    #[test]
    fn confined_program_has_no_network_unless_allowed() {
        let place = tempfile::tempdir().unwrap();
        let _listening = UnixListener::bind(place.path().join("socket")).unwrap();
        let tried = || {
            let udp = UdpSocket::bind("127.0.0.1:0").map(drop);
            let tcp = TcpListener::bind("127.0.0.1:0").map(drop);
            (udp, tcp, UnixStream::connect(place.path().join("socket")).map(drop))
        };
        let off = sandbox(&[place.path()]);
        let ((udp, tcp, local), layers, _) = within(&off, tried).unwrap();
        if holds(&layers, "network") {
            assert_eq!(udp.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(tcp.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            local.unwrap();
        }
        let on = SandboxPolicy { network: Network::Open, ..off };
        let ((udp, tcp, _), ..) = within(&on, tried).unwrap();
        udp.unwrap();
        tcp.unwrap();
    }

    #[test]
    fn confined_program_gains_no_privileges() {
        let (set, layers, _) = within(&sandbox(&[]), rustix::thread::no_new_privs).unwrap();
        assert!(holds(&layers, "no new privileges") && set.unwrap());
        assert!(!rustix::thread::no_new_privs().unwrap(), "this process has kept its rights");
    }

    #[tokio::test]
    async fn program_has_resource_limits() {
        let mut command = Command::new("sh");
        command.args(["-c", "read go; ulimit -c; ulimit -Hn; ulimit -f"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut started = start(&mut command, &sandbox(&[])).unwrap();
        assert!(holds(&started.layers, "limits"));
        drop(started.child.stdin.take());
        let said = started.child.wait_with_output().await.unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        let said: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
        assert!(said[0] == 0 && said[1] <= 65_536 && said[2] <= (64 << 30) / 512, "{said:?}");
    }
}
