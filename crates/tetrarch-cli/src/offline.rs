//! The managed bus for the moment of a question: commands that only read work on a data directory whose
//! fleet is not running. There is no owner then, so nothing changes
//! ([0074](../../../docs/decisions/0074-a-question-starts-the-bus-alone-and-stops-it.md)).

use std::time::Duration;

use clap::ArgMatches;
use tetrarch_bus::server::{
    self, DataDirLock, ManagedServer, ReaderLock, ServerConfig, ServerError,
};

use crate::output::say;
use crate::{CliResult, Context};

/// The commands that ask nobody: what they show is read from the bus alone.
const READS: [&str; 35] = [
    "agent list",
    "artifact get",
    "artifact list",
    "audit",
    "audit export",
    "budget",
    "change list",
    "change show",
    "describe",
    "doctor",
    "events",
    "file list",
    "get",
    "goal list",
    "host list",
    "inbox",
    "insights",
    "logs",
    "mail dead",
    "mail list",
    "plan check",
    "plan diff",
    "plan drafts",
    "plan history",
    "plan show",
    "profile list",
    "profile show",
    "project list",
    "replay",
    "schedule list",
    "status",
    "tree",
    "why",
    "work list",
    "work show",
];
/// Options with which they ask what is not kept.
const LIVE: [&str; 3] = ["follow", "watch", "live"];
/// How long a question waits for those that were asked before it.
const TURN_WITHIN: Duration = Duration::from_secs(30);

/// Whether a command only reads, and ends by itself.
pub(crate) fn only_reads(matches: &ArgMatches) -> bool {
    let (mut path, mut at) = (Vec::new(), matches);
    while let Some((name, below)) = at.subcommand() {
        path.push(name);
        at = below;
    }
    let is_set = |name: &str| matches!(at.try_get_one::<bool>(name), Ok(Some(true)));
    let reads = READS.contains(&path.join(" ").as_str());
    // A machine without a fleet is what doctor is there for: it looks at the ledger when it is told to. One is
    // accepted where no owner works, which is why there is no fleet then.
    let accepts = matches!(at.try_get_one::<u64>("accept_ledger"), Ok(Some(_)));
    let asks_machine = path == ["doctor"] && !is_set("check_ledger") && !accepts;
    // A plan alone is read from its file.
    let asks_file = path == ["plan", "check"] && !at.contains_id("project");
    reads && !asks_machine && !asks_file && !LIVE.iter().any(|name| is_set(name))
}

/// A bus that was started for one question.
#[derive(Debug)]
pub(crate) struct OfflineBus {
    bus: ManagedServer,
    _lock: DataDirLock,
    _turn: ReaderLock,
}

impl OfflineBus {
    /// Starts the bus of a data directory whose fleet is not running; none when it is, when another bus
    /// is configured, and when there never was one.
    ///
    /// # Errors
    /// The bus does not start, or the questions before this one take too long.
    pub(crate) async fn open(context: &Context) -> CliResult<Option<Self>> {
        let data_dir = &context.config.bus.data_dir;
        if context.config.bus.url.is_some() || server::endpoint(data_dir).is_none() {
            return Ok(None);
        }
        let turn = ReaderLock::wait(data_dir, TURN_WITHIN).await?;
        let lock = match DataDirLock::acquire(data_dir) {
            Ok(lock) => lock,
            // Whoever holds it runs the bus.
            Err(ServerError::InUse { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let config = ServerConfig {
            durability: context.config.bus.durability,
            ..ServerConfig::new(data_dir)
        };
        let bus = ManagedServer::start(&config, &context.authority()?).await?;
        // One that somebody else left running is theirs to stop.
        if bus.attached() {
            return Ok(None);
        }
        say(&format!("the fleet is not running; reading data directory {}", data_dir.display()));
        Ok(Some(Self { bus, _lock: lock, _turn: turn }))
    }

    /// Stops it.
    ///
    /// # Errors
    /// It cannot be stopped.
    pub(crate) async fn close(self) -> CliResult {
        Ok(self.bus.stop().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command_line;

    fn reads(line: &str) -> bool {
        let words = line.split(' ');
        only_reads(&command_line().try_get_matches_from(words).unwrap())
    }

    #[test]
    fn every_listed_offline_command_exists() {
        for path in READS {
            let command = command_line();
            let found =
                path.split(' ').try_fold(&command, |command, name| command.find_subcommand(name));
            assert!(found.is_some(), "{path}");
        }
    }

    #[test]
    fn commands_that_write_or_follow_are_not_offline() {
        for line in [
            "status",
            "events",
            "goal list",
            "budget",
            "doctor --check-ledger",
            "plan check x.yaml --project p",
        ] {
            assert!(reads(&format!("tetrarch {line}")), "{line}");
        }
        for line in [
            "up",
            "events --follow",
            "get agents --watch",
            "doctor",
            "plan check x.yaml",
            "goal create x.yaml",
        ] {
            assert!(!reads(&format!("tetrarch {line}")), "{line}");
        }
    }
}
