//! Crate arrows (spec 01): core <- bus <- {engine, runner} <- cli, siblings apart, and which
//! crate may name which outside package. Read from the manifests and from the sources.

use crate::offence::{Offence, assert_none};
use crate::repository::{files, sources, text};
use crate::source::{Source, has_word};

/// What one crate may depend on.
struct Row {
    name: &'static str,
    ours: &'static [&'static str],
    /// The whole list of outside packages, where it is closed.
    outside: Option<&'static [&'static str]>,
}

/// A crate is added here together with its record in `docs/decisions/`.
const ROWS: [Row; 11] = [
    Row { name: "failpoint", ours: &[], outside: Some(&["rustix"]) },
    Row {
        name: "core",
        ours: &[],
        outside: Some(&[
            "aho-corasick",
            "cel",
            "croner",
            "data-encoding",
            "globset",
            "jiff",
            "petgraph",
            "proptest",
            "regex",
            "serde_json",
            "sha2",
            "strsim",
            "thiserror",
            "ulid",
        ]),
    },
    Row {
        name: "view",
        ours: &["core"],
        outside: Some(&["nucleo-matcher", "unicode-general-category"]),
    },
    Row { name: "roster", ours: &["core", "view"], outside: None },
    Row { name: "page", ours: &["core", "view"], outside: Some(&["form_urlencoded", "maud"]) },
    Row { name: "bus", ours: &["core", "failpoint"], outside: None },
    Row { name: "telemetry", ours: &["core"], outside: None },
    Row { name: "model", ours: &["core", "telemetry"], outside: None },
    Row {
        name: "engine",
        ours: &["core", "bus", "failpoint", "model", "telemetry"],
        outside: None,
    },
    Row {
        name: "runner",
        ours: &["core", "bus", "failpoint", "model", "telemetry"],
        outside: None,
    },
    Row {
        name: "cli",
        ours: &["core", "bus", "engine", "page", "roster", "runner", "telemetry", "view"],
        outside: None,
    },
];

/// Outside packages that no other crates may name.
const HOMES: [(&str, &[&str]); 17] = [
    ("async-nats", &["bus"]),
    ("nkeys", &["bus"]),
    ("pbjson", &["bus"]),
    ("pbjson-build", &["bus"]),
    ("prost", &["bus"]),
    ("prost-build", &["bus"]),
    ("protox", &["bus"]),
    ("genai", &["model"]),
    ("reqwest", &["model", "cli"]),
    ("ractor", &["engine"]),
    ("clap", &["cli"]),
    ("crossterm", &["roster"]),
    ("form_urlencoded", &["page"]),
    ("maud", &["page"]),
    ("nucleo-matcher", &["view"]),
    ("unicode-general-category", &["view"]),
    ("ratatui", &["roster"]),
];

/// One dependency as a manifest names it.
#[derive(Debug, PartialEq)]
struct Dependency {
    line: usize,
    dev: bool,
    name: String,
}

#[test]
fn crates_depend_only_to_the_left() {
    let found: Vec<Offence> = files("crates", "Cargo.toml")
        .iter()
        .flat_map(|path| manifest_offences(path, &text(path)))
        .collect();
    assert_none(&found, "arrows point only to the left (docs/ARCHITECTURE.md)");
}

#[test]
fn outside_packages_stay_in_their_crate() {
    let found: Vec<Offence> = sources().iter().flat_map(source_offences).collect();
    assert_none(&found, "reach it through the crate that is its home");
}

fn manifest_offences(path: &str, text: &str) -> Vec<Offence> {
    let name = path.trim_start_matches("crates/tetrarch-").trim_end_matches("/Cargo.toml");
    let Some(row) = ROWS.iter().find(|row| row.name == name) else {
        return vec![Offence::new(path, 1, "this crate has no row in the table of arrows")];
    };
    dependencies(text)
        .iter()
        .filter_map(|found| refusal(row, found).map(|why| Offence::new(path, found.line, why)))
        .collect()
}

fn refusal(row: &Row, found: &Dependency) -> Option<String> {
    let name = found.name.as_str();
    if let Some(ours) = name.strip_prefix("tetrarch-") {
        return (!row.ours.contains(&ours))
            .then(|| format!("{} may not depend on {name}", row.name));
    }
    if name == "proptest" && !found.dev {
        return Some("proptest is for tests".to_owned());
    }
    if row.outside.is_some_and(|outside| !outside.contains(&name)) {
        return Some(format!("{name} is not on the closed list of {}", row.name));
    }
    let homes = HOMES.iter().find(|(package, _)| *package == name)?.1;
    (!homes.contains(&row.name))
        .then(|| format!("only {} may depend on {name}", homes.join(" and ")))
}

fn source_offences(source: &Source) -> Vec<Offence> {
    let Some(name) = source.crate_name() else { return Vec::new() };
    let mut found = Vec::new();
    for (line, code) in source.code() {
        for (package, homes) in HOMES {
            if !homes.contains(&name) && has_word(code, &package.replace('-', "_")) {
                found.push(Offence::new(
                    &source.path,
                    line,
                    format!("{package} belongs to {}", homes.join(" and ")),
                ));
            }
        }
    }
    found
}

/// The dependencies of a manifest: `[dependencies]`, `[dev-dependencies]`, those of a target,
/// and the form `[dependencies.name]`.
fn dependencies(text: &str) -> Vec<Dependency> {
    let mut section = String::new();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (line, at) = (line.trim(), index + 1);
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
            let (head, name) = section.rsplit_once('.').unwrap_or(("", ""));
            if head.ends_with("dependencies") {
                found.push(dependency(at, head, name));
            }
        } else if section.ends_with("dependencies")
            && let Some((key, _)) = line.split_once('=')
            && !line.starts_with('#')
        {
            found.push(dependency(at, &section, key.split('.').next().unwrap_or(key)));
        }
    }
    found
}

fn dependency(line: usize, section: &str, name: &str) -> Dependency {
    let name = name.trim().trim_matches('"').to_owned();
    Dependency { line, dev: section.ends_with("dev-dependencies"), name }
}

#[test]
fn every_form_of_a_dependency_is_read() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\n# old = \"1\"\nbytes = \"1\"\n\
        serde.workspace = true\n[dependencies.prost]\nversion = \"1\"\n\
        [target.'cfg(unix)'.dev-dependencies]\nrand = { version = \"1\" }\n[lints]\nworkspace = true\n";
    let found = dependencies(manifest);
    let names: Vec<(usize, &str, bool)> =
        found.iter().map(|d| (d.line, d.name.as_str(), d.dev)).collect();
    assert_eq!(
        names,
        [(5, "bytes", false), (6, "serde", false), (7, "prost", false), (10, "rand", true)]
    );
}

#[test]
fn wrong_arrow_is_found() {
    let cases = [
        ("core", "tokio.workspace = true", 1),
        ("core", "tetrarch-bus.workspace = true", 1),
        ("core", "proptest = \"1\"", 1),
        ("core", "ulid = \"3\"", 0),
        ("bus", "ractor = \"0.16\"", 1),
        ("bus", "prost = \"0.14\"", 0),
        ("engine", "async-nats = \"0.51\"", 1),
        ("engine", "tetrarch-runner.workspace = true", 1),
        ("runner", "tetrarch-engine.workspace = true", 1),
        ("runner", "tetrarch-core.workspace = true", 0),
        ("cli", "tetrarch-engine.workspace = true", 0),
        ("extras", "ulid = \"3\"", 1),
    ];
    for (name, line, expected) in cases {
        let path = format!("crates/tetrarch-{name}/Cargo.toml");
        let found = manifest_offences(&path, &format!("[dependencies]\n{line}\n"));
        assert_eq!(found.len(), expected, "{name}: {line}: {found:?}");
    }
}

#[test]
fn package_named_outside_its_home_is_found() {
    let text = "use async_nats::Client;\nfn f() { prost::encode() }\n// ractor\n";
    let at = |path| source_offences(&Source::parse(path, text)).len();
    assert_eq!(at("crates/tetrarch-engine/src/a.rs"), 2);
    assert_eq!(at("crates/tetrarch-bus/src/a.rs"), 0);
    assert_eq!(at("tests/it/a.rs"), 0);
}
