//! Talks with the host over standard input and output (docs/stdio-protocol.md), and goes on where
//! a session died. It must not know what the work is about.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// Why the work ends before it is done.
#[derive(Debug)]
pub enum End {
    /// The host asked for it, with this reason.
    Stopped(String),
    /// Nobody reads or writes at the other end any more.
    HostGone,
    /// It cannot be done: what happened, why, what to do.
    Failed(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(why) | Self::Failed(why) => f.write_str(why),
            Self::HostGone => f.write_str("the host is gone"),
        }
    }
}

impl std::error::Error for End {}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The other end of the pipes.
pub struct Host {
    lines: Receiver<Value>,
    sink: Box<dyn Write>,
    brief: Value,
    state: Map<String, Value>,
    mail: VecDeque<Value>,
    unsaved: i64,
    turns: u64,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Host {
    /// Waits for the brief.
    ///
    /// # Errors
    /// [`End::HostGone`]: the input ended without one.
    pub fn new(
        source: impl BufRead + Send + 'static,
        sink: impl Write + 'static,
    ) -> Result<Self, End> {
        let (tell, lines) = channel();
        drop(thread::spawn(move || {
            // A line that is no JSON is none of the protocol's.
            let lines = source.lines().map_while(Result::ok);
            for line in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        }));
        let brief = loop {
            let line: Value = lines.recv().map_err(|_| End::HostGone)?;
            if line["type"] == "brief" {
                break line;
            }
        };
        let state = brief["checkpoint"].as_object().cloned().unwrap_or_default();
        let (sink, mail) = (Box::new(sink), VecDeque::new());
        Ok(Self { lines, sink, brief, state, mail, unsaved: 0, turns: 0 })
    }

    /// The first line.
    #[must_use]
    pub fn brief(&self) -> &Value {
        &self.brief
    }

    /// What is recorded of this work under a name, by earlier sessions too.
    #[must_use]
    pub fn recorded(&self, name: &str) -> Option<&Value> {
        self.state.get(name)
    }

    /// Writes one line: an object with a `type`.
    ///
    /// # Errors
    /// [`End::HostGone`].
    pub fn say(&mut self, line: &Value) -> Result<(), End> {
        writeln!(self.sink, "{line}").and_then(|()| self.sink.flush()).map_err(|_| End::HostGone)
    }

    /// Says what is done next; a step is a turn, and a boundary at which the host may stop it.
    ///
    /// # Errors
    /// [`End::Stopped`], [`End::HostGone`].
    pub fn step(&mut self, text: &str, done: u64, total: u64) -> Result<(), End> {
        loop {
            match self.lines.try_recv() {
                Ok(line) => self.take(line)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(End::HostGone),
            }
        }
        self.turns += 1;
        self.say(&json!({"type": "progress", "text": text, "done": done, "total": total}))?;
        self.say(&json!({"type": "usage", "turns": self.turns}))
    }

    /// Adds to what a successor goes on from, and waits until that is recorded.
    ///
    /// # Errors
    /// [`End::Stopped`], [`End::HostGone`].
    pub fn save(&mut self, name: &str, value: Value) -> Result<(), End> {
        self.state.insert(name.to_owned(), value);
        self.unsaved += 1;
        self.say(&json!({"type": "checkpoint", "state": self.state, "confirm": true}))?;
        while self.unsaved > 0 {
            let line = self.lines.recv().map_err(|_| End::HostGone)?;
            self.take(line)?;
        }
        Ok(())
    }

    /// What `make` gives, made once over all sessions of this work: it is recorded before this
    /// returns. A session that dies between the two leaves something that is made and not
    /// recorded: `made` looks for that and gives it.
    ///
    /// # Errors
    /// Those of `make` and `made`, [`End::Stopped`], [`End::HostGone`].
    pub fn once(
        &mut self,
        name: &str,
        made: impl FnOnce() -> io::Result<Option<Value>>,
        make: impl FnOnce() -> io::Result<Value>,
    ) -> Result<Value, End> {
        if let Some(value) = self.state.get(name) {
            return Ok(value.clone());
        }
        let value = match made()? {
            Some(value) => value,
            None => make()?,
        };
        self.save(name, value.clone())?;
        Ok(value)
    }

    /// The next mail line; none when there is none within `patience`.
    ///
    /// # Errors
    /// [`End::Stopped`], [`End::HostGone`].
    pub fn mail(&mut self, patience: Duration) -> Result<Option<Value>, End> {
        let end = Instant::now() + patience;
        loop {
            if let Some(mail) = self.mail.pop_front() {
                return Ok(Some(mail));
            }
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => self.take(line)?,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(End::HostGone),
            }
        }
    }

    /// The fields of a result that is none, with what there is.
    fn ended(&self, outcome: &str, why: &str) -> Value {
        let partial = Value::Object(self.state.clone()).to_string();
        json!({"outcome": outcome, "error": why, "partial": partial})
    }

    fn take(&mut self, line: Value) -> Result<(), End> {
        match line["type"].as_str() {
            Some("saved") => self.unsaved -= 1,
            Some("mail") => self.mail.push_back(line),
            Some("stop") => {
                return Err(End::Stopped(line["reason"].as_str().unwrap_or("stopped").to_owned()));
            }
            // Later versions of the protocol add types.
            Some(_) | None => {}
        }
        Ok(())
    }
}

/// Runs `work`, which gives the fields of its result, over standard input and output.
pub fn run(work: impl FnOnce(&mut Host) -> Result<Value, End>) -> ExitCode {
    let Ok(mut host) = Host::new(io::BufReader::new(io::stdin()), io::stdout()) else {
        return ExitCode::FAILURE;
    };
    let (mut line, code) = match work(&mut host) {
        Ok(fields) => (fields, ExitCode::SUCCESS),
        Err(End::HostGone) => return ExitCode::FAILURE,
        Err(End::Stopped(why)) => (host.ended("cancelled", &why), ExitCode::FAILURE),
        Err(End::Failed(why)) => (host.ended("failure", &why), ExitCode::FAILURE),
    };
    line["type"] = json!("result");
    if line["outcome"].is_null() {
        line["outcome"] = json!("success");
    }
    if host.say(&line).is_ok() { code } else { ExitCode::FAILURE }
}
