//! Journals as artifacts: the same entries, however often they are kept, however many share one and
//! however many parts one takes; and nothing follows what is kept.

use tetrarch_bus::Bus;
use tetrarch_bus::archive::{self, Archive, ArchiveError, KeptJournals, MEDIA_TYPE};
use tetrarch_bus::artifact::{ArtifactError, Artifacts};
use tetrarch_bus::journal::{JournalError, JournalWriter, Writer, is_whole, read_journal};
use tetrarch_bus::subject::pattern::{ARTIFACTS, RUNS};
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{RunId, SessionId, Ulid};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::owner::Unarchived;

use super::worker;

const RUN: RunId = RunId(Ulid(4711));
/// More than any journal here has.
const ROOM: usize = 1 << 20;

fn writer(epoch: u64) -> Writer {
    writer_of(RUN, epoch)
}

fn writer_of(run: RunId, epoch: u64) -> Writer {
    Writer { run, agent: worker(1), session: SessionId(Ulid(epoch.into())), epoch }
}

fn unarchived(run: RunId, overdue: bool) -> Unarchived {
    let Writer { run, agent, session, epoch } = writer_of(run, 1);
    Unarchived { run, agent, session, epoch, overdue }
}

/// Keeps one run's journal; none when it goes on.
async fn keep(bus: &Bus, overdue: bool, room: usize) -> Option<String> {
    let mut kept = archive::keep(bus, vec![unarchived(RUN, overdue)], (room, room)).await;
    kept.pop().map(|it| it.sha256.unwrap())
}

fn said(text: &str) -> JournalEvent {
    JournalEvent::Log { text: text.to_owned() }
}

fn ended() -> JournalEvent {
    JournalEvent::Ended { cause: "exit 0".to_owned() }
}

async fn written(bus: &Bus, events: Vec<JournalEvent>) -> JournalWriter {
    written_by(bus, RUN, events).await
}

async fn written_by(bus: &Bus, run: RunId, events: Vec<JournalEvent>) -> JournalWriter {
    let mut journal = JournalWriter::open(bus.clone(), writer_of(run, 1)).await.unwrap();
    for event in events {
        journal.append(Positions::default(), event).await.unwrap();
    }
    journal
}

/// Every entry of a kept journal, as text: what cannot be read has its reason.
async fn kept(bus: &Bus, sha256: &str, run: Option<RunId>) -> Vec<String> {
    let mut archive = Archive::open(bus, sha256, run).await.unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = archive.next().await.unwrap() {
        entries.push(format!("{entry:?}"));
    }
    entries
}

async fn in_the_stream(bus: &Bus, run: RunId) -> Vec<String> {
    let entries = read_journal(bus, &writer_of(run, 1).journal(), 1).await.unwrap();
    entries.iter().map(|entry| format!("{entry:?}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_journal_is_archived_verbatim() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut journal = written(&bus, vec![said("first\n{\"entry\":1}"), said("ü\u{2028}")]).await;
    assert_eq!(keep(&bus, false, ROOM).await, None, "it goes on");
    journal.append(Positions { mail: 3, ctl: 4 }, ended()).await.unwrap();
    let sha256 = keep(&bus, false, ROOM).await.unwrap();
    let expected = in_the_stream(&bus, RUN).await;
    assert_eq!((expected.len(), kept(&bus, &sha256, Some(RUN)).await), (3, expected.clone()));

    let stored = Artifacts::new(&bus).stored().await;
    let again = keep(&bus, true, ROOM).await;
    assert_eq!(again.as_ref(), Some(&sha256), "an owner that died before it was noted");
    assert_eq!(Artifacts::new(&bus).stored().await, stored);
    assert!(stored.iter().all(|it| it.is_journal) && stored.len() == 1, "{stored:?}");
    assert_eq!(Artifacts::new(&bus).uploads().await.unwrap(), [stored[0].upload.clone()]);

    assert!(is_whole(&bus, &writer(1).journal()).await.unwrap());
    bus.purge(RUNS, Some(&writer(1).journal().subject().to_string()), None).await.unwrap();
    assert!(!is_whole(&bus, &writer(1).journal()).await.unwrap());
    assert_eq!(kept(&bus, &sha256, Some(RUN)).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn unended_journal_is_ended_before_archiving() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut zombie = written(&bus, vec![said("first")]).await;
    let sha256 = keep(&bus, true, ROOM).await.unwrap();
    let entries = kept(&bus, &sha256, Some(RUN)).await;
    assert!(entries.len() == 2 && entries[1].contains("Ended"), "{entries:?}");
    let fenced = zombie.append(Positions::default(), said("late")).await;
    assert!(matches!(fenced, Err(JournalError::Fenced { .. })), "{fenced:?}");
    let late = JournalWriter::open(bus.clone(), writer(1)).await;
    assert!(matches!(late, Err(JournalError::Fenced { .. })), "{late:?}");
    assert_eq!(keep(&bus, true, ROOM).await, Some(sha256), "it ends once");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_journal_is_several_artifacts_and_reads_as_one() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let long = "x".repeat(1_000);
    let mut events: Vec<JournalEvent> = (0..70).map(|n| said(&format!("{n} {long}"))).collect();
    events.push(ended());
    written(&bus, events).await;
    let expected = in_the_stream(&bus, RUN).await;
    for (room, parts) in [(ROOM, 1), (40_000, 3), (1, expected.len())] {
        let before = Artifacts::new(&bus).stored().await.len();
        let sha256 = keep(&bus, false, room).await.unwrap();
        assert_eq!(kept(&bus, &sha256, Some(RUN)).await, expected, "{room}");
        let made = Artifacts::new(&bus).stored().await.len() - before;
        assert_eq!(made, parts, "parts of at most {room} bytes");
        assert_eq!(keep(&bus, false, room).await, Some(sha256));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_journals_share_an_artifact_and_read_apart() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let runs: Vec<RunId> = (1..=7).map(|run| RunId(Ulid(run))).collect();
    let [.., large, unended, silent] = runs[..] else { panic!() };
    for run in &runs {
        let mut journal = written_by(&bus, *run, vec![said(&format!("{run} begins"))]).await;
        if *run == large {
            for _ in 0..5 {
                journal.append(Positions::default(), said(&"x".repeat(1_000))).await.unwrap();
            }
        }
        if ![unended, silent].contains(run) {
            journal.append(Positions { mail: 3, ctl: 4 }, ended()).await.unwrap();
        }
    }
    let due: Vec<Unarchived> = runs.iter().map(|run| unarchived(*run, *run == silent)).collect();
    let all = async |due: &[Unarchived]| {
        let kept = archive::keep(&bus, due.to_vec(), (4_000, ROOM)).await;
        let kept = kept.into_iter().map(|KeptJournals { runs, sha256 }| (sha256.unwrap(), runs));
        kept.collect::<std::collections::BTreeMap<_, _>>()
    };
    let first = all(&due).await;
    let mut shares: Vec<&[RunId]> = first.values().map(Vec::as_slice).collect();
    shares.sort_by_key(|runs| runs.len());
    let small = [&runs[..4], &[silent]].concat();
    assert_eq!(shares, [&[large][..], &small], "one goes on, one is too large");
    assert_eq!(Artifacts::new(&bus).stored().await.len(), 2, "for six runs");
    let stored = bus.stream_subjects(ARTIFACTS, ">").await.unwrap();
    assert_eq!(stored.values().sum::<u64>(), 4, "messages: {stored:?}");
    assert_eq!(all(&due).await, first, "an owner that died before it was noted");

    // With more that ended meanwhile it is another artifact; what is noted of the first stays true.
    written_by(&bus, RUN, vec![ended()]).await;
    let more = all(&[&due[..], &[unarchived(RUN, false)]].concat()).await;
    let (shared, _) = first.iter().find(|(_, runs)| runs.len() > 1).unwrap();
    let (grown, _) = more.iter().find(|(_, runs)| runs.contains(&RUN)).unwrap();
    assert_ne!(shared, grown);
    for run in &small {
        let expected = in_the_stream(&bus, *run).await;
        assert_eq!(expected.len(), 2, "{expected:?}");
        bus.purge(RUNS, Some(&writer_of(*run, 1).journal().subject().to_string()), None)
            .await
            .unwrap();
        assert_eq!(kept(&bus, shared, Some(*run)).await, expected, "{run}");
        assert_eq!(kept(&bus, grown, Some(*run)).await, expected, "{run}");
    }
    assert_eq!(kept(&bus, shared, None).await.len(), 2 * small.len(), "all of it");
    let mut other = Archive::open(&bus, shared, Some(large)).await.unwrap();
    let none = other.next().await.unwrap_err();
    assert!(none.to_string().ends_with(&format!("the journal of {large}")), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_artifact_is_not_read_as_a_journal() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let store = Artifacts::new(&bus);
    let text = store.put_bytes(b"{\"run\":\"run_1\"}\n", "text/plain").await.unwrap();
    let other = Archive::open(&bus, &text.sha256, None).await.unwrap_err();
    assert!(matches!(other, ArchiveError::NoJournal { .. }), "{other}");
    let body = format!("{{\"run\":\"{RUN}\"}}\nnonsense\n");
    let bad = store.put_bytes(body.as_bytes(), MEDIA_TYPE).await.unwrap();
    let mut archive = Archive::open(&bus, &bad.sha256, Some(RUN)).await.unwrap();
    assert!(matches!(archive.next().await, Err(ArchiveError::NoJournal { .. })));
    let none = Archive::open(&bus, &"0".repeat(64), None).await.unwrap_err();
    assert!(matches!(none, ArchiveError::Artifact(ArtifactError::Missing(_))), "{none}");
}
