//! The variables of others that count for us too.

use super::super::source::ValueSource;
use super::Stage;

#[test]
fn standard_collector_variables_apply_unless_configured() {
    for (variable, key, set, own, wrong) in [
        ("ENDPOINT", "otlp_endpoint", "https://c:1", "http://own:1", Some("grpc://c")),
        ("CERTIFICATE", "otlp_ca", "/ca.pem", "/own.pem", None),
        ("PROTOCOL", "otlp_protocol", "grpc", "http/protobuf", Some("http/json")),
    ] {
        let (key, variable) =
            (format!("telemetry.{key}"), format!("OTEL_EXPORTER_OTLP_{variable}"));
        let stage = Stage::new().variable(&variable, set);
        let settings = stage.read().unwrap();
        let found = settings.named(&key).unwrap();
        assert_eq!((found.from.to_string(), found.shown()), (variable.clone(), set.to_owned()));
        let ours = format!("TETRARCH_{}", key.to_uppercase().replace('.', "_"));
        let settings = stage.variable(&ours, own).read().unwrap();
        assert_eq!(settings.named(&key).unwrap().shown(), own);
        let Some(wrong) = wrong else { continue };
        let settings = Stage::new().variable(&variable, wrong).read().unwrap();
        assert_eq!(settings.named(&key).unwrap().from, ValueSource::Default);
        let advice = settings.advice().join("");
        assert!(advice.contains(&format!("{wrong} is not used; {key} takes ")), "{advice}");
    }
}
