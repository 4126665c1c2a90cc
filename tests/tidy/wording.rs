//! What the code may not say (spec 01): mocks, traits of our own, muted lints without a reason,
//! unfinished work, sleeping tests.

use crate::offence::{Offence, assert_none};
use crate::repository::sources;
use crate::source::{Source, has_word};

/// The one open extension point.
const TRAITS: [&str; 2] = ["AgentBackend", "Wire"];

/// The one place where a test may pause: between two looks at the state it waits for.
const WAITING: &str = "tests/support/wait.rs";

/// Words in a comment that say the work is not done.
const UNFINISHED: [&str; 5] = ["TODO", "FIXME", "XXX", "for now", "not yet implemented"];

#[test]
fn there_are_no_mocks() {
    assert_rule(mocks, "use the real part, or the simulator");
}

#[test]
fn there_is_one_trait() {
    assert_rule(traits, "an enum or a function does; traits are for outside implementations");
}

#[test]
fn muted_lint_has_a_reason() {
    assert_rule(muted, "write #[expect(lint, reason = \"..\")]");
}

#[test]
fn nothing_is_unfinished() {
    assert_rule(unfinished, "finish it, or leave it out and say so in the issue");
}

#[test]
fn tests_do_not_sleep() {
    assert_rule(sleeps, "wait for a state with tetrarch_tests::wait");
}

fn assert_rule(rule: fn(&Source) -> Vec<Offence>, instead: &str) {
    let found: Vec<Offence> = sources().iter().flat_map(rule).collect();
    assert_none(&found, instead);
}

fn mocks(source: &Source) -> Vec<Offence> {
    let mock = |code: &str| {
        has_word(code, "mockall")
            || defined(code, &["struct", "enum", "trait", "mod"]).is_some_and(|name| {
                let name = name.to_ascii_lowercase();
                name.starts_with("mock") || name.starts_with("fake")
            })
    };
    source
        .code()
        .filter(|(_, code)| mock(code))
        .map(|(line, code)| Offence::new(&source.path, line, code.trim()))
        .collect()
}

fn traits(source: &Source) -> Vec<Offence> {
    if source.crate_name().is_none() {
        return Vec::new();
    }
    source
        .code()
        .filter_map(|(line, code)| Some((line, defined(code, &["trait"])?)))
        .filter(|(_, name)| !TRAITS.contains(name))
        .map(|(line, name)| Offence::new(&source.path, line, format!("trait {name}")))
        .collect()
}

fn muted(source: &Source) -> Vec<Offence> {
    let mutes = |text: &str| has_word(text, "allow") || has_word(text, "expect");
    source
        .attributes()
        .iter()
        .filter(|found| mutes(&found.text) && !has_word(&found.text, "reason"))
        .map(|found| Offence::new(&source.path, found.line, "mutes a lint without a reason"))
        .collect()
}

fn unfinished(source: &Source) -> Vec<Offence> {
    let comments = source.comments.iter().filter_map(|found| {
        let word = UNFINISHED.iter().find(|word| has_word(&found.text, word))?;
        Some(Offence::new(&source.path, found.line, format!("a comment says {word}")))
    });
    let code = source
        .code()
        .filter(|(_, code)| code.contains("todo!(") || code.contains("unimplemented!("))
        .map(|(line, code)| Offence::new(&source.path, line, code.trim()));
    comments.chain(code).collect()
}

fn sleeps(source: &Source) -> Vec<Offence> {
    if source.path == WAITING {
        return Vec::new();
    }
    let sleeping =
        |code: &str| ["sleep", "sleep_until", "sleep_ms"].iter().any(|w| has_word(code, w));
    source
        .code()
        .filter(|(line, code)| source.in_test(*line) && sleeping(code))
        .map(|(line, code)| Offence::new(&source.path, line, code.trim()))
        .collect()
}

/// The name a line defines, when it defines one with one of these keywords.
fn defined<'a>(code: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let mut words =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
    let before = ["pub", "crate", "super", "unsafe", "in"];
    let keyword = words.find(|word| !before.contains(word))?;
    if keywords.contains(&keyword) { words.next() } else { None }
}

#[cfg(test)]
mod samples {
    use super::{mocks, muted, sleeps, traits, unfinished};
    use crate::offence::assert_lines;
    use crate::source::Source;

    fn product(text: &str) -> Source {
        Source::parse("crates/tetrarch-bus/src/a.rs", text)
    }

    #[test]
    fn mock_is_found() {
        let text = "use mockall::mock;\npub struct MockBus;\nstruct FakeClock;\nlet mock = 1;\n\
            // struct MockNote\nstruct Hammock;\n";
        assert_lines(&mocks(&product(text)), &[1, 2, 3]);
    }

    #[test]
    fn trait_is_found() {
        let text = "pub(crate) trait Clock {}\npub trait AgentBackend {}\nimpl Clock for A {}\n\
            unsafe trait Raw {}\n";
        assert_lines(&traits(&product(text)), &[1, 4]);
    }

    #[test]
    fn lint_muted_without_reason_is_found() {
        let text = "#[allow(dead_code)]\n#[expect(dead_code, reason = \"r\")]\n\
            #![allow(\n    dead_code\n)]\n#[derive(Debug)]\n#[cfg_attr(test, allow(dead_code))]\n";
        assert_lines(&muted(&product(text)), &[1, 3, 7]);
    }

    #[test]
    fn unfinished_work_is_found() {
        let text = "// TODO: later\nlet a = \"TODO\";\nlet b = todo!();\n/// Good for now.\n";
        assert_lines(&unfinished(&product(text)), &[1, 4, 3]);
    }

    #[test]
    fn sleeping_test_is_found() {
        let text = "sleep(d);\n#[cfg(test)]\nmod tests {\n    tokio::time::sleep(d).await;\n}\n";
        assert_lines(&sleeps(&product(text)), &[4]);
        assert_lines(&sleeps(&Source::parse("tests/it/a.rs", text)), &[1, 4]);
        assert_lines(&sleeps(&Source::parse(super::WAITING, text)), &[]);
    }
}
