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

/// What the name of a variable says that holds a secret.
const NAMES: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASS", "PWD", "CRED", "AUTH"];

/// Whether a variable that a profile passes on counts as a secret: by its name, or because its value has letters and digits
/// and no blank, as keys have. What is none belongs in the profile's `env`. A path that there is on the host is none either,
/// which is not looked at here.
#[must_use]
pub fn is_secret_variable(name: &str, value: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    let any = |is: fn(&u8) -> bool| value.iter().any(is);
    NAMES.iter().any(|word| name.contains(word))
        || any(u8::is_ascii_digit) && any(u8::is_ascii_alphabetic) && !any(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_is_a_secret_by_name_or_value() {
        for (name, value, is) in [
            ("MY_API_KEY", "correct horse", true),
            ("db_password", "opensesame", true),
            ("DATABASE", "me-and-x1@db", true),
            ("NODE_ENV", "production", false),
            ("NUMBER", "12345678", false),
            ("GREETING", "2 words", false),
        ] {
            assert_eq!(is_secret_variable(name, value.as_bytes()), is, "{name}");
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
