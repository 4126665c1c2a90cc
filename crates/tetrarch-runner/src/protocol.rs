//! The JSON lines a program and its host exchange (docs/stdio-protocol.md). Pure text: nothing
//! here reads or writes a pipe.

mod inbound;
mod outbound;
mod slips;

pub(crate) use inbound::{
    SchemaViolation, brief_line, budget_line, granted_line, invalid_line, mail_line, raised_line,
    rotate_line, saved_line, stop_line, verb_line, withheld_line,
};
pub(crate) use outbound::{NamedFile, ProgramEvent, ProgramLine, read, read_result};

/// What a line of a program's output is taken for, in words. Any bytes are taken for something.
#[must_use]
pub fn explain_line(line: &[u8]) -> String {
    match read(line) {
        ProgramLine::Event(told) => format!("{told:?}"),
        ProgramLine::Text => "text".to_owned(),
        ProgramLine::Slip { note, .. } => note,
        ProgramLine::Malformed { error, .. } => error,
    }
}

/// The protocol's version, in the brief line.
pub(crate) const PROTOCOL: u32 = 1;
