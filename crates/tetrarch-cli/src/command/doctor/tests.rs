//! Every check can fail, and says then what to do; a ledger and a STATE that disagree are told
//! apart from ones that agree.

use std::path::Path;

use serde_json::json;
use tetrarch_bus::server::FreeSpace;
use tetrarch_bus::snapshot::Base;
use tetrarch_bus::state::{Loaded, OwnerMeta};
use tetrarch_bus::tail::LedgerItem;
use tetrarch_core::agent::{Host, Mode, Project};
use tetrarch_core::id::{AgentId, CommitId, HostName, Principal, ProjectName, Ulid};
use tetrarch_core::ledger::{Entry, Record, RecordKey};
use tetrarch_core::restart::Memory;
use tetrarch_core::time::BusTime;
use tetrarch_engine::MemorySource;

use super::ledger::{LedgerFold, LedgerReport};
use super::*;

fn project(name: &str, mode: Mode) -> Record {
    Record::Project(Project {
        name: ProjectName::new(name).unwrap(),
        mode,
        created_by: Principal::Agent(AgentId::Go),
        created: BusTime(1),
        retired: false,
        fencing: 0,
    })
}

/// An entry of no owner's spell, so that none has to be told of.
fn entry(seq: u64, records: Vec<Record>, dropped: Vec<RecordKey>) -> Entry {
    Entry {
        commit: CommitId(Ulid::from_parts(seq, 7)),
        epoch: 0,
        at: BusTime(seq),
        intake_seq: seq,
        events: Vec::new(),
        records,
        held: Vec::new(),
        dropped,
        seals: Vec::new(),
        mail: Vec::new(),
        plans: Vec::new(),
        reviews: Vec::new(),
    }
}

fn item(seq: u64, entry: Entry) -> LedgerItem {
    LedgerItem { seq, at: BusTime(seq), entry: Ok(entry), payload: Default::default() }
}

/// A ledger of three entries: `a` is made, changed, and `b` is made and dropped.
fn audited(state: Vec<(Record, u64)>, published: u64) -> LedgerReport {
    let meta = OwnerMeta { outbox_through: published, ..OwnerMeta::default() };
    let mut audit =
        LedgerFold::new(Loaded { meta: Some(meta), records: state, ..Loaded::default() });
    let (solo, tight, b) =
        (project("a", Mode::Solo), project("a", Mode::Tight), project("b", Mode::Solo));
    let gone = vec![b.key()];
    audit.stretch(&[
        item(1, entry(1, vec![solo, b], Vec::new())),
        item(2, entry(2, vec![tight], Vec::new())),
        item(3, entry(3, Vec::new(), gone)),
    ]);
    audit.finish()
}

fn said(report: &LedgerReport) -> String {
    let lines: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn state_matching_the_ledger_passes() {
    let report = audited(vec![(project("a", Mode::Tight), 2)], 3);
    assert_eq!(said(&report), "");
    assert_eq!((report.entries, report.records), (3, 1));
}

#[test]
fn state_behind_the_outbox_passes() {
    let behind = vec![(project("a", Mode::Solo), 1), (project("b", Mode::Solo), 1)];
    assert_eq!(said(&audited(behind, 1)), "");
    assert_eq!(said(&audited(Vec::new(), 0)), "");
}

#[test]
fn state_contradicting_the_ledger_is_reported() {
    let a = || (project("a", Mode::Tight), 2);
    for (state, published, expected) in [
        (
            vec![(project("a", Mode::Solo), 2)],
            3,
            "STATE differs from the entry it names (ledger sequence 2, commit",
        ),
        (vec![(project("a", Mode::Tight), 3)], 3, "STATE names entry 3, which does not write it"),
        (vec![a(), (project("c", Mode::Solo), 1)], 3, "STATE names entry 1, which does not"),
        (vec![a(), (project("b", Mode::Solo), 1)], 3, "STATE has it, but entry 3 removed it"),
        (Vec::new(), 2, "STATE has nothing of it, entry 2 is its last and published"),
        (vec![(project("a", Mode::Solo), 1)], 2, "STATE has entry 1 of it, entry 2 is its last"),
    ] {
        let said = said(&audited(state, published));
        assert!(said.contains(expected), "{expected}\n  said: {said}");
        assert!(said.contains("invariant 20: "), "{said}");
    }
}

/// What the first two entries of the ledger come to.
fn base(mode: Mode, at: u64) -> Base {
    let records = vec![(project("a", mode), at), (project("b", Mode::Solo), 1)];
    Base { through: 2, epoch: 0, intake_seq: 2, records, held: Vec::new() }
}

/// The rest of that ledger after a snapshot.
fn audited_after(base: Base, state: Vec<(Record, u64)>) -> LedgerReport {
    let meta = OwnerMeta { outbox_through: 3, ..OwnerMeta::default() };
    let loaded = Loaded { meta: Some(meta), records: state, ..Loaded::default() };
    let mut audit = LedgerFold::new(loaded).beginning(base);
    assert_eq!(audit.next, 3);
    audit.stretch(&[item(3, entry(3, Vec::new(), vec![project("b", Mode::Solo).key()]))]);
    audit.finish()
}

#[test]
fn trimmed_ledger_is_checked_from_its_snapshot() {
    let report = audited_after(base(Mode::Tight, 2), vec![(project("a", Mode::Tight), 2)]);
    assert_eq!(said(&report), "");
    assert_eq!((report.from, report.entries, report.records), (2, 1, 1));
    for (state, expected) in [
        (vec![(project("a", Mode::Solo), 2)], "STATE differs from the entry it names"),
        (vec![(project("a", Mode::Tight), 1)], "STATE names entry 1, which does not write it"),
        (Vec::new(), "STATE has nothing of it, entry 2 is its last and published"),
    ] {
        let said = said(&audited_after(base(Mode::Tight, 2), state));
        assert!(said.contains(expected), "{expected}\n  said: {said}");
    }
}

#[test]
fn snapshot_contradicting_the_ledger_is_reported() {
    let looked_at = |kept: Base| {
        let mut audit = LedgerFold::new(Loaded::default()).expecting(Some(kept));
        let records = vec![project("a", Mode::Solo), project("b", Mode::Solo)];
        for (seq, records) in [(1, records), (2, vec![project("a", Mode::Tight)])] {
            audit.stretch(&[item(seq, entry(seq, records, Vec::new()))]);
        }
        said(&audit.finish())
    };
    assert_eq!(looked_at(base(Mode::Tight, 2)), "");
    for wrong in [base(Mode::Solo, 2), base(Mode::Tight, 1)] {
        let said = looked_at(wrong);
        assert!(said.contains("differs from the ledger (ledger sequence"), "{said}");
    }
}

#[test]
fn rule_violation_is_reported_with_sequence_and_commit() {
    let mut audit = LedgerFold::new(Loaded::default());
    let second = entry(2, Vec::new(), Vec::new());
    let place = format!("(ledger sequence 2, commit {})", second.commit);
    let first = Entry { epoch: 2, ..entry(1, Vec::new(), Vec::new()) };
    audit.stretch(&[item(1, first), item(2, second)]);
    let said = said(&audit.finish());
    assert!(said.contains(&place), "{said}");
}

#[test]
fn final_violation_is_reported_with_its_entry() {
    let host = |name: &str| {
        Record::Host(Host {
            name: HostName::new(name).unwrap(),
            instance: String::new(),
            labels: Vec::new(),
            capacity: 1,
            address: String::new(),
            joined: BusTime(1),
            drained: false,
        })
    };
    let mut audit = LedgerFold::new(Loaded::default());
    let sound = |seq| item(seq, entry(seq, vec![project("a", Mode::Solo)], Vec::new()));
    audit.stretch(&[sound(1), item(2, entry(2, vec![host("h1")], Vec::new())), sound(3)]);
    audit.stretch(&[sound(4), item(5, entry(5, vec![host("h2")], Vec::new()))]);
    audit.stretch(&[sound(6)]);
    let said = said(&audit.finish());
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "each once: {said}");
    for (line, name, seq) in [(lines[0], "HO@h1", 2), (lines[1], "HO@h2", 5)] {
        let place =
            format!("(ledger sequence {seq}, commit {})", CommitId(Ulid::from_parts(seq, 7)));
        assert!(line.contains(name) && line.ends_with(&place), "{line}");
    }
}

#[test]
fn ledger_that_lost_entries_fails() {
    let meta = OwnerMeta {
        outbox_through: 4,
        ledger_created: "monday".to_owned(),
        ledger_high: 5,
        ..OwnerMeta::default()
    };
    let look = |meta: &OwnerMeta, created, last| {
        let told = Memory { created: meta.ledger_created.clone(), high: meta.ledger_high };
        super::bus::ledger_check(meta, &[(MemorySource::State, told)], created, last)
    };
    assert_eq!(look(&meta, "monday", 4).verdict, CheckStatus::Fail);
    assert_eq!(look(&meta, "tuesday", 5).verdict, CheckStatus::Fail);
    assert_eq!(look(&meta, "monday", 5).verdict, CheckStatus::Warn);
    let caught_up = OwnerMeta { outbox_through: 5, ..meta };
    assert_eq!(look(&caught_up, "monday", 5).verdict, CheckStatus::Ok);
    assert_eq!(look(&OwnerMeta::default(), "monday", 0).verdict, CheckStatus::Ok);
    let kept = Memory { created: "monday".to_owned(), high: 6 };
    for keeper in [MemorySource::DataDirectory, MemorySource::PlanEvent, MemorySource::Order] {
        let known = [(keeper, kept.clone())];
        let told = super::bus::ledger_check(&OwnerMeta::default(), &known, "monday", 5);
        assert_eq!(told.verdict, CheckStatus::Fail, "STATE is gone, {keeper} knows");
        assert!(told.next.is_some_and(|next| next.contains("--accept-ledger 5")));
    }
}

#[test]
fn differing_stream_settings_are_named() {
    let wanted = json!({"name": "MAIL", "max_bytes": 4, "max_age": 7, "deny_delete": true});
    let same = json!({
        "name": "MAIL", "max_bytes": 4, "max_age": 7, "deny_delete": true,
        "metadata": {"server": "2.15.1"}, "compression": "none", "consumer_limits": {"n": 0},
    });
    assert_eq!(super::bus::differences(&wanted, &same), [""; 0]);
    let (fast, synced) = (json!({"persist_mode": "async"}), json!({}));
    assert_eq!(super::bus::differences(&fast, &synced), [""; 0]);
    assert_eq!(super::bus::differences(&synced, &fast).len(), 1, "but not the other way round");
    let other = json!({"name": "MAIL", "max_bytes": 5, "deny_delete": true, "sealed": true});
    let expected = [
        "max_age is not set, should be 7",
        "max_bytes is 5, should be 4",
        "sealed is true, should be not set",
    ];
    assert_eq!(super::bus::differences(&wanted, &other), expected);
}

#[test]
fn missing_required_isolation_fails() {
    let look = |required, layer, active| {
        super::machine::layer_check(required, layer, active, "words".to_owned()).verdict
    };
    assert_eq!(look(true, "cgroup v2", false), CheckStatus::Fail);
    assert_eq!(look(false, "cgroup v2", false), CheckStatus::Warn);
    assert_eq!(look(true, "landlock", false), CheckStatus::Fail);
    assert_eq!(look(false, "landlock", false), CheckStatus::Warn);
    assert_eq!(look(true, "cgroup v2", true), CheckStatus::Ok);
}

#[test]
fn isolation_layer_line_shows_state_effect_and_remedy() {
    let check =
        super::machine::layer_check(true, "landlock", false, "the kernel has none".to_owned());
    assert!(check.layer_line().is_none(), "other checks are not in the table");
    let check = DoctorCheck { layer: Some(("missing", "writing elsewhere")), ..check };
    let line = align(&[check.layer_line().unwrap()], false);
    assert!(
        line.starts_with(
            "landlock  missing  writing elsewhere  the kernel has none; runs fail here"
        ),
        "{line}"
    );
    assert_eq!(
        (&check.json()["state"], &check.json()["stops"]),
        (&json!("missing"), &json!("writing elsewhere"))
    );
}

#[test]
fn holder_of_a_data_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let look = || super::machine::data_dir(dir.path());
    assert!(look().what.ends_with("not in use"), "{:?}", look());
    let held = tetrarch_bus::server::DataDirLock::acquire(dir.path()).unwrap();
    let own = format!("in use by process {}", std::process::id());
    assert!(look().what.ends_with(&own), "{:?}", look());
    drop(held);
    assert!(look().what.ends_with("not in use"), "{:?}", look());
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(super::machine::data_dir(&file).verdict, CheckStatus::Fail);
    for (free, verdict) in [(1024, CheckStatus::Fail), (1 << 40, CheckStatus::Ok)] {
        let disk = super::machine::disk(&FreeSpace { path: file.clone(), free });
        assert_eq!(disk.verdict, verdict, "{}", disk.what);
    }
}

#[test]
fn failed_check_shows_its_remedy() {
    let lines = DoctorCheck::warn("bus", "one\ntwo", "do it").lines();
    let expected = "warn  bus  one\n           two\n           next: do it\n";
    assert_eq!(align(&lines, false), expected);
}

#[test]
fn bus_without_encryption_is_a_warning() {
    let ca = Some(Path::new("/d/tls/ca.pem"));
    let cases = [
        ("tls://bus:4222", true, ca, CheckStatus::Ok, "/d/tls/ca.pem"),
        ("tls://bus:4222", true, None, CheckStatus::Ok, "this machine trusts"),
        ("nats://bus:4222", true, ca, CheckStatus::Ok, "/d/tls/ca.pem"),
        ("nats://bus:4222", true, None, CheckStatus::Warn, "turn it off"),
        ("nats://bus:4222", false, None, CheckStatus::Warn, "without TLS"),
        ("nats://10.0.0.1:4222", false, None, CheckStatus::Warn, "without TLS"),
        ("nats://127.0.0.1:4222", false, None, CheckStatus::Ok, "loopback"),
        ("nats://[::1]:4222", false, None, CheckStatus::Ok, "loopback"),
        ("nats://localhost:4222", false, None, CheckStatus::Ok, "loopback"),
    ];
    for (url, speaks, ca, verdict, words) in cases {
        let check = bus::tls_check(&[url.to_owned()], speaks, ca);
        assert_eq!(check.verdict, verdict, "{url}: {}", check.what);
        assert!(check.what.contains(words), "{url}: {}", check.what);
        assert_eq!(check.next.is_some(), verdict == CheckStatus::Warn, "{url}");
    }
    let mixed = ["nats://127.0.0.1:4222".to_owned(), "nats://bus:4222".to_owned()];
    assert_eq!(bus::tls_check(&mixed, false, None).verdict, CheckStatus::Warn);
}
