//! Programs that say when they take their first step: into a pipe with a name, so that nobody has
//! to look for it. It starts none of them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Longest wait for a step.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an agent's program does: its first session says so and waits to be killed, any other says
/// so and has succeeded.
pub(crate) const MORTAL: &str = r#"echo "$TETRARCH_EPOCH $$ $TETRARCH_AGENT" > "$0"
[ "$TETRARCH_EPOCH" = 1 ] && exec sleep 600
exit 0"#;

/// A program's first step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The epoch of its session.
    pub(crate) epoch: u64,
    /// Its process.
    pub(crate) pid: i32,
    /// Who it is.
    pub(crate) agent: String,
    /// When it was heard of.
    pub(crate) at: Instant,
}

/// The pipe into which programs say it.
#[derive(Debug)]
pub(crate) struct Witness {
    path: PathBuf,
    heard: Receiver<Step>,
}

impl Witness {
    /// A pipe of this name.
    pub(crate) fn at(path: &Path) -> Self {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // Held open for writing too, it never ends.
        let pipe = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let (tell, heard) = channel();
        drop(std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines() {
                let (line, at) = (line.unwrap(), Instant::now());
                let words: Vec<&str> = line.split(' ').collect();
                let [epoch, pid, agent] = words[..] else { panic!("{line:?}") };
                let (epoch, pid) = (epoch.parse().unwrap(), pid.parse().unwrap());
                if tell.send(Step { epoch, pid, agent: agent.to_owned(), at }).is_err() {
                    return;
                }
            }
        }));
        Self { path: path.to_owned(), heard }
    }

    /// The command of a program that dies once.
    pub(crate) fn argv(&self) -> [&str; 4] {
        ["sh", "-c", MORTAL, self.path.to_str().unwrap()]
    }

    /// The next step of any program.
    pub(crate) fn next(&self) -> Step {
        self.heard.recv_timeout(PATIENCE).unwrap()
    }
}
