//! What proposals mean: which words are names of what, in which order lines are typed, how they end.

/// Words that stand for a name, and for which.
const NAMES: [(&str, &[&str]); 17] = [
    (
        "{GOAL}",
        &[
            "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC",
            "goal_<ulid>",
            "<goal>",
            "<epic>",
            "{epic}",
            "{goal}",
            "GOAL",
        ],
    ),
    ("{WORKER}", &["W:01JD8Z5W6T4QK3M9X2V7B1N0AC", "W:<ulid>"]),
    ("{RUN}", &["run_01JD8Z5W6T4QK3M9X2V7B1N0AC", "run/<id>", "<run>", "{run}", "RUN"]),
    ("{CHANGE}", &["chg_01JD8Z5W6T4QK3M9X2V7B1N0AC", "chg_<ulid>", "CHANGE"]),
    ("{DRAFT}", &["drf_01JD8Z5W6T4QK3M9X2V7B1N0AC", "DRAFT"]),
    ("{QUESTION}", &["qst_01JD8Z5W6T4QK3M9X2V7B1N0AC"]),
    ("{SCHEDULE}", &["sch_01JD8Z5W6T4QK3M9X2V7B1N0AC"]),
    ("{RESERVATION}", &["rsv_01JD8Z5W6T4QK3M9X2V7B1N0AC"]),
    (
        "{AGENT}",
        &[
            "PO-<project>",
            "PO-demo",
            "PO-words",
            "PO-x",
            "{agent}",
            "<agent>",
            "AGENT",
            "THING",
            "{}",
            "{name}",
        ],
    ),
    ("{HOST}", &["HOST", "{host}", "<host>"]),
    ("{SEQ}", &["<sequence>", "{last}", "SEQ", "4711"]),
    ("demo", &["PROJECT", "<project>", "{project}"]),
    ("coder.toml", &["FILE", "<file>"]),
    ("plan.yaml", &["PLAN", "<plan>", "{file}", "nightly.yaml"]),
    ("{REPOSITORY}", &["<path>", "path/to/repository"]),
    ("{DIGEST}", &["DIGEST", "9f86d0...0a08", "9f86d081", "39cbf7908801572ccc71ad87f4ab8cc9..."]),
    ("{DATA}", &["/var/lib/tetrarch"]),
];

/// Lines whose names are of another kind than they look.
const INSTEAD: [(&str, &str); 16] = [
    ("apply {id}", "apply {CHANGE}"),
    ("agent add {id} --external", "agent add {AGENT} --external"),
    ("change show {id}", "change show {CHANGE}"),
    ("describe {id}", "describe {AGENT}"),
    ("describe host/box", "describe host/{HOST}"),
    ("get {}s", "get agents"),
    ("host drain {HOST}", "host drain build-2"),
    ("host drain {HOST} --undo", "host drain build-2 --undo"),
    ("host --name {HOST}", "host --name box"),
    ("logs {AGENT}", "logs {WORKER}"),
    ("logs {DIGEST}", "logs {JOURNAL}"),
    ("mail read {SEQ}", "mail read {MAIL}"),
    ("plan check {AGENT}", "plan check plan.yaml"),
    ("profile apply demo {AGENT}", "profile apply demo coder.toml"),
    ("why HO@box --last 5 -o json", "why HO@{HOST} --last 5 -o json"),
    ("worktree show {RUN}", "worktree show {KEPT}"),
];

/// The words of a line with kinds for names.
pub(super) fn kinds(words: &[String]) -> Vec<String> {
    let kind = |word: &String| {
        let (head, node) = word.split_once("/T").unwrap_or((word, ""));
        let known = NAMES.iter().find(|(_, names)| names.contains(&head));
        match (known, node) {
            (None, _) => word.clone(),
            (Some((kind, _)), "") => (*kind).to_owned(),
            (Some((kind, _)), node) => format!("{kind}/T{node}"),
        }
    };
    let words: Vec<String> = words.iter().map(kind).collect();
    let text = words.join(" ");
    let instead = INSTEAD.iter().find(|(line, _)| *line == text);
    instead.map_or(words, |(_, line)| line.split(' ').map(str::to_owned).collect())
}

/// Beginnings of lines that last until somebody interrupts them.
pub(super) const LASTING: [&str; 10] = [
    "attach",
    "events --follow",
    "get agents --watch",
    "host",
    "inbox --watch",
    "logs T1.2 -f",
    "logs {WORKER} -f",
    "serve",
    "serve --global",
    "wait",
];

/// Beginnings of lines that only look, though a shorter beginning says otherwise.
pub(super) const LOOKING: [&str; 1] = ["host list"];

/// Beginnings of lines that change something, in the order in which they are typed.
pub(super) const IN_ORDER: [&str; 53] = [
    "steer",
    "pause",
    "resume",
    "interrupt",
    "agent rotate",
    "agent replace",
    "stop {WORKER}",
    "answer",
    "init",
    "profile init",
    "profile apply",
    "project create",
    "project mode",
    "goal create",
    "goal pause",
    "goal priority",
    "goal archive",
    "goal cancel",
    "work done",
    "work priority",
    "work unblock",
    "plan add",
    "plan apply",
    "plan merge",
    "plan split",
    "plan draft",
    "plan approve",
    "plan reject",
    "plan refine",
    "plan propose",
    "approve",
    "deny",
    "apply",
    "schedule create",
    "schedule delete",
    "file release",
    "mail send",
    "artifact get",
    "circuit close",
    "budget raise",
    "spawn",
    "run",
    "agent add",
    "agent retire",
    "worktree remove",
    "host credential",
    "host drain",
    "stop {AGENT}",
    "doctor --accept-ledger",
    "man",
    "project retire",
    "up",
    "down",
];

/// Lines that end with another code than 0, and why that is right.
pub(super) const ENDS: [(&str, i32, &str); 3] = [
    ("plan provenance {GOAL}", 3, "no model was asked for the plan"),
    ("replay --at 10m", 3, "the fleet is not that old"),
    ("replay --at 2026-11-22T08:00:00Z", 3, "the fleet is not that old"),
];

/// Beginnings of lines that are not typed here, and why.
pub(super) const NOT_TYPED: [(&str, &str); 0] = [];
