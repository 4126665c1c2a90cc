//! Where each part of a document stands in its text, so that what is wrong with a value is said with line
//! and column. It reads the syntax a second time and judges nothing: a text it cannot read has no places.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use toml::de::{DeTable, DeValue};

/// A line and a column, both counted from 1.
pub(super) type TextPosition = (u64, u64);

/// Every path of a document, such as `phases[1].tasks[0].deps`, and where it stands: a value with a key at
/// its key, an entry of a list at its own beginning.
#[derive(Debug, Clone, Default)]
pub(super) struct PathIndex(BTreeMap<String, TextPosition>);

impl PathIndex {
    /// Of YAML, and so of JSON.
    pub(super) fn of_yaml(text: &str) -> Self {
        let mut places = Self::default();
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        if let Ok(tree) = serde_saphyr::from_str_with_options::<Spanned<YamlTree>>(text, options) {
            places.add_tree(String::new(), &tree.value);
        }
        places
    }

    /// Of TOML.
    pub(super) fn of_toml(text: &str) -> Self {
        let mut places = Self::default();
        if let Ok(table) = DeTable::parse(text) {
            places.add_table(text, "", table.get_ref());
        }
        places
    }

    /// Those of what is below a key, by their paths from there.
    pub(super) fn below(&self, key: &str) -> Self {
        let rest = |path: &str| Some(path.strip_prefix(key)?.trim_start_matches('.').to_owned());
        Self(self.0.iter().filter_map(|(path, place)| Some((rest(path)?, *place))).collect())
    }

    /// Where a path stands; one that is not there stands where the last part of it that is there does.
    pub(super) fn of(&self, path: &str) -> Option<TextPosition> {
        let mut rest = path;
        loop {
            if let Some(place) = self.0.get(rest) {
                return Some(*place);
            }
            rest = rest.rfind(['.', '[']).map_or("", |end| &rest[..end]);
            if rest.is_empty() {
                return (!self.0.is_empty()).then_some((1, 1));
            }
        }
    }

    fn add_tree(&mut self, path: String, tree: &YamlTree) {
        match tree {
            YamlTree::Leaf => {}
            YamlTree::List(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.0.insert(path.clone(), place_of(entry));
                    self.add_tree(path, &entry.value);
                }
            }
            YamlTree::Map(entries) => {
                for (key, entry) in entries {
                    let path = below(&path, &key.value);
                    self.0.insert(path.clone(), place_of(key));
                    self.add_tree(path, &entry.value);
                }
            }
        }
    }

    fn add_table(&mut self, text: &str, path: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = below(path, key.get_ref());
            self.0.insert(path.clone(), place(text, key.span().start));
            self.add_value(text, path, value.get_ref());
        }
    }

    fn add_value(&mut self, text: &str, path: String, value: &DeValue<'_>) {
        if let DeValue::Table(table) = value {
            self.add_table(text, &path, table);
        } else if let DeValue::Array(entries) = value {
            for (index, entry) in entries.iter().enumerate() {
                let path = format!("{path}[{index}]");
                self.0.insert(path.clone(), place(text, entry.span().start));
                self.add_value(text, path, entry.get_ref());
            }
        }
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn place_of<T>(spanned: &Spanned<T>) -> TextPosition {
    (spanned.referenced.line(), spanned.referenced.column())
}

/// Line and column of a byte.
pub(super) fn place(text: &str, at: usize) -> TextPosition {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    (u64::try_from(line).unwrap_or(u64::MAX), u64::try_from(column).unwrap_or(u64::MAX))
}

/// The byte of a line and a column; a place that the text does not have is its end.
pub(super) fn byte(text: &str, (line, column): TextPosition) -> usize {
    let lines = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    let columns = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
    let start: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    let rest = text.get(start..).unwrap_or_default();
    start + rest.char_indices().nth(columns).map_or(rest.len(), |(offset, _)| offset)
}

/// The shape of a YAML document with the places of its parts.
enum YamlTree {
    Leaf,
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for YamlTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

/// Values that nothing is below.
macro_rules! leaves {
    ($($visit:ident: $value:ty),* $(,)?) => {$(
        fn $visit<E>(self, _: $value) -> Result<YamlTree, E> {
            Ok(YamlTree::Leaf)
        }
    )*};
}

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = YamlTree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document")
    }

    leaves! {
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128,
        visit_f64: f64, visit_str: &str, visit_bytes: &[u8],
    }

    fn visit_unit<E>(self) -> Result<YamlTree, E> {
        Ok(YamlTree::Leaf)
    }

    fn visit_none<E>(self) -> Result<YamlTree, E> {
        Ok(YamlTree::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlTree, D::Error> {
        YamlTree::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<YamlTree, D::Error> {
        IgnoredAny::deserialize(inner).map(|_| YamlTree::Leaf)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<YamlTree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = seq.next_element()? {
            entries.push(entry);
        }
        Ok(YamlTree::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlTree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(YamlTree::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_position_is_its_key_and_item_position_its_start() {
        let yaml = "title: a\nphases:\n  - id: P1\n    deps: [\n      x, yy]\n    tasks:\n    - {id: T1.1}\n";
        let json = "{\"title\": 1,\n \"phases\": [\n  {\"id\": \"P1\"}]}";
        let toml = "title = 'a'\n[[phases]]\nid = 'P1'\ndeps = ['x',\n  'y']\n";
        for (places, path, place) in [
            (PathIndex::of_yaml(yaml), "title", (1, 1)),
            (PathIndex::of_yaml(yaml), "phases[0]", (3, 5)),
            (PathIndex::of_yaml(yaml), "phases[0].deps", (4, 5)),
            (PathIndex::of_yaml(yaml), "phases[0].deps[1]", (5, 10)),
            (PathIndex::of_yaml(yaml), "phases[0].name", (3, 5)),
            (PathIndex::of_yaml(yaml), "phases[0].tasks[0].id", (7, 8)),
            (PathIndex::of_yaml(yaml), "plan", (1, 1)),
            (PathIndex::of_yaml(json), "phases[0].id", (3, 4)),
            (PathIndex::of_toml(toml), "phases[0].id", (3, 1)),
            (PathIndex::of_toml(toml), "phases[0].deps[1]", (5, 3)),
            (PathIndex::of_toml(toml), "phases[0].name", (2, 1)),
        ] {
            assert_eq!(places.of(path), Some(place), "{path}");
        }
    }
}
