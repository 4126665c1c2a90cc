//! Ended runs' journals that an owner keeps (spec 06, Journal; docs/decisions/0107): those that end together share
//! an artifact and an entry, each is read back as it was, and what they share stays while one names it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use tetrarch_bus::archive::Archive;
use tetrarch_bus::artifact::Artifacts;
use tetrarch_bus::codec::encode_entry;
use tetrarch_bus::journal::{JournalWriter, Writer, read_journal};
use tetrarch_bus::subject::pattern::{ARTIFACTS, RUNS};
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::brief::{
    Brief, ExpectedOutput, Runner, RunnerKind, Served, Tools, Usage, Worktree,
};
use tetrarch_core::budget::Limits;
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{
    AgentId, AssignmentId, EpicId, NodeId, ProfileName, RunId, SessionId, Ulid,
};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::limits::ARCHIVE_GATHERS;
use tetrarch_core::owner::Kept;
use tetrarch_core::records::Records;
use tetrarch_core::run::{Run, RunState, RunStatus};
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_engine::GlobalConfig;
use tetrarch_tests::wait::soon;
use tetrarch_tests::{Ledger, Owner, empty_entry};

const LONG_SECS: u32 = 600;
const RUNS_ENDED: u64 = 40;
const HOUR: u64 = 3_600_000;

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

fn brief() -> Brief {
    Brief {
        goal: "end".to_owned(),
        key_facts: Vec::new(),
        expected_output: ExpectedOutput::Text,
        success_criteria: vec!["it ended".to_owned()],
        definition_of_done: String::new(),
        tools: Tools::default(),
        workspace: String::new(),
        scope_paths: Vec::new(),
        budget: Limits::default(),
        wall: None,
        turn_timeout: None,
        runner: Runner {
            profile: ProfileName::new("default").unwrap(),
            kind: RunnerKind::Process,
            argv: vec!["true".to_owned()],
            env: Vec::new(),
            pass_env: Vec::new(),
            writable: Vec::new(),
            model: String::new(),
            served: Served::default(),
            permissions: Vec::new(),
            mcp_servers: Vec::new(),
            prompt: String::new(),
        },
        worktree: Worktree::None,
        inputs: Vec::new(),
        judges: None,
    }
}

/// A run that ended then, by its number.
fn ended(number: u64, since: u64, archive: Option<&str>) -> [Record; 2] {
    let id = |place: u64| Ulid::from_parts(1_000, place.into());
    let run = Run {
        id: RunId(id(number)),
        agent: AgentId::Worker(id(number)),
        session: SessionId(id(number)),
        epoch: 1,
        epic: EpicId(id(2)),
        node: NodeId::task(1, 1),
        assignment: AssignmentId(id(number)),
        brief: brief(),
        continues: None,
        placement: None,
        created: BusTime(1_000),
    };
    let status = RunStatus {
        id: run.id,
        agent: run.agent.clone(),
        state: RunState::Done,
        cancel_kept: false,
        dropped: false,
        since: BusTime(since),
        reminded: None,
        usage: Usage::default(),
        result: None,
        archive: archive.map(str::to_owned),
    };
    [Record::Run(Box::new(run)), Record::RunStatus(Box::new(status))]
}

/// A ledger that begins with these.
async fn begin(bus: &Bus, records: impl IntoIterator<Item = [Record; 2]>) {
    let records = records.into_iter().flatten().collect();
    let entry = encode_entry(&Entry { records, ..empty_entry(7, 1) }).unwrap();
    bus.publish_expect("ledger.main", HeaderMap::new(), entry.into(), Some(0)).await.unwrap();
}

fn writer(run: &Run) -> Writer {
    Writer { run: run.id, agent: run.agent.clone(), session: run.session, epoch: run.epoch }
}

/// The artifacts that keep all runs' journals, once all are kept.
fn all_kept(records: &Records) -> Option<BTreeSet<String>> {
    let status = records.run_status.values();
    let kept: Option<BTreeSet<String>> = status.map(|it| it.archive.clone()).collect();
    kept.filter(|kept| !kept.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_end_together_share_an_artifact_and_an_entry() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let since = now();
    begin(&bus, (0..RUNS_ENDED).map(|number| ended(number, since, None))).await;
    let mut ledger = Ledger::follow(&bus);
    ledger.until_seq(1).await;
    let runs: Vec<Run> = ledger.records.runs.values().cloned().collect();
    for run in &runs {
        let mut journal = JournalWriter::open(bus.clone(), writer(run)).await.unwrap();
        for event in [
            JournalEvent::Log { text: format!("of {}", run.id) },
            JournalEvent::Ended { cause: "exit 0".to_owned() },
        ] {
            journal.append(Positions { mail: 1, ctl: 2 }, event).await.unwrap();
        }
    }
    let mut owner = Owner::start(&server, Owner::config("keeping", LONG_SECS)).await;
    owner.until_ready().await;
    let kept = ledger.until("every journal is kept", all_kept).await;
    assert_eq!(kept.len(), 1, "one artifact: {kept:?}");
    let notes = |entry: &Entry| {
        let told =
            |record: &&Record| matches!(record, Record::RunStatus(it) if it.archive.is_some());
        entry.records.iter().filter(told).count()
    };
    let entries = ledger.entries.iter().map(|(_, entry)| (notes(entry), entry.at));
    let noted: Vec<(usize, BusTime)> = entries.filter(|(count, _)| *count > 0).collect();
    let [(count, at)] = noted[..] else { panic!("not one entry: {noted:?}") };
    assert_eq!(count, runs.len());
    assert!(at >= BusTime(since) + ARCHIVE_GATHERS, "more might have come until then: {at:?}");
    let stored = bus.stream_subjects(ARTIFACTS, ">").await.unwrap();
    assert_eq!(stored.values().sum::<u64>(), 2, "a chunk and its description: {stored:?}");

    let mut there = Vec::new();
    for run in &runs {
        let entries = read_journal(&bus, &writer(run).journal(), 1).await.unwrap();
        there.push(entries.iter().map(|entry| format!("{entry:?}")).collect::<Vec<_>>());
    }
    bus.purge(RUNS, None, None).await.unwrap();
    for (run, expected) in runs.iter().zip(there) {
        let mut archive = Archive::open(&bus, kept.first().unwrap(), Some(run.id)).await.unwrap();
        let mut found = Vec::new();
        while let Some(entry) = archive.next().await.unwrap() {
            found.push(format!("{entry:?}"));
        }
        assert_eq!((found.len(), found), (2, expected), "{}", run.id);
    }
    owner.stop().await;
}

/// An owner that forgets what ended so long ago and removes what nothing names after a moment.
fn forgetting(instance: &str, ended: u64) -> GlobalConfig {
    let mut config = Owner::config(instance, LONG_SECS);
    config.policy.kept = Kept { ended: Millis(ended), within: Millis(50), ..Kept::default() };
    config.retention.unnamed = Millis(1_500);
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_archive_stays_until_its_last_run_is_forgotten() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let artifacts = Artifacts::new(&bus);
    // Not of the media type of journals, which are kept for 30 days, whoever names them.
    let shared = artifacts.put_bytes(b"two journals", "text/plain").await.unwrap().sha256;
    let ends = [(1, now() - 3 * HOUR), (2, now() - HOUR)];
    begin(&bus, ends.map(|(number, since)| ended(number, since, Some(&shared)))).await;
    let mut ledger = Ledger::follow(&bus);
    let gone = async |sha256: &str| {
        let swept = async { while artifacts.stat(sha256).await.unwrap().is_some() {} };
        soon("the end of what nothing names", swept).await;
    };
    let mut first = Owner::start(&server, forgetting("first", 2 * HOUR)).await;
    first.until_ready().await;
    let left = |count| move |records: &Records| (records.run_status.len() == count).then_some(());
    ledger.until("the first is forgotten", left(1)).await;
    let unnamed = artifacts.put_bytes(b"nowhere", "text/plain").await.unwrap().sha256;
    gone(&unnamed).await;
    assert!(artifacts.stat(&shared).await.unwrap().is_some(), "the second names it");
    first.stop().await;

    let mut second = Owner::start(&server, forgetting("second", HOUR / 2)).await;
    second.until_ready().await;
    gone(&shared).await;
    ledger.until("the second is forgotten", left(0)).await;
    second.stop().await;
}
