//! One thing that `doctor` looked at: how it is, and what to do about it. It looks at nothing itself.

use serde_json::{Value, json};

use crate::output::{Cell, Tone};

/// Begins the names of checks of layers.
pub(super) const LAYER: &str = "isolation: ";

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CheckStatus {
    /// It is well.
    Ok,
    /// It works, but not as well as it could.
    Warn,
    /// It does not work.
    Fail,
}

impl CheckStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Warn => Tone::Warn,
            Self::Fail => Tone::Bad,
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DoctorCheck {
    pub(super) name: String,
    pub(super) verdict: CheckStatus,
    pub(super) what: String,
    pub(super) next: Option<String>,
    /// The state of a layer of isolation and what it stops, where that is what was looked at.
    pub(super) layer: Option<(&'static str, &'static str)>,
}

impl DoctorCheck {
    pub(super) fn new(name: &str, verdict: CheckStatus, what: impl Into<String>) -> Self {
        Self { name: name.to_owned(), verdict, what: what.into(), next: None, layer: None }
    }

    pub(super) fn ok(name: &str, what: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Ok, what)
    }

    pub(super) fn warn(name: &str, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..Self::new(name, CheckStatus::Warn, what) }
    }

    pub(super) fn fail(name: &str, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..Self::new(name, CheckStatus::Fail, what) }
    }

    pub(super) fn json(&self) -> Value {
        let mut all = json!({
            "check": self.name,
            "verdict": self.verdict.as_str(),
            "what": self.what,
            "next": self.next,
        });
        if let Some((state, stops)) = self.layer {
            all["state"] = state.into();
            all["stops"] = stops.into();
        }
        all
    }

    /// Its line in the table of layers.
    pub(super) fn layer_line(&self) -> Option<Vec<Cell>> {
        let (state, stops) = self.layer?;
        let state = Cell::from(state).toned(self.verdict.tone());
        let next = self.next.as_ref().map(|next| format!("; {next}")).unwrap_or_default();
        let layer = self.name.trim_start_matches(LAYER);
        Some(vec![layer.into(), state, stops.into(), format!("{}{next}", self.what).into()])
    }

    pub(super) fn lines(&self) -> Vec<Vec<Cell>> {
        let verdict = Cell::from(self.verdict.as_str()).toned(self.verdict.tone());
        let mut what = self.what.lines();
        let first = what.next().unwrap_or_default();
        let mut lines = vec![vec![verdict, self.name.as_str().into(), first.into()]];
        let below = |text: String| vec![Cell::default(), Cell::default(), text.into()];
        lines.extend(what.map(|line| below(line.to_owned())));
        lines.extend(self.next.as_ref().map(|next| below(format!("next: {next}"))));
        lines
    }
}
