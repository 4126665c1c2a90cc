//! The key of a provider: in memory, and shown to nobody.

use std::fmt;

/// What stands for a key where somebody repeats it.
const SHOWN: &str = "[redacted:model_key]";

/// A key; it shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A key as the environment has it.
    #[must_use]
    pub fn new(key: String) -> Self {
        Self(key)
    }

    pub(crate) fn plain(&self) -> &str {
        &self.0
    }

    /// The words of somebody who may repeat the key.
    #[must_use]
    pub fn hidden_in(&self, words: &str) -> String {
        if self.0.is_empty() { words.to_owned() } else { words.replace(&self.0, SHOWN) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let key = Key::new("sk-secret".to_owned());
        assert_eq!(format!("{key:?}"), SHOWN);
        let words = key.hidden_in("Incorrect API key provided: sk-secret.");
        assert_eq!(words, format!("Incorrect API key provided: {SHOWN}."));
        assert_eq!(Key::new(String::new()).hidden_in("as it is"), "as it is");
    }
}
