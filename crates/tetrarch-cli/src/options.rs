//! The options of every command, and the command lines that repeat them to people. It reads nothing
//! and knows no command.

use std::path::PathBuf;

use clap::ValueEnum;

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Read this configuration file after the others.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The data directory: bus, credentials and work of this installation.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The address of the bus to use.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The credential file [default: this installation's].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) credentials: Option<PathBuf>,
    /// The CA certificate of the bus, a PEM file [default: the machine's CA certificates].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The operator's key, which starts servers and revokes credentials [default: in the data directory].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) operator_key: Option<PathBuf>,
    /// The human who runs the command [default: your login name].
    #[arg(long = "as", global = true, value_name = "HUMAN")]
    pub(crate) human: Option<String>,
    /// The output format.
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
    /// The log filter, such as `info` or `tetrarch_engine=debug`.
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

/// OutputFormat formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A table.
    Table,
    /// A table with all columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// The options that say which installation is meant.
pub(crate) const INSTALLATION: [&str; 7] =
    ["--config", "--data-dir", "--operator-key", "--url", "--credentials", "--tls-ca", "--as"];
/// Those of them that say where the keys are.
const KEYS: [&str; 3] = ["--config", "--data-dir", "--operator-key"];

/// The options that say which installation is meant, as far as they were given, with their values.
pub(crate) fn installation(global: &GlobalArgs) -> Vec<(&'static str, String)> {
    let GlobalArgs { config, data_dir, operator_key, url, credentials, tls_ca, human, .. } = global;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|it| it.to_string_lossy().into_owned());
    let values = [
        path(config),
        path(data_dir),
        path(operator_key),
        url.clone(),
        path(credentials),
        path(tls_ca),
        human.clone(),
    ];
    let given = INSTALLATION.into_iter().zip(values);
    given.filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The words of a command with the options that say which installation is meant.
pub(crate) fn with_installation(global: &GlobalArgs, words: &str) -> String {
    // Whoever keeps the keys has a credential and a name of their own.
    let keys = words.starts_with("creds ");
    let given = installation(global).into_iter();
    let given = given.filter(|(name, _)| !keys || KEYS.contains(name));
    given.fold(format!("tetrarch {words}"), |line, (name, value)| {
        format!("{line} {name} {}", quoted(&value))
    })
}

/// A text as a shell reads it as one word.
pub(crate) fn quoted(text: &str) -> String {
    let quoter = shlex::Quoter::new().allow_nul(true);
    quoter.quote(text).map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global() -> GlobalArgs {
        GlobalArgs {
            config: None,
            data_dir: None,
            url: None,
            credentials: None,
            tls_ca: None,
            operator_key: None,
            human: None,
            output: OutputFormat::Table,
            log: Some("debug".to_owned()),
        }
    }

    #[test]
    fn suggested_command_line_keeps_options_and_shell_quoting() {
        assert_eq!(
            with_installation(&global(), "circuit close PO-x"),
            "tetrarch circuit close PO-x"
        );
        let given = GlobalArgs {
            config: Some("/etc/t.toml".into()),
            data_dir: Some("my data/it's".into()),
            url: Some("nats://h:4222".to_owned()),
            credentials: Some("c.creds".into()),
            tls_ca: Some("ca.pem".into()),
            operator_key: Some("op.nk".into()),
            human: Some("ada".to_owned()),
            ..global()
        };
        let line = with_installation(&given, "status");
        let words = shlex::split(&line).unwrap();
        let expected = [
            "tetrarch",
            "status",
            "--config",
            "/etc/t.toml",
            "--data-dir",
            "my data/it's",
            "--operator-key",
            "op.nk",
            "--url",
            "nats://h:4222",
            "--credentials",
            "c.creds",
            "--tls-ca",
            "ca.pem",
            "--as",
            "ada",
        ];
        assert_eq!(words, expected, "{line}");
        let line = with_installation(&given, "creds list");
        let words = shlex::split(&line).unwrap();
        assert_eq!(
            words,
            ["tetrarch", "creds", "list"]
                .iter()
                .chain(&expected[2..8])
                .copied()
                .collect::<Vec<_>>()
        );
    }
}
