//! `tetrarch doctor agents`: which coding agents this machine has, and what their adapters do. Looks for programs in
//! `PATH`, as a host does; asks no bus.

use std::path::Path;

use serde_json::{Map, Value, json};
use tetrarch_runner::{ADAPTERS, AdapterSheet};

use super::machine::said;
use crate::output::{self, Cell, Tone, align, is_coloured};
use crate::{CliResult, Context};

/// One adapter on this machine.
struct AgentFound {
    sheet: AdapterSheet,
    /// What the program says of its version, or why it says nothing.
    version: Result<String, String>,
}

impl AgentFound {
    /// Whether the version is one that the adapter was tested with.
    fn is_tested(&self) -> bool {
        let mut words = self.version.iter().flat_map(|text| text.split_whitespace());
        words.any(|word| self.sheet.tested.contains(&word))
    }

    fn json(&self) -> Value {
        let named = |(what, how): &(&str, tetrarch_runner::Capability)| {
            ((*what).to_owned(), json!(how.to_string()))
        };
        let capabilities: Map<String, Value> = self.sheet.capabilities.iter().map(named).collect();
        json!({
            "program": self.sheet.program,
            "runner": self.sheet.runner,
            "version": self.version.as_ref().ok(),
            "problem": self.version.as_ref().err(),
            "tested": self.sheet.tested,
            "isTested": self.is_tested(),
            "install": self.sheet.install,
            "capabilities": capabilities,
        })
    }

    fn row(&self) -> Vec<Cell> {
        let (found, tone) = match &self.version {
            Ok(version) if self.is_tested() => (version, Tone::Good),
            Ok(version) => (version, Tone::Warn),
            Err(reason) => (reason, Tone::Warn),
        };
        let next = if self.is_tested() { "" } else { self.sheet.install };
        vec![
            self.sheet.program.into(),
            Cell::from(found.as_str()).toned(tone),
            self.sheet.tested.join(", ").into(),
            next.into(),
        ]
    }
}

/// Runs the command. A program that is missing is no error.
///
/// # Errors
/// Nothing can be printed.
pub(super) async fn run(context: &Context) -> CliResult {
    let mut all = Vec::with_capacity(ADAPTERS.len());
    for sheet in ADAPTERS {
        all.push(AgentFound { sheet, version: said(Path::new(sheet.program)).await });
    }
    let told: Vec<Value> = all.iter().map(AgentFound::json).collect();
    output::record(context.output, &Value::Array(told), || sheet(&all))
}

/// For people: the programs, then what is done how well.
fn sheet(all: &[AgentFound]) -> String {
    let head = ["AGENT", "FOUND", "TESTED WITH", "TO INSTALL IT"].map(Cell::from).to_vec();
    let found: Vec<Vec<Cell>> = [head].into_iter().chain(all.iter().map(AgentFound::row)).collect();
    let names = all.iter().map(|agent| Cell::from(agent.sheet.program));
    let mut table: Vec<Vec<Cell>> =
        vec![[Cell::from("CAPABILITY")].into_iter().chain(names).collect()];
    let rows = all.first().map(|agent| agent.sheet.capabilities).unwrap_or_default();
    for (what, _) in rows {
        let how = all.iter().map(|agent| {
            let own = agent.sheet.capabilities.iter().find(|(name, _)| name == what);
            Cell::from(own.map_or_else(String::new, |(_, how)| how.to_string()))
        });
        table.push([Cell::from(*what)].into_iter().chain(how).collect());
    }
    format!("{}\n{}", align(&found, is_coloured()), align(&table, is_coloured()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_tested_when_one_of_its_words_is_listed() {
        let sheet = ADAPTERS[0];
        let tested = |text: &str| Ok(text.replace("{}", sheet.tested[0]));
        for (version, expected) in [
            (tested("{} (Claude Code)"), true),
            (tested("codex-cli {}"), true),
            (tested("{}"), true),
            (tested("{}0"), false),
            (Ok("9.9.9".to_owned()), false),
            (Ok(String::new()), false),
            (Err("it was not found".to_owned()), false),
        ] {
            let agent = AgentFound { sheet, version: version.clone() };
            assert_eq!(agent.is_tested(), expected, "{version:?}");
            let install = agent.json()["install"].clone();
            assert!(install.as_str().unwrap().contains(sheet.tested[0]), "{install}");
            let shown = super::sheet(&[agent]);
            assert_eq!(!shown.contains("npm install"), expected, "{shown}");
        }
    }
}
