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

use admissions::LifeCost;
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
/// Messages and bytes of a life beside 63 others. How many decisions share a commit and how many changes an image
/// depends on how busy the machine is: 16 and 12.5 KiB were seen, 21 with two builds beside, 29 and 19.5 KiB where nothing
/// is shared. What a release build does on an idle machine the benchmark tells, beside the aim.
const MESSAGES: f64 = 24.0;
const BYTES: f64 = 17.0 * 1024.0;

#[tokio::test(flavor = "multi_thread")]
async fn life_among_64_requesters_shares_commits_and_images() {
    let cost = life(asked::REQUESTERS, LIVES).await;
    assert!(cost.messages() <= MESSAGES, "{cost}");
    assert!(cost.bytes() <= BYTES, "{cost}");
}

/// Lives of one requester: as many as its figures are means of.
const LIVES_ALONE: usize = 40;
/// Messages of a life at most, by kind: as often as it changes where nothing is shared, and what comes with time. The
/// states of goal and plan and the outbox's place change with each entry of the ledger.
const KINDS: [(&str, f64); 17] = [
    ("STATE agent", 5.0),
    ("STATE assignment", 3.0),
    ("STATE decision", 1.0),
    ("STATE goal_state", 3.0),
    ("STATE meta", 3.0),
    ("STATE node", 1.5),
    ("STATE node_state", 3.0),
    ("STATE plan", 3.0),
    ("STATE run", 1.0),
    ("STATE run_state", 3.0),
    ("ctl", 1.0),
    ("cursor", 1.0),
    ("ledger", 3.0),
    ("mail", 3.0),
    ("report", 2.0),
    ("run", 1.0),
    ("spawn", 1.0),
];

#[tokio::test(flavor = "multi_thread")]
async fn life_alone_stores_no_message_beyond_its_kinds() {
    let cost = life(1, LIVES_ALONE).await;
    for (kind, messages, _) in cost.kinds() {
        let most = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, most)| *most);
        assert!(most.is_some_and(|most| messages <= most), "{kind}: {most:?} at most\n{cost}");
    }
}

async fn life(requesters: usize, each: usize) -> LifeCost {
    let fleet = Fleet::start(Duration::from_secs(5)).await;
    let mut asking = Vec::new();
    for number in 0..requesters {
        asking.push(Requester::join(&fleet, &number.to_string()).await);
    }
    let (_, cost) = admissions::captured(&fleet, &mut asking, each).await;
    admissions::tell(&cost);
    fleet.stop().await;
    cost
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
