//! `tetrarch schema`: the JSON Schemas of everything public (spec 02, Encodings).

use std::io::Write;

use serde_json::{Map, Value};
use tetrarch_bus::schema;

use crate::context::Context;
use crate::exit::{CliError, Code};

/// Prints the JSON Schemas of everything public.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tetrarch schema\n  tetrarch schema SpawnRequest\n  tetrarch schema --all > schemas.json")]
pub(crate) struct SchemaArgs {
    /// A message; without one the names are listed.
    name: Option<String>,
    /// Every schema, in one object by name.
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

/// Runs the command.
///
/// # Errors
/// There is no such message.
pub(crate) fn run(_context: &Context, args: &SchemaArgs) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    if args.all {
        let all = schema::names().into_iter().filter_map(|name| {
            Some((name.to_owned(), schema::schema(name)?))
        });
        return print(&mut out, &Value::Object(all.collect::<Map<_, _>>()));
    }
    let Some(name) = &args.name else {
        for name in schema::names() {
            writeln!(out, "{name}")?;
        }
        return Ok(());
    };
    let found = schema::schema(name).ok_or_else(|| {
        CliError::new(Code::NotFound, format!("there is no public message {name:?}"))
            .hint("`tetrarch schema` lists them all")
    })?;
    print(&mut out, &found)
}

fn print(out: &mut impl Write, schema: &Value) -> Result<(), CliError> {
    Ok(writeln!(out, "{schema:#}")?)
}
