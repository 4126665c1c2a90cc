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
    /// Ours is at most so much, whatever the floor.
    Within(f64),
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
    /// Bytes.
    Bytes,
    /// Messages.
    Messages,
    /// Hundredths of one core.
    Percent,
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

    /// Adds a round of what has no floor: a size, or what idling costs.
    pub(crate) fn push_alone(&mut self, ours: f64) {
        self.ours.push(ours);
    }

    /// Adds a round: ours and its floor, measured one after the other.
    pub(crate) fn push(&mut self, ours: f64, floor: f64) {
        self.ours.push(ours);
        self.floor.push(floor);
        self.ratio.push(ours / floor);
    }

    /// Whether every number of it is one that can be believed.
    pub(crate) fn is_sound(&self) -> bool {
        let positive = |rounds: &Rounds| rounds.spread().0 > 0.0;
        self.ours.count() > 0
            && [&self.ours, &self.floor]
                .into_iter()
                .all(|rounds| rounds.count() == 0 || positive(rounds))
    }

    fn verdict(&self) -> &'static str {
        let ratio = self.ratio.median();
        match self.aim {
            Aim::AtMost(most) if ratio <= most => "yes",
            Aim::AtLeast(least) if ratio >= least => "yes",
            Aim::PerSecond(least) if self.ours.median() >= least => "yes",
            Aim::Within(most) if self.ours.spread().1 <= most => "yes",
            Aim::AtMost(_) | Aim::AtLeast(_) | Aim::PerSecond(_) | Aim::Within(_) => "**no**",
            Aim::None => "",
        }
    }

    fn written(&self) -> String {
        let number = |value: f64| match self.unit {
            Unit::Micros if value >= 1e6 => format!("{:.2} s", value / 1e6),
            Unit::Micros if value >= 10_000.0 => format!("{:.1} ms", value / 1e3),
            Unit::Micros => format!("{value:.0} us"),
            Unit::PerSecond if value < 100.0 => format!("{value:.1} /s"),
            Unit::PerSecond => format!("{value:.0} /s"),
            Unit::Bytes if value >= 10_240.0 => format!("{:.1} KiB", value / 1024.0),
            Unit::Bytes => format!("{value:.0} B"),
            Unit::Percent => format!("{value:.1} %"),
            Unit::Messages => format!("{value:.1}"),
        };
        let with_spread = |rounds: &Rounds, number: &dyn Fn(f64) -> String| {
            let (low, high) = rounds.spread();
            match rounds.count() {
                0 => String::new(),
                1 => number(rounds.median()),
                _ => format!("{} ({} .. {})", number(rounds.median()), number(low), number(high)),
            }
        };
        let ratio = with_spread(&self.ratio, &|value| format!("{value:.2}"));
        let aim = match self.aim {
            Aim::AtMost(most) => format!("<= {most:.1}"),
            Aim::AtLeast(least) => format!(">= {least:.1}"),
            Aim::PerSecond(least) => format!(">= {least:.0} /s"),
            Aim::Within(most) => format!("<= {}", number(most)),
            Aim::None => String::new(),
        };
        let (ours, floor) = (with_spread(&self.ours, &number), with_spread(&self.floor, &number));
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
