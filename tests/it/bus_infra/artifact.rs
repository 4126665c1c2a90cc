//! Artifacts: stored once, verified when read, readable by stock clients.

use tetrarch_bus::HeaderMap;
use tetrarch_bus::artifact::{ArtifactError, Artifacts};
use tetrarch_bus::subject::pattern::object_meta;
use tetrarch_core::id::sha256_hex;
use tokio::io::AsyncReadExt;

use super::Fixture;

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|index| u8::try_from(index % 251).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_any_size_round_trip_and_are_stored_once() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let store = Artifacts::new(&bus);
    for size in [0, 1, 128 * 1024, 128 * 1024 + 1, 9_000_000] {
        let bytes = content(size);
        let stored = store.put_bytes(&bytes, "text/plain").await.unwrap();
        assert_eq!(stored.sha256, sha256_hex(&bytes));
        let before = bus.stream_last_seq("OBJ_ARTIFACTS").await.unwrap();
        let again = store.put_bytes(&bytes, "text/other").await.unwrap();
        assert_eq!(bus.stream_last_seq("OBJ_ARTIFACTS").await.unwrap(), before);
        assert_eq!(again, stored);
        assert_eq!(store.stat(&stored.sha256).await.unwrap(), Some(stored.clone()));
        assert!(store.get_bytes(&stored.sha256).await.unwrap() == bytes, "{size} bytes differ");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_an_artifact_whose_description_a_host_forged_leaves_the_others() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let store = Artifacts::new(&bus);
    let kept = store.put_bytes(&content(1_000), "text/plain").await.unwrap();
    let gone = store.put_bytes(&content(2_000), "text/old").await.unwrap();
    let subject = object_meta(&gone.sha256);
    let meta = bus.last_by_subject("OBJ_ARTIFACTS", &subject).await.unwrap().unwrap();
    let mut forged: serde_json::Value = serde_json::from_slice(&meta.payload).unwrap();
    forged["nuid"] = ">".into();
    let forged = forged.to_string().into();
    bus.publish_expect(&subject, HeaderMap::new(), forged, None).await.unwrap();
    store.remove(&gone.sha256, "text/old").await.unwrap();
    assert_eq!(store.stat(&gone.sha256).await.unwrap(), None);
    assert!(store.get_bytes(&kept.sha256).await.unwrap() == content(1_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_round_trip() {
    let (fixture, bus) = Fixture::with_streams().await;
    let store = Artifacts::new(&bus);
    let (from, to) = (fixture.path().join("from"), fixture.path().join("to"));
    std::fs::write(&from, content(700_000)).unwrap();
    let stored = store.put_file(&from, "application/octet-stream").await.unwrap();
    assert_eq!(stored.size, 700_000);
    store.get_to_file(&stored.sha256, &to).await.unwrap();
    assert!(std::fs::read(&to).unwrap() == content(700_000));
    let error = store.get_to_file(&"0".repeat(64), &fixture.path().join("none")).await.unwrap_err();
    assert!(matches!(error, ArtifactError::Missing(_)), "{error}");
    assert!(!fixture.path().join("none").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_became_a_link_or_a_pipe_is_not_stored() {
    let (fixture, bus) = Fixture::with_streams().await;
    let store = Artifacts::new(&bus);
    let top = fixture.path().canonicalize().unwrap();
    let (secret, work) = (top.join("secret"), top.join("work"));
    std::fs::create_dir_all(&secret).unwrap();
    std::fs::create_dir_all(work.join("kept")).unwrap();
    std::fs::write(secret.join("key"), "secret").unwrap();
    std::os::unix::fs::symlink(secret.join("key"), work.join("link")).unwrap();
    std::os::unix::fs::symlink(&secret, work.join("dir")).unwrap();
    std::process::Command::new("mkfifo").arg(work.join("pipe")).status().unwrap();
    for name in ["link", "dir/key", "pipe", "kept"] {
        let error = store.put_file(&work.join(name), "text/plain").await.unwrap_err();
        assert!(matches!(error, ArtifactError::File { .. }), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_stored_redacted_and_binary_files_verbatim() {
    let secret = "known-to-this-test-0123456789";
    tetrarch_core::redaction::know(secret.as_bytes()).unwrap();
    let (fixture, bus) = Fixture::with_streams().await;
    let store = Artifacts::new(&bus).with_bytes_max(300_000);
    let from = fixture.path().join("from");
    for at in [0, 128 * 1024 - 9, 128 * 1024, 200_000] {
        let (before, after) = ("x".repeat(at), "y".repeat(3_000));
        let text = format!("{before}{secret}{after}");
        std::fs::write(&from, &text).unwrap();
        let stored = store.put_file(&from, "text/plain").await.unwrap();
        let clean = format!("{before}[redacted:secret]{after}");
        assert_eq!(
            (stored.sha256, stored.size),
            (sha256_hex(clean.as_bytes()), clean.len() as u64)
        );
        assert_eq!(std::fs::read_to_string(&from).unwrap(), text, "the program's file is its own");
    }
    let binary = [secret.as_bytes(), &[0]].concat();
    std::fs::write(&from, &binary).unwrap();
    let stored = store.put_file(&from, "application/octet-stream").await.unwrap();
    assert!(store.get_bytes(&stored.sha256).await.unwrap() == binary);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_of_the_same_bytes_leave_one_artifact() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let store = Artifacts::new(&bus);
    let bytes = content(300_000);
    let puts = (0..8).map(|_| store.put_bytes(&bytes, "text/plain"));
    for stored in futures::future::join_all(puts).await {
        stored.unwrap();
    }
    assert!(store.get_bytes(&sha256_hex(&bytes)).await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_object_store_client_reads_artifacts() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let bytes = content(300_000);
    let stored = Artifacts::new(&bus).put_bytes(&bytes, "text/plain").await.unwrap();
    let stock = bus.jetstream().get_object_store("ARTIFACTS").await.unwrap();
    let mut read = Vec::new();
    stock.get(&stored.sha256).await.unwrap().read_to_end(&mut read).await.unwrap();
    assert!(read == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_names_large_and_damaged_artifacts_are_refused() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let store = Artifacts::new(&bus).with_bytes_max(1000);
    let error = store.put_bytes(&content(1001), "text/plain").await.unwrap_err();
    assert!(matches!(error, ArtifactError::TooLarge { size: 1001, max: 1000 }), "{error}");
    for name in ["", "*", ">", &"A".repeat(64), &"a".repeat(63)] {
        let error = store.stat(name).await.unwrap_err();
        assert!(matches!(error, ArtifactError::Name(_)), "{name}: {error}");
    }
    let stored = store.put_bytes(b"right", "text/plain").await.unwrap();
    let last = bus.stream_last_seq("OBJ_ARTIFACTS").await.unwrap();
    let meta = bus.get_seq("OBJ_ARTIFACTS", last).await.unwrap().unwrap();
    let forged = String::from_utf8_lossy(&meta.payload).replace(&stored.sha256, &"0".repeat(64));
    let subject = meta.subject.rsplit_once('.').unwrap().0.to_owned();
    let name =
        "MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMA==";
    bus.publish_expect(&format!("{subject}.{name}"), HeaderMap::new(), forged.into(), None)
        .await
        .unwrap();
    let error = store.get_bytes(&"0".repeat(64)).await.unwrap_err();
    assert!(matches!(error, ArtifactError::Damaged { .. }), "{error}");
}
