//! Where on the command line things are named: every argument whose type is an id. The line is parsed
//! twice, first with these arguments as plain text, then with what each text was found to name.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use tetrarch_core::id::{
    AgentId, ChangeId, DraftId, EpicId, HostName, Principal, ProjectName, QuestionId,
    ReservationId, RunId, ScheduleId,
};

use super::{Decidable, Digest, Journal, NameKind, NodePath, ResourceName, TWO_WORDS};

/// Arguments that give a name to something new, by command and argument.
const NEW: [(&str, &str); 3] =
    [("agent add", "name"), ("host credential", "name"), ("project create", "name")];

/// What was typed where something is named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameArgument {
    /// What is named.
    pub(crate) kind: NameKind,
    /// As it was typed.
    pub(crate) text: String,
}

/// What each text names, in its whole form.
type ResolvedNames = Arc<BTreeMap<NameArgument, String>>;

/// The kind of thing that an argument names, if any.
fn kind_of(path: &str, arg: &Arg) -> Option<NameKind> {
    // A credential is of whoever it names, whether or not there is such a one.
    if path.starts_with("creds") {
        return None;
    }
    if NEW.iter().any(|(command, id)| path == *command && arg.get_id() == id) {
        return None;
    }
    let parser = arg.get_value_parser().type_id();
    type_names().into_iter().find(|(named, _)| parser == *named).map(|(_, kind)| kind)
}

/// Changes every argument that names something, in every command.
fn each(command: Command, path: &str, change: &dyn Fn(NameKind, Arg) -> Arg) -> Command {
    let command = command.mut_args(|arg| match kind_of(path, &arg) {
        Some(kind) => change(kind, arg),
        None => arg,
    });
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        each(below, path.trim_start(), change)
    })
}

/// The command line with texts in place of ids.
pub(crate) fn loose(command: Command) -> Command {
    each(command, "", &|_, arg| arg.value_parser(clap::value_parser!(String)))
}

/// The command line on which a text is what it was found to name.
pub(crate) fn strict(command: Command, found: BTreeMap<NameArgument, String>) -> Command {
    let names = Arc::new(found);
    each(command, "", &|kind, arg| arg.value_parser(parser(kind, &names)))
}

/// The kinds of name, each with the type that its arguments have.
macro_rules! kinds {
    ($($kind:ident: $named:ty),* $(,)?) => {
        fn type_names() -> Vec<(TypeId, NameKind)> {
            vec![$((TypeId::of::<$named>(), NameKind::$kind)),*]
        }

        fn parser(kind: NameKind, names: &ResolvedNames) -> ValueParser {
            match kind {
                $(NameKind::$kind => reader::<$named>(kind, names),)*
            }
        }
    };
}

kinds! {
    Agent: AgentId, Principal: Principal, Goal: EpicId, Place: NodePath, Run: RunId,
    Question: QuestionId, Change: ChangeId, Draft: DraftId, Decidable: Decidable,
    Schedule: ScheduleId, Reservation: ReservationId, Project: ProjectName, Host: HostName,
    Digest: Digest, Thing: ResourceName, Journal: Journal,
}

fn reader<T>(kind: NameKind, names: &ResolvedNames) -> ValueParser
where
    T: FromStr + Clone + Send + Sync + 'static,
    T::Err: std::fmt::Display,
{
    let names = Arc::clone(names);
    ValueParser::new(move |text: &str| {
        let asked = NameArgument { kind, text: text.to_owned() };
        let whole = names.get(&asked).map_or(text, String::as_str);
        whole.parse::<T>().map_err(|error| error.to_string())
    })
}

/// What was typed where something is named, in a line that was parsed loosely.
pub(crate) fn asked(command: &Command, matches: &ArgMatches) -> Vec<NameArgument> {
    let mut found = Vec::new();
    collect(command, matches, "", &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect(command: &Command, matches: &ArgMatches, path: &str, found: &mut Vec<NameArgument>) {
    for arg in command.get_arguments() {
        let Some(kind) = kind_of(path, arg) else { continue };
        let typed = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
        let texts: Vec<String> = typed.map(|text| text.to_string_lossy().into_owned()).collect();
        if kind == NameKind::Place {
            found.extend(places(&texts));
        } else {
            found.extend(texts.into_iter().map(|text| NameArgument { kind, text }));
        }
    }
    if let Some((name, below)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        collect(command, below, format!("{path} {name}").trim_start(), found);
    }
}

/// One place is one word, `<goal>/<node>`, or the two; each word then stands for the place.
fn places(texts: &[String]) -> Vec<NameArgument> {
    let asked = |text: String| NameArgument { kind: NameKind::Place, text };
    match texts {
        [goal, node] => vec![asked(format!("{goal}{TWO_WORDS}{node}"))],
        texts => texts.iter().cloned().map(asked).collect(),
    }
}

/// The command line that completes what names something with what there is.
pub(crate) fn completing(command: Command, live: fn(NameKind) -> Vec<(String, String)>) -> Command {
    each(command, "", &|kind, arg| {
        let candidates = move |typed: &std::ffi::OsStr| {
            let typed = typed.to_string_lossy().to_ascii_lowercase();
            let fits = |(id, _): &(String, String)| id.to_ascii_lowercase().starts_with(&typed);
            let offer = |(id, title): (String, String)| {
                CompletionCandidate::new(id).help(Some(title.into()))
            };
            live(kind).into_iter().filter(fits).map(offer).collect()
        };
        arg.add(ArgValueCompleter::new(candidates))
    })
}
