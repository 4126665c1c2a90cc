//! A program that a test starts: what it says, how it ends. It is killed when the test is over,
//! however that ends.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Longest wait for a line or for the end of a program.
const PATIENCE: Duration = Duration::from_secs(60);
/// The lines of a program that a failed test shows.
const LINES_SHOWN: usize = 40;

/// How a program ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// From its start to its end.
    pub took: Duration,
}

enum Said {
    Out(String),
    Err(String),
    Closed,
    Ended(ExitStatus),
}

/// A program that runs.
#[derive(Debug)]
pub struct Program {
    what: String,
    pid: u32,
    handle: OwnedFd,
    started: Instant,
    input: Option<ChildStdin>,
    said: Receiver<Said>,
    out: String,
    err: String,
    open: usize,
    status: Option<ExitStatus>,
}

impl Program {
    /// Starts it, its standard input held open.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let what = format!("{command:?}");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        let pid = child.id();
        let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let handle = pidfd_open(raw, PidfdFlags::empty()).unwrap();
        let (tell, said) = channel();
        hear(child.stdout.take().unwrap(), tell.clone(), Said::Out);
        hear(child.stderr.take().unwrap(), tell.clone(), Said::Err);
        let input = child.stdin.take();
        wait_for(child, tell);
        Self {
            what,
            pid,
            handle,
            started: Instant::now(),
            input,
            said,
            out: String::new(),
            err: String::new(),
            open: 2,
            status: None,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it said on standard output so far.
    #[must_use]
    pub fn out(&self) -> &str {
        &self.out
    }

    /// Waits for a line of standard output or standard error.
    ///
    /// # Panics
    /// It ends without it, or does not say it for a minute.
    pub fn line(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let Some(line) = self.hear_one("the line that is waited for") else {
                self.fail("ended without the line that is waited for");
            };
            if wanted(&line) {
                return line;
            }
        }
    }

    /// Waits for a line as [`Program::line`] does; whether it came before the program's end.
    ///
    /// # Panics
    /// It says nothing for a minute.
    pub fn line_or_end(&mut self, wanted: impl Fn(&str) -> bool) -> bool {
        while let Some(line) = self.hear_one("a line, or its end") {
            if wanted(&line) {
                return true;
            }
        }
        false
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // One that has ended already needs none.
        let _ended = pidfd_send_signal(&self.handle, signal);
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Waits for its end, and that nothing it left behind holds its output open.
    ///
    /// # Panics
    /// It does not end within a minute.
    pub fn ended(mut self) -> Ended {
        while self.hear_one("its end, and the end of all it says").is_some() {}
        let status = self.status.unwrap();
        let took = self.started.elapsed();
        let (out, err) = (std::mem::take(&mut self.out), std::mem::take(&mut self.err));
        Ended { code: status.code(), out, err, took }
    }

    /// The next line; none when it has ended and said all.
    fn hear_one(&mut self, what: &str) -> Option<String> {
        while self.status.is_none() || self.open > 0 {
            match self.said.recv_timeout(PATIENCE) {
                Ok(Said::Out(line)) => {
                    self.out.push_str(&line);
                    return Some(line);
                }
                Ok(Said::Err(line)) => {
                    self.err.push_str(&line);
                    return Some(line);
                }
                Ok(Said::Closed) => self.open -= 1,
                Ok(Said::Ended(status)) => self.status = Some(status),
                Err(_) => self.fail(&format!("no sign for {PATIENCE:?} of {what}")),
            }
        }
        None
    }

    fn fail(&self, why: &str) -> ! {
        panic!("{}: {why}\n--- out\n{}\n--- err\n{}", self.what, self.out, self.err);
    }
}

impl Drop for Program {
    #[expect(clippy::print_stderr, reason = "for whoever asks why a test failed")]
    fn drop(&mut self) {
        if thread::panicking() {
            while let Ok(said) = self.said.try_recv() {
                match said {
                    Said::Out(line) | Said::Err(line) => self.err.push_str(&line),
                    Said::Closed | Said::Ended(_) => {}
                }
            }
            let lines: Vec<&str> = self.err.lines().collect();
            let last = lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default();
            eprintln!("--- {}\n{}", self.what, last.join("\n"));
        }
        if self.status.is_none() {
            self.signal(Signal::KILL);
        }
    }
}

fn hear(from: impl Read + Send + 'static, tell: Sender<Said>, say: fn(String) -> Said) {
    drop(thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut bytes = Vec::new();
        while from.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
            let line = String::from_utf8_lossy(&bytes).into_owned();
            bytes.clear();
            if tell.send(say(line)).is_err() {
                return;
            }
        }
        // A test that is over hears nothing more.
        let _unheard = tell.send(Said::Closed);
    }));
}

fn wait_for(mut child: Child, tell: Sender<Said>) {
    drop(thread::spawn(move || {
        if let Ok(status) = child.wait() {
            // A test that is over hears nothing more.
            let _unheard = tell.send(Said::Ended(status));
        }
    }));
}
