//! Where a secret is found when it is used. A secret is named in profiles and settings, never written there (spec 09,
//! Secrets). Reads nothing.

/// Where a secret is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// `env:NAME`, a variable of the process that uses it.
    Env(String),
    /// `credential:NAME`, a file of that name in `$CREDENTIALS_DIRECTORY`, where systemd puts a service's credentials.
    Credential(String),
    /// `file:/path`, a file.
    File(String),
    /// `command:pass show model`, what a program prints first; words between blanks, no shell.
    Command(Vec<String>),
}

/// The forms that a profile may have.
pub const OF_PROFILES: &str = "env:NAME or credential:NAME";
/// All forms.
pub const ALL_FORMS: &str =
    "env:NAME, credential:NAME, file:/path or command:program and arguments";

impl SecretSource {
    /// Reads a reference; none when it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('\0') {
            return None;
        }
        let (kind, name) = text.split_once(':')?;
        match kind {
            "env" if !name.is_empty() && !name.contains('=') => Some(Self::Env(name.to_owned())),
            "credential" if !["", ".", ".."].contains(&name) && !name.contains('/') => {
                Some(Self::Credential(name.to_owned()))
            }
            "file" if name.starts_with('/') => Some(Self::File(name.to_owned())),
            "command" => {
                let words: Vec<String> = name.split_whitespace().map(str::to_owned).collect();
                (!words.is_empty()).then_some(Self::Command(words))
            }
            _ => None,
        }
    }

    /// Whether a profile may name it: what its host was given for that. Files and programs are the choice of whoever
    /// configures the host, since a profile also says where a key is sent.
    #[must_use]
    pub fn is_for_profiles(&self) -> bool {
        match self {
            Self::Env(_) | Self::Credential(_) => true,
            Self::File(_) | Self::Command(_) => false,
        }
    }
}

/// Variables, besides `LC_*`, that say how and where a program runs, and no secret.
const HARMLESS: [&str; 13] = [
    "COLORTERM",
    "HOME",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "PWD",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
];

/// Whether a variable that a profile passes on counts as a secret, whatever its value looks like: whoever names one there
/// says that it is the host's own. What is none belongs in the profile's `env`. A path that there is on the host is none
/// either, which is not looked at here.
#[must_use]
pub fn is_secret_variable(name: &str) -> bool {
    !HARMLESS.contains(&name) && !name.starts_with("LC_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_is_a_secret_unless_it_says_where_a_program_runs() {
        for (name, is) in [
            ("MY_API_KEY", true),
            ("PGCONN", true),
            ("NODE_ENV", true),
            ("path", true),
            ("LC_KEY", false),
            ("PATH", false),
            ("TERM", false),
        ] {
            assert_eq!(is_secret_variable(name), is, "{name}");
        }
    }

    #[test]
    fn secret_reference_is_recognized_by_its_form_only() {
        let words = ["pass", "show", "model"].map(str::to_owned).to_vec();
        for (text, source, profiles) in [
            ("env:KEY", SecretSource::Env("KEY".to_owned()), true),
            ("credential:key", SecretSource::Credential("key".to_owned()), true),
            ("file:/run/key", SecretSource::File("/run/key".to_owned()), false),
            ("command: pass  show model", SecretSource::Command(words), false),
        ] {
            assert_eq!(SecretSource::parse(text).as_ref(), Some(&source), "{text}");
            assert_eq!(source.is_for_profiles(), profiles, "{text}");
        }
        for text in [
            "",
            "KEY",
            "env:",
            "env:A=b",
            "env:A\0",
            "credential:",
            "credential:../key",
            "credential:..",
            "file:key",
            "file:",
            "command:",
            "command:  ",
            "sk-1:x",
        ] {
            assert_eq!(SecretSource::parse(text), None, "{text}");
        }
    }
}
