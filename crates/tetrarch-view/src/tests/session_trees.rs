//! Whose turns a session tree shows, and which agents stand below them.

use tetrarch_core::conversation::TurnStatus;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::ledger::Record;
use tetrarch_core::liveness::Liveness;

use super::*;
use crate::row::{ReportedVitals, rows};
use crate::samples::{agent, turn, worker};

fn said(human: &str, conversation: &str, number: u64, since: u64) -> Record {
    let mut said = turn(TurnLane::Conversation, TurnStatus::Done, None);
    said.id.human = human.parse().unwrap();
    said.id.conversation = conversation.parse().unwrap();
    said.id.number = number;
    said.since = BusTime(since);
    Record::Turn(Box::new(said))
}

fn records(turns: Vec<Record>) -> Records {
    let mut records = Records::default();
    let agents = [agent("IO@ada", Some("GO"), Liveness::Active), worker(2, 1, Liveness::Active)];
    for record in turns.into_iter().chain(agents.map(|it| Record::Agent(Box::new(it)))) {
        records.put(record);
    }
    records
}

#[test]
fn tree_has_the_latest_turns_of_each_conversation_with_their_agents() {
    let turns = (1..=12).map(|number| said("ada", "site", number, number));
    let records =
        records(turns.chain([said("ada", "main", 1, 50), said("bob", "main", 1, 9)]).collect());
    let rows = rows(&records, &ReportedVitals::new(), BusTime(100));
    let ada = "ada".parse().unwrap();
    let tree = SessionTree::of(&records, &rows, &ada, TURNS_SHOWN);
    assert_eq!(tree.root.unwrap().id.to_string(), "IO@ada");
    let names: Vec<&str> = tree.conversations.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["main", "site"], "where something happened last comes first");
    let site: Vec<u64> = tree.conversations[1].turns.iter().map(|turn| turn.id.number).collect();
    assert_eq!(site, (3..=12).collect::<Vec<_>>());
    let whole = SessionTree::of(&records, &rows, &ada, usize::MAX);
    assert_eq!(whole.conversations[1].turns.len(), 12);
    let agents = tree.agents(tree.conversations[0].turns[0]);
    assert_eq!(
        agents.iter().map(|row| &row.id).collect::<Vec<_>>(),
        [&worker(2, 1, Liveness::Active).id]
    );
}

#[test]
fn everybodys_trees_begin_with_who_looks() {
    let records =
        records(vec![said("ada", "main", 1, 1), said("bob", "main", 1, 1), said("bob", "a", 1, 1)]);
    let rows = rows(&records, &ReportedVitals::new(), BusTime(100));
    let people = |first: Option<&str>| -> Vec<String> {
        let first = first.map(|name| name.parse().unwrap());
        let trees = SessionTree::everybody(&records, &rows, first.as_ref());
        trees.iter().map(|tree| tree.human.to_string()).collect()
    };
    assert_eq!(people(None), ["ada", "bob"]);
    assert_eq!(people(Some("bob")), ["bob", "ada"]);
    assert_eq!(people(Some("eve")), ["ada", "bob"]);
    let eve = "eve".parse().unwrap();
    assert!(SessionTree::of(&records, &rows, &eve, 1).is_empty());
}
