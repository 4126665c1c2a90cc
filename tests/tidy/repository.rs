//! Finds the files of this repository. It reads them and changes none.

use std::fs;
use std::path::{Path, PathBuf};

use crate::source::Source;

/// Directories that hold nothing a person wrote.
const SKIPPED: [&str; 2] = ["target", "__pycache__"];

/// The repository's top.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file below `dir` (relative to the top) whose name ends with `suffix`, as paths
/// relative to the top, sorted. Panics when `dir` is missing: a rule about nothing passes nothing.
pub(crate) fn files(dir: &str, suffix: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(&root(), dir, suffix, &mut found);
    found.sort();
    found
}

/// The text of one file, by its path relative to the top.
pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Rust source of the crates, the examples and the tests.
pub(crate) fn sources() -> Vec<Source> {
    let mut paths = files("crates", ".rs");
    paths.extend(files("examples", ".rs"));
    paths.extend(files("tests", ".rs"));
    assert!(paths.len() > 10, "the sources were not found: {paths:?}");
    paths.iter().map(|path| Source::parse(path, &text(path))).collect()
}

/// Names in a directory, without those that begin with a dot, sorted.
pub(crate) fn names(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(dir)).unwrap_or_else(|error| panic!("{dir}: {error}"));
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

fn walk(root: &Path, dir: &str, suffix: &str, found: &mut Vec<String>) {
    for name in names(dir) {
        let path = format!("{dir}/{name}");
        if root.join(&path).is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                walk(root, &path, suffix, found);
            }
        } else if name.ends_with(suffix) {
            found.push(path);
        }
    }
}
