//! The table of a run: one line for each figure, ours beside its floor, with the ratio and the
//! aim of spec 10. It judges nothing but whether a figure is within its aim.

use std::fmt::Write as _;

use crate::numbers::Rounds;

/// What a figure is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim {
    /// A time: ours is at most so many times the floor.
    AtMost(f64),
    /// A rate: ours is at least this share of the floor.
    AtLeast(f64),
    /// A rate: ours is at least so many in a second, whatever the floor.
    PerSecond(f64),
    /// Not a figure of spec 10; shown for its neighbours' sake.
    None,
}

/// How a number is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    /// Microseconds.
    Micros,
    /// Things in one second.
    PerSecond,
}

/// One figure.
#[derive(Debug)]
pub(crate) struct Line {
    /// What was measured.
    pub(crate) what: String,
    unit: Unit,
    aim: Aim,
    ours: Rounds,
    floor: Rounds,
    ratio: Rounds,
}

impl Line {
    /// A figure without rounds.
    pub(crate) fn new(what: &str, unit: Unit, aim: Aim) -> Self {
        let what = what.to_owned();
        let (ours, floor, ratio) = (Rounds::default(), Rounds::default(), Rounds::default());
        Self { what, unit, aim, ours, floor, ratio }
    }

    /// Adds a round: ours and its floor, measured one after the other.
    pub(crate) fn push(&mut self, ours: f64, floor: f64) {
        self.ours.push(ours);
        self.floor.push(floor);
        self.ratio.push(ours / floor);
    }

    /// Whether every number of it is one that can be believed.
    pub(crate) fn is_sound(&self) -> bool {
        let positive = |rounds: &Rounds| rounds.count() > 0 && rounds.spread().0 > 0.0;
        positive(&self.ours) && positive(&self.floor)
    }

    fn verdict(&self) -> &'static str {
        let ratio = self.ratio.median();
        match self.aim {
            Aim::AtMost(most) if ratio <= most => "yes",
            Aim::AtLeast(least) if ratio >= least => "yes",
            Aim::PerSecond(least) if self.ours.median() >= least => "yes",
            Aim::AtMost(_) | Aim::AtLeast(_) | Aim::PerSecond(_) => "**no**",
            Aim::None => "",
        }
    }

    fn written(&self) -> String {
        let number = |value: f64| match self.unit {
            Unit::Micros if value >= 10_000.0 => format!("{:.1} ms", value / 1e3),
            Unit::Micros => format!("{value:.0} us"),
            Unit::PerSecond if value < 100.0 => format!("{value:.1} /s"),
            Unit::PerSecond => format!("{value:.0} /s"),
        };
        let with_spread = |rounds: &Rounds| {
            let (low, high) = rounds.spread();
            format!("{} ({} .. {})", number(rounds.median()), number(low), number(high))
        };
        let (low, high) = self.ratio.spread();
        let ratio = format!("{:.2} ({low:.2} .. {high:.2})", self.ratio.median());
        let aim = match self.aim {
            Aim::AtMost(most) => format!("<= {most:.1}"),
            Aim::AtLeast(least) => format!(">= {least:.1}"),
            Aim::PerSecond(least) => format!(">= {least:.0} /s"),
            Aim::None => String::new(),
        };
        let (ours, floor) = (with_spread(&self.ours), with_spread(&self.floor));
        format!("| {} | {ours} | {floor} | {ratio} | {aim} | {} |", self.what, self.verdict())
    }
}

/// The table in Markdown.
pub(crate) fn markdown(lines: &[Line]) -> String {
    let rounds = lines.iter().map(|line| line.ours.count()).max().unwrap_or(0);
    let mut text = format!(
        "Median of {rounds} rounds (smallest .. largest); the ratio is that of each round.\n\n\
         | figure | Tetrarch | floor | ratio | aim | held |\n|---|---|---|---|---|---|\n"
    );
    for line in lines {
        // Writing into a string cannot fail.
        let _written = writeln!(text, "{}", line.written());
    }
    text
}
