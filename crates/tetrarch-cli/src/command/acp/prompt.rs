//! A prompt of an editor: a turn as it is said, followed, asked about and cancelled.

use std::future::pending;
use std::pin::Pin;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, PermissionOption, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SessionNotification, SessionUpdate,
    StopReason, ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::{Client, Error};
use tetrarch_core::conversation::TurnStatus;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::id::{EpicId, QuestionId};
use tetrarch_core::question::Question;
use tetrarch_core::request::Op;
use tetrarch_core::request::goals::{GoalOp, GoalVerb};
use tokio::sync::oneshot;

use crate::command::ask::following::{TurnFollower, TurnNews, words_of};
use crate::command::ask::{Talk, TalkArgs};
use crate::{CliError, CliResult, Code, Context, HumanClient};

/// The answers that allow and refuse one use of a tool.
const ALLOW: &str = "allow";
const DENY: &str = "deny";

/// A session between two prompts.
pub(super) struct EditorSession {
    /// Its conversation.
    pub(super) talk: TalkArgs,
    /// The question that the next prompt answers.
    pub(super) open: Option<OpenQuestion>,
}

/// A question that ended a prompt, and its turn, which waits.
pub(super) struct OpenQuestion {
    question: QuestionId,
    follower: TurnFollower,
}

/// A prompt.
pub(super) struct EditorPrompt<'a> {
    pub(super) context: &'a Context,
    pub(super) client: &'a HumanClient,
    pub(super) editor: ConnectionTo<Client>,
    pub(super) session: Box<EditorSession>,
    pub(super) text: String,
    pub(super) cancel: oneshot::Receiver<()>,
}

/// The text of a prompt.
///
/// # Errors
/// It has something other than text and links.
pub(super) fn text_of(prompt: &[ContentBlock]) -> CliResult<String> {
    let parts = prompt.iter().map(|block| {
        if let ContentBlock::Text(text) = block {
            Ok(text.text.clone())
        } else if let ContentBlock::ResourceLink(link) = block {
            Ok(format!("[{}]({})", link.name, link.uri))
        } else {
            let what = "a prompt takes text and links";
            Err(CliError::new(Code::Usage, what).hint("name files by their paths"))
        }
    });
    parts.collect()
}

/// A text of a session.
pub(super) fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(text))
}

/// Tells the editor something of a session.
///
/// # Errors
/// The editor is gone.
pub(super) fn tell(
    editor: &ConnectionTo<Client>,
    talk: &TalkArgs,
    update: SessionUpdate,
) -> CliResult {
    let told = SessionNotification::new(talk.conversation.to_string(), update);
    editor.send_notification(told).map_err(CliError::failed)
}

/// What the editor was asked to have its person decide.
struct OpenPermission {
    question: QuestionId,
    answer: Pin<Box<dyn Future<Output = Result<RequestPermissionResponse, Error>> + Send>>,
}

/// The answer to what is open; never when nothing is.
async fn decided(
    open: &mut Option<OpenPermission>,
) -> (QuestionId, Result<RequestPermissionResponse, Error>) {
    match open {
        Some(OpenPermission { question, answer }) => {
            let answered = (*question, answer.await);
            *open = None;
            answered
        }
        None => pending().await,
    }
}

impl EditorPrompt<'_> {
    /// Runs it to its end, and gives the session back.
    pub(super) async fn run(mut self) -> (Box<EditorSession>, CliResult<StopReason>) {
        let ended = match self.begin().await {
            Ok(follower) => self.follow(follower).await,
            Err(error) => Err(error),
        };
        (self.session, ended)
    }

    /// Says it: to the agent that asked, or as a turn.
    async fn begin(&mut self) -> CliResult<TurnFollower> {
        if let Some(OpenQuestion { question, follower }) = self.session.open.take() {
            self.answer(question, self.text.clone()).await?;
            return Ok(follower);
        }
        let mut talk = Talk::open(self.context, self.client, self.session.talk.clone()).await?;
        talk.say(self.client, &self.text, TurnLane::Conversation).await
    }

    /// Answers a question. Somebody may have answered it elsewhere, which its person is told.
    async fn answer(&self, question: QuestionId, text: String) -> CliResult {
        match self.client.operate(&Op::QuestionAnswer { question, text }).await {
            Ok(_) => Ok(()),
            Err(error) => self.message(&error.what),
        }
    }

    fn message(&self, text: &str) -> CliResult {
        tell(&self.editor, &self.session.talk, SessionUpdate::AgentMessageChunk(chunk(text)))
    }

    fn thought(&self, text: &str) -> CliResult {
        let text = format!("{text}\n");
        tell(&self.editor, &self.session.talk, SessionUpdate::AgentThoughtChunk(chunk(&text)))
    }

    async fn follow(&mut self, mut follower: TurnFollower) -> CliResult<StopReason> {
        let mut permission: Option<OpenPermission> = None;
        let (mut is_cancelled, mut cancelled) = (false, None);
        loop {
            if is_cancelled {
                self.cancel_work(&follower, &mut cancelled).await?;
            }
            let news = tokio::select! {
                news = follower.next() => news?,
                (question, answer) = decided(&mut permission) => {
                    self.permit(question, answer).await?;
                    continue;
                }
                Ok(()) = &mut self.cancel, if !is_cancelled => {
                    (is_cancelled, permission) = (true, None);
                    continue;
                }
            };
            match news {
                TurnNews::Progress(line) => self.thought(&line)?,
                // The editor itself shows that a prompt goes on.
                TurnNews::Still(_) => {}
                // Its work is cancelled, and nobody waits for the answer.
                TurnNews::Question(_) if is_cancelled => {}
                TurnNews::Question(asked) if asked.options == [ALLOW, DENY] => {
                    permission = Some(self.ask_permission(&asked));
                }
                TurnNews::Question(asked) => {
                    let choices = asked.options.iter().map(|option| format!("\n- {option}"));
                    self.message(&format!("{}{}", words_of(&asked), choices.collect::<String>()))?;
                    self.session.open = Some(OpenQuestion { question: asked.id, follower });
                    return Ok(StopReason::EndTurn);
                }
                TurnNews::Settled(id) => {
                    permission.take_if(|permission| permission.question == id);
                }
                TurnNews::Ended(turn) if turn.status == TurnStatus::Failed => {
                    return Err(CliError::new(
                        Code::Failed,
                        format!("{}: {}", turn.id, turn.answer),
                    )
                    .hint("see `tetrarch events --kind turn`"));
                }
                TurnNews::Ended(turn) => {
                    self.message(&turn.answer)?;
                    let ended = StopReason::EndTurn;
                    return Ok(if is_cancelled { StopReason::Cancelled } else { ended });
                }
                TurnNews::Interrupted => return Ok(StopReason::Cancelled),
            }
        }
    }

    /// Cancels the goal that is worked on for a cancelled turn, each once. A turn that waits in its lane has none yet.
    async fn cancel_work(
        &self,
        follower: &TurnFollower,
        cancelled: &mut Option<EpicId>,
    ) -> CliResult {
        let working = follower.turn().filter(|turn| turn.working).and_then(|turn| turn.epic);
        let Some(epic) = working.filter(|epic| *cancelled != Some(*epic)) else { return Ok(()) };
        *cancelled = Some(epic);
        let reason = "cancelled in the editor".to_owned();
        let op = Op::Goal(GoalOp { epic, verb: GoalVerb::Cancel, reason });
        match self.client.operate(&op).await {
            Ok(_) => Ok(()),
            // It may have ended meanwhile.
            Err(error) => self.thought(&error.what),
        }
    }

    /// Has the editor ask its person whether a tool may be used.
    fn ask_permission(&self, asked: &Question) -> OpenPermission {
        let id = asked.id.to_string();
        let fields = ToolCallUpdateFields::new().title(words_of(asked));
        let options = vec![
            PermissionOption::new(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
            PermissionOption::new(DENY, "Deny", PermissionOptionKind::RejectOnce),
        ];
        let session = self.session.talk.conversation.to_string();
        let asks = RequestPermissionRequest::new(session, ToolCallUpdate::new(id, fields), options);
        let answer = Box::pin(self.editor.send_request(asks).block_task());
        OpenPermission { question: asked.id, answer }
    }

    /// What the person decided in the editor. Undecided, the question stays in the inbox.
    async fn permit(
        &self,
        question: QuestionId,
        answer: Result<RequestPermissionResponse, Error>,
    ) -> CliResult {
        match answer.map(|answer| answer.outcome) {
            Ok(RequestPermissionOutcome::Selected(selected)) => {
                self.answer(question, selected.option_id.0.to_string()).await
            }
            Ok(_) => self.thought(&format!("`tetrarch inbox` shows the question as {question}")),
            Err(error) => self.thought(&format!(
                "the editor cannot ask: {error}; `tetrarch inbox` shows the question as {question}"
            )),
        }
    }
}
