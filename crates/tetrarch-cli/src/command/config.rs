//! `tetrarch config`: what holds, and who said so (spec 12).

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tetrarch_bus::lease::{Lease, LeaseKey};
use tetrarch_bus::server::{OwnServer, operator_config, own_config};

use crate::config::{KeyDefault, Setting};
use crate::output::{self, Cell, TableRow, Tone};
use crate::process::address;
use crate::{CliError, CliResult, Code, Context};

/// Explains the configuration.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show each value and its source.
    #[command(
        after_help = "Examples:\n  tetrarch config explain\n  tetrarch config explain liveness.window\n  tetrarch config explain overseer -o json\n\nValues are read in this order, later sources override earlier ones: built-in defaults,\n/etc/tetrarch/config.toml, $XDG_CONFIG_HOME/tetrarch/config.toml (~/.config/tetrarch/config.toml),\nthe file of --config, TETRARCH_<SECTION>_<KEY> variables, options."
    )]
    Explain {
        /// A key or a section [default: all keys].
        key: Option<String>,
    },
    /// Have the running owner read its configuration again.
    #[command(
        after_help = "Examples:\n  tetrarch config reload\n\nSIGHUP to `tetrarch serve --global` does the same. `tetrarch config explain -o wide` shows which keys\nare live; the others need a restart. A configuration that cannot be read changes nothing."
    )]
    Reload,
    /// Print the configuration of a nats-server that accepts this installation's credentials,
    /// alone or in a cluster.
    #[command(
        after_help = "Examples:\n  tetrarch config server --name n1 --store /var/lib/nats > n1.conf\n  tetrarch config server --name n1 --store /var/lib/nats --cluster-listen 0.0.0.0:6222 \\\n    --route nats://n1:6222 --route nats://n2:6222 --route nats://n3:6222 > n1.conf\n\nThen set bus.url to the servers, separated by commas, and bus.replicas to 3."
    )]
    Server(ServerArgs),
    /// Print the accounts and keys for a nats-server configuration that you write yourself.
    ///
    /// Include it in the server's configuration. It holds no secret and is the same for all servers
    /// of a cluster.
    #[command(
        after_help = "Examples:\n  tetrarch config operator --data-dir /var/lib/tetrarch > operator.conf"
    )]
    Operator,
}

/// Settings of a nats-server.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The server's name, unique in the cluster.
    #[arg(long)]
    name: String,
    /// The address for clients.
    #[arg(long, default_value = "0.0.0.0:4222")]
    listen: String,
    /// The directory for its streams.
    #[arg(long)]
    store: PathBuf,
    /// The address for the other servers of the cluster. Keep it private.
    #[arg(long)]
    cluster_listen: Option<String>,
    /// Another server of the cluster; repeatable.
    #[arg(long = "route", requires = "cluster_listen")]
    routes: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// There is no such key, or the installation's keys cannot be read.
pub(crate) async fn run(context: &Context, command: ConfigCommand) -> CliResult {
    match command {
        ConfigCommand::Reload => reload(context).await,
        ConfigCommand::Explain { key } => explain(context, key),
        ConfigCommand::Server(args) => server(context, args),
        ConfigCommand::Operator => operator(context),
    }
}

/// Tells the owner to read its configuration again, which is this one: what is wrong with it was said before.
async fn reload(context: &Context) -> CliResult {
    let bus = context.client().await?.bus;
    let owner = Lease::look(&bus, &LeaseKey::Go).await?.and_then(|seen| seen.holder);
    let owner = owner.ok_or_else(|| {
        CliError::new(Code::NotFound, "no owner is running")
            .hint("start one with `tetrarch serve --global`")
    })?;
    let own = address();
    let here = own.rsplit_once(' ').map(|(here, _)| here);
    let pid = owner.address.rsplit_once(' ').filter(|(at, _)| Some(*at) == here);
    let pid = pid.and_then(|(_, pid)| pid.parse().ok()).and_then(Pid::from_raw);
    let elsewhere = || {
        CliError::new(Code::Failed, format!("the owner runs at {}", owner.address))
            .hint("send SIGHUP to that process there")
    };
    let pid = pid.filter(|pid| is_tetrarch(*pid)).ok_or_else(elsewhere)?;
    kill_process(pid, Signal::HUP).map_err(|error| {
        CliError::new(Code::Denied, format!("cannot signal process {}: {error}", owner.address))
    })?;
    let told = json!({"owner": owner.address});
    output::record(context.output, &told, || {
        format!("{} reads its configuration again\n", owner.address)
    })
}

/// Whether a process is one of this program: a number alone may be another's by now.
fn is_tetrarch(pid: Pid) -> bool {
    let name = |of: &str| std::fs::read_to_string(format!("/proc/{of}/comm")).ok();
    name(&pid.as_raw_nonzero().to_string()).is_some_and(|its| Some(its) == name("self"))
}

fn server(context: &Context, args: ServerArgs) -> CliResult {
    let ServerArgs { name, listen, store, cluster_listen, routes } = args;
    let durability = context.config.bus.durability;
    let own = OwnServer { name, listen, store, durability, cluster_listen, routes };
    let text = own_config(&own, &context.authority()?).map_err(CliError::failed)?;
    // A reader that went away has seen enough.
    output::text(&text).map(drop)
}

fn operator(context: &Context) -> CliResult {
    let text = operator_config(&context.authority()?).map_err(CliError::failed)?;
    // A reader that went away has seen enough.
    output::text(&text).map(drop)
}

fn explain(context: &Context, key: Option<String>) -> CliResult {
    let settings: Vec<&Setting> = context
        .config
        .settings
        .all()
        .iter()
        .filter(|setting| key.as_deref().is_none_or(|key| is_within(setting.key.name, key)))
        .collect();
    if let Some(key) = key
        && settings.is_empty()
    {
        return Err(CliError::new(Code::NotFound, format!("no key or section named {key:?}"))
            .hint("`tetrarch config explain` lists all keys"));
    }
    let rows = settings.into_iter().map(row).collect();
    output::listing(context.output, "KEY|VALUE|FROM|NOTE|+CHANGE|+VARIABLE|+ALLOWED", rows, "")?;
    if !output::is_for_programs(context.output) {
        let files = context.config.settings.search_path();
        let files = files.map(|(path, there)| {
            format!("  {}{}\n", path.display(), if there { "" } else { " (not there)" })
        });
        let files: String = files.collect();
        output::text(&format!(
            "\nFiles, the later one wins; then TETRARCH_* variables, then options:\n{files}"
        ))?;
    }
    Ok(())
}

/// Whether a key is the asked one, or in the asked section.
fn is_within(name: &str, asked: &str) -> bool {
    name.strip_prefix(asked).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn row(setting: &Setting) -> TableRow {
    let Setting { key, value, from } = setting;
    let (from, allowed, variable) = (from.to_string(), key.kind.allowed(), key.variable());
    let change = if key.is_live() { "live" } else { "restart" };
    let note = match key.default {
        KeyDefault::Follows(words) if !setting.is_set() => words,
        KeyDefault::Follows(_) | KeyDefault::Is(_) => "",
    };
    let tone = if setting.is_set() { Tone::Plain } else { Tone::Faint };
    TableRow {
        cells: vec![
            key.name.into(),
            Cell::from(setting.shown()),
            Cell::from(from.as_str()).toned(tone),
            Cell::from(note).toned(Tone::Faint),
            change.into(),
            variable.as_str().into(),
            allowed.as_str().into(),
        ],
        record: json!({
            "key": key.name,
            "value": value,
            "from": from,
            "note": note,
            "change": change,
            "variable": variable,
            "allowed": allowed,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_lists_exactly_its_own_keys() {
        assert!(is_within("bus.url", "bus.url"));
        assert!(is_within("overseer.backoff.base", "overseer"));
        assert!(is_within("overseer.backoff.base", "overseer.backoff"));
        assert!(!is_within("overseer.backoff.base", "over"));
        assert!(!is_within("bus.url", "bus.urls"));
    }
}
