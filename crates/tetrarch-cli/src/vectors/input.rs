//! Strict access to `given` and `when`: an unknown key or value fails the case with an error
//! that names it (spec 11).

use serde_json::{Map, Value};

/// Why a case cannot be run: where, what, and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct CaseError(pub(super) String);

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct CaseValue<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> CaseValue<'a> {
    pub(super) fn new(path: impl Into<String>, value: &'a Value) -> Self {
        Self { path: path.into(), value }
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    pub(super) fn wrong(&self, allowed: &str) -> CaseError {
        CaseError(format!("{}: unknown value {}; allowed: {allowed}", self.path, self.value))
    }

    pub(super) fn map(&self, keys: &[&str]) -> Result<CaseMap<'a>, CaseError> {
        let Value::Object(map) = self.value else {
            return Err(self.wrong("a mapping"));
        };
        if let Some(key) = map.keys().find(|key| !keys.contains(&key.as_str())) {
            let allowed = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
            return Err(CaseError(format!("{}.{key}: unknown key; allowed: {allowed}", self.path)));
        }
        Ok(CaseMap { path: self.path.clone(), map })
    }

    /// A mapping with these keys, which have no spaces.
    pub(super) fn keys(&self, keys: &str) -> Result<CaseMap<'a>, CaseError> {
        self.map(&keys.split(' ').collect::<Vec<_>>())
    }

    pub(super) fn list(&self) -> Result<Vec<Self>, CaseError> {
        let Value::Array(values) = self.value else {
            return Err(self.wrong("a list"));
        };
        let at = |(index, value)| Self::new(format!("{}[{index}]", self.path), value);
        Ok(values.iter().enumerate().map(at).collect())
    }

    /// What the items of a list are read as.
    pub(super) fn each<T>(
        &self,
        read: impl FnMut(&Self) -> Result<T, CaseError>,
    ) -> Result<Vec<T>, CaseError> {
        self.list()?.iter().map(read).collect()
    }

    pub(super) fn texts(&self) -> Result<Vec<String>, CaseError> {
        self.each(|text| text.text().map(str::to_owned))
    }

    pub(super) fn text(&self) -> Result<&'a str, CaseError> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    /// The text as whatever `read` makes of it.
    pub(super) fn word<T>(
        &self,
        allowed: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, CaseError> {
        read(self.text()?).ok_or_else(|| self.wrong(allowed))
    }

    /// One of a closed set of words.
    pub(super) fn one<T: Copy>(
        &self,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<T, CaseError> {
        let words: Vec<&str> = all.iter().map(|value| word(*value)).collect();
        let found = |text: &str| all.iter().copied().find(|value| word(*value) == text);
        self.word(&words.join(", "), found)
    }

    pub(super) fn parsed<T>(&self) -> Result<T, CaseError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let text = self.text()?;
        text.parse().map_err(|error| {
            CaseError(format!("{}: unknown value {}: {error}", self.path, self.value))
        })
    }

    pub(super) fn flag(&self) -> Result<bool, CaseError> {
        self.value.as_bool().ok_or_else(|| self.wrong("true, false"))
    }

    /// A number that is not negative.
    pub(super) fn number(&self) -> Result<f64, CaseError> {
        let number = self.value.as_f64().filter(|number| (0.0..=1e15).contains(number));
        number.ok_or_else(|| self.wrong("a number from 0 to 1e15"))
    }

    pub(super) fn whole<T: TryFrom<u64>>(&self) -> Result<T, CaseError> {
        let number = self.value.as_u64().and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.wrong("a whole number from 0"))
    }
}

/// A mapping whose keys are known.
#[derive(Debug, Clone)]
pub(super) struct CaseMap<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> CaseMap<'a> {
    /// What a key holds; an empty value counts as not given.
    pub(super) fn get(&self, key: &str) -> Option<CaseValue<'a>> {
        let value = self.map.get(key).filter(|value| !value.is_null())?;
        Some(CaseValue::new(format!("{}.{key}", self.path), value))
    }

    /// Whether a key is there, also with an empty value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// What a key holds that has no default.
    pub(super) fn need(&self, key: &str) -> Result<CaseValue<'a>, CaseError> {
        self.get(key).ok_or_else(|| CaseError(format!("{}.{key}: is missing", self.path)))
    }

    pub(super) fn or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&CaseValue<'a>) -> Result<T, CaseError>,
    ) -> Result<T, CaseError> {
        self.get(key).map_or(Ok(default), |field| read(&field))
    }

    /// What a key holds that may be absent.
    pub(super) fn maybe<T>(
        &self,
        key: &str,
        read: impl FnOnce(&CaseValue<'a>) -> Result<T, CaseError>,
    ) -> Result<Option<T>, CaseError> {
        self.get(key).map(|field| read(&field)).transpose()
    }

    /// The items of a list, which is empty unless given.
    pub(super) fn each<T>(
        &self,
        key: &str,
        read: impl FnMut(&CaseValue<'a>) -> Result<T, CaseError>,
    ) -> Result<Vec<T>, CaseError> {
        self.get(key).map_or(Ok(Vec::new()), |field| field.each(read))
    }
}

/// Nothing may be said in this part of a case.
pub(super) fn nothing_in(field: &CaseValue<'_>) -> Result<(), CaseError> {
    field.map(&[]).map(|_: CaseMap<'_>| ())
}
