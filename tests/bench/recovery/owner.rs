//! The owner is killed beside a standby: from the kill to the standby's first commit. The floor
//! is the time to live of the lease that the dead one cannot give back.

use std::time::Instant;

use futures::StreamExt;
use rustix::process::Signal;
use tetrarch_bus::codec;
use tetrarch_bus::creds::{Authority, CredentialHolder};
use tetrarch_bus::subject::Subject;
use tetrarch_tests::{Program, Server, binary};

use crate::Effort;
use crate::fleet::soon;
use crate::table::{Aim, Line, Unit};

/// The lease's time to live, in microseconds (spec 04, The GO lease).
const TTL: f64 = 3e6;
/// What spec 10 allows, in microseconds.
const ALLOWED: f64 = 4e6;

/// Measures it.
pub(crate) async fn measure(effort: Effort) -> Vec<Line> {
    let what = "GO killed, to the standby's first commit";
    let mut line = Line::new(what, Unit::Micros, Aim::Within(ALLOWED));
    let server = tetrarch_tests::server().await;
    let mut active = owner(&server, 0);
    active.line(|line| line.trim() == "ready");
    for round in 1..=effort.rounds {
        let mut standby = owner(&server, round);
        standby.line(|line| line.contains("standing by"));
        let control = server.control().await;
        let mut commits = control.client().subscribe(Subject::Ledger.to_string()).await.unwrap();
        control.client().flush().await.unwrap();
        let at = Instant::now();
        active.signal(Signal::KILL);
        let epoch = u64::try_from(round).unwrap() + 1;
        let first = async {
            while let Some(commit) = commits.next().await {
                if codec::decode_entry(&commit.payload).unwrap().epoch == epoch {
                    return;
                }
            }
        };
        soon("the standby's first commit", first).await;
        line.push(at.elapsed().as_secs_f64() * 1e6, TTL);
        standby.line(|line| line.trim() == "ready");
        active = standby;
    }
    vec![line]
}

fn owner(server: &Server, number: usize) -> Program {
    let authority = Authority::open_or_create(server.data_dir()).unwrap();
    let mut command = std::process::Command::new(binary());
    command.args(["serve", "--global", "--log", "tetrarch_engine=debug", "--url", server.url()]);
    command.arg("--credentials").arg(authority.mint(&CredentialHolder::Control).unwrap());
    command.arg("--data-dir").arg(server.data_dir().join(format!("owner-{number}")));
    Program::start(&mut command)
}
