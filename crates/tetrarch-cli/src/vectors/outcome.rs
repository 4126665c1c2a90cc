//! What a case comes to, and whether that is what was expected: a subset, numbers within
//! 1e-6, lists whole and in order (spec 11).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::vectors::input::CaseError;

const TOLERANCE: f64 = 1e-6;

/// How a key is compared where spec 11 fixes no single word for it.
#[derive(Debug)]
enum Leniency {
    /// These say the same.
    Also(Vec<Value>),
    /// Any text, or `true`, says that there is one.
    Any,
    /// The expected text is part of the actual one.
    Part,
}

/// What a case comes to, unless it cannot be run.
pub(super) type CaseResult = Result<CaseOutcome, CaseError>;

/// The result of a case.
#[derive(Debug, Default)]
pub(super) struct CaseOutcome {
    values: Map<String, Value>,
    lenient: BTreeMap<&'static str, Leniency>,
}

impl CaseOutcome {
    pub(super) fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.values.insert(key.to_owned(), value.into());
        self
    }

    /// A value with other words for it.
    pub(super) fn set_or(
        mut self,
        key: &'static str,
        value: impl Into<Value>,
        also: &[Value],
    ) -> Self {
        self.lenient.insert(key, Leniency::Also(also.to_vec()));
        self.set(key, value)
    }

    /// An error for which spec 11 has no word.
    pub(super) fn set_error(mut self, word: &str) -> Self {
        self.lenient.insert("error", Leniency::Any);
        self.set("error", word)
    }

    /// The error in words, of which a case expects a part.
    pub(super) fn set_detail(mut self, detail: impl Into<String>) -> Self {
        self.lenient.insert("detail", Leniency::Part);
        self.set("detail", detail.into())
    }

    /// Whether it says that something was refused.
    pub(super) fn is_error(&self) -> bool {
        self.values.contains_key("error")
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.values)
    }

    pub(super) fn satisfies(&self, expected: &Map<String, Value>) -> bool {
        expected.iter().all(|(key, expected)| {
            self.values.get(key).is_some_and(|actual| {
                holds(expected, actual) || self.is_lenient(key, expected, actual)
            })
        })
    }

    fn is_lenient(&self, key: &str, expected: &Value, actual: &Value) -> bool {
        match self.lenient.get(key) {
            None => false,
            Some(Leniency::Also(words)) => words.contains(expected),
            Some(Leniency::Any) => *expected == Value::Bool(true) || expected.is_string(),
            Some(Leniency::Part) => match (expected.as_str(), actual.as_str()) {
                (Some(part), Some(whole)) => whole.contains(part),
                (_, _) => false,
            },
        }
    }
}

/// Whether what came out holds what was expected.
fn holds(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => expected
            .iter()
            .all(|(key, expected)| actual.get(key).is_some_and(|actual| holds(expected, actual))),
        (Value::Array(expected), Value::Array(actual)) => {
            expected.len() == actual.len()
                && expected.iter().zip(actual).all(|(expected, actual)| holds(expected, actual))
        }
        (Value::Number(a), Value::Number(b)) if a != b => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE,
            (_, _) => false,
        },
        (_, _) => expected == actual,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::holds;

    #[test]
    fn subset_of_expected_keys_must_match() {
        let actual = json!({"a": 1, "b": [{"x": 1, "y": 2}, 3], "c": null});
        for expected in
            [json!({}), json!({"a": 1.0000009}), json!({"b": [{"x": 1}, 3]}), json!({"c": null})]
        {
            assert!(holds(&expected, &actual), "{expected}");
        }
        for expected in [
            json!({"a": 1.000002}),
            json!({"a": "1"}),
            json!({"b": [{"x": 1}]}),
            json!({"b": [3, {"x": 1}]}),
            json!({"b": [{"x": 1}, 3, 4]}),
            json!({"d": null}),
            json!([]),
        ] {
            assert!(!holds(&expected, &actual), "{expected}");
        }
    }

    #[test]
    fn large_integers_are_compared_exactly() {
        assert!(holds(&json!(u64::MAX), &json!(u64::MAX)));
        assert!(!holds(&json!(1_000_001), &json!(1_000_000)));
    }
}
