//! Whatever the repository tells people to type is a command line that is understood.

use std::path::Path;

use clap::error::ErrorKind;

use crate::args::command_line;
use crate::name::loose;

#[path = "../../../tests/support/proposals.rs"]
#[expect(unreachable_pub, reason = "a library of the tests holds them too")]
mod proposals;

use proposals::{Proposal, Standing, alternatives, filled, proposals};

/// What may stand where an argument takes no id: one of them does.
const ANYTHING: [&str; 4] = ["goal_01JD8Z5W6T4QK3M9X2V7B1N0AC", "PO-demo", "agent", "7"];

#[test]
fn every_suggested_command_line_parses() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = proposals(&top);
    assert!(found.len() > 150, "where have they gone? {}", found.len());
    let wrong: Vec<String> = found.iter().filter_map(misunderstood).collect();
    assert!(wrong.is_empty(), "{} are not:\n{}", wrong.len(), wrong.join("\n"));
}

/// What is wrong with it, and where it stands.
fn misunderstood(proposal: &Proposal) -> Option<String> {
    let root = command_line();
    let known = root.find_subcommand(proposal.words.first()?).is_some();
    if proposal.standing == Standing::Loose && !known {
        return None;
    }
    let said = alternatives(&proposal.words).iter().find_map(|words| {
        ANYTHING.iter().map(|thing| fault(words, thing, proposal.standing)).min()?
    })?;
    Some(format!("{}:{}: {}\n    {said}", proposal.path, proposal.line, proposal.text))
}

/// What is wrong with words whose placeholders may be this; nothing comes before something.
fn fault(words: &[String], anything: &str, standing: Standing) -> Option<String> {
    let words = words.iter().map(|word| filled(word, anything));
    let error = loose(command_line())
        .try_get_matches_from(std::iter::once("tetrarch".to_owned()).chain(words))
        .err()?;
    let named = is_name(error.kind()) && standing != Standing::Proposed;
    if named || is_help(error.kind()) {
        return None;
    }
    Some(error.to_string().lines().take(3).collect::<Vec<_>>().join(" "))
}

fn is_help(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
}

/// Whether nothing is wrong but that there are no arguments: a sentence names the command.
fn is_name(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}
