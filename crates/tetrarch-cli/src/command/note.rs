//! `note`: what a project remembers (spec 06, The brief). Agents write and search notes by themselves; people look,
//! write and delete.

use std::path::{Path, PathBuf};

use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::id::{NoteName, ProjectName};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::note::ProjectNote;
use tetrarch_core::request::{NoteOp, Op};

use super::project::ask;
use crate::document::{STANDARD_INPUT, read_text};
use crate::output::{self, Sheet, TableRow, age, is_coloured, now, stamp};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Subcommands of `note`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch note list demo
  tetrarch note list demo build linux
  tetrarch note show demo build
  tetrarch note put demo build notes.txt
  tetrarch note delete demo build")]
pub(crate) enum NoteCommand {
    /// List the notes of a project that contain all words.
    List {
        /// The project.
        project: ProjectName,
        /// Words of a note's name or text.
        words: Vec<String>,
    },
    /// Show a note.
    Show {
        /// The project.
        project: ProjectName,
        /// The note's name.
        name: NoteName,
    },
    /// Write a note, or replace the one of that name.
    Put {
        /// The project.
        project: ProjectName,
        /// The note's name.
        name: NoteName,
        /// A text file, or - for standard input.
        file: PathBuf,
        /// Write only if the note is this version, 0 if there is none.
        #[arg(long, value_name = "VERSION")]
        expect: Option<u64>,
    },
    /// Delete a note.
    Delete {
        /// The project.
        project: ProjectName,
        /// The note's name.
        name: NoteName,
    },
}

const COLUMNS: &str = "NOTE|VERSION|AUTHOR|AGE|TEXT";

/// Runs the command.
///
/// # Errors
/// The bus or the file cannot be read, there is no such project or note, or the note is another version.
pub(crate) async fn run(context: &Context, command: NoteCommand) -> CliResult {
    match command {
        NoteCommand::List { project, words } => list(context, &project, &words).await,
        NoteCommand::Show { project, name } => show(context, project, name).await,
        NoteCommand::Put { project, name, file, expect } => {
            let piped = file == Path::new(STANDARD_INPUT);
            let text = read_text(&file, piped, &file.display().to_string())?;
            let project = Some(project);
            let op = Op::Note(NoteOp::Put { project, name, text, expect_version: expect });
            ask(context, &op, |reply| reply.detail.clone()).await
        }
        NoteCommand::Delete { project, name } => {
            let said = format!("note {name} deleted");
            ask(context, &Op::Note(NoteOp::Delete { project: Some(project), name }), |_| said).await
        }
    }
}

async fn list(context: &Context, project: &ProjectName, words: &[String]) -> CliResult {
    let bus = context.client().await?.bus;
    let snapshot = StateSnapshot::read(&bus, &[Select::Kind(KeyKind::Note)]).await?;
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let all = snapshot.records.notes.values();
    let shown = all.filter(|note| note.project == *project && note.has_all(&words));
    let row = |note: &ProjectNote| {
        Ok(TableRow {
            cells: vec![
                note.name.to_string().into(),
                note.version.to_string().into(),
                note.author.to_string().into(),
                age(now(), note.updated).into(),
                note.text.lines().next().unwrap_or_default().into(),
            ],
            record: snapshot.json(&Record::Note(Box::new(note.clone())))?,
        })
    };
    let rows = shown.map(row).collect::<CliResult<Vec<TableRow>>>()?;
    let empty = "No notes. Agents write them with note_put, people with `tetrarch note put PROJECT NAME FILE`.";
    output::listing(context.output, COLUMNS, rows, empty)
}

async fn show(context: &Context, project: ProjectName, name: NoteName) -> CliResult {
    let bus = context.client().await?.bus;
    let key = RecordKey::Note(project.clone(), name.clone());
    let snapshot = StateSnapshot::read(&bus, &[Select::One(key)]).await?;
    let Some(note) = snapshot.records.notes.get(&(project.clone(), name.clone())) else {
        let what = format!("project {project} has no note {name}");
        return Err(CliError::new(Code::NotFound, what)
            .hint(format!("`tetrarch note list {project}` lists them")));
    };
    let value = snapshot.json(&Record::Note(Box::new(note.clone())))?;
    output::record(context.output, &value, || {
        let mut sheet = Sheet::new(&format!("note {name} of {project}"), is_coloured());
        sheet.field("version", note.version.to_string());
        sheet.field("author", note.author.to_string());
        sheet.field("updated", stamp(note.updated));
        sheet.passage("text", &note.text);
        sheet.finish()
    })
}
