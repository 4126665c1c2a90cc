//! Journals as artifacts: the same entries, however often they are kept and however many parts they
//! take; and nothing follows what is kept.

use tetrarch_bus::Bus;
use tetrarch_bus::archive::{Archive, ArchiveError, MEDIA_TYPE, keep};
use tetrarch_bus::artifact::{ArtifactError, Artifacts};
use tetrarch_bus::journal::{JournalError, JournalWriter, Writer, is_whole, read_journal};
use tetrarch_bus::subject::pattern::RUNS;
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{RunId, SessionId, Ulid};
use tetrarch_core::journal::JournalEvent;

use super::worker;

const RUN: RunId = RunId(Ulid(4711));
/// More than any journal here has.
const ROOM: usize = 1 << 20;

fn writer(epoch: u64) -> Writer {
    Writer { run: RUN, agent: worker(1), session: SessionId(Ulid(epoch.into())), epoch }
}

fn said(text: &str) -> JournalEvent {
    JournalEvent::Log { text: text.to_owned() }
}

fn ended() -> JournalEvent {
    JournalEvent::Ended { cause: "exit 0".to_owned() }
}

async fn written(bus: &Bus, events: Vec<JournalEvent>) -> JournalWriter {
    let mut journal = JournalWriter::open(bus.clone(), writer(1)).await.unwrap();
    for event in events {
        journal.append(Positions::default(), event).await.unwrap();
    }
    journal
}

/// Every entry of a kept journal, as text: what cannot be read has its reason.
async fn kept(bus: &Bus, sha256: &str) -> Vec<String> {
    let mut archive = Archive::open(bus, sha256).await.unwrap();
    assert_eq!(archive.run(), RUN);
    let mut entries = Vec::new();
    while let Some(entry) = archive.next().await.unwrap() {
        entries.push(format!("{entry:?}"));
    }
    entries
}

async fn in_the_stream(bus: &Bus) -> Vec<String> {
    let entries = read_journal(bus, &writer(1).journal(), 1).await.unwrap();
    entries.iter().map(|entry| format!("{entry:?}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_journal_is_archived_verbatim() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut journal = written(&bus, vec![said("first\n{\"entry\":1}"), said("ü\u{2028}")]).await;
    assert_eq!(keep(&bus, &writer(1), false, ROOM).await.unwrap(), None, "it goes on");
    journal.append(Positions { mail: 3, ctl: 4 }, ended()).await.unwrap();
    let sha256 = keep(&bus, &writer(1), false, ROOM).await.unwrap().unwrap();
    let expected = in_the_stream(&bus).await;
    assert_eq!((expected.len(), kept(&bus, &sha256).await), (3, expected.clone()));

    let stored = Artifacts::new(&bus).stored().await;
    let again = keep(&bus, &writer(1), true, ROOM).await.unwrap();
    assert_eq!(again.as_ref(), Some(&sha256), "an owner that died before it was noted");
    assert_eq!(Artifacts::new(&bus).stored().await, stored);
    assert!(stored.iter().all(|it| it.is_journal) && stored.len() == 1, "{stored:?}");
    assert_eq!(Artifacts::new(&bus).uploads().await.unwrap(), [stored[0].upload.clone()]);

    assert!(is_whole(&bus, &writer(1).journal()).await.unwrap());
    bus.purge(RUNS, Some(&writer(1).journal().subject().to_string()), None).await.unwrap();
    assert!(!is_whole(&bus, &writer(1).journal()).await.unwrap());
    assert_eq!(kept(&bus, &sha256).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn unended_journal_is_ended_before_archiving() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut zombie = written(&bus, vec![said("first")]).await;
    let sha256 = keep(&bus, &writer(1), true, ROOM).await.unwrap().unwrap();
    let entries = kept(&bus, &sha256).await;
    assert!(entries.len() == 2 && entries[1].contains("Ended"), "{entries:?}");
    let fenced = zombie.append(Positions::default(), said("late")).await;
    assert!(matches!(fenced, Err(JournalError::Fenced { .. })), "{fenced:?}");
    let late = JournalWriter::open(bus.clone(), writer(1)).await;
    assert!(matches!(late, Err(JournalError::Fenced { .. })), "{late:?}");
    assert_eq!(keep(&bus, &writer(1), true, ROOM).await.unwrap(), Some(sha256), "it ends once");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_journal_is_several_artifacts_and_reads_as_one() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let long = "x".repeat(1_000);
    let mut events: Vec<JournalEvent> = (0..70).map(|n| said(&format!("{n} {long}"))).collect();
    events.push(ended());
    written(&bus, events).await;
    let expected = in_the_stream(&bus).await;
    for (room, parts) in [(ROOM, 1), (40_000, 3), (1, expected.len())] {
        let before = Artifacts::new(&bus).stored().await.len();
        let sha256 = keep(&bus, &writer(1), false, room).await.unwrap().unwrap();
        assert_eq!(kept(&bus, &sha256).await, expected, "{room}");
        let made = Artifacts::new(&bus).stored().await.len() - before;
        assert_eq!(made, parts, "parts of at most {room} bytes");
        assert_eq!(keep(&bus, &writer(1), false, room).await.unwrap(), Some(sha256));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_artifact_is_not_read_as_a_journal() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let store = Artifacts::new(&bus);
    let text = store.put_bytes(b"{\"run\":\"run_1\"}\n", "text/plain").await.unwrap();
    let other = Archive::open(&bus, &text.sha256).await.unwrap_err();
    assert!(matches!(other, ArchiveError::NoJournal { .. }), "{other}");
    let body = format!("{{\"run\":\"{RUN}\"}}\nnonsense\n");
    let bad = store.put_bytes(body.as_bytes(), MEDIA_TYPE).await.unwrap();
    let mut archive = Archive::open(&bus, &bad.sha256).await.unwrap();
    assert!(matches!(archive.next().await, Err(ArchiveError::NoJournal { .. })));
    let none = Archive::open(&bus, &"0".repeat(64)).await.unwrap_err();
    assert!(matches!(none, ArchiveError::Artifact(ArtifactError::Missing(_))), "{none}");
}
