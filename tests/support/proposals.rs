//! Every command line that a message, a help text, a document or an example of this repository
//! proposes to people, found by reading the repository. What they mean is for the tests that use it.

use std::collections::BTreeSet;
use std::path::Path;

use ignore::WalkBuilder;
use scan::scan;

#[path = "scan.rs"]
pub mod scan;

/// The program, as people type it.
const PROGRAM: &str = "tetrarch";
/// What ends a command of a shell line.
const SEPARATORS: [&str; 6] = ["|", "||", "&&", "&", ";", "\\"];
/// Where people read: the top's own files and these directories. Decisions tell of what was.
const READ: [&str; 5] = ["README.md", "docs", "deploy", "examples", "crates"];
/// Whose command lines are records of a choice and nobody's advice.
const RECORDS: &str = "docs/decisions/";

/// What stands for something in a proposal, as it is written, and what it may be. A name that is
/// not here is for the reader of the proposal to fill in.
pub const PLACEHOLDERS: [(&str, &str); 33] = [
    ("<ulid>", "01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("<goal>", "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("<epic>", "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("{epic}", "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("{goal}", "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("<run>", "run_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("{run}", "run_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("{agent}", "PO-demo"),
    ("<agent>", "PO-demo"),
    ("<project>", "demo"),
    ("{project}", "demo"),
    ("<host>", "box"),
    ("{host}", "box"),
    ("<plan>", "plan.yaml"),
    ("<path>", "."),
    ("<file>", "coder.toml"),
    ("<sequence>", "7"),
    ("{last}", "7"),
    ("SEQ", "7"),
    ("PROJECT", "demo"),
    ("FILE", "coder.toml"),
    ("PLAN", "plan.yaml"),
    ("THING", "PO-demo"),
    ("DIGEST", "9f86d0...0a08"),
    ("GOAL", "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("AGENT", "PO-demo"),
    ("DRAFT", "drf_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("CHANGE", "chg_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("RUN", "run_01JD8Z5W6T4QK3M9X2V7B1N0AC"),
    ("{party}", "HO@build-3"),
    ("{expires}", "30d"),
    ("{node}", "T1.1"),
    ("<node>", "T1.1"),
];

/// A command line that something proposes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proposal {
    /// The file, from the repository's top.
    pub path: String,
    /// Its line there.
    pub line: usize,
    /// As it is written.
    pub text: String,
    /// Its words, without the program's and without what belongs to the shell; placeholders as
    /// they are.
    pub words: Vec<String>,
    /// How it stands there.
    pub standing: Standing,
}

/// How a command line stands in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// To be typed.
    Proposed,
    /// In prose, where the name of a command alone is no proposal to type it.
    Named,
    /// In the middle of a message and without backticks: it may be words about the program.
    Loose,
}

/// What a text is, which says where in it command lines stand.
#[derive(Clone, Copy, PartialEq)]
enum Text {
    /// Sentences: between backticks alone.
    Prose,
    /// Help with examples: a sentence in it may name a command, as prose does.
    Help,
    /// A message or help: between backticks, on an indented line of its own, after a colon.
    Message,
    /// Lines for a shell, and what they print.
    Shell,
}

/// Every proposal of the repository at `root`, in the order of files and lines.
///
/// # Panics
/// A file cannot be read.
#[must_use]
pub fn proposals(root: &Path) -> BTreeSet<Proposal> {
    let mut found = BTreeSet::new();
    for below in READ {
        for entry in WalkBuilder::new(root.join(below)).build() {
            let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", root.display()));
            let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
            let path = path.display().to_string();
            if !entry.path().is_file() || path.starts_with(RECORDS) {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
            let mut add = |line: usize, text: &str, kind: Text| {
                found.extend(
                    in_text(text, line, kind)
                        .into_iter()
                        .map(|proposal| Proposal { path: path.clone(), ..proposal }),
                );
            };
            match entry.path().extension().and_then(|ext| ext.to_str()) {
                Some("rs") if path.contains("/tests") => {}
                Some("rs") => in_rust(&text, &mut add),
                Some("md") => in_markdown(&text, &mut add),
                Some(_) | None => in_script(&text, &mut add),
            }
        }
    }
    found
}

/// Literals of a Rust file, and its doc comments, which are help too.
fn in_rust(text: &str, add: &mut impl FnMut(usize, &str, Text)) {
    let scanned = scan(text);
    for literal in scanned.literals {
        let text = unescaped(&literal.text);
        let help = text.contains("Examples:\n");
        add(literal.line, &text, if help { Text::Help } else { Text::Message });
    }
    // What is wrapped in a comment is one text.
    let mut block: Option<(usize, String)> = None;
    for comment in scanned.comments {
        let said = comment.text.trim_start_matches(['/', '!']);
        match &mut block {
            Some((first, text)) if *first + text.matches('\n').count() == comment.line => {
                text.push_str(&format!("{said}\n"));
            }
            Some(_) | None => {
                let ended = block.replace((comment.line, format!("{said}\n")));
                ended.into_iter().for_each(|(first, text)| add(first, &text, Text::Prose));
            }
        }
    }
    block.into_iter().for_each(|(first, text)| add(first, &text, Text::Prose));
}

/// What a literal stands for. A line that goes on keeps its line's end out, as in the program.
fn unescaped(literal: &str) -> String {
    let mut text = String::new();
    let mut rest = literal.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, if c == '\\' { rest.next() } else { None }) {
            ('\\', Some('n')) => text.push('\n'),
            ('\\', Some('t')) => text.push('\t'),
            ('\\', Some('\n')) => while rest.next_if(|c| c.is_whitespace()).is_some() {},
            ('\\', Some(plain)) => text.push(plain),
            (c, _) => text.push(c),
        }
    }
    text
}

fn in_markdown(text: &str, add: &mut impl FnMut(usize, &str, Text)) {
    for (at, part) in text.split("\n```").enumerate() {
        let before = part.as_ptr() as usize - text.as_ptr() as usize;
        let line = 1 + text[..before].matches('\n').count();
        add(line, part, if at % 2 == 1 { Text::Shell } else { Text::Prose });
    }
}

/// Comments of a script or a configuration file, its lines where they are a shell's, a unit's start.
fn in_script(text: &str, add: &mut impl FnMut(usize, &str, Text)) {
    let start = "ExecStart=";
    let bare = |line: &str| {
        let line = line.trim_start();
        line.strip_prefix(start).or(line.strip_prefix("# ")).unwrap_or(line).to_owned()
    };
    let lines: Vec<String> = text.lines().map(bare).collect();
    add(1, &lines.join("\n"), Text::Prose);
    add(1, &lines.join("\n"), Text::Shell);
}

fn in_text(text: &str, first: usize, kind: Text) -> Vec<Proposal> {
    if kind == Text::Shell {
        return in_lines(text, first, kind);
    }
    if !text.contains('\n') && text.starts_with("tetrarch ") && kind == Text::Message {
        return command(text, first, Standing::Named).into_iter().collect();
    }
    let standing = if kind == Text::Message { Standing::Proposed } else { Standing::Named };
    let mut found = Vec::new();
    let mut line = first;
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            let joined = part.split_whitespace().collect::<Vec<_>>().join(" ");
            found.extend(command(&joined, line, standing));
        } else if kind != Text::Prose {
            found.extend(in_lines(part, line, kind));
        }
        line += part.matches('\n').count();
    }
    found
}

fn in_lines(text: &str, first: usize, kind: Text) -> Vec<Proposal> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let mut whole = line.to_owned();
        // A line that ends with a backslash goes on in the next.
        while whole.ends_with('\\') {
            whole.pop();
            let Some((_, next)) = lines.next() else { break };
            whole.push_str(next.trim_start());
        }
        let typed = kind == Text::Shell || (whole.starts_with(' ') && at > 0);
        let own = if typed { command(whole.trim(), first + at, Standing::Proposed) } else { None };
        let loose = || {
            let (_, after) = whole.split_once(" tetrarch ")?;
            let end = after.find([',', ';']).unwrap_or(after.len());
            command(&format!("{PROGRAM} {}", &after[..end]), first + at, Standing::Loose)
        };
        found.extend(own.or_else(loose));
    }
    found
}

/// The command line of ours in a shell's line, when there is one.
fn command(text: &str, line: usize, standing: Standing) -> Option<Proposal> {
    if !text.contains(PROGRAM) {
        return None;
    }
    let words = shlex::split(text)?;
    let words = words.split(|word| SEPARATORS.contains(&word.as_str())).find_map(|words| {
        let mut words = words.iter().skip_while(|word| {
            word.as_str() == "$" || (word.contains('=') && !word.starts_with(PROGRAM))
        });
        let program = words.next()?;
        let name = program.rsplit('/').next()?.split('{').next()?;
        let words = plain(words);
        (name == PROGRAM && !words.is_empty()).then_some(words)
    })?;
    Some(Proposal { path: String::new(), line, text: text.to_owned(), words, standing })
}

/// Words without a shell's redirections.
fn plain<'a>(words: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        match word.as_str() {
            ">" | ">>" | "<" | "2>" => drop(words.next()),
            "2>&1" => {}
            _ => kept.push(word.clone()),
        }
    }
    kept
}

/// `get agents|runs` is `get agents` and `get runs`.
#[must_use]
pub fn alternatives(words: &[String]) -> Vec<Vec<String>> {
    words.iter().fold(vec![Vec::new()], |so_far, word| {
        let each = |words: &Vec<String>| {
            let words = words.clone();
            word.split('|')
                .map(move |one| [words.clone(), vec![one.to_owned()]].concat())
                .collect::<Vec<_>>()
        };
        so_far.iter().flat_map(each).collect()
    })
}

/// A word with its placeholders filled in, one that is in no table with `anything`.
#[must_use]
pub fn filled(word: &str, anything: &str) -> String {
    let known = PLACEHOLDERS
        .iter()
        .fold(word.to_owned(), |word, (name, sample)| word.replace(name, sample));
    match (known.find('{'), known.rfind('}')) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{anything}{}", &known[..from], &known[to + 1..])
        }
        _ => known,
    }
}
