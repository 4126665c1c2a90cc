//! The rules that code cites are in the repository: a comment that cites `spec 04, Hosts` and a rule on the ledger that is
//! called `04 Hosts` both name the page and the heading of `docs/design/`. It judges no page.

use std::collections::BTreeMap;

use crate::offence::{Offence, assert_lines, assert_none};
use crate::repository::{files, sources, text};
use crate::source::Source;

const PAGES: &str = "docs/design";
const CITED: &str = "spec ";
/// Fewest citations in comments and rules; when they are gone the scan is broken.
const COMMENTS_MIN: usize = 300;
const RULES_MIN: usize = 40;

/// Headings by the number of their page.
type Headings = BTreeMap<String, Vec<String>>;

#[test]
fn a_cited_rule_is_on_its_page() {
    let headings = headings();
    let mut found = Vec::new();
    let (mut comments, mut rules) = (0, 0);
    let schema = files("proto", ".proto");
    let schema = schema.iter().map(|path| Source::parse(path, &text(path)));
    for source in &sources().into_iter().chain(schema).collect::<Vec<_>>() {
        if source.path == "tests/tidy/citations.rs" {
            continue;
        }
        let cited = citations(source);
        comments += cited.len();
        found.extend(cited.into_iter().filter_map(|cited| stray(&headings, source, cited)));
        let named = ledger_rules(source);
        rules += named.len();
        found.extend(named.into_iter().filter_map(|named| unknown(&headings, source, named)));
    }
    assert_none(&found, "cite a heading of docs/design, or write the rule there");
    assert!(comments >= COMMENTS_MIN && rules >= RULES_MIN, "{comments} comments, {rules} rules");
}

fn headings() -> Headings {
    let mut pages = Headings::new();
    for path in files(PAGES, ".md") {
        let name = path.rsplit('/').next().unwrap_or_default();
        let lines = text(&path);
        let below = lines.lines().filter_map(|line| line.strip_prefix("## "));
        pages.insert(name.chars().take(2).collect(), below.map(str::to_owned).collect());
    }
    pages
}

/// A citation: its line, the page's number and what follows it.
type Cited = (usize, String, String);

/// Citations in comments. A comment that goes on in the next line is read as one.
fn citations(source: &Source) -> Vec<Cited> {
    let mut found = Vec::new();
    for (index, comment) in source.comments.iter().enumerate() {
        let next = source.comments.get(index + 1).filter(|next| next.line == comment.line + 1);
        let more = next.map_or("", |next| next.text.trim_start_matches(['/', '!', ' ']));
        let own = comment.text.trim_end();
        let whole = format!("{own} {more}");
        for (at, _) in whole.match_indices(CITED).filter(|(at, _)| *at + CITED.len() < own.len()) {
            let rest = &whole[at + CITED.len()..];
            let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
            if number.len() == 2 && !whole[..at].ends_with(char::is_alphanumeric) {
                found.push((comment.line, number, rest[2..].to_owned()));
            }
        }
    }
    found
}

/// A citation that names a heading begins with a comma and a capital, a code word or a heading's own first word.
fn stray(headings: &Headings, source: &Source, (line, page, rest): Cited) -> Option<Offence> {
    let Some(known) = headings.get(&page) else {
        return Some(Offence::new(&source.path, line, format!("there is no page {page}")));
    };
    let words = rest.strip_prefix(", ").filter(|words| words.starts_with(char::is_uppercase))?;
    let named = known.iter().any(|heading| words.starts_with(heading.as_str()));
    (!named).then(|| {
        let shown: String = words.chars().take(30).collect();
        Offence::new(&source.path, line, format!("page {page} has no heading {shown:?}"))
    })
}

/// Literals that name a rule as events on the ledger do: two digits and a heading.
fn ledger_rules(source: &Source) -> Vec<Cited> {
    if source.crate_name().is_none() {
        return Vec::new();
    }
    let literals = source.literals.iter().filter(|found| !source.in_test(found.line));
    literals
        .filter_map(|found| {
            let text = found.text.trim_matches('"');
            let (page, heading) = text.split_once(' ')?;
            let rule = page.len() == 2
                && page.chars().all(|c| c.is_ascii_digit())
                && heading.starts_with(char::is_uppercase);
            rule.then(|| (found.line, page.to_owned(), heading.to_owned()))
        })
        .collect()
}

fn unknown(headings: &Headings, source: &Source, (line, page, rule): Cited) -> Option<Offence> {
    let known = headings.get(&page).is_some_and(|known| known.contains(&rule));
    (!known)
        .then(|| Offence::new(&source.path, line, format!("page {page} has no heading {rule:?}")))
}

#[test]
fn a_stray_citation_is_found() {
    let pages =
        Headings::from([("04".to_owned(), vec!["Hosts".to_owned(), "The sweeper".to_owned()])]);
    let text = "// as it says (spec 04, Hosts)\n// spec 04, Guests\n// spec 14\n// spec 04 says so\n\
        //! (spec 04, The\n//! sweeper)\nlet a = \"04 Hosts\";\nlet b = \"04 Guests\";\n";
    let source = Source::parse("crates/tetrarch-core/src/a.rs", text);
    let mut found: Vec<Offence> =
        citations(&source).into_iter().filter_map(|it| stray(&pages, &source, it)).collect();
    found.extend(ledger_rules(&source).into_iter().filter_map(|it| unknown(&pages, &source, it)));
    assert_lines(&found, &[2, 3, 8]);
}
