//! The process of a server of tools: contained as the run's commands are, and gone with its connection.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use tetrarch_core::mcp::McpServer;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::connection::ServerGround;
use super::output::{MESSAGE_BYTES_MAX, MessageLines, OutputRemarks, ReadInput};
use crate::backend::process::launch::know_secrets;
use crate::lines::{Tail, end_of};
use crate::tools::command::CommandProcess;

/// How long it may take to end by itself when its standard input is closed.
const GRACE: Duration = Duration::from_secs(2);
/// How long its last words are waited for when it is gone.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What is told of them, in bytes.
const WORDS_BYTES: usize = 1024;

/// What a server and its host say to each other.
pub(super) type ServerLines = AsyncRwTransport<RoleClient, MessageLines, ReadInput>;

/// A server that runs.
#[derive(Debug)]
pub(super) struct ServerProcess {
    process: CommandProcess,
    remarks: OutputRemarks,
    /// What it wrote to standard error last.
    said: Arc<Mutex<Tail>>,
    reading: JoinHandle<()>,
}

impl ServerProcess {
    /// Starts the command of a server, with the way to it.
    ///
    /// # Errors
    /// Why it does not start.
    pub(super) async fn start(
        ground: &ServerGround,
        server: &McpServer,
    ) -> Result<(Self, ServerLines), String> {
        let passed = server
            .pass_env
            .iter()
            .filter_map(|name| std::env::var_os(name).map(|value| (OsString::from(name), value)));
        let passed: BTreeMap<OsString, OsString> = passed.collect();
        know_secrets(&server.pass_env, &passed)
            .map_err(|cause| format!("cannot be given its `passEnv`: {cause}"))?;
        let set = server.env.iter().map(|(name, value)| (name.into(), value.into()));
        let command = (server.argv.as_slice(), !server.pass_env.is_empty());
        let begun =
            ground.commands.serve(&ground.workspace, command, passed.into_iter().chain(set));
        let mut process = begun.await.map_err(|cause| {
            format!("cannot be started: {cause}; install its program, or correct its `argv`")
        })?;
        let child = &mut process.child;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("has no pipes".to_owned());
        };
        let (lines, remarks) = MessageLines::of(stdout);
        let lines = AsyncRwTransport::new(lines, ReadInput::of(stdin))
            .with_max_line_length(MESSAGE_BYTES_MAX);
        let said = Arc::default();
        let reading = tokio::spawn(listen(stderr, Arc::clone(&said)));
        Ok((Self { process, remarks, said, reading }, lines))
    }

    /// Ends it, whose standard input is closed; says how it ended. All that it started is gone then.
    pub(super) async fn end(mut self) -> String {
        let status = match timeout(GRACE, self.process.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                self.process.traces.kill_now();
                self.process.child.wait().await
            }
        };
        self.process.traces.clone().until_gone().await;
        if timeout(LAST_WORDS, &mut self.reading).await.is_err() {
            self.reading.abort();
        }
        let ended = status.map_or_else(|cause| format!("ended ({cause})"), how);
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).text();
        let said = end_of(&said, WORDS_BYTES).trim();
        let words =
            if said.is_empty() { String::new() } else { format!("; its last words: {said}") };
        match self.remarks.words() {
            Some(remark) => format!("{remark}, and {ended}{words}"),
            None => format!("{ended}{words}"),
        }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Keeps the end of what is written to standard error, so that nobody waits for it to be read.
async fn listen(mut stderr: ChildStderr, said: Arc<Mutex<Tail>>) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(read) = stderr.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        said.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..read]);
    }
}
