//! What a text names, row by row.

use super::*;
use crate::args::Args;
use clap::CommandFactory;

const A: &str = "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC";
const B: &str = "goal_01JD8Z5W6T4QK3M9X2V7B1N0XY";
const C: &str = "goal_01JE000000000000000000C1C1";

fn goal(id: &str, project: &str, made: u64, is_mine: bool, is_open: bool) -> Candidate {
    let aliases =
        if is_open { vec![project.to_owned(), format!("PO-{project}")] } else { Vec::new() };
    Candidate { id: id.to_owned(), aliases, title: format!("of {project}"), made, is_mine, is_open }
}

fn goals() -> Vec<Candidate> {
    vec![
        goal(A, "site", 1, true, true),
        goal(B, "docs", 2, true, false),
        goal(C, "docs", 3, false, true),
    ]
}

fn chosen(kind: NameKind, text: &str, candidates: &[Candidate]) -> Result<String, Code> {
    choose(kind, text, candidates).map(|one| one.id.clone()).map_err(|error| error.code)
}

#[test]
fn goal_is_found_by_id_prefix_suffix_project_or_last() {
    let (several, missing) = (Err(Code::Usage), Err(Code::NotFound));
    let rows: [(&str, Result<&str, Code>); 16] = [
        (A, Ok(A)),
        (&A.to_ascii_lowercase(), Ok(A)),
        ("01JD8Z5W6T4QK3M9X2V7B1N0A", Ok(A)),
        ("goal_01JE", Ok(C)),
        ("01je", Ok(C)),
        ("n0xy", Ok(B)),
        ("0XY", missing),
        ("01JD8Z", several),
        ("goal_", several),
        ("site", Ok(A)),
        ("PO-site", Ok(A)),
        ("docs", Ok(C)),
        ("sit", missing),
        ("@last", Ok(B)),
        ("@LAST", Ok(B)),
        ("nowhere", missing),
    ];
    for (text, expected) in rows {
        assert_eq!(chosen(NameKind::Goal, text, &goals()), expected.map(str::to_owned), "{text}");
    }
}

#[test]
fn last_without_any_goal_is_not_found() {
    let others = [goal(C, "docs", 3, false, true)];
    assert_eq!(chosen(NameKind::Goal, "@last", &others), Err(Code::NotFound));
    assert_eq!(chosen(NameKind::Goal, "@last", &[]), Err(Code::NotFound));
}

#[test]
fn agent_is_found_by_short_form_project_or_host() {
    let agents = [
        "GO",
        "PO-site",
        "HO@box",
        "W:01JD8Z5W6T4QK3M9X2V7B1N0AC",
        "S:api:01JE000000000000000000C1C1",
    ];
    let candidates = agents.map(|id| Candidate {
        id: id.to_owned(),
        aliases: match id.split_once(['-', '@']) {
            Some((_, name)) => vec![name.to_owned()],
            None => Vec::new(),
        },
        ..Candidate::default()
    });
    for (text, expected) in [
        ("go", Ok("GO")),
        ("site", Ok("PO-site")),
        ("PO-si", Ok("PO-site")),
        ("box", Ok("HO@box")),
        ("W:", Ok("W:01JD8Z5W6T4QK3M9X2V7B1N0AC")),
        ("w:01jd", Ok("W:01JD8Z5W6T4QK3M9X2V7B1N0AC")),
        ("01JD", Ok("W:01JD8Z5W6T4QK3M9X2V7B1N0AC")),
        ("C1C1", Ok("S:api:01JE000000000000000000C1C1")),
        ("S:api:", Ok("S:api:01JE000000000000000000C1C1")),
        ("01J", Err(Code::Usage)),
        ("X:", Err(Code::NotFound)),
    ] {
        let expected = expected.map(str::to_owned);
        assert_eq!(chosen(NameKind::Agent, text, &candidates), expected, "{text}");
    }
}

#[test]
fn artifact_prefix_needs_six_digits() {
    let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let candidates = [Candidate { id: digest.to_owned(), ..Candidate::default() }];
    assert_eq!(chosen(NameKind::Digest, "9f86d0", &candidates), Ok(digest.to_owned()));
    assert_eq!(chosen(NameKind::Digest, "9F86D081", &candidates), Ok(digest.to_owned()));
    assert_eq!(chosen(NameKind::Digest, "9f86d", &candidates), Err(Code::NotFound));
    assert_eq!(chosen(NameKind::Digest, "0f00a08", &candidates), Err(Code::NotFound));
}

#[test]
fn archive_is_named_alone_or_with_one_of_its_runs() {
    let (digest, run) = ("9F".repeat(32), "run_01JD8Z5W6T4QK3M9X2V7B1N0AC");
    let archived = |text: &str| Journal(text.to_owned()).archived();
    let sha256 = "9f".repeat(32);
    assert_eq!(archived(&digest), Some((sha256.clone(), None)));
    let named = format!("{digest}/{run}");
    assert_eq!(archived(&named), Some((sha256, Some(run.parse().unwrap()))));
    assert!(NameKind::Journal.is_whole(&named) && NameKind::Journal.is_whole(&digest));
    for text in [run, &digest[1..], &format!("{digest}/"), &format!("{digest}/T1.2"), "@last/T1.2"]
    {
        assert_eq!(archived(text), None, "{text}");
    }
}

#[test]
fn ambiguous_name_lists_at_most_eight_candidates() {
    let many: Vec<Candidate> = (0..9)
        .map(|n| goal(&format!("goal_01JD8Z5W6T4QK3M9X2V7B1N0A{n}"), "site", n, true, false))
        .collect();
    let error = choose(NameKind::Goal, "goal_01JD", &many).unwrap_err();
    assert_eq!(error.code, Code::Usage);
    assert_eq!(error.what.matches("of site").count(), LISTED, "{}", error.what);
    assert!(error.what.ends_with("and 1 more"), "{}", error.what);
    let error = choose(NameKind::Goal, "goal_01JD", &many[..8]).unwrap_err();
    assert!(!error.what.contains("more"), "{}", error.what);
}

#[test]
fn bare_node_belongs_to_the_only_open_goal() {
    let one = [goal(A, "site", 1, true, true), goal(B, "docs", 2, true, false)];
    assert_eq!(unnamed_goal("T1.1", &one).unwrap().id, A);
    let error = unnamed_goal("T1.1", &goals()).unwrap_err();
    assert_eq!(error.code, Code::Usage);
    assert!(error.what.contains(A) && error.what.contains(C), "{}", error.what);
    let over = [goal(A, "site", 1, true, false), goal(B, "docs", 2, true, false)];
    assert_eq!(unnamed_goal("T1.1", &over).unwrap().id, B);
    assert_eq!(unnamed_goal("T1.1", &[]).unwrap_err().code, Code::NotFound);
}

#[test]
fn node_path_may_omit_its_goal() {
    for (text, goal) in [
        ("T1.2", None),
        ("t1.2", None),
        ("site/T1.2", Some("site")),
        ("@last/T1.2", Some("@last")),
        ("site T1.2", Some("site")),
    ] {
        let (named, node) = split_place(text).unwrap();
        assert_eq!((named, node.to_string().as_str()), (goal, "T1.2"), "{text}");
    }
    for text in ["", "site", "site/", "T1.2/x", "T"] {
        assert!(split_place(text).is_none(), "{text}");
    }
}

fn named(line: &[&str]) -> Vec<(NameKind, String)> {
    let matches = loose(Args::command()).try_get_matches_from(line).unwrap();
    let asked = asked(&Args::command(), &matches);
    asked.into_iter().map(|asked| (asked.kind, asked.text)).collect()
}

#[test]
fn every_id_argument_is_found_on_the_line() {
    for (line, expected) in [
        ("goal show @last", Some((NameKind::Goal, "@last"))),
        ("stop W:01", Some((NameKind::Agent, "W:01"))),
        ("work show T1.1", Some((NameKind::Place, "T1.1"))),
        ("work show site T1.1", Some((NameKind::Place, "site T1.1"))),
        ("get agents --project PO-x", Some((NameKind::Project, "PO-x"))),
        ("project create new", None),
        ("agent add PO-new --external", None),
    ] {
        let words: Vec<&str> = std::iter::once("tetrarch").chain(line.split(' ')).collect();
        let expected: Vec<(NameKind, String)> =
            expected.into_iter().map(|(kind, text)| (kind, text.to_owned())).collect();
        assert_eq!(named(&words), expected, "{line}");
    }
}

#[test]
fn resolved_line_holds_full_ids() {
    let line = ["tetrarch", "work", "show", "site", "T1.1"];
    let place = format!("{A}/T1.1");
    let names = ["site", "T1.1"]
        .map(|word| (NameArgument { kind: NameKind::Place, text: word.to_owned() }, place.clone()));
    let matches = strict(Args::command(), names.into_iter().collect()).try_get_matches_from(line);
    assert!(matches.is_ok(), "{:?}", matches.err().map(|error| error.to_string()));
    let unresolved = strict(Args::command(), Resolved::new()).try_get_matches_from(line);
    assert!(unresolved.is_err());
}

#[test]
fn impossible_name_is_refused_without_lookup() {
    assert!(is_plausible("W:01JD") && is_plausible("@last/T1.1") && is_plausible("a.b_c-d"));
    for text in ["", "a\u{202e}b", "x!", "a\nb", "ö"] {
        assert!(!is_plausible(text), "{text:?}");
    }
}

#[test]
fn clap_definition_is_valid() {
    Args::command().debug_assert();
    loose(Args::command()).debug_assert();
}
