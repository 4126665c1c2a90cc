//! What a session does with each message, at both ends of each bound.

use super::*;
use crate::cursor::Trials;
use crate::id::{AgentId, SessionId, Ulid};

fn cursor(mail: u64, receipts: Option<u64>) -> Cursor {
    Cursor {
        agent: AgentId::Worker(Ulid(1)),
        session: SessionId(Ulid(2)),
        epoch: 2,
        positions: Positions { mail, ctl: 3 },
        run: None,
        claim: None,
        trials: Trials::default(),
        receipts,
    }
}

fn at(mail: u64) -> Positions {
    Positions { mail, ctl: 0 }
}

fn owed(seq: u64) -> (Principal, About) {
    let of = About { seq, message: format!("m{seq}"), topic: "info".to_owned() };
    (Principal::Agent(AgentId::Worker(Ulid(9))), of)
}

fn seqs(told: &[(Principal, Receipt)]) -> Vec<u64> {
    assert!(told.iter().all(|(_, receipt)| receipt.stage == Stage::Consumed));
    told.iter().map(|(_, receipt)| receipt.of.seq).collect()
}

#[test]
fn message_handling_follows_handler_and_receipts() {
    let (handle, tell) = (|receipts| Turn::Handle { receipts }, Turn::Tell);
    // Handled up to 7, told up to 5.
    for (again, seq, turn) in [
        (false, 5, Turn::Pass),
        (false, 6, tell),
        (false, 7, tell),
        (false, 8, handle(true)),
        (true, 5, handle(false)),
        (true, 6, handle(true)),
        (true, 7, handle(true)),
        (true, 8, handle(true)),
    ] {
        let reading = Reading::resume(cursor(7, Some(5)), again, 0);
        assert_eq!(reading.turn(Lane::Mail, seq), turn, "{again} {seq}");
        assert_eq!(reading.from().mail, if again { 0 } else { 5 });
        assert_eq!(reading.from().ctl, 3);
        assert_eq!(reading.is_old(Lane::Mail, seq), seq <= 7);
        assert_eq!(reading.turn(Lane::Ctl, seq), handle(false), "control is not counted");
    }
    let before = Reading::resume(cursor(7, None), false, 0);
    assert_eq!(before.from(), Positions { mail: 7, ctl: 3 }, "all was told, or nobody asked");
    assert_eq!(before.turn(Lane::Mail, 7), Turn::Pass);
}

#[test]
fn message_is_given_up_once_after_the_fifth_failure() {
    for (again, failures, turn) in [
        (false, 4, Turn::Handle { receipts: true }),
        (true, 4, Turn::Handle { receipts: true }),
        (false, 5, Turn::GiveUp { failures: 5 }),
        (true, 5, Turn::GiveUp { failures: 5 }),
    ] {
        let mut found = cursor(7, Some(7));
        found.trials.failures.insert(8, failures);
        let mut reading = Reading::resume(found, again, 0);
        assert_eq!(reading.turn(Lane::Mail, 8), turn);
        if failures == 5 {
            reading.give_up(8);
            assert_eq!(reading.turn(Lane::Mail, 8), Turn::Pass);
            assert_eq!(reading.cursor().positions.mail, 8);
            let next = Reading::resume(reading.cursor().clone(), again, 0);
            assert_eq!(next.turn(Lane::Mail, 8), Turn::Pass, "also in the next session");
        }
    }
}

#[test]
fn sender_receipt_is_sent_once_after_the_cursor_is_stored() {
    let mut reading = Reading::resume(cursor(7, None), false, 0);
    for seq in [8, 9] {
        assert_eq!(reading.begin(seq, Some(owed(seq))), []);
        assert!(reading.cursor().trials.in_hand.contains(&seq), "before it is handled");
        assert_eq!(reading.cursor().receipts, Some(7));
        reading.pass(at(seq));
    }
    assert!(reading.kept(at(7)).is_empty());
    assert_eq!(seqs(&reading.kept(at(8))), [8]);
    reading.told();
    assert_eq!(reading.cursor().receipts, Some(8), "9 is owed");
    // It dies here, with 9 kept and not told.
    let next = Reading::resume(reading.cursor().clone(), false, 0);
    assert_eq!((next.from().mail, next.turn(Lane::Mail, 9)), (8, Turn::Tell));
    assert_eq!(next.turn(Lane::Mail, 8), Turn::Pass);
    assert_eq!(seqs(&reading.kept(at(9))), [9]);
    reading.told();
    assert_eq!(reading.cursor().receipts, Some(9));
    assert!(!reading.owes() && reading.settle());
}

#[test]
fn pending_receipts_are_bounded() {
    let mut reading = Reading::resume(cursor(0, None), false, 0);
    let most = u64::try_from(RECEIPTS_OWED_MAX).unwrap();
    for seq in 1..=most {
        assert_eq!(reading.begin(seq, Some(owed(seq))), []);
    }
    assert_eq!(seqs(&reading.begin(most + 1, Some(owed(most + 1)))), [1]);
}

#[test]
fn what_the_program_was_given_and_has_not_taken_is_not_consumed() {
    let mut reading = Reading::resume(cursor(7, None), false, 0);
    for seq in [8, 9, 10] {
        reading.begin(seq, Some(owed(seq)));
        assert!(!reading.hand_out(Some(8)), "before the position passes it");
        reading.pass(at(seq));
        assert!(reading.kept(at(seq)).is_empty(), "it is kept in the journal, and not taken");
    }
    assert_eq!((reading.cursor().positions.mail, reading.owes()), (7, false));
    assert!(reading.hand_out(Some(10)));
    assert_eq!((reading.cursor().positions.mail, seqs(&reading.kept(at(9)))), (9, vec![8, 9]));
    assert!(!reading.owes());
    let never: Vec<u64> = reading.never_taken().into_iter().map(|(_, of)| of.seq).collect();
    assert_eq!(never, [10], "when its program is gone");
    assert!(!reading.hand_out(None), "its writer was told that");
    assert_eq!(reading.cursor().positions.mail, 10);
}

#[test]
fn a_position_never_goes_back_for_what_is_given_again() {
    let mut reading = Reading::resume(cursor(7, Some(5)), true, 0);
    reading.begin(6, Some(owed(6)));
    assert!(!reading.hand_out(Some(6)));
    reading.pass(at(6));
    assert_eq!(reading.cursor().positions.mail, 7);
    assert!(reading.kept(at(7)).is_empty(), "it has to be taken all the same");
    assert!(reading.hand_out(None));
    assert_eq!(seqs(&reading.kept(at(7))), [6]);
}

#[test]
fn message_is_suspect_up_to_the_last_an_earlier_session_can_have_begun() {
    let next = Reading::resume(cursor(7, None), false, 9);
    assert_eq!([8, 9, 10].map(|seq| next.is_suspect(seq)), [true, true, false]);
    let first = Reading::resume(cursor(0, None), false, 0);
    assert!(!first.is_suspect(1), "nobody had it before");
}
