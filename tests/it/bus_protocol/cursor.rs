//! Cursors: seals, claims and fenced sessions.

use futures::future::join_all;
use tetrarch_bus::cursor::{Claimed, CursorError, claim, claim_first, read_cursor, write_cursor};
use tetrarch_core::cursor::{Claim, Cursor, Positions};
use tetrarch_core::id::{HostName, RunId, SessionId, Ulid};
use tetrarch_core::mail::Lane;
use tetrarch_core::reading::{Reading, Turn};

use super::{batch, empty_entry, outbox, seal, worker};
use tetrarch_bus::Bus;
use tetrarch_core::ledger::Entry;

const RUN: RunId = RunId(Ulid(7));

fn ours(host: &str, instance: &str) -> Claim {
    Claim { host: HostName::new(host).unwrap(), host_epoch: 1, instance: instance.to_owned() }
}

async fn sealed(bus: &Bus, epoch: u64) {
    let order = Entry { seals: vec![seal(&worker(1), epoch)], ..empty_entry(epoch.into(), 1) };
    outbox(bus).publish(&batch(epoch, &[order])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_claimants_gets_the_cursor() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    sealed(&bus, 1).await;
    let agent = worker(1);
    let claims: Vec<Claim> = (0..16).map(|index| ours(&format!("h{index}"), "one")).collect();
    let answers = join_all(claims.iter().map(|one| claim(&bus, &agent, 1, one))).await;
    let mut winners = Vec::new();
    for (one, answer) in claims.iter().zip(answers) {
        match answer.unwrap() {
            Claimed::Ours { cursor, .. } => {
                assert_eq!(cursor.claim.as_ref(), Some(one));
                winners.push(one.clone());
            }
            Claimed::DoNotStart { cursor } => assert!(cursor.unwrap().claim.is_some()),
            other @ Claimed::EarlierLife { .. } => panic!("{other:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    let (stands, _) = read_cursor(&bus, &worker(1)).await.unwrap().unwrap();
    assert_eq!(stands.claim.as_ref(), winners.first());
}

#[tokio::test(flavor = "multi_thread")]
async fn first_cursor_of_a_new_agent_goes_to_one_claimant() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let claims: Vec<Claim> = (0..8).map(|index| ours(&format!("h{index}"), "one")).collect();
    let first = |one: &Claim| Cursor::first(worker(1), SessionId(Ulid(1)), RUN, one.clone());
    let all = claims.iter().map(|one| claim_first(&bus, first(one), one));
    let answers: Vec<Claimed> = join_all(all).await.into_iter().map(Result::unwrap).collect();
    let ours: Vec<&Claimed> =
        answers.iter().filter(|it| matches!(it, Claimed::Ours { .. })).collect();
    assert_eq!(ours.len(), 1, "{answers:?}");
    let (stands, _) = read_cursor(&bus, &worker(1)).await.unwrap().unwrap();
    let again = stands.claim.clone().unwrap();
    let again = claim_first(&bus, first(&again), &again).await.unwrap();
    assert_eq!(&again, ours[0], "the same claim again is known again");
}

#[tokio::test(flavor = "multi_thread")]
async fn first_claim_after_a_later_seal_does_not_start() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    sealed(&bus, 2).await;
    let one = ours("a", "one");
    let first = Cursor::first(worker(1), SessionId(Ulid(1)), RUN, one.clone());
    let late = claim_first(&bus, first, &one).await.unwrap();
    assert!(matches!(late, Claimed::DoNotStart { .. }), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_claim_names_its_conflict() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    sealed(&bus, 2).await;
    let first = claim(&bus, &worker(1), 2, &ours("a", "one")).await.unwrap();
    let Claimed::Ours { seq, .. } = first else { panic!("{first:?}") };
    let again = claim(&bus, &worker(1), 2, &ours("a", "one")).await.unwrap();
    assert!(matches!(again, Claimed::Ours { seq: same, .. } if same == seq), "{again:?}");
    let next_life = claim(&bus, &worker(1), 2, &ours("a", "two")).await.unwrap();
    assert!(matches!(next_life, Claimed::EarlierLife { .. }), "{next_life:?}");
    let elsewhere = claim(&bus, &worker(1), 2, &ours("b", "one")).await.unwrap();
    assert!(matches!(elsewhere, Claimed::DoNotStart { .. }), "{elsewhere:?}");
    let late = claim(&bus, &worker(1), 1, &ours("b", "one")).await.unwrap();
    assert!(matches!(late, Claimed::DoNotStart { .. }), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_session_cannot_move_its_cursor() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    sealed(&bus, 1).await;
    let claimed = claim(&bus, &worker(1), 1, &ours("a", "one")).await.unwrap();
    let Claimed::Ours { cursor, seq, .. } = claimed else { panic!("{claimed:?}") };
    let moved = Cursor { positions: Positions { mail: 4, ctl: 2 }, ..cursor };
    let seq = write_cursor(&bus, &moved, seq).await.unwrap();
    sealed(&bus, 2).await;
    sealed(&bus, 2).await;
    let (stands, at) = read_cursor(&bus, &worker(1)).await.unwrap().unwrap();
    assert_eq!((stands.epoch, stands.positions, stands.claim), (2, moved.positions, None));
    let zombie = Cursor { positions: Positions { mail: 9, ctl: 9 }, ..moved };
    let refused = write_cursor(&bus, &zombie, seq).await;
    assert!(matches!(refused, Err(CursorError::Fenced { last, .. }) if last == at), "{refused:?}");
    let late = claim(&bus, &worker(1), 1, &ours("a", "one")).await.unwrap();
    assert!(matches!(late, Claimed::DoNotStart { .. }), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn move_with_a_lost_answer_is_made_once() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    sealed(&bus, 1).await;
    let (cursor, seal) = read_cursor(&bus, &worker(1)).await.unwrap().unwrap();
    let moved = Cursor { positions: Positions { mail: 4, ctl: 2 }, ..cursor };
    let landed = write_cursor(&bus, &moved, seal).await.unwrap();
    assert_eq!(write_cursor(&bus, &moved, seal).await.unwrap(), landed);
}

/// A session that begins a message and dies: it says what it did with the message.
async fn dies_of(bus: &Bus, epoch: u64, message: u64) -> Turn {
    sealed(bus, epoch).await;
    let host = format!("life{epoch}");
    let claimed = claim(bus, &worker(1), epoch, &ours("a", &host)).await.unwrap();
    let Claimed::Ours { cursor, seq, .. } = claimed else { panic!("{claimed:?}") };
    let mut reading = Reading::resume(cursor, false, message);
    let turn = reading.turn(Lane::Mail, message);
    if matches!(turn, Turn::Handle { .. }) {
        assert_eq!(reading.begin(message, None), []);
    } else {
        reading.give_up(message);
    }
    write_cursor(bus, reading.cursor(), seq).await.unwrap();
    turn
}

#[tokio::test(flavor = "multi_thread")]
async fn message_that_killed_five_sessions_is_given_up_despite_a_server_death() {
    let mut server = tetrarch_tests::server().await;
    for epoch in 1..=5 {
        let bus = server.control().await;
        let turn = dies_of(&bus, epoch, 9).await;
        assert_eq!(turn, Turn::Handle { receipts: true }, "after {} deaths", epoch - 1);
        server.kill().await;
        server.restart().await;
    }
    let bus = server.control().await;
    assert_eq!(dies_of(&bus, 6, 9).await, Turn::GiveUp { failures: 5 });
    assert_eq!(dies_of(&bus, 7, 9).await, Turn::Pass, "once");
    assert_eq!(dies_of(&bus, 8, 10).await, Turn::Handle { receipts: true });
}
