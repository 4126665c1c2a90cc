//! Real coding agents, where they are installed: `tests/run` does that when the package index has them.

use std::path::PathBuf;

use crate::fleet::target;

/// The program `claude`: `TETRARCH_CLAUDE`, else where `tests/run` puts it; none when it is not installed.
#[must_use]
pub fn claude() -> Option<PathBuf> {
    let own = || target().join("agents/claude/node_modules/.bin/claude");
    let path = std::env::var_os("TETRARCH_CLAUDE").map_or_else(own, PathBuf::from);
    path.canonicalize().ok()
}
