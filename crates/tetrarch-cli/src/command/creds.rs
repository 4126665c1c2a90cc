//! `creds`: credentials of agents outside, hosts and people (spec 09, On the bus): made, listed, replaced and
//! revoked beside the keys of the installation. Keys are never shown.

mod roles;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::{
    Authority, Credential, CredentialHolder, CredentialStatus, CredsError, LIFETIME,
};
use tetrarch_bus::server::{ClaimsError, tell_revoked};
use tetrarch_bus::subject::pattern::policy::{CredentialRole, Person};
use tetrarch_core::id::{AgentId, HumanName, Principal};
use tetrarch_core::time::{BusTime, Millis};

use crate::output::{self, Cell, Sheet, TableRow, is_coloured, stamp};
use crate::{CliError, CliResult, Code, ConfirmArgs, Context, HumanClient};

/// Subcommands of `creds`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = HELP)]
pub(crate) enum CredsCommand {
    /// Issue a credential and print its file; a valid credential is kept. A person needs a role.
    Issue {
        /// The name: an external agent (PO-demo), a host (HO@h1) or a person (human:bob).
        name: Principal,
        /// Contents of the credential.
        #[command(flatten)]
        terms: Terms,
    },
    /// List credentials.
    List,
    /// Show a credential without its key.
    Show {
        /// The name, as shown by `tetrarch creds list`.
        name: Principal,
    },
    /// Replace the credentials of a name by one with a new key and revoke the old ones.
    Rotate {
        /// The name, as shown by `tetrarch creds list`.
        name: Principal,
        /// Contents of the credential.
        #[command(flatten)]
        terms: Terms,
    },
    /// Revoke all credentials of a name and disconnect their clients.
    Revoke {
        /// The name, as shown by `tetrarch creds list`.
        name: Principal,
        /// Do not ask for confirmation.
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

const HELP: &str = "\
A credential is a file of mode 0600 in the data directory. Give it to its owner. It is valid for
90 days by default. `tetrarch up` renews the credentials of this machine after half of that time.
If you move the file away, `rotate` and `revoke` still end it, and `issue` makes another one with
the same role.

Roles of people, each including the one before:
  viewer    reads
  operator  starts, changes and ends work; a goal may bring commands
  approver  decides what waits for a person, raises budgets, writes to agents
  admin     creates projects and changes profiles

Examples:
  tetrarch creds issue human:carol --expires 30d --role operator
  tetrarch creds list
  tetrarch creds rotate PO-demo
  tetrarch creds revoke human:bob --yes";

/// Contents of a credential.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Terms {
    /// The validity, such as 30d [default: 90d].
    #[arg(long, value_name = "TIME", value_parser = length)]
    expires: Option<Millis>,
    /// The role of a person: viewer, operator, approver or admin; required for the first
    /// credential [default: the role of the previous one].
    #[arg(long, value_parser = roles::person)]
    role: Option<Person>,
}

impl Terms {
    fn time(self) -> std::time::Duration {
        self.expires.map_or(LIFETIME, |time| std::time::Duration::from_millis(time.0))
    }

    /// The options with which a command says the same.
    fn options(self) -> String {
        let expires = self.expires.map(|time| format!(" --expires {time}"));
        let role = self.role.map(|role| format!(" --role {}", role.as_str()));
        expires.unwrap_or_default() + &role.unwrap_or_default()
    }
}

fn length(text: &str) -> Result<Millis, String> {
    let time = tetrarch_core::duration::parse(text).map_err(|error| error.to_string())?;
    if time < Millis::from_secs(60) {
        return Err(format!("{time} is too short; the minimum is one minute"));
    }
    Ok(time)
}

const COLUMNS: &str = "NAME|ROLE|STATE|EXPIRES|+ISSUED|+FILE";

/// Runs the command.
///
/// # Errors
/// There is no such credential, the keys cannot be used, or a running bus was not told.
pub(crate) async fn run(context: &Context, command: CredsCommand) -> CliResult {
    let makes = match &command {
        CredsCommand::Issue { name, terms } => {
            let holder = holder(name.clone())?;
            // Refused before keys are made for it.
            if !Authority::is_kept(&context.config.bus.data_dir) {
                roles::check_said(&holder, terms.role, false)?;
            }
            true
        }
        CredsCommand::List
        | CredsCommand::Show { .. }
        | CredsCommand::Rotate { .. }
        | CredsCommand::Revoke { .. } => false,
    };
    let authority = keys(context, makes)?;
    match command {
        CredsCommand::Issue { name, terms } => issue(context, &authority, name, terms).await,
        CredsCommand::List => list(context, &authority),
        CredsCommand::Show { name } => show(context, &authority, name),
        CredsCommand::Rotate { name, terms } => {
            let holder = holder(name)?;
            let path = authority.rotate(&holder, terms.role, terms.time()).map_err(failed)?;
            tell(context, &authority).await?;
            told(context, &authority, &holder, &path)
        }
        CredsCommand::Revoke { name, confirm } => {
            let holder = holder(name.clone())?;
            confirm
                .to(&format!("revoke all credentials of {name} and disconnect all its clients"))?;
            authority.revoke(&holder).map_err(failed)?;
            tell(context, &authority).await?;
            let said = json!({"revoked": name.to_string()});
            output::item(context.output, &said, &format!("{name} is revoked; its schedules begin no more; its goals go on: `tetrarch goal list`")).map(drop)
        }
    }
}

async fn issue(
    context: &Context,
    authority: &Authority,
    name: Principal,
    terms: Terms,
) -> CliResult {
    let holder = holder(name)?;
    if terms.role.is_some() && !matches!(holder, CredentialHolder::Human(_)) {
        return Err(failed(CredsError::NoPerson { name: holder.to_string() }));
    }
    let held = authority.credential(&holder).map_err(failed)?;
    roles::check_said(&holder, terms.role, held.is_some())?;
    if let Some(held) = held.filter(|held| held.standing == CredentialStatus::Valid) {
        let other = terms.role.is_some_and(|role| CredentialRole::Human(role) != held.role);
        if terms.expires.is_some() || other {
            let what =
                format!("{holder} already has a valid credential of the role {}", role_of(&held));
            let options = terms.options();
            let hint = format!("`tetrarch creds rotate {holder}{options}` replaces it");
            return Err(CliError::new(Code::Conflict, what).hint(hint));
        }
    }
    let path = authority.issue(&holder, terms.role, terms.time()).map_err(failed)?;
    if terms.role.is_some() {
        // A bus that an earlier version started knows nothing of the role's key.
        tell(context, authority).await?;
    }
    told(context, authority, &holder, &path)
}

/// Prints where a credential is, and beside it the role of a person.
fn told(
    context: &Context,
    authority: &Authority,
    holder: &CredentialHolder,
    file: &Path,
) -> CliResult {
    let held = authority.credential(holder).map_err(failed)?;
    let role = held.as_ref().map(role_of);
    let value = json!({"name": holder.to_string(), "role": role, "file": file});
    output::item(context.output, &value, &file.display().to_string())?;
    if let (CredentialHolder::Human(_), Some(role), false) =
        (holder, role, output::is_for_programs(context.output))
    {
        output::say(&format!("{holder} has the role {role}"));
    }
    Ok(())
}

/// Prints where a credential is.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn written(context: &Context, name: &Principal, file: &Path) -> CliResult {
    let value = json!({"name": name.to_string(), "file": file});
    output::item(context.output, &value, &file.display().to_string()).map(drop)
}

/// The keys of this installation. Only what makes a credential makes them.
fn keys(context: &Context, makes: bool) -> CliResult<Authority> {
    let dir = &context.config.bus.data_dir;
    if !makes && !Authority::is_kept(dir) {
        let what = format!("{} has no keys, so it cannot have issued credentials", dir.display());
        return Err(CliError::new(Code::NotFound, what)
            .hint("use --data-dir to name the installation that started the bus"));
    }
    context.authority()
}

/// The credential of a party, made when it has none that is valid.
///
/// # Errors
/// The keys cannot be used, or the party may not have one.
pub(super) fn issued(context: &Context, holder: &CredentialHolder) -> CliResult<PathBuf> {
    context.authority()?.issue(holder, None, LIFETIME).map_err(failed)
}

/// The credential of a party; one that was revoked stays so.
///
/// # Errors
/// As [`issued`], or it is revoked.
pub(super) fn kept(context: &Context, holder: &CredentialHolder) -> CliResult<PathBuf> {
    context.authority()?.mint(holder).map_err(failed)
}

/// Whether somebody may have a credential: this installation issued one, or has no keys of this bus and cannot know.
///
/// # Errors
/// The keys cannot be used.
pub(super) fn may_be_a_person(
    context: &Context,
    client: &HumanClient,
    human: &HumanName,
) -> CliResult<bool> {
    if !client.data_dir.as_deref().is_some_and(Authority::is_kept) {
        return Ok(true);
    }
    let held = context.authority()?.credential(&CredentialHolder::Human(human.clone()));
    Ok(held.map_err(failed)?.is_some())
}

/// Revokes the credential of an agent that ended for good, when this installation gave it one.
///
/// # Errors
/// The keys cannot be used, or a bus was not told.
pub(super) async fn retired(context: &Context, agent: AgentId) -> CliResult {
    if !Authority::is_kept(&context.config.bus.data_dir) {
        return Ok(());
    }
    let (authority, holder) = (context.authority()?, CredentialHolder::External(agent));
    match authority.revoke(&holder) {
        Ok(()) => tell(context, &authority).await,
        Err(CredsError::NotIssued { .. } | CredsError::NotExternal { .. }) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn holder(name: Principal) -> CliResult<CredentialHolder> {
    match name {
        Principal::Human(human) => Ok(CredentialHolder::Human(human)),
        Principal::Agent(AgentId::Ho(host)) => Ok(CredentialHolder::Host(host)),
        Principal::Agent(AgentId::Go) => {
            let what = "GO is the control plane: its credential stays with the owner";
            Err(CliError::new(Code::Usage, what))
        }
        Principal::Agent(agent @ AgentId::Po(_)) => Ok(CredentialHolder::External(agent)),
        Principal::Agent(agent) => {
            let what = format!("{agent} is run by a host and needs no credential");
            let hint = "a project's orchestrator (PO-demo) may be a program of your own";
            Err(CliError::new(Code::Usage, what).hint(hint))
        }
    }
}

fn failed(error: CredsError) -> CliError {
    let code = match &error {
        CredsError::NotIssued { .. } => Code::NotFound,
        CredsError::NotExternal { .. }
        | CredsError::NoPerson { .. }
        | CredsError::NoOperator { .. } => Code::Usage,
        CredsError::OtherSpelling { .. } => Code::Conflict,
        CredsError::Over { .. } => Code::Denied,
        CredsError::File { .. } | CredsError::Key { .. } | CredsError::Sign(_) => Code::Failed,
    };
    CliError::new(code, error.to_string())
}

/// Has a running bus take note; one that does not run does when it starts.
async fn tell(context: &Context, authority: &Authority) -> CliResult {
    let Ok(urls) = context.urls() else { return Ok(()) };
    let to = ConnectOptions {
        urls,
        tls_ca: context.tls_ca(),
        tls_identity: context.config.bus.tls_identity.clone(),
        ..ConnectOptions::default()
    };
    let revoked = authority.revoked().map_err(failed)?;
    match tell_revoked(&to, authority, &revoked).await {
        Ok(()) => Ok(()),
        // A bus of this installation takes note when it starts.
        Err(ClaimsError::Unreachable { .. }) if context.config.bus.url.is_none() => Ok(()),
        Err(error) => {
            let hint = "`tetrarch config operator` writes what servers of your own start with";
            Err(CliError::new(Code::BusUnreachable, error.to_string()).hint(hint))
        }
    }
}

/// A credential's name as commands take it.
fn name_of(credential: &Credential) -> String {
    let name = &credential.name;
    match credential.role {
        CredentialRole::Control | CredentialRole::External => name.clone(),
        CredentialRole::Host => format!("HO@{name}"),
        CredentialRole::Human(_) => format!("human:{name}"),
    }
}

/// A credential's role as people say it.
fn role_of(credential: &Credential) -> &'static str {
    match credential.role {
        CredentialRole::Human(person) => person.as_str(),
        role @ (CredentialRole::Control | CredentialRole::Host | CredentialRole::External) => {
            role.as_str()
        }
    }
}

fn file_of(credential: &Credential) -> Option<String> {
    credential.path.as_ref().map(|path| path.display().to_string())
}

fn moment(seconds: u64) -> String {
    stamp(BusTime(seconds.saturating_mul(1_000)))
}

fn record(credential: &Credential) -> Value {
    json!({
        "name": name_of(credential),
        "role": role_of(credential),
        "state": credential.standing.as_str(),
        "issued": moment(credential.issued),
        "expires": credential.expires.map(moment),
        "user": credential.user,
        "file": credential.path,
    })
}

fn list(context: &Context, authority: &Authority) -> CliResult {
    let all = authority.credentials().map_err(failed)?;
    let row = |credential: &Credential| TableRow {
        cells: vec![
            name_of(credential).into(),
            role_of(credential).into(),
            credential.standing.as_str().into(),
            Cell::some(credential.expires.map(moment)),
            moment(credential.issued).into(),
            Cell::some(file_of(credential)),
        ],
        record: record(credential),
    };
    let rows = all.iter().map(row).collect();
    let empty = "No credentials. Make one with `tetrarch creds issue human:bob --role viewer`.";
    output::listing(context.output, COLUMNS, rows, empty)
}

fn show(context: &Context, authority: &Authority, name: Principal) -> CliResult {
    let shown = name.to_string();
    let found = authority.credential(&holder(name)?).map_err(failed)?;
    let Some(credential) = found else {
        return Err(failed(CredsError::NotIssued { name: shown }));
    };
    output::record(context.output, &record(&credential), || {
        let mut sheet = Sheet::new(&shown, is_coloured());
        sheet
            .field("role", role_of(&credential))
            .field("state", credential.standing.as_str())
            .field("issued", moment(credential.issued))
            .field("expires", Cell::some(credential.expires.map(moment)))
            .field("user", credential.user.clone())
            .field("file", Cell::some(file_of(&credential)));
        sheet.finish()
    })
}
