//! Whether a file's name, which is no glob whatever characters it has, is within a glob: what work may
//! change must be so for certain, while two globs may be taken to overlap that do not.

use super::{alternatives, meet, split};

/// Whether a file is what a glob names, or below it. Never true of one that is not.
pub(super) fn covers(glob: &str, file: &str) -> bool {
    let file = segments(file);
    // Too many alternatives stand for anything, which nobody has allowed.
    let globs = alternatives(glob);
    let expanded = glob == "**" || globs != ["**"];
    expanded
        && globs.iter().any(|glob| {
            let reached = meet(&parsed(glob), &file, Segment::is_many, Segment::fits);
            reached.last().is_some_and(|row| row.contains(&true))
        })
}

/// Whether changing a file changes what a glob names: it is that, below it, or in its place.
pub(super) fn touches(glob: &str, file: &str) -> bool {
    let file = segments(file);
    alternatives(glob).iter().any(|glob| {
        let reached = meet(&parsed(glob), &file, Segment::is_many, Segment::fits);
        let through = reached.last().is_some_and(|row| row.contains(&true));
        through || reached.iter().any(|row| row.last() == Some(&true))
    })
}

/// One segment of a path.
enum Segment {
    /// Any number of them.
    Many,
    /// One of these.
    Of(Vec<Piece>),
}

impl Segment {
    fn is_many(&self) -> bool {
        matches!(self, Self::Many)
    }

    fn fits(&self, name: &Self) -> bool {
        let (Self::Of(glob), Self::Of(name)) = (self, name) else { return false };
        let reached = meet(glob, name, |piece| matches!(piece, Piece::Many), Piece::fits);
        reached.last().is_some_and(|row| row.last() == Some(&true))
    }
}

/// One piece of a segment.
enum Piece {
    /// This character.
    One(char),
    /// Some character.
    Any,
    /// Any characters.
    Many,
    /// Some character of these, or of all others.
    Class { others: bool, ranges: Vec<(char, char)> },
}

impl Piece {
    fn fits(&self, name: &Self) -> bool {
        let Self::One(found) = name else { return false };
        match self {
            Self::One(wanted) => wanted == found,
            Self::Any | Self::Many => true,
            Self::Class { others, ranges } => {
                ranges.iter().any(|(from, to)| (from..=to).contains(&found)) != *others
            }
        }
    }
}

/// A file's name, each character as it is.
fn segments(file: &str) -> Vec<Segment> {
    let segment = |name: &str| Segment::Of(name.chars().map(Piece::One).collect());
    file.split('/').map(segment).collect()
}

fn parsed(glob: &str) -> Vec<Segment> {
    let segment = |part: &str| if part == "**" { Segment::Many } else { Segment::Of(pieces(part)) };
    split(glob).into_iter().map(segment).collect()
}

fn pieces(segment: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = segment.chars();
    while let Some(next) = rest.next() {
        pieces.push(match next {
            '*' => Piece::Many,
            '?' => Piece::Any,
            '[' => match rest.as_str().find(']') {
                Some(end) => {
                    let class = class(&rest.as_str()[..end]);
                    rest = rest.as_str()[end + 1..].chars();
                    class
                }
                None => Piece::One('['),
            },
            '\\' => Piece::One(rest.next().unwrap_or('\\')),
            other => Piece::One(other),
        });
    }
    pieces
}

fn class(text: &str) -> Piece {
    let listed = text.strip_prefix(['!', '^']);
    let mut ranges = Vec::new();
    let mut rest = listed.unwrap_or(text).chars().peekable();
    while let Some(from) = rest.next() {
        let to = if rest.next_if_eq(&'-').is_some() { rest.next().unwrap_or('-') } else { from };
        ranges.push((from, to));
    }
    Piece::Class { others: listed.is_some(), ranges }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn file_is_within_a_certainly_matching_glob() {
        for (glob, file) in [
            ("src/a.rs", "src/a.rs"),
            ("src", "src/a.rs"),
            ("src/", "src/deep/a.rs"),
            ("./src/**", "src/deep/a.rs"),
            ("**/*.rs", "a.rs"),
            ("src/{a,b}.rs", "src/b.rs"),
            ("src/[ab].rs", "src/b.rs"),
            ("src/[a-c].rs", "src/b.rs"),
            ("src/[!x].rs", "src/b.rs"),
            ("src/?.rs", "src/b.rs"),
            ("**", "any/thing"),
            ("src/*", "src/*"),
            ("src/*", "src/{a,b}"),
            ("src/*", "src/a\nb"),
        ] {
            assert!(covers(glob, file) && touches(glob, file), "{glob} and {file}");
        }
        for (glob, file) in [
            ("src/**", "lib/a.rs"),
            ("src/[ab].rs", "src/c.rs"),
            ("src/[a-c].rs", "src/d.rs"),
            ("src/[!x].rs", "src/x.rs"),
            ("src/[].rs", "src/a.rs"),
            // Names that read like globs are names.
            ("src/**", "*"),
            ("src/**", "**/a.rs"),
            ("src/a", "src/?"),
            ("src/a", "{src,lib}/a"),
            ("src/a", "src/[a]"),
        ] {
            assert!(!covers(glob, file) && !touches(glob, file), "{glob} and {file}");
        }
        assert!(!covers("src/a/**", "src"), "it would take the place of what is named");
        assert!(touches("src/a/**", "src"));
        let many = "{a,b}".repeat(8);
        assert!(!covers(&many, "x") && touches(&many, "x"), "too many alternatives");
    }

    proptest! {
        /// What is within a glob is never out of its way.
        #[test]
        fn covered_path_is_touched(glob in "[ab*?/{},\\[\\]!-]{0,12}", file in "[ab*{}]{1,3}(/[ab*]{1,3}){0,2}") {
            prop_assert!(!covers(&glob, &file) || touches(&glob, &file));
        }
    }
}
