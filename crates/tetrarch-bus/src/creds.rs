//! Credentials: one operator, an account for the control plane and one for everybody else, a scoped
//! signing key for each role, and a user token for each party (spec 09). Permissions and what crosses
//! between the accounts are in `subject::pattern::policy`; this module only keeps keys and mints. It
//! must never print or log a seed.

pub mod acts;
mod holding;
mod issued;
pub(crate) mod jwt;
pub(crate) mod private_file;
mod revoked;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nkeys::KeyPair;
use tetrarch_core::id::{AgentId, HostName, HumanName};

use crate::subject::pattern::policy::{BusAccount, CredentialRole, Person};
pub use holding::{Credential, CredentialStatus, LIFETIME};
pub use revoked::Revoked;

/// The streams of a data directory belong to this key's account, whatever it is called.
const CONTROL_KEY: &str = "account.nk";
/// How a credential's file ends; what is being written ends otherwise.
const ENDING: &str = ".creds";

/// Why a credential could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CredsError {
    /// A file could not be read or written.
    #[error("cannot use {path}: {source}; make the data directory writable for this user")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A key file does not hold a key of its kind.
    #[error(
        "cannot read the key in {path}: {reason}; restore the file, or remove the keys and credentials of the data directory to create new ones"
    )]
    Key {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An agent that gets its credential in another role.
    #[error("{agent} cannot be an external agent; its credential has the role {role}")]
    NotExternal {
        /// The agent.
        agent: AgentId,
        /// The role whose credential covers it.
        role: &'static str,
    },
    /// A role of people for another party.
    #[error(
        "{name} is not a person; only people (human:bob) have a role: viewer, operator, approver or admin"
    )]
    NoPerson {
        /// Whose.
        name: String,
    },
    /// Another name that differs in capitals alone.
    #[error(
        "{name} and {other} differ only in case; choose another name (`tetrarch creds list` lists used names)"
    )]
    OtherSpelling {
        /// Who is to have one.
        name: String,
        /// Who has one.
        other: String,
    },
    /// There is no credential to do it with.
    #[error("{name} has no credential in this installation; `tetrarch creds list` lists all")]
    NotIssued {
        /// Whose.
        name: String,
    },
    /// It is not taken any more.
    #[error("the credential of {name} is revoked; `tetrarch creds issue {name}` issues a new one")]
    Over {
        /// Whose.
        name: String,
    },
    /// What servers are configured with, or told, is signed by the operator's key.
    #[error(
        "the operator's key {path} was not found; name it with --operator-key or bus.operator_key"
    )]
    NoOperator {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Signing failed.
    #[error("cannot sign a token: {0}")]
    Sign(#[from] nkeys::error::Error),
}

/// Who a credential is for. Names come from core, so none can widen a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialHolder {
    /// The owner of the ledger.
    Control,
    /// The host orchestrator of a host, for itself and what it hosts.
    Host(HostName),
    /// An agent with a connection of its own.
    External(AgentId),
    /// A person.
    Human(HumanName),
}

impl fmt::Display for CredentialHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Control => f.write_str("control"),
            Self::Host(host) => write!(f, "HO@{host}"),
            Self::External(agent) => agent.fmt(f),
            Self::Human(human) => write!(f, "human:{human}"),
        }
    }
}

impl CredentialHolder {
    /// The role whose signing key makes the credential; of a person, unless another is given or held.
    #[must_use]
    pub fn role(&self) -> CredentialRole {
        match self {
            Self::Control => CredentialRole::Control,
            Self::Host(_) => CredentialRole::Host,
            Self::External(_) => CredentialRole::External,
            Self::Human(_) => CredentialRole::Human(Person::Admin),
        }
    }

    /// The user's name in the token, which the role's templates put into subjects.
    #[must_use]
    pub fn user_name(&self) -> String {
        match self {
            Self::Control => "control".to_owned(),
            Self::Host(host) => host.to_string(),
            Self::External(agent) => agent.to_string(),
            Self::Human(human) => human.to_string(),
        }
    }

    /// What its credential's file is called, without the ending.
    fn file_stem(&self) -> String {
        match self {
            Self::Control | Self::External(_) => self.user_name(),
            Self::Host(host) => format!("host-{host}"),
            Self::Human(human) => format!("human-{human}"),
        }
    }

    fn check(&self) -> Result<(), CredsError> {
        let Self::External(agent) = self else { return Ok(()) };
        let role = match agent {
            AgentId::Go => "control",
            AgentId::Ho(_) => "host",
            AgentId::Po(_)
            | AgentId::Io(_)
            | AgentId::Specialist(..)
            | AgentId::Reviewer(..)
            | AgentId::Worker(_) => return Ok(()),
        };
        Err(CredsError::NotExternal { agent: agent.clone(), role })
    }
}

/// What the server's configuration needs to know the parties by.
#[derive(Debug, Clone)]
pub(crate) struct Trusted {
    pub(crate) operator_jwt: String,
    pub(crate) system: String,
    pub(crate) system_jwt: String,
    pub(crate) control: String,
    pub(crate) control_jwt: String,
    pub(crate) fleet: String,
    pub(crate) fleet_jwt: String,
}

/// The keys of one installation, kept in `<data>/keys`, the operator's also elsewhere; credentials go to
/// `<data>/creds`.
#[derive(Debug)]
pub struct Authority {
    creds_dir: PathBuf,
    keys_dir: PathBuf,
    operator_path: PathBuf,
    /// None where it is kept from whoever opened the others.
    operator: Option<KeyPair>,
    system: KeyPair,
    control: KeyPair,
    fleet: KeyPair,
    roles: Vec<(CredentialRole, KeyPair)>,
    by: Option<HumanName>,
}

impl Authority {
    /// Whether a data directory has keys.
    #[must_use]
    pub fn is_kept(data_dir: &Path) -> bool {
        data_dir.join("keys").join(CONTROL_KEY).is_file()
    }

    /// Opens the keys of a data directory, making those that are missing. Processes that do this
    /// at once get the same keys.
    ///
    /// # Errors
    /// A file that cannot be used, named with its path.
    pub fn open_or_create(data_dir: &Path) -> Result<Self, CredsError> {
        Self::open_with(data_dir, None)
    }

    /// The same with the operator's key in a file of its own. It is made there with the other keys, and only
    /// then; without it credentials can be made and nothing of what servers take.
    ///
    /// # Errors
    /// As [`Authority::open_or_create`].
    pub fn open_with(data_dir: &Path, operator_key: Option<&Path>) -> Result<Self, CredsError> {
        let keys = data_dir.join("keys");
        let creds_dir = data_dir.join("creds");
        for dir in [&keys, &creds_dir] {
            private_file::private_dir(dir)
                .map_err(|source| CredsError::File { path: dir.clone(), source })?;
        }
        let operator_path =
            operator_key.map_or_else(|| keys.join("operator.nk"), Path::to_path_buf);
        // Before the others: whoever finds those knows that it was made.
        let operator = match Self::is_kept(data_dir) && !operator_path.exists() {
            true => None,
            false => Some(key_at(&operator_path, KeyPair::new_operator)?),
        };
        let roles = CredentialRole::ALL
            .into_iter()
            .map(|role| {
                let path = keys.join(format!("role-{}.nk", role.as_str()));
                Ok((role, key_at(&path, KeyPair::new_account)?))
            })
            .collect::<Result<_, CredsError>>()?;
        Ok(Self {
            operator_path,
            operator,
            system: key_at(&keys.join("system.nk"), KeyPair::new_account)?,
            control: key_at(&keys.join(CONTROL_KEY), KeyPair::new_account)?,
            fleet: key_at(&keys.join("fleet.nk"), KeyPair::new_account)?,
            roles,
            creds_dir,
            keys_dir: keys,
            by: None,
        })
    }

    /// The same, used by a person: the audit names them.
    #[must_use]
    pub fn used_by(self, by: Option<HumanName>) -> Self {
        Self { by, ..self }
    }

    /// Mints the credential of a party and gives its file (mode 0600, the format every NATS
    /// client reads). A credential this authority made before is kept.
    ///
    /// # Errors
    /// An agent that may not be external, or a file that cannot be written.
    pub fn mint(&self, holder: &CredentialHolder) -> Result<PathBuf, CredsError> {
        holder.check()?;
        let name = holder.user_name();
        match self.credential(holder)? {
            Some(held) if held.is_here() && held.name == name => Ok(self.path(&holder.file_stem())),
            Some(held)
                if held.standing == CredentialStatus::Revoked
                    && *holder != CredentialHolder::Control =>
            {
                Err(CredsError::Over { name: holder.to_string() })
            }
            held => {
                let role = role_of(holder, held.as_ref(), None)?;
                let user = KeyPair::new_user();
                self.write("creds.issue", &holder.file_stem(), (role, &name), (user, LIFETIME))
            }
        }
    }

    fn path(&self, stem: &str) -> PathBuf {
        self.creds_dir.join(format!("{stem}{ENDING}"))
    }

    /// Writes a credential's file and gives its path. First it is noted: `act` is what the audit calls it.
    fn write(
        &self,
        act: &str,
        stem: &str,
        (role, name): (CredentialRole, &str),
        (user, lifetime): (KeyPair, Duration),
    ) -> Result<PathBuf, CredsError> {
        let days = lifetime.as_secs_f64() / (24.0 * 3600.0);
        self.note(
            (act, &user.public_key()),
            &format!("{} {name}, valid for {days:.1} days", role.as_str()),
            None,
        )?;
        let (signer, account) = (self.signer(role)?, self.account(role));
        let token = jwt::user(role, (signer, account), &user, name, lifetime)?;
        self.record(stem, (&user.public_key(), &token))?;
        let (path, text) = (self.path(stem), credential_text(&token, &user.seed()?));
        match private_file::replace(&path, text.as_bytes()) {
            Ok(()) => Ok(path),
            Err(source) => Err(CredsError::File { path, source }),
        }
    }

    fn note(
        &self,
        (act, user): (&str, &str),
        about: &str,
        ends: Option<&CredentialHolder>,
    ) -> Result<(), CredsError> {
        let (about, ends) = (format!("{about}: {user}"), ends.map(ToString::to_string));
        acts::keep(&self.keys_dir, self.by.as_ref(), (act, user), about, ends)
    }

    /// The public key of the fleet's account.
    pub(crate) fn fleet_key(&self) -> String {
        self.fleet.public_key()
    }

    /// The credential of a user of the system account.
    pub(crate) fn system_credential(&self, user: &KeyPair) -> Result<String, CredsError> {
        Ok(credential_text(&jwt::system_user(&self.system, user)?, &user.seed()?))
    }

    fn account(&self, role: CredentialRole) -> &KeyPair {
        match role.account() {
            BusAccount::Control => &self.control,
            BusAccount::Fleet => &self.fleet,
        }
    }

    fn signer(&self, role: CredentialRole) -> Result<&KeyPair, CredsError> {
        let found = self.roles.iter().find(|(held, _)| *held == role);
        found.map(|(_, key)| key).ok_or_else(|| CredsError::Key {
            path: self.creds_dir.clone(),
            reason: format!("no signing key for the role {}", role.as_str()),
        })
    }

    /// The tokens a server is configured with. The accounts' are made anew from the policy table
    /// each time, so a changed table reaches all users at the server's next start.
    pub(crate) fn trusted(&self) -> Result<Trusted, CredsError> {
        self.renew()?;
        let revoked = self.revoked()?;
        self.trusted_without(&revoked)
    }

    /// The same with these users revoked.
    pub(crate) fn trusted_without(&self, revoked: &Revoked) -> Result<Trusted, CredsError> {
        let of = |account: BusAccount| -> Vec<(CredentialRole, &KeyPair)> {
            let all = self.roles.iter().map(|(role, key)| (*role, key));
            all.filter(|(role, _)| role.account() == account).collect()
        };
        let (control, fleet) = (of(BusAccount::Control), of(BusAccount::Fleet));
        let none = || CredsError::NoOperator { path: self.operator_path.clone() };
        let operator = self.operator.as_ref().ok_or_else(none)?;
        Ok(Trusted {
            operator_jwt: jwt::operator(operator, &self.system)?,
            system: self.system.public_key(),
            system_jwt: jwt::system_account(operator, &self.system)?,
            control: self.control.public_key(),
            control_jwt: jwt::control_account(operator, &self.control, &control)?,
            fleet: self.fleet.public_key(),
            fleet_jwt: jwt::fleet_account(operator, (&self.fleet, &self.control), &fleet, revoked)?,
        })
    }
}

/// The role of a party's next credential: the one that is said, else the one that it has.
fn role_of(
    holder: &CredentialHolder,
    held: Option<&Credential>,
    said: Option<Person>,
) -> Result<CredentialRole, CredsError> {
    match (holder, said, held.map(|held| held.role)) {
        (CredentialHolder::Human(_), Some(person), _) => Ok(CredentialRole::Human(person)),
        (_, Some(_), _) => Err(CredsError::NoPerson { name: holder.to_string() }),
        (CredentialHolder::Human(_), None, Some(role @ CredentialRole::Human(_))) => Ok(role),
        (_, None, _) => Ok(holder.role()),
    }
}

fn key_at(path: &Path, make: fn() -> KeyPair) -> Result<KeyPair, CredsError> {
    let broken = |reason: String| CredsError::Key { path: path.to_owned(), reason };
    let seed = match std::fs::read_to_string(path) {
        Ok(seed) => seed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            private_file::keep_first(path, &make().seed()?)
                .map_err(|source| CredsError::File { path: path.to_owned(), source })?
        }
        Err(source) => return Err(CredsError::File { path: path.to_owned(), source }),
    };
    let key = KeyPair::from_seed(seed.trim()).map_err(|error| broken(error.to_string()))?;
    if key.key_pair_type() != make().key_pair_type() {
        return Err(broken("it is a key of the wrong type".to_owned()));
    }
    Ok(key)
}

fn credential_text(token: &str, seed: &str) -> String {
    format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         ************************* IMPORTANT *************************\n\
         NKEY Seed printed below can be used to sign and prove identity.\n\
         NKEYs are sensitive and should be treated as secrets.\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n\n\
         *************************************************************\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_credentials_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let one = Authority::open_or_create(dir.path()).unwrap();
        let path = one.mint(&CredentialHolder::Human(HumanName::new("ada").unwrap())).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let two = Authority::open_or_create(dir.path()).unwrap();
        assert_eq!(one.control.public_key(), two.control.public_key());
        assert_eq!(one.fleet.public_key(), two.fleet.public_key());
        assert_eq!(
            two.mint(&CredentialHolder::Human(HumanName::new("ada").unwrap())).unwrap(),
            path
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let facts = jwt::user_facts(&text).unwrap();
        assert_eq!(
            (facts.name.as_str(), facts.role),
            ("ada", Some(CredentialRole::Human(Person::Admin)))
        );
    }

    #[test]
    fn name_differing_only_in_case_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        let person = |name: &str| CredentialHolder::Human(HumanName::new(name).unwrap());
        authority.issue(&person("ada"), None, LIFETIME).unwrap();
        authority.issue(&person("ada"), None, LIFETIME).unwrap();
        let refused = authority.issue(&person("ADA"), None, LIFETIME).unwrap_err().to_string();
        assert!(refused.starts_with("human:ADA and human:ada differ"), "{refused}");
        authority.issue(&CredentialHolder::Host("ADA".parse().unwrap()), None, LIFETIME).unwrap();
        authority.revoke(&person("ada")).unwrap();
        authority.issue(&person("ADA"), None, LIFETIME).unwrap();
    }

    #[test]
    fn operator_key_is_created_once_and_may_be_elsewhere() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let key = elsewhere.path().join("operator.nk");
        let open = |key: Option<&Path>| Authority::open_with(dir.path(), key).unwrap();
        let key_of = |authority: &Authority| authority.operator.as_ref().unwrap().public_key();
        let made = open(Some(&key));
        assert!(!dir.path().join("keys/operator.nk").exists(), "not in the data directory");
        let away = open(None);
        away.mint(&CredentialHolder::Host("h1".parse().unwrap())).unwrap();
        assert!(matches!(away.trusted(), Err(CredsError::NoOperator { .. })), "{away:?}");
        assert!(!dir.path().join("keys/operator.nk").exists(), "no second one is made");
        let again = open(Some(&key));
        assert_eq!(key_of(&again), key_of(&made));
        again.trusted().unwrap();
    }

    #[test]
    fn credential_of_another_installation_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = Authority::open_or_create(dir.path())
            .unwrap()
            .mint(&CredentialHolder::Control)
            .unwrap();
        let before = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_dir_all(dir.path().join("keys")).unwrap();
        Authority::open_or_create(dir.path()).unwrap().mint(&CredentialHolder::Control).unwrap();
        assert_ne!(std::fs::read_to_string(&path).unwrap(), before);
    }

    #[test]
    fn credential_for_another_account_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        let holder = CredentialHolder::Human(HumanName::new("ada").unwrap());
        let (signer, user) = (authority.signer(holder.role()).unwrap(), KeyPair::new_user());
        let (keys, name) = ((signer, &authority.control), "ada");
        let old = jwt::user(holder.role(), keys, &user, name, LIFETIME).unwrap();
        let path = authority.path(&holder.file_stem());
        std::fs::write(&path, credential_text(&old, &user.seed().unwrap())).unwrap();
        std::fs::write(authority.creds_dir.join("notes.txt"), [0xff]).unwrap();
        authority.trusted().unwrap();
        let renewed = std::fs::read_to_string(&path).unwrap();
        assert_eq!(jwt::user_facts(&renewed).unwrap().account, authority.fleet.public_key());
        authority.trusted().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), renewed, "once is enough");
    }

    #[test]
    fn file_vanishing_during_listing_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        authority.mint(&CredentialHolder::Control).unwrap();
        // To whoever reads it, a link to nothing is a file that another process has just renamed.
        for gone in ["control.creds.7-1.new", "PO-demo.creds"] {
            std::os::unix::fs::symlink("nothing", authority.creds_dir.join(gone)).unwrap();
        }
        assert_eq!(authority.credentials().unwrap().len(), 1);
        let agent = CredentialHolder::External("PO-demo".parse().unwrap());
        assert_eq!(authority.credential(&agent).unwrap(), None);
    }

    #[test]
    fn owner_and_hosts_are_not_external() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        for agent in ["GO", "HO@h1"] {
            let holder = CredentialHolder::External(agent.parse().unwrap());
            assert!(matches!(authority.mint(&holder), Err(CredsError::NotExternal { .. })));
        }
    }
}
