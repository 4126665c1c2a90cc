//! Messages of every size, from nothing to more than the server takes (spec 09, Input): the server
//! refuses what is larger than its stream's, ends the connection of whoever sends more than it takes
//! at all, and what gets in and is too large is refused or set aside with its reason.

use std::process::Command;

use serde_json::Value;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::intake::REASON;
use tetrarch_bus::subject::pattern::{DEAD, MAIL};
use tetrarch_tests::{Ended, Fleet, Ledger, Program, python};

use crate::external::External;
use crate::storm::{
    GROWTH_KIB, assert_goes_on, everything_is_decided, pillars, resident, run_to_its_end,
};
use crate::{new_ulid, script};

/// The server's code for a message that is larger than its stream takes.
const TOO_LARGE: u64 = 10054;

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_every_size_are_handled_and_stop_nobody() {
    let mut fleet = Fleet::up();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let external = External::join(&fleet, &mut ledger, "sized").await;
    run_to_its_end(&fleet, "before");
    let before = pillars(&fleet);
    let held: Vec<u64> = before.iter().map(resident).collect();

    let credential = fleet.credentials(&CredentialHolder::External(external.name.parse().unwrap()));
    let mut command = Command::new(python());
    command.arg(script("sizes.py")).arg(fleet.url()).arg(credential);
    command.args([external.name.clone(), new_ulid()]);
    let Ended { code, out, err, .. } = Program::start(&mut command).ended();
    assert_eq!(code, Some(0), "{err}\n{out}");
    let seen: Value = serde_json::from_str(&out).unwrap();
    for (stream, sizes) in seen["told"].as_object().unwrap() {
        // An entry of a journal is as large as what is done in one step.
        let most = if stream == "run" { 520 } else { 264 } * 1024 - 512;
        for (size, told) in sizes.as_object().unwrap() {
            let expected = if size.parse::<u64>().unwrap() > most { TOO_LARGE } else { 0 };
            assert_eq!(told.as_u64(), Some(expected), "{stream}, {size} bytes");
        }
    }
    assert_eq!(seen["ends"].as_array().unwrap().len(), 4, "connections that ended: {seen}");

    everything_is_decided(&mut fleet, 1);
    let dead = control.next_by_subject_batch(DEAD, "dead.*", 1, 1000).await.unwrap();
    let reasons: Vec<&str> = dead.iter().map(|letter| letter.header(REASON).unwrap()).collect();
    assert!(reasons.iter().all(|reason| !reason.is_empty()), "{reasons:?}");
    // Whoever is known is answered instead.
    let inbox = format!("mail.{}.GO", external.name);
    let answers = control.next_by_subject_batch(MAIL, &inbox, 1, 1000).await.unwrap();
    assert!(answers.len() > 10 || reasons.len() > 10, "{} and {reasons:?}", answers.len());
    let counted = fleet.json(&["status"])["deadLetters"].clone();
    let counted: u64 = counted.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(counted, dead.len() as u64, "{reasons:?}");
    assert_eq!(pillars(&fleet), before, "the same processes");
    for (pillar, held) in before.iter().zip(held) {
        // A dozen megabytes came in; what is kept of them is the bus's.
        let grown = resident(pillar).saturating_sub(held);
        assert!(grown < 3 * GROWTH_KIB, "{} grew by {grown} KiB", pillar.command);
    }
    assert_goes_on(fleet);
}
