//! What people get wrong, and what they are told: plan files and command lines whose whole answer is
//! written down in `tests/golden`. An answer that changes is read by a person: `TETRARCH_BLESS=1`
//! writes what is said now, and the difference is looked at before it is kept.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tetrarch_tests::{Ended, Fleet};

use crate::workspace;

/// The variable by which answers are written down instead of compared.
const BLESS: &str = "TETRARCH_BLESS";
/// Ends the name of a plan's answer.
const ANSWER: &str = "stderr";
/// Fewest wrong plans and wrong lines; one that gets lost is missed.
const PLANS_MIN: usize = 60;
const LINES_MIN: usize = 40;
/// Bytes of the plan that is too large to be one.
const HUGE: usize = 3 * 1024 * 1024;

fn golden(below: &str) -> PathBuf {
    workspace().join("tests/golden").join(below)
}

/// Compares an answer with the one that is written down, or writes it down.
fn differs(expected: &Path, answer: &str) -> Option<String> {
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(expected, answer).unwrap();
    }
    let written = std::fs::read_to_string(expected).unwrap_or_default();
    let name = expected.display();
    (written != answer).then(|| format!("{name}\n--- written\n{written}--- said\n{answer}"))
}

#[track_caller]
fn assert_as_written(wrong: &[String]) {
    let all = wrong.join("\n");
    assert!(wrong.is_empty(), "{} differ ({BLESS}=1 writes them down):\n{all}", wrong.len());
}

/// Plans that a file cannot hold, or not as text, beside the files.
fn with_unwritable(fleet: &Fleet, mut names: Vec<String>) -> Vec<String> {
    let cwd = fleet.cwd();
    std::fs::create_dir(cwd.join("90-directory.yaml")).unwrap();
    std::fs::write(cwd.join("91-binary.yaml"), b"title: \xff\xfe\x00\x01\n").unwrap();
    std::fs::write(cwd.join("92-null.yaml"), b"title: a\x00b\n").unwrap();
    let huge = format!("title: {}\n", "clean ".repeat(HUGE / 6));
    std::fs::write(cwd.join("93-huge.yaml"), huge).unwrap();
    let made =
        ["90-directory.yaml", "91-binary.yaml", "92-null.yaml", "93-huge.yaml", "94-absent.yaml"];
    names.extend(made.map(str::to_owned));
    names
}

#[test]
fn invalid_plan_is_reported_with_position_cause_and_next_step() {
    let fleet = Fleet::prepared();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(golden("plans")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ext| ext != ANSWER) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            std::fs::copy(&path, fleet.cwd().join(&name)).unwrap();
            names.push(name);
        }
    }
    let mut names = with_unwritable(&fleet, names);
    names.sort();
    assert!(names.len() >= PLANS_MIN, "{}", names.len());
    let mut wrong = Vec::new();
    for name in &names {
        let ended = fleet.run(["plan", "check", name]);
        let answer = normal(&fleet, &ended.err);
        let sound = ended.code == Some(2) && ended.out.is_empty() && answer.contains("  next: ");
        if !sound || !answer.contains(name) {
            wrong.push(format!("{name}: {:?}: {}{answer}", ended.code, ended.out));
        }
        wrong.extend(differs(&golden("plans").join(format!("{name}.{ANSWER}")), &answer));
    }
    assert_as_written(&wrong);
    assert_eq!(std::fs::read_dir(fleet.data_dir()).unwrap().count(), 0, "nothing was started");
}

#[test]
fn invalid_command_line_is_reported_with_cause_and_next_step() {
    let typed: usize =
        [("lone", false), ("fleet", true)].iter().map(|(name, up)| session(name, *up)).sum();
    assert!(typed >= LINES_MIN, "{typed}");
}

/// Types every line of a session, `$ ` before each, and compares what is said after it.
fn session(name: &str, up: bool) -> usize {
    let fleet = if up { Fleet::up() } else { Fleet::prepared() };
    for entry in std::fs::read_dir(golden("commands")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, fleet.cwd().join(path.file_name().unwrap())).unwrap();
    }
    if up {
        for _ in 0..2 {
            fleet.ok(["goal", "create", "plan.yaml"]);
        }
    }
    let file = golden("commands").join(format!("{name}.txt"));
    let written = std::fs::read_to_string(&file).unwrap();
    let typed: Vec<&str> =
        written.lines().filter_map(|line| line.strip_prefix("$ tetrarch ")).collect();
    let mut said = String::new();
    for line in &typed {
        let ended = fleet.run(shlex::split(line).unwrap());
        writeln!(said, "$ tetrarch {line}\n{}", answered(&fleet, &ended)).unwrap();
        assert!(ended.code != Some(0), "{line} is not wrong: {}", ended.out);
    }
    assert_as_written(&differs(&file, &said).into_iter().collect::<Vec<_>>());
    typed.len()
}

fn answered(fleet: &Fleet, ended: &Ended) -> String {
    let code = ended.code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
    format!("{}{}[{code}]\n", normal(fleet, &ended.out), normal(fleet, &ended.err))
}

/// A text with what differs from one time to the next taken out: paths of this test, ids, ports,
/// numbers of processes.
fn normal(fleet: &Fleet, text: &str) -> String {
    let mut text = text.replace(&fleet.cwd().display().to_string(), "{cwd}");
    text = text.replace(&fleet.data_dir().display().to_string(), "{data}");
    let parts = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    let mut said = String::new();
    for part in parts {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let rest = &part[word.len()..];
        let sample = word.starts_with("01JD8");
        let ulid = word.len() == 26 && word.starts_with("01") && !sample;
        let number = said.ends_with("process ") && word.parse::<u32>().is_ok();
        let entry = said.ends_with("ends with entry ");
        let age = said.ends_with("active for ");
        let port = said.ends_with("127.0.0.1:") && word.len() > 3;
        said.push_str(if age {
            "{age}"
        } else if entry {
            "{sequence}"
        } else if ulid {
            "{ulid}"
        } else if number {
            "{pid}"
        } else if port {
            "{port}"
        } else {
            word
        });
        said.push_str(rest);
    }
    said
}
