//! Prepares a run of a coding agent: its command, its environment with the key, and the directory in which it keeps its
//! conversation from one session of an agent to the next. Blocks; starts nothing.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, Mode, OFlags, openat};
use tetrarch_core::brief::Runner;
use tetrarch_core::converse::cost::Prices;
use tetrarch_core::destination::{Network, NoDestination};
use tetrarch_core::id::RunId;
use tetrarch_core::order::Start;
use tetrarch_model::{Address, ApiKey, BadAddress};
use tokio::task::JoinError;
use url::Url;

use super::session::AgentSession;
use super::starting::{AgentStart, McpCommand, addresses, key_variable, session_brief};
use super::{Adapter, acp, claude, codex};
use crate::backend::llm::whose;
use crate::containment::Containment;
use crate::gateway::{GatewayTarget, ModelGateway, ModelProvider, NoGateway};
use crate::removal::remove_tree;

/// Where agents keep their conversations, below the directory of runs.
pub(crate) const CONVERSATIONS: &str = ".conversations";
/// How long a conversation is kept that nobody goes on with. An agent that waits for people may wait long.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Why a coding agent cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotPrepared {
    /// Its key is not there.
    #[error("profile `{profile}`: {cause}")]
    Key { profile: String, cause: BadAddress },
    /// Its model's address is no address.
    #[error(
        "profile `{profile}`: baseUrl {url:?} is no address of a model; expected http://HOST:PORT or https://HOST"
    )]
    Address { profile: String, url: String },
    /// Its calls of its model cannot be passed on.
    #[error(transparent)]
    Gateway(#[from] NoGateway),
    /// An entry of the tools is no destination.
    #[error("tools: {0}")]
    NoDestination(#[from] NoDestination),
    /// Preparing it was cut off.
    #[error("preparing it failed: {0}; start it again")]
    Aside(JoinError),
    /// Its conversations cannot be kept.
    #[error(
        "cannot use {path} for the agent's conversation: {cause}; free space and let the host's user write there"
    )]
    Directory { path: PathBuf, cause: io::Error },
}

/// A run that can be started.
#[derive(Debug)]
pub(crate) struct PreparedAgent {
    /// What is said to it and by it.
    pub(crate) session: AgentSession,
    /// Where it keeps its conversation: to be removed when nobody goes on with it.
    pub(crate) conversation: PathBuf,
}

/// What there is besides a program that can be started.
#[derive(Debug, Default)]
pub(crate) struct PreparedProgram {
    /// Where it calls its model, if its provider is known.
    pub(crate) gateway: Option<ModelGateway>,
    /// What a coding agent has.
    pub(crate) agent: Option<PreparedAgent>,
}

/// Prepares `start` for its program: `start` is what is to be launched afterwards, on a host that keeps runs to
/// `containment` and knows these prices.
///
/// # Errors
/// The key or the way to the model is missing, or nothing can be kept.
pub(crate) fn prepare(
    start: &mut Start,
    workspace_dir: &Path,
    containment: &Containment,
    prices: &Prices,
) -> Result<PreparedProgram, NotPrepared> {
    let runner = &start.brief.runner;
    let (adapter, named) = (Adapter::of(runner.kind), runner.served.provider.as_str());
    let provider = match adapter {
        Some(adapter) => adapter.provider(named),
        None => ModelProvider::named(named),
    };
    if adapter.is_none() && provider.is_none() {
        return Ok(PreparedProgram::default());
    }
    let profile = runner.profile.to_string();
    let key = Address::of(&runner.served, &runner.model)
        .map_err(|cause| NotPrepared::Key { profile, cause })?
        .key;
    let (gateway, key) = match provider {
        Some(provider) => {
            let gateway = gateway(provider, start, containment.network, key, prices)?;
            start.brief.runner.served.base_url = gateway.base_url();
            let token = gateway.key();
            (Some(gateway), token)
        }
        None => (None, key.map(|key| key.plain().to_owned())),
    };
    let agent = match adapter {
        Some(adapter) => Some(prepare_agent(adapter, start, workspace_dir, containment, key)?),
        None => {
            let runner = &mut start.brief.runner;
            runner.env.extend(addresses(&runner.served));
            runner.env.extend(key.map(|key| (key_variable(&runner.served), key)));
            None
        }
    };
    Ok(PreparedProgram { gateway, agent })
}

fn prepare_agent(
    adapter: Adapter,
    start: &mut Start,
    workspace_dir: &Path,
    containment: &Containment,
    key: Option<String>,
) -> Result<PreparedAgent, NotPrepared> {
    let path = directory_of(workspace_dir, start.first);
    let failed = |cause| NotPrepared::Directory { path: path.clone(), cause };
    fs::create_dir_all(&path).map_err(failed)?;
    let directory = path.to_string_lossy().into_owned();
    let fleet = McpCommand::of(start, containment.launcher.argv.first(), &path);
    let (sheet, prepared) = match adapter {
        Adapter::Claude => {
            let conversation = claude::conversation(start.first.0);
            let transcripts = path.join(claude::starting::TRANSCRIPTS);
            let goes_on = has_begun(&transcripts, &conversation).map_err(failed)?;
            (claude::SHEET, claude::starting::prepared(start, goes_on, &directory, fleet.as_ref()))
        }
        Adapter::Codex => {
            keep_only(&path, codex::starting::TRANSCRIPTS).map_err(failed)?;
            (codex::SHEET, codex::starting::prepared(start, &directory, fleet.as_ref()))
        }
        Adapter::Acp => (acp::SHEET, acp::starting::prepared(start, &directory, fleet)),
    };
    let AgentStart { arguments, environment, key_variable, dialect } = prepared;
    let session = AgentSession::new(sheet, dialect, session_brief(adapter, start));
    command(&mut start.brief.runner, arguments, environment, (key_variable, key));
    Ok(PreparedAgent { session, conversation: path })
}

/// Adds to what its profile says of the command.
fn command(
    runner: &mut Runner,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    (variable, key): (String, Option<String>),
) {
    if runner.argv.is_empty() {
        runner.argv.push(runner.kind.program().to_owned());
    }
    runner.argv.extend(arguments);
    runner.env.extend(environment);
    runner.env.extend(key.map(|key| (variable, key)));
}

/// Where its program calls its model.
fn gateway(
    provider: &ModelProvider,
    start: &Start,
    is_open: bool,
    key: Option<ApiKey>,
    prices: &Prices,
) -> Result<ModelGateway, NotPrepared> {
    let runner = &start.brief.runner;
    let own = &runner.served.base_url;
    let url = if own.is_empty() { provider.base_url } else { own };
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(base_url) = parsed.filter(|url| url.has_host()) else {
        let profile = runner.profile.to_string();
        return Err(NotPrepared::Address { profile, url: url.to_owned() });
    };
    Ok(ModelGateway::open(GatewayTarget {
        base_url: &base_url,
        provider: provider.name,
        output_max: runner.served.max_output_tokens,
        budget: start.brief.budget,
        key,
        prices,
        is_open: is_open || Network::of(&start.brief.tools)? == Network::Open,
        whose: whose(start),
    })?)
}

/// Where the agent of a run keeps its conversation; `first` is the first of the runs that go on from each other.
pub(crate) fn directory_of(workspace_dir: &Path, first: RunId) -> PathBuf {
    workspace_dir.join(CONVERSATIONS).join(first.to_string())
}

/// Whether a transcript of this name has a message in it: a program that was killed before has none to go on from. The
/// program can have put anything in its place.
fn has_begun(transcripts: &Path, name: &str) -> io::Result<bool> {
    let entries = match fs::read_dir(transcripts) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(cause) => return Err(cause),
    };
    for entry in entries.take(DIRECTORIES_MAX) {
        let path = entry?.path().join(format!("{name}.jsonl"));
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(CWD, &path, flags, Mode::empty()).map(File::from) else { continue };
        if !file.metadata()?.is_file() {
            continue;
        }
        let mut start = Vec::new();
        file.take(TRANSCRIPT_BYTES).read_to_end(&mut start)?;
        if start.windows(MESSAGE.len()).any(|part| part == MESSAGE) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes what a program kept besides its transcripts. Whoever wrote in its directory would otherwise say how the next
/// session is to be.
fn keep_only(directory: &Path, transcripts: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() == transcripts {
            continue;
        }
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Directories of transcripts that are looked at: there is one for each place that the agent worked in.
const DIRECTORIES_MAX: usize = 64;
/// Bytes at the start of a transcript in which its first message is.
const TRANSCRIPT_BYTES: u64 = 1024 * 1024;
/// By what a message is known in a transcript.
const MESSAGE: &[u8] = br#""type":"user""#;

/// Removes what a run kept. Blocks.
pub(crate) fn forget(conversation: &Path) {
    if let Err(cause) = remove_tree(conversation) {
        tracing::warn!(dir = %conversation.display(), %cause, "removing an agent's conversation failed; it is removed when it is old");
    }
}

/// Removes conversations that nobody went on with for long. Blocks.
pub(crate) fn clear_old(workspace_dir: &Path) {
    let old = |path: &Path| {
        let changed = fs::metadata(path).and_then(|about| about.modified());
        changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > KEPT))
    };
    // What cannot be read now is looked at when the host starts again.
    let entries = fs::read_dir(workspace_dir.join(CONVERSATIONS)).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| old(&entry.path())) {
        forget(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::FileType;

    use super::*;

    #[test]
    fn only_a_transcript_with_a_message_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("-tmp-x");
        assert!(!has_begun(dir.path(), "one").unwrap());
        fs::create_dir(&place).unwrap();
        assert!(!has_begun(dir.path(), "one").unwrap());
        let file = place.join("one.jsonl");
        fs::write(&file, "{\"type\":\"mode\"}\n").unwrap();
        assert!(!has_begun(dir.path(), "one").unwrap());
        fs::write(&file, "{\"type\":\"mode\"}\n{\"a\":1,\"type\":\"user\",\"b\":2}\n").unwrap();
        assert!(has_begun(dir.path(), "one").unwrap());
        assert!(!has_begun(dir.path(), "two").unwrap());
        assert!(!has_begun(&dir.path().join("none"), "one").unwrap());
    }

    #[test]
    fn transcript_that_is_a_link_a_pipe_or_without_end_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("-tmp-x");
        fs::create_dir(&place).unwrap();
        let message = dir.path().join("message");
        fs::write(&message, MESSAGE).unwrap();
        std::os::unix::fs::symlink(&message, place.join("link.jsonl")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", place.join("zero.jsonl")).unwrap();
        rustix::fs::mknodat(CWD, place.join("pipe.jsonl"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let long = File::create(place.join("long.jsonl")).unwrap();
        long.set_len(1 << 36).unwrap();
        for name in ["link", "zero", "pipe", "long"] {
            assert!(!has_begun(dir.path(), name).unwrap(), "{name}");
        }
    }

    #[test]
    fn directory_of_a_conversation_loses_all_but_its_transcripts() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("sessions");
        for name in ["sessions/2026", "rules"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        for name in ["sessions/2026/a.jsonl", "rules/default.rules", "config.toml"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink(&kept, dir.path().join("link")).unwrap();
        keep_only(dir.path(), "sessions").unwrap();
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(left.as_slice(), std::slice::from_ref(&kept));
        assert!(kept.join("2026/a.jsonl").exists(), "a link is not followed");
    }

    #[test]
    fn conversation_is_kept_until_it_is_old() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| dir.path().join(CONVERSATIONS).join(name);
        for name in ["new", "old"] {
            fs::create_dir_all(of(name)).unwrap();
        }
        let then = SystemTime::now() - KEPT - Duration::from_secs(60);
        File::open(of("old")).unwrap().set_modified(then).unwrap();
        clear_old(dir.path());
        assert_eq!((of("new").exists(), of("old").exists()), (true, false));
        forget(&of("new"));
        assert!(!of("new").exists());
    }
}
