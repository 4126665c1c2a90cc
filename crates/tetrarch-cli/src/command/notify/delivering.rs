//! Bringing a notice to its channel, once: a webhook, a program, the desktop, a terminal.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::redirect::Policy;
use ring::hmac;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tetrarch_core::secret::SecretSource;
use tetrarch_core::url::url_fault;
use tetrarch_engine::{ApiKey, HttpClient, http_client};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::config::ChannelAddress;
use crate::output::{self, say};
use crate::{CliError, CliResult, Code};

/// How long a server may take to answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// How long a program may take.
const RUNS_WITHIN: Duration = Duration::from_secs(30);
/// The program that shows a notice on the desktop.
pub(super) const DESKTOP: &str = "notify-send";
/// What the keys of Standard Webhooks begin with.
const KEY_PREFIX: &str = "whsec_";
/// Statuses below 500 after which a server may take the same later.
const LATER: [u16; 3] = [408, 425, 429];
/// Variables that a program of a channel gets.
const PASSED: [&str; 10] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "LANG",
    "PATH",
    "TZ",
    "USER",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// What is brought to a channel.
#[derive(Debug)]
pub(super) struct NoticeMessage {
    /// The notice's id.
    pub(super) id: String,
    /// It in one line.
    pub(super) line: String,
    /// It for programs.
    pub(super) value: Value,
}

/// Why a notice did not arrive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Undelivered {
    /// In words, without the address.
    pub(super) why: String,
    /// Whether it may arrive later.
    pub(super) passes: bool,
}

impl Undelivered {
    fn passing(why: impl Into<String>) -> Self {
        Self { why: why.into(), passes: true }
    }

    fn lasting(why: impl Into<String>) -> Self {
        Self { why: why.into(), passes: false }
    }
}

/// Brings notices to channels.
#[derive(Debug, Clone)]
pub(super) struct ChannelSender {
    http: HttpClient,
    /// For addresses of this machine: a proxy would take what is sent there elsewhere.
    local: HttpClient,
    key: Option<hmac::Key>,
}

impl ChannelSender {
    /// With the key that webhooks are signed with, read now.
    ///
    /// # Errors
    /// The key is not there, or there is no client.
    pub(super) fn new(key: Option<&SecretSource>) -> CliResult<Self> {
        let wrong = |cause: String| {
            CliError::new(Code::Usage, format!("people.channel_key: {cause}"))
                .hint("name a variable or file with the key, or leave people.channel_key out")
        };
        let key = key.map(|source| {
            let key = ApiKey::found(source).map_err(|cause| wrong(cause.to_string()))?;
            signing_key(key.plain()).ok_or_else(|| wrong("is no base64 after whsec_".to_owned()))
        });
        let http = http_client().map_err(CliError::failed)?;
        let local = HttpClient::builder().no_proxy().redirect(Policy::none()).build();
        Ok(Self { http, local: local.map_err(CliError::failed)?, key: key.transpose()? })
    }

    /// Brings a notice to an address.
    ///
    /// # Errors
    /// Why it did not arrive.
    pub(super) async fn deliver(
        &self,
        address: &ChannelAddress,
        notice: &NoticeMessage,
    ) -> Result<(), Undelivered> {
        match address {
            ChannelAddress::Webhook(url) => self.post(url, notice).await,
            ChannelAddress::SecretWebhook(source) => {
                let url = ApiKey::found(source);
                let url = url.map_err(|cause| Undelivered::passing(cause.to_string()))?;
                match url_fault(url.plain()) {
                    None => self.post(url.plain(), notice).await,
                    Some(fault) => Err(Undelivered::lasting(format!("the address {fault}"))),
                }
            }
            ChannelAddress::Program(words) => run(words, notice.value.to_string()).await,
            ChannelAddress::Desktop => {
                let kind = notice.value["kind"].as_str().unwrap_or_default();
                let title = format!("tetrarch: {kind}");
                let words = [DESKTOP, "--app-name=tetrarch", "--", &title, &notice.line];
                run(&words.map(str::to_owned), String::new()).await
            }
            ChannelAddress::Bell => {
                if output::is_terminal() {
                    // Whoever closed the terminal hears nothing.
                    let _unheard = std::io::stderr().write_all(b"\x07");
                }
                say(&notice.line);
                Ok(())
            }
        }
    }

    /// Posts a notice as Standard Webhooks says: an id that stays the same, the time, and a signature of both and the body.
    async fn post(&self, url: &str, notice: &NoticeMessage) -> Result<(), Undelivered> {
        let body = notice.value.to_string();
        let time = (output::now().0 / 1000).to_string();
        let client = if url.starts_with("https:") { &self.http } else { &self.local };
        let request = client.post(url).timeout(ANSWERED_WITHIN);
        let request = request.header("content-type", "application/json");
        let request = request.header("webhook-id", &notice.id).header("webhook-timestamp", &time);
        let request = match &self.key {
            Some(key) => {
                request.header("webhook-signature", signature(key, &notice.id, &time, &body))
            }
            None => request,
        };
        // The address may be a secret.
        let answer = request.body(body).send().await.map_err(|error| error.without_url());
        let answer = answer.map_err(|error| Undelivered::passing(with_causes(&error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let why = format!("the server answered {status}");
        let passes = status.is_server_error() || LATER.contains(&status.as_u16());
        Err(Undelivered { why, passes })
    }
}

/// An error with what it comes from.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The key behind its text: base64 after `whsec_`, else the text itself; none of what is no base64.
fn signing_key(text: &str) -> Option<hmac::Key> {
    let bytes = match text.strip_prefix(KEY_PREFIX) {
        Some(rest) => STANDARD.decode(rest).ok()?,
        None => text.as_bytes().to_vec(),
    };
    Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

fn signature(key: &hmac::Key, id: &str, time: &str, body: &str) -> String {
    let tag = hmac::sign(key, format!("{id}.{time}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

/// Runs a program with this on its standard input.
async fn run(words: &[String], input: String) -> Result<(), Undelivered> {
    let program = words.first().cloned().unwrap_or_default();
    let passed = PASSED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let mut command = Command::new(&program);
    command.args(words.get(1..).unwrap_or_default()).env_clear().envs(passed).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command
        .spawn()
        .map_err(|cause| Undelivered::passing(format!("cannot start {program}: {cause}")))?;
    let group = ProgramGroup(child.id());
    let stdin = child.stdin.take();
    let ended = async {
        if let Some(mut stdin) = stdin {
            // A program may end without reading it.
            let _unread = stdin.write_all(input.as_bytes()).await;
        }
        child.wait().await
    };
    let ended = tokio::time::timeout(RUNS_WITHIN, ended).await;
    drop(group);
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(Undelivered::passing(format!("{program} ended with {status}"))),
        Ok(Err(cause)) => Err(Undelivered::passing(format!("{program}: {cause}"))),
        Err(_) => {
            let within = RUNS_WITHIN.as_secs();
            Err(Undelivered::passing(format!("{program} did not end within {within} s")))
        }
    }
}

/// A program with all that it started, killed when nobody waits for it any more.
struct ProgramGroup(Option<u32>);

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        let leader = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            // There is nobody left of most.
            let _gone = kill_process_group(leader, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_that_of_standard_webhooks() {
        // The vector of the reference implementations.
        let key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert!(signing_key("whsec_no base64!").is_none());
        let body = r#"{"test": 2432232314}"#;
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let plain = |key: &str| signature(&signing_key(key).unwrap(), "a", "1", body);
        assert_ne!(plain("own words"), plain("other"));
    }

    #[tokio::test]
    async fn program_gets_the_notice_and_none_of_our_variables() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("channel");
        let heard = dir.path().join("heard");
        let text = format!("#!/bin/sh\ncat > {0}\nenv >> {0}\nexit $1\n", heard.display());
        std::fs::write(&script, text).unwrap();
        let words =
            |code: &str| vec!["/bin/sh".to_owned(), script.display().to_string(), code.into()];
        assert_eq!(run(&words("0"), "{\"id\":1}\n".to_owned()).await, Ok(()));
        let text = std::fs::read_to_string(&heard).unwrap();
        assert!(text.starts_with("{\"id\":1}\n") && !text.contains("CARGO"), "{text}");
        let refused = run(&words("3"), String::new()).await.unwrap_err();
        assert!(refused.passes && refused.why.contains("exit status: 3"), "{refused:?}");
        let words = ["/bin/sh", "-c", "sleep 600 & echo $! > \"$0\"", heard.to_str().unwrap()];
        assert_eq!(run(&words.map(str::to_owned), String::new()).await, Ok(()));
        let left = std::fs::read_to_string(&heard).unwrap();
        let stat = format!("/proc/{}/stat", left.trim());
        let ended = async {
            while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
        assert!(ended.is_ok(), "what it started ends with it");
        let missing = run(&["/not/there".to_owned()], String::new()).await.unwrap_err();
        assert!(missing.why.contains("cannot start /not/there"), "{missing:?}");
    }
}
