//! Reading a stream to its end while what it holds goes away.

use async_nats::HeaderMap;
use futures::future::join_all;
use tetrarch_bus::state::load;
use tetrarch_bus::subject::pattern::STATE;

use super::soon;

/// Messages in the stream; a reader asks for a thousand at once.
const MESSAGES: usize = 20_000;
/// Readings while they go.
const READINGS: usize = 40;

/// The server counts what is still to come when it sends a message, and what it counted may be gone
/// before it is sent: the last message of a long life said that there was more, and its reader waited
/// for ever.
#[tokio::test(flavor = "multi_thread")]
async fn who_reads_all_of_a_stream_ends_although_messages_go_meanwhile() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut headers = HeaderMap::new();
    headers.insert("KV-Operation", "DEL");
    headers.insert("Nats-TTL", "2s");
    let keys: Vec<String> = (0..MESSAGES).map(|key| format!("$KV.STATE.project.p{key}")).collect();
    for some in keys.chunks(500) {
        let stored = some
            .iter()
            .map(|key| bus.publish_expect(key, headers.clone(), bytes::Bytes::new(), None));
        for outcome in join_all(stored).await {
            outcome.unwrap();
        }
    }
    let last = bus.stream_last_seq(STATE).await.unwrap();
    for _ in 0..READINGS {
        let read = soon("the end of STATE", load(&bus)).await;
        assert!(read.records.is_empty(), "only markers");
    }
    soon("the markers go", async {
        while bus.stream_messages(STATE).await.unwrap() > 0 {
            let _read = load(&bus).await;
        }
    })
    .await;
    assert!(bus.stream_last_seq(STATE).await.unwrap() >= last);
    soon("the end of an empty STATE", load(&bus)).await;
}
