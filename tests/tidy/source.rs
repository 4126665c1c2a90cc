//! One Rust file, split into code, comments and string literals, so that a rule about code is
//! not fooled by text. It is a scanner, no parser: it knows no grammar beyond brackets.

pub(crate) use tetrarch_tests::proposals::scan::Found;
use tetrarch_tests::proposals::scan::{Scanned, scan};

/// One line of a file.
#[derive(Debug)]
pub(crate) struct Line {
    /// As it was written.
    pub(crate) raw: String,
    /// The code alone: comments are blank, the insides of literals are `~`.
    pub(crate) code: String,
    /// Whether it belongs to test code.
    pub(crate) test: bool,
}

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the repository's top.
    pub(crate) path: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) comments: Vec<Found>,
    pub(crate) literals: Vec<Found>,
}

impl Source {
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let Scanned { code, comments, literals } = scan(text);
        let tests = if is_test_file(path) { vec![(0, code.len())] } else { test_regions(&code) };
        let mut start = 0;
        let mut lines = Vec::new();
        for (raw, code) in text.split('\n').zip(code.split('\n')) {
            let test = tests.iter().any(|(from, to)| (*from..*to).contains(&start));
            lines.push(Line { raw: raw.to_owned(), code: code.to_owned(), test });
            start += code.len() + 1;
        }
        Self { path: path.to_owned(), lines, comments, literals }
    }

    /// The crate this file belongs to: `core` for `crates/tetrarch-core/..`; none in `tests/`.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/tetrarch-")?.split('/').next()
    }

    /// Whether all of the file is test code.
    pub(crate) fn is_test(&self) -> bool {
        is_test_file(&self.path)
    }

    /// Whether a line, counted from 1, is test code.
    pub(crate) fn in_test(&self, line: usize) -> bool {
        self.lines.get(line - 1).is_some_and(|line| line.test)
    }

    /// Lines of code outside tests, with their numbers from 1.
    pub(crate) fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code().filter(|(line, _)| !self.in_test(*line))
    }

    /// All lines of code, with their numbers from 1.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().enumerate().map(|(index, line)| (index + 1, line.code.as_str()))
    }

    /// Attributes such as `#[allow(dead_code)]` or `#![..]`, whole, also over several lines.
    pub(crate) fn attributes(&self) -> Vec<Found> {
        let code: String = self.lines.iter().map(|line| line.code.clone() + "\n").collect();
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = code[from..].find('#').map(|at| at + from) {
            let open = code[at + 1..].trim_start_matches('!').starts_with('[');
            let end = if open { closing(&code, at, '[', ']') } else { at + 1 };
            if open {
                let line = code[..at].matches('\n').count() + 1;
                found.push(Found { line, text: code[at..end].to_owned() });
            }
            from = end;
        }
        found
    }
}

/// Whether `word` stands in `code` by itself, not as a part of a longer name.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(part) && !code[at + word.len()..].starts_with(part))
}

fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Byte ranges of items behind `#[cfg(test)]`.
fn test_regions(code: &str) -> Vec<(usize, usize)> {
    const MARK: &str = "#[cfg(test)]";
    code.match_indices(MARK)
        .map(|(at, _)| {
            let rest = at + MARK.len();
            let end = match code[rest..].find([';', '{']).map(|found| found + rest) {
                Some(brace) if code[brace..].starts_with('{') => closing(code, brace, '{', '}'),
                Some(semicolon) => semicolon + 1,
                None => code.len(),
            };
            (at, end)
        })
        .collect()
}

/// The end of the bracketed piece whose first `open` stands at or after `from`.
fn closing(code: &str, from: usize, open: char, close: char) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[from..].char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return from + at + 1;
            }
        }
    }
    code.len()
}

#[test]
fn test_code_differs_from_product_code() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
    let source = Source::parse("crates/tetrarch-core/src/a.rs", text);
    let product: Vec<usize> = source
        .product_code()
        .filter(|(_, code)| code.contains("fn"))
        .map(|(line, _)| line)
        .collect();
    assert_eq!(product, [1, 6]);
    assert!(Source::parse("crates/tetrarch-core/src/a/tests.rs", text).in_test(1));
    assert!(Source::parse("tests/it/main.rs", text).in_test(1));
}

#[test]
fn attribute_is_found_whole() {
    let source = Source::parse("a.rs", "#![deny(x)]\n#[allow(\n    dead_code,\n)]\nfn a() {}\n");
    let found = source.attributes();
    let lines: Vec<usize> = found.iter().map(|attribute| attribute.line).collect();
    assert_eq!(lines, [1, 2]);
    assert!(found[1].text.contains("dead_code") && found[1].text.ends_with(']'));
}

#[test]
fn word_is_no_part_of_a_longer_one() {
    assert!(has_word("rand::random()", "rand"));
    assert!(!has_word("operand + random", "rand"));
}
