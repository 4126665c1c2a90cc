//! Where the lines of a chat come from: on a terminal an editor of lines, which remembers what was typed and has what
//! happens meanwhile printed above the line; else standard input as it is. What a line means is not known here.

use std::cell::Cell;
use std::fs::DirBuilder;
use std::io::{self, BufRead, IsTerminal, Read, Write, stderr, stdin};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Editor, ExternalPrinter, Helper};
use tetrarch_core::limits::TURN_TEXT_BYTES_MAX;
use tetrarch_core::redaction;
use tokio::sync::mpsc;

use crate::output;

/// What stands before a line that is edited.
const PROMPT: &str = "you> ";
/// Lines of a person that are remembered.
const REMEMBERED_MAX: usize = 1_000;
/// What has a terminal bracket what is pasted no longer, below a line that is no longer edited.
const LEFT: &str = "\r\x1b[J\x1b[?2004l";

/// The lines of a chat, at most one of them ahead.
pub(super) struct ChatLines {
    lines: mpsc::Receiver<io::Result<String>>,
    /// Has the next one edited.
    wanted: Option<mpsc::Sender<()>>,
    /// The terminal before it was edited on; none where it is not.
    before: Option<Termios>,
    /// Whether the next one was asked for and has not come.
    is_awaited: bool,
}

/// What is said while a line is edited: it goes above the line.
pub(super) struct AboveLine(Option<mpsc::Sender<String>>);

impl ChatLines {
    /// Lines from the terminal, remembered in a file that only its owner reads; else those of standard input, which are
    /// not remembered.
    pub(super) fn open(remembered: PathBuf) -> (Self, AboveLine) {
        let (lines, taken) = mpsc::channel(1);
        let terminal = stdin().is_terminal() && stderr().is_terminal() && output::is_terminal();
        let before = tcgetattr(stdin()).ok().filter(|_| terminal);
        let editor = before.as_ref().and_then(|_| editor(&remembered));
        let mut opened = Self { lines: taken, wanted: None, before, is_awaited: false };
        let Some((editor, printer)) = editor else {
            opened.before = None;
            thread::spawn(move || read(&lines));
            return (opened, AboveLine(None));
        };
        let (wanted, asked) = mpsc::channel(1);
        let (above, said) = mpsc::channel(1);
        thread::spawn(move || edit(editor, &remembered, &lines, asked));
        thread::spawn(move || print(printer, said));
        opened.wanted = Some(wanted);
        (opened, AboveLine(Some(above)))
    }

    /// Whether a person edits them, who may type while something goes on.
    pub(super) fn are_edited(&self) -> bool {
        self.wanted.is_some()
    }

    /// The next line; none at the end. Dropped before it has come, it loses nothing. `prompts`: whether a person who
    /// does not edit is told that it is their turn.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) async fn next(&mut self, prompts: bool) -> io::Result<Option<String>> {
        if !self.is_awaited {
            self.is_awaited = true;
            match &self.wanted {
                // Without anybody who hears it there is no next line, which is found below.
                Some(wanted) => drop(wanted.try_send(())),
                None if prompts && output::is_terminal() => output::say("you:"),
                None => {}
            }
        }
        let line = self.lines.recv().await;
        self.is_awaited = false;
        line.transpose()
    }
}

impl AboveLine {
    /// Waits until something can be said.
    pub(super) async fn has_room(&self) {
        if let Self(Some(above)) = self {
            // Nobody else says anything, so that the room is still there then.
            drop(above.reserve().await);
        }
    }

    /// Says something; whether there is a line that it went above.
    pub(super) fn say(&self, text: &str) -> bool {
        let Self(above) = self;
        let line = || output::sayable(text) + "\n";
        above.as_ref().is_some_and(|above| above.try_send(line()).is_ok())
    }
}

impl Drop for ChatLines {
    fn drop(&mut self) {
        if let Some(before) = self.before.as_ref().filter(|_| self.is_awaited) {
            // The editor still waits for a line: whoever has the terminal next finds it as it was.
            let _kept = tcsetattr(stdin(), OptionalActions::Drain, before);
            let _unseen = stderr().lock().write_all(LEFT.as_bytes());
        }
    }
}

type LineEditor = Editor<TypedText, DefaultHistory>;

/// An editor with what was typed before, and what prints above its line; none on a terminal that cannot move its cursor.
fn editor(remembered: &Path) -> Option<(LineEditor, impl ExternalPrinter + Send + use<>)> {
    let config = Config::builder().max_history_size(REMEMBERED_MAX).ok()?;
    let config = config.history_ignore_space(true).build();
    let mut editor: LineEditor = Editor::with_config(config).ok()?;
    let printer = editor.create_external_printer().ok()?;
    editor.set_helper(Some(TypedText::default()));
    // The first chat of a person has none.
    drop(editor.load_history(remembered));
    Some((editor, printer))
}

/// Prints what is said above the line. It may wait for the editor, so that nobody else has to.
fn print(mut printer: impl ExternalPrinter, mut said: mpsc::Receiver<String>) {
    while let Some(text) = said.blocking_recv() {
        if printer.print(text).is_err() {
            return;
        }
    }
}

/// Has a person edit a line each time that one is wanted, until they end it.
fn edit(
    mut editor: LineEditor,
    remembered: &Path,
    lines: &mpsc::Sender<io::Result<String>>,
    mut wanted: mpsc::Receiver<()>,
) {
    while wanted.blocking_recv().is_some() {
        let line = loop {
            match editor.readline(PROMPT) {
                // Ctrl-C takes back what was typed, and with nothing typed ends the chat.
                Err(ReadlineError::Interrupted)
                    if editor.helper().is_some_and(|typed| typed.0.get()) => {}
                line => break line,
            }
        };
        let line = match line {
            Ok(line) => {
                remember(&mut editor, remembered, &line);
                Ok(line)
            }
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => return,
            Err(ReadlineError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        };
        let ends = line.is_err();
        if lines.blocking_send(line).is_err() || ends {
            return;
        }
    }
}

/// Keeps a line for the arrow keys, of this chat and the next. A secret is not kept.
fn remember(editor: &mut LineEditor, file: &Path, line: &str) {
    if line.len() > TURN_TEXT_BYTES_MAX {
        return;
    }
    let kept = editor.add_history_entry(redaction::text(line)).map_err(io::Error::other);
    let dir = file.parent().unwrap_or_else(|| Path::new("."));
    let kept = kept
        .and_then(|_| DirBuilder::new().recursive(true).mode(0o700).create(dir))
        .and_then(|()| editor.append_history(file).map_err(io::Error::other));
    if let Err(error) = kept {
        tracing::debug!(%error, "what was typed is not remembered");
    }
}

/// Lines of standard input. A line that is too long comes in parts that are refused.
fn read(lines: &mpsc::Sender<io::Result<String>>) {
    let most = TURN_TEXT_BYTES_MAX as u64 + 2;
    loop {
        let mut line = String::new();
        let read = match stdin().lock().take(most).read_line(&mut line) {
            Ok(0) => return,
            Ok(_) => Ok(line),
            Err(error) => Err(error),
        };
        let ended = read.is_err();
        if lines.blocking_send(read).is_err() || ended {
            return;
        }
    }
}

/// Knows whether anything is typed.
#[derive(Debug, Default)]
struct TypedText(Cell<bool>);

impl Hinter for TypedText {
    type Hint = String;

    /// The editor asks at every change of the line.
    fn hint(&self, line: &str, _: usize, _: &rustyline::Context<'_>) -> Option<String> {
        self.0.set(!line.is_empty());
        None
    }
}

impl Completer for TypedText {
    type Candidate = String;
}

impl Highlighter for TypedText {}
impl Validator for TypedText {}
impl Helper for TypedText {}
