//! `tetrarch schema`: the JSON Schemas of everything public (spec 02, Encodings).

use serde_json::{Map, Value};
use tetrarch_bus::schema;

use crate::output;
use crate::{CliError, CliResult, Code, Context};

/// Prints the JSON Schemas of everything public.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tetrarch schema\n  tetrarch schema SpawnRequest\n  tetrarch schema PlanFile > plan.schema.json\n  tetrarch schema --all > schemas.json"
)]
pub(crate) struct SchemaArgs {
    /// The name of a message, or PlanFile [default: list the names].
    name: Option<String>,
    /// Print all schemas as one object.
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

/// Runs the command.
///
/// # Errors
/// No message or file has that name.
pub(crate) fn run(_context: &Context, args: &SchemaArgs) -> CliResult {
    let text = match &args.name {
        None if args.all => {
            let all = schema::names().into_iter();
            let all = all.filter_map(|name| Some((name.to_owned(), schema::schema(name)?)));
            format!("{:#}", Value::Object(all.collect::<Map<_, _>>()))
        }
        None => schema::names().join("\n"),
        Some(name) => {
            let found = schema::schema(name).ok_or_else(|| {
                let what = format!("no schema named {name:?}");
                CliError::new(Code::NotFound, what).hint("`tetrarch schema` lists all names")
            })?;
            format!("{found:#}")
        }
    };
    // A reader that went away has seen enough.
    output::text(&text).map(drop)
}
