//! Starts a program only when it is where it belongs: a small process waits for a word, meanwhile it is moved into
//! its control group and gets its limits, and then it becomes the program. A program that was moved after its start
//! could have forked before, and what it forked would be in no group.
//!
//! The variables of a program are those of whoever wrote its profile, and some have the loader of any process run code
//! (`LD_PRELOAD`). The waiting process gets them under names that mean nothing.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command as Execution;

use rustix::fs::{Access, access};
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setsid};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::mark::{LIFE_VARIABLE, RUN_VARIABLE};

/// What the waiting process is told when it may go on.
const WORD: &[u8; 1] = b"\n";
/// What begins the names of the program's variables while its process waits.
const COVERED: &str = "+";
/// What the process is found by also while it waits.
const MARKS: [&str; 2] = [RUN_VARIABLE, LIFE_VARIABLE];

/// What starts programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launcher {
    /// A program that calls [`launch_main`] with what follows these first arguments. None: programs are started at
    /// once, and moved when they run.
    pub argv: Vec<OsString>,
}

impl Launcher {
    /// A command that starts a program in a directory, with the name it is told to have and these variables alone.
    /// Variables that are added to the command are for the program, too.
    ///
    /// # Errors
    /// There is no such program in this directory, or it is not executable.
    pub(crate) fn command(
        &self,
        program: &Path,
        arg0: &str,
        dir: &Path,
        environment: &BTreeMap<OsString, OsString>,
    ) -> io::Result<Command> {
        let mut command = if let Some((launcher, words)) = self.argv.split_first() {
            access(dir.join(program), Access::EXEC_OK)?;
            let mut command = Command::new(launcher);
            command.args(words).arg(program).arg(arg0).env_clear().envs(covered(environment));
            command
        } else {
            let mut command = Command::new(program);
            command.arg0(arg0).process_group(0).env_clear().envs(environment);
            command
        };
        command.current_dir(dir);
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
    let environment = uncovered(std::env::vars_os());
    let mut command = Execution::new(program);
    Err(command.arg0(arg0).args(arguments).env_clear().envs(environment).exec())
}

/// A program's variables under names that no loader or library knows.
fn covered(environment: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    let cover = |(name, value): (&OsString, &OsString)| {
        let mut covered = OsString::from(COVERED);
        covered.push(name);
        let own = MARKS.iter().any(|mark| name == mark);
        (if own { name.clone() } else { covered }, value.clone())
    };
    environment.iter().map(cover).collect()
}

/// The variables that were [`covered`], and those that were added to them.
fn uncovered(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    let is_covered =
        |(name, _): &(OsString, OsString)| name.as_bytes().starts_with(COVERED.as_bytes());
    let (covered, added): (Vec<_>, Vec<_>) = variables.partition(is_covered);
    let strip = |(name, value): (OsString, OsString)| {
        let own = name.as_bytes().get(COVERED.len()..).unwrap_or_default();
        (OsStr::from_bytes(own).to_owned(), value)
    };
    covered.into_iter().map(strip).chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn program_has_its_variables_and_its_waiting_process_only_marks() {
        let wanted =
            [("LD_PRELOAD", "/x.so"), ("+", "odd"), ("PATH", "/bin"), ("TETRARCH_RUN", "r")];
        let wanted = variables(&wanted);
        let waiting = covered(&wanted);
        let known = waiting.keys().filter(|name| !name.as_bytes().starts_with(b"+"));
        assert_eq!(known.collect::<Vec<_>>(), ["TETRARCH_RUN"]);
        assert_eq!(uncovered(waiting.into_iter()), wanted);
    }

    #[test]
    fn added_variable_replaces_one_of_the_program() {
        let waiting = covered(&variables(&[("http_proxy", "mine")]));
        let added = variables(&[("http_proxy", "theirs")]);
        assert_eq!(uncovered(waiting.into_iter().chain(added.clone())), added);
    }
}
