//! `[people]`, channels: by which ways a person is told (spec 08, IO). Addresses are read here; what is sent to them is
//! `notify`'s.

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_core::id::ChannelName;
use tetrarch_core::secret::SecretSource;
use tetrarch_core::url::url_fault;
use tetrarch_view::notice::NoticeKind;

use super::laws::shown;
use super::settings::Settings;
use super::source::ConfigErrors;
use crate::CliResult;

const CHANNELS: &str = "people.channels";
const KINDS: &str = "people.notify";
const KEY: &str = "people.channel_key";
/// What an address may be, for people.
const ALLOWED: &str = "an https address, env:NAME, credential:NAME or file:/path that holds one, run:/program with arguments, desktop or bell";

/// Where a channel leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChannelAddress {
    /// A server that takes notices.
    Webhook(String),
    /// The same, its address a secret.
    SecretWebhook(SecretSource),
    /// A program that gets a notice on standard input; words between blanks, no shell.
    Program(Vec<String>),
    /// The desktop of this machine.
    Desktop,
    /// The terminal where the fleet was started.
    Bell,
}

impl ChannelAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it.
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(words) = text.strip_prefix("run:") {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            return match words.first() {
                Some(program) if program.starts_with('/') => Ok(Self::Program(words)),
                Some(_) | None => Err("names no program by its whole path".to_owned()),
            };
        }
        match (text, SecretSource::parse(text)) {
            ("desktop", _) => Ok(Self::Desktop),
            ("bell", _) => Ok(Self::Bell),
            (_, Some(SecretSource::Command(_))) => Err("is no address".to_owned()),
            (_, Some(source)) => Ok(Self::SecretWebhook(source)),
            (_, None) => match url_fault(text) {
                None => Ok(Self::Webhook(text.to_owned())),
                Some(fault) => Err(fault.to_owned()),
            },
        }
    }
}

/// How a person is told.
#[derive(Debug, Clone)]
pub(crate) struct ChannelsSection {
    /// Ways, by name.
    pub(crate) channels: BTreeMap<ChannelName, ChannelAddress>,
    /// What is told.
    pub(crate) kinds: BTreeSet<NoticeKind>,
    /// Where the key is found that webhooks are signed with.
    pub(crate) key: Option<SecretSource>,
}

impl ChannelsSection {
    pub(super) fn of(settings: &Settings) -> CliResult<Self> {
        let key: Option<String> = settings.get(KEY)?;
        let (channels, _) = channels(settings)?;
        let (kinds, _) = kinds(settings)?;
        Ok(Self { channels, kinds, key: key.and_then(|from| SecretSource::parse(&from)) })
    }
}

/// The channels that can be read, and what is wrong with the others.
fn channels(
    settings: &Settings,
) -> CliResult<(BTreeMap<ChannelName, ChannelAddress>, Vec<String>)> {
    let (mut channels, mut faults) = (BTreeMap::new(), Vec::new());
    for (name, address) in settings.get::<BTreeMap<String, String>>(CHANNELS)? {
        match (ChannelName::new(&name), ChannelAddress::parse(&address)) {
            (Ok(name), Ok(address)) => {
                channels.insert(name, address);
            }
            (Err(error), _) => faults.push(error.to_string()),
            (_, Err(fault)) => faults.push(format!("{name} {fault}; allowed: {ALLOWED}")),
        }
    }
    Ok((channels, faults))
}

/// The kinds that there are, and which there are not.
fn kinds(settings: &Settings) -> CliResult<(BTreeSet<NoticeKind>, Vec<String>)> {
    let (mut kinds, mut faults) = (BTreeSet::new(), Vec::new());
    for word in settings.get::<Vec<String>>(KINDS)? {
        match NoticeKind::ALL.into_iter().find(|kind| kind.as_str() == word) {
            Some(kind) => {
                kinds.insert(kind);
            }
            None => {
                let all = NoticeKind::ALL.map(NoticeKind::as_str).join(", ");
                faults.push(format!("{word:?} is no kind of notice; allowed: {all}"));
            }
        }
    }
    Ok((kinds, faults))
}

/// Adds what is wrong with channels and kinds, each with where it comes from.
pub(super) fn check(settings: &Settings, faults: &mut ConfigErrors) -> CliResult {
    for (key, found) in [(CHANNELS, channels(settings)?.1), (KINDS, kinds(settings)?.1)] {
        for fault in found {
            faults.add(format!("{}: {fault}", shown(settings, key)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_address_is_read_by_its_form() {
        let words = ["/bin/page", "me"].map(str::to_owned).to_vec();
        for (text, address) in [
            ("https://x.example/a?b=c", ChannelAddress::Webhook("https://x.example/a?b=c".into())),
            ("http://127.0.0.1:9/a", ChannelAddress::Webhook("http://127.0.0.1:9/a".into())),
            ("env:HOOK", ChannelAddress::SecretWebhook(SecretSource::Env("HOOK".into()))),
            ("run:/bin/page  me", ChannelAddress::Program(words)),
            ("desktop", ChannelAddress::Desktop),
            ("bell", ChannelAddress::Bell),
        ] {
            assert_eq!(ChannelAddress::parse(text), Ok(address), "{text}");
        }
        for (text, fault) in [
            ("http://x.example/a", "without TLS"),
            ("run:page", "whole path"),
            ("run:", "whole path"),
            ("command:cat x", "no address"),
            ("phone", "no http"),
        ] {
            let refused = ChannelAddress::parse(text).unwrap_err();
            assert!(refused.contains(fault), "{text}: {refused}");
        }
    }
}
