//! What a fleet counts, as whoever scrapes it reads it (spec 12, `telemetry.prometheus_listen`).

use std::net::SocketAddr;

use tetrarch_tests::{Fleet, wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The body that a path answers with.
pub(crate) async fn page(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The value of a series, by the beginning of its line.
pub(crate) fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(series))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_serves_its_metrics() {
    let at = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut fleet = Fleet::prepared()
        .with_env("TETRARCH_TELEMETRY_PROMETHEUS_LISTEN", at.to_string())
        .with_env("TETRARCH_OVERSEER_TICK_EVERY", "1s")
        .started();
    fleet.ok(["project", "create", "counted"]);
    assert_eq!(page(at, "/health").await, "live\n");
    let text = wait::soon("the orchestrator is counted", async {
        loop {
            let text = page(at, "/metrics").await;
            // GO, the host's, the human's and the project's.
            if value(&text, "tetrarch_agents{liveness=\"active\"").is_some_and(|n| n >= 2.0)
                && value(&text, "tetrarch_events_total{kind=\"project.created\"") == Some(1.0)
                && value(&text, "tetrarch_overseer_tick_duration_seconds_count").is_some()
            {
                return text;
            }
            fleet.ok(["project", "mode", "counted", "tight"]);
        }
    })
    .await;
    assert_eq!(value(&text, "tetrarch_owner_leads"), Some(1.0), "{text}");
    assert_eq!(value(&text, "tetrarch_agents{liveness=\"offline\""), Some(0.0), "{text}");
    assert_eq!(value(&text, "tetrarch_project_tokens{project=\"counted\""), Some(0.0), "{text}");
    let commits = value(&text, "tetrarch_ledger_commit_duration_seconds_count").unwrap();
    assert!(commits >= 3.0, "{text}");
    // The host's orchestrator.
    assert!(value(&text, "tetrarch_host_agents{host=\"h1\"").is_some(), "{text}");

    let refused = fleet.run(["host", "--name", "other"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(
        refused.err.contains("telemetry.prometheus_listen") && refused.err.contains("free port")
    );
    assert_eq!(fleet.stop().code, Some(0));
}
