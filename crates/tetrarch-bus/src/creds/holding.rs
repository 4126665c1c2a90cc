//! Credentials in a data directory: who has one, since when and for how long, which are replaced and
//! which are revoked.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tetrarch_core::words;

use nkeys::KeyPair;

use super::jwt::UserFacts;
use super::revoked::{Revoked, now_secs};
use super::{Authority, CredentialHolder, CredsError, jwt, role_of};
use crate::subject::pattern::policy::{CredentialRole, Person};

/// How long a credential is good unless said.
pub const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

words! {
    /// How it is with a credential.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CredentialStatus {
        /// A server takes it.
        Valid = "valid",
        /// Its time is over.
        Expired = "expired",
        /// Somebody revoked it.
        Revoked = "revoked",
    }
}

/// A credential without its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The user's name, which stands in its subjects.
    pub name: String,
    /// What kind of party it is for.
    pub role: CredentialRole,
    /// The user's public key.
    pub user: String,
    /// When it was made, in seconds since 1970.
    pub issued: u64,
    /// When its time is over; none when it never is.
    pub expires: Option<u64>,
    /// How it is with it now.
    pub standing: CredentialStatus,
    /// The file.
    pub path: PathBuf,
}

impl Authority {
    /// The credentials of the data directory, by file name. What another installation made is left out.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn credentials(&self) -> Result<Vec<Credential>, CredsError> {
        let revoked = self.revoked()?;
        let failed = |source| CredsError::File { path: self.creds_dir.clone(), source };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.creds_dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // What somebody is writing just now has another ending.
            if path.extension().is_some_and(|ending| ending == "creds") {
                found.extend(self.held(path, &revoked)?);
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    fn held(&self, path: PathBuf, revoked: &Revoked) -> Result<Option<Credential>, CredsError> {
        let Some(facts) = self.own(&path)? else { return Ok(None) };
        let Some(role) = facts.role else { return Ok(None) };
        let standing = if revoked.contains(&facts.user) {
            CredentialStatus::Revoked
        } else if facts.expires.is_some_and(|at| at <= now_secs()) {
            CredentialStatus::Expired
        } else {
            CredentialStatus::Valid
        };
        let UserFacts { name, user, issued, expires, .. } = facts;
        Ok(Some(Credential { name, role, user, issued, expires, standing, path }))
    }

    /// What is revoked.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn revoked(&self) -> Result<Revoked, CredsError> {
        Revoked::read(&self.keys_dir)
    }

    /// Makes a credential that is good for `lifetime`, in place of one that has expired or is revoked; a
    /// valid one is kept. A person has the role that is said, else the one of the credential before, else admin.
    ///
    /// # Errors
    /// As [`Authority::mint`], it is no person who is to have a role, or another's name differs in capitals alone.
    pub fn issue(
        &self,
        holder: &CredentialHolder,
        role: Option<Person>,
        lifetime: Duration,
    ) -> Result<PathBuf, CredsError> {
        holder.check()?;
        let path = self.creds_dir.join(holder.file_name());
        let held = self.credential(holder)?;
        let role = role_of(holder, held.as_ref(), role)?;
        if held.is_none() {
            self.no_other_spelling(holder)?;
        }
        if held.is_none_or(|held| held.standing != CredentialStatus::Valid) {
            let (whose, user) = ((role, &*holder.user_name()), KeyPair::new_user());
            self.write("creds.issue", &path, whose, (user, lifetime))?;
        }
        Ok(path)
    }

    /// Two people or programs whose names differ in capitals alone are taken for one by whoever reads them.
    fn no_other_spelling(&self, holder: &CredentialHolder) -> Result<(), CredsError> {
        let own = holder.file_name();
        let same = |held: &Credential| {
            let file = held.path.file_name().and_then(|name| name.to_str());
            held.standing != CredentialStatus::Revoked
                && file.is_some_and(|file| file != own && file.eq_ignore_ascii_case(&own))
        };
        let Some(held) = self.credentials()?.into_iter().find(same) else { return Ok(()) };
        let name = holder.to_string();
        let kind = name.strip_suffix(&*holder.user_name()).unwrap_or_default();
        let other = format!("{kind}{}", held.name);
        Err(CredsError::OtherSpelling { name, other })
    }

    /// Makes a credential with a new key and revokes the one before, whose role it has unless another is said.
    ///
    /// # Errors
    /// The party has none, it is no person who is to have a role, or a file cannot be written.
    pub fn rotate(
        &self,
        holder: &CredentialHolder,
        role: Option<Person>,
        lifetime: Duration,
    ) -> Result<PathBuf, CredsError> {
        let role = role_of(holder, self.credential(holder)?.as_ref(), role)?;
        self.end(holder, None)?;
        let path = self.creds_dir.join(holder.file_name());
        let (whose, user) = ((role, &*holder.user_name()), KeyPair::new_user());
        self.write("creds.rotate", &path, whose, (user, lifetime))?;
        Ok(path)
    }

    /// Revokes a party's credential. Servers take note when they are told (`server::claims`) or started.
    ///
    /// # Errors
    /// The party has none, or the file cannot be written.
    pub fn revoke(&self, holder: &CredentialHolder) -> Result<(), CredsError> {
        self.end(holder, Some(holder))
    }

    /// Revokes the credential of a party, which `ends` names when it gets no other.
    fn end(
        &self,
        holder: &CredentialHolder,
        ends: Option<&CredentialHolder>,
    ) -> Result<(), CredsError> {
        holder.check()?;
        let none = || CredsError::NotIssued { name: holder.to_string() };
        let credential = self.credential(holder)?.ok_or_else(none)?;
        let about = format!("{} {}", credential.role.as_str(), credential.name);
        self.note(("creds.revoke", &credential.user), &about, ends)?;
        Revoked::keep(&self.keys_dir, &credential.user)
    }

    /// The credential of a party.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn credential(&self, holder: &CredentialHolder) -> Result<Option<Credential>, CredsError> {
        self.held(self.creds_dir.join(holder.file_name()), &self.revoked()?)
    }

    /// Makes anew, with their keys, the credentials that are past half of their time, have none, or were made
    /// for another account. One that expired or is revoked stays as it is.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn renew(&self) -> Result<(), CredsError> {
        for Credential { name, role, issued, expires, standing, path, .. } in self.credentials()? {
            let old = expires.is_none_or(|at| now_secs() >= issued + at.saturating_sub(issued) / 2);
            let elsewhere = self
                .own(&path)?
                .is_none_or(|facts| facts.account != self.account(role).public_key());
            let lifetime =
                expires.map_or(LIFETIME, |at| Duration::from_secs(at.saturating_sub(issued)));
            if standing == CredentialStatus::Valid && (old || elsewhere) {
                let user = if elsewhere { KeyPair::new_user() } else { key_of(&path)? };
                self.write("creds.renew", &path, (role, &name), (user, lifetime))?;
            }
        }
        Ok(())
    }

    /// What a credential file of this installation says.
    fn own(&self, path: &Path) -> Result<Option<UserFacts>, CredsError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CredsError::File { path: path.to_owned(), source }),
        };
        let facts = std::str::from_utf8(&bytes).ok().and_then(jwt::user_facts);
        let Some(facts) = facts else { return Ok(None) };
        let Some(role) = facts.role else { return Ok(None) };
        Ok((facts.issuer == self.signer(role)?.public_key()).then_some(facts))
    }
}

/// The user's key in a credential file.
fn key_of(path: &Path) -> Result<KeyPair, CredsError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| CredsError::File { path: path.to_owned(), source })?;
    let broken =
        || CredsError::Key { path: path.to_owned(), reason: "it contains no user key".to_owned() };
    let seed = text.lines().find(|line| line.starts_with("SU")).ok_or_else(broken)?;
    KeyPair::from_seed(seed.trim()).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A person of each role, and what their credential says.
    fn each(check: impl Fn(&Authority, &CredentialHolder, &dyn Fn(&str))) {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        let holder = CredentialHolder::Human("ada".parse().unwrap());
        for person in Person::ALL {
            match authority.credential(&holder).unwrap() {
                None => authority.issue(&holder, Some(person), LIFETIME).unwrap(),
                Some(_) => authority.rotate(&holder, Some(person), LIFETIME).unwrap(),
            };
            let kept = |what: &str| {
                let held = authority.credential(&holder).unwrap().unwrap();
                let wanted = (CredentialRole::Human(person), CredentialStatus::Valid);
                assert_eq!((held.role, held.standing), wanted, "{what}");
            };
            kept("as it was said");
            check(&authority, &holder, &kept);
        }
    }

    #[test]
    fn replaced_person_credential_keeps_its_role() {
        each(|authority, holder, kept| {
            authority.issue(holder, None, LIFETIME).unwrap();
            kept("a valid one stays");
            authority.rotate(holder, None, Duration::ZERO).unwrap();
            authority.mint(holder).unwrap();
            kept("minted after its time");
            authority.rotate(holder, None, Duration::ZERO).unwrap();
            authority.issue(holder, None, LIFETIME).unwrap();
            kept("issued after its time");
            authority.revoke(holder).unwrap();
            authority.issue(holder, None, LIFETIME).unwrap();
            kept("issued after it was revoked");
        });
    }

    #[test]
    fn renewed_person_credential_keeps_its_role() {
        each(|authority, holder, kept| {
            let held = authority.credential(holder).unwrap().unwrap();
            let (signer, user) = (authority.signer(held.role).unwrap(), KeyPair::new_user());
            let keys = (signer, &authority.control);
            let old = jwt::user(held.role, keys, &user, "ada", LIFETIME).unwrap();
            let text = super::super::credential_text(&old, &user.seed().unwrap());
            std::fs::write(&held.path, &text).unwrap();
            authority.renew().unwrap();
            assert_ne!(
                std::fs::read_to_string(&held.path).unwrap(),
                text,
                "it was for another account"
            );
            kept("renewed");
        });
    }

    #[test]
    fn only_people_have_person_roles() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        for holder in [CredentialHolder::Control, CredentialHolder::Host("h1".parse().unwrap())] {
            authority.mint(&holder).unwrap();
            let before = authority.credential(&holder).unwrap();
            let refused = authority.rotate(&holder, Some(Person::Admin), LIFETIME);
            assert!(matches!(refused, Err(CredsError::NoPerson { .. })), "{refused:?}");
            assert_eq!(authority.credential(&holder).unwrap(), before, "it is not revoked");
        }
    }
}
