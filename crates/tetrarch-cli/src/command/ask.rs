//! `ask`: one turn of a conversation with one's interaction orchestrator (spec 08, IO). The owner takes it in; what
//! becomes of it is read off the ledger.

pub(super) mod following;

use std::path::Path;

use serde_json::Value;
use tetrarch_core::agent::Mode;
use tetrarch_core::brief::Outcome;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnId, TurnStatus};
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{ChannelName, ConversationName, GraphName, HumanName, ProjectName};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::limits::TURN_TEXT_BYTES_MAX;
use tetrarch_core::request::Op;
use tetrarch_core::request::conversations::{ConversationOp, TurnSay};

use self::following::{TurnFollower, TurnNews, words_of};
use super::project::mode;
use super::run::PROJECT;
use crate::document::{STANDARD_INPUT, read_text};
use crate::history;
use crate::output;
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;

/// Arguments of `ask`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch ask --project demo 'count the files in src'
  tetrarch ask --conversation site --project demo 'why is the page slow?'
  tetrarch ask --background --conversation night --project demo 'look for broken links'

What happens is said on standard error, the answer on standard output. Ctrl-C leaves the turn running;
a chat of the same name follows it again.

Exit codes: 0 answered; 1 the turn or its work failed, it asks you something, or its lane is full;
3 project or graph not found.")]
pub(crate) struct AskArgs {
    /// What you want; `-` reads it from standard input.
    text: String,
    /// The conversation.
    #[command(flatten)]
    talk: TalkArgs,
    /// Do not wait for the answer, and let no other turn wait for this one; it comes by mail.
    #[arg(long)]
    background: bool,
}

/// Which conversation.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TalkArgs {
    /// The conversation; a new name begins one.
    #[arg(short, long, default_value = "main", value_name = "NAME")]
    pub(super) conversation: ConversationName,
    /// The project whose agents work [default: the conversation's, or `main`].
    #[arg(long)]
    pub(super) project: Option<ProjectName>,
    /// The graph that routes it [default: the conversation's, or `default`].
    #[arg(long)]
    pub(super) graph: Option<GraphName>,
    /// Send the answer, and what the work asks, to this channel of people.channels and no other.
    #[arg(long, value_name = "NAME")]
    pub(super) channel: Option<ChannelName>,
    /// How far its agents may delegate, at most as the project's mode says: solo, tight or orchestrator. Of `ask` this
    /// turn, of `chat` the conversation from here on.
    #[arg(long, value_parser = mode, value_name = "MODE")]
    pub(super) mode: Option<Mode>,
}

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer; the turn failed.
pub(crate) async fn run(context: &Context, args: AskArgs) -> CliResult {
    let AskArgs { text, talk, background } = args;
    let text = if text == STANDARD_INPUT {
        read_text(Path::new(STANDARD_INPUT), true, "stdin")?
    } else {
        text
    };
    let client = context.client().await?;
    let lane = if background { TurnLane::Background } else { TurnLane::Conversation };
    let mut talk = Talk::open(context, &client, talk).await?;
    let mut follower = talk.say(&client, &text, lane).await?;
    if background {
        let turn = follower.id();
        let said = format!("{turn} is under way; its answer comes by mail\n");
        return output::text(&said).map(drop);
    }
    loop {
        match follower.next().await? {
            TurnNews::Progress(line) | TurnNews::Still(line) => output::say(&line),
            // It may be answered here or anywhere else.
            TurnNews::Question(question) => {
                let (id, asked) = (question.id, words_of(&question));
                output::say(&format!("{asked}; `tetrarch inbox` shows it as {id}"));
            }
            TurnNews::Settled(_) => {}
            TurnNews::Ended(turn) => return told(context, &follower.snapshot, &turn),
            TurnNews::Interrupted => {
                let conversation = &follower.id().conversation;
                output::say(&format!("left running; `tetrarch chat {conversation}` goes on"));
                return Err(CliError::new(Code::Interrupted, "interrupted"));
            }
        }
    }
}

/// Prints what a turn came to.
fn told(context: &Context, snapshot: &StateSnapshot, turn: &Turn) -> CliResult {
    let ended = unanswered(snapshot, turn).map_or(Ok(()), Err);
    if output::is_for_programs(context.output) {
        let value = snapshot.json(&Record::Turn(Box::new(turn.clone())))?;
        output::record(context.output, &value, String::new)?;
    } else if ended.is_ok() {
        output::deliverable(&turn.answer)?;
    }
    ended
}

/// Why a turn that ended has no answer: it failed, its work was not done, or it asks. A turn may end well with words
/// about work that did not: a program must not take these, nor a question, for the answer.
pub(super) fn unanswered(snapshot: &StateSnapshot, turn: &Turn) -> Option<CliError> {
    let failed =
        |says: &str| CliError::new(Code::Failed, format!("{}{says}: {}", turn.id, turn.answer));
    match turn.status {
        TurnStatus::Failed => Some(failed("").hint("see `tetrarch events --kind turn`")),
        TurnStatus::Done => {
            let goal = turn.epic.and_then(|epic| snapshot.records.goal_states.get(&epic));
            let is_done = goal.is_none_or(|goal| goal.status == GoalStatus::Completed);
            if is_done && turn.outcome != Outcome::Failure.as_str() {
                return None;
            }
            Some(match turn.epic {
                Some(epic) => failed("").hint(format!("see `tetrarch describe {epic}`")),
                None => failed(""),
            })
        }
        TurnStatus::Asking => {
            let TurnId { conversation, .. } = &turn.id;
            let next = format!("answer with `tetrarch ask --conversation {conversation} TEXT`");
            Some(failed(" asks").hint(next))
        }
        TurnStatus::Queued | TurnStatus::Running => None,
    }
}

/// The project `main`, for a conversation that names none.
///
/// # Errors
/// There is none of this name; which there are.
async fn default_project(client: &HumanClient) -> CliResult<ProjectName> {
    let main = ProjectName::new(PROJECT).map_err(CliError::usage)?;
    let all = [Select::Kind(KeyKind::Project)];
    let mut projects = StateSnapshot::read(&client.bus, &all).await?.0.records.projects;
    projects.retain(|_, project| !project.retired);
    if projects.contains_key(&main) {
        return Ok(main);
    }
    let names: Vec<&str> = projects.keys().map(ProjectName::as_str).collect();
    let hint = if names.is_empty() {
        format!("create it with `tetrarch project create {main}`")
    } else {
        format!("name a project with --project: {}", names.join(", "))
    };
    Err(CliError::new(Code::NotFound, format!("project {main} was not found")).hint(hint))
}

/// A conversation that somebody has here.
pub(super) struct Talk {
    /// Whose.
    pub(super) human: HumanName,
    /// Which one.
    pub(super) args: TalkArgs,
    /// Whether the mode is the conversation's, not the turn's alone.
    pub(super) keeps_mode: bool,
    /// The entry of the ledger from which on a turn is followed.
    from: u64,
    /// The person's turns.
    pub(super) snapshot: StateSnapshot,
}

impl Talk {
    /// Reads the person's turns.
    pub(super) async fn open(
        context: &Context,
        client: &HumanClient,
        args: TalkArgs,
    ) -> CliResult<Self> {
        let human = context.human()?;
        let known = &context.config.channels.channels;
        if let Some(channel) = args.channel.as_ref().filter(|name| !known.contains_key(name)) {
            output::say(&format!(
                "warning: people.channels has no {channel} here; nobody is told unless another process serves it"
            ));
        }
        // Read before the records: what is newer than this is in the ledger from there on.
        let from = history::next_entry(&client.bus).await?;
        let turns = [Select::TurnsOf(human.clone())];
        let snapshot = StateSnapshot::read(&client.bus, &turns).await?;
        Ok(Self { human, args, keeps_mode: false, from, snapshot })
    }

    /// Says something; gives the turn that it is, or that it answers, to be followed.
    pub(super) async fn say(
        &mut self,
        client: &HumanClient,
        text: &str,
        lane: TurnLane,
    ) -> CliResult<TurnFollower> {
        let (number, answered) = self.send(client, text, lane).await?;
        self.follow(client, number, answered).await
    }

    /// Says something; gives the number of the turn that it is, or that it answers, and how often that was moved. A
    /// conversation that is new works in the project `main` unless one is named.
    pub(super) async fn send(
        &mut self,
        client: &HumanClient,
        text: &str,
        lane: TurnLane,
    ) -> CliResult<(u64, u64)> {
        let text = text.trim_end_matches(['\n', '\r']);
        if text.len() > TURN_TEXT_BYTES_MAX {
            let what =
                format!("{} bytes are too many; the limit is {TURN_TEXT_BYTES_MAX}", text.len());
            return Err(CliError::new(Code::Usage, what)
                .hint("put long texts into a file that an agent can read"));
        }
        if self.args.project.is_none() && self.turns().next().is_none() {
            let project = default_project(client).await?;
            let conversation = &self.args.conversation;
            output::say(&format!(
                "the new conversation {conversation} stays in the project {project}; \
                 `-c NAME --project NAME` begins one in another"
            ));
            self.args.project = Some(project);
        }
        let TalkArgs { conversation, project, graph, channel, mode } = self.args.clone();
        // A chat of hours follows nothing of what went before a turn.
        self.from = history::next_entry(&client.bus).await?;
        let (text, keeps_mode) = (text.to_owned(), self.keeps_mode);
        let said = TurnSay { conversation, text, lane, project, graph, channel, mode, keeps_mode };
        let reply = client.operate(&Op::Conversation(ConversationOp::Say(said))).await?;
        let told: Value = serde_json::from_str(reply.data.as_deref().unwrap_or_default())
            .map_err(|error| CliError::new(Code::Failed, format!("the owner's answer: {error}")))?;
        let (Some(number), Some(moved)) = (told["turn"].as_u64(), told["moved"].as_u64()) else {
            return Err(CliError::new(
                Code::Failed,
                format!("the owner's answer names no turn: {told}"),
            ));
        };
        if let Some(ahead) = told["ahead"].as_u64().filter(|_| told["status"] == "queued") {
            output::say(&format!("queued: {ahead} before it"));
        }
        Ok((number, moved))
    }

    /// Follows a turn from here on; what it asked before it was moved so often is answered.
    pub(super) async fn follow(
        &mut self,
        client: &HumanClient,
        number: u64,
        answered: u64,
    ) -> CliResult<TurnFollower> {
        let conversation = self.args.conversation.clone();
        let id = TurnId { human: self.human.clone(), conversation, number };
        // Of thousands before it, this one alone.
        let turn = [Select::One(RecordKey::Turn(id.clone()))];
        let snapshot = StateSnapshot::read(&client.bus, &turn).await?;
        TurnFollower::new(&client.bus, (self.from, snapshot), id, answered).await
    }

    /// The turns of this conversation, as they were read.
    pub(super) fn turns(&self) -> impl DoubleEndedIterator<Item = &Turn> {
        self.snapshot.records.turns_of(&self.human, &self.args.conversation)
    }
}
