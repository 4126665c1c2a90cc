//! Credentials in a data directory: who has one, since when and for how long, which are replaced and
//! which are revoked.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tetrarch_core::words;

use nkeys::KeyPair;

use super::jwt::UserFacts;
use super::revoked::{Revoked, now_secs};
use super::{Authority, CredentialHolder, CredsError, ENDING, issued, jwt, role_of};
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
    /// The file; none when it was moved away, or something else is in it.
    pub path: Option<PathBuf>,
}

impl Credential {
    /// Whether a server takes it and its file is where it was made.
    pub(super) fn is_here(&self) -> bool {
        self.standing == CredentialStatus::Valid && self.path.is_some()
    }
}

impl Authority {
    /// The credentials of the installation, by file name, also those whose file was moved away. What another one
    /// made is left out.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn credentials(&self) -> Result<Vec<Credential>, CredsError> {
        let revoked = self.revoked()?;
        let mut found = Vec::new();
        for stem in self.stems()? {
            found.extend(self.of(&stem, &revoked)?);
        }
        Ok(found)
    }

    /// Whom something was issued to, as their files are called.
    fn stems(&self) -> Result<BTreeSet<String>, CredsError> {
        let failed = |source| CredsError::File { path: self.creds_dir.clone(), source };
        let mut stems: BTreeSet<String> = issued::holders(&self.keys_dir)?.into_iter().collect();
        for entry in std::fs::read_dir(&self.creds_dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(ENDING));
            stems.extend(stem.map(str::to_owned));
        }
        Ok(stems)
    }

    /// What a holder has: what is in their file, then each other credential that servers take. Of one who has
    /// neither, the latest.
    fn of(&self, stem: &str, revoked: &Revoked) -> Result<Vec<Credential>, CredsError> {
        let path = self.path(stem);
        let mut found: Vec<Credential> = self.held(&path, revoked)?.into_iter().collect();
        for own in &mut found {
            own.path = Some(path.clone());
        }
        let mut others = Vec::new();
        for path in issued::of(&self.keys_dir, stem)? {
            others.extend(self.held(&path, revoked)?);
        }
        let valid = |it: &Credential| it.standing == CredentialStatus::Valid;
        others.sort_by_key(|it| Reverse((valid(it), it.issued)));
        for other in others {
            let is_here = found.iter().any(|own| own.user == other.user);
            if !is_here && (valid(&other) || found.is_empty()) {
                found.push(other);
            }
        }
        Ok(found)
    }

    fn held(&self, path: &Path, revoked: &Revoked) -> Result<Option<Credential>, CredsError> {
        let Some(facts) = self.own(path)? else { return Ok(None) };
        let Some(role) = facts.role else { return Ok(None) };
        let standing = if revoked.contains(&facts.user) {
            CredentialStatus::Revoked
        } else if facts.expires.is_some_and(|at| at <= now_secs()) {
            CredentialStatus::Expired
        } else {
            CredentialStatus::Valid
        };
        let UserFacts { name, user, issued, expires, .. } = facts;
        Ok(Some(Credential { name, role, user, issued, expires, standing, path: None }))
    }

    /// Keeps what is issued to a holder, and forgets what of theirs no server takes any more.
    pub(super) fn record(&self, stem: &str, (user, token): (&str, &str)) -> Result<(), CredsError> {
        issued::keep(&self.keys_dir, stem, (user, token))?;
        let revoked = self.revoked()?;
        for path in issued::of(&self.keys_dir, stem)? {
            if let Some(old) = self.held(&path, &revoked)?
                && old.standing != CredentialStatus::Valid
                && old.user != user
            {
                issued::forget(&self.keys_dir, stem, &old.user)?;
            }
        }
        Ok(())
    }

    /// What is revoked.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn revoked(&self) -> Result<Revoked, CredsError> {
        Revoked::read(&self.keys_dir)
    }

    /// Makes a credential that is good for `lifetime`, in place of one that has expired or is revoked; a
    /// valid one is kept, whose file is here. A person has the role that is said, else the one of the credential
    /// before, else admin.
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
        let (stem, held) = (holder.file_stem(), self.credential(holder)?);
        let role = role_of(holder, held.as_ref(), role)?;
        if held.is_none() {
            self.no_other_spelling(holder)?;
        }
        if held.is_some_and(|held| held.is_here()) {
            return Ok(self.path(&stem));
        }
        let (whose, user) = ((role, &*holder.user_name()), KeyPair::new_user());
        self.write("creds.issue", &stem, whose, (user, lifetime))
    }

    /// Two people or programs whose names differ in capitals alone are taken for one by whoever reads them.
    fn no_other_spelling(&self, holder: &CredentialHolder) -> Result<(), CredsError> {
        let (own, revoked) = (holder.file_stem(), self.revoked()?);
        let same = |stem: &String| *stem != own && stem.eq_ignore_ascii_case(&own);
        for stem in self.stems()?.into_iter().filter(same) {
            let held = self.of(&stem, &revoked)?.into_iter();
            if let Some(held) = held.into_iter().find(|it| it.standing != CredentialStatus::Revoked)
            {
                let name = holder.to_string();
                let kind = name.strip_suffix(&*holder.user_name()).unwrap_or_default();
                let other = format!("{kind}{}", held.name);
                return Err(CredsError::OtherSpelling { name, other });
            }
        }
        Ok(())
    }

    /// Makes a credential with a new key and revokes those before, whose role it has unless another is said.
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
        let (whose, user) = ((role, &*holder.user_name()), KeyPair::new_user());
        self.write("creds.rotate", &holder.file_stem(), whose, (user, lifetime))
    }

    /// Revokes a party's credentials. Servers take note when they are told (`server::claims`) or started.
    ///
    /// # Errors
    /// The party has none, or the file cannot be written.
    pub fn revoke(&self, holder: &CredentialHolder) -> Result<(), CredsError> {
        self.end(holder, Some(holder))
    }

    /// Revokes all credentials of a party, which `ends` names when it gets no other.
    fn end(
        &self,
        holder: &CredentialHolder,
        ends: Option<&CredentialHolder>,
    ) -> Result<(), CredsError> {
        holder.check()?;
        let all = self.of(&holder.file_stem(), &self.revoked()?)?;
        if all.is_empty() {
            return Err(CredsError::NotIssued { name: holder.to_string() });
        }
        for credential in all {
            let about = format!("{} {}", credential.role.as_str(), credential.name);
            self.note(("creds.revoke", &credential.user), &about, ends)?;
            Revoked::keep(&self.keys_dir, &credential.user)?;
        }
        Ok(())
    }

    /// The credential of a party: the one in its file, else the latest that a server takes.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn credential(&self, holder: &CredentialHolder) -> Result<Option<Credential>, CredsError> {
        Ok(self.of(&holder.file_stem(), &self.revoked()?)?.into_iter().next())
    }

    /// Makes anew, with their keys, the credentials that are past half of their time, have none, or were made
    /// for another account. One that expired, is revoked or was moved away stays as it is. What was issued before
    /// such was kept is kept from now on.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn renew(&self) -> Result<(), CredsError> {
        let revoked = self.revoked()?;
        for stem in self.stems()? {
            let path = self.path(&stem);
            let Some(held) = self.held(&path, &revoked)? else { continue };
            let Credential { name, role, user, issued, expires, standing, .. } = held;
            let old = expires.is_none_or(|at| now_secs() >= issued + at.saturating_sub(issued) / 2);
            let elsewhere = self
                .own(&path)?
                .is_none_or(|facts| facts.account != self.account(role).public_key());
            let lifetime =
                expires.map_or(LIFETIME, |at| Duration::from_secs(at.saturating_sub(issued)));
            if standing == CredentialStatus::Valid && (old || elsewhere) {
                let user = if elsewhere { KeyPair::new_user() } else { key_of(&path)? };
                self.write("creds.renew", &stem, (role, &name), (user, lifetime))?;
            } else if !issued::is_kept(&self.keys_dir, &stem, &user)
                && let Some(token) = jwt::token_in(&text_of(&path)?)
            {
                issued::keep(&self.keys_dir, &stem, (&user, token))?;
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

fn text_of(path: &Path) -> Result<String, CredsError> {
    std::fs::read_to_string(path)
        .map_err(|source| CredsError::File { path: path.to_owned(), source })
}

/// The user's key in a credential file.
fn key_of(path: &Path) -> Result<KeyPair, CredsError> {
    let text = text_of(path)?;
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
            let path = held.path.unwrap();
            std::fs::write(&path, &text).unwrap();
            authority.renew().unwrap();
            assert_ne!(std::fs::read_to_string(&path).unwrap(), text, "it was for another account");
            kept("renewed");
        });
    }

    /// Gives somebody's credential away, and its user's key.
    fn given_away(authority: &Authority, holder: &CredentialHolder) -> String {
        let held = authority.credential(holder).unwrap().unwrap();
        std::fs::remove_file(held.path.unwrap()).unwrap();
        held.user
    }

    #[test]
    fn credential_without_its_file_keeps_its_role_and_ends_by_name() {
        each(|authority, holder, kept| {
            let away = given_away(authority, holder);
            kept("its file is away");
            authority.renew().unwrap();
            authority.revoke(holder).unwrap();
            assert!(authority.revoked().unwrap().contains(&away), "revoked");
            assert!(matches!(authority.mint(holder), Err(CredsError::Over { .. })));
            authority.issue(holder, None, LIFETIME).unwrap();
            kept("issued after it was revoked");

            let (one, file) = (given_away(authority, holder), authority.mint(holder).unwrap());
            kept("a second one");
            std::fs::write(file, "damaged").unwrap();
            let two = authority.credential(holder).unwrap().unwrap().user;
            authority.rotate(holder, None, LIFETIME).unwrap();
            kept("rotated");
            let revoked = authority.revoked().unwrap();
            assert!(revoked.contains(&one) && revoked.contains(&two), "{revoked:?}");
            let all = authority.credentials().unwrap();
            assert_eq!(all.len(), 1, "what is revoked is not listed beside another: {all:?}");
        });
    }

    #[test]
    fn kept_token_has_no_key_and_goes_after_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::open_or_create(dir.path()).unwrap();
        let holder = CredentialHolder::Human("ada".parse().unwrap());
        authority.issue(&holder, Some(Person::Viewer), Duration::ZERO).unwrap();
        let expired = given_away(&authority, &holder);
        assert_eq!(
            authority.credential(&holder).unwrap().unwrap().role,
            CredentialRole::Human(Person::Viewer),
            "the latest is kept"
        );
        authority.issue(&holder, None, LIFETIME).unwrap();
        let kept = dir.path().join("keys/issued/human-ada");
        let files: Vec<_> = kept.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
        let [file] = &files[..] else { panic!("{files:?}") };
        assert!(!file.ends_with(&expired), "{file:?}");
        assert!(key_of(file).is_err(), "no seed");
    }

    #[test]
    fn credential_from_before_tokens_were_kept_goes_on() {
        each(|authority, holder, kept| {
            let kept_dir = authority.keys_dir.join("issued");
            std::fs::remove_dir_all(&kept_dir).unwrap();
            kept("its file is enough");
            let before = authority.credential(holder).unwrap();
            authority.renew().unwrap();
            assert_eq!(authority.credential(holder).unwrap(), before, "it is the same");
            let away = given_away(authority, holder);
            kept("kept by the renewal");
            authority.revoke(holder).unwrap();
            assert!(authority.revoked().unwrap().contains(&away));
            authority.issue(holder, None, LIFETIME).unwrap();
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
