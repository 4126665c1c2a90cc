//! How long it takes to draw a large fleet (spec 08, Roster).

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tetrarch_core::budget::Spend;
use tetrarch_core::burn::Burn;
use tetrarch_core::ledger::Record;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::run::RunState;

use super::Session;
use super::fleet::{NOW, model};
use super::samples::{live, run, run_status, worker};
use crate::draw::draw;
use crate::input::RosterInput;
use tetrarch_view::news::FleetNews;

/// Agents of the fleet.
const AGENTS: u128 = 10_000;
/// What a frame may take.
const FRAME_MAX: Duration = Duration::from_millis(50);
/// Frames that are drawn, each with another agent selected.
const FRAMES: u32 = 20;

#[test]
#[expect(clippy::print_stdout, reason = "the figures are what this is run for")]
fn frame_of_ten_thousand_agents_takes_less_than_50_ms() {
    let mut model = model(300, 60);
    let mut reported = Vec::new();
    for n in 100..100 + AGENTS {
        let mut agent = worker(n, u32::try_from(n).unwrap(), Liveness::Active);
        agent.label = format!("agent number {n}");
        let status = run_status(n, RunState::Running);
        let records = [
            Record::Agent(Box::new(agent)),
            Record::RunStatus(Box::new(status)),
            Record::Run(Box::new(run(n, "gpt-5-mini"))),
        ];
        model.fleet.fold.add(records.map(|record| (record, 1)));
        let mut vitals = live(n, u64::try_from(n).unwrap());
        let amounts = (0..60).map(|part| Spend { tokens: part * 7, ..Spend::default() });
        vitals.burn = Burn::noted(NOW.0 / 60_000, amounts);
        reported.push(vitals);
    }
    let mut it = Session::of(model);
    let heard = Instant::now();
    it.give(RosterInput::Fleet(FleetNews::Reported(reported))).give(RosterInput::Tick(NOW));
    let heard = heard.elapsed();
    assert!(it.model().lines.len() > 10_000);
    let mut terminal = Terminal::new(TestBackend::new(300, 60)).unwrap();
    let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..FRAMES {
        it.key(crossterm::event::KeyCode::PageDown);
        let begun = Instant::now();
        terminal.draw(|frame| draw(it.model(), frame)).unwrap();
        let took = begun.elapsed();
        (total, longest) = (total + took, longest.max(took));
    }
    let keys = Instant::now();
    it.keys("/number 77");
    let filtered = keys.elapsed() / 10;
    println!(
        "frame of {AGENTS} agents: {:.1} ms on average, {:.1} ms at most; all rows anew: {:.1} ms; a key of a filter: {:.1} ms",
        (total / FRAMES).as_secs_f64() * 1e3,
        longest.as_secs_f64() * 1e3,
        heard.as_secs_f64() * 1e3,
        filtered.as_secs_f64() * 1e3,
    );
    assert!(total / FRAMES < FRAME_MAX, "{total:?} for {FRAMES} frames");
}
