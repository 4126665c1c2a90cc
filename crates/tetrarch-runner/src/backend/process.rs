//! Runs a brief as a program of its own, with or without the protocol, and ends it within bounds
//! (spec 06, Runners and The three verbs). Decides no outcome that the program has decided.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use tetrarch_core::brief::{Outcome, RunResult};
use tetrarch_core::order::{Exit, Inbound, RunnerEvent, Start};
use tetrarch_core::time::Millis;
use tetrarch_failpoint::{Failpoint, reach};
use tokio::net::UnixListener;
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::adapter::{AgentDelivery, AgentInput};
use crate::backend::AgentBackend;
use crate::backend::expected::Expected;
use crate::blocked::Blocked;
use crate::channels::{RunChannels, StopRequest, Teller};
use crate::children::WaitedChild;
use crate::containment::SandboxPolicy;
use crate::directories::RunDirectories;
use crate::files::Gate;
use crate::headcount::Headcount;
use crate::proxy::Proxy;
use crate::serve::RunnerContext;
use crate::sweep::Traces;

mod feed;
mod ladder;
pub(crate) mod launch;
pub(crate) mod mcp;
mod output;
mod relay;
mod speech;
mod takes;
mod verdict;

use feed::{Feed, QUEUE_VERBS, next_line, note_down};
use ladder::{KillLadder, KillSignal};
pub(crate) use launch::PASSED_ON;
use launch::{Launched, launch, remove_if_empty};
use mcp::CallChannels;
use output::{OutputChannels, OutputReader, ProgramReport, ResultForm};
use relay::{RECEIPTS_MAX, VerbChannels, VerbRelay};
use speech::{ServedCalls, Speech, Telling};

/// Notes of the runner that wait to be told; more are dropped.
const NOTES_MAX: usize = 64;

/// Answers to a coding agent that wait to be written.
const INPUTS_MAX: usize = 256;

/// Runs programs.
#[derive(Debug)]
pub(crate) struct ProcessBackend {
    context: Arc<RunnerContext>,
}

impl ProcessBackend {
    /// Programs that run on this ground.
    pub(crate) fn new(context: Arc<RunnerContext>) -> Self {
        Self { context }
    }
}

impl AgentBackend for ProcessBackend {
    async fn execute(&self, mut start: Start, channels: RunChannels) {
        let began = Instant::now();
        let form = match ResultForm::of(&start).await {
            Ok(form) => form,
            Err(error) => return not_started(&channels, &error).await,
        };
        let speech = match Speech::of(&self.context, &mut start).await {
            Ok(speech) => speech,
            Err(error) => return not_started(&channels, &error).await,
        };
        let listener = match speech.listener() {
            Ok(listener) => listener,
            Err(error) => {
                speech.forget().await;
                return not_started(&channels, &error).await;
            }
        };
        match launch(&self.context, &start, speech.gateway()).await {
            Ok(launched) => {
                reach(Failpoint::ProgramStarted);
                let about = ProgramContext { start: &start, began, form, speech, listener };
                ProgramRun::open(launched, channels, &self.context, about).attend().await;
            }
            Err(error) => {
                speech.forget().await;
                not_started(&channels, &error).await;
            }
        }
    }
}

/// What a run's program was started for.
struct ProgramContext<'a> {
    start: &'a Start,
    began: Instant,
    form: ResultForm,
    speech: Speech,
    /// Where its calls to the fleet come in.
    listener: Option<UnixListener>,
}

async fn not_started(channels: &RunChannels, error: &impl std::error::Error) {
    channels.teller.tell(RunnerEvent::SpawnFailed { error: error.to_string() }).await;
}

/// One program from its start to its end.
#[derive(Debug)]
struct ProgramRun {
    child: Child,
    _awaited: WaitedChild,
    traces: Traces,
    headcount: Headcount,
    own_dir: Option<PathBuf>,
    /// Whether its exit code is its verdict.
    judges_by_exit: bool,
    _directories: RunDirectories,
    _proxy: Option<Proxy>,
    sandbox: SandboxPolicy,
    profile: String,
    expected: Expected,
    ladder: KillLadder,
    relay: VerbRelay,
    speech: Speech,
    _calls: ServedCalls,
    feed: Option<Feed>,
    /// What a coding agent is answered.
    inputs: mpsc::Receiver<AgentInput>,
    notes: mpsc::Sender<String>,
    lines: mpsc::Receiver<Inbound>,
    asked: watch::Receiver<StopRequest>,
    in_turn: watch::Receiver<Option<Instant>>,
    results: watch::Receiver<u64>,
    returned: mpsc::Receiver<Vec<u8>>,
    gone: watch::Sender<bool>,
    output: JoinHandle<ProgramReport>,
    teller: Teller,
}

impl ProgramRun {
    fn open(
        launched: Launched,
        channels: RunChannels,
        context: &RunnerContext,
        about: ProgramContext<'_>,
    ) -> Self {
        let ProgramContext { start, began, form, speech, listener } = about;
        let up = launched.up();
        let Launched { mut child, awaited, traces, dir, dir_is_own, .. } = launched;
        let Launched { sandbox, directories, proxy, headcount, .. } = launched;
        let (notes, noted) = mpsc::channel(NOTES_MAX);
        let (in_turn_in, in_turn) = watch::channel(None);
        let (results_in, results) = watch::channel(0);
        let (returns, returned) = mpsc::channel(1);
        let (gone, gone_out) = watch::channel(false);
        let (receipts, receipts_out) = mpsc::channel(RECEIPTS_MAX);
        let (inputs_in, inputs) = mpsc::channel(INPUTS_MAX);
        let gate = || Gate::new(dir.clone(), context.artifact_max);
        let (calls, finishes) = CallChannels::open(receipts.clone(), gate());
        let (takes_in, takes) = watch::channel(None);
        takes_in.send_replace(speech.takes());
        let (taken_in, taken) = mpsc::channel(QUEUE_VERBS);
        let (deliveries_in, deliveries) = mpsc::channel(2 * QUEUE_VERBS);
        let wires = OutputChannels {
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            notes: noted,
            receipts: receipts_out,
            finishes,
            takes: takes_in,
            taken: taken_in,
            in_turn: in_turn_in,
            results: results_in,
            returns,
            inputs: inputs_in,
            gone: gone_out,
            teller: channels.teller.clone(),
        };
        let first_line = speech.first_line(start, &dir.to_string_lossy());
        let teller = channels.teller.clone();
        let open = |stdin| Feed::open(stdin, first_line, notes.clone(), deliveries_in, teller);
        let feed = child.stdin.take().map(open).map(|feed| speech.told_first(feed));
        let calls = speech.serve(listener, &traces, calls);
        let said = VerbChannels { takes, taken };
        let relay = VerbRelay::new(channels.verbs, said, deliveries, receipts, traces.clone());
        let limit = context.output_limit;
        let output = OutputReader::new(gate(), limit, form.clone(), start, speech.clone());
        let output = tokio::spawn(output.follow(up, wires));
        Self {
            child,
            _awaited: awaited,
            traces,
            headcount,
            own_dir: dir_is_own.then_some(dir),
            judges_by_exit: verdict::judges_by_exit(&start.brief),
            _directories: directories,
            _proxy: proxy,
            sandbox,
            profile: start.brief.runner.profile.to_string(),
            expected: form.expected,
            ladder: KillLadder::new(began, start.brief.wall, start.brief.turn_timeout),
            relay,
            speech,
            _calls: calls,
            feed,
            inputs,
            notes,
            lines: channels.lines,
            asked: channels.asked,
            in_turn,
            results,
            returned,
            gone,
            output,
            teller: channels.teller,
        }
    }

    async fn attend(mut self) {
        let exit = self.until_exit().await;
        self.feed = None;
        let swept = self.traces.clone().until_gone().await;
        if swept.killed > 0 {
            let note = format!("{} processes it left behind were killed", swept.killed);
            note_down(&self.notes, note);
        }
        if !swept.out_of_reach.is_empty() {
            let note = format!("processes of other users were left: {:?}", swept.out_of_reach);
            note_down(&self.notes, note);
        }
        reach(Failpoint::ProgramGone);
        self.gone.send_replace(true);
        let heard = (&mut self.output).await.unwrap_or_else(|cause| {
            tracing::error!(run = %self.teller.run(), %cause, "following a run's output failed");
            ProgramReport::default()
        });
        let mut result = None;
        let goes_on = heard.handed_back.is_none()
            && (verdict::died(&exit, &self.ladder) || verdict::rotated(&heard, &self.ladder));
        if !heard.gave_result && !goes_on {
            let made = Box::new(self.made(&exit, &heard).await);
            if heard.files.is_empty() {
                result = Some(made);
            } else {
                // Only a result can hand over files that were announced.
                let event = RunnerEvent::Result { result: made, files: heard.files };
                self.teller.tell(event).await;
            }
        }
        if !goes_on {
            self.speech.forget().await;
        }
        if let Some(dir) = &self.own_dir {
            remove_if_empty(dir).await;
        }
        self.teller.tell(RunnerEvent::Exited { exit, result }).await;
    }

    /// The result of a program that gave none, or only one that was handed back.
    async fn made(&self, exit: &Exit, heard: &ProgramReport) -> RunResult {
        if let Some(handed_back) = &heard.handed_back {
            return RunResult { usage: heard.usage, ..(**handed_back).clone() };
        }
        let mut result = verdict::without_result(exit, heard, &self.ladder);
        verdict::withheld(&mut result, self.speech.withheld());
        if result.outcome == Outcome::Failure {
            let said = [heard.stdout.text(), heard.stderr.text()].join("\n");
            if let Some(blocked) = Blocked::found(said, &self.sandbox).await {
                verdict::explain(&mut result, &blocked.sentence(&self.profile));
            }
        }
        if self.judges_by_exit {
            return verdict::judged(result, exit, heard, &self.ladder);
        }
        self.expected.settle(result).await
    }

    /// Attends to the program until it has exited. Tells nothing itself, so a listener that is
    /// slow cannot hold up the end.
    async fn until_exit(&mut self) -> Exit {
        self.asked.mark_changed();
        let (mut lines_open, mut results_open, mut returned_open) = (true, true, true);
        let mut turns_open = true;
        loop {
            let deadline = self.ladder.next_deadline();
            tokio::select! {
                status = self.child.wait() => return exit_of(status),
                changed = self.asked.changed() => {
                    let asked = match changed {
                        Ok(()) => self.asked.borrow_and_update().clone(),
                        Err(_) => StopRequest::Kill,
                    };
                    self.asked_for(asked).await;
                    if changed.is_err() {
                        return exit_of(self.child.wait().await);
                    }
                }
                line = next_line(&mut self.lines, self.feed.as_ref()), if lines_open => match line {
                    Some(line) => self.give(&line),
                    None => lines_open = false,
                },
                turn = self.relay.next() => self.turn(turn).await,
                changed = self.results.changed(), if results_open => match changed {
                    Ok(()) => {
                        self.ladder.gave_result(Instant::now());
                        self.gave_result();
                    }
                    Err(_) => results_open = false,
                },
                changed = self.in_turn.changed(), if turns_open => match changed {
                    Ok(()) => {
                        let since = *self.in_turn.borrow_and_update();
                        self.ladder.in_turn(since);
                    }
                    Err(_) => turns_open = false,
                },
                line = self.returned.recv(), if returned_open => match line {
                    Some(line) => self.hand_back(line),
                    None => returned_open = false,
                },
                Some(input) = self.inputs.recv() => self.put_in("answer", input),
                most = self.headcount.exceeded() => {
                    let push = self.ladder.is_crowded(most);
                    self.push(push);
                }
                () = at(deadline), if deadline.is_some() => {
                    let push = self.ladder.due(Instant::now());
                    self.push(push);
                }
            }
        }
    }

    async fn asked_for(&mut self, asked: StopRequest) {
        match asked {
            StopRequest::Nothing => {}
            StopRequest::Stop { drain, kill_grace, reason } => {
                self.let_go().await;
                let unread = self.feed.as_ref().is_some_and(Feed::is_unread);
                let is_deaf = unread || self.speech.is_asked_once();
                let drain = if is_deaf { Millis(0) } else { drain };
                self.ladder.stop(Instant::now(), drain, kill_grace, &reason);
                if let Some(input) = self.speech.stop(&reason, drain) {
                    self.put_in("stop", input);
                }
            }
            StopRequest::Rotate { drain, kill_grace, reason } => {
                self.let_go().await;
                self.ladder.rotate(Instant::now(), drain, kill_grace);
                if let Some(input) = self.speech.rotate(&reason, drain) {
                    self.put_in("rotation", input);
                }
            }
            StopRequest::Kill => {
                let push = self.ladder.kill();
                self.push(push);
            }
        }
    }

    fn give(&mut self, line: &Inbound) {
        let Some(feed) = &self.feed else {
            return;
        };
        let place = if let Inbound::Mail { place, .. } = line { *place } else { 0 };
        let Telling { told, events } = self.speech.telling(line);
        events.into_iter().for_each(|event| self.relay.tell(event));
        let given = match told {
            AgentDelivery::Line(text) => {
                feed.post(place, text).map_err(|refused| refused.to_string())
            }
            // It was answered here.
            AgentDelivery::Done if place > 0 => {
                return self.relay.tell(RunnerEvent::Taken { place });
            }
            AgentDelivery::Done | AgentDelivery::Held => return,
            AgentDelivery::Refused(why) => Err(why),
        };
        match given {
            Ok(()) => self.ladder.was_given_a_line(Instant::now()),
            Err(refused) => {
                note_down(&self.notes, format!("{} was dropped: {refused}", speech::what(line)));
            }
        }
    }

    fn hand_back(&mut self, line: Vec<u8>) {
        self.ladder.was_handed_back(Instant::now());
        let told = self.feed.as_ref().map(|feed| feed.offer(line));
        if let Some(Err(refused)) = told {
            note_down(&self.notes, format!("the result could not be handed back: {refused}"));
        }
    }

    fn push(&mut self, push: Option<KillSignal>) {
        let Some(signal) = push else { return };
        note_down(&self.notes, format!("{signal} was sent to its processes"));
        match signal {
            KillSignal::Term => {
                if let Some(feed) = &mut self.feed {
                    feed.close();
                }
                self.traces.term();
            }
            KillSignal::Kill => self.traces.kill_now(),
        }
    }
}

async fn at(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        sleep_until(deadline).await;
    }
}

fn exit_of(status: std::io::Result<ExitStatus>) -> Exit {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Code(-1),
        },
        Err(cause) => {
            tracing::error!(%cause, "waiting for a program failed");
            Exit::Code(-1)
        }
    }
}
