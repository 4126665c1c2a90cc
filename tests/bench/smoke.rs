//! Each benchmark in its short form: that it still does what it measures. Its numbers are for nobody. They
//! count what they wait for, and refuse lines without numbers.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking where it went wrong")]

mod admissions;
mod asked;
mod bare;
mod capture;
mod fleet;
mod growth;
mod insights;
mod lead;
mod letters;
mod numbers;
mod recovery;
mod requester;
mod spawning;
mod sweeping;
mod table;
mod tree;

use std::time::Duration;

use asked::{Args, Effort};
use fleet::Fleet;
use requester::Requester;

/// Measures what these words name, in the short form: as many lines as there have to be.
async fn measures(words: &[&str], lines: usize) {
    let words = ["--quick"].iter().chain(words).map(|word| (*word).to_owned());
    let tables = Args::of(words).unwrap().measured().await;
    let tables: Vec<String> = tables.iter().map(|(_, lines)| table::markdown(lines)).collect();
    let measured: Vec<&str> = tables.iter().flat_map(|table| table.lines()).collect();
    let is_figure = |line: &&str| line.starts_with("| ") && !line.starts_with("| figure ");
    let measured: Vec<&str> = measured.into_iter().filter(is_figure).collect();
    assert_eq!(measured.len(), lines, "{measured:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn spawns_and_admissions_are_measured() {
    measures(&["spawn", "admissions"], 5).await;
}

/// Lives of each requester, one after the other.
const LIVES: usize = 8;
/// Messages and bytes of a life in a build for tests: it is slow, so that a life is longer than what waits, and
/// images are shared by fewer. Of the release build the benchmark tells, beside the aim.
const MESSAGES: f64 = 17.5;
const BYTES: f64 = 13.5 * 1024.0;

#[tokio::test(flavor = "multi_thread")]
async fn life_among_64_requesters_stores_no_more_than_it_may() {
    let fleet = Fleet::start(Duration::from_secs(5)).await;
    let mut requesters = Vec::new();
    for number in 0..asked::REQUESTERS {
        requesters.push(Requester::join(&fleet, &number.to_string()).await);
    }
    let (_, cost) = admissions::captured(&fleet, &mut requesters, LIVES).await;
    admissions::tell(&cost);
    fleet.stop().await;
    assert!(cost.messages() <= MESSAGES, "{cost}");
    assert!(cost.bytes() <= BYTES, "{cost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_age_of_an_epic_costs_is_measured() {
    measures(&["growth"], 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_and_trees_are_measured() {
    measures(&["mail", "tree", "processes"], 9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeper_and_insights_are_measured() {
    measures(&["sweeper", "insights"], 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deaths_and_lost_hosts_are_measured() {
    measures(&["death", "host-loss"], 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_and_bus_restarts_are_measured() {
    measures(&["fail-over", "bus-restart"], 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_and_idling_are_measured() {
    measures(&["up", "start", "idle"], 8).await;
}
