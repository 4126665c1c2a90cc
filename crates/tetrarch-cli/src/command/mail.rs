//! `mail`: writes to agents and people in a human's name, and shows what was written to somebody
//! (spec 02, Mail). Reading takes nothing away.

mod tracking;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::codec::mail_body_message;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::intake::read_dead;
use tetrarch_bus::mailbox::{self, MailMessage};
use tetrarch_bus::send::{Author, send_mail};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::Origin;
use tetrarch_bus::watch::Replies;
use tetrarch_core::id::{AgentId, EpicId, Principal};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::{Mail, MailBody};
use tetrarch_core::request::Sender;

use super::creds;
use crate::history::{Since, StreamPosition};
use crate::output::{self, Cell, Sheet, TableRow, Tone, is_coloured, stamp};
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot, new_ulid};
use tracking::MailStatus;

/// How long the bus may take to store a message.
const SENT_WITHIN: Duration = Duration::from_secs(15);
/// Characters of a message that a list shows.
const SAID_SHOWN: usize = 80;

/// Subcommands of `mail`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch mail send PO-demo 'please stop at phase 2'
  tetrarch mail send PO-demo 'please stop at phase 2' --receipt --wait 30s
  tetrarch mail list --since 1h
  tetrarch mail list PO-demo
  tetrarch mail read 4711
  tetrarch mail dead --since 1d")]
pub(crate) enum MailCommand {
    /// Send mail to an agent or a human.
    Send(SendArgs),
    /// List your mail, or the mail of somebody else.
    List {
        /// The recipient [default: you].
        who: Option<Principal>,
        /// Start at an age (10m, 2h) or a sequence.
        #[arg(long, value_name = "TIME|SEQ", value_parser = Since::read)]
        since: Option<Since>,
        /// Include answers to your own commands.
        #[arg(long)]
        replies: bool,
    },
    /// List dead letters and their reasons.
    Dead {
        /// Start at an age (10m, 2h) or a sequence.
        #[arg(long, value_name = "TIME|SEQ", value_parser = Since::read)]
        since: Option<Since>,
    },
    /// Show messages in full.
    Read {
        /// Sequences, as shown by `tetrarch mail list` [default: newest message that it shows].
        seq: Vec<u64>,
        /// The recipient [default: you].
        #[arg(long, value_name = "WHO")]
        of: Option<Principal>,
    },
}

/// Arguments of `mail send`.
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// The recipient: an agent or human:<name>.
    to: Principal,
    /// The text.
    text: String,
    /// The goal that the message is about.
    #[arg(long)]
    epic: Option<EpicId>,
    /// Request receipts for delivery and consumption.
    #[arg(long)]
    receipt: bool,
    /// The longest wait for consumption or failure.
    #[arg(long, value_name = "TIME", requires = "receipt", value_parser = tracking::patience)]
    wait: Option<Duration>,
}

/// Runs the command.
///
/// # Errors
/// Nobody of that name; the inbox may not be read; the bus does not answer.
pub(crate) async fn run(context: &Context, command: MailCommand) -> CliResult {
    match command {
        MailCommand::Send(args) => send(context, args).await,
        MailCommand::List { who, since, replies } => list(context, who, since, replies).await,
        MailCommand::Dead { since } => dead(context, since).await,
        MailCommand::Read { seq, of } => read(context, of, &seq).await,
    }
}

async fn send(context: &Context, args: SendArgs) -> CliResult {
    let client = context.client().await?;
    let SendArgs { to, text, epic, receipt, wait } = args;
    check_reads(context, &client, &to).await?;
    let body = MailBody::Info { text };
    let mail = Mail {
        to,
        epic,
        correlation: None,
        cause: String::new(),
        ack_required: receipt,
        trace: None,
        body,
    };
    let replies = match wait {
        Some(_) => Some(Replies::open(&client.bus, &client.human).await?),
        None => None,
    };
    let author = Author { from: client.human.clone(), via: None, session: None, epoch: 1 };
    let id = new_ulid().to_string();
    let sent = send_mail(&client.bus, &author, &mail, &id, Some(SENT_WITHIN)).await;
    let seq = sent.map_err(|error| client.unsent("mail", error))?;
    let fate = match (replies, wait) {
        (Some(replies), Some(wait)) => tracking::follow(&client, replies, seq, wait).await?,
        (_, _) => MailStatus::default(),
    };
    let value = json!({
        "seq": seq,
        "to": mail.to.to_string(),
        "topic": mail.body.topic(),
        "stage": fate.stage(),
        "reason": fate.dead,
    });
    output::record(context.output, &value, || {
        format!("stored for {} as {seq}\n{}", mail.to, fate.words())
    })?;
    fate.outcome(seq, wait)
}

/// Refuses mail that nobody would read.
///
/// # Errors
/// There is no such agent, or it has ended; the person has no credential, where the keys are that make one.
pub(super) async fn check_reads(
    context: &Context,
    client: &HumanClient,
    to: &Principal,
) -> CliResult {
    let agent = match to {
        Principal::Agent(agent) => agent.clone(),
        Principal::Human(human) if creds::may_be_a_person(context, client, human)? => return Ok(()),
        Principal::Human(human) => AgentId::Io(human.clone()),
    };
    let wanted = [Select::One(RecordKey::Agent(agent.clone()))];
    let snapshot = StateSnapshot::read(&client.bus, &wanted).await?;
    let found = snapshot.records.agents.get(&agent);
    match (to, found) {
        (Principal::Human(_), None) => {
            let what = format!("{to} was not found: it has no credential in this installation");
            let hint = format!(
                "list people with `tetrarch creds list`, or add this one with `tetrarch creds issue {to} --role viewer`"
            );
            Err(CliError::new(Code::NotFound, what).hint(hint))
        }
        (Principal::Agent(_), None) => {
            Err(CliError::new(Code::NotFound, format!("agent {agent} was not found"))
                .hint("list agents with `tetrarch get agents`"))
        }
        (Principal::Agent(_), Some(found)) if found.liveness == Liveness::Terminated => {
            let what = format!("{agent} is terminated: {}", found.reason);
            Err(CliError::new(Code::Conflict, what).hint("write to its parent instead"))
        }
        (Principal::Agent(_) | Principal::Human(_), Some(_)) => Ok(()),
    }
}

/// What is kept of somebody's mail, one's own unless said, and where the agents are that wrote it.
async fn messages(
    context: &Context,
    who: Option<Principal>,
) -> CliResult<(Vec<MailMessage>, StateSnapshot)> {
    let client = context.client().await?;
    let messages = mailbox::read(&client.bus, &who.unwrap_or(client.human)).await?;
    let senders = messages.iter().filter_map(|message| message.content.as_ref().ok());
    let hosted = senders.filter(|(_, sender)| sender.via.is_some());
    let agents: BTreeSet<&AgentId> = hosted.filter_map(|(_, sender)| sender.from.agent()).collect();
    let wanted = agents.into_iter().map(|id| Select::One(RecordKey::Agent(id.clone())));
    let wanted: Vec<Select> = wanted.collect();
    let mut placed = StateSnapshot::default();
    if !wanted.is_empty() {
        placed.add(&client.bus, &wanted).await?;
    }
    Ok((messages, placed))
}

/// Who wrote a message; with the host that published it, where that does not run the agent: any host can write this.
fn author(sender: &Sender, placed: &StateSnapshot) -> String {
    let Sender { from, via, .. } = sender;
    let agent = from.agent().and_then(|id| placed.records.agents.get(id));
    let host = agent.and_then(|agent| agent.placement.as_ref()).map(|at| &at.host);
    match via {
        Some(via) if host != Some(via) => format!("{from} (by {via}, which does not run it)"),
        Some(_) | None => from.to_string(),
    }
}

/// A connection with the owner's credential, for what nobody else may read.
async fn of_owner(context: &Context, wanted: &str) -> CliResult<Bus> {
    if let Some(file) = &context.config.bus.credentials {
        let what = format!("the mail of {wanted} cannot be read with {}", file.display());
        return Err(CliError::new(Code::Denied, what)
            .hint("read it on the machine that runs `tetrarch up`"));
    }
    context.connect(&CredentialHolder::Control, "tetrarch mail").await
}

async fn dead(context: &Context, since: Option<Since>) -> CliResult {
    let bus = of_owner(context, "dead letters").await?;
    let mut letters = read_dead(&bus, Origin::Mail).await?;
    match since.map(Since::place) {
        Some(StreamPosition::Seq(seq)) => letters.retain(|(_, letter)| letter.seq >= seq),
        Some(StreamPosition::Moment(from)) => letters.retain(|(at, _)| *at >= from),
        None => {}
    }
    let columns = "SEQ|TIME|SUBJECT|REASON";
    let rows = letters.iter().map(|(at, letter)| {
        let cells = vec![
            letter.seq.to_string().into(),
            stamp(*at).into(),
            letter.subject.as_str().into(),
            letter.reason.as_str().into(),
        ];
        let record = json!({
            "seq": letter.seq,
            "time": stamp(*at),
            "subject": letter.subject,
            "reason": letter.reason,
            "mail": said(&letter.payload),
        });
        TableRow { cells, record }
    });
    output::listing(
        context.output,
        columns,
        rows.collect(),
        "No dead letters. Messages that could not be handled are listed here with the reason.",
    )
}

/// A message's bytes as they came: JSON, or else as text.
fn said(payload: &[u8]) -> Value {
    serde_json::from_slice(payload)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(payload).into_owned()))
}

async fn list(
    context: &Context,
    who: Option<Principal>,
    since: Option<Since>,
    replies: bool,
) -> CliResult {
    let own = who.as_ref().is_none_or(|who| who.agent().is_none());
    let (mut messages, placed) = messages(context, who).await?;
    messages.retain(|message| replies || !own || !answers_a_command(message));
    match since.map(Since::place) {
        Some(StreamPosition::Seq(seq)) => messages.retain(|message| message.seq >= seq),
        Some(StreamPosition::Moment(from)) => messages.retain(|message| message.at >= from),
        None => {}
    }
    let columns = "SEQ|TIME|FROM|TOPIC|SAYS|+EPIC";
    let rows = messages.iter().map(|message| row(message, &placed)).collect();
    output::listing(
        context.output,
        columns,
        rows,
        "No mail. Messages to this mailbox are listed here until they expire.",
    )
}

/// Whether it is what the owner answered to a command, which the command has shown.
fn answers_a_command(message: &MailMessage) -> bool {
    message
        .content
        .as_ref()
        .is_ok_and(|(mail, _)| matches!(mail.body, MailBody::Reply(_) | MailBody::SpawnAnswer(_)))
}

fn row(message: &MailMessage, placed: &StateSnapshot) -> TableRow {
    let (from, topic, epic) = match &message.content {
        Ok((mail, sender)) => {
            (author(sender, placed), Cell::from(mail.body.topic()), Cell::some(mail.epic))
        }
        Err(_) => (String::new(), Cell::from("unreadable").toned(Tone::Bad), Cell::default()),
    };
    let says: String = says(message).chars().take(SAID_SHOWN).collect();
    let cells = vec![
        message.seq.to_string().into(),
        stamp(message.at).into(),
        from.into(),
        topic,
        says.into(),
        epic,
    ];
    TableRow { cells, record: value(message, placed) }
}

/// A message in one line of words.
fn says(message: &MailMessage) -> String {
    let mail = match &message.content {
        Ok((mail, _)) => mail,
        Err(error) => return error.to_string(),
    };
    match &mail.body {
        MailBody::Info { text } | MailBody::Alert { text, .. } | MailBody::Answer { text, .. } => {
            text.clone()
        }
        MailBody::Question { question, .. } => question.clone(),
        MailBody::Reply(reply) => match reply.error {
            Some(code) => format!("{}: {code}: {}", reply.op, reply.detail),
            None => format!("{}: {}", reply.op, reply.detail),
        },
        MailBody::SpawnAnswer(answer) | MailBody::SponsorAnswer(answer) => {
            let who: Vec<String> = answer.spawned.iter().map(|s| s.agent.to_string()).collect();
            let waits = answer.queued.iter().map(|it| format!("{} {} waits", it.role, it.index));
            let who: Vec<String> = who.into_iter().chain(waits).collect();
            if who.is_empty() { answer.reason.clone() } else { who.join(" ") }
        }
        MailBody::StatusRequest(asked) => asked.text.clone(),
        MailBody::ReviewNeeded { reason } => reason.clone(),
        MailBody::AgentCompleted { agent, reason, .. } => format!("{agent}: {reason}"),
        MailBody::AgentLost { agent, cause, .. } => format!("{agent}: {cause}"),
        MailBody::ResultReady(ready) => {
            format!("{} {}: {}", ready.agent, ready.node, ready.result.outcome)
        }
        MailBody::Violation { sender, parent, count, .. } => {
            format!("{sender} for {parent}, denied {count} of late")
        }
        MailBody::Receipt(receipt) => {
            format!("{} ({}) was {}", receipt.of.seq, receipt.of.topic, receipt.stage.as_str())
        }
        MailBody::Dead(dead) => {
            let of = &dead.of;
            format!("{} ({}) to {} was set aside: {}", of.seq, of.topic, dead.to, dead.reason)
        }
        MailBody::SponsorSilent { agent, sponsor, .. } => format!("{agent} waits for {sponsor}"),
        MailBody::Launch(launch) => launch.agent.to_string(),
        MailBody::Kill(order)
        | MailBody::Stop(order)
        | MailBody::Rotate(order)
        | MailBody::Superseded(order) => {
            format!("{}: {}", order.agent, order.reason)
        }
        MailBody::Verb(order) => {
            format!("{}: {}", order.command.by, order.command.wanted.text())
        }
        MailBody::BudgetRaised(raised) => {
            format!("{} has {} in all: {}", raised.agent, raised.limit.carved(), raised.reason)
        }
        MailBody::Sponsor(sponsor) => sponsor.wanted.reason.clone(),
        MailBody::Apply(order) => format!("{} into {}", order.change, order.action.target),
        MailBody::TurnDue(due) => due.turn.to_string(),
        MailBody::TakeOn { epic } => epic.to_string(),
        MailBody::Unknown { json, .. } => json.clone(),
    }
}

/// A message that was sent, with where it stands.
fn value(message: &MailMessage, placed: &StateSnapshot) -> Value {
    let mut mail = said(&message.payload);
    if let Ok((read, _)) = &message.content {
        mail = output::plain("Mail", mail);
        if let (Some(name), Some(body)) = (mail_body_message(&read.body), mail.get_mut("body")) {
            *body = output::plain(name, body.take());
        }
    }
    let from = message.content.as_ref().ok().map(|(_, sender)| author(sender, placed));
    json!({
        "seq": message.seq,
        "time": stamp(message.at),
        "from": from,
        "subject": message.subject,
        "mail": mail,
    })
}

async fn read(context: &Context, of: Option<Principal>, wanted: &[u64]) -> CliResult {
    let own = of.as_ref().is_none_or(|who| who.agent().is_none());
    let (messages, placed) = messages(context, of).await?;
    let chosen: Vec<&MailMessage> = if wanted.is_empty() {
        // The newest of those that `mail list` shows.
        messages.iter().rfind(|message| !own || !answers_a_command(message)).into_iter().collect()
    } else {
        messages.iter().filter(|message| wanted.contains(&message.seq)).collect()
    };
    let missing = wanted.iter().find(|seq| !messages.iter().any(|message| message.seq == **seq));
    if let Some(seq) = missing {
        return Err(CliError::new(Code::NotFound, format!("message {seq} was not found"))
            .hint("list them with `tetrarch mail list`"));
    }
    if chosen.is_empty() {
        return Err(CliError::new(Code::NotFound, "no mail was found")
            .hint("`tetrarch mail list --replies` also has the answers to your own commands"));
    }
    let values = Value::Array(chosen.iter().map(|message| value(message, &placed)).collect());
    output::record(context.output, &values, || {
        let sheets: Vec<String> = chosen.iter().map(|message| sheet(message, &placed)).collect();
        sheets.join("\n")
    })
}

fn sheet(message: &MailMessage, placed: &StateSnapshot) -> String {
    let mut sheet = Sheet::new(&format!("message {}", message.seq), is_coloured());
    sheet.field("time", stamp(message.at));
    match &message.content {
        Ok((mail, sender)) => {
            sheet
                .field("from", author(sender, placed))
                .field("to", mail.to.to_string())
                .field("topic", mail.body.topic())
                .field("epic", Cell::some(mail.epic))
                .field("answers", Cell::some(mail.correlation));
            sheet.passage("says", &says(message));
        }
        Err(error) => {
            sheet.field("subject", message.subject.as_str()).field("unreadable", error.to_string());
        }
    }
    let body = value(message, placed).get("mail").and_then(|mail| mail.get("body")).cloned();
    if let Some(body) = body.and_then(|body| serde_json::to_string_pretty(&body).ok()) {
        sheet.passage("body", &body);
    }
    sheet.finish()
}
