//! What people type for the things there are: whole ids, beginnings and ends of ids, `@last`, project
//! names, `T1.1`. Choosing among candidates is pure; what there is to choose from is read in `reading`,
//! where on the command line things are named is known to `arguments`
//! ([0072](../../../docs/decisions/0072-names-are-resolved-before-a-command-sees-them.md)).

mod arguments;
mod reading;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use tetrarch_core::id::{AgentId, ChangeId, DraftId, EpicId, NodeId, RunId};

use crate::{CliError, CliResult, Code};

pub(crate) use arguments::{NameArgument, asked, completing, loose, strict};
pub(crate) use reading::{Resolved, candidates, is_open, resolve};

/// The newest of a kind, instead of an id. Of goals, the newest that the person gave themself: none of a turn or a
/// schedule.
const LAST: &str = "@last";
/// Between the two words of a place, where it was said in two.
const TWO_WORDS: char = ' ';
/// Candidates that an error lists.
const LISTED: usize = 8;
/// Characters of an id's end that name it at least. Ids that were made together begin alike.
const END_MIN: usize = 4;
/// Digits of a digest that name it at least.
const DIGEST_MIN: usize = 6;
/// Digits of a whole digest.
const DIGEST_LEN: usize = 64;
/// Characters of a candidate's title that an error shows.
const TITLE_MAX: usize = 60;

/// What can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    /// An agent.
    Agent,
    /// An agent, or a human.
    Principal,
    /// A goal.
    Goal,
    /// A node of a goal's plan.
    Place,
    /// A run.
    Run,
    /// A question to people.
    Question,
    /// A change before its branch.
    Change,
    /// A proposed change of a plan.
    Draft,
    /// A change or a draft.
    Decidable,
    /// What begins at set times.
    Schedule,
    /// Paths that are held.
    Reservation,
    /// A project.
    Project,
    /// A host; one that is not there yet is fine.
    Host,
    /// An artifact.
    Digest,
    /// An agent, run, goal, node, change, project or host.
    Thing,
    /// What keeps a journal: an agent, a run, a node; or an artifact that one is kept as.
    Journal,
}

impl NameKind {
    /// What people call one of them.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Agent | Self::Principal => "agent",
            Self::Goal => "goal",
            Self::Place => "node",
            Self::Run => "run",
            Self::Question => "question",
            Self::Change => "change",
            Self::Draft => "draft",
            Self::Decidable => "change or draft",
            Self::Schedule => "schedule",
            Self::Reservation => "reservation",
            Self::Project => "project",
            Self::Host => "host",
            Self::Digest => "artifact",
            Self::Thing => "agent, run, goal, node, change, project or host",
            Self::Journal => "agent, run, node or kept journal",
        }
    }

    /// The command that lists them.
    fn listed_by(self) -> &'static str {
        match self {
            Self::Agent | Self::Principal => "tetrarch agent list",
            Self::Goal => "tetrarch goal list",
            Self::Place => "tetrarch get nodes",
            Self::Run => "tetrarch get runs",
            Self::Question | Self::Change | Self::Draft | Self::Decidable => "tetrarch inbox",
            Self::Schedule => "tetrarch schedule list",
            Self::Reservation => "tetrarch file list",
            Self::Project => "tetrarch project list",
            Self::Host => "tetrarch host list",
            Self::Digest => "tetrarch artifact list",
            Self::Thing => "tetrarch get agents",
            Self::Journal => "tetrarch get runs",
        }
    }

    /// Whether a text names one by itself, whatever there is: a whole id.
    pub(crate) fn is_whole(self, text: &str) -> bool {
        use tetrarch_core::id::{ChangeId, DraftId, Principal, QuestionId};
        use tetrarch_core::id::{ReservationId, ScheduleId};
        fn parses<T: FromStr>(text: &str) -> bool {
            text.parse::<T>().is_ok()
        }
        match self {
            Self::Agent => parses::<AgentId>(text),
            Self::Principal => parses::<Principal>(text),
            Self::Goal => parses::<EpicId>(text),
            Self::Place => parses::<NodePath>(text),
            Self::Run => parses::<RunId>(text),
            Self::Question => parses::<QuestionId>(text),
            Self::Change => parses::<ChangeId>(text),
            Self::Draft => parses::<DraftId>(text),
            Self::Decidable => parses::<Decidable>(text),
            Self::Schedule => parses::<ScheduleId>(text),
            Self::Reservation => parses::<ReservationId>(text),
            Self::Project | Self::Host => false,
            Self::Digest => is_digest(text),
            Self::Thing => {
                let kinds = [Self::Agent, Self::Place, Self::Goal, Self::Run];
                let assignment = parses::<tetrarch_core::id::AssignmentId>(text);
                let elsewhere = ResourceName(text.to_owned()).shown_by().is_some();
                assignment || elsewhere || kinds.iter().any(|kind| kind.is_whole(text))
            }
            Self::Journal => {
                let kinds = [Self::Agent, Self::Place, Self::Run];
                let archived = Journal(text.to_owned()).archived().is_some();
                archived || kinds.iter().any(|kind| kind.is_whole(text))
            }
        }
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == DIGEST_LEN && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A node of a goal's plan, as in `<goal>/<node>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodePath {
    /// The goal.
    pub(crate) epic: EpicId,
    /// The node.
    pub(crate) node: NodeId,
}

impl FromStr for NodePath {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (epic, node) =
            text.split_once('/').ok_or("expected <goal>/<node>, as in @last/T1.2")?;
        let epic = epic.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { epic, node: node.parse().map_err(|error| format!("{error}"))? })
    }
}

/// Something that a human decides on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Decidable {
    /// A change.
    Change(ChangeId),
    /// A proposed change of a plan.
    Draft(DraftId),
}

impl std::str::FromStr for Decidable {
    type Err = tetrarch_core::id::IdError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("drf_") {
            return text.parse().map(Self::Draft);
        }
        text.parse().map(Self::Change)
    }
}

/// The name of an agent, run, goal, node, project or host, in its whole form: an id, `<goal>/<node>`,
/// `project/<name>` or `host/<name>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceName(pub(crate) String);

impl FromStr for ResourceName {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl ResourceName {
    /// The command that shows it, where it is the whole id of something that has a command of its own.
    fn shown_by(&self) -> Option<(NameKind, String)> {
        let Self(id) = self;
        let inbox = "tetrarch inbox --everyone --closed".to_owned();
        let kinds = [
            (NameKind::Change, format!("tetrarch change show {id}")),
            (NameKind::Schedule, format!("tetrarch schedule show {id}")),
            (NameKind::Question, inbox.clone()),
            (NameKind::Draft, inbox),
        ];
        kinds.into_iter().find(|(kind, _)| kind.is_whole(id))
    }

    /// Refuses what another command shows.
    ///
    /// # Errors
    /// It is a change, a question, a draft of a plan or a schedule.
    pub(crate) fn must_be_shown_by(&self, command: &str) -> CliResult {
        let Some((kind, shows)) = self.shown_by() else { return Ok(()) };
        let what = format!("{} is a {}; `{command}` does not show these", self.0, kind.word());
        Err(CliError::new(Code::Usage, what).hint(format!("`{shows}` shows it")))
    }
}

/// The name of what keeps a journal, in its whole form: an agent, a run, `<goal>/<node>`, a digest or
/// `<digest>/<run>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Journal(pub(crate) String);

impl Journal {
    /// The artifact that it names, with the run whose journal is meant where it says which.
    pub(crate) fn archived(&self) -> Option<(String, Option<RunId>)> {
        let (sha256, run) = match self.0.split_once('/') {
            Some((sha256, run)) => (sha256, Some(run.parse().ok()?)),
            None => (self.0.as_str(), None),
        };
        is_digest(sha256).then(|| (sha256.to_ascii_lowercase(), run))
    }
}

impl FromStr for Journal {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// The sha256 of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest(pub(crate) String);

impl FromStr for Digest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if is_digest(text) {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        Err(format!(
            "{text:?} is not a sha256: expected 64 hexadecimal digits, or a unique prefix of at least 6"
        ))
    }
}

/// Something that can be named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Candidate {
    /// Its whole name.
    pub(crate) id: String,
    /// Other names, each of them whole: the project of an open goal, the name of a host.
    pub(crate) aliases: Vec<String>,
    /// What people know it by.
    pub(crate) title: String,
    /// When it was made, in milliseconds; the last is the newest.
    pub(crate) made: u64,
    /// Whether `@last` can mean it.
    pub(crate) is_mine: bool,
    /// Whether it goes on.
    pub(crate) is_open: bool,
}

/// Which candidate a text names.
///
/// # Errors
/// Several (exit 2) or none (exit 3), with what there is.
pub(crate) fn choose<'c>(
    kind: NameKind,
    text: &str,
    candidates: &'c [Candidate],
) -> CliResult<&'c Candidate> {
    if text.eq_ignore_ascii_case(LAST) {
        let mine = candidates.iter().filter(|candidate| candidate.is_mine);
        let newest = mine.max_by_key(|candidate| (candidate.made, &candidate.id));
        return newest.ok_or_else(|| none(kind, text, candidates));
    }
    let found = matching(kind, text, candidates);
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(none(kind, text, candidates)),
        several => Err(ambiguous(kind, text, several)),
    }
}

/// The candidates that a text may mean: the first way of naming that any fits counts.
fn matching<'c>(kind: NameKind, text: &str, candidates: &'c [Candidate]) -> Vec<&'c Candidate> {
    let wanted = text.to_ascii_lowercase();
    let all = |fits: &dyn Fn(&Candidate) -> bool| -> Vec<&'c Candidate> {
        candidates.iter().filter(|candidate| fits(candidate)).collect()
    };
    let begins = |candidate: &Candidate| {
        let id = candidate.id.to_ascii_lowercase();
        let least = if kind == NameKind::Digest { DIGEST_MIN } else { 1 };
        wanted.len() >= least && (id.starts_with(&wanted) || bare(&id).starts_with(&wanted))
    };
    let ends = |candidate: &Candidate| {
        let id = candidate.id.to_ascii_lowercase();
        kind != NameKind::Digest && wanted.len() >= END_MIN && bare(&id).ends_with(&wanted)
    };
    let ways: [&dyn Fn(&Candidate) -> bool; 5] = [
        &|candidate| candidate.id == text,
        &|candidate| candidate.aliases.iter().any(|alias| alias == text),
        &|candidate| candidate.id.eq_ignore_ascii_case(text),
        &begins,
        &ends,
    ];
    ways.into_iter().map(all).find(|found| !found.is_empty()).unwrap_or_default()
}

/// An id without the part that says of which kind it is.
fn bare(id: &str) -> &str {
    let prefixes = ["goal_", "run_", "qst_", "chg_", "drf_", "sch_", "rsv_", "ho@", "io@", "po-"];
    let rest = prefixes.iter().find_map(|prefix| id.strip_prefix(prefix));
    rest.or_else(|| id.rsplit_once(':').map(|(_, rest)| rest)).unwrap_or(id)
}

fn none(kind: NameKind, text: &str, candidates: &[Candidate]) -> CliError {
    let word = kind.word();
    let what = format!("no {word} named {text:?}");
    let mut all: Vec<&Candidate> = candidates.iter().collect();
    all.sort_by_key(|candidate| (!candidate.is_open, std::cmp::Reverse(candidate.made)));
    if all.is_empty() {
        return CliError::new(Code::NotFound, format!("{what}; none exist"));
    }
    let error = CliError::new(Code::NotFound, format!("{what}; known names:\n{}", listed(&all)));
    let is_goal = text.eq_ignore_ascii_case(LAST) || NameKind::Goal.is_whole(text);
    error.hint(if kind == NameKind::Agent && is_goal {
        let goal = text;
        format!(
            "{goal} is a goal: `tetrarch goal pause {goal}` pauses it; see `tetrarch goal --help`"
        )
    } else {
        format!("`{}` lists them", kind.listed_by())
    })
}

fn ambiguous(kind: NameKind, text: &str, found: &[&Candidate]) -> CliError {
    let what = format!("{text:?} is ambiguous; {} names match:\n{}", found.len(), listed(found));
    CliError::new(Code::Usage, what)
        .hint(format!("type more of the {}'s id, or the end of the id", kind.word()))
}

/// Candidates, one a line, with what people know them by.
fn listed(candidates: &[&Candidate]) -> String {
    let width = candidates.iter().take(LISTED).map(|candidate| candidate.id.chars().count()).max();
    let line = |candidate: &&Candidate| {
        let title: String =
            crate::output::visible(&candidate.title).chars().take(TITLE_MAX).collect();
        format!("  {:<1$}  {title}", candidate.id, width.unwrap_or(0)).trim_end().to_owned()
    };
    let mut lines: Vec<String> = candidates.iter().take(LISTED).map(line).collect();
    if let Some(more) = candidates.len().checked_sub(LISTED).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more"));
    }
    lines.join("\n")
}

/// Says that nothing has this whole name, with the command that lists what there is.
pub(crate) fn not_found(text: &str) -> CliError {
    let kinds = [NameKind::Place, NameKind::Goal, NameKind::Run, NameKind::Agent];
    let kind = kinds.into_iter().find(|kind| kind.is_whole(text));
    let (word, listed_by) =
        kind.map_or(("", NameKind::Run.listed_by()), |kind| (kind.word(), kind.listed_by()));
    CliError::new(Code::NotFound, format!("{word} {text} was not found").trim_start())
        .hint(format!("list them with `{listed_by}`"))
}

/// The goal and the node that a text names: `<goal>/<node>`, or the node alone.
fn split_place(text: &str) -> Option<(Option<&str>, NodeId)> {
    let (goal, node) = match text.rsplit_once(['/', TWO_WORDS]) {
        Some((goal, node)) => (Some(goal), node),
        None => (None, text),
    };
    let node = node.parse().or_else(|_| node.to_ascii_uppercase().parse()).ok()?;
    Some((goal, node))
}

/// The goal that is meant where none is named: the only open one, else, when none is open, the newest of
/// one's own.
///
/// # Errors
/// Several are open, or there is none.
fn unnamed_goal<'c>(text: &str, goals: &'c [Candidate]) -> CliResult<&'c Candidate> {
    let open: Vec<&Candidate> = goals.iter().filter(|goal| goal.is_open).collect();
    match open.as_slice() {
        [one] => Ok(one),
        [] => choose(NameKind::Goal, LAST, goals),
        several => {
            let what = format!("{text} is ambiguous; open goals:\n{}", listed(several));
            let first = several.first().map_or("", |goal| goal.id.as_str());
            Err(CliError::new(Code::Usage, what)
                .hint(format!("name the goal too, such as {first}/{text}")))
        }
    }
}

/// Whether a text may be the name of anything: what has other characters is a slip, whatever there is.
pub(crate) fn is_plausible(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:@/. ".contains(&byte);
    !text.is_empty() && text.len() <= 200 && text.bytes().all(allowed)
}

/// Whether an id is the one that a text names, or one that it begins or ends like.
pub(crate) fn fits(text: &str, id: &str) -> bool {
    let candidate = [Candidate { id: id.to_owned(), ..Candidate::default() }];
    !matching(NameKind::Thing, text, &candidate).is_empty()
}
