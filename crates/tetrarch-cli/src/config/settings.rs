//! Every key with its value and where that comes from: the layers laid over each other.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use tetrarch_core::duration;
use tetrarch_core::overseer::backoff::Backoff;
use tetrarch_core::size;
use tetrarch_core::time::Millis;

use super::keys::{ConfigKey, KEYS, KeyDefault};
use super::source::{ConfigErrors, SetValue, ValueSource};
use super::value::shown;
use super::{laws, source};
use crate::options::GlobalArgs;
use crate::{CliError, CliResult};

/// One key's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    /// The key.
    pub(crate) key: &'static ConfigKey,
    /// Its value.
    pub(crate) value: Json,
    /// Where that comes from.
    pub(crate) from: ValueSource,
}

impl Setting {
    /// Its value as people write it.
    pub(crate) fn shown(&self) -> String {
        shown(&self.value)
    }

    /// Whether somebody set it.
    pub(crate) fn is_set(&self) -> bool {
        self.from != ValueSource::Default
    }
}

/// What the layers are read from.
#[derive(Debug)]
pub(super) struct ConfigSources {
    /// Files, later wins, and whether each must be there.
    pub(super) files: Vec<(PathBuf, bool)>,
    /// The environment.
    pub(super) environment: Vec<(OsString, OsString)>,
}

impl ConfigSources {
    /// The places of spec 12, but no file of the current directory: whoever writes a repository, or a program
    /// that works in it, could have commands run with it (docs/decisions/0110).
    pub(super) fn standard(global: &GlobalArgs) -> Self {
        let environment: Vec<_> = std::env::vars_os().collect();
        let mut files = vec![(PathBuf::from("/etc/tetrarch/config.toml"), false)];
        if let Some(dir) = xdg(&environment, "XDG_CONFIG_HOME", ".config") {
            files.push((dir.join("tetrarch").join("config.toml"), false));
        }
        files.extend(global.config.clone().map(|file| (file, true)));
        Self { files, environment }
    }
}

/// A directory of the XDG specification: its variable, else the place below the home directory.
fn xdg(environment: &[(OsString, OsString)], name: &str, below_home: &str) -> Option<PathBuf> {
    variable(environment, name).or_else(|| Some(variable(environment, "HOME")?.join(below_home)))
}

fn variable(environment: &[(OsString, OsString)], name: &str) -> Option<PathBuf> {
    let found = environment.iter().find(|(known, value)| known == name && !value.is_empty());
    found.map(|(_, value)| PathBuf::from(value))
}

/// Every key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    settings: Vec<Setting>,
    files: Vec<PathBuf>,
    looked: Vec<PathBuf>,
    advice: Vec<String>,
}

impl Settings {
    /// Lays the layers over each other.
    ///
    /// # Errors
    /// A file, a variable or an option is wrong, or values do not fit together.
    pub(super) fn read(places: &ConfigSources, global: &GlobalArgs) -> CliResult<Self> {
        let mut settings = Self {
            settings: KEYS.iter().map(default).collect(),
            files: Vec::new(),
            looked: Vec::new(),
            advice: Vec::new(),
        };
        let mut faults = ConfigErrors::default();
        for (path, required) in &places.files {
            if let Some(sets) = source::file(path, *required, &mut faults)? {
                settings.files.push(path.clone());
                settings.lay(sets);
            }
        }
        settings.lay(source::variables(places.environment.iter().cloned(), &mut faults));
        settings.lay(options(global, &mut faults));
        settings.follow(&places.environment, &mut faults)?;
        // Values that could not be read are at their defaults, which say nothing of how they fit together.
        if faults.is_empty() {
            laws::check(&settings, &mut faults)?;
        }
        faults.into_result()?;
        settings.advice.extend(laws::advice(&settings)?);
        settings.looked = places.files.iter().map(|(path, _)| path.clone()).collect();
        Ok(settings)
    }

    fn lay(&mut self, sets: Vec<SetValue>) {
        for SetValue { key, value, from } in sets {
            self.put(key.name, value, from);
        }
    }

    fn put(&mut self, name: &str, value: Json, from: ValueSource) {
        if let Some(setting) = self.settings.iter_mut().find(|setting| setting.key.name == name) {
            setting.value = value;
            setting.from = from;
        }
    }

    fn put_default(&mut self, name: &str, value: Json) {
        if self.value(name).is_null() {
            self.put(name, value, ValueSource::Default);
        }
    }

    /// Defaults that follow from other values.
    fn follow(
        &mut self,
        environment: &[(OsString, OsString)],
        faults: &mut ConfigErrors,
    ) -> CliResult {
        let dir = xdg(environment, "XDG_DATA_HOME", ".local/share")
            .map_or_else(|| PathBuf::from("/var/lib/tetrarch"), |dir| dir.join("tetrarch"));
        match dir.to_str() {
            Some(dir) => self.put_default("bus.data_dir", json!(dir)),
            None if self.value("bus.data_dir").is_null() => faults.add(format!(
                "bus.data_dir: its default {} is not UTF-8; set another",
                dir.display()
            )),
            None => {}
        }
        let elections = self.get::<u64>("bus.replicas")? > 1;
        self.put_default("retention.go_ttl", json!(if elections { "15s" } else { "3s" }));
        let deadline = Millis(self.millis("liveness.window")?.0.saturating_mul(6));
        self.put_default("liveness.register_deadline", json!(duration::print(deadline)));
        STANDARD.iter().for_each(|(variable, key)| self.standard(environment, variable, key));
        Ok(())
    }

    /// A variable that OpenTelemetry's own tools read counts for us too. It is not ours, so a
    /// value we cannot use is no error.
    fn standard(&mut self, environment: &[(OsString, OsString)], name: &str, key: &str) {
        let Some(key) = ConfigKey::named(key) else { return };
        let Some(set) = variable(environment, name) else { return };
        if self.named(key.name).is_some_and(Setting::is_set) {
            return;
        }
        match set.to_str().and_then(|text| key.kind.read_text(text)) {
            Some(value) => self.put(key.name, value, ValueSource::Variable(name.to_owned())),
            None => self.advice.push(format!(
                "{name} = {} is not used; {} takes {}",
                set.display(),
                key.name,
                key.kind.allowed()
            )),
        }
    }

    /// Every key, in the order of the page.
    pub(crate) fn all(&self) -> &[Setting] {
        &self.settings
    }

    /// The files that were read, later wins.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The files that are read when they exist, later wins, each with whether it does.
    pub(crate) fn search_path(&self) -> impl Iterator<Item = (&PathBuf, bool)> {
        self.looked.iter().map(|path| (path, self.files.contains(path)))
    }

    /// What is allowed but not advised, in words.
    pub(crate) fn advice(&self) -> &[String] {
        &self.advice
    }

    /// One key.
    pub(crate) fn named(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key.name == name)
    }

    fn value(&self, name: &str) -> &Json {
        self.named(name).map_or(&Json::Null, |setting| &setting.value)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The key takes what its use does not.
    pub(super) fn get<T: DeserializeOwned>(&self, name: &str) -> CliResult<T> {
        T::deserialize(self.value(name)).map_err(|error| unusable(name, error))
    }

    /// The value of a key that is written as a text; none where nobody says anything and there is no default.
    ///
    /// # Errors
    /// The key takes what its use does not.
    pub(super) fn parsed<T, E: ToString>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> CliResult<Option<T>> {
        let text: Option<String> = self.get(name)?;
        text.map(|text| parse(&text)).transpose().map_err(|error| unusable(name, error))
    }

    /// A file or directory. Children are started elsewhere, so it does not depend on where.
    pub(super) fn path(&self, name: &str) -> CliResult<Option<PathBuf>> {
        self.parsed(name, |path| std::path::absolute(path))
    }

    pub(super) fn size(&self, name: &str) -> CliResult<u64> {
        size::parse(&self.get::<String>(name)?).map_err(|error| unusable(name, error))
    }

    pub(super) fn millis(&self, name: &str) -> CliResult<Millis> {
        duration::parse(&self.get::<String>(name)?).map_err(|error| unusable(name, error))
    }

    /// How a wait grows.
    pub(super) fn backoff(&self, name: &str) -> CliResult<Backoff> {
        let spans: BTreeMap<String, String> = self.get(name)?;
        let span = |of: &str| {
            let text = spans.get(of).map_or("", String::as_str);
            duration::parse(text).map_err(|error| unusable(name, error))
        };
        Ok(Backoff { base: span("base")?, max: span("max")? })
    }

    pub(super) fn span(&self, name: &str) -> CliResult<Duration> {
        self.millis(name).map(|span| Duration::from_millis(span.0))
    }
}

/// A value that its key takes and its use does not: an error in the list of keys, not of whoever set it.
fn unusable(name: &str, error: impl ToString) -> CliError {
    let what = format!("cannot use the value of {name}: {}", error.to_string());
    CliError::usage(what).hint(format!("report this, and set {name} to another value"))
}

/// The variables by which OpenTelemetry's own tools are told of a collector, each with our key.
const STANDARD: [(&str, &str); 3] = [
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "telemetry.otlp_endpoint"),
    ("OTEL_EXPORTER_OTLP_CERTIFICATE", "telemetry.otlp_ca"),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "telemetry.otlp_protocol"),
];

fn default(key: &'static ConfigKey) -> Setting {
    let value = match key.default {
        KeyDefault::Is(text) => key.kind.read_text(text).unwrap_or(Json::Null),
        KeyDefault::Follows(_) => Json::Null,
    };
    Setting { key, value, from: ValueSource::Default }
}

fn options(global: &GlobalArgs, faults: &mut ConfigErrors) -> Vec<SetValue> {
    let path = |path: &Option<PathBuf>| path.clone().map(PathBuf::into_os_string);
    let text = |text: &Option<String>| text.clone().map(OsString::from);
    [
        ("--data-dir", "bus.data_dir", path(&global.data_dir)),
        ("--credentials", "bus.credentials", path(&global.credentials)),
        ("--tls-ca", "bus.tls_ca", path(&global.tls_ca)),
        ("--operator-key", "bus.operator_key", path(&global.operator_key)),
        ("--url", "bus.url", text(&global.url)),
        ("--log", "telemetry.log", text(&global.log)),
    ]
    .into_iter()
    .filter_map(|(name, key, value)| source::option(name, key, &value?, faults))
    .collect()
}
