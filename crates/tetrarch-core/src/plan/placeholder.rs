//! What stands in a plan's texts for what is known only when the work begins: `{goal}`, `{node}` and
//! `{result:T1.1}` (decision 0067). A brace after `$` or another brace begins none, and neither does any
//! other word, so shell, awk, JSON and format strings stay as they are.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::id::NodeId;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder {
    /// The goal's title.
    Goal,
    /// The node's id.
    Node,
    /// The deliverable of a node that is done by then.
    Result(NodeId),
}

/// What may stand in braces, for people.
pub const PLACEHOLDERS: &str = "{plan_dir}, {goal}, {node}, {result:<id>}; {{...}} stays as it is";
/// Words that are close enough to one of ours to be meant as it.
const NEAR: [&str; 12] = [
    "plandir",
    "plan",
    "plan_directory",
    "plan_path",
    "goals",
    "goal_title",
    "goal_id",
    "node_id",
    "nodes",
    "result",
    "results",
    "task_id",
];

#[expect(clippy::unwrap_used, reason = "the pattern is a constant; a test reads it")]
static BRACES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?P<before>[${])?\{(?P<word>[A-Za-z_]+)(?P<rest>:[^{}\n]*)?\}").unwrap()
});

fn read(word: &str, rest: Option<&str>) -> Option<Result<Placeholder, ()>> {
    match (word, rest) {
        ("goal", None) => Some(Ok(Placeholder::Goal)),
        ("node", None) => Some(Ok(Placeholder::Node)),
        ("result", Some(rest)) => Some(rest[1..].parse().map(Placeholder::Result).map_err(|_| ())),
        // Filled in where the plan file is, before anything is sent.
        ("plan_dir", None) => None,
        (_, None) => {
            let lower = word.to_ascii_lowercase();
            let near = NEAR.contains(&lower.as_str())
                || (lower != word && ["goal", "node", "plan_dir"].contains(&lower.as_str()));
            near.then_some(Err(()))
        }
        (_, Some(_)) => None,
    }
}

/// The placeholders of a text; one that is none but seems to be meant as one comes as it is written.
#[must_use]
pub fn found(text: &str) -> Vec<Result<Placeholder, String>> {
    let one = |found: Captures<'_>| {
        if found.name("before").is_some() {
            return None;
        }
        let read = read(found.name("word")?.as_str(), found.name("rest").map(|rest| rest.as_str()));
        Some(read?.map_err(|()| found[0].to_owned()))
    };
    BRACES.captures_iter(text).filter_map(one).collect()
}

/// The text with each placeholder replaced by what is known of it; one of which nothing is known stays.
/// What is filled in is not looked at again.
#[must_use]
pub fn filled(text: &str, known: impl Fn(Placeholder) -> Option<String>) -> String {
    let one = |found: &Captures<'_>| {
        let whole = || found[0].to_owned();
        if found.name("before").is_some() {
            return whole();
        }
        let rest = found.name("rest").map(|rest| rest.as_str());
        match found.name("word").and_then(|word| read(word.as_str(), rest)) {
            Some(Ok(placeholder)) => known(placeholder).unwrap_or_else(whole),
            Some(Err(())) | None => whole(),
        }
    };
    BRACES.replace_all(text, one).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_words_in_braces_are_placeholders() {
        let result = Placeholder::Result(NodeId::task(1, 1));
        let meant = |text: &str| Err(text.to_owned());
        for (text, expected) in [
            ("a {goal} b {node}", vec![Ok(Placeholder::Goal), Ok(Placeholder::Node)]),
            ("{result:T1.1}{result:T1.1}", vec![Ok(result), Ok(result)]),
            ("{result:first}", vec![meant("{result:first}")]),
            ("{result:}", vec![meant("{result:}")]),
            ("{plandir} {goal_title}", vec![meant("{plandir}"), meant("{goal_title}")]),
            ("{Goal}", vec![meant("{Goal}")]),
            ("{plan_dir}", vec![]),
            ("awk '{print $1}' ${goal} $goal {} {\"a\": 1} {a} {a:b}", vec![]),
            ("{{goal}} f'{x.node}' { goal }", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn filled_in_text_is_not_expanded_again() {
        let known = |placeholder| match placeholder {
            Placeholder::Goal => Some("{node} $(x)".to_owned()),
            Placeholder::Node => Some("T1.2".to_owned()),
            Placeholder::Result(_) => None,
        };
        let text = "{goal}/{node}/{result:T1.1}/{{node}}/${node}";
        assert_eq!(filled(text, known), "{node} $(x)/T1.2/{result:T1.1}/{{node}}/${node}");
    }
}
