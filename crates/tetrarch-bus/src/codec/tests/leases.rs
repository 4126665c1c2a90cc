//! Signs of life.

use tetrarch_core::budget::Spend;
use tetrarch_core::burn::Burn;
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::AgentId;
use tetrarch_core::run::RunState;
use tetrarch_core::vitals::Vitals;

use super::samples::id;
use crate::codec::*;

#[test]
fn leases_and_heartbeats_round_trip() {
    let vitals = |run_state| Vitals {
        agent: id("PO-demo"),
        session: id("~"),
        epoch: 2,
        run_state,
        positions: Positions { mail: 1, ctl: 2 },
        progress: 3,
        tokens: 4,
        tokens_out: 1,
        turns: 6,
        cost_micro: 5,
        tool: "read".to_owned(),
        words: "looks for it".to_owned(),
        burn: Burn::noted(
            9,
            [3, 0, 1].map(|tokens| Spend { tokens, cost_micro: tokens / 3, turns: 0 }),
        ),
    };
    let lease = HostLease {
        capacity: 4,
        load: 2,
        labels: vec![("a".to_owned(), "b".to_owned())],
        rows: vec![vitals(None), vitals(Some(RunState::AwaitingInput))],
    };
    assert_eq!(decode_host_lease(&encode_host_lease(&lease).unwrap()).unwrap(), lease);
    let one = vitals(Some(RunState::Running));
    let bytes = encode_heartbeat(&one).unwrap();
    assert_eq!(decode_heartbeat(&one.agent, &bytes).unwrap(), one);
    assert!(decode_heartbeat(&AgentId::Go, &bytes).is_err(), "another agent's");
    let least = format!(r#"{{"session":"{}"}}"#, super::samples::U);
    let read = decode_heartbeat(&one.agent, least.as_bytes()).unwrap();
    assert_eq!((read.agent, read.epoch, read.run_state), (one.agent, 1, None));
}
