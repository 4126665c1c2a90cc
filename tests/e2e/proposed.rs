//! Every command line that a message, a document or an example proposes is typed, with the names of
//! things that are there, and does what it is for. Lines that are equal but for names are typed once.

mod fleet;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_tests::Ended;
use tetrarch_tests::proposals::{Proposal, Standing, alternatives, proposals};

use crate::workspace;
use fleet::Shop;
use tables::{ENDS, IN_ORDER, LASTING, LOOKING, NOT_TYPED, kinds};

/// A proposed command line: its words, with kinds for names, and where it stands first.
struct Line {
    words: Vec<String>,
    text: String,
    place: String,
    /// Whether all that stand there only name the command in a sentence.
    named: bool,
}

/// When a line is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// At any time: it looks.
    Looking,
    /// Lasts until it is interrupted.
    Lasting,
    /// Changes something, at this place of the order.
    InOrder(usize),
}

/// The words of a proposal of one of these commands; a text may say `tetrarch` of something else.
fn command(proposal: &Proposal, commands: &BTreeSet<String>) -> Option<Vec<String>> {
    let words = proposal.words.iter().skip_while(|word| *word == "tetrarch").cloned();
    let words: Vec<String> = words.collect();
    let first = words.first()?;
    (first.starts_with('-') || commands.contains(first)).then_some(words)
}

/// The commands that the help lists.
fn commands(shop: &Shop) -> BTreeSet<String> {
    let help = shop.fleet.ok(["--help"]);
    let listed = help.lines().filter(|line| line.starts_with("  "));
    listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Each distinct line, by its text.
fn lines(commands: &BTreeSet<String>) -> Vec<Line> {
    let mut distinct: BTreeMap<String, Line> = BTreeMap::new();
    for proposal in &proposals(&workspace()) {
        for words in command(proposal, commands).iter().flat_map(|words| alternatives(words)) {
            let words = kinds(&words);
            let text = words.join(" ");
            let place = format!("{}:{}", proposal.path, proposal.line);
            let named = proposal.standing != Standing::Proposed;
            let line = Line { words, text: text.clone(), place, named };
            let known = distinct.entry(text).or_insert(line);
            known.named &= named;
        }
    }
    distinct.into_values().collect()
}

/// Where a text stands in a list of beginnings of lines; the longest that fits counts.
fn place_in(list: &[&str], text: &str) -> Option<usize> {
    let begins = |start: &str| {
        text.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let fitting = (0..list.len()).filter(|at| begins(list[*at]));
    fitting.max_by_key(|at| list[*at].len())
}

fn turn(text: &str) -> Turn {
    let longest = |list: &[&str]| place_in(list, text).map_or(0, |at| list[at].len());
    let (looks, lasts, acts) = (longest(&LOOKING), longest(&LASTING), longest(&IN_ORDER));
    match place_in(&IN_ORDER, text) {
        Some(at) if acts > lasts && acts > looks => Turn::InOrder(at),
        Some(_) | None if lasts > looks => Turn::Lasting,
        Some(_) | None => Turn::Looking,
    }
}

/// What was found while lines were typed.
#[derive(Default)]
struct Judged {
    faults: Vec<String>,
    used: BTreeSet<&'static str>,
    typed: usize,
}

impl Judged {
    /// Judges the end of a line that was typed.
    fn judge(&mut self, line: &Line, words: &[String], ended: &Ended) {
        self.typed += 1;
        let listed = ENDS.iter().find(|(text, ..)| *text == line.text);
        self.used.extend(listed.map(|(text, ..)| *text));
        let expected = listed.map_or(0, |(_, code, _)| *code);
        // A sentence that names a command leaves out what is to be said to it.
        let name = line.named && ended.code == Some(2) && ended.err.contains("\nUsage: ");
        // What only looks has nothing to tidy up when it is interrupted, and an owner that stands by.
        let tidies = matches!(line.words[0].as_str(), "host" | "up");
        let interrupted =
            turn(&line.text) == Turn::Lasting && !tidies && matches!(ended.code, None | Some(130));
        if ended.code == Some(expected) || name || interrupted {
            return;
        }
        self.faults.push(format!(
            "{}: {}\n  typed {}\n  {:?} instead of {expected}\n{}{}",
            line.place,
            line.text,
            words.join(" "),
            ended.code,
            tail(&ended.out),
            tail(&ended.err)
        ));
    }
}

/// The last lines of what was said.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(6);
    lines[from..].iter().map(|line| format!("    {line}\n")).collect()
}

#[test]
fn suggested_commands_do_what_they_promise() {
    let mut shop = Shop::open();
    let mut lines = lines(&commands(&shop));
    assert!(lines.len() > 150, "where have they gone? {}", lines.len());
    let mut judged = Judged::default();
    lines.retain(|line| {
        let listed = place_in(&NOT_TYPED.map(|(text, _)| text), &line.text);
        judged.used.extend(listed.map(|at| NOT_TYPED[at].0));
        listed.is_none()
    });
    lines.sort_by_key(|line| turn(&line.text));
    for line in &lines {
        let lasting = turn(&line.text) == Turn::Lasting;
        let words = shop.named(&line.words, turn(&line.text) != Turn::Looking);
        let ended = if lasting { shop.last(&words) } else { shop.typed(&words) };
        judged.judge(line, &words, &ended);
    }
    let listed = NOT_TYPED.iter().map(|(text, _)| *text).chain(ENDS.iter().map(|(text, ..)| *text));
    let unused: Vec<&str> = listed.filter(|text| !judged.used.contains(text)).collect();
    assert!(
        judged.faults.is_empty(),
        "{} of {}:\n{}",
        judged.faults.len(),
        judged.typed,
        judged.faults.join("\n")
    );
    assert!(unused.is_empty(), "nothing proposes them: {unused:?}");
}
