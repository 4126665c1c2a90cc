//! Rules about documents: the architecture stays short, a decision says why, a test that is to be run exists, a link
//! leads to a file.

use crate::offence::{Offence, assert_lines, assert_none};
use crate::repository::{files, root, text};

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const ARCHITECTURE_LINES_MAX: usize = 300;
const HEADINGS: [&str; 4] = ["## Context", "## Options", "## Decision", "## Consequences"];

#[test]
fn architecture_page_is_short() {
    let found: Vec<Offence> = long(&text(ARCHITECTURE)).into_iter().collect();
    assert_none(&found, "say less, or move a part into a document of its own");
}

#[test]
fn every_decision_says_why() {
    let paths = files("docs/decisions", ".md");
    assert!(!paths.is_empty(), "no decisions were found");
    let found: Vec<Offence> =
        paths.iter().flat_map(|path| decision_offences(path, &text(path))).collect();
    assert_none(&found, "follow docs/decisions/0000-template.md");
}

#[test]
fn every_test_filter_in_a_document_finds_a_test() {
    let sources: Vec<String> = files("tests", ".rs").iter().map(|path| text(path)).collect();
    let mut found = Vec::new();
    for path in files("docs", ".md") {
        let text = text(&path);
        let named = text.lines().enumerate().filter_map(|(at, line)| Some((at, filter(line)?)));
        found.extend(named.filter(|(_, name)| !sources.iter().any(|it| finds(it, name))).map(
            |(at, name)| Offence::new(&path, at + 1, format!("no test has `{name}` in its name")),
        ));
    }
    assert_none(&found, "cargo runs nothing then, and succeeds");
}

#[test]
fn every_link_of_a_document_leads_to_a_file() {
    let below = ["docs", "examples", "tests"].iter().flat_map(|folder| files(folder, ".md"));
    let paths = below.chain(["README.md".to_owned()]);
    let found: Vec<Offence> = paths.flat_map(|path| dead_links(&path, &text(&path))).collect();
    assert_none(&found, "name the file relative to the document");
}

fn dead_links(path: &str, text: &str) -> Vec<Offence> {
    let at = root().join(path);
    let leads = |target: &str| at.parent().is_some_and(|folder| folder.join(target).exists());
    let lines = text.lines().enumerate();
    let links = lines.flat_map(|(at, line)| links(line).map(move |target| (at + 1, target)));
    let dead = links.filter(|(_, target)| !leads(target));
    dead.map(|(line, target)| Offence::new(path, line, format!("no file {target}"))).collect()
}

/// The files that a line links to.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let files = targets.filter(|target| !target.contains(':') && !target.starts_with('#'));
    files.filter_map(|target| target.split('#').next())
}

#[test]
fn link_to_no_file_is_found() {
    let text =
        "[it](ARCHITECTURE.md#first), [web](https://x.org/a)\n[no](nowhere.md) [here](#here)";
    assert_lines(&dead_links("docs/README.md", text), &[2]);
}

/// What a line filters the end-to-end tests by, for their output.
fn filter(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("-- --nocapture ")?;
    rest.split(|it: char| it.is_whitespace() || it == '`').next()
}

fn finds(source: &str, name: &str) -> bool {
    let of =
        |line: &&str| line.trim_start().split_once("fn ").is_some_and(|(_, it)| it.contains(name));
    source.lines().any(|line| of(&line))
}

#[test]
fn filter_without_a_test_differs_from_one_with_it() {
    let line =
        "    cd tests && X=1 cargo test -p p --test e2e -- --nocapture power_cuts   # seconds";
    assert_eq!(filter(line), Some("power_cuts"));
    assert_eq!(filter("cargo test -- wall_clock"), None);
    assert!(finds("async fn writes_survive_power_cuts() {", "power_cuts"));
    assert!(!finds("// power_cuts\nfn other() {", "power_cuts"));
}

fn long(text: &str) -> Option<Offence> {
    let count = text.lines().count();
    (count > ARCHITECTURE_LINES_MAX)
        .then(|| Offence::new(ARCHITECTURE, count, format!("more than {ARCHITECTURE_LINES_MAX}")))
}

/// A record is named `0001-words.md` and has the four headings, in order, each with text.
fn decision_offences(path: &str, text: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    let name = path.rsplit('/').next().unwrap_or(path);
    let number: Vec<char> = name.chars().take(5).collect();
    if !matches!(number.as_slice(), [digits @ .., '-'] if digits.iter().all(char::is_ascii_digit)) {
        found.push(Offence::new(path, 1, "its name does not begin with four digits and `-`"));
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut from = 0;
    for heading in HEADINGS {
        let Some(at) = lines.iter().skip(from).position(|line| *line == heading) else {
            found.push(Offence::new(path, from + 1, format!("`{heading}` is missing here")));
            continue;
        };
        from += at + 1;
        let body = lines.iter().skip(from).take_while(|line| !line.starts_with("## "));
        if body.clone().all(|line| line.is_empty()) {
            found.push(Offence::new(path, from, format!("nothing stands below `{heading}`")));
        }
    }
    found
}

#[test]
fn long_architecture_page_is_found() {
    assert!(long(&"line\n".repeat(ARCHITECTURE_LINES_MAX)).is_none());
    assert!(long(&"line\n".repeat(ARCHITECTURE_LINES_MAX + 1)).is_some());
}

#[test]
fn decision_without_reasons_is_found() {
    let whole = "# T\n## Context\na\n## Options\nb\n## Decision\nc\n## Consequences\nd\n";
    assert_lines(&decision_offences("docs/decisions/0001-a.md", whole), &[]);
    assert_lines(&decision_offences("docs/decisions/first.md", whole), &[1]);
    let without = whole.replace("## Options\nb\n", "");
    assert_lines(&decision_offences("docs/decisions/0001-a.md", &without), &[3]);
    let empty = whole.replace("\nb\n", "\n");
    assert_lines(&decision_offences("docs/decisions/0001-a.md", &empty), &[4]);
}
