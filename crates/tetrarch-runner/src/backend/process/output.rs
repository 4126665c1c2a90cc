//! Follows what a program writes and tells it as events, bounded in lines, in total and in what is
//! kept. Decides nothing about the run's end; that is `verdict`.

mod pipes;
mod results;

use std::collections::BTreeSet;

use tetrarch_core::brief::{RunResult, Usage};
use tetrarch_core::id::RequestId;
use tetrarch_core::limits::LINE_BYTES_MAX;
use tetrarch_core::order::{LocalFile, RunnerEvent, Start};
use tetrarch_core::verb::{Stage, Verb};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::mcp::FinishCall;
use super::speech::Speech;
use super::verdict;
use crate::adapter::AgentInput;
use crate::channels::Teller;
use crate::files::Gate;
use crate::lines::{LineSplitter, OutputLine, Tail, start_of};
use crate::pace::RequestPacer;
use crate::protocol::{NamedFile, ProgramEvent, ProgramLine, read};

use pipes::{abandoned, take};
pub(super) use results::ResultForm;

/// Bytes taken from a pipe at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// Log text told at once, in bytes: several short lines or the start of a long one.
const LOG_BYTES_MAX: usize = 16 * 1024;
/// Kinds of slips of a run that are explained, once each.
const SLIPS_MAX: usize = 8;

/// What was heard of a program.
#[derive(Debug, Default)]
pub(super) struct ProgramReport {
    /// Whether it wrote an event, or a result that could not be read.
    pub(super) spoke: bool,
    /// Whether it gave a result that was told.
    pub(super) gave_result: bool,
    /// What becomes of the result that was handed back, unless it gives another.
    pub(super) handed_back: Option<Box<RunResult>>,
    /// The last complaint about an object of a known type.
    pub(super) complaint: Option<String>,
    /// How many such objects there were.
    pub(super) malformed: u64,
    /// Its totals.
    pub(super) usage: Usage,
    /// Files it announced.
    pub(super) files: Vec<LocalFile>,
    /// The end of what it wrote to stdout that is no event.
    pub(super) stdout: Tail,
    /// The end of what it wrote to stderr.
    pub(super) stderr: Tail,
}

/// What output is read from and whom it is told to.
#[derive(Debug)]
pub(super) struct OutputChannels {
    /// The program's stdout.
    pub(super) stdout: Option<ChildStdout>,
    /// Its stderr.
    pub(super) stderr: Option<ChildStderr>,
    /// What the runner itself has to say.
    pub(super) notes: mpsc::Receiver<String>,
    /// What is to be told of verbs beside what the program says.
    pub(super) receipts: mpsc::Receiver<RunnerEvent>,
    /// Calls of a coding agent that are to end the run.
    pub(super) finishes: mpsc::Receiver<FinishCall>,
    /// What the program says that it takes.
    pub(super) takes: watch::Sender<Option<BTreeSet<Verb>>>,
    /// Which verbs it has taken.
    pub(super) taken: mpsc::Sender<RequestId>,
    /// Since when it is in a turn.
    pub(super) in_turn: watch::Sender<Option<Instant>>,
    /// Counts the results.
    pub(super) results: watch::Sender<u64>,
    /// Takes the line that hands a result back; there is at most one.
    pub(super) returns: mpsc::Sender<Vec<u8>>,
    /// What a coding agent is answered.
    pub(super) inputs: mpsc::Sender<AgentInput>,
    /// Turns true when every process of the run is gone.
    pub(super) gone: watch::Receiver<bool>,
    /// Where events are told.
    pub(super) teller: Teller,
}

/// Turns output into events.
#[derive(Debug)]
pub(super) struct OutputReader {
    heard: ProgramReport,
    form: ResultForm,
    /// Whether a result may still be handed back.
    may_return: bool,
    /// The line that hands a result back and is yet to be passed on.
    returned: Option<Vec<u8>>,
    takes: Option<BTreeSet<Verb>>,
    taken: Vec<RequestId>,
    in_turn: Option<Instant>,
    gate: Gate,
    lines: LineSplitter,
    error_lines: LineSplitter,
    log: String,
    /// Log text and progress that may still be told, in bytes.
    room: u64,
    /// Kinds of slips that were explained.
    slips: BTreeSet<String>,
    limit: u64,
    events: Vec<RunnerEvent>,
    pace: RequestPacer,
    speech: Speech,
    judged_by_exit: bool,
    /// What a coding agent is to be answered.
    pub(super) inputs: Vec<AgentInput>,
}

impl OutputReader {
    /// Output of a program that hands files over through `gate`, for a result of this `form`. At most `limit`
    /// bytes of its log text and progress are told. `start` says how often a result of the runs that it goes on from
    /// was handed back, and whether its exit code is its verdict: then no line is a result. `speech` is how it is
    /// spoken to; of a coding agent only its own events count.
    pub(super) fn new(
        gate: Gate,
        limit: u64,
        form: ResultForm,
        start: &Start,
        speech: Speech,
    ) -> Self {
        let spoke = speech.ends_with_its_result();
        Self {
            heard: ProgramReport { spoke, ..ProgramReport::default() },
            form,
            may_return: start.returned == 0,
            returned: None,
            takes: None,
            taken: Vec::new(),
            in_turn: None,
            gate,
            lines: LineSplitter::default(),
            error_lines: LineSplitter::default(),
            log: String::new(),
            room: limit,
            slips: BTreeSet::new(),
            limit,
            events: Vec::new(),
            pace: RequestPacer::default(),
            speech,
            judged_by_exit: verdict::judges_by_exit(&start.brief),
            inputs: Vec::new(),
        }
    }

    /// Follows both pipes to their end. `first` is told before anything else.
    pub(super) async fn follow(
        mut self,
        first: RunnerEvent,
        mut wires: OutputChannels,
    ) -> ProgramReport {
        wires.teller.tell(first).await;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut error_chunk = vec![0; CHUNK_BYTES];
        loop {
            let open = wires.stdout.is_some() || wires.stderr.is_some();
            tokio::select! {
                count = take(&mut wires.stdout, &mut chunk), if wires.stdout.is_some() => {
                    // What a call of its model took is told before what it made of the answer.
                    while let Ok(receipt) = wires.receipts.try_recv() {
                        self.told_beside(receipt);
                    }
                    self.stdout(chunk.get(..count).unwrap_or_default()).await;
                }
                count = take(&mut wires.stderr, &mut error_chunk), if wires.stderr.is_some() => {
                    self.stderr(error_chunk.get(..count).unwrap_or_default());
                }
                Some(note) = wires.notes.recv() => self.note(&note),
                Some(receipt) = wires.receipts.recv() => self.told_beside(receipt),
                Some(call) = wires.finishes.recv() => self.finished(call).await,
                () = abandoned(&mut wires.gone, open) => {
                    if open {
                        self.note("a process outside the run holds its output open; left behind");
                    }
                    break;
                }
            }
            self.tell(&wires).await;
        }
        self.unfinished_lines().await;
        if let Some(unknown) = self.speech.unknown() {
            self.note(&unknown);
        }
        while let Ok(note) = wires.notes.try_recv() {
            self.note(&note);
        }
        while let Ok(receipt) = wires.receipts.try_recv() {
            self.told_beside(receipt);
        }
        self.tell(&wires).await;
        self.heard
    }

    async fn tell(&mut self, wires: &OutputChannels) {
        self.flush_log();
        // Before all that waits for whoever listens.
        wires.in_turn.send_if_modified(|known| {
            let changed = *known != self.in_turn;
            *known = self.in_turn;
            changed
        });
        for event in std::mem::take(&mut self.events) {
            if let Some(wait) = self.pace.wait(Instant::now(), &event) {
                // It is not read meanwhile. What is left of a program that has ended is told at once.
                let mut gone = wires.gone.clone();
                let _waited = timeout(wait, gone.wait_for(|gone| *gone)).await;
            }
            let is_result = matches!(event, RunnerEvent::Result { .. });
            if is_result {
                self.answer(wires);
            }
            wires.teller.tell(event).await;
            if is_result {
                wires.results.send_modify(|results| *results += 1);
            }
        }
        self.answer(wires);
        if let Some(verbs) = self.takes.take() {
            wires.takes.send_replace(Some(verbs));
        }
        for id in self.taken.drain(..) {
            // Who attends to the run only minds the time by it; more than it can hold are none of its.
            let _unheard = wires.taken.try_send(id);
        }
        if let Some(line) = self.returned.take() {
            // A program that has ended can correct nothing.
            let _ended = wires.returns.try_send(line);
        }
    }

    async fn stdout(&mut self, chunk: &[u8]) {
        for line in self.lines.feed(chunk) {
            self.stdout_line(&line).await;
        }
    }

    fn stderr(&mut self, chunk: &[u8]) {
        for line in self.error_lines.feed(chunk) {
            self.stderr_line(&line);
        }
    }

    async fn unfinished_lines(&mut self) {
        if let Some(line) = self.lines.rest() {
            self.stdout_line(&line).await;
        }
        if let Some(line) = self.error_lines.rest() {
            self.stderr_line(&line);
        }
    }

    fn stderr_line(&mut self, line: &OutputLine) {
        self.heard.stderr.push_line(line);
        self.log_line(line);
    }

    async fn stdout_line(&mut self, line: &OutputLine) {
        if let Some(talk) = self.speech.agent().cloned() {
            return self.agent_line(&talk, line).await;
        }
        let said = match line {
            OutputLine::Whole(_) if self.speech.is_asked_once() => ProgramLine::Text,
            OutputLine::Whole(bytes) => read(bytes),
            OutputLine::Cut { .. } => ProgramLine::Text,
        };
        match said {
            // A review that prints the work under review would let that judge itself.
            ProgramLine::Event(ProgramEvent::Result { .. }) if self.judged_by_exit => {
                self.text_line(line);
            }
            ProgramLine::Event(told) => {
                self.heard.spoke = true;
                self.event(told).await;
            }
            ProgramLine::Text => self.text_line(line),
            ProgramLine::Slip { kind, note, event } => {
                match event {
                    Some(told) => {
                        self.heard.spoke = true;
                        self.event(told).await;
                    }
                    None => self.text_line(line),
                }
                if self.slips.len() < SLIPS_MAX && self.slips.insert(kind) {
                    self.note(&note);
                }
            }
            ProgramLine::Malformed { error, result } => {
                self.heard.spoke |= result;
                self.heard.malformed += 1;
                self.text_line(line);
                self.note(&format!("not taken as an event: {error}"));
                self.heard.complaint = Some(error);
            }
        }
    }

    /// Log text, which is also what there is of a program that speaks no protocol.
    pub(super) fn text_line(&mut self, line: &OutputLine) {
        self.heard.stdout.push_line(line);
        self.log_line(line);
    }

    pub(super) async fn event(&mut self, told: ProgramEvent) {
        self.flush_log();
        match told {
            ProgramEvent::Plain(RunnerEvent::Progress { text, done, total }) => {
                if self.has_room(text.len()) {
                    self.events.push(RunnerEvent::Progress { text, done, total });
                }
            }
            ProgramEvent::Plain(event) => {
                if matches!(event, RunnerEvent::Ask { .. } | RunnerEvent::Blocked { .. }) {
                    // What it waits for has a deadline of its own.
                    self.in_turn = None;
                }
                self.events.push(event);
            }
            ProgramEvent::Turn { begins } => self.in_turn = begins.then(Instant::now),
            ProgramEvent::Usage(usage) => {
                self.heard.usage = highest(self.heard.usage, usage);
                self.events.push(RunnerEvent::Usage(self.heard.usage));
            }
            ProgramEvent::Artifact(file) => self.file(file),
            ProgramEvent::Takes(verbs) => self.takes = Some(verbs),
            ProgramEvent::Taken(id) => {
                let (stage, why) = (Stage::Effective, String::new());
                self.events.push(RunnerEvent::Receipt { id, stage, why });
                self.taken.push(id);
            }
            ProgramEvent::Result { result, deliverable, files } => {
                self.in_turn = None;
                self.result(result, deliverable, files).await;
            }
        }
    }

    /// Something that is told beside its output. Words of a tool count against the same bound.
    fn told_beside(&mut self, event: RunnerEvent) {
        let words = if let RunnerEvent::Progress { text, .. } = &event { text.len() } else { 0 };
        if words == 0 || self.has_room(words) {
            self.events.push(event);
        }
    }

    fn file(&mut self, file: NamedFile) {
        let NamedFile { name, path, media_type } = file;
        match self.gate.admit(name, &path, media_type) {
            Ok(file) => {
                // A result may name again what was announced before.
                self.heard.files.retain(|known| known.name != file.name);
                self.heard.files.push(file);
            }
            Err(refused) => self.note(&format!("artifact refused: {refused}")),
        }
    }

    /// Something the runner has to say; it counts against no limit.
    pub(super) fn note(&mut self, note: &str) {
        self.flush_log();
        self.events.push(RunnerEvent::Log { text: start_of(note, LOG_BYTES_MAX).to_owned() });
    }

    fn log_line(&mut self, line: &OutputLine) {
        let text = String::from_utf8_lossy(line.bytes());
        let text = text.trim_end_matches('\r');
        let kept = start_of(text, LOG_BYTES_MAX);
        if !self.has_room(kept.len() + 1) {
            return;
        }
        if self.log.len() + kept.len() > LOG_BYTES_MAX {
            self.flush_log();
        }
        if !self.log.is_empty() {
            self.log.push('\n');
        }
        self.log.push_str(kept);
        match line {
            OutputLine::Cut { dropped, .. } => self.note(&format!(
                "a line of {} bytes was cut; the limit is {LINE_BYTES_MAX}; put large results in a file",
                LINE_BYTES_MAX + dropped
            )),
            OutputLine::Whole(_) if kept.len() < text.len() => {
                self.note(&format!("{} bytes of that line are left out", text.len() - kept.len()));
            }
            OutputLine::Whole(_) => {}
        }
    }

    fn flush_log(&mut self) {
        if !self.log.is_empty() {
            self.events.push(RunnerEvent::Log { text: std::mem::take(&mut self.log) });
        }
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        if self.room == 0 {
            return false;
        }
        match self.room.checked_sub(bytes as u64) {
            Some(room) if room > 0 => {
                self.room = room;
                true
            }
            Some(_) | None => {
                self.room = 0;
                self.note(&format!(
                    "the output limit of {} bytes was reached; further log text and progress are dropped",
                    self.limit
                ));
                false
            }
        }
    }
}

fn highest(one: Usage, other: Usage) -> Usage {
    Usage {
        tokens_in: one.tokens_in.max(other.tokens_in),
        tokens_out: one.tokens_out.max(other.tokens_out),
        cost_micro: one.cost_micro.max(other.cost_micro),
        turns: one.turns.max(other.turns),
    }
}
