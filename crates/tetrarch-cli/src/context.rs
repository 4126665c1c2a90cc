//! What every command starts from: the configuration, who is asking, and the way to the bus.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{Stream, StreamExt, iter};
use tetrarch_bus::Bus;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::{Authority, CredentialHolder};
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::error::{ConnectError, PublishError};
use tetrarch_bus::retry::Retry;
use tetrarch_bus::send::{SendError, send_request};
use tetrarch_bus::server::{self, DataDirLock, FreeSpace};
use tetrarch_bus::subject::pattern::policy::{CredentialRole, Person};
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_bus::tail::follow_ledger;
use tetrarch_bus::watch::Replies;
use tetrarch_core::id::{HumanName, Principal, RequestId, Ulid};
use tetrarch_core::ledger::Record;
use tetrarch_core::mail::{MailBody, OpReply};
use tetrarch_core::request::Op;
use tetrarch_telemetry::trace::of_environment;

use crate::config::{BusConfig, Config};
use crate::options::{GlobalArgs, OutputFormat, with_installation};
use crate::{CliError, CliResult, Code};

/// How long a command waits for a server that is started again.
const RESTARTED_WITHIN: Duration = Duration::from_secs(10);
/// How long a command waits for the owner.
const REPLY_WITHIN: Duration = Duration::from_secs(15);

/// Under which name the person is logged in; a service and a container may have no variable that says it.
fn login_name() -> Option<String> {
    let mut said = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    said.find(|name| !name.is_empty()).or_else(user_name)
}

/// The name of this process's user, as the system's list of users has it.
fn user_name() -> Option<String> {
    let own = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == own).then(|| name.to_owned())
    })
}

/// What every command starts from.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The configuration.
    pub(crate) config: Config,
    /// How results are printed.
    pub(crate) output: OutputFormat,
    /// The options it was started with, for children.
    pub(crate) global: GlobalArgs,
    /// The connection that is there already, when names had to be looked up.
    pub(crate) opened: Option<HumanClient>,
}

impl Context {
    /// Loads the configuration.
    ///
    /// # Errors
    /// A file, a variable or an option is wrong.
    pub(crate) fn load(global: &GlobalArgs) -> CliResult<Self> {
        let config = Config::load(global)?;
        Ok(Self { config, output: global.output, global: global.clone(), opened: None })
    }

    /// Who is asking.
    ///
    /// # Errors
    /// The name cannot be one.
    pub(crate) fn human(&self) -> CliResult<HumanName> {
        let named = self.global.human.clone().or_else(login_name);
        let name = named.unwrap_or_else(|| "operator".to_owned());
        HumanName::new(&name).map_err(|error| {
            CliError::new(Code::Usage, error.to_string()).hint("give your name with --as")
        })
    }

    /// The addresses of the bus: configured, else this installation's own.
    ///
    /// # Errors
    /// Nothing is configured and no bus was ever started here.
    pub(crate) fn urls(&self) -> CliResult<Vec<String>> {
        if let Some(url) = &self.config.bus.url {
            return Ok(url.split(',').map(str::to_owned).collect());
        }
        server::endpoint(&self.config.bus.data_dir).map(|url| vec![url]).ok_or_else(|| {
            let dir = self.config.bus.data_dir.display();
            CliError::new(Code::BusUnreachable, format!("no bus was started in {dir}"))
                .hint("start a bus with `tetrarch up`, or name one with --url")
        })
    }

    /// The file of the authority by which the bus is known: configured, else this installation's own.
    pub(crate) fn tls_ca(&self) -> Option<PathBuf> {
        let BusConfig { url, data_dir, tls_ca, .. } = &self.config.bus;
        let own = || url.is_none().then(|| server::authority_file(data_dir)).flatten();
        tls_ca.clone().or_else(own)
    }

    /// The credential of a party: the configured one, else one of this installation's.
    ///
    /// # Errors
    /// It cannot be made; or another bus is meant, and this installation has no keys.
    pub(crate) fn credentials(&self, holder: &CredentialHolder) -> CliResult<PathBuf> {
        if let Some(file) = &self.config.bus.credentials {
            return Ok(file.clone());
        }
        let dir = &self.config.bus.data_dir;
        if let (Some(url), false) = (&self.config.bus.url, Authority::is_kept(dir)) {
            let what = format!("no credential for {url}: {} holds no keys", dir.display());
            return Err(CliError::new(Code::Usage, what)
                .hint("name your credential file with --credentials or bus.credentials"));
        }
        let authority = self.authority()?;
        authority.mint(holder).map_err(CliError::failed)
    }

    /// The keys of this installation.
    ///
    /// # Errors
    /// They cannot be read or made.
    pub(crate) fn authority(&self) -> CliResult<Authority> {
        let BusConfig { data_dir, operator_key, .. } = &self.config.bus;
        Authority::open_with(data_dir, operator_key.as_deref())
            .map(|authority| authority.used_by(self.human().ok()))
            .map_err(CliError::failed)
    }

    /// A whole command line of these words: the program's name before them, and after them the options
    /// that this command was told where to find its installation by.
    pub(crate) fn command(&self, words: &str) -> String {
        with_installation(&self.global, words)
    }

    /// A connection as a party. A fleet that is up starts its server again when that has died, so it is waited for.
    ///
    /// # Errors
    /// The bus does not answer or refuses the credential.
    pub(crate) async fn connect(&self, holder: &CredentialHolder, name: &str) -> CliResult<Bus> {
        let mut retry = Retry::until(RESTARTED_WITHIN);
        loop {
            let options = ConnectOptions {
                urls: self.urls()?,
                credentials: Some(self.credentials(holder)?),
                name: name.to_owned(),
                api_prefix: self.config.bus.api_prefix.clone(),
                tls_ca: self.tls_ca(),
                tls_identity: self.config.bus.tls_identity.clone(),
            };
            match Bus::connect(&options).await {
                Err(ConnectError::Unreachable { .. }) if self.is_up()? && retry.pause().await => {}
                connected => return Ok(connected?),
            }
        }
    }

    /// Whether a fleet with a bus of its own is up in the data directory.
    ///
    /// # Errors
    /// The data directory cannot be used.
    pub(crate) fn is_up(&self) -> CliResult<bool> {
        let BusConfig { url, data_dir, .. } = &self.config.bus;
        Ok(url.is_none() && DataDirLock::fleet(data_dir)?.is_some())
    }

    /// A connection as the human who is asking.
    ///
    /// # Errors
    /// The bus does not answer or refuses the credential.
    pub(crate) async fn client(&self) -> CliResult<HumanClient> {
        if let Some(client) = &self.opened {
            return Ok(client.clone());
        }
        let human = self.human()?;
        let bus = self.connect(&CredentialHolder::Human(human.clone()), "tetrarch").await?;
        let managed = self.config.bus.url.is_none();
        let data_dir = managed.then(|| self.config.bus.data_dir.clone());
        Ok(HumanClient { data_dir, bus, human: Principal::Human(human) })
    }
}

/// A human's connection.
#[derive(Debug, Clone)]
pub(crate) struct HumanClient {
    /// Where the managed bus is; none when another is configured.
    pub(crate) data_dir: Option<PathBuf>,
    /// The connection.
    pub(crate) bus: Bus,
    /// Who is asking.
    pub(crate) human: Principal,
}

impl HumanClient {
    /// Every record that is written from this entry of the ledger on, as it comes, for ever.
    pub(crate) fn written_from(&self, entry: u64) -> impl Stream<Item = Record> + use<> {
        let entries = follow_ledger(&self.bus, entry, 0).filter_map(async |item| item.entry.ok());
        entries.flat_map(|entry| iter(entry.records))
    }

    /// Asks the owner for an operation and waits for its answer.
    ///
    /// # Errors
    /// It is refused, or nobody answers.
    pub(crate) async fn operate(&self, op: &Op) -> CliResult<OpReply> {
        let id = new_id();
        let payload = tetrarch_bus::codec::encode_op(op, id).map_err(CliError::usage)?;
        self.ask(OpName::of(op), id, payload, None).await
    }

    /// Asks the owner for an operation under an id, for a screen that shows the answer in words.
    ///
    /// # Errors
    /// Why it is refused or not answered, and what helps.
    pub(crate) async fn told(&self, id: RequestId, op: &Op) -> Result<String, String> {
        let payload = tetrarch_bus::codec::encode_op(op, id).map_err(|error| error.to_string())?;
        let reply = self.ask(OpName::of(op), id, payload, None).await;
        reply.map(|reply| reply.detail).map_err(|error| match error.hint {
            Some(hint) => format!("{}; {hint}", error.what),
            None => error.what,
        })
    }

    /// Asks the owner for an operation whose body is made already.
    ///
    /// # Errors
    /// It is refused, or nobody answers.
    pub(crate) async fn ask(
        &self,
        op: OpName,
        id: RequestId,
        payload: Vec<u8>,
        trace: Option<String>,
    ) -> CliResult<OpReply> {
        let subject = Subject::Op { op, from: self.human.clone(), via: None };
        let mail = self.request(&subject, id, payload, trace).await?;
        let MailBody::Reply(reply) = mail else {
            return Err(CliError::new(Code::Failed, "the owner's answer cannot be read"));
        };
        match reply.error {
            Some(code) => Err(CliError::refused(code, &reply.detail)),
            None => Ok(reply),
        }
    }

    /// Sends a request and waits for the answer that names it.
    ///
    /// # Errors
    /// Nobody answers.
    pub(crate) async fn request(
        &self,
        subject: &Subject,
        id: RequestId,
        payload: Vec<u8>,
        trace: Option<String>,
    ) -> CliResult<MailBody> {
        self.check_space(FreeSpace::is_none)?;
        let mut replies = Replies::open(&self.bus, &self.human).await?;
        // What a program asks for in a trace is part of it.
        let trace = trace.or_else(of_environment);
        let envelope = Envelope { msg_id: Some(id.to_string()), trace, ..Envelope::default() };
        let headers = envelope.headers(subject);
        let payload = Bytes::from(payload);
        let answered = async {
            let sent = send_request(&self.bus, subject, headers, payload, Some(REPLY_WITHIN)).await;
            let asked = if let Subject::Op { op, .. } = subject { op.as_str() } else { "spawning" };
            sent.map_err(|error| self.unsent(asked, error))?;
            Ok::<_, CliError>(replies.wait(id, REPLY_WITHIN).await?.body)
        };
        match answered.await {
            Err(error) if error.code == Code::BusUnreachable => {
                self.check_space(FreeSpace::is_low)?;
                Err(error)
            }
            answered => answered,
        }
    }

    /// Why what is asked was not sent: with the role that it takes, when this person has a lesser one.
    pub(crate) fn unsent(&self, asked: &str, error: SendError) -> CliError {
        let SendError::Refused(PublishError::Refused { subject, .. }) = &error else {
            return error.into();
        };
        match (self.bus.role(), Person::least(subject)) {
            (Some(CredentialRole::Human(own)), Some(least)) if own < least => {
                let (human, own, least) = (&self.human, own.as_str(), least.as_str());
                let what = format!("{asked} requires the role {least}; {human} has the role {own}");
                let role = format!(" --role {least}");
                CliError::new(Code::Denied, what).hint(format!(
                    "ask the operator of the fleet for `tetrarch creds rotate {human}{role}`, and use the new file"
                ))
            }
            _ => error.into(),
        }
    }

    /// Refuses when the disk of the bus has too little room: a server without any does not answer.
    fn check_space(&self, too_little: impl FnOnce(&FreeSpace) -> bool) -> CliResult {
        match self.data_dir.as_deref().and_then(server::free_space).filter(too_little) {
            Some(free_space) => Err(CliError::new(Code::BusUnreachable, free_space.to_string())
                .hint("free some disk space there and repeat the command; repeating it is safe")),
            None => Ok(()),
        }
    }
}

/// A fresh request id.
pub(crate) fn new_id() -> RequestId {
    RequestId(new_ulid())
}

/// A fresh ULID: here, at the edge, is where randomness and the wall clock come in.
pub(crate) fn new_ulid() -> Ulid {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let ms = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    let mut random = [0u8; 16];
    // Without the kernel's randomness the process id and the time still tell ids apart.
    if rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).is_err() {
        random = (u128::from(std::process::id()) << 64 | u128::from(ms)).to_be_bytes();
    }
    Ulid::from_parts(ms, u128::from_be_bytes(random))
}
