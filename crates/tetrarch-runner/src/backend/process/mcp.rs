//! The fleet's tools for a coding agent, by the Model Context Protocol (docs/decisions/0109). Who calls is known by the
//! socket and by its process: no secret is given to anybody. Decides nothing; each call goes the way of a program's line.

mod bounded;
mod calling;
mod letters;
mod socket;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value};
use tetrarch_core::converse::{Call, Due, ToolDefinition, fitting};
use tetrarch_core::id::{AgentId, RequestId};
use tetrarch_core::limits::ACCEPT_PAUSE;
use tetrarch_core::order::Start;
use tetrarch_core::permission::Permissions;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::speech::AgentTalk;
use crate::adapter::reviews;
use crate::backend::ending;
use crate::backend::fleet_tools::{
    self, ANSWERS, AgentTool, CallOrigin, CallText, OF_PEOPLE, replied,
};
use crate::sweep::Traces;

use bounded::BoundedLines;
use calling::ReadCall;
pub use calling::tell_progress;
pub(super) use calling::{CallChannels, FinishCall};
use letters::GivenLetters;
pub(super) use letters::LetterWay;
pub(super) use socket::listen;
pub(crate) use socket::socket_in;
pub use socket::{RELAY, relay_main};

/// Programs of one run that may be connected at once.
const CONNECTIONS_MAX: usize = 8;
/// Pause after a connection that is not answered: any program of the user can make them without end.
const STRANGER_PAUSE: Duration = Duration::from_millis(1);
/// Calls of one run that may wait at once.
const WAITING_MAX: usize = 32;
/// Calls of one run are numbered in as many bits, below those that tell the runs apart.
const CALL_BITS: u32 = 20;

/// The fleet's tools of one run, and its calls that wait.
#[derive(Debug)]
pub(super) struct FleetTools {
    agent: AgentId,
    epoch: u64,
    /// Calls are numbered from it. A call of another session is another one, though it says the same.
    base: u64,
    offered: Vec<ToolDefinition>,
    permissions: Permissions,
    waiting: Mutex<WaitingCalls>,
}

#[derive(Debug, Default)]
struct WaitingCalls {
    calls: u64,
    requests: BTreeMap<RequestId, oneshot::Sender<CallText>>,
    mail: VecDeque<oneshot::Sender<CallText>>,
    letters: GivenLetters,
}

impl FleetTools {
    /// The tools that the brief of a run lists; none when it lists none.
    pub(super) fn of(start: &Start) -> Option<Self> {
        let mut offered: Vec<ToolDefinition> = fleet_tools::allowed(start).collect();
        if fleet_tools::is_offered(start) {
            offered.push(ending::definition(&start.brief.expected_output, reviews(start)));
        }
        // The random part of the run's id.
        let run = u128::from(start.run.0) & (u128::from(u64::MAX) >> CALL_BITS);
        let base = u64::try_from(run).unwrap_or_default() << CALL_BITS;
        let waiting = Mutex::default();
        (!offered.is_empty()).then(|| Self {
            agent: start.agent.clone(),
            epoch: start.epoch,
            base,
            offered,
            permissions: Permissions::of(&start.brief.runner.permissions),
            waiting,
        })
    }

    fn offers(&self, tool: &str) -> bool {
        self.offered.iter().any(|offered| offered.name == tool)
    }

    /// Notes how a message was given.
    pub(super) fn was_given(&self, words: &str, way: LetterWay) {
        self.waiting().letters.note(words, way);
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingCalls> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives what came of a call to whoever waits for that; false when it is for others.
    pub(super) fn hears(&self, topic: &str, body: &str, answers: Option<RequestId>) -> bool {
        let of_people = OF_PEOPLE.contains(&topic);
        let Some(id) = answers.filter(|_| of_people || ANSWERS.contains(&topic)) else {
            return false;
        };
        let call = self.waiting().requests.remove(&id);
        let is_heard = call.is_some_and(|call| call.send(replied(topic, body)).is_ok());
        // People may answer when the program has stopped waiting, or what it asked by itself: that is not lost.
        is_heard || !of_people
    }

    /// Gives mail to a call that waits for some.
    ///
    /// # Errors
    /// None does: the mail.
    pub(super) fn takes_mail(&self, mail: String) -> Result<(), String> {
        let (mut waiting, mut mail) = (self.waiting(), mail);
        while let Some(call) = waiting.mail.pop_front() {
            match call.send(Ok(mail)) {
                Ok(()) => return Ok(()),
                Err(Ok(unheard) | Err(unheard)) => mail = unheard,
            }
        }
        Err(mail)
    }

    /// A call of one of the tools, with its number.
    fn read(&self, tool: &str, arguments: Map<String, Value>) -> Result<ReadCall, String> {
        let Some(own) = AgentTool::named(tool).filter(|_| self.offers(tool)) else {
            let names: Vec<&str> = self.offered.iter().map(|tool| tool.name.as_str()).collect();
            return Err(format!("unknown tool {tool}; available: {}", names.join(", ")));
        };
        let number = {
            let mut waiting = self.waiting();
            waiting.requests.retain(|_, call| !call.is_closed());
            waiting.mail.retain(|call| !call.is_closed());
            let open = waiting.requests.len() + waiting.mail.len();
            if open >= WAITING_MAX {
                return Err(format!(
                    "{WAITING_MAX} calls wait already; call again when one is answered"
                ));
            }
            waiting.calls += 1;
            waiting.calls
        };
        let call = Call { id: String::new(), tool: tool.to_owned(), arguments: String::new() };
        let due = Due { step: self.base.wrapping_add(number), index: 0, call };
        let of = CallOrigin { agent: &self.agent, epoch: self.epoch, due: &due };
        let question = of.question();
        own.call(arguments, of).map(|call| ReadCall { number, question, call })
    }
}

/// What the programs of a run are answered, until this is dropped.
#[derive(Debug)]
pub(super) struct FleetServer(AbortHandle);

impl Drop for FleetServer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl FleetServer {
    /// Answers what the processes of these traces call, and tells it as events.
    pub(super) fn open(
        talk: Arc<AgentTalk>,
        listener: UnixListener,
        traces: Traces,
        channels: CallChannels,
    ) -> Self {
        let server = FleetMcp { talk, channels };
        let accept = async move || Ok(listener.accept().await?.0);
        let is_own = move |stream: &UnixStream| is_of(stream, &traces);
        let answer = move |stream| answer(server.clone(), stream);
        Self(tokio::spawn(serve(accept, is_own, answer)).abort_handle())
    }
}

/// Answers the run's own connections, so many at once, for as long as it is polled.
async fn serve<F: Future<Output = ()> + Send + 'static>(
    accept: impl AsyncFn() -> io::Result<UnixStream>,
    is_own: impl Fn(&UnixStream) -> bool,
    answer: impl Fn(UnixStream) -> F,
) {
    let mut open = JoinSet::new();
    loop {
        let stream = match accept().await {
            Ok(stream) => stream,
            Err(cause) => {
                tracing::warn!(%cause, "a call of a run's program cannot be taken");
                sleep(Duration::from_millis(ACCEPT_PAUSE.0)).await;
                continue;
            }
        };
        while open.try_join_next().is_some() {}
        if open.len() < CONNECTIONS_MAX && is_own(&stream) {
            open.spawn(answer(stream));
        } else {
            drop(stream);
            sleep(STRANGER_PAUSE).await;
        }
    }
}

/// Whether a process of the run has connected.
fn is_of(stream: &UnixStream, traces: &Traces) -> bool {
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
    pid.is_some_and(|pid| traces.has(pid))
}

async fn answer(server: FleetMcp, stream: UnixStream) {
    match server.serve(BoundedLines::of(stream)).await {
        Ok(serving) => {
            if let Err(cause) = serving.waiting().await {
                tracing::debug!(%cause, "answering a run's calls failed");
            }
        }
        Err(cause) => tracing::debug!(%cause, "a run's program spoke no MCP"),
    }
}

/// One connection's answers.
#[derive(Clone)]
struct FleetMcp {
    talk: Arc<AgentTalk>,
    channels: CallChannels,
}

impl ServerHandler for FleetMcp {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("tetrarch", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offered = self.talk.fleet().into_iter().flat_map(|fleet| &fleet.offered);
        Ok(ListToolsResult::with_all_items(offered.map(described).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(fleet) = self.talk.fleet() else {
            return Err(ErrorData::invalid_params("this run has no tools of the fleet", None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let said = tokio::select! {
            said = fleet.call(&self.talk, &self.channels, &request.name, arguments) => said,
            () = tell_progress(&context.peer, context.meta.get_progress_token()) => {
                Err("the client is gone".to_owned())
            }
            () = context.ct.cancelled() => Err("cancelled".to_owned()),
        };
        let words = |text: String| vec![ContentBlock::text(fitting(&text))];
        Ok(match said {
            Ok(text) => CallToolResult::success(words(text)),
            Err(text) => CallToolResult::error(words(text)),
        }
        .into())
    }
}

fn described(tool: &ToolDefinition) -> Tool {
    let schema = tool.schema.as_object().cloned().unwrap_or_default();
    Tool::new(tool.name.clone(), tool.description.clone(), schema)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rmcp::service::{ClientLifecycleMode, ClientServiceExt};
    use serde_json::json;
    use tetrarch_core::hosted;
    use tetrarch_core::id::Ulid;

    use super::*;
    use crate::backend::fleet_tools::{ANSWER, FleetCall};
    use crate::files::Gate;
    use tokio::sync::mpsc;

    fn tools(run: u64, listed: &[AgentTool]) -> FleetTools {
        FleetTools {
            agent: AgentId::Worker(Ulid(1)),
            epoch: 2,
            base: run << CALL_BITS,
            offered: listed.iter().map(|tool| tool.definition(&[])).collect(),
            permissions: Permissions::default(),
            waiting: Mutex::default(),
        }
    }

    fn read(tools: &FleetTools, tool: &str, arguments: Value) -> Result<FleetCall, String> {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        tools.read(tool, arguments).map(|read| read.call)
    }

    #[test]
    fn unlisted_tool_is_unknown_and_what_it_lists_is_named() {
        let tools = tools(1, &[AgentTool::MailWait]);
        let refused = read(&tools, "mail_send", json!({"to": "po", "text": "x"})).unwrap_err();
        assert_eq!(refused, "unknown tool mail_send; available: mail_wait");
        let waits = read(&tools, "mail_wait", json!({"seconds": 7})).unwrap();
        assert_eq!(waits, FleetCall::AwaitMail { seconds: 7 });
    }

    #[test]
    fn same_call_again_and_in_another_run_is_another_request() {
        let ids = [(1, 2), (2, 1)].map(|(run, calls)| {
            let tools = tools(run, &[AgentTool::MailSend]);
            let id = |_| match read(&tools, "mail_send", json!({"to": "po", "text": "x"})) {
                Ok(FleetCall::Request { id, .. }) => id,
                other => panic!("{other:?}"),
            };
            (0..calls).map(id).collect::<Vec<RequestId>>()
        });
        let all: std::collections::BTreeSet<RequestId> = ids.concat().into_iter().collect();
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn message_goes_to_the_call_that_waits_for_it_or_to_nobody() {
        let (tools, id) = (tools(1, &[]), RequestId(Ulid(7)));
        let (request, mut replied) = oneshot::channel();
        tools.waiting().requests.insert(id, request);
        assert!(!tools.hears("note", "{}", None), "it is no answer");
        assert_eq!(tools.takes_mail("m".to_owned()), Err("m".to_owned()), "nobody waits for mail");
        assert!(!tools.hears(ANSWER, "{}", Some(RequestId(Ulid(99)))), "nobody asked");
        assert!(tools.hears(hosted::REPLY, r#"{"error":"E_CONFLICT"}"#, Some(id)));
        assert_eq!(replied.try_recv(), Ok(Err("E_CONFLICT".to_owned())));
        assert!(tools.hears(hosted::REPLY, "{}", Some(id)), "it came again");
        let (abandoned, _) = oneshot::channel();
        tools.waiting().requests.insert(RequestId(Ulid(6)), abandoned);
        let late = tools.hears(ANSWER, r#"{"text":"yes"}"#, Some(RequestId(Ulid(6))));
        assert!(!late, "it is mail then");

        let asked = [8, 9].map(|number| {
            let (question, answered) = oneshot::channel();
            tools.waiting().requests.insert(RequestId(Ulid(number)), question);
            answered
        });
        for (number, body) in [(9, r#"{"text":"left"}"#), (8, r#"{"text":"right"}"#)] {
            assert!(tools.hears(ANSWER, body, Some(RequestId(Ulid(number)))));
        }
        let heard = asked.map(|mut answered| answered.try_recv().unwrap().unwrap());
        assert_eq!(heard, ["right", "left"], "each its own, whichever comes first");

        let ((gone, _), (mail, mut came)) = (oneshot::channel(), oneshot::channel());
        tools.waiting().mail.extend([gone, mail]);
        assert_eq!(tools.takes_mail("hello".to_owned()), Ok(()), "whoever waits still");
        assert_eq!(came.try_recv(), Ok(Ok("hello".to_owned())));
        assert!(tools.takes_mail("again".to_owned()).is_err());
    }

    #[test]
    fn more_calls_than_may_wait_are_refused_until_some_are_over() {
        let tools = tools(1, &[AgentTool::MailWait]);
        let wait = |_| {
            read(&tools, "mail_wait", json!({})).unwrap();
            let (call, waits) = oneshot::channel::<CallText>();
            tools.waiting().mail.push_back(call);
            waits
        };
        let waiting: Vec<_> = (0..WAITING_MAX).map(wait).collect();
        let refused = read(&tools, "mail_wait", json!({})).unwrap_err();
        assert!(refused.contains("32 calls wait already"), "{refused}");
        drop(waiting);
        read(&tools, "mail_wait", json!({})).unwrap();
    }

    /// Serves at a socket of its own for as long as this is held, and tells of each connection that is answered.
    fn served(
        first: io::Result<()>,
        is_own: impl Fn() -> bool + Send + 'static,
    ) -> (JoinSet<()>, tempfile::TempDir, mpsc::Receiver<()>) {
        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(socket_in(place.path())).unwrap();
        let (first, (tell, told)) = (Mutex::new(Some(first)), mpsc::channel(1));
        let accept = async move || {
            first.lock().unwrap().take().unwrap_or(Ok(()))?;
            Ok(listener.accept().await?.0)
        };
        let answer = move |stream: UnixStream| {
            let tell = tell.clone();
            async move {
                tell.send(()).await.unwrap();
                stream.readable().await.unwrap();
            }
        };
        let mut serving = JoinSet::new();
        serving.spawn(serve(accept, move |_| is_own(), answer));
        (serving, place, told)
    }

    async fn connected(place: &tempfile::TempDir) -> UnixStream {
        UnixStream::connect(socket_in(place.path())).await.unwrap()
    }

    #[tokio::test]
    async fn connection_that_cannot_be_taken_ends_no_listening() {
        let (mut serving, place, mut told) =
            served(Err(io::Error::from_raw_os_error(libc::EMFILE)), || true);
        let _stream = connected(&place).await;
        tokio::select! {
            _ = serving.join_next() => panic!("it has ended"),
            answered = told.recv() => answered.unwrap(),
        }
    }

    #[tokio::test]
    async fn strangers_and_more_than_may_be_open_are_cut_off() {
        let own = Arc::new(AtomicBool::new(false));
        let is_own = Arc::clone(&own);
        let (_serving, place, mut told) = served(Ok(()), move || is_own.load(Ordering::Relaxed));
        let is_cut = async |stream: &UnixStream| {
            stream.readable().await.unwrap();
            matches!(stream.try_read(&mut [0]), Ok(0))
        };
        for _ in 0..2 * CONNECTIONS_MAX {
            assert!(is_cut(&connected(&place).await).await);
        }
        own.store(true, Ordering::Relaxed);
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            open.push(connected(&place).await);
            told.recv().await.unwrap();
        }
        assert!(is_cut(&connected(&place).await).await, "one too many");
    }

    /// A client that keeps what it hears of a call's progress.
    #[derive(Clone, Default)]
    struct ProgressEar(Arc<Mutex<Vec<f64>>>);

    impl rmcp::ClientHandler for ProgressEar {
        async fn on_progress(
            &self,
            params: rmcp::model::ProgressNotificationParam,
            _context: rmcp::service::NotificationContext<rmcp::RoleClient>,
        ) {
            self.0.lock().unwrap().push(params.progress);
        }
    }

    /// The library's own client, in the older and in the newer generation of the protocol.
    #[tokio::test(start_paused = true)]
    async fn clients_of_both_eras_list_call_and_hear_of_progress() {
        let newest = vec![rmcp::model::ProtocolVersion::LATEST];
        let discover = ClientLifecycleMode::Discover { preferred_versions: newest };
        for era in [ClientLifecycleMode::Initialize, discover] {
            let fleet = tools(1, &[AgentTool::MailWait, AgentTool::MailInbox]);
            let (events, _told) = mpsc::channel(8);
            let (channels, _ends) = CallChannels::open(events, Gate::new("/".into(), 0));
            let server = FleetMcp { talk: Arc::new(AgentTalk::unopened(fleet)), channels };
            let (ours, theirs) = UnixStream::pair().unwrap();
            let answering = tokio::spawn(answer(server, ours));
            let ear = ProgressEar::default();
            let client = ear.clone().serve_with_lifecycle(theirs.into_split(), era).await.unwrap();
            let listed = client.peer().list_all_tools().await.unwrap();
            let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_ref()).collect();
            assert_eq!(names, ["mail_wait", "mail_inbox"]);
            let Value::Object(seconds) = json!({"seconds": 12}) else { panic!("no object") };
            let waits = CallToolRequestParams::new("mail_wait").with_arguments(seconds);
            let said = client.peer().call_tool(waits).await.unwrap();
            assert_eq!(said.content[0].as_text().unwrap().text, "no mail came within 12 s");
            let heard = ear.0.lock().unwrap().clone();
            assert!(heard.len() >= 2 && heard.is_sorted(), "{heard:?}");
            let said = client.peer().call_tool(CallToolRequestParams::new("mail_send")).await;
            let said = said.unwrap();
            assert_eq!(said.is_error, Some(true), "{said:?}");
            client.cancel().await.unwrap();
            answering.await.unwrap();
        }
    }
}
