//! The `e2e` suite: the built binary as a user starts it, programs that keep the contract and
//! programs that do not. What `Done when` of the first issue promises, point by point.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

mod acp;
mod amnesia;
mod assistant;
mod audit;
mod background;
mod bomb;
mod browser;
mod canaries;
mod channel;
mod chaos;
mod chat;
mod claude;
mod clients;
mod codex;
mod coding;
mod conversations;
mod credentials;
mod deadlines;
mod deaths;
mod delegating;
mod editor;
mod external;
mod failover;
mod faults;
mod fifty;
mod first_hour;
mod first_run;
mod first_steps;
mod floods;
mod foreign;
mod forged;
mod gate;
mod goals;
mod hosts;
mod input;
mod isolation;
mod judging;
mod levels;
mod life;
mod llm;
mod logs;
mod long_haul;
mod loops;
mod metrics;
mod naming;
mod notices;
mod obstacles;
mod offline;
mod overseeing;
mod own_tools;
mod page;
mod pauses;
mod people;
mod plan_document;
mod planner;
mod planning;
mod profiles;
mod proposed;
mod questions;
mod queueing;
mod racing;
mod raising;
mod renewal;
mod resume;
mod roster;
mod secrets;
mod served;
mod sizes;
mod soak;
mod spending;
mod storm;
mod terminal;
mod tls;
mod traces;
mod verbs;
mod wrong;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tetrarch_bus::journal::JournalName;
use tetrarch_core::agent::Agent;
use tetrarch_core::id::Ulid;
use tetrarch_tests::{Fleet, python};

/// The repository's top.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A program of this suite.
fn script(name: &str) -> String {
    format!("{}/e2e/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The journal of what an agent works on.
fn journal_of(agent: &Agent) -> Option<JournalName> {
    Some(JournalName { agent: agent.id.clone(), run: agent.work.as_ref()?.run })
}

/// The command of a hosted agent that does what `agent.py` calls by this name.
fn acting(act: &[&str]) -> Vec<String> {
    let words = [python().to_str().unwrap().to_owned(), "-B".to_owned(), script("agent.py")];
    words.into_iter().chain(act.iter().map(|&word| word.to_owned())).collect()
}

/// A fresh id, as any client makes one.
fn new_ulid() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).unwrap();
    let ms = u64::try_from(since.as_millis()).unwrap();
    Ulid::from_parts(ms, u128::from_be_bytes(random)).to_string()
}

/// A profile by which agents do nothing for some seconds.
fn sleeping(fleet: &Fleet, seconds: &str) -> PathBuf {
    fleet.file("sleeping.toml", &format!("name = 'default'\nargv = ['sleep', '{seconds}']\n"))
}
