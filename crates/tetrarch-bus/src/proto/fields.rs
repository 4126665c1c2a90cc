//! The table of every message and field of `proto/tetrarch/v1`, made from the descriptors.
//! JSON is checked against it, and the JSON Schemas are printed from it.

/// A message.
#[derive(Debug)]
pub struct MessageDescriptor {
    /// Its name, without the package.
    pub name: &'static str,
    /// The comment in the proto file.
    pub about: &'static str,
    /// Its fields, in the file's order.
    pub fields: &'static [FieldDescriptor],
}

/// A field.
#[derive(Debug)]
pub struct FieldDescriptor {
    /// Its name in the proto file.
    pub name: &'static str,
    /// Its name in canonical JSON.
    pub json: &'static str,
    /// What it holds.
    pub kind: FieldKind,
    /// Whether it is a list.
    pub repeated: bool,
    /// The comment in the proto file.
    pub about: &'static str,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// `true` or `false`.
    Bool,
    /// A number.
    Double,
    /// A whole number of 32 bits.
    U32,
    /// A whole number of 64 bits; canonical JSON writes it as text.
    U64,
    /// Text.
    Text,
    /// Text by text.
    Map,
    /// A message of this name.
    Message(&'static str),
}

include!(concat!(env!("OUT_DIR"), "/fields.rs"));

impl MessageDescriptor {
    /// Every message, by name.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        MESSAGES.iter()
    }

    /// The message of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let found = MESSAGES.binary_search_by(|message| message.name.cmp(name)).ok()?;
        MESSAGES.get(found)
    }

    /// The field that JSON calls by either of its names.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&'static FieldDescriptor> {
        self.fields.iter().find(|field| field.json == key || field.name == key)
    }
}
