//! What the writer of a message hears of it: receipts, dead letters, and the report that leads to
//! the latter.

use tetrarch_core::mail::receipt::{About, DeadNotice, Receipt, SetAside, Stage};

use super::error::CodecError;
use super::wire::{message, words};
use crate::proto::v1 as pb;

words!(Stage);

message!(About, AboutMail { seq, message, topic }, first: |of: &mut pb::AboutMail| {
    if of.seq == 0 { Err(CodecError::missing().under("seq")) } else { Ok(()) }
});
message!(Receipt, Receipt { of, stage });
message!(DeadNotice, DeadNotice { of, to, reason });
message!(SetAside, SetAside { of, from, via, reason });
