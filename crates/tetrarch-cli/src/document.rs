//! Files that people write: YAML, TOML or JSON by extension, read into one kind of document.
//! It knows syntax only; what a document has to say is checked by whoever asked for it.

mod places;
mod quotes;
mod syntax;

use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Map, Value};
use tetrarch_core::plan::schema::PlanProblem;

use self::places::{PathIndex, TextPosition};

use crate::{CliError, CliResult, Code};

/// What is to be done about a fault of syntax.
const CORRECT: &str = "correct that line and try again";
/// Largest file that is read, in bytes: twice the largest plan, for comments and indentation.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const FORMATS: &str = "write YAML (.yaml, .yml), TOML (.toml) or JSON (.json)";

/// The endings of files that are read.
const ENDINGS: [&str; 4] = ["yaml", "yml", "toml", "json"];

/// What stands for standard input where a file is named.
pub(crate) const STANDARD_INPUT: &str = "-";

/// A document, and where each part of it stands in its text.
#[derive(Debug)]
pub(crate) struct Document {
    /// What it says.
    pub(crate) value: Value,
    name: String,
    places: PathIndex,
    /// Parts that other files said: from which path on, and where that stands in which document.
    joined: Vec<(String, String, Rc<Self>)>,
}

impl Document {
    /// A document that no file says.
    pub(crate) fn of(name: &str, value: Value) -> Self {
        Self { value, name: name.to_owned(), places: PathIndex::default(), joined: Vec::new() }
    }

    /// The value below a key, as a document of its own.
    pub(crate) fn part(self, key: &str, value: Value) -> Self {
        Self { value, name: self.name, places: self.places.below(key), joined: Vec::new() }
    }

    /// Says that what stands at a path of this document was said at another path of another one.
    pub(crate) fn join(&mut self, path: String, said: (String, Rc<Self>)) {
        self.joined.push((path, said.0, said.1));
    }

    /// The file that says what stands at a path, and where in it.
    fn place_of(&self, path: &str) -> (&str, Option<TextPosition>) {
        for (here, there, document) in &self.joined {
            let below = path.strip_prefix(here.as_str());
            if let Some(below) = below.filter(|it| it.is_empty() || it.starts_with('.')) {
                let path = format!("{there}{below}");
                return (&document.name, document.places.of(path.trim_start_matches('.')));
            }
        }
        (&self.name, self.places.of(path))
    }

    /// Each problem as a line with its place, in the order of the text.
    pub(crate) fn lines(&self, problems: &[PlanProblem]) -> Vec<String> {
        let mut placed: Vec<_> =
            problems.iter().map(|problem| (self.place_of(&problem.path), problem)).collect();
        placed.sort_by_key(|((name, place), _)| (*name != self.name, *place));
        let line =
            |((name, place), problem): ((&str, Option<TextPosition>), &PlanProblem)| match place {
                Some((line, column)) => format!("{name}:{line}:{column}: {problem}"),
                None => format!("{name}: {problem}"),
            };
        let mut lines: Vec<String> = placed.into_iter().map(line).collect();
        lines.dedup();
        lines
    }

    /// Its name, as it was given.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The error of a document with these problems, each with its place. `what` it is no valid one of.
    pub(crate) fn refused(&self, what: &str, problems: &[PlanProblem]) -> CliError {
        let lines = self.lines(problems);
        let what = format!("{} is not a valid {what}:\n{}", self.name, lines.join("\n"));
        CliError::new(Code::Usage, what)
    }
}

/// Reads a document from a file, whose extension says which format it has, or YAML or JSON from standard
/// input, for which `-` stands.
///
/// # Errors
/// The file cannot be read, is too large, has another extension, or breaks its format's rules:
/// then with line and column.
pub(crate) fn read_document(path: &Path) -> CliResult<Document> {
    let piped = path == Path::new(STANDARD_INPUT);
    let name = if piped { "stdin".to_owned() } else { path.display().to_string() };
    let text = read_text(path, piped, &name)?;
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if let Some((at, hidden)) = text.char_indices().find(|(_, c)| is_unwritten(*c)) {
        let (line, column) = places::place(&text, at);
        let what = format!(
            "{name}:{line}:{column}: the control character U+{:04X} is not allowed",
            u32::from(hidden)
        );
        return Err(CliError::new(Code::Usage, what).hint("remove it and try again"));
    }
    let parsed = match extension {
        _ if piped => yaml(&text).map(|value| (value, PathIndex::of_yaml(&text))),
        "yaml" | "yml" => yaml(&text).map(|value| (value, PathIndex::of_yaml(&text))),
        "toml" => toml(&text).map(|value| (value, PathIndex::of_toml(&text))),
        "json" => json(&text).map(|value| (value, PathIndex::of_yaml(&text))),
        _ => {
            let what = format!("{name} has no known extension");
            return Err(CliError::new(Code::Usage, what).hint(FORMATS));
        }
    };
    let (value, places) = parsed.map_err(|fault| {
        let DocumentError { place: (line, column), reason } = fault;
        CliError::new(Code::Usage, format!("{name}:{line}:{column}: {reason}")).hint(CORRECT)
    })?;
    Ok(Document { value, name, places, joined: Vec::new() })
}

/// Whether no text of any format has it.
fn is_unwritten(c: char) -> bool {
    c < ' ' && !matches!(c, '\n' | '\r' | '\t')
}

/// The file that is probably meant by a path that cannot be read: that of another ending, or the plan of a directory.
fn meant(path: &Path) -> Option<PathBuf> {
    let stem = if path.is_dir() { path.join("plan") } else { path.to_owned() };
    if stem.is_file() {
        return None;
    }
    ENDINGS.iter().map(|ending| stem.with_extension(ending)).find(|there| there.is_file())
}

/// The text of a file, or of standard input when it is `piped`. `name` is what errors call it.
///
/// # Errors
/// It cannot be read, is too large or is not UTF-8.
pub(crate) fn read_text(path: &Path, piped: bool, name: &str) -> CliResult<String> {
    let unreadable = |error: std::io::Error| {
        let unread = CliError::new(Code::Usage, format!("cannot read {name}: {error}"));
        match meant(path) {
            Some(there) => unread.hint(format!("name {}, which is there", there.display())),
            None => unread,
        }
    };
    let mut bytes = Vec::new();
    let file: Box<dyn Read> =
        if piped { Box::new(stdin()) } else { Box::new(File::open(path).map_err(unreadable)?) };
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let what = format!("{name} has more than {FILE_BYTES_MAX} bytes, which is the limit");
        return Err(CliError::new(Code::Usage, what).hint("store long texts as artifacts"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let (line, column) = places::place(&String::from_utf8_lossy(&error.into_bytes()[..at]), at);
        CliError::new(Code::Usage, format!("{name}:{line}:{column}: this is not UTF-8 text"))
            .hint("save it as UTF-8")
    })
}

/// What is wrong with a text, and where.
#[derive(Debug)]
struct DocumentError {
    place: TextPosition,
    reason: String,
}

fn yaml(text: &str) -> Result<Value, DocumentError> {
    // Only `true` and `false` are booleans, so that `on` and `no` stay the words they are.
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location().map(|place| (place.line(), place.column()));
        // Of an empty text it says neither.
        let place = place.filter(|(line, _)| *line > 0).unwrap_or((1, 1));
        match quotes::open_at(text, places::byte(text, place)) {
            Some(open) => {
                DocumentError { place: places::place(text, open), reason: syntax::QUOTE.to_owned() }
            }
            None => DocumentError { place, reason: syntax::yaml(&error) },
        }
    })
}

fn toml(text: &str) -> Result<Value, DocumentError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| DocumentError {
        place: places::place(text, error.span().map_or(0, |span| span.start)),
        reason: syntax::toml(error.message()),
    })?;
    Ok(of_toml(toml::Value::Table(table)))
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

fn json(text: &str) -> Result<Value, DocumentError> {
    serde_json::from_str(text).map_err(|error| {
        let number = |at: usize| u64::try_from(at).unwrap_or(u64::MAX);
        let place = (number(error.line()), number(error.column()));
        DocumentError { place, reason: syntax::json(&error.to_string()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(name: &str, text: &str) -> CliResult<Value> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join(name);
        std::fs::write(&path, text)?;
        read_document(&path).map(|document| document.value)
    }

    #[test]
    fn three_formats_read_the_same() {
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
            ("a.yaml", "a: b: c\n", "a.yaml:1:5: a second `: ` in one line"),
            ("a.yaml", "a:\n\t- b\n", "a.yaml:2:"),
            ("a.yaml", "a: 1\nb: 'c\nd: 1\n", "a.yaml:2:4: a quoted text is not closed"),
            ("a.yaml", "a: b\x1b[31m\n", "a.yaml:1:5: the control character U+001B"),
            ("a.json", "{\"a\": \"\x1b\"}", "a.json:1:8: the control character U+001B"),
            ("a.yaml", "a: *b\n", "a.yaml:1:4: this alias"),
            ("a.yaml", "a: @b\n", "a.yaml:1:4: invalid YAML: check"),
            ("a.yaml", "a: 1\n  b: 2\n", "a.yaml:2:"),
            ("a.yaml", "a:\n  - b\n c\n", "a.yaml:3:"),
            ("a.yaml", "a: {b: 1\nc: 2\n", "a.yaml:"),
            ("a.yml", "a: 1\na: 2\n", "a.yml:2:1: the key \"a\" is given twice"),
            ("a.toml", "a = 1\nb = = 2\n", "a.toml:2:5:"),
            ("a.toml", "a = 1\na = 2\n", "a.toml:2:1: a key or table is given twice"),
            ("a.json", "{\"a\": 1,\n \"b\" 2}", "a.json:2:6:"),
        ] {
            let error = written(name, text).unwrap_err();
            assert_eq!(error.code, Code::Usage);
            assert!(error.what.contains(at), "{}", error.what);
            assert!(!error.what.contains('\n'), "{}", error.what);
        }
    }

    #[test]
    fn unsupported_file_is_refused_with_next_step() {
        let error = written("a.txt", "x").unwrap_err();
        assert_eq!(error.hint.as_deref(), Some(FORMATS));
        let missing = read_document(Path::new("no/such/plan.yaml")).unwrap_err();
        assert_eq!(missing.code, Code::Usage);
        assert!(missing.what.contains("no/such/plan.yaml"), "{}", missing.what);
    }

    #[test]
    fn unreadable_path_is_answered_with_the_file_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let hint = |path: &Path| read_document(path).unwrap_err().hint;
        assert_eq!((hint(dir.path()), hint(&dir.path().join("plan.yml"))), (None, None));
        let there = dir.path().join("plan.yaml");
        std::fs::write(&there, "title: x\n").unwrap();
        let said = Some(format!("name {}, which is there", there.display()));
        for typed in ["", "plan.yml", "plan.json", "plan"] {
            let typed = dir.path().join(typed);
            assert_eq!(hint(&typed), said, "{}", typed.display());
        }
        assert_eq!(hint(&dir.path().join("other.yml")), None);
    }

    #[test]
    fn example_plans_satisfy_the_published_schema() {
        let schema = tetrarch_bus::schema::schema("PlanFile").unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let mut plans = 0;
        for entry in std::fs::read_dir(examples).unwrap() {
            let path = entry.unwrap().path().join("plan.yaml");
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
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
