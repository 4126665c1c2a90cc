//! One call of a tool of the fleet by a coding agent: it is told as an event, and what comes of it is waited for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use serde_json::{Map, Value};
use tetrarch_core::converse::FINISH;
use tetrarch_core::id::RequestId;
use tetrarch_core::order::{LocalFile, RunnerEvent};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, interval, timeout};

use super::{AgentTalk, FleetTools};
use crate::adapter::permission::{self, ALLOW, DENY};
use crate::backend::fleet_tools::{CallText, FleetCall, REPLY_WITHIN};
use crate::files::Gate;
use crate::protocol::NamedFile;

/// How often a call that goes on says so, to a client that wants to know.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// What a call is told whose run is over.
const ENDED: &str = "the run has ended";

/// What the calls of a run come to.
#[derive(Debug, Clone)]
pub(in crate::backend::process) struct CallChannels {
    /// Where they are told.
    pub(in crate::backend::process) events: mpsc::Sender<RunnerEvent>,
    /// Where the run is ended.
    finishes: mpsc::Sender<FinishCall>,
    /// What files may be handed over.
    gate: Arc<Mutex<Gate>>,
}

/// A call that is to end the run.
#[derive(Debug)]
pub(in crate::backend::process) struct FinishCall {
    /// What it says.
    pub(in crate::backend::process) arguments: Map<String, Value>,
    /// Takes what it is told.
    pub(in crate::backend::process) answer: oneshot::Sender<CallText>,
}

impl CallChannels {
    /// Channels to where things are told, and where those calls come in that end the run.
    pub(in crate::backend::process) fn open(
        events: mpsc::Sender<RunnerEvent>,
        gate: Gate,
    ) -> (Self, mpsc::Receiver<FinishCall>) {
        let (finishes, calls) = mpsc::channel(1);
        (Self { events, finishes, gate: Arc::new(Mutex::new(gate)) }, calls)
    }

    async fn tell(&self, event: RunnerEvent) -> Result<(), String> {
        self.events.send(event).await.map_err(|_| ENDED.to_owned())
    }

    fn admit(&self, file: NamedFile) -> Result<LocalFile, String> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let NamedFile { name, path, media_type } = file;
        gate.admit(name, &path, media_type).map_err(|refused| refused.to_string())
    }

    async fn finish(&self, arguments: Map<String, Value>) -> CallText {
        let (answer, answered) = oneshot::channel();
        let told = self.finishes.send(FinishCall { arguments, answer }).await;
        told.map_err(|_| ENDED.to_owned())?;
        answered.await.unwrap_or_else(|_| Err(ENDED.to_owned()))
    }
}

impl FleetTools {
    /// Tells what a call comes to, and waits for what comes of it.
    pub(super) async fn call(
        &self,
        talk: &AgentTalk,
        channels: &CallChannels,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> CallText {
        let shown = Value::Object(arguments.clone()).to_string();
        if tool == FINISH && self.offers(FINISH) {
            return channels.finish(arguments).await;
        }
        let ReadCall { number, question: id, call } = self.read(tool, arguments)?;
        if let Some(rule) = self.permissions.decisive(tool, None) {
            let asked = permission::asked(rule, tool, &shown).map_err(|it| it.to_string())?;
            let options = [ALLOW, DENY].map(str::to_owned).to_vec();
            let answer = self.ask(channels, (number, id), (asked, options)).await;
            permission::decided(answer).map_err(|refused| refused.to_string())?;
        }
        match call {
            FleetCall::Tell { event, words } => channels.tell(event).await.map(|()| words),
            FleetCall::Request { id, event, within } => {
                self.request(channels, id, event, within).await
            }
            FleetCall::HandOver { id, file } => {
                let event = RunnerEvent::HandOver { id, file: channels.admit(file)? };
                self.request(channels, id, event, REPLY_WITHIN).await
            }
            FleetCall::AwaitMail { seconds } => {
                let (hear, heard) = oneshot::channel();
                self.waiting().mail.push_back(hear);
                match timeout(Duration::from_secs(seconds), heard).await {
                    Ok(Ok(said)) => said,
                    Ok(Err(_)) | Err(_) => Ok(format!("no mail came within {seconds} s")),
                }
            }
            FleetCall::ReadMail => {
                let (texts, places) = talk.take_back();
                for place in places {
                    channels.tell(RunnerEvent::Taken { place }).await?;
                }
                Ok(self.waiting().letters.read(&texts))
            }
            FleetCall::Ask { question, options } => {
                self.ask(channels, (number, id), (question, options)).await
            }
        }
    }

    /// Asks for something and waits so long for what comes of it.
    async fn request(
        &self,
        channels: &CallChannels,
        id: RequestId,
        event: RunnerEvent,
        within: Duration,
    ) -> CallText {
        let (hear, heard) = oneshot::channel();
        self.waiting().requests.insert(id, hear);
        channels.tell(event).await?;
        match timeout(within, heard).await {
            Ok(Ok(said)) => said,
            Ok(Err(_)) | Err(_) => Err(format!(
                "asked as {id}, but no answer came in time; look whether it was done before you ask again"
            )),
        }
    }

    /// Asks people and waits for their answer to this.
    async fn ask(
        &self,
        channels: &CallChannels,
        (number, id): (u64, RequestId),
        (question, options): (String, Vec<String>),
    ) -> CallText {
        let (hear, heard) = oneshot::channel();
        self.waiting().requests.insert(id, hear);
        let question = format!("{question}\n[call {number} of session {}]", self.epoch);
        channels.tell(RunnerEvent::Ask { id: Some(id), question, options }).await?;
        heard.await.unwrap_or_else(|_| Err(ENDED.to_owned()))
    }
}

/// A call as it was read.
#[derive(Debug)]
pub(super) struct ReadCall {
    pub(super) number: u64,
    /// The id of what people are asked for it.
    pub(super) question: RequestId,
    pub(super) call: FleetCall,
}

/// Says now and then that a call goes on, to a client that asked for it, for as long as it listens. Ends when it does
/// not; for a client that did not ask, never.
pub async fn tell_progress(peer: &Peer<RoleServer>, token: Option<ProgressToken>) {
    let Some(token) = token else { return std::future::pending().await };
    let began = Instant::now();
    let mut beat = interval(PROGRESS_EVERY);
    loop {
        beat.tick().await;
        let passed = began.elapsed().as_secs_f64();
        let said = ProgressNotificationParam::new(token.clone(), passed)
            .with_message(format!("running for {passed:.0} s"));
        if peer.notify_progress(said).await.is_err() {
            return;
        }
    }
}
