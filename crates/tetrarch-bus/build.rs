//! Compiles `proto/tetrarch/v1`: prost types, their canonical JSON, and a table of every message
//! and field from which JSON is checked and the JSON Schemas are made. It decides nothing.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

const PROTO_DIR: &str = "../../proto";
const FAMILY_DIR: &str = "../../proto/tetrarch/v1";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO_DIR}/tetrarch");
    let mut files: Vec<PathBuf> = fs::read_dir(FAMILY_DIR)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|ext| ext == "proto"));
    files.sort();

    let mut compiler = protox::Compiler::new([PROTO_DIR])?;
    compiler.include_source_info(true).include_imports(true).open_files(&files)?;
    let set = compiler.file_descriptor_set();

    let mut json = pbjson_build::Builder::new();
    let mut messages = Vec::new();
    for file in &set.file {
        json.register_file_descriptor(file.clone());
        for (index, message) in file.message_type.iter().enumerate() {
            let about = |path: &[i32]| -> String {
                let info = file.source_code_info.as_ref();
                let mut places = info.into_iter().flat_map(|info| &info.location);
                let place = places.find(|place| place.path == path);
                let text = place.and_then(|place| place.leading_comments.as_deref());
                text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
            };
            let index = i32::try_from(index)?;
            let mut fields = String::new();
            for (number, field) in message.field.iter().enumerate() {
                let about = about(&[4, index, 2, i32::try_from(number)?]);
                let kind = kind(field.r#type, field.type_name());
                writeln!(
                    fields,
                    "FieldDescriptor {{ name: {:?}, json: {:?}, kind: {kind}, repeated: {}, about: {about:?} }},",
                    field.name(),
                    field.json_name(),
                    field.label == Some(LABEL_REPEATED) && kind != "FieldKind::Map",
                )?;
            }
            messages.push((message.name().to_owned(), about(&[4, index]), fields));
        }
    }
    messages.sort();
    write_table(&messages)?;

    json.ignore_unknown_fields().btree_map(["."]).build(&[".tetrarch.v1"])?;
    prost_build::Config::new().btree_map(["."]).enable_type_names().compile_fds(set)?;
    Ok(())
}

const LABEL_REPEATED: i32 = 3;

/// The kind of a field, by the numbers of `descriptor.proto`. Every map here is text to text.
fn kind(number: Option<i32>, type_name: &str) -> String {
    let message = type_name.rsplit('.').next().unwrap_or_default();
    match number {
        Some(1) => "FieldKind::Double".to_owned(),
        Some(4) => "FieldKind::U64".to_owned(),
        Some(8) => "FieldKind::Bool".to_owned(),
        Some(9) => "FieldKind::Text".to_owned(),
        Some(11) if message.ends_with("Entry") && type_name.matches('.').count() == 4 => {
            "FieldKind::Map".to_owned()
        }
        Some(11) => format!("FieldKind::Message({message:?})"),
        Some(13) => "FieldKind::U32".to_owned(),
        other => panic!("field type {other:?} of {type_name:?} has no place in the public schema"),
    }
}

fn write_table(messages: &[(String, String, String)]) -> Result<(), Box<dyn Error>> {
    let mut text = String::from("pub(crate) static MESSAGES: &[MessageDescriptor] = &[\n");
    for (name, about, fields) in messages {
        writeln!(
            text,
            "MessageDescriptor {{ name: {name:?}, about: {about:?}, fields: &[\n{fields}] }},"
        )?;
    }
    text.push_str("];\n");
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("fields.rs"), text)?;
    Ok(())
}
