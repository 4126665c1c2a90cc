//! The words of OpenTelemetry's conventions for generative AI live in one place, so that one place knows of which version
//! they are (docs/decisions/0048). Tests may write them out: there they are what is checked.

use crate::offence::{Offence, assert_lines, assert_none};
use crate::repository::sources;
use crate::source::Source;

const HOME: &str = "crates/tetrarch-telemetry/src/conventions.rs";
const WORD: &str = "gen_ai";

#[test]
fn convention_words_stay_in_their_file() {
    let found: Vec<Offence> = sources().iter().flat_map(words).collect();
    assert_none(&found, "name it in the conventions of the telemetry crate and use that");
}

fn words(source: &Source) -> Vec<Offence> {
    if source.crate_name().is_none() || source.path == HOME {
        return Vec::new();
    }
    let code = source.product_code().filter(|(_, code)| code.contains(WORD)).map(|(line, _)| line);
    let literals = source.literals.iter().filter(|found| found.text.contains(WORD));
    let literals = literals.map(|found| found.line).filter(|line| !source.in_test(*line));
    code.chain(literals).map(|line| Offence::new(&source.path, line, WORD)).collect()
}

#[test]
fn word_outside_its_file_is_found() {
    let text = "// gen_ai\ninfo_span!(\"chat\", gen_ai.system = 1);\nset(\"gen_ai.system\", 1);\n\
        #[cfg(test)]\nmod tests { const S: &str = \"gen_ai.system\"; }\n";
    let at = |path| words(&Source::parse(path, text));
    assert_lines(&at("crates/tetrarch-engine/src/a.rs"), &[2, 3]);
    assert_lines(&at(HOME), &[]);
    assert_lines(&at("tests/it/a.rs"), &[]);
}
