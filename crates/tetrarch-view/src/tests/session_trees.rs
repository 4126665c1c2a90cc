//! Whose turns a session tree shows, and which agents stand below them.

use tetrarch_core::conversation::TurnStatus;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::goal::Goal;
use tetrarch_core::id::Ulid;
use tetrarch_core::ledger::Record;
use tetrarch_core::liveness::Liveness;

use super::*;
use crate::row::{ReportedVitals, rows};
use crate::samples::{agent, goal, turn, worker};

fn said(human: &str, conversation: &str, number: u64, since: u64) -> Record {
    let mut said = turn(TurnLane::Conversation, TurnStatus::Done, None);
    said.id.human = human.parse().unwrap();
    said.id.conversation = conversation.parse().unwrap();
    said.id.number = number;
    said.since = BusTime(since);
    if (human, conversation) != ("ada", "main") {
        said.epic = None;
    }
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
        agents.iter().map(|(depth, row)| (*depth, &row.id)).collect::<Vec<_>>(),
        [(0, &worker(2, 1, Liveness::Active).id)]
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

#[test]
fn agents_of_every_goal_of_a_turn_stand_below_it_in_their_lineage() {
    let Record::Turn(mut turn) = said("ada", "main", 1, 1) else { unreachable!("a turn is said") };
    let epic = |number| EpicId(Ulid::from_parts(1, number));
    turn.epic = Some(epic(2));
    let earlier = Goal { id: epic(1), ..goal("human:ada", &[("session", &turn.id.to_string())]) };
    let by = |number, parent: &AgentId, goal| {
        let mut agent = worker(number, 1, Liveness::Active);
        agent.parent = Some(parent.clone());
        agent.work.as_mut().unwrap().epic = epic(goal);
        agent
    };
    let po: AgentId = "PO-demo".parse().unwrap();
    let lead = by(1, &po, 1);
    let helper = by(2, &lead.id, 1);
    let (next, stranger) = (by(3, &po, 2), by(4, &po, 9));
    let mut records = Records::default();
    records.put(Record::Goal(Box::new(earlier)));
    records.put(Record::Turn(turn.clone()));
    for agent in [&next, &helper, &lead, &stranger] {
        records.put(Record::Agent(Box::new(agent.clone())));
    }
    let (rows, ada) = (rows(&records, &ReportedVitals::new(), BusTime(9)), "ada".parse().unwrap());
    let tree = SessionTree::of(&records, &rows, &ada, TURNS_SHOWN);
    let found: Vec<_> = tree.agents(&turn).iter().map(|(at, row)| (*at, &row.id)).collect();
    assert_eq!(found, [(0, &lead.id), (1, &helper.id), (0, &next.id)]);
}
