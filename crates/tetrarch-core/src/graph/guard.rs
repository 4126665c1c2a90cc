//! Guards: CEL expressions over what a turn knows. One is read and evaluated here, with a bounded cost: no loops,
//! a bounded length and depth, and nothing but the names below (docs/decisions/0121).

use std::fmt;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::parser::PrattParser;
use serde_json::{Map, Value};

use crate::limits::{GUARD_BYTES_MAX, GUARD_DEPTH_MAX};

/// What a guard may name.
pub const GUARD_NAMES: [&str; 6] =
    ["intent", "confidence", "result", "context", "budget", "attempt"];
/// What a guard may call, besides operators.
const FUNCTIONS: [&str; 4] = ["size", "contains", "startsWith", "endsWith"];
/// Nested brackets that are read.
const BRACKETS_MAX: u16 = 12;

/// A guard that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeGuard {
    text: String,
    expression: IdedExpr,
}

/// What is wrong with a guard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// It has too many bytes, which are given.
    #[error("has {0} bytes; the limit is {GUARD_BYTES_MAX} bytes")]
    TooLong(usize),
    /// It is no CEL.
    #[error("does not compile: column {column}: {why}")]
    Syntax {
        /// Where in its text, from 1.
        column: usize,
        /// What is wrong there.
        why: String,
    },
    /// Its expression is too deep.
    #[error("is nested more than {GUARD_DEPTH_MAX} levels deep")]
    TooDeep,
    /// It names what there is not.
    #[error("names {0}, which a guard does not know")]
    UnknownName(String),
    /// It calls what there is not.
    #[error("calls {0}, which a guard does not know")]
    UnknownFunction(String),
    /// It has a loop or makes a message, whose cost is not bounded by its length.
    #[error("uses a macro or message, which a guard does not have")]
    Unbounded,
    /// It cannot be evaluated with these values.
    #[error("failed: {0}")]
    Failed(String),
    /// Its value is neither true nor false.
    #[error("is {0}, not true or false")]
    NotBoolean(&'static str),
}

impl EdgeGuard {
    /// Reads a guard (spec 07, State graphs).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, GuardError> {
        if text.len() > GUARD_BYTES_MAX {
            return Err(GuardError::TooLong(text.len()));
        }
        let parser = PrattParser::new().max_recursion_depth(BRACKETS_MAX);
        let parser = parser.error_recovery_limit(1).error_reporting_limit(1);
        let expression = parser.parse(text).map_err(|errors| {
            let first = errors.errors.first();
            let column = first.and_then(|error| usize::try_from(error.pos.1).ok()).unwrap_or(1);
            let why = first.map_or("no expression", |error| error.msg.as_str());
            let why = why.trim_start_matches("Syntax error: ").to_owned();
            GuardError::Syntax { column: column.max(1), why }
        })?;
        check(&expression, GUARD_DEPTH_MAX)?;
        Ok(Self { text: text.to_owned(), expression })
    }

    /// Whether it is true of these values, of which those that are not given are nothing.
    ///
    /// # Errors
    /// It cannot be evaluated with these values, or is neither true nor false.
    pub fn holds(&self, values: &Map<String, Value>) -> Result<bool, GuardError> {
        let mut context = cel::Context::default();
        for name in GUARD_NAMES {
            let value = values.get(name).unwrap_or(&Value::Null);
            context.add_variable_from_value(name, of_json(value));
        }
        match cel::Value::resolve(&self.expression, &context) {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            Ok(other) => Err(GuardError::NotBoolean(kind(&other))),
            Err(error) => Err(GuardError::Failed(error.to_string())),
        }
    }

    /// Whether it is true whatever the values are.
    #[must_use]
    pub fn is_always(&self) -> bool {
        matches!(&self.expression.expr, Expr::Literal(LiteralValue::Boolean(truth)) if *truth.inner())
    }
}

impl fmt::Display for EdgeGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Refuses what is too deep or is not known, before anything is evaluated.
fn check(expression: &IdedExpr, levels: usize) -> Result<(), GuardError> {
    let Some(below) = levels.checked_sub(1) else { return Err(GuardError::TooDeep) };
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => Ok(()),
        Expr::Ident(name) if GUARD_NAMES.contains(&name.as_str()) => Ok(()),
        Expr::Ident(name) => Err(GuardError::UnknownName(name.clone())),
        Expr::Comprehension(_) | Expr::Struct(_) => Err(GuardError::Unbounded),
        Expr::Select(select) => check(&select.operand, below),
        Expr::List(list) => list.elements.iter().try_for_each(|one| check(one, below)),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::StructField(_) => Err(GuardError::Unbounded),
            EntryExpr::MapEntry(pair) => {
                check(&pair.key, below)?;
                check(&pair.value, below)
            }
        }),
        Expr::Call(call) => {
            let operator = call.func_name.contains(['_', '@']);
            if !operator && !FUNCTIONS.contains(&call.func_name.as_str()) {
                return Err(GuardError::UnknownFunction(call.func_name.clone()));
            }
            let target = call.target.iter().map(|target| &**target);
            target.chain(&call.args).try_for_each(|one| check(one, below))
        }
    }
}

fn of_json(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(truth) => cel::Value::Bool(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => cel::Value::Int(whole),
            (None, Some(number)) => cel::Value::Float(number),
            (None, None) => cel::Value::Null,
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(of_json).collect::<Vec<_>>().into(),
        Value::Object(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (key.as_str().into(), of_json(value)));
            cel::Value::Map(cel::objects::Map { map: Arc::new(pairs.collect()) })
        }
    }
}

fn kind(value: &cel::Value) -> &'static str {
    match value {
        cel::Value::List(_) => "a list",
        cel::Value::Map(_) | cel::Value::Struct(_) => "a mapping",
        cel::Value::Int(_) | cel::Value::UInt(_) | cel::Value::Float(_) => "a number",
        cel::Value::String(_) | cel::Value::Bytes(_) => "a text",
        cel::Value::Bool(_) => "true or false",
        cel::Value::Null => "nothing",
        cel::Value::Function(..) | cel::Value::Opaque(_) => "no value",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> Map<String, Value> {
        let values = json!({
            "intent": "research", "confidence": 0.5, "attempt": 1,
            "result": {"outcome": "success", "text": "7"}, "context": {"text": "find it"},
        });
        values.as_object().cloned().unwrap()
    }

    fn holds(text: &str) -> Result<bool, GuardError> {
        EdgeGuard::new(text)?.holds(&values())
    }

    #[test]
    fn guard_is_evaluated_over_the_named_values() {
        for (text, expected) in [
            ("true", true),
            ("intent == 'research' && confidence > 0.4", true),
            ("confidence >= 1", false),
            ("attempt < 2", true),
            ("attempt > 0.5", true),
            ("result.outcome == 'success'", true),
            ("has(result.text) && !has(result.partial)", true),
            ("context.text.startsWith('find') || false", true),
            ("size(context.text) == 7", true),
            ("intent in ['code', 'research']", true),
            ("attempt > 3 ? true : context.text.contains('x')", false),
        ] {
            assert_eq!(holds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn failing_guard_says_why_and_is_no_boolean() {
        for (text, expected) in [
            ("1 / (attempt - 1) == 1", "failed: "),
            ("9223372036854775807 + attempt > 0", "failed: "),
            ("result.missing == 1", "failed: "),
            ("budget.tokens > 1", "failed: "),
            ("intent", "is a text, not true or false"),
            ("[1][5] == 1", "failed: "),
        ] {
            let error = holds(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn guard_that_is_none_is_refused_when_it_is_read() {
        let deep = format!("{}true", "true == ".repeat(GUARD_DEPTH_MAX));
        let brackets = "(".repeat(GUARD_BYTES_MAX);
        let lists = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for (text, expected) in [
            ("intent == ", "does not compile: column "),
            ("", "does not compile: column 1"),
            ("intent == 'a", "does not compile: column "),
            (&brackets, "does not compile: column "),
            (&lists, "does not compile: column "),
            (&deep, "is nested more than 16 levels deep"),
            ("foo == 1", "names foo, which a guard does not know"),
            ("now() == 1", "calls now, which a guard does not know"),
            ("intent.matches('(a+)+')", "calls matches, which a guard does not know"),
            ("[1, 2].all(x, x > 0)", "uses a macro or message"),
            ("[1].map(x, [2].map(y, x + y)) == []", "uses a macro or message"),
        ] {
            let error = EdgeGuard::new(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn length_and_depth_hold_at_both_ends() {
        let of = |length: usize| format!("'{}' == intent", "a".repeat(length - 12));
        assert_eq!(holds(&of(GUARD_BYTES_MAX)), Ok(false));
        let long = EdgeGuard::new(&of(GUARD_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(long, GuardError::TooLong(GUARD_BYTES_MAX + 1));
        // A chain of n comparisons is n + 1 levels deep.
        let of = |levels: usize| format!("{}true", "true == ".repeat(levels - 1));
        assert_eq!(holds(&of(GUARD_DEPTH_MAX)), Ok(true));
        assert_eq!(EdgeGuard::new(&of(GUARD_DEPTH_MAX + 1)), Err(GuardError::TooDeep));
    }

    proptest! {
        #[test]
        fn any_text_is_a_guard_or_refused(text in "[\\PC]{0,60}") {
            let _either_way = holds(&text);
        }

        #[test]
        fn any_tokens_are_a_guard_or_refused(
            tokens in prop::collection::vec(
                prop::sample::select(vec![
                    "(", ")", "[", "]", "{", "}", "?", ":", "&&", "||", "!", "-", "==", "+", "%", "/",
                    ".", ",", "intent", "attempt", "result", "1", "0", "'a'", "true", " in ", "size",
                    "has", "all", "9223372036854775807", "1u", "b'x'", "null",
                ]),
                0..60,
            ),
        ) {
            let _either_way = holds(&tokens.concat());
        }
    }
}
