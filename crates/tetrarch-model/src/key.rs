//! The key of a provider: in memory, and shown to nobody.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use tetrarch_core::redaction::{self, BuildError, SECRET_BYTES_MIN};
use tetrarch_core::secret::SecretSource;

/// What stands for a key where it is shown.
const SHOWN: &str = "[redacted:model_key]";

/// Most bytes of a key.
const BYTES_MAX: u64 = 64 * 1024;
/// How long a command may take to print it.
const COMMAND_WITHIN: Duration = Duration::from_secs(10);
/// Where systemd puts the credentials of a service.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Why a key is not found. Says nothing of what was read.
#[derive(Debug, thiserror::Error)]
pub enum NoKey {
    /// A variable is missing.
    #[error("the environment variable {0} is missing or empty")]
    Variable(String),
    /// A file cannot be read.
    #[error("cannot read {0}: {1}")]
    File(String, io::Error),
    /// A program does not say it.
    #[error("cannot start `{0}`: {1}")]
    Start(String, io::Error),
    /// A program takes too long.
    #[error("`{0}` printed no line within 10 s")]
    Late(String),
    /// What was read is empty.
    #[error("the first line of {0} is empty")]
    Empty(String),
    /// It is one too many to be hidden where somebody repeats it.
    #[error("its value cannot be redacted: {0}")]
    Hidden(#[from] BuildError),
}

/// A key; it shows itself to nobody, and from its making on it is hidden in all texts of this process.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key that was read.
    ///
    /// # Errors
    /// There are too many to hide them all.
    pub fn new(key: String) -> Result<Self, NoKey> {
        if !redaction::know(key.as_bytes())? {
            tracing::warn!(
                "a key of less than {SECRET_BYTES_MIN} bytes is not hidden where somebody repeats it"
            );
        }
        Ok(Self(key))
    }

    /// The key at its source, read now. Blocks: a command for up to 10 s.
    ///
    /// # Errors
    /// It is not there.
    pub fn found(source: &SecretSource) -> Result<Self, NoKey> {
        let variable = |name: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.trim().is_empty());
            value.ok_or_else(|| NoKey::Variable(name.to_owned()))
        };
        let key = match source {
            SecretSource::Env(name) => variable(name)?,
            SecretSource::Credential(name) => {
                first_line_of(&Path::new(&variable(CREDENTIALS)?).join(name))?
            }
            SecretSource::File(path) => first_line_of(Path::new(path))?,
            SecretSource::Command(words) => printed(words)?,
        };
        Self::new(key.trim().to_owned())
    }

    /// The key itself, for who shows it to the provider: this process, or the environment of a program that calls
    /// the model by itself.
    #[must_use]
    pub fn plain(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

fn first_line(from: impl Read) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(from.take(BYTES_MAX)).read_line(&mut line)?;
    Ok(line)
}

fn first_line_of(path: &Path) -> Result<String, NoKey> {
    let shown = path.display().to_string();
    let line = File::open(path).and_then(first_line);
    match line {
        Ok(line) if line.trim().is_empty() => Err(NoKey::Empty(shown)),
        Ok(line) => Ok(line),
        Err(cause) => Err(NoKey::File(shown, cause)),
    }
}

/// The first line that a program prints; its other words go nowhere.
fn printed(words: &[String]) -> Result<String, NoKey> {
    let shown = || words.first().cloned().unwrap_or_default();
    let failed = |cause| NoKey::Start(shown(), cause);
    let mut command = Command::new(shown());
    command.args(words.get(1..).unwrap_or_default());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let output = child.stdout.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
    let (tell, told) = sync_channel(1);
    std::thread::spawn(move || {
        // Nobody listens any more when it took too long.
        let _unheard = tell.send(first_line(output));
    });
    let line = told.recv_timeout(COMMAND_WITHIN);
    // What has said its line, or nothing for too long, is done; it may be gone already.
    if let Err(cause) = child.kill().and_then(|()| child.wait()) {
        tracing::debug!(%cause, "somebody else has waited for it");
    }
    match line {
        Ok(Ok(line)) if line.trim().is_empty() => Err(NoKey::Empty(shown())),
        Ok(Ok(line)) => Ok(line),
        Ok(Err(cause)) => Err(failed(cause)),
        Err(_) => Err(NoKey::Late(shown())),
    }
}

#[cfg(test)]
mod tests {
    use tetrarch_core::brief::Served;

    use super::*;
    use crate::Address;

    #[test]
    fn key_is_not_looked_up_for_an_address_that_exposes_it() {
        let address = |url: &str| {
            let served = Served {
                provider: "openai".to_owned(),
                base_url: url.to_owned(),
                key_from: "env:PATH".to_owned(),
                ..Served::default()
            };
            Address::of(&served, "m").map(|address| address.key.is_some())
        };
        let exposed = address("http://models.example/v1").unwrap_err();
        assert!(exposed.to_string().contains("without TLS, so the key"), "{exposed}");
        for url in ["https://models.example/v1", "http://127.0.0.1:1/v1", ""] {
            assert!(address(url).unwrap(), "{url}");
        }
    }

    #[test]
    fn key_is_the_first_line_of_its_source_and_errors_hide_it() {
        let found = |text: &str| ApiKey::found(&SecretSource::parse(text).unwrap());
        let path = std::env::temp_dir().join(format!("tetrarch-key-{}", std::process::id()));
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let file = format!("file:{}", path.display());
        assert_eq!(found(&file).unwrap().plain(), "one");
        assert_eq!(found(&format!("command:cat {}", path.display())).unwrap().plain(), "one");
        std::fs::write(&path, "\nsecret").unwrap();
        let empty = [found(&file), found(&format!("command:cat {}", path.display()))];
        std::fs::remove_file(&path).unwrap();
        for refused in empty.into_iter().chain([found(&file), found("command:/not/there x")]) {
            let words = refused.unwrap_err().to_string();
            assert!(!words.contains("secret") && !words.contains(" x"), "{words}");
        }
        assert_eq!(found("command:yes key").unwrap().plain(), "key");
        let endless = found("command:head -c 1000000 /dev/zero").unwrap();
        assert_eq!(endless.plain().len(), 64 * 1024);
        assert!(
            matches!(found("credential:key"), Err(NoKey::Variable(name)) if name == CREDENTIALS)
        );
        assert!(matches!(found("env:NOT_SET_ANYWHERE"), Err(NoKey::Variable(_))));
        let path = found("env:PATH").unwrap();
        assert_eq!(path.plain(), std::env::var("PATH").unwrap());
    }

    #[test]
    fn key_is_never_printed() {
        let key = ApiKey::new("sk-secret".to_owned()).unwrap();
        assert_eq!(format!("{key:?}"), SHOWN);
        let words = redaction::text("Incorrect API key provided: sk-secret.").into_owned();
        assert_eq!(words, "Incorrect API key provided: [redacted:secret].");
    }
}
