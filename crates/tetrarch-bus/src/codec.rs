//! Bytes to the core's vocabulary and back (spec 02, Encodings): infallible conversions outward,
//! fallible ones inward, one file for each family of `proto/tetrarch/v1`. JSON on everything
//! public, protobuf inside the ledger and host leases. Bytes from anybody may be anything: every
//! decoder is total, bounded, and names the field that is wrong. Nothing here decides.

mod agent;
mod assignment;
mod brief;
mod budget;
mod change;
mod conversation;
mod crystallization;
mod cursor;
mod dispatch;
mod error;
mod goal;
mod host_reports;
mod journal;
pub(crate) mod json;
mod lease;
mod ledger;
mod mail;
mod mail_body;
mod op;
mod packed;
mod plan;
mod plan_event;
mod planner;
mod planning;
mod priority;
mod question;
mod read;
mod receipt;
mod record;
mod report;
mod request;
mod reservation;
mod run;
mod schedule;
mod snapshot;
mod spawn;
mod upgrade;
mod verbs;
mod wire;

pub use cursor::{decode_cursor, encode_cursor};
pub use error::CodecError;
pub use host_reports::{HostedReport, decode_requests, encode_reports};
pub use journal::{decode_journal, encode_journal};
pub use lease::{
    HostLease, decode_heartbeat, decode_host_lease, encode_heartbeat, encode_host_lease, row_size,
};
pub use ledger::{decode_entry, encode_entry};
pub use mail::{decode_mail, encode_mail, mail_body_json};
pub use mail_body::mail_body_message;
pub use op::{encode_goal_create, encode_op};
pub use plan_event::{decode_plan_event, encode_plan_event};
pub use planning::{decode_plan_review, encode_plan_review, encode_todo_plan};
pub(crate) use record::held_json;
pub use record::{held, record_from_json, record_json, record_message};
pub use report::encode_report;
pub use request::{decode_request, decode_request_at};
pub use snapshot::{PartBuilder, PartContents, decode_part};
pub use spawn::{decode_spawn_body, encode_spawn_request};

#[cfg(test)]
mod tests;
