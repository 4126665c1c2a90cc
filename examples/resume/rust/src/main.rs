//! A worker that makes steps, each exactly once, whatever dies in between:
//! `tetrarch-steps <count> <ms>`.
//!
//! A step is a line in a file: its number, the host and the session that made it. The file is named
//! after the node, in the directory that the plan was given after `--`, else where `tetrarch run`
//! was started. Between two steps it waits for `ms` milliseconds.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tetrarch_steps::{End, Host, run};

fn main() -> ExitCode {
    let numbers: Vec<u64> = env::args().skip(1).map_while(|word| word.parse().ok()).collect();
    run(|host| match numbers.as_slice() {
        &[count, pause] => work(host, count, Duration::from_millis(pause)),
        _ => Err(End::Failed("usage: tetrarch-steps <count> <ms>".to_owned())),
    })
}

/// Makes the steps that are not made yet; the fields of the result.
fn work(host: &mut Host, count: u64, pause: Duration) -> Result<Value, End> {
    let path = file(host.brief()["node"].as_str().unwrap_or("steps"))?;
    let epoch = host.brief()["epoch"].as_u64().unwrap_or(1);
    let mut hosts = Vec::new();
    for step in 1..=count {
        let name = format!("step {step}");
        if host.recorded(&name).is_none() {
            host.step(&name, step - 1, count)?;
            thread::sleep(pause);
        }
        hosts.push(host.once(&name, || made(&path, step), || make(&path, step, epoch))?);
    }
    let seen = format!("{count} steps in {}", path.display());
    Ok(json!({
        "deliverable": {"steps": count, "hosts": hosts},
        "evidence": {"tests": [seen]},
    }))
}

fn file(node: &str) -> io::Result<PathBuf> {
    let given = env::var("TETRARCH_ARGS").unwrap_or_default();
    let given: Value = serde_json::from_str(&given).unwrap_or_default();
    let start = match env::var_os("TETRARCH_CWD") {
        Some(start) => PathBuf::from(start),
        None => env::current_dir()?,
    };
    Ok(start.join(given[0].as_str().unwrap_or_default()).join(node))
}

/// Appends the step's line at once, never half of it; the host that did.
fn make(path: &Path, step: u64, epoch: u64) -> io::Result<Value> {
    let life = env::var("TETRARCH_HOST_LIFE").unwrap_or_default();
    let host = life.rsplitn(3, '.').nth(2).unwrap_or("none");
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(format!("{step} {host} {epoch}\n").as_bytes())?;
    Ok(json!(host))
}

/// The host that made the step and died before that was recorded.
fn made(path: &Path, step: u64) -> io::Result<Option<Value>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let step = step.to_string();
    let mut lines = text.lines().map(|line| line.split(' '));
    let found = lines.find_map(|mut words| (words.next()? == step).then(|| words.next())?);
    Ok(found.map(|host| json!(host)))
}
