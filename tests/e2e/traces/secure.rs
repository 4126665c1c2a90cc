//! Spans that a collector of others receives behind TLS, by both protocols: it is Node's implementation of HTTP.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tetrarch_tests::Fleet;
use tetrarch_tests::model::node;

/// A collector in a process of its own.
struct SecureCollector {
    process: Child,
    url: String,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl SecureCollector {
    fn start(cert: &Path, key: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/traces/collector.js");
        let mut command = Command::new(node());
        command.arg(script).args([cert, key]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = format!("https://localhost:{}", lines.next().unwrap().unwrap());
        Self { process, url, lines }
    }

    /// The next request of a fleet at a place; that the collector ends fails the test.
    fn request_at(&mut self, place: &str) -> Value {
        loop {
            let line = self.lines.next().unwrap().unwrap();
            let request: Value = serde_json::from_str(&line).unwrap();
            let at = request["path"].as_str().unwrap().ends_with(place);
            if at && request["body"].as_str().unwrap().contains("service.name") {
                return request;
            }
        }
    }
}

impl Drop for SecureCollector {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.process.kill();
        let _gone = self.process.wait();
    }
}

/// A certificate that is its own authority, and its key.
fn made(fleet: &Fleet, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let cert = fleet.file(&format!("{name}.pem"), &made.cert.pem());
    (cert, fleet.file(&format!("{name}-key.pem"), &made.signing_key.serialize_pem()))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn check(fleet: &Fleet) -> Value {
    let checks: Value = serde_json::from_str(&fleet.run(["doctor", "-o", "json"]).out).unwrap();
    checks.as_array().unwrap().iter().find(|check| check["check"] == "collector").unwrap().clone()
}

#[test]
fn collector_with_its_own_certificate_receives_spans_by_both_protocols() {
    for (protocol, kind, traces, metrics) in [
        ("http/protobuf", "application/x-protobuf", "/v1/traces", "/v1/metrics"),
        ("grpc", "application/grpc", "TraceService/Export", "MetricsService/Export"),
    ] {
        let fleet = Fleet::prepared();
        let (cert, key) = made(&fleet, "own");
        let mut collector = SecureCollector::start(&cert, &key);
        let mut fleet = fleet
            .with_env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
            .with_env("OTEL_EXPORTER_OTLP_CERTIFICATE", text(&cert))
            .with_env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
            .with_env("OTEL_EXPORTER_OTLP_HEADERS", "x-token=let-me-in")
            .started();
        let check = check(&fleet);
        assert_eq!(check["verdict"], "ok", "{check}");
        fleet.ok(["project", "create", "seen"]);
        fleet.stop();
        for place in [traces, metrics] {
            let request = collector.request_at(place);
            assert_eq!((&request["type"], &request["token"]), (&kind.into(), &"let-me-in".into()));
        }
    }
}

#[test]
fn collector_with_an_unknown_certificate_is_named_with_the_cause() {
    for protocol in ["http/protobuf", "grpc"] {
        let fleet = Fleet::prepared();
        let (cert, key) = made(&fleet, "own");
        let (other, _) = made(&fleet, "other");
        let collector = SecureCollector::start(&cert, &key);
        let fleet = fleet
            .with_env("TETRARCH_TELEMETRY_OTLP_ENDPOINT", &collector.url)
            .with_env("TETRARCH_TELEMETRY_OTLP_CA", text(&other))
            .with_env("TETRARCH_TELEMETRY_OTLP_PROTOCOL", protocol);
        let check = check(&fleet);
        assert_eq!(check["verdict"], "warn", "{check}");
        let what = check["what"].as_str().unwrap();
        assert!(what.contains(&format!("{} by {protocol}", collector.url)), "{what}");
        assert!(what.contains("invalid peer certificate"), "{what}");
        assert!(check["next"].as_str().unwrap().contains("otlp_ca"), "{check}");

        let mut fleet = fleet.started();
        let said = fleet.stop().err;
        assert!(said.contains("the collector does not accept spans; `tetrarch doctor`"), "{said}");

        let empty = fleet.file("empty.pem", "");
        let ended = fleet.with_env("TETRARCH_TELEMETRY_OTLP_CA", text(&empty)).run(["up"]);
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains("telemetry.otlp_ca") && ended.err.contains("no certificate"));
    }
}
