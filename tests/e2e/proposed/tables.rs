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
    ("{DIGEST}", &["DIGEST", "9f86d0...0a08", "9f86d081"]),
    ("{DATA}", &["/var/lib/tetrarch"]),
];

/// Lines whose names are of another kind than they look.
const INSTEAD: [(&str, &str); 53] = [
    ("why {epic}/{node}", "why {GOAL}/T1.2"),
    ("plan apply {GOAL} coder.toml --reason TEXT", "plan apply {GOAL} plan.yaml --reason TEXT"),
    ("ask --conversation {conversation} TEXT", "ask --conversation site hello"),
    ("chat {conversation}", "chat site"),
    ("graph apply demo coder.toml", "graph apply demo graph.yaml"),
    ("attach site --quiet", "attach {GOAL} --quiet"),
    // How many versions a plan has depends on what is decided together.
    ("plan diff {GOAL} 3 5", "plan diff {GOAL} 1 2"),
    (
        "plan apply {GOAL} plan.yaml --base 4 --reason as we agreed",
        "plan apply {GOAL} plan.yaml --base 1 --reason 'as we agreed'",
    ),
    (
        "project create demo --mode tight --tools git,shell --tokens 200000",
        "project create newer --mode tight --tools git,shell --tokens 200000",
    ),
    (
        "work done {GOAL} T1.2 --summary the page is up --test make check: ok --reason I did it by hand",
        "work done {GOAL} T1.1 --summary 'the page is up' --test 'make check: ok' --reason 'I did it by hand'",
    ),
    (
        "work done {GOAL} T1.3 --test make check: ok --reason done by hand",
        "work done {GOAL} T1.1 --test 'make check: ok' --reason 'done by hand'",
    ),
    ("worktree remove {RUN}", "worktree remove {KEPT}"),
    ("worktree remove {RUN} --force --yes", "worktree remove {KEPT} --force --yes"),
    ("agent replace {AGENT}", "agent replace {OTHER}"),
    ("agent replace {WORKER} --reason it hangs", "agent replace {OTHER} --reason 'it hangs'"),
    (
        "agent rotate {WORKER} --reason its context is full",
        "agent rotate {OTHER} --reason 'its context is full'",
    ),
    ("creds issue {id}", "creds issue PO-demo"),
    ("creds issue {to} --role viewer", "creds issue human:bob --role viewer"),
    ("creds issue {holder} --role viewer", "creds issue human:bob --role viewer"),
    ("creds rotate {holder}{options}", "creds rotate human:bob --expires 30d --role operator"),
    ("creds rotate {human}{role}", "creds rotate human:bob --role approver"),
    ("circuit close {AGENT}", "circuit close {OPEN}"),
    ("goal archive {GOAL}", "goal archive {DONE}"),
    ("project create demo", "project create {NEW}"),
    ("project create {main}", "project create main"),
    (
        "serve --global --url nats://bus.example:4222 --credentials control.creds",
        "serve --global --url {URL} --credentials {CREDENTIALS}",
    ),
    ("stop {WORKER} --reason wrong branch", "stop {OTHER} --reason 'wrong branch'"),
    (
        "up --listen 0.0.0.0:4222 --tls-name bus.example.org",
        "up --listen 127.0.0.1:{PORT} --tls-name localhost",
    ),
    ("up --data-dir ./fleet --port 4222", "up --data-dir ./fleet --port {PORT}"),
    ("wait {CHANGE} --for applied", "wait {APPLIED} --for applied"),
    ("wait {RUN} --for done", "wait {KEPT} --for done"),
    (
        "work unblock @last/T1.2 --note the key is in the vault",
        "work unblock {FAILED}/T1.2 --note 'the key is in the vault'",
    ),
    ("answer {QUESTION} use the second one", "answer {QUESTION} 'use the second one' --other"),
    ("apply {id}", "apply {CHANGE}"),
    ("approve {id}", "approve {CHANGE}"),
    ("agent add {id} --external", "agent add {AGENT} --external"),
    ("change show {id}", "change show {CHANGE}"),
    ("describe {id}", "describe {AGENT}"),
    ("describe host/box", "describe host/{HOST}"),
    ("get {}s", "get agents"),
    ("host drain {HOST}", "host drain second"),
    ("host drain {HOST} --undo", "host drain build-2 --undo"),
    ("host --name {HOST}", "host --name box"),
    ("logs {AGENT}", "logs {WORKER}"),
    ("logs {DIGEST}", "logs {JOURNAL}"),
    ("logs 9f86d0...0a08/run_01JD8Z5W6T4QK3M9X2V7B1N0AC", "logs {JOURNAL}"),
    ("mail read {SEQ}", "mail read {MAIL}"),
    ("plan check {AGENT}", "plan check plan.yaml"),
    ("profile apply demo {AGENT}", "profile apply demo coder.toml"),
    (
        "run --goal what is to be done --profiles {AGENT}",
        "run --goal 'what is to be done' --profiles profiles.yaml",
    ),
    ("why HO@box --last 5 -o json", "why HO@{HOST} --last 5 -o json"),
    ("schedule show {id}", "schedule show {SCHEDULE}"),
    ("worktree show {RUN}", "worktree show {KEPT}"),
];

/// The words of a line with kinds for names.
pub(super) fn kinds(words: &[String]) -> Vec<String> {
    // The digest of an artifact as `run` shortens it: another one in each run.
    let shortened = |word: &str| {
        let head = word.strip_suffix("...");
        head.is_some_and(|head| {
            head.len() == 32 && head.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    let kind = |word: &String| {
        if shortened(word) {
            return "{DIGEST}".to_owned();
        }
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
    instead.map_or(words, |(_, line)| shlex::split(line).unwrap())
}

/// Beginnings of lines that last until somebody interrupts them.
pub(super) const LASTING: [&str; 11] = [
    "attach",
    "events --follow",
    "get agents --watch",
    "host",
    "logs T1.2 -f",
    "logs {WORKER} -f",
    "serve",
    "serve --global",
    "tree --watch",
    "up",
    "inbox --watch",
];

/// Beginnings of lines that only look, though a shorter beginning says otherwise.
pub(super) const LOOKING: [&str; 1] = ["host list"];

/// Beginnings of lines that change something, in the order in which they are typed.
pub(super) const IN_ORDER: [&str; 63] = [
    "steer",
    "pause",
    "resume",
    "interrupt",
    "budget raise {WORKER}",
    "answer",
    "wait T1.2",
    "wait",
    "attach {GOAL} --quiet",
    "init",
    "profile init",
    "profile apply",
    "project create",
    "project mode",
    "goal pause",
    "goal priority",
    "goal update",
    "goal archive",
    "goal cancel",
    "goal create",
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
    "wait {APPLIED}",
    "schedule create",
    "schedule delete",
    "ask",
    "mail send",
    "artifact get",
    "circuit close",
    "budget raise",
    "agent rotate",
    "agent replace",
    "spawn",
    "run",
    "stop {OTHER}",
    "agent add",
    "worktree remove",
    "host credential",
    "creds issue",
    "creds rotate",
    "creds revoke",
    "host drain",
    "stop {AGENT}",
    "agent retire",
    "doctor --accept-ledger",
    "audit export",
    "audit verify",
    "man",
    "project retire",
    "down",
];

/// Lines that end with another code than 0, and why that is right.
pub(super) const ENDS: [(&str, i32, &str); 12] = [
    (
        "ask --conversation fence --project demo --graph triage paint the fence",
        1,
        "its graph asks for the colour: a question is no answer",
    ),
    ("doctor --accept-ledger {SEQ}", 5, "nothing is accepted below an owner that is well"),
    ("doctor --accept-ledger {SEQ} --yes", 5, "nothing is accepted below an owner that is well"),
    ("notify", 2, "no channel is set; notices.rs has some"),
    ("notify --test", 2, "no channel is set; notices.rs has some"),
    ("page", 2, "it is off in tests; page.rs has one"),
    ("plan provenance {GOAL}", 3, "no model was asked for the plan"),
    ("replay --at 10m", 3, "the fleet is not that old"),
    ("replay --at 2026-11-22T08:00:00Z", 3, "the fleet is not that old"),
    ("roster", 2, "there is no terminal; roster.rs has one"),
    (
        "spawn {AGENT} specialist --domain api --epic {GOAL} --node T1.2 --task describe the interface",
        4,
        "the governor refuses what waits for other work",
    ),
    ("worktree remove {KEPT}", 5, "its work is on no branch; the answer names --force"),
];

/// Beginnings of lines that are not typed here, and why.
pub(super) const NOT_TYPED: [(&str, &str); 10] = [
    ("agent retire -o json --yes -- a", "a unit test's sample in confirm.rs"),
    ("goal cancel g", "a unit test's sample in confirm.rs"),
    ("host forget", "a host that is gone is needed; hosts.rs forgets one"),
    ("file release", "paths are held by a model's tools alone; own_tools.rs releases them"),
    ("mcp --http", "it serves until it is stopped; assistant.rs has one"),
    ("note delete", "a model writes the note; own_tools.rs deletes it"),
    ("note put", "a file is needed; own_tools.rs writes one"),
    ("note show", "a model writes the note; own_tools.rs shows it"),
    ("plan propose", "a model is asked; planner.rs scripts one"),
    ("run examples/resume/plan.yaml", "a second binary; resume.rs runs it"),
];
