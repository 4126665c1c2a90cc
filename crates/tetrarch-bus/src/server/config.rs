//! The text of the server's configuration: operator mode, loopback, JetStream on disk. It only
//! writes text; nothing here starts or reads a server.

use std::path::Path;

use super::{Durability, Files};
use crate::creds::Trusted;
use crate::topology::STORE_BYTES;

/// Text in the server's quoting.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// The configuration for a server of these files on this port of the loopback address.
pub(super) fn text(files: &Files, port: u16, durability: Durability, trusted: &Trusted) -> String {
    let sync = match durability {
        Durability::Process => "\"1s\"",
        Durability::Power => "always",
    };
    let Trusted { operator_jwt, system, system_jwt, account, account_jwt } = trusted;
    format!(
        "# Written at every start; changes are lost.\n\
         server_name: tetrarch\n\
         listen: \"127.0.0.1:{port}\"\n\
         pid_file: {pid}\n\
         log_file: {log}\n\
         logfile_size_limit: 10MB\n\
         logfile_max_num: 3\n\
         max_payload: 1MB\n\
         write_deadline: \"10s\"\n\
         jetstream {{\n  store_dir: {store}\n  sync_interval: {sync}\n  max_file_store: {STORE_BYTES}\n}}\n\
         operator: {operator_jwt}\n\
         system_account: {system}\n\
         resolver: MEMORY\n\
         resolver_preload {{\n  {system}: {system_jwt}\n  {account}: {account_jwt}\n}}\n",
        pid = quoted_path(&files.pid()),
        log = quoted_path(&files.log()),
        store = quoted_path(&files.store()),
    )
}
