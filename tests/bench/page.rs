//! The page of the last figures: text that is written by hand, tables that are written here. A
//! table that was not measured now stays as it was.

use std::path::PathBuf;

/// The page without figures; `{name}` is where a table goes.
const PAGE: &str = include_str!("page.md");
const TABLES: [&str; 3] = ["rates", "plans", "recovery"];

/// Writes a table into the page.
pub(crate) fn write(name: &str, table: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let page = TABLES.into_iter().fold(PAGE.to_owned(), |page, known| {
        let kept = between(&old, known).unwrap_or_default();
        let text = if known == name { table } else { kept };
        let (start, end) = marks(known);
        page.replace(&format!("{{{known}}}"), &format!("{start}\n{}\n{end}", text.trim()))
    });
    std::fs::write(path, page).unwrap();
}

fn marks(name: &str) -> (String, String) {
    (format!("<!-- {name} -->"), format!("<!-- end of {name} -->"))
}

fn between<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (start, end) = marks(name);
    page.split_once(&start)?.1.split_once(&end).map(|(table, _)| table)
}
