//! Starts a program only when it is where it belongs: a small process waits for a word, meanwhile it is moved into
//! its control group and gets its limits, and then it becomes the program. A program that was moved after its start
//! could have forked before, and what it forked would be in no group.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command as Execution;

use rustix::fs::{Access, access};
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

/// What the waiting process is told when it may go on.
const WORD: &[u8; 1] = b"\n";

/// What starts programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launcher {
    /// A program that calls [`launch_main`] with what follows these first arguments. None: programs are started at
    /// once, and moved when they run.
    pub argv: Vec<OsString>,
}

impl Launcher {
    /// A command that starts a program, with the name it is told to have.
    ///
    /// # Errors
    /// There is no such program in this directory, or it is not executable.
    pub(crate) fn command(&self, program: &Path, arg0: &str, dir: &Path) -> io::Result<Command> {
        let Some((launcher, words)) = self.argv.split_first() else {
            let mut command = Command::new(program);
            command.arg0(arg0).process_group(0);
            return Ok(command);
        };
        access(dir.join(program), Access::EXEC_OK)?;
        let mut command = Command::new(launcher);
        command.args(words).arg(program).arg(arg0);
        Ok(command)
    }

    /// Lets a program that was started with [`Self::command`] begin. It is to have a pipe as its standard input.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) async fn release(&self, child: &mut Child) -> io::Result<()> {
        match &mut child.stdin {
            Some(input) if !self.argv.is_empty() => input.write_all(WORD).await,
            Some(_) | None => Ok(()),
        }
    }
}

/// Waits for a word on standard input, and becomes the program that the first argument names: the second is the
/// name it is told, and the others are its own. It dies with the host, also when nobody is left to end it. It leads a session of its own, so that the kernel can share
/// processors out among runs (autogroups), and that no terminal reaches it.
///
/// # Errors
/// The program does not start, or whoever was to say the word is gone.
pub fn launch_main(argv: &[OsString]) -> io::Result<Infallible> {
    setsid()?;
    let [program, arg0, arguments @ ..] = argv else {
        return Err(io::Error::other("no program is named"));
    };
    let host = getppid();
    // Not through a buffer: what follows is for the program.
    let mut word = *WORD;
    let told = rustix::io::read(io::stdin(), &mut word)? > 0;
    // Not before the word: the thread that started this process has ended by then.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if !told || getppid() != host {
        return Err(io::Error::other("the host is gone"));
    }
    Err(Execution::new(program).arg0(arg0).args(arguments).exec())
}
