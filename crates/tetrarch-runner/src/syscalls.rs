//! Filters of system calls for what landlock does not cover (spec 09, On the host): sockets, and what one process of a
//! user may do to the others of that user. Applied to the calling thread and what it starts.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// Added to the number of a system call by programs for the x32 interface.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
/// `IOPRIO_WHO_PROCESS` of ioprio_set(2).
const IOPRIO_WHO_PROCESS: u64 = 1;
/// Calls whose first argument is a process, where 0 is the calling thread.
const SCHEDULING: [i64; 4] = [
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];
/// The user's keys in the kernel, which all its programs share.
const KEYS: [i64; 3] = [libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key];

/// Operations of fcntl(2) by which whoever opens a file waits for another process, or is signalled: leases
/// (`F_SETLEASE`), delegations (`F_SETDELEG`) and notes of changes (`F_NOTIFY`).
const HELD_UP: [u64; 3] = [1024, 1040, 1026];

/// Attributes of files, which landlock does not cover: those of files elsewhere would change too.
const ATTRIBUTES: [i64; 6] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];
/// The same by calls that the library does not name yet: `setxattrat`, `removexattrat`, `file_setattr`.
const NEWER_ATTRIBUTES: [i64; 3] = [463, 466, 469];
/// What has everything of a disk written, also what is not the program's: the fleet's commits wait meanwhile.
const FLUSHES: [i64; 2] = [libc::SYS_sync, libc::SYS_syncfs];
/// Operations of ioctl(2) that change flags of files: `FS_IOC_SETFLAGS`, `FS_IOC_FSSETXATTR`.
const FLAGS: [u64; 2] = [0x4008_6602, 0x401c_5820];

/// What is refused: a call in every case where it has no rule, else where one of its rules fits.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses to change limits, priorities and processors of other processes, to use the user's keys, to have those wait
/// that open a file, to begin a process in another cgroup, to change attributes and flags of files, to have all of a
/// disk written, and to make queues of messages, which outlive who made them. A thread may change its own.
///
/// # Errors
/// The kernel takes no filter.
pub(crate) fn keep_to_itself() -> Result<(), String> {
    let rules = itself_alone().map_err(|cause| cause.to_string())?;
    apply(rules, libc::EACCES)?;
    apply(beyond_files().map_err(|cause| cause.to_string())?, libc::EOPNOTSUPP)?;
    // A filter cannot see what these begin, in which cgroup, or which calls are made by a ring: without them programs
    // use older ones.
    let unseen = [libc::SYS_clone3, libc::SYS_io_uring_setup];
    apply(Rules::from(unseen.map(|call| (call, Vec::new()))), libc::ENOSYS)
}

/// Refuses what makes a socket of another family.
///
/// # Errors
/// The kernel takes no filter.
pub(crate) fn keep_to_families(families: &[libc::c_int]) -> Result<(), String> {
    let others = families.iter().map(|family| not(0, u64::from(family.unsigned_abs())));
    let other = others.collect::<Result<Vec<_>, _>>().and_then(SeccompRule::new);
    let other = other.map_err(|cause| cause.to_string())?;
    apply(Rules::from([(libc::SYS_socket, vec![other])]), libc::EACCES)
}

fn itself_alone() -> Result<Rules, BackendError> {
    let another = |argument| SeccompRule::new(vec![not(argument, 0)?]);
    let of_kind = |kind| Ok(vec![SeccompRule::new(vec![not(0, kind)?])?, another(1)?]);
    let changed = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    let mut rules = Rules::from([
        // Limits of others may be read.
        (libc::SYS_prlimit64, vec![SeccompRule::new(vec![not(0, 0)?, changed])?]),
        (libc::SYS_setpriority, of_kind(u64::from(libc::PRIO_PROCESS))?),
        (libc::SYS_ioprio_set, of_kind(IOPRIO_WHO_PROCESS)?),
    ]);
    for call in SCHEDULING {
        rules.insert(call, vec![another(0)?]);
    }
    rules.extend(KEYS.map(|call| (call, Vec::new())));
    let held_up = HELD_UP.map(|operation| SeccompRule::new(vec![is(1, operation)?]));
    rules.insert(libc::SYS_fcntl, held_up.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

/// What programs do without where a file system or a kernel has none of it.
fn beyond_files() -> Result<Rules, BackendError> {
    let flags = FLAGS.map(|operation| SeccompRule::new(vec![is(1, operation)?]));
    let flags = (libc::SYS_ioctl, flags.into_iter().collect::<Result<_, _>>()?);
    let calls =
        ATTRIBUTES.into_iter().chain(NEWER_ATTRIBUTES).chain(FLUSHES).chain([libc::SYS_msgget]);
    Ok(calls.map(|call| (call, Vec::new())).chain([flags]).collect())
}

/// That an argument of 32 bits is something else.
fn not(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

/// That an argument of 32 bits is this.
fn is(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// Answers what is refused with this error.
fn apply(rules: Rules, error: libc::c_int) -> Result<(), String> {
    #[cfg(target_arch = "x86_64")]
    let rules: Rules =
        rules.into_iter().flat_map(|(call, of)| [(call | X32, of.clone()), (call, of)]).collect();
    let failed = |cause: BackendError| cause.to_string();
    let refused = SeccompAction::Errno(error.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch);
    let filter = filter.and_then(BpfProgram::try_from).map_err(failed)?;
    seccompiler::apply_filter(&filter).map_err(|cause| cause.to_string())
}
