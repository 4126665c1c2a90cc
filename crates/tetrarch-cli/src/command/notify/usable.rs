//! Whether channels can be used as they are configured, on this machine and with the variables of this process. Nothing
//! is sent.

use std::ffi::OsStr;
use std::path::Path;

use rustix::fs::{Access, access};
use tetrarch_core::id::ChannelName;
use tetrarch_core::secret::SecretSource;
use tetrarch_core::url::url_fault;
use tetrarch_engine::ApiKey;

use super::delivering::{ChannelSender, DESKTOP};
use crate::config::{ChannelAddress, ChannelsSection};

/// What to do about a secret that is not there.
const SECRET_NEXT: &str =
    "set it where `tetrarch up` is started, or name another place in people.channels";

/// What stands in the way of a channel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChannelFault {
    /// In words, without a secret.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) next: String,
}

impl ChannelFault {
    fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into() }
    }
}

/// Every channel, with what stands in its way. A key that is not there stands in the way of all: nothing is sent without
/// the signature that was asked for. Blocks: a command that prints a key, for up to 10 s.
pub(crate) fn all(channels: &ChannelsSection) -> Vec<(ChannelName, Option<ChannelFault>)> {
    let key = ChannelSender::new(channels.key.as_ref()).err().map(|error| {
        let next = error.hint.clone().unwrap_or_default();
        (error.what, next)
    });
    let each = channels.channels.iter().map(|(name, address)| {
        let key = key.as_ref().map(|(what, next)| ChannelFault::new(what, next));
        (name.clone(), key.or_else(|| fault(address)))
    });
    each.collect()
}

/// What stands in the way of an address.
pub(super) fn fault(address: &ChannelAddress) -> Option<ChannelFault> {
    match address {
        ChannelAddress::Webhook(_) | ChannelAddress::Bell => None,
        ChannelAddress::SecretWebhook(source) => of_secret(source),
        ChannelAddress::Program(words) => of_program(words.first().map_or("", String::as_str)),
        ChannelAddress::Desktop => of_desktop(&std::env::var_os("PATH").unwrap_or_default()),
    }
}

fn of_secret(source: &SecretSource) -> Option<ChannelFault> {
    match ApiKey::found(source) {
        Err(cause) => Some(ChannelFault::new(cause.to_string(), SECRET_NEXT)),
        Ok(url) => url_fault(url.plain())
            .map(|fault| ChannelFault::new(format!("the address {fault}"), SECRET_NEXT)),
    }
}

fn of_program(program: &str) -> Option<ChannelFault> {
    let next = "install it or make it executable, or name another program in people.channels";
    (!runs(Path::new(program)))
        .then(|| ChannelFault::new(format!("{program} is no program that can be run"), next))
}

fn of_desktop(search: &OsStr) -> Option<ChannelFault> {
    let is_there = std::env::split_paths(search).any(|dir| runs(&dir.join(DESKTOP)));
    let next = "install it, or remove the channel from people.channels";
    (!is_there).then(|| ChannelFault::new(format!("{DESKTOP} was not found in PATH"), next))
}

fn runs(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn section(key: Option<&str>, channels: &[(&str, ChannelAddress)]) -> ChannelsSection {
        let named = |(name, address): &(&str, ChannelAddress)| {
            (ChannelName::new(name).unwrap(), address.clone())
        };
        ChannelsSection {
            channels: channels.iter().map(named).collect::<BTreeMap<_, _>>(),
            kinds: BTreeSet::new(),
            key: key.map(|name| SecretSource::Env(name.to_owned())),
        }
    }

    fn whats(channels: &ChannelsSection) -> Vec<String> {
        let what = |fault: Option<ChannelFault>| fault.map(|it| it.what).unwrap_or_default();
        all(channels).into_iter().map(|(_, fault)| what(fault)).collect()
    }

    #[test]
    fn channel_that_cannot_be_used_is_told_with_the_reason() {
        let program = |path: &str| ChannelAddress::Program(vec![path.to_owned(), "me".to_owned()]);
        let hook = ChannelAddress::SecretWebhook(SecretSource::Env("TETRARCH_NO_HOOK".to_owned()));
        let channels = [("a", program("/not/there")), ("b", hook), ("c", program("/bin/sh"))];
        let told = whats(&section(None, &channels));
        assert!(told[0].starts_with("/not/there is no program"), "{told:?}");
        assert!(told[1].contains("TETRARCH_NO_HOOK is missing"), "{told:?}");
        assert_eq!(told[2], "");
    }

    #[test]
    fn missing_key_stands_in_the_way_of_every_channel() {
        let channels = [("a", ChannelAddress::Bell), ("b", ChannelAddress::Desktop)];
        let told = whats(&section(Some("TETRARCH_NO_KEY"), &channels));
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|what| what.contains("TETRARCH_NO_KEY is missing")), "{told:?}");
    }

    #[test]
    fn desktop_needs_its_program_in_path() {
        let dir = tempfile::tempdir().unwrap();
        let missing = of_desktop(dir.path().as_os_str()).unwrap();
        assert_eq!(missing.what, "notify-send was not found in PATH");
        std::os::unix::fs::symlink("/bin/sh", dir.path().join(DESKTOP)).unwrap();
        assert_eq!(of_desktop(dir.path().as_os_str()), None);
    }
}
