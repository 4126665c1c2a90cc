//! A person's editor: the client of the Agent Client Protocol's own package, with `tetrarch acp` as its agent.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AudioContent, CancelNotification, ContentBlock, ContentChunk, InitializeRequest,
    ListSessionsRequest, LoadSessionRequest, NewSessionRequest, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, on_receive_notification, on_receive_request,
};
use serde_json::{Value, json};
use tetrarch_tests::{Fleet, wait};
use tokio::sync::oneshot;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::acting;

/// What an editor heard.
#[derive(Default)]
struct Heard {
    user: Vec<String>,
    said: Vec<String>,
    thoughts: String,
    /// What it was asked to permit, and has not answered.
    asked: Vec<(String, Responder<RequestPermissionResponse>)>,
}

#[derive(Clone, Default)]
struct Ears(Arc<Mutex<Heard>>);

impl Ears {
    fn hears(&self, update: SessionUpdate) {
        let text = |chunk: ContentChunk| {
            let ContentBlock::Text(text) = chunk.content else { panic!("{chunk:?}") };
            text.text
        };
        let mut heard = self.0.lock().unwrap();
        if let SessionUpdate::UserMessageChunk(chunk) = update {
            heard.user.push(text(chunk));
        } else if let SessionUpdate::AgentMessageChunk(chunk) = update {
            heard.said.push(text(chunk));
        } else if let SessionUpdate::AgentThoughtChunk(chunk) = update {
            heard.thoughts += &text(chunk);
        } else {
            panic!("{update:?}");
        }
    }

    /// What was said since this was asked last.
    fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().said)
    }

    /// The next use that it is asked to permit.
    fn permission(&self) -> (String, Responder<RequestPermissionResponse>) {
        wait::until("a request for permission", || self.0.lock().unwrap().asked.pop())
    }
}

/// Runs an editor with `tetrarch acp`, which ends with it.
async fn editor(fleet: &Fleet, story: impl AsyncFnOnce(&ConnectionTo<Agent>, &Ears)) {
    let mut command = tokio::process::Command::from(fleet.command(["acp", "--project", "desk"]));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let streams = ByteStreams::new(
        child.stdin.take().unwrap().compat_write(),
        child.stdout.take().unwrap().compat(),
    );
    let ears = Ears::default();
    let (hears, asked) = (ears.clone(), ears.clone());
    let ((given, taken), (end, ended)) = (oneshot::channel(), oneshot::channel::<()>());
    let served = Client
        .v1()
        .on_receive_notification(
            async move |told: SessionNotification, _| {
                hears.hears(told.update);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let title = request.tool_call.fields.title.unwrap();
                asked.0.lock().unwrap().asked.push((title, responder));
                Ok(())
            },
            on_receive_request!(),
        )
        .connect_with(streams, async move |agent: ConnectionTo<Agent>| {
            given.send(agent).unwrap();
            // Its end is that nobody holds the other half any more.
            let _ended = ended.await;
            Ok(())
        });
    // A task of its own, so that it reads on while the story waits.
    let served = tokio::spawn(served);
    let agent = taken.await.unwrap();
    let begun = agent.send_request(InitializeRequest::new(ProtocolVersion::V1));
    let begun = begun.block_task().await.unwrap();
    assert_eq!(begun.agent_info.unwrap().name, "tetrarch");
    assert!(begun.agent_capabilities.load_session);
    story(&agent, &ears).await;
    drop((agent, end));
    served.await.unwrap().unwrap();
    assert!(child.wait().await.unwrap().success(), "it ends with its editor");
}

async fn new_session(fleet: &Fleet, agent: &ConnectionTo<Agent>) -> SessionId {
    let new = agent.send_request(NewSessionRequest::new(fleet.cwd()));
    new.block_task().await.unwrap().session_id
}

/// A prompt under way.
fn prompt(
    agent: &ConnectionTo<Agent>,
    session: &SessionId,
    text: &str,
) -> tokio::task::JoinHandle<Result<StopReason, Error>> {
    let asked = PromptRequest::new(session.clone(), vec![ContentBlock::from(text)]);
    let asked = agent.send_request(asked);
    tokio::spawn(async { Ok(asked.block_task().await?.stop_reason) })
}

/// A project `desk` with this agent.
fn desk(fleet: &Fleet, act: &[&str]) {
    fleet.ok(["project", "create", "desk"]);
    let profile = json!({"name": "default", "argv": acting(act), "wall": "120s"});
    let file = fleet.file("default.json", &profile.to_string());
    fleet.ok(["profile", "apply", "desk", file.to_str().unwrap()]);
}

fn agent_runs(fleet: &Fleet) {
    wait::until("its agent runs", || (!fleet.agents().is_empty()).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn editor_prompt_is_a_turn_that_is_streamed_listed_and_loaded() {
    let fleet = Fleet::up();
    let gate = fleet.cwd().join("gate");
    desk(&fleet, &["gate", gate.to_str().unwrap()]);
    let mut first = None;
    editor(&fleet, async |agent, ears| {
        let session = new_session(&fleet, agent).await;
        let asked = prompt(agent, &session, "open the gate");
        agent_runs(&fleet);
        let second = prompt(agent, &session, "again").await.unwrap().unwrap_err();
        assert!(second.message.contains("is in a prompt; wait for it"), "{second:?}");
        File::create(&gate).unwrap();
        assert_eq!(asked.await.unwrap().unwrap(), StopReason::EndTurn);
        let [answer] = ears.said().try_into().unwrap();
        assert!(answer.contains("\"agent\":\"W:"), "{answer}");
        let thoughts = ears.0.lock().unwrap().thoughts.clone();
        assert!(thoughts.contains("delegated to W:"), "{thoughts}");
        let sound = ContentBlock::Audio(AudioContent::new("", "audio/wav"));
        let sound = agent.send_request(PromptRequest::new(session.clone(), vec![sound]));
        let refused = sound.block_task().await.unwrap_err();
        assert!(refused.message.starts_with("a prompt takes text and links"), "{refused:?}");
        first = Some((session, answer));
    })
    .await;

    let (session, answer) = first.unwrap();
    let list = fleet.json(&["chat", "--list"]);
    assert_eq!(list[0]["conversation"], json!(session.0.as_ref()));
    editor(&fleet, async |agent, ears| {
        let listed =
            agent.send_request(ListSessionsRequest::new().cwd(Path::new("/src").to_owned()));
        let listed = listed.block_task().await.unwrap().sessions;
        assert_eq!(listed[0].session_id, session);
        assert_eq!(listed[0].title.as_deref(), Some("open the gate"));
        assert_eq!(listed[0].cwd, Path::new("/src"));
        let unknown = prompt(agent, &session, "hello").await.unwrap().unwrap_err();
        assert!(unknown.message.ends_with("load it, or begin a new one"), "{unknown:?}");
        let missing = agent.send_request(LoadSessionRequest::new("nothing", fleet.cwd()));
        let missing = missing.block_task().await.unwrap_err();
        assert!(missing.message.contains("session nothing was not found"), "{missing:?}");
        let load = agent.send_request(LoadSessionRequest::new(session.clone(), fleet.cwd()));
        load.block_task().await.unwrap();
        assert_eq!(ears.0.lock().unwrap().user, ["open the gate"]);
        assert_eq!(ears.said(), [answer]);
        let hello = prompt(agent, &session, "hello").await.unwrap();
        assert_eq!(hello.unwrap(), StopReason::EndTurn);
        assert!(ears.said()[0].starts_with("Say what you want done"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_questions_are_answered_in_the_editor_or_elsewhere() {
    let fleet = Fleet::up();
    let gate = fleet.cwd().join("gate");
    desk(&fleet, &["permitted", gate.to_str().unwrap()]);
    editor(&fleet, async |agent, ears| {
        let session = new_session(&fleet, agent).await;
        let asked = prompt(agent, &session, "clean up");
        let (title, responder) = ears.permission();
        assert!(title.ends_with("asks: May it use run?"), "{title}");
        let allowed = SelectedPermissionOutcome::new("allow");
        let allowed = RequestPermissionOutcome::Selected(allowed);
        responder.respond(RequestPermissionResponse::new(allowed)).unwrap();

        let (title, responder) = ears.permission();
        assert!(title.ends_with("asks: May it use fetch?"), "{title}");
        let inbox = fleet.json(&["inbox"]);
        let is_open = |it: &&Value| it.to_string().contains("May it use fetch?");
        let open = inbox.as_array().unwrap().iter().find(is_open).unwrap();
        let question = open["id"].as_str().unwrap();
        fleet.ok(["answer", question, "deny"]);
        responder.cancellation().cancelled().await;
        File::create(&gate).unwrap();
        assert_eq!(asked.await.unwrap().unwrap(), StopReason::EndTurn);
        let [question] = ears.said().try_into().unwrap();
        assert!(question.ends_with("asks: And when?\n- now\n- later"), "{question}");
        let answered = prompt(agent, &session, "at noon").await.unwrap().unwrap();
        assert_eq!(answered, StopReason::EndTurn);
        let [answer] = ears.said().try_into().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer, json!({"uses": ["allow", "deny"], "when": "at noon"}));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_prompt_cancels_the_work_of_its_turn() {
    let fleet = Fleet::up();
    desk(&fleet, &["gate", "never"]);
    editor(&fleet, async |agent, ears| {
        let session = new_session(&fleet, agent).await;
        let asked = prompt(agent, &session, "wait for ever");
        agent_runs(&fleet);
        agent.send_notification(CancelNotification::new(session.clone())).unwrap();
        assert_eq!(asked.await.unwrap().unwrap(), StopReason::Cancelled);
        ears.said();
        let hello = prompt(agent, &session, "hello").await.unwrap();
        assert_eq!(hello.unwrap(), StopReason::EndTurn, "the session goes on");
        assert!(ears.said()[0].starts_with("Say what you want done"));
    })
    .await;
    wait::until("nothing runs", || fleet.agents().is_empty().then_some(()));
    let goals = fleet.json(&["goal", "list"]);
    assert!(goals.to_string().contains("\"cancelled\""), "{goals}");
}

#[test]
fn endless_line_of_an_editor_ends_it_with_the_reason() {
    let fleet = Fleet::up();
    let mut command = fleet.command(["acp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end before it has read all.
    let _ended = child.stdin.take().unwrap().write_all(&vec![b'x'; 2 << 20]);
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("more than 1048576 bytes"), "{said}");
}
