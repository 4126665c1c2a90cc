//! `acp`: a person's conversations for an editor, over the Agent Client Protocol. A session is a conversation, a prompt
//! a turn; what becomes of it is what `ask` and `chat` follow.

mod input;
mod prompt;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, Implementation, InitializeRequest, InitializeResponse,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, SessionCapabilities,
    SessionId, SessionInfo, SessionListCapabilities, SessionUpdate,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, ErrorCode, on_receive_notification, on_receive_request,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tetrarch_bus::state::Select;
use tetrarch_core::id::{ConversationName, GraphName, ProjectName};
use tokio::sync::{mpsc, oneshot};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use self::input::EditorInput;
use self::prompt::{EditorPrompt, EditorSession, chunk, tell, text_of};
use super::ask::{Talk, TalkArgs};
use super::chat::latest;
use crate::context::new_ulid;
use crate::output::{say, stamp};
use crate::process::stop_signal;
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot};

/// Calls of the editor that wait.
const CALLS_MAX: usize = 16;
/// Sessions that an editor has open at a time.
const SESSIONS_MAX: usize = 1_000;

/// Arguments of `acp`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch acp --project demo               # what an editor starts: its standard input and output are the editor's

Each session of the editor is a conversation: `tetrarch chat --list` shows it, and `tetrarch chat NAME` goes on with it.")]
pub(crate) struct AcpArgs {
    /// The project whose agents work for new sessions [default: `main`].
    #[arg(long)]
    project: Option<ProjectName>,
    /// The graph that routes new sessions [default: `default`].
    #[arg(long)]
    graph: Option<GraphName>,
}

/// Serves on standard input and output until the editor ends them.
///
/// # Errors
/// The bus cannot be reached, or the editor's lines cannot be read: one is too long.
pub(crate) async fn run(context: &Context, args: AcpArgs) -> CliResult {
    let client = context.client().await?;
    if std::io::stdin().is_terminal() {
        say("waiting for an editor on standard input; see docs/editors.md");
    }
    let mut stop = stop_signal(false)?;
    tokio::select! {
        ended = serve(context, &client, &args) => ended.map_err(|error| {
            CliError::new(Code::Failed, format!("acp: {error}"))
        }),
        _ = stop.wait_for(|stop| *stop) => Ok(()),
    }
}

/// What an editor asks for.
enum EditorCall {
    /// A new conversation.
    New(Responder<NewSessionResponse>),
    /// One that is there, with what was said in it.
    Load(SessionId, Responder<LoadSessionResponse>),
    /// Which there are.
    List(Option<PathBuf>, Responder<ListSessionsResponse>),
    /// A turn.
    Prompt(PromptRequest, Responder<PromptResponse>),
    /// The end of a turn.
    Cancel(SessionId),
}

async fn serve(context: &Context, client: &HumanClient, args: &AcpArgs) -> Result<(), Error> {
    let (calls, heard) = mpsc::channel(CALLS_MAX);
    let [new, load, list, prompt, cancel] = std::array::from_fn(|_| calls.clone());
    let input = EditorInput::of(tokio::io::stdin()).compat();
    let streams = ByteStreams::new(tokio::io::stdout().compat_write(), input);
    Agent
        .v1()
        .name("tetrarch")
        .on_receive_request(
            async |_: InitializeRequest, responder, _| responder.respond(capabilities()),
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| {
                pass(&new, EditorCall::New(responder)).await
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |asked: LoadSessionRequest, responder, _| {
                pass(&load, EditorCall::Load(asked.session_id, responder)).await
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |asked: ListSessionsRequest, responder, _| {
                pass(&list, EditorCall::List(asked.cwd, responder)).await
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |asked: PromptRequest, responder, _| {
                pass(&prompt, EditorCall::Prompt(asked, responder)).await
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |asked: CancelNotification, _| {
                pass(&cancel, EditorCall::Cancel(asked.session_id)).await
            },
            on_receive_notification!(),
        )
        .connect_with(streams, async |editor: ConnectionTo<Client>| {
            Editor { context, client, args, editor, sessions: BTreeMap::new() }.serve(heard).await
        })
        .await
}

async fn pass(calls: &mpsc::Sender<EditorCall>, call: EditorCall) -> Result<(), Error> {
    // Nobody hears it only when the connection ends.
    calls.send(call).await.map_err(Error::into_internal_error)
}

fn capabilities() -> InitializeResponse {
    let sessions = SessionCapabilities::new().list(SessionListCapabilities::new());
    let offered = AgentCapabilities::new().load_session(true).session_capabilities(sessions);
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(offered)
        .agent_info(Implementation::new("tetrarch", env!("CARGO_PKG_VERSION")).title("Tetrarch"))
}

/// An error as an editor shows it: what, and what to do.
fn refused(error: CliError) -> Error {
    let CliError { code, what, hint } = error;
    let what = hint.map_or_else(|| what.clone(), |hint| format!("{what}; {hint}"));
    let code = match code {
        Code::Usage | Code::Conflict => ErrorCode::INVALID_PARAMS,
        Code::NotFound => ErrorCode::RESOURCE_NOT_FOUND,
        Code::Failed | Code::Denied | Code::BusUnreachable | Code::Interrupted => {
            ErrorCode::INTERNAL_ERROR
        }
    };
    Error::new(code, what)
}

fn in_a_prompt(session: &str) -> CliError {
    let what = format!("session {session} is in a prompt");
    CliError::new(Code::Conflict, what).hint("wait for it, or cancel it")
}

/// A session of the editor.
enum SessionState {
    /// Between two prompts.
    Idle(Box<EditorSession>),
    /// In one; it is cancelled once.
    Busy(Option<oneshot::Sender<()>>),
}

/// The editor and its sessions.
struct Editor<'a> {
    context: &'a Context,
    client: &'a HumanClient,
    args: &'a AcpArgs,
    editor: ConnectionTo<Client>,
    sessions: BTreeMap<String, SessionState>,
}

impl<'a> Editor<'a> {
    async fn serve(mut self, mut calls: mpsc::Receiver<EditorCall>) -> Result<(), Error> {
        let editor = self.editor.clone();
        let mut prompts = FuturesUnordered::new();
        loop {
            let call = tokio::select! {
                biased;
                // Before the next call, which may be the next prompt of the same session.
                Some(session) = prompts.next() => {
                    let session: Box<EditorSession> = session?;
                    let name = session.talk.conversation.to_string();
                    self.sessions.insert(name, SessionState::Idle(session));
                    continue;
                }
                call = calls.recv() => call,
                () = editor.incoming_closed() => return Ok(()),
            };
            match call {
                None => return Ok(()),
                Some(EditorCall::New(responder)) => {
                    let session = self.new_session().map(NewSessionResponse::new);
                    responder.respond_with_result(session.map_err(refused))?;
                }
                Some(EditorCall::Load(id, responder)) => {
                    let loaded = self.load(&id).await;
                    let answer = loaded.map(|()| LoadSessionResponse::new()).map_err(refused);
                    responder.respond_with_result(answer)?;
                }
                Some(EditorCall::List(dir, responder)) => {
                    responder.respond_with_result(self.list(dir).await.map_err(refused))?;
                }
                Some(EditorCall::Prompt(asked, responder)) => match self.begin(&asked) {
                    Ok(prompt) => prompts.push(async move {
                        let (session, reason) = prompt.run().await;
                        let answer = reason.map(PromptResponse::new).map_err(refused);
                        responder.respond_with_result(answer)?;
                        Ok::<Box<EditorSession>, Error>(session)
                    }),
                    Err(error) => responder.respond_with_error(refused(error))?,
                },
                Some(EditorCall::Cancel(id)) => self.cancel(&id),
            }
        }
    }

    fn new_session(&mut self) -> CliResult<String> {
        let name = format!("editor-{}", new_ulid().to_string().to_lowercase());
        let conversation = ConversationName::new(&name).map_err(CliError::usage)?;
        let AcpArgs { project, graph } = self.args;
        self.open(TalkArgs {
            conversation,
            project: project.clone(),
            graph: graph.clone(),
            channel: None,
            mode: None,
        })?;
        Ok(name)
    }

    fn open(&mut self, talk: TalkArgs) -> CliResult {
        let name = talk.conversation.to_string();
        match self.sessions.get(&name) {
            Some(SessionState::Busy(_)) => {
                return Err(in_a_prompt(&name));
            }
            None if self.sessions.len() >= SESSIONS_MAX => {
                let what = format!("{SESSIONS_MAX} sessions are open, the most at a time");
                return Err(CliError::new(Code::Conflict, what).hint("start `tetrarch acp` again"));
            }
            Some(SessionState::Idle(_)) | None => {}
        }
        self.sessions
            .insert(name, SessionState::Idle(Box::new(EditorSession { talk, open: None })));
        Ok(())
    }

    /// Opens a conversation that is there, and says what was said in it.
    async fn load(&mut self, id: &SessionId) -> CliResult {
        let conversation = ConversationName::new(&id.0).map_err(CliError::usage)?;
        let args = TalkArgs { conversation, project: None, graph: None, channel: None, mode: None };
        let talk = Talk::open(self.context, self.client, args.clone()).await?;
        let mut turns = talk.turns().peekable();
        if turns.peek().is_none() {
            let what = format!("session {} was not found", args.conversation);
            return Err(CliError::new(Code::NotFound, what).hint("begin a new one"));
        }
        self.open(args.clone())?;
        for turn in turns {
            let said = [
                SessionUpdate::UserMessageChunk(chunk(&turn.text)),
                SessionUpdate::AgentMessageChunk(chunk(&turn.answer)),
            ];
            let said = if turn.answer.is_empty() { &said[..1] } else { &said };
            for update in said {
                tell(&self.editor, &args, update.clone())?;
            }
        }
        Ok(())
    }

    /// The person's conversations. They belong to no directory, so each is one of the directory that is asked about.
    async fn list(&self, dir: Option<PathBuf>) -> CliResult<ListSessionsResponse> {
        let dir = dir.map_or_else(std::env::current_dir, Ok)?;
        let turns = [Select::TurnsOf(self.context.human()?)];
        let snapshot = StateSnapshot::read(&self.client.bus, &turns).await?;
        let sessions = latest(&snapshot).into_iter().map(|(conversation, turn)| {
            SessionInfo::new(conversation.to_string(), dir.clone())
                .title(turn.text.lines().next().map(str::to_owned))
                .updated_at(stamp(turn.since))
        });
        Ok(ListSessionsResponse::new(sessions.collect()))
    }

    /// Takes a session for a prompt.
    fn begin(&mut self, asked: &PromptRequest) -> CliResult<EditorPrompt<'a>> {
        let text = text_of(&asked.prompt)?;
        let id = asked.session_id.0.as_ref();
        let (begun, cancel) = oneshot::channel();
        let state = self.sessions.get_mut(id).ok_or_else(|| {
            CliError::new(Code::NotFound, format!("session {id} was not found"))
                .hint("load it, or begin a new one")
        })?;
        match std::mem::replace(state, SessionState::Busy(Some(begun))) {
            SessionState::Idle(session) => {
                let (context, client, editor) = (self.context, self.client, self.editor.clone());
                Ok(EditorPrompt { context, client, editor, session, text, cancel })
            }
            busy @ SessionState::Busy(_) => {
                *state = busy;
                Err(in_a_prompt(id))
            }
        }
    }

    fn cancel(&mut self, id: &SessionId) {
        if let Some(SessionState::Busy(cancel)) = self.sessions.get_mut(id.0.as_ref())
            && let Some(cancel) = cancel.take()
        {
            // A prompt that just ended needs no cancelling.
            let _ended = cancel.send(());
        }
    }
}
