//! The text of a server's configuration: operator mode, JetStream on disk; the managed one on the
//! loopback address, an operator's own alone or in a cluster. It only writes text; nothing here starts or reads a server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::tls::{Listen, Tls};
use super::{Durability, ServerFiles};
use crate::creds::{Authority, CredsError, Trusted};
use crate::topology::STORE_BYTES;

/// Messages that may wait to be stored in one stream: whoever is behind them waits for the disk as often. More are
/// refused, and sent again by whoever means it.
const WAITING_MAX: u64 = 1_000;
/// Bytes of them.
const WAITING_BYTES: u64 = 32 * 1024 * 1024;

/// Connections of a server, also those that have shown no credential: it goes on while somebody opens them without end,
/// and has descriptors left for the files of its streams.
pub(super) const CONNECTIONS_MAX: u64 = 8_192;

/// Text in the server's quoting.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A server that an operator runs, alone or as one of a cluster (spec 12, `bus.url`).
#[derive(Debug, Clone)]
pub struct OwnServer {
    /// Its name, its own in the cluster.
    pub name: String,
    /// Where clients connect, such as `0.0.0.0:4222`.
    pub listen: String,
    /// Where it keeps its streams.
    pub store: PathBuf,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Where the other servers of the cluster connect; none for a server alone.
    pub cluster_listen: Option<String>,
    /// The other servers' `cluster_listen` as `nats://host:port`; its own does no harm.
    pub routes: Vec<String>,
}

/// The configuration with which such a server takes the credentials of an installation. It holds
/// public tokens only, no key.
///
/// # Errors
/// The installation's keys cannot be read or used.
pub fn own_config(server: &OwnServer, authority: &Authority) -> Result<String, CredsError> {
    let OwnServer { name, listen, store, durability, cluster_listen, routes } = server;
    let cluster = cluster_listen.as_ref().map_or_else(String::new, |listen| {
        let routes: Vec<String> = routes.iter().map(|route| quoted(route)).collect();
        format!(
            "cluster {{\n  name: tetrarch\n  listen: {}\n  routes: [{}]\n}}\n",
            quoted(listen),
            routes.join(", ")
        )
    });
    Ok(format!(
        "server_name: {}\nlisten: {}\n{cluster}{}",
        quoted(name),
        quoted(listen),
        common(store, *durability, CONNECTIONS_MAX, &authority.trusted()?)
    ))
}

/// The configuration for a server of these files at this address, which is of loopback unless there is TLS, with so many
/// connections at once.
pub(super) fn text(
    files: &ServerFiles,
    address: SocketAddr,
    tls: Option<(&Listen, &Tls)>,
    durability: Durability,
    connections: u64,
    trusted: &Trusted,
) -> String {
    // Clients are told of that name alone: the certificate is not for the machine's other addresses.
    let tls = tls.map_or_else(String::new, |(listen, Tls { cert, key, ca: _, clients })| {
        let clients = clients.as_ref().map_or_else(String::new, |ca| {
            format!("  ca_file: {}\n{ASKS_CLIENTS}\n", quoted_path(ca))
        });
        format!(
            "client_advertise: {}\n\
             tls {{\n  cert_file: {}\n  key_file: {}\n{clients}  min_version: \"1.2\"\n  timeout: 5\n}}\n",
            quoted(&listen.advertised()),
            quoted_path(cert),
            quoted_path(key),
        )
    });
    format!(
        "# Written at every start; changes are lost.\n\
         server_name: tetrarch\n\
         listen: \"{address}\"\n\
         {tls}\
         pid_file: {pid}\n\
         log_file: {log}\n\
         logfile_size_limit: 10MB\n\
         logfile_max_num: 3\n\
         {common}",
        pid = quoted_path(&files.pid()),
        log = quoted_path(&files.log()),
        common = common(&files.store(), durability, connections, trusted),
    )
}

/// What every server of the bus has.
fn common(store: &Path, durability: Durability, connections: u64, trusted: &Trusted) -> String {
    let sync = sync_line(durability);
    format!(
        "max_connections: {connections}\n\
         max_payload: 1MB\n\
         max_pending: 32MB\n\
         write_deadline: \"10s\"\n\
         jetstream {{\n  store_dir: {store}\n  {sync}\n  max_file_store: {STORE_BYTES}\n  \
         max_buffered_msgs: {WAITING_MAX}\n  max_buffered_size: {WAITING_BYTES}\n}}\n\
         {trust}",
        store = quoted_path(store),
        trust = trust(trusted),
    )
}

/// How often a server waits for the disk.
fn sync_line(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "sync_interval: \"1s\"",
        Durability::Power => "sync_interval: always",
    }
}

/// The line by which clients need a certificate.
const ASKS_CLIENTS: &str = "  verify: true";

/// Whether a server that was started with this configuration asks clients for a certificate.
pub(super) fn asks_clients(config: &str) -> bool {
    config.lines().any(|line| line == ASKS_CLIENTS)
}

/// Whether a server that was started with this configuration is as durable as wanted.
pub(super) fn has_durability(config: &str, wanted: Durability) -> bool {
    config.lines().any(|line| line.trim() == sync_line(wanted))
}

/// Whose credentials a server takes.
fn trust(trusted: &Trusted) -> String {
    let Trusted { operator_jwt, system, system_jwt, control, control_jwt, fleet, fleet_jwt } =
        trusted;
    format!(
        "operator: {operator_jwt}\n\
         system_account: {system}\n\
         resolver: MEMORY\n\
         resolver_preload {{\n  {system}: {system_jwt}\n  {control}: {control_jwt}\n  {fleet}: {fleet_jwt}\n}}\n"
    )
}

/// The part of a server's configuration that says whose credentials it takes, to be included in one that
/// somebody keeps by hand. It holds public tokens only, no key.
///
/// # Errors
/// The installation's keys cannot be read or used.
pub fn operator_config(authority: &Authority) -> Result<String, CredsError> {
    Ok(trust(&authority.trusted()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_bounds_connections_and_what_waits_for_them() {
        let word = String::new;
        let trusted = Trusted {
            operator_jwt: word(),
            system: word(),
            system_jwt: word(),
            control: word(),
            control_jwt: word(),
            fleet: word(),
            fleet_jwt: word(),
        };
        let files = ServerFiles { dir: PathBuf::from("/data/nats") };
        let address = SocketAddr::from(([127, 0, 0, 1], 4222));
        let text = text(&files, address, None, Durability::Power, 500, &trusted);
        for line in ["max_connections: 500", "max_payload: 1MB", "max_pending: 32MB"] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }
}
