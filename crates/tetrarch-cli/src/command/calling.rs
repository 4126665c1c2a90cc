//! A command of this program as a process of its own, bounded in time and output, which ends with whoever asked for it.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::options::installation;
use crate::{CliResult, Context};

/// Bytes of a result; a model reads no more of it anyway.
const RESULT_MAX: u64 = 256 * 1024;
/// Bytes of an error.
const ERROR_MAX: u64 = 16 * 1024;
/// How long a command may take.
const CALL_MAX: Duration = Duration::from_secs(600);

/// The words of a command, and what it reads from standard input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandWords {
    pub(super) words: Vec<String>,
    pub(super) input: Option<String>,
}

/// The program, and the options by which its commands mean the same installation.
#[derive(Debug, Clone)]
pub(super) struct CalledProgram {
    pub(super) program: Arc<Path>,
    pub(super) leading: Arc<[String]>,
}

impl CalledProgram {
    /// This program.
    ///
    /// # Errors
    /// It cannot be found.
    pub(super) fn own(context: &Context) -> CliResult<Self> {
        let given = installation(&context.global).into_iter();
        let leading = given.map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Self { program: std::env::current_exe()?.into(), leading })
    }
}

/// A call.
pub(super) struct CommandCall<'a> {
    pub(super) of: &'a CalledProgram,
    pub(super) line: CommandWords,
}

impl CommandCall<'_> {
    /// Runs the command. Dropped, the command is killed.
    ///
    /// # Errors
    /// What the command says when it fails; or why it gave no result.
    pub(super) async fn run(self) -> Result<String, String> {
        tokio::time::timeout(CALL_MAX, self.ended()).await.unwrap_or_else(|_| {
            Err(format!(
                "the command did not end within {} s and was stopped; what it asked for may still happen",
                CALL_MAX.as_secs()
            ))
        })
    }

    async fn ended(self) -> Result<String, String> {
        let CommandWords { words, input } = self.line;
        let shown = words.join(" ");
        let failed = |cause: std::io::Error| format!("cannot run {shown}: {cause}");
        let mut child = Command::new(&*self.of.program)
            .args(&*self.of.leading)
            .args(words)
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let given = async {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // A command that does not read to the end says why by itself.
                let _unread = stdin.write_all(input.as_bytes()).await;
            }
        };
        let ((), printed, told) =
            tokio::join!(given, read(stdout, RESULT_MAX), read(stderr, ERROR_MAX));
        let (printed, told) = (printed.map_err(failed)?, told.map_err(failed)?);
        if printed.is_cut {
            return Err(format!(
                "the result has more than {RESULT_MAX} bytes; ask for less by its filters"
            ));
        }
        let status = child.wait().await.map_err(failed)?;
        if status.success() {
            return Ok(printed.text);
        }
        // What a command printed before it failed, such as the findings of a check, is part of its answer.
        Err(format!("{}{}({status})", printed.text, told.text))
    }
}

/// What came out of a pipe.
struct Printed {
    text: String,
    is_cut: bool,
}

/// Reads a pipe up to a bound. A command that prints more is ended by the pipe that is closed.
async fn read(pipe: Option<impl AsyncRead + Unpin>, max: u64) -> std::io::Result<Printed> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(max + 1).read_to_end(&mut bytes).await?;
    }
    let is_cut = bytes.len() as u64 > max;
    Ok(Printed { text: String::from_utf8_lossy(&bytes).into_owned(), is_cut })
}
