//! A fleet whose bus others reach: a host and a person of another machine join with the authority's file, and
//! are told what to do without it.

use std::net::TcpListener;
use std::path::Path;

use tetrarch_bus::creds::CredentialHolder;
use tetrarch_core::id::{HostName, HumanName};
use tetrarch_tests::{Fleet, Program};

fn listening() -> Fleet {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    Fleet::prepared()
        .with_option("--listen", &format!("0.0.0.0:{port}"))
        .with_option("--tls-name", "localhost")
}

#[test]
fn hosts_join_over_tls_with_the_ca_file_and_are_told_when_it_is_missing() {
    let mut fleet = listening();
    fleet.start();
    let (url, ca) = (fleet.url(), fleet.data_dir().join("tls/ca.pem"));
    assert!(url.starts_with("tls://localhost:"), "{url}");
    let told = fleet.run(["host", "credential", "far"]);
    assert!(told.err.contains("tls/ca.pem") && told.err.contains(&url), "{}", told.err);
    assert!(told.out.trim().ends_with("host-far.creds"), "{}", told.out);

    let credential = fleet.credentials(&CredentialHolder::Host(HostName::new("far").unwrap()));
    let mut far = fleet.command(["host", "--name", "far", "--capacity", "4", "--url", &url]);
    far.arg("--credentials").arg(credential).arg("--tls-ca").arg(&ca);
    let mut far = Program::start(far.arg("--data-dir").arg(fleet.cwd().join("far")));
    far.line(|line| line.trim() == "ready");

    let human = fleet.credentials(&CredentialHolder::Human(HumanName::new("ada").unwrap()));
    let asked = |options: &[&str], ca: Option<&Path>| {
        let mut command = fleet.command(["get", "hosts", "--as", "ada", "--url", &url]);
        command.arg("--credentials").arg(&human).args(options);
        command.arg("--data-dir").arg(fleet.cwd().join("ada"));
        command.envs(ca.map(|ca| ("TETRARCH_BUS_TLS_CA", ca)));
        let mut program = Program::start(&mut command);
        program.close_input();
        program.ended()
    };
    let seen = asked(&[], Some(&ca));
    assert!(seen.code == Some(0) && seen.out.contains("far"), "{}{}", seen.out, seen.err);
    let refused = asked(&[], None);
    assert_eq!(refused.code, Some(6), "{}", refused.out);
    assert!(refused.err.contains("issued by an unknown CA"), "{}", refused.err);
    assert!(refused.err.contains("next: copy tls/ca.pem"), "{}", refused.err);

    let doctor = fleet.json(&["doctor"]);
    let checks = doctor.as_array().unwrap();
    let tls = checks.iter().find(|check| check["check"] == "tls").unwrap();
    assert_eq!(tls["verdict"], "ok");
    assert!(tls["what"].as_str().unwrap().contains("tls/ca.pem"), "{tls}");
    drop(far);
    fleet.stop();
}

#[test]
fn remote_listener_without_name_or_full_certificate_is_refused() {
    let fleet = Fleet::prepared();
    let cases: [(&[&str], &str); 4] = [
        (&["--listen", "0.0.0.0:4222"], "needs a name for the certificate"),
        (&["--listen", "127.0.0.1:0"], "needs a fixed port"),
        (&["--listen", "127.0.0.1:4222", "--tls-cert", "c.pem"], "--tls-key"),
        (&["--tls-name", "bus"], "--listen"),
    ];
    for (options, words) in cases {
        let ended = fleet.run(["up"].iter().chain(options));
        assert_eq!(ended.code, Some(2), "{options:?}: {}", ended.err);
        assert!(ended.err.contains(words), "{options:?}: {}", ended.err);
    }
}

#[test]
fn bus_requiring_client_certificates_runs_a_fleet_and_refuses_others() {
    let fleet = listening();
    let made = rcgen::generate_simple_self_signed(vec!["here".to_owned()]).unwrap();
    let cert = fleet.file("cert.pem", &made.cert.pem());
    let key = fleet.file("key.pem", &made.signing_key.serialize_pem());
    let cert = cert.to_str().unwrap();
    let fleet = fleet.with_option("--client-ca", cert);
    let refused = fleet.run(["up", "--listen", "127.0.0.1:4222", "--client-ca", cert]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("bus.tls_cert and bus.tls_key"), "{}", refused.err);

    let identity =
        [("TETRARCH_BUS_TLS_CERT", cert), ("TETRARCH_BUS_TLS_KEY", key.to_str().unwrap())];
    let fleet =
        identity.iter().fold(fleet, |fleet, (name, file)| fleet.with_env(name, *file)).started();
    let doctor = fleet.json(&["doctor"]);
    let tls = doctor.as_array().unwrap().iter().find(|check| check["check"] == "tls").unwrap();
    assert!(tls["what"].as_str().unwrap().contains(cert), "{tls}");
    fleet.ok(["creds", "issue", "human:eve", "--role", "viewer"]);
    let without = |args: &[&str]| {
        let mut command = fleet.command(args);
        identity.iter().for_each(|(name, _)| _ = command.env_remove(name));
        let mut program = Program::start(&mut command);
        program.close_input();
        program.ended()
    };
    for args in [&["get", "hosts"][..], &["creds", "revoke", "human:eve", "--yes"]] {
        let refused = without(args);
        assert_eq!(refused.code, Some(6), "{}", refused.out);
        assert!(refused.err.contains("requires a client certificate"), "{}", refused.err);
    }
    fleet.ok(["creds", "revoke", "human:eve", "--yes"]);
}
