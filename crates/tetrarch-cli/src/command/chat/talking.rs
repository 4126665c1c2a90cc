//! A chat as it goes on: lines are turns, answers and commands, and turns are followed one after another. A person on a
//! terminal may type while a turn goes on; of other input the next line is taken when the turn before it has ended or
//! its agent asks.

use std::collections::VecDeque;
use std::io::{IsTerminal, stdin};

use tetrarch_bus::state::Select;
use tetrarch_core::agent::Mode;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnStatus};
use tetrarch_core::id::{EpicId, ProjectName};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::question::Question;
use tetrarch_core::request::Op;
use tetrarch_core::request::conversations::ConversationOp;

use super::commands::{self, ChatCommand};
use super::prompt::{AboveLine, ChatLines};
use crate::command::ask::following::{TurnFollower, TurnNews, words_of};
use crate::command::ask::{Talk, unanswered};
use crate::command::run_inside;
use crate::output;
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot};

/// Where the data directory keeps what people typed.
const REMEMBERED: &str = "chat";

/// A conversation that goes on here.
pub(super) struct RunningChat<'a> {
    context: &'a Context,
    client: &'a HumanClient,
    talk: Talk,
    lines: ChatLines,
    above: AboveLine,
    following: Option<TurnFollower>,
    /// Turns that were said while another one is followed: the number, and how often it was moved.
    next: VecDeque<(u64, u64)>,
    /// What agents ask; the next line answers the first.
    questions: VecDeque<Box<Question>>,
    /// Whether anything was said here.
    is_begun: bool,
    /// Why the last line was not taken that was not.
    refused: Option<Code>,
    /// Whether a turn failed, or its work was not done.
    is_undone: bool,
    /// Whether the turn that was followed last asks something.
    asks: bool,
}

/// Whether a chat goes on.
enum ChatState {
    On,
    Over,
}

impl<'a> RunningChat<'a> {
    pub(super) fn new(context: &'a Context, client: &'a HumanClient, talk: Talk) -> Self {
        let remembered = context.config.bus.data_dir.join(REMEMBERED).join(talk.human.as_str());
        let (lines, above) = ChatLines::open(remembered);
        Self {
            context,
            client,
            talk,
            lines,
            above,
            following: None,
            next: VecDeque::new(),
            questions: VecDeque::new(),
            is_begun: false,
            refused: None,
            is_undone: false,
            asks: false,
        }
    }

    /// Talks until the lines end.
    ///
    /// # Errors
    /// The bus is away; input that nobody edits had a line that was not taken or not done.
    pub(super) async fn run(mut self) -> CliResult {
        let open = self.talk.turns().rev().find(|turn| !turn.status.is_over()).cloned();
        match open {
            Some(turn) if turn.status == TurnStatus::Asking => self.show(&turn.answer)?,
            Some(turn) => self.follow(turn.id.number, 0).await?,
            None => {}
        }
        while let ChatState::On = self.step().await? {}
        self.ended()
    }

    /// Takes in a line or what happened, whichever comes first.
    async fn step(&mut self) -> CliResult<ChatState> {
        if self.following.is_none()
            && !self.asks
            && let Some((number, answered)) = self.next.pop_front()
        {
            self.follow(number, answered).await?;
        }
        let waits = self.following.is_none() || !self.questions.is_empty();
        let edited = self.lines.are_edited();
        tokio::select! {
            biased;
            line = self.lines.next(self.questions.is_empty()), if edited || waits => match line? {
                Some(line) => self.typed(&line).await,
                None => {
                    self.asks |= !self.questions.is_empty();
                    Ok(ChatState::Over)
                }
            },
            news = heard(&self.above, &mut self.following), if edited || !waits => self.hear(news?),
        }
    }

    /// Takes in a line. What is wrong with one does not end the chat.
    ///
    /// # Errors
    /// The bus is away.
    async fn typed(&mut self, line: &str) -> CliResult<ChatState> {
        let trimmed = line.trim();
        let command = ChatCommand::is_meant(trimmed);
        let typed_on = self.lines.are_edited() && (command || trimmed.is_empty());
        let done = match self.questions.front() {
            Some(_) if !typed_on => {
                self.answer(line).await?;
                Ok(())
            }
            _ if trimmed.is_empty() => Ok(()),
            _ if command => match ChatCommand::read(trimmed) {
                Ok(ChatCommand::Quit) => return Ok(ChatState::Over),
                Ok(command) => self.command(command).await,
                Err(error) => Err(error),
            },
            _ => match self.talk.send(self.client, line, TurnLane::Conversation).await {
                Ok((number, answered)) => {
                    self.is_begun = true;
                    if self.following.is_none() {
                        self.follow(number, answered).await?;
                    } else {
                        self.next.push_back((number, answered));
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = done {
            self.refused = Some(error.code);
            let CliError { what, hint, .. } = error.completed(&self.context.global);
            output::say(&what);
            if let Some(hint) = hint.filter(|_| command) {
                output::say(&format!("  next: {hint}"));
            }
        }
        Ok(ChatState::On)
    }

    /// Answers the first question that waits, and shows the next.
    async fn answer(&mut self, line: &str) -> CliResult {
        let Some(question) = self.questions.pop_front() else { return Ok(()) };
        let text = line.trim_end().to_owned();
        let op = Op::QuestionAnswer { question: question.id, text };
        if let Err(error) = self.client.operate(&op).await {
            output::say(&error.what);
        }
        self.ask()
    }

    /// Shows the question that the next line answers.
    fn ask(&self) -> CliResult {
        self.questions.front().map_or(Ok(()), |question| self.show(&words_of(question)))
    }

    /// Takes in what happened.
    ///
    /// # Errors
    /// Standard output cannot be written.
    fn hear(&mut self, news: TurnNews) -> CliResult<ChatState> {
        match news {
            // What runs waits for the person.
            TurnNews::Still(_) if !self.questions.is_empty() => {}
            TurnNews::Progress(line) | TurnNews::Still(line) => {
                if !self.above.say(&line) {
                    output::say(&line);
                }
            }
            TurnNews::Settled(id) => {
                let first = self.questions.front().is_some_and(|question| question.id == id);
                self.questions.retain(|question| question.id != id);
                if first {
                    self.ask()?;
                }
            }
            TurnNews::Question(question) => {
                self.questions.push_back(question);
                if self.questions.len() == 1 {
                    self.ask()?;
                }
            }
            TurnNews::Ended(turn) => self.end(&turn)?,
            TurnNews::Interrupted => return Ok(ChatState::Over),
        }
        Ok(ChatState::On)
    }

    fn end(&mut self, turn: &Turn) -> CliResult {
        self.show(&turn.answer)?;
        self.questions.clear();
        let Some(follower) = self.following.take() else { return Ok(()) };
        let missing = unanswered(&follower.snapshot, turn).is_some();
        let asks = turn.status == TurnStatus::Asking;
        // What was open before does not count as a line of this chat.
        self.asks = asks && self.is_begun;
        self.is_undone |= missing && !asks && self.is_begun;
        Ok(())
    }

    /// Shows what is answered or asked.
    fn show(&self, text: &str) -> CliResult {
        if self.above.say(text) { Ok(()) } else { output::text(text).map(drop) }
    }

    async fn follow(&mut self, number: u64, answered: u64) -> CliResult {
        self.following = Some(self.talk.follow(self.client, number, answered).await?);
        Ok(())
    }

    /// Does what a command says.
    async fn command(&mut self, command: ChatCommand<'_>) -> CliResult {
        let words = match command {
            ChatCommand::Help => {
                output::say(&commands::help());
                return Ok(());
            }
            ChatCommand::Status => return self.status().await,
            ChatCommand::Mode(mode) => return self.mode(mode).await,
            ChatCommand::Steer(agent, text) => commands::steer(agent, text),
            ChatCommand::Stop(Some(word)) => match word.parse::<u64>() {
                Ok(number) => return self.withdraw(number).await,
                Err(_) => commands::stop(word),
            },
            ChatCommand::Stop(None) => match self.open().await? {
                OpenTurn::Worked(epic) => commands::cancel(epic),
                OpenTurn::Waits(number) => return self.withdraw(number).await,
            },
            ChatCommand::Tree => commands::tree(&self.talk.human),
            ChatCommand::Quit => return Ok(()),
        };
        run_inside(self.context, words).await
    }

    /// The project of the conversation.
    fn project(&self) -> CliResult<ProjectName> {
        let known = self.talk.turns().next_back().map(|turn| turn.project.clone());
        known.or_else(|| self.talk.args.project.clone()).ok_or_else(|| {
            let what = "the conversation has no project yet";
            CliError::new(Code::NotFound, what)
                .hint("say something, or start the chat with --project")
        })
    }

    /// Shows the mode of the conversation, or sets it from the next line on.
    async fn mode(&mut self, wanted: Option<&str>) -> CliResult {
        let wanted = wanted.map(Mode::parse).transpose().map_err(CliError::usage)?;
        let name = self.project()?;
        let reads = [
            Select::One(RecordKey::Project(name.clone())),
            Select::TurnsOf(self.talk.human.clone()),
        ];
        let records = StateSnapshot::read(&self.client.bus, &reads).await?.0.records;
        let project = records.projects.get(&name).ok_or_else(|| {
            let what = format!("project {name} was not found");
            CliError::new(Code::NotFound, what).hint("list projects with `tetrarch project list`")
        })?;
        self.talk.args.mode = wanted.or(self.talk.args.mode);
        let conversation = &self.talk.args.conversation;
        let last = records.turns_of(&self.talk.human, conversation).next_back();
        let mode = self.talk.args.mode.or(last.and_then(|turn| turn.kept_mode));
        let from = if wanted.is_some() { " from your next line on" } else { "" };
        output::say(&format!(
            "conversation {conversation} is {}{from}; project {name} is {}",
            project.mode.narrowed(mode),
            project.mode
        ));
        Ok(())
    }

    /// The person's turns as they are.
    async fn turns(&self) -> CliResult<StateSnapshot> {
        StateSnapshot::read(&self.client.bus, &[Select::TurnsOf(self.talk.human.clone())]).await
    }

    /// The turn of this conversation that is stopped: what is worked on, else the latest that waits.
    async fn open(&self) -> CliResult<OpenTurn> {
        let snapshot = self.turns().await?;
        let turns = snapshot.records.turns_of(&self.talk.human, &self.talk.args.conversation);
        let open: Vec<&Turn> = turns.filter(|turn| !turn.status.is_over()).collect();
        let worked = open.iter().filter(|turn| turn.working).find_map(|turn| turn.epic);
        let waits = |turn: &&&Turn| turn.status != TurnStatus::Running;
        let waiting = open.iter().rfind(waits).map(|turn| OpenTurn::Waits(turn.id.number));
        worked.map(OpenTurn::Worked).or(waiting).ok_or_else(|| {
            let what = "nothing is worked on for this conversation";
            CliError::new(Code::NotFound, what).hint("/stop AGENT stops an agent")
        })
    }

    /// Takes back a turn that waits.
    async fn withdraw(&self, number: u64) -> CliResult {
        let conversation = self.talk.args.conversation.clone();
        let op = Op::Conversation(ConversationOp::Cancel { conversation, number });
        output::say(&self.client.operate(&op).await?.detail);
        Ok(())
    }

    async fn status(&self) -> CliResult {
        let snapshot = self.turns().await?;
        let open = snapshot.records.open_turns(&self.talk.human);
        let lines: Vec<String> = open
            .map(|turn| {
                let at = turn.position.as_ref().map(|position| format!(" at {}", position.at));
                format!("{}: {} ({}){}", turn.id, turn.status, turn.lane, at.unwrap_or_default())
            })
            .collect();
        let nothing = || "nothing is under way".to_owned();
        output::say(&if lines.is_empty() { nothing() } else { lines.join("\n") });
        Ok(())
    }

    /// What the chat comes to.
    fn ended(self) -> CliResult {
        // A person saw it when it was said; a program has only the exit code.
        if stdin().is_terminal() {
            if self.following.is_some() {
                // The terminal is as it was before anything more is said on it.
                drop(self.lines);
                let conversation = &self.talk.args.conversation;
                output::say(&format!("left running; `tetrarch chat {conversation}` goes on"));
            }
            return Ok(());
        }
        match self.refused {
            Some(code) => Err(CliError::new(code, "not every line was taken")),
            None if self.is_undone => Err(CliError::new(Code::Failed, "not every line was done")),
            None if self.asks => {
                Err(CliError::new(Code::Failed, "no line answers what was asked last"))
            }
            None => Ok(()),
        }
    }
}

/// A turn that can be stopped.
enum OpenTurn {
    /// Agents work on this goal.
    Worked(EpicId),
    /// It waits in its lane or for an answer; its number.
    Waits(u64),
}

/// What happens next to a turn, once it can be said.
async fn heard(above: &AboveLine, turn: &mut Option<TurnFollower>) -> CliResult<TurnNews> {
    let Some(turn) = turn else { return std::future::pending().await };
    above.has_room().await;
    turn.next().await
}
