//! Ways out that each work for a program of this user, and not for a program of a run: one for each layer that is not
//! tried elsewhere (`containment`, `committing`, `plain`).

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use tetrarch_core::brief::{Outcome, Tools};
use tetrarch_core::id::RunId;
use tetrarch_core::order::{Exit, Start};
use tetrarch_runner::Containment;

use crate::stage::{Stage, command, fresh, python};

/// What a program of a run says, without the layers.
async fn outside(start: &Start) -> String {
    let [program, arguments @ ..] = start.brief.runner.argv.as_slice() else { panic!("{start:?}") };
    let mut command = tokio::process::Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What it says within them, if this machine has the layer.
async fn inside(start: &Start, layer: &str) -> Option<String> {
    let seen = Stage::new().run(start.clone()).await;
    let holds = seen.isolation().contains(&format!("; {layer} ("));
    holds.then(|| seen.made().deliverable.trim().to_owned())
}

#[tokio::test]
async fn open_file_of_the_host_is_not_inherited() {
    let file = fs::File::open("/etc/hostname").unwrap();
    // As one that whoever started the host left open.
    let open = fcntl_dupfd_cloexec(&file, 200).unwrap();
    fcntl_setfd(&open, FdFlags::empty()).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&open);
    let script = format!(
        "try:\n    os.fstat({number})\n    print('open')\nexcept OSError as error:\n    print(error.strerror)"
    );
    let start = python(&script);
    assert_eq!(outside(&start).await, "open");
    let seen = Stage::new().run(start).await;
    assert_eq!(seen.made().deliverable, "Bad file descriptor");
}

#[tokio::test]
async fn memory_and_variables_of_the_host_are_unreadable() {
    let script = format!(
        "for name in ('environ', 'mem', 'fd/0'):\n    try:\n        path = '/proc/{}/' + name\n        \
         os.readlink(path) if name == 'fd/0' else open(path, 'rb').close()\n        print('read')\n    \
         except OSError as error:\n        print(error.strerror)",
        std::process::id()
    );
    let start = python(&script);
    assert_eq!(outside(&start).await, "read\nread\nread");
    if let Some(said) = inside(&start, "landlock").await {
        assert_eq!(said, ["Permission denied"; 3].join("\n"));
    }
}

/// Tries to change a process, and then itself; to read limits of the process, and to use the user's keys. `argv` is the
/// process, and numbers of calls that Python has no names for.
const MEDDLES: &str = r"
import ctypes, resource
libc = ctypes.CDLL(None, use_errno=True)
other, ioprio_set, sched_setattr, keyctl, add_key, request_key = map(int, sys.argv[1:])
def raw(*of):
    if libc.syscall(*map(ctypes.c_long, of)) < 0:
        raise OSError(ctypes.get_errno(), 'refused')
def tried(what):
    try:
        what()
        return 'done'
    except OSError as error:
        return str(error.errno)
normal = ctypes.create_string_buffer(b'\x30', 48)
def meddle(who):
    print(*map(tried, [
        lambda: raw(sched_setattr, who, ctypes.addressof(normal), 0),
        lambda: resource.prlimit(who, resource.RLIMIT_CPU, (5000, 5000)),
        lambda: os.sched_setaffinity(who, os.sched_getaffinity(who)),
        lambda: os.sched_setscheduler(who, os.SCHED_IDLE, os.sched_param(0)),
        lambda: os.sched_setparam(who, os.sched_param(0)),
        lambda: raw(ioprio_set, 1, who, 3 << 13),
        lambda: os.setpriority(os.PRIO_PROCESS, who, 19)]))
meddle(other)
print(tried(lambda: os.setpriority(os.PRIO_USER, 65534, 19)), tried(lambda: raw(ioprio_set, 3, 65534, 3 << 13)))
print(tried(lambda: raw(keyctl, 0, -4, 1)), tried(lambda: raw(add_key, 0, 0, 0, 0, -4)),
    tried(lambda: raw(request_key, 0, 0, 0, 0)))
print(tried(lambda: resource.prlimit(other, resource.RLIMIT_CPU)))
meddle(0)
";

#[tokio::test]
async fn limits_priorities_and_keys_of_others_are_out_of_reach() {
    let mut other = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let calls = [
        libc::SYS_ioprio_set,
        libc::SYS_sched_setattr,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
    ];
    let mut start = python(MEDDLES);
    start.brief.runner.argv.push(other.id().to_string());
    start.brief.runner.argv.extend(calls.map(|call| call.to_string()));
    let done = ["done"; 7].join(" ");
    for tools in [&[][..], &["network"], &["network:127.0.0.1:1"]] {
        if tools.len() == 1 && tools[0].contains(':') && !rustix::process::geteuid().is_root() {
            continue;
        }
        start.run = RunId(fresh());
        start.brief.tools = Tools::from_iter(tools.iter().copied());
        let Some(said) = inside(&start, "other processes").await else { break };
        let refused = ["13"; 7].join(" ");
        assert_eq!(said, format!("{refused}\n13 13\n13 13 13\ndone\n{done}"), "{tools:?}");
    }
    let said = outside(&start).await;
    assert!(said.starts_with(&done), "{said}");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[tokio::test]
async fn process_is_begun_in_no_other_cgroup() {
    // CLONE_INTO_CGROUP, SIGCHLD, and the directory of the first cgroup there is.
    let script = format!(
        "import ctypes, errno, glob, subprocess\nlibc = ctypes.CDLL(None, use_errno=True)\n\
         place = (glob.glob('/sys/fs/cgroup/**/cgroup.procs', recursive=True) or ['/x'])[0]\n\
         held = os.open(os.path.dirname(place), os.O_PATH)\n\
         asked = (ctypes.c_uint64 * 11)(0x200000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, held)\n\
         pid = libc.syscall({}, ctypes.byref(asked), 88)\n\
         if pid == 0: os._exit(0)\n\
         print(errno.errorcode[ctypes.get_errno()] if pid < 0 else 'elsewhere')\n\
         print(subprocess.run(['echo', 'on'], capture_output=True, text=True).stdout)",
        libc::SYS_clone3
    );
    if let Some(said) = inside(&python(&script), "other processes").await {
        assert_eq!(said.trim(), "ENOSYS\non");
        assert!(!outside(&python(&script)).await.starts_with("ENOSYS"));
    }
}

#[tokio::test]
async fn file_lease_or_note_of_changes_is_refused() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = place.path().join("file");
    fs::write(&file, "x").unwrap();
    let script = format!(
        "import fcntl\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n\
         for path, operation, value in (('{}', 1024, fcntl.F_RDLCK), ('{}', 1026, 1)):\n    try:\n        \
         fcntl.fcntl(os.open(path, os.O_RDONLY), operation, value)\n        print('held')\n    \
         except OSError as error:\n        print(error.strerror)\n\
         fcntl.fcntl(0, fcntl.F_SETFD, fcntl.fcntl(0, fcntl.F_GETFD))",
        file.display(),
        place.path().display()
    );
    let start = python(&script);
    assert_eq!(outside(&start).await, "held\nheld");
    if let Some(said) = inside(&start, "other processes").await {
        assert_eq!(said, ["Permission denied"; 2].join("\n"));
    }
}

#[tokio::test]
async fn attributes_flags_whole_disks_and_lasting_queues_are_refused() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = place.path().join("file");
    fs::write(&file, "x").unwrap();
    let script = format!(
        "import ctypes, fcntl, struct\nc = ctypes.CDLL(None, use_errno=True)\n\
         file = os.open('{}', os.O_RDONLY)\ndef call(*of):\n    \
         if c.syscall(*map(ctypes.c_long, of)) < 0: raise OSError(ctypes.get_errno(), '')\n\
         def queue():\n    of = c.msgget(0, 0o600)\n    \
         if of < 0: raise OSError(ctypes.get_errno(), '')\n    c.msgctl(of, 0, None)\n\
         def flags():\n    fcntl.ioctl(file, 0x40086602, fcntl.ioctl(file, 0x80086601, bytes(8)))\n\
         for what in (lambda: os.setxattr(file, 'user.x', b'1'), flags, lambda: call({}, file), lambda: call({}), queue):\n    \
         try:\n        what()\n        print('done')\n    except OSError as error:\n        print(error.errno)",
        file.display(),
        libc::SYS_syncfs,
        libc::SYS_sync,
    );
    let start = python(&script);
    assert_eq!(outside(&start).await, ["done"; 5].join("\n"));
    if let Some(said) = inside(&start, "other processes").await {
        assert_eq!(said, [libc::EOPNOTSUPP.to_string().as_str(); 5].join("\n"));
    }
}

/// Changing owners, whatever a mode says, owners' rights, setgid, signals, other users, and giving these up.
const OVER_FILES: u64 = 0b1_1111_1011;

#[tokio::test]
async fn root_keeps_capabilities_over_files_alone() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let script = "for line in open('/proc/self/status'):\n    if line.startswith('Cap'): print(*line.split())";
    let seen = Stage::new().run(python(script)).await;
    assert!(seen.isolation().contains("; no new privileges ("), "{}", seen.isolation());
    for line in seen.made().deliverable.lines() {
        let (name, mask) = line.split_once(": ").unwrap();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        let kept = if ["CapInh", "CapAmb"].contains(&name) { 0 } else { OVER_FILES };
        assert_eq!(mask & !kept, 0, "{name} {mask:x}");
    }
    let tried = "import socket\ndef tried(what):\n    try:\n        what()\n        print('done')\n    \
                 except OSError as error:\n        print(error.strerror)\n\
                 tried(lambda: os.chown('f', 1, 1))\ntried(lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))";
    let mut start =
        python(&tried.replace("tried(lambda: os", "open('f', 'w').close()\ntried(lambda: os"));
    start.brief.tools = Tools::from_iter(["network"]);
    let seen = Stage::new().run(start).await;
    assert_eq!(seen.made().deliverable, "done\nOperation not permitted", "{seen:?}");
}

#[tokio::test]
async fn terminals_of_the_user_are_out_of_reach() {
    let holds = "import os, pty, time\n_, end = pty.openpty()\nprint(os.ttyname(end), flush=True)\ntime.sleep(600)";
    let mut holder = std::process::Command::new("python3");
    let mut holder = holder.args(["-c", holds]).stdout(Stdio::piped()).spawn().unwrap();
    let mut terminal = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut terminal).unwrap();
    let script = format!(
        "def tried(path, how):\n    try:\n        os.close(os.open(path, how | os.O_NOCTTY))\n        return 'opened'\n    \
         except OSError as error:\n        return error.strerror\n\
         for path in ('{}', '/dev/ptmx'):\n    print(tried(path, os.O_RDONLY))\n    print(tried(path, os.O_WRONLY))\n\
         for path in ('null', 'zero', 'full', 'random', 'urandom'):\n    print(tried('/dev/' + path, os.O_RDWR))\n\
         print(tried('/dev/stdout', os.O_WRONLY))",
        terminal.trim()
    );
    let start = python(&script);
    assert_eq!(outside(&start).await, ["opened"; 10].join("\n"));
    if let Some(said) = inside(&start, "landlock").await {
        let wanted = [["Permission denied"; 4].join("\n"), ["opened"; 6].join("\n")];
        assert_eq!(said, wanted.join("\n"));
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[tokio::test]
async fn setuid_program_gains_no_privileges() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(place.path(), mode(0o755)).unwrap();
    let program = place.path().join("id");
    fs::copy("/usr/bin/id", &program).unwrap();
    fs::set_permissions(&program, mode(0o4755)).unwrap();
    let script = format!("os.setuid(65534)\nos.execv('{}', ['id', '-u'])", program.display());
    let start = python(&script);
    assert_eq!(outside(&start).await, "0");
    if let Some(said) = inside(&start, "no new privileges").await {
        assert_eq!(said, "65534");
    }
}

#[tokio::test]
async fn child_spawned_at_once_has_the_limits_too() {
    let script = "ulimit -c unlimited; (ulimit -c; ulimit -Hn; ulimit -f)";
    let start = command(&["sh", "-c", script]);
    let seen = Stage::new().run(start).await;
    let said = &seen.made().deliverable;
    let numbers: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers[0] == 0 && numbers[1] <= 65_536 && numbers[2] <= (64 << 30) / 512, "{said}");
}

#[tokio::test]
async fn run_starts_only_with_its_group_limits() {
    let wanted = Containment {
        required: true,
        memory_max: Some(64 << 20),
        processes_max: Some(20),
        cpus_max: Some(1),
        ..Containment::default()
    };
    let layers = tetrarch_runner::probe(&wanted, None).layers;
    let limits = layers.iter().find(|layer| layer.name == "cgroup limits");
    let hold = limits.is_some_and(|limits| limits.active);
    let mut stage = Stage::with(|config| config.containment = wanted);
    let eats = python("held = bytearray(256 << 20)\nprint(len(held))");
    assert_eq!(outside(&eats).await, (256 << 20).to_string());
    if hold {
        let seen = stage.run(eats).await;
        assert_eq!((seen.made().outcome, &seen.exit), (Outcome::Failure, &Exit::Signal(9)));
        let forks = python("for _ in range(50):\n    if os.fork() == 0: time.sleep(100)");
        let seen = stage.run(forks).await;
        assert!(seen.log().contains("Resource temporarily unavailable"), "{seen:?}");
    } else {
        let error = stage.refused(eats).await;
        assert!(error.contains("isolation is required, but no cgroup"), "{error}");
    }
}

#[tokio::test]
async fn fork_bomb_is_stopped_where_a_group_exists() {
    let wanted = Containment { processes_max: Some(20), ..Containment::default() };
    let layers = tetrarch_runner::probe(&wanted, None).layers;
    if !layers.iter().any(|layer| layer.name == "cgroup limits" && layer.active) {
        return;
    }
    let mut stage = Stage::with(|config| config.containment = wanted);
    let forks = "for _ in range(50):\n    if os.fork() == 0: time.sleep(100)\ntime.sleep(100)";
    let seen = stage.run(python(forks)).await;
    let counted = seen.made().error.contains("more than 20 processes");
    assert!(counted || seen.log().contains("Resource temporarily unavailable"), "{seen:?}");
    assert_eq!(seen.made().outcome, Outcome::Failure);
}
