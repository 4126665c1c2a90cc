//! Every key with its value and where that comes from: the layers laid over each other.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tetrarch_core::overseer::backoff::Backoff;
use tetrarch_core::time::Millis;

use super::keys::{ConfigKey, KEYS, KeyDefault};
use super::source::{ConfigErrors, SetValue, ValueSource};
use super::value::ConfigValue;
use super::{laws, source};
use crate::CliResult;
use crate::options::GlobalArgs;

/// One key's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    /// The key.
    pub(crate) key: &'static ConfigKey,
    /// Its value.
    pub(crate) value: ConfigValue,
    /// Where that comes from.
    pub(crate) from: ValueSource,
}

impl Setting {
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
    remarks: Vec<String>,
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
            remarks: Vec::new(),
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
        settings.follow(&places.environment);
        // Values that could not be read are at their defaults, which say nothing of how they fit together.
        if faults.is_empty() {
            laws::check(&settings, &mut faults);
        }
        faults.into_result()?;
        settings.looked = places.files.iter().map(|(path, _)| path.clone()).collect();
        Ok(settings)
    }

    fn lay(&mut self, sets: Vec<SetValue>) {
        for SetValue { key, value, from } in sets {
            self.put(key.name, value, from);
        }
    }

    fn put(&mut self, name: &str, value: ConfigValue, from: ValueSource) {
        if let Some(setting) = self.settings.iter_mut().find(|setting| setting.key.name == name) {
            setting.value = value;
            setting.from = from;
        }
    }

    /// Defaults that follow from other values.
    fn follow(&mut self, environment: &[(OsString, OsString)]) {
        let unset = |settings: &Self, name| !settings.named(name).is_some_and(Setting::is_set);
        if unset(self, "bus.data_dir") {
            let dir = xdg(environment, "XDG_DATA_HOME", ".local/share")
                .map_or_else(|| PathBuf::from("/var/lib/tetrarch"), |dir| dir.join("tetrarch"));
            self.put("bus.data_dir", ConfigValue::Path(dir), ValueSource::Default);
        }
        if unset(self, "retention.go_ttl") {
            let secs = if self.whole("bus.replicas") > 1 { 15 } else { 3 };
            self.put(
                "retention.go_ttl",
                ConfigValue::Span(Millis::from_secs(secs)),
                ValueSource::Default,
            );
        }
        if unset(self, "liveness.register_deadline") {
            let ms = u64::try_from(self.span("liveness.window").as_millis()).unwrap_or(u64::MAX);
            let deadline = Millis(ms.saturating_mul(6));
            self.put(
                "liveness.register_deadline",
                ConfigValue::Span(deadline),
                ValueSource::Default,
            );
        }
        self.collector(environment);
    }

    /// The variable that OpenTelemetry's own tools read counts for us too. It is not ours, so a
    /// value we cannot use is no error.
    fn collector(&mut self, environment: &[(OsString, OsString)]) {
        let Some(key) = ConfigKey::named("telemetry.otlp_endpoint") else { return };
        let Some(url) = variable(environment, COLLECTOR) else { return };
        if self.named(key.name).is_some_and(Setting::is_set) {
            return;
        }
        match url.to_str().and_then(|text| key.kind.read_text(text)) {
            Some(value) => self.put(key.name, value, ValueSource::Variable(COLLECTOR.to_owned())),
            None => self.remarks.push(format!(
                "{COLLECTOR} = {} is not used; {} takes {}",
                url.display(),
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
    pub(crate) fn advice(&self) -> Vec<String> {
        let mut advice = laws::advice(self);
        advice.extend(self.remarks.iter().cloned());
        advice
    }

    /// One key.
    pub(crate) fn named(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key.name == name)
    }

    fn value(&self, name: &str) -> &ConfigValue {
        self.named(name).map_or(&ConfigValue::Nothing, |setting| &setting.value)
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        if let ConfigValue::Text(text) = self.value(name) { Some(text.clone()) } else { None }
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        let ConfigValue::Path(path) = self.value(name) else { return None };
        // Children are started elsewhere, so a path must not depend on where.
        Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
    }

    pub(super) fn span(&self, name: &str) -> Duration {
        if let ConfigValue::Span(span) = self.value(name) {
            Duration::from_millis(span.0)
        } else {
            Duration::ZERO
        }
    }

    pub(super) fn millis(&self, name: &str) -> Millis {
        self.given_millis(name).unwrap_or(Millis(0))
    }

    /// None where nobody says anything and the default is no length.
    pub(super) fn given_millis(&self, name: &str) -> Option<Millis> {
        if let ConfigValue::Span(span) = self.value(name) { Some(*span) } else { None }
    }

    /// A share of one, in thousandths.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is above 0 and at most 1"
    )]
    pub(super) fn thousandths(&self, name: &str) -> u32 {
        if let ConfigValue::Share(share) = self.value(name) {
            (share * 1e3).round() as u32
        } else {
            0
        }
    }

    pub(super) fn whole(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        if let ConfigValue::Whole(number) | ConfigValue::Size(number) = self.value(name) {
            Some(*number)
        } else {
            None
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), ConfigValue::Flag(true))
    }

    /// How a wait grows.
    pub(super) fn backoff(&self, name: &str) -> Backoff {
        if let ConfigValue::Growth(base, max) = *self.value(name) {
            Backoff { base, max }
        } else {
            Backoff::default()
        }
    }

    pub(super) fn names(&self, name: &str) -> Vec<String> {
        if let ConfigValue::Names(names) = self.value(name) { names.clone() } else { Vec::new() }
    }

    pub(super) fn labels(&self, name: &str) -> Vec<(String, String)> {
        if let ConfigValue::Labels(labels) = self.value(name) { labels.clone() } else { Vec::new() }
    }
}

/// The variable by which OpenTelemetry's own tools name a collector.
const COLLECTOR: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

fn default(key: &'static ConfigKey) -> Setting {
    let value = match key.default {
        KeyDefault::Is(text) => key.kind.read_text(text).unwrap_or(ConfigValue::Nothing),
        KeyDefault::Follows(_) => ConfigValue::Nothing,
    };
    Setting { key, value, from: ValueSource::Default }
}

fn options(global: &GlobalArgs, faults: &mut ConfigErrors) -> Vec<SetValue> {
    let path = |name, key, path: &Option<PathBuf>| {
        let key = ConfigKey::named(key)?;
        let value = ConfigValue::Path(path.clone()?);
        Some(SetValue { key, value, from: ValueSource::Option(name) })
    };
    let mut sets: Vec<SetValue> = [
        path("--data-dir", "bus.data_dir", &global.data_dir),
        path("--credentials", "bus.credentials", &global.credentials),
        path("--tls-ca", "bus.tls_ca", &global.tls_ca),
        path("--operator-key", "bus.operator_key", &global.operator_key),
    ]
    .into_iter()
    .flatten()
    .collect();
    let texts = [("--url", "bus.url", &global.url), ("--log", "telemetry.log", &global.log)];
    for (name, key, text) in texts {
        if let Some(text) = text {
            sets.extend(source::option(name, key, text, faults));
        }
    }
    sets
}

/// The key's own bounds hold already, so the most is never reached by a larger number.
pub(super) fn fitted<T: TryFrom<u64>>(number: u64, most: T) -> T {
    T::try_from(number).unwrap_or(most)
}
