//! The power goes (spec 02, The managed server): the disk has what it was given to keep, and nothing else that was
//! written. The data directory is on a file system in a file; the file is copied while nothing of the fleet runs any
//! more, and the fleet goes on from the copy.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tetrarch_bus::Bus;
use tetrarch_bus::subject::pattern::{EVERY_PLAN_EVENT, LEDGER, LEDGER_SUBJECT, PLANS};
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::records::Records;
use tetrarch_tests::dice::Dice;
use tetrarch_tests::namespaces::alone;
use tetrarch_tests::{Fleet, Ledger, agreeing, wait};

use super::{block_on, skipped};
use crate::chaos::{number, paced};

/// The disk of the data directory.
const DISK_MIB: u64 = 512;
/// Steps of a task.
const STEPS: usize = 12;
/// Steps of all tasks after which the power goes.
const CUT_AFTER: Range<usize> = 1..40;
/// Messages that are read at one stroke.
const BATCH: usize = 1_000;

#[test]
fn acknowledged_writes_survive_power_cuts() {
    alone("faults::power::acknowledged_writes_survive_power_cuts", || {
        let first = number("POWER_SEED", 1);
        for seed in first..first + number("POWER_CUTS", 2) {
            block_on(cut(seed));
        }
    });
}

async fn cut(seed: u64) {
    let mut dice = Dice::new(seed);
    // With `process` this test has to fail sooner or later: then it looks at what it should.
    let durability = std::env::var("POWER_DURABILITY").unwrap_or_else(|_| "power".to_owned());
    let mut fleet = Fleet::prepared().with_env("TETRARCH_BUS_DURABILITY", durability);
    let disk = Disk { file: fleet.cwd().join("disk"), at: fleet.data_dir() };
    if !disk.is_made() {
        return skipped("power cuts need root, and a file that can be mounted as a disk");
    }
    fleet.start();
    let witness = fleet.cwd().join("witness");
    std::fs::create_dir(&witness).unwrap();
    let plan = paced(&fleet, &witness, STEPS);
    let epic = fleet.ok(["goal", "create", "--project", "chaos", plan.to_str().unwrap()]);
    let cut_after = dice.range(CUT_AFTER.start, CUT_AFTER.end);
    wait::until("some steps", || (steps_of(&witness).len() >= cut_after).then_some(()));

    let control = fleet.control().await;
    let known = Acknowledged::read(&control).await;
    drop(control);
    // What was answered until then was answered; the server stops first, so nothing is answered after.
    let server = pids(&fleet, |command| command.contains("nats-server"));
    signal(&server, Signal::STOP);
    disk.cut();
    wait::until("the end of everything", || {
        let left = pids(&fleet, |_| true);
        signal(&left, Signal::KILL);
        left.is_empty().then_some(())
    });
    disk.is_back();

    fleet.start();
    let control = fleet.control().await;
    let said = format!("seed {seed}, cut after {cut_after} steps, {epic}");
    Acknowledged::read(&control).await.assert_has(&known, &said);
    let over = |records: &Records| {
        let mut goals = records.goal_states.values();
        goals.next().is_some_and(|goal| goal.status == GoalStatus::Completed).then_some(())
    };
    Ledger::follow(&control).until(&said, over).await;
    assert_saved_once(&witness, &said);
    agreeing(&control).await;
    fleet.ok(["doctor", "--check-ledger"]);
}

/// What somebody was told of for good.
pub(super) struct Acknowledged {
    /// Every entry of the ledger.
    ledger: Vec<Vec<u8>>,
    /// Every plan event, with its subject.
    plans: Vec<(String, Vec<u8>)>,
}

impl Acknowledged {
    pub(super) async fn read(bus: &Bus) -> Self {
        let ledger = bus.next_by_subject_batch(LEDGER, LEDGER_SUBJECT, 1, BATCH).await.unwrap();
        let plans = bus.next_by_subject_batch(PLANS, EVERY_PLAN_EVENT, 1, BATCH).await.unwrap();
        Self {
            ledger: ledger.into_iter().map(|entry| entry.payload.to_vec()).collect(),
            plans: plans.into_iter().map(|one| (one.subject, one.payload.to_vec())).collect(),
        }
    }

    pub(super) fn assert_has(&self, known: &Self, said: &str) {
        let (now, then) = (self.ledger.len(), known.ledger.len());
        assert!(now >= then, "{said}: {now} of {then} entries of the ledger");
        assert!(self.ledger[..then] == known.ledger[..], "{said}: the ledger changed");
        let (now, then) = (self.plans.len(), known.plans.len());
        assert!(now >= then, "{said}: {now} of {then} plan events");
        assert!(self.plans[..then] == known.plans[..], "{said}: plan events changed");
    }
}

/// The steps that each task's agents told of, with their epochs.
fn steps_of(witness: &Path) -> Vec<(String, usize, u64)> {
    let files = std::fs::read_dir(witness).unwrap().flatten();
    let mut steps = Vec::new();
    for file in files {
        let node = file.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        for line in text.lines() {
            // The last may be half there.
            let Some((step, epoch)) = line.split_once(' ') else { continue };
            let (Ok(step), Ok(epoch)) = (step.parse(), epoch.parse()) else { continue };
            steps.push((node.clone(), step, epoch));
        }
    }
    steps
}

/// A task goes on with a step once the one before it is saved: so only the last of a session may be made again.
fn assert_saved_once(witness: &Path, said: &str) {
    let mut last: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for (node, step, epoch) in steps_of(witness) {
        let (before, session) = last.get(&node).copied().unwrap_or((0, 0));
        let again = step == before && epoch > session;
        assert!(step == before + 1 || again, "{said}: {node} made {step} after {before}");
        last.insert(node, (step, epoch));
    }
    assert!(!last.is_empty() && last.values().all(|(step, _)| *step == STEPS), "{said}: {last:?}");
}

fn pids(fleet: &Fleet, wanted: impl Fn(&str) -> bool) -> Vec<Pid> {
    let all = fleet.processes().into_iter().filter(|process| wanted(&process.command));
    all.filter_map(|process| Pid::from_raw(i32::try_from(process.pid).ok()?)).collect()
}

fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _gone_or_not = kill_process(*pid, signal);
    }
}

/// A file system in a file, of which another can be made as it is on the disk.
struct Disk {
    file: PathBuf,
    at: PathBuf,
}

impl Disk {
    /// Makes and mounts it; whether this user can.
    fn is_made(&self) -> bool {
        std::fs::File::create(&self.file).unwrap().set_len(DISK_MIB << 20).unwrap();
        runs(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&self.file)) && self.is_mounted()
    }

    fn is_mounted(&self) -> bool {
        runs(Command::new("mount").args(["-o", "loop"]).arg(&self.file).arg(&self.at))
    }

    fn copy(&self) -> PathBuf {
        self.file.with_extension("copy")
    }

    /// Takes what is on the disk at this moment; what waits in memory is not.
    fn cut(&self) {
        let mut copy = Command::new("cp");
        assert!(runs(copy.arg("--sparse=always").arg(&self.file).arg(self.copy())));
    }

    /// Mounts what was on the disk when the power went.
    fn is_back(&self) {
        // Whoever was killed a moment ago may have a file open still.
        let unmounted = || runs(Command::new("umount").arg(&self.at)).then_some(());
        wait::until("nobody works there", unmounted);
        std::fs::rename(self.copy(), &self.file).unwrap();
        assert!(self.is_mounted());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It goes with the namespace anyhow; a directory below which something is mounted cannot be removed.
        let _mounted_or_not = runs(Command::new("umount").arg("--lazy").arg(&self.at));
    }
}

fn runs(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
}
