//! Files that people write: YAML, TOML or JSON by extension, read into one kind of document.
//! It knows syntax only; what a document has to say is checked by whoever asked for it.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::exit::{CliError, Code};

/// Largest file that is read, in bytes: twice the largest plan, for comments and indentation.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const FORMATS: &str = "write YAML (.yaml, .yml), TOML (.toml) or JSON (.json)";

/// Reads a document from a file; the extension says which format it has.
///
/// # Errors
/// The file cannot be read, is too large, has another extension, or breaks its format's rules:
/// then with line and column.
pub(crate) fn read_document(path: &Path) -> Result<Value, CliError> {
    let named = path.display();
    let unreadable =
        |error: std::io::Error| CliError::new(Code::Usage, format!("cannot read {named}: {error}"));
    let size = fs::metadata(path).map_err(unreadable)?.len();
    if size > FILE_BYTES_MAX {
        let what = format!("{named} has {size} bytes; at most {FILE_BYTES_MAX} are read");
        return Err(CliError::new(Code::Usage, what).hint("store long texts as artifacts"));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let parsed = match extension {
        "yaml" | "yml" => yaml(&text),
        "toml" => toml(&text),
        "json" => json(&text),
        _ => {
            let what = format!("{named} has no known extension");
            return Err(CliError::new(Code::Usage, what).hint(FORMATS));
        }
    };
    parsed.map_err(|fault| {
        let Fault { line, column, reason } = fault;
        CliError::new(Code::Usage, format!("{named}:{line}:{column}: {reason}"))
    })
}

/// What is wrong with a text, and where, both counted from 1.
#[derive(Debug)]
struct Fault {
    line: u64,
    column: u64,
    reason: String,
}

fn yaml(text: &str) -> Result<Value, Fault> {
    // Only `true` and `false` are booleans, so that `on` and `no` stay the words they are.
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(|place| (place.line(), place.column()));
        let (line, column) = place.unwrap_or((1, 1));
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
        Fault { line, column, reason }
    })
}

fn toml(text: &str) -> Result<Value, Fault> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let (line, column) = place(text, error.span().map_or(0, |span| span.start));
        Fault { line, column, reason: error.message().to_owned() }
    })?;
    Ok(of_toml(toml::Value::Table(table)))
}

/// Line and column of a byte, both from 1.
fn place(text: &str, at: usize) -> (u64, u64) {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    (u64::try_from(line).unwrap_or(u64::MAX), u64::try_from(column).unwrap_or(u64::MAX))
}

fn of_toml(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Boolean(truth) => Value::Bool(truth),
        toml::Value::Datetime(moment) => Value::String(moment.to_string()),
        toml::Value::Array(items) => Value::Array(items.into_iter().map(of_toml).collect()),
        toml::Value::Table(table) => {
            let pairs = table.into_iter().map(|(key, value)| (key, of_toml(value)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
    }
}

fn json(text: &str) -> Result<Value, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let number = |at: usize| u64::try_from(at).unwrap_or(u64::MAX);
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
        Fault { line: number(error.line()), column: number(error.column()), reason }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(name: &str, text: &str) -> Result<Value, CliError> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join(name);
        fs::write(&path, text)?;
        read_document(&path)
    }

    #[test]
    fn the_three_formats_say_the_same() {
        let expected = json!({"title": "a", "phases": [{"id": "P1", "deps": []}], "on": "no"});
        let yaml = "title: a\nphases:\n  - id: P1\n    deps: []\non: no\n";
        let toml = "title = 'a'\non = 'no'\n[[phases]]\nid = 'P1'\ndeps = []\n";
        assert_eq!(written("a.yaml", yaml).unwrap(), expected);
        assert_eq!(written("a.toml", toml).unwrap(), expected);
        assert_eq!(written("a.json", &expected.to_string()).unwrap(), expected);
    }

    #[test]
    fn errors_name_file_line_and_column() {
        for (name, text, at) in [
            ("a.yaml", "title: a\nphases: [\n", "a.yaml:"),
            ("a.yml", "a: 1\na: 2\n", "a.yml:2:1:"),
            ("a.toml", "a = 1\nb = = 2\n", "a.toml:2:5:"),
            ("a.json", "{\"a\": 1,\n \"b\" 2}", "a.json:2:6:"),
        ] {
            let error = written(name, text).unwrap_err();
            assert_eq!(error.code, Code::Usage);
            assert!(error.what.contains(at), "{}", error.what);
            assert!(!error.what.contains('\n'), "{}", error.what);
        }
    }

    #[test]
    fn other_files_are_refused_with_what_to_do() {
        let error = written("a.txt", "x").unwrap_err();
        assert_eq!(error.hint.as_deref(), Some(FORMATS));
        let missing = read_document(Path::new("no/such/plan.yaml")).unwrap_err();
        assert_eq!(missing.code, Code::Usage);
        assert!(missing.what.contains("no/such/plan.yaml"), "{}", missing.what);
    }

    #[test]
    fn example_plans_satisfy_the_published_schema() {
        let schema = tetrarch_bus::schema::schema("PlanFile").unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let mut plans = 0;
        for entry in fs::read_dir(examples).unwrap() {
            let path = entry.unwrap().path().join("plan.yaml");
            let Ok(text) = fs::read_to_string(&path) else { continue };
            // An example's run script fills in what stands between these.
            let plan = written("plan.yaml", &text.replace("@KEY@", "env:KEY")).unwrap();
            let errors = validator.iter_errors(&plan);
            let errors: Vec<String> =
                errors.map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
            plans += 1;
        }
        assert!(plans >= 4, "{plans}");
    }
}
