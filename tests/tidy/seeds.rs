//! The table of what the sources ask for (docs/seeds.md): each row has a status and what that status needs, the files and
//! tests that it names exist, and the counts are those of the rows. Whether a row is right is for a reader to judge.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use crate::offence::{Offence, assert_lines, assert_none};
use crate::repository::{root, text};

const PAGE: &str = "docs/seeds.md";
const STATUSES: [&str; 4] = ["works", "partly", "open", "differs"];
/// What may be missing belongs to one of these.
const TOPICS: [&str; 7] =
    ["actors", "overseer", "delegation", "hosts", "coding agents", "conversations", "screens"];
/// Cells of a row: number, capability, status, code, test or record, what is missing.
const CELLS: usize = 6;
/// The column of the status.
const STATUS: usize = 2;
/// Lines of a table before its first row.
const HEAD: usize = 2;
/// What the sources ask for does not get less.
const ROWS_MIN: usize = 266;
/// The line of the counts that sums all sources up.
const ALL: &str = "all";

/// Gives the text of a file, by its path relative to the top.
type Read<'a> = &'a dyn Fn(&str) -> io::Result<String>;

/// One row of a table.
struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

/// The page's tables.
#[derive(Default)]
struct Tables<'a> {
    counts: Vec<Row<'a>>,
    /// With the number of their source.
    rows: Vec<(&'a str, Row<'a>)>,
}

/// What a row rests on beside its code.
enum Evidence<'a> {
    Test {
        name: &'a str,
        path: &'a str,
    },
    /// A decision record or a design page, relative to the page.
    Record(&'a str),
}

#[test]
fn every_row_of_the_sources_names_what_exists() {
    let page = text(PAGE);
    let read = |path: &str| fs::read_to_string(root().join(path));
    assert_none(&offences(&page, &read), "mend the row; a changed status changes the counts");
    let rows = tables(&page).rows.len();
    assert!(rows >= ROWS_MIN, "{rows} rows, fewer than {ROWS_MIN}");
}

/// What is wrong with the rows, then with the counts.
fn offences(page: &str, read: Read<'_>) -> Vec<Offence> {
    let tables = tables(page);
    let mut found = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (source, row) in &tables.rows {
        let place = places.entry(*source).or_default();
        *place += 1;
        let wrong = row_errors(&format!("{source}.{place}"), row, read);
        found.extend(wrong.into_iter().map(|what| Offence::new(PAGE, row.line, what)));
    }
    found.extend(count_offences(&tables));
    found
}

fn tables(page: &str) -> Tables<'_> {
    let mut tables = Tables::default();
    let (mut heading, mut seen) = ("", 0);
    for (index, line) in page.lines().enumerate() {
        if let Some(next) = line.strip_prefix("## ") {
            (heading, seen) = (next, 0);
        }
        let Some(inner) = line.strip_prefix('|') else { continue };
        seen += 1;
        if seen <= HEAD {
            continue;
        }
        // A line whose last cell is not closed has none.
        let cells = inner.strip_suffix('|').map_or_else(Vec::new, split_cells);
        let row = Row { line: index + 1, cells };
        let source = heading.strip_prefix("Seed ").and_then(|rest| rest.split_once(':'));
        if let Some((source, _)) = source {
            tables.rows.push((source, row));
        } else if heading == "Counts" {
            tables.counts.push(row);
        }
    }
    tables
}

fn split_cells(inner: &str) -> Vec<&str> {
    inner.split('|').map(str::trim).collect()
}

fn row_errors(wanted: &str, row: &Row<'_>, read: Read<'_>) -> Vec<String> {
    let &[number, capability, status, code, evidence, missing] = row.cells.as_slice() else {
        return vec![format!("{} cells, not {CELLS}", row.cells.len())];
    };
    let mut wrong = Vec::new();
    if number != wanted {
        wrong.push(format!("its number is not {wanted}"));
    }
    if capability.is_empty() {
        wrong.push("it names no capability".to_owned());
    }
    for item in items(code) {
        match quoted(item) {
            Some(path) => wrong.extend(unreadable(path, read)),
            None => wrong.push(format!("{item} is no path in backquotes")),
        }
    }
    let (mut tests, mut records) = (0, 0);
    for item in items(evidence) {
        match evidence_in(item) {
            Some(Evidence::Test { name, path }) => {
                tests += 1;
                wrong.extend(test_error(name, path, read));
            }
            Some(Evidence::Record(path)) => {
                records += 1;
                wrong.extend(record_error(path, read));
            }
            None => wrong.push(format!("{item} is neither `test` in `file` nor a link")),
        }
    }
    let needs = unmet(status, (items(code).count(), tests, records), missing);
    wrong.extend(needs.map(|what| format!("{status:?}: {what}")));
    wrong
}

/// What a status asks of its row and does not get.
fn unmet(
    status: &str,
    (code, tests, records): (usize, usize, usize),
    missing: &str,
) -> Option<String> {
    let named = missing
        .split_once(": ")
        .is_some_and(|(topic, what)| TOPICS.contains(&topic) && !what.is_empty());
    let what = match status {
        "works" if code == 0 || tests == 0 => "name the code and a test",
        "partly" if code == 0 => "name the code that there is",
        "open" if code + tests + records > 0 => "name neither code nor tests, or call it partly",
        "differs" if records == 0 => "link the decision record or the design page",
        "partly" | "open" if !named => {
            return Some(format!("say what is missing after its topic: {}", TOPICS.join(", ")));
        }
        "works" | "differs" if !missing.is_empty() => "nothing can be missing of it",
        known if STATUSES.contains(&known) => return None,
        _ => return Some(format!("is no status; there are {}", STATUSES.join(", "))),
    };
    Some(what.to_owned())
}

fn items(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(", ").filter(|item| !item.is_empty())
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.strip_suffix('`')
}

fn evidence_in(item: &str) -> Option<Evidence<'_>> {
    if let Some(link) = item.strip_prefix('[') {
        let (_, target) = link.split_once("](")?;
        return target.strip_suffix(')').map(Evidence::Record);
    }
    let (name, path) = item.split_once(" in ")?;
    Some(Evidence::Test { name: quoted(name)?, path: quoted(path)? })
}

fn unreadable(path: &str, read: Read<'_>) -> Option<String> {
    read(path).err().map(|error| format!("{path}: {error}"))
}

fn test_error(name: &str, path: &str, read: Read<'_>) -> Option<String> {
    match read(path) {
        Ok(source) if source.contains(&format!("fn {name}(")) => None,
        Ok(_) => Some(format!("{path} has no `fn {name}`")),
        Err(error) => Some(format!("{path}: {error}")),
    }
}

fn record_error(path: &str, read: Read<'_>) -> Option<String> {
    if !["decisions/", "design/"].iter().any(|dir| path.starts_with(dir)) {
        return Some(format!("{path} is neither a decision record nor a design page"));
    }
    unreadable(&format!("docs/{path}"), read)
}

/// Counts that are not those of the rows.
fn count_offences(tables: &Tables<'_>) -> Vec<Offence> {
    // Of each source: its rows, then those of each status.
    let mut counted: BTreeMap<&str, [usize; 1 + STATUSES.len()]> = BTreeMap::new();
    for (source, row) in &tables.rows {
        let status = row.cells.get(STATUS);
        let status = status.and_then(|cell| STATUSES.iter().position(|known| known == cell));
        for key in [*source, ALL] {
            let sums = counted.entry(key).or_default();
            sums[0] += 1;
            if let Some(at) = status {
                sums[1 + at] += 1;
            }
        }
    }
    let mut found = Vec::new();
    let mut stated = BTreeSet::new();
    for row in &tables.counts {
        let Some((label, numbers)) = row.cells.split_first() else {
            found.push(Offence::new(PAGE, row.line, "its last cell is not closed"));
            continue;
        };
        let source = label.strip_prefix("seed ").and_then(|rest| rest.split_once(':'));
        let source = source.map_or(*label, |(source, _)| source);
        stated.insert(source);
        let Some(sums) = counted.get(source) else {
            found.push(Offence::new(PAGE, row.line, format!("there are no rows of {source}")));
            continue;
        };
        let sums: Vec<String> = sums.iter().map(ToString::to_string).collect();
        if numbers.join(" | ") != sums.join(" | ") {
            found.push(Offence::new(PAGE, row.line, format!("the rows give {}", sums.join(" | "))));
        }
    }
    let lacking = counted.keys().filter(|source| !stated.contains(*source));
    found.extend(lacking.map(|source| Offence::new(PAGE, 1, format!("{source} is not counted"))));
    found
}

const SAMPLE: &str = "\
## Counts

| source | rows | works | partly | open | differs |
|---|---:|---:|---:|---:|---:|
| seed 0: a | 4 | 1 | 1 | 1 | 1 |
| all | 4 | 1 | 1 | 1 | 1 |

## Seed 0: a

| # | capability | status | code | test or record | missing |
|---|---|---|---|---|---|
| 0.1 | a | works | `a.rs` | `it_works` in `a.rs` | |
| 0.2 | b | partly | `a.rs` | | overseer: the rest |
| 0.3 | c | open | | | screens: all of it |
| 0.4 | d | differs | | [design 01](design/01-a.md) | |
";

fn sample(path: &str) -> io::Result<String> {
    match path {
        "a.rs" => Ok("fn it_works() {}\n".to_owned()),
        "docs/design/01-a.md" => Ok("# 01\n".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

#[test]
fn a_bad_row_or_count_of_the_sources_is_found() {
    assert_lines(&offences(SAMPLE, &sample), &[]);
    let cases: [(&str, &str, &[usize]); 18] = [
        ("| works | `a.rs`", "| done | `a.rs`", &[12, 5, 6]),
        ("| works | `a.rs`", "| works | `b.rs`", &[12]),
        ("| works | `a.rs`", "| works | a.rs", &[12]),
        ("it_works", "it_is", &[12]),
        ("in `a.rs`", "in `b.rs`", &[12]),
        ("`it_works` in `a.rs` | |", "| |", &[12]),
        ("`it_works` in `a.rs` | |", "`it_works` in `a.rs` | hosts: a part |", &[12]),
        ("| overseer: the rest |", "| the rest |", &[13]),
        ("| partly | `a.rs` |", "| partly | |", &[13]),
        ("| screens: all of it |", "| |", &[14]),
        ("| open | |", "| open | `a.rs` |", &[14]),
        ("| 0.3 | c", "| 0.5 | c", &[14]),
        ("01-a.md", "02-b.md", &[15]),
        ("[design 01](design/01-a.md)", "", &[15]),
        ("| 0.4 | d |", "| 0.4 |", &[15, 5, 6]),
        ("| all | 4 |", "| all | 5 |", &[6]),
        ("| seed 0: a | 4 | 1 | 1 | 1 | 1 |\n", "", &[1]),
        ("| seed 0: a |", "| seed 7: a |", &[5, 1]),
    ];
    for (from, to, lines) in cases {
        let bad = SAMPLE.replacen(from, to, 1);
        assert_ne!(bad, SAMPLE, "{from}");
        assert_lines(&offences(&bad, &sample), lines);
    }
}
