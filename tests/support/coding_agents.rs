//! Real coding agents, where they are installed: `tests/run` does that when the package index has them.

use std::path::PathBuf;

use crate::fleet::target;

/// The program of this name: `TETRARCH_CLAUDE` and the like, else where `tests/run` puts it; none when it is not
/// installed.
#[must_use]
pub fn program_of(name: &str) -> Option<PathBuf> {
    let own = || target().join(format!("agents/{name}/node_modules/.bin/{name}"));
    let variable = format!("TETRARCH_{}", name.to_uppercase());
    let path = std::env::var_os(variable).map_or_else(own, PathBuf::from);
    path.canonicalize().ok()
}
