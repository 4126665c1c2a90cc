//! What the writer of a message hears of it: receipts, dead letters, and the report that leads to
//! the latter.

use tetrarch_core::mail::receipt::{About, DeadNotice, Receipt, SetAside, Stage};

use super::error::CodecError;
use super::read;
use crate::proto::v1 as pb;

impl From<&About> for pb::AboutMail {
    fn from(of: &About) -> Self {
        Self { seq: of.seq, message: of.message.clone(), topic: of.topic.clone() }
    }
}

impl TryFrom<pb::AboutMail> for About {
    type Error = CodecError;
    fn try_from(of: pb::AboutMail) -> Result<Self, CodecError> {
        if of.seq == 0 {
            return Err(CodecError::Missing { field: "seq".to_owned() });
        }
        Ok(Self { seq: of.seq, message: of.message, topic: of.topic })
    }
}

impl From<&Receipt> for pb::Receipt {
    fn from(receipt: &Receipt) -> Self {
        Self { of: Some((&receipt.of).into()), stage: receipt.stage.as_str().to_owned() }
    }
}

impl TryFrom<pb::Receipt> for Receipt {
    type Error = CodecError;
    fn try_from(receipt: pb::Receipt) -> Result<Self, CodecError> {
        Ok(Self {
            of: read::message("of", receipt.of)?,
            stage: read::word("stage", &receipt.stage, &Stage::ALL, Stage::as_str)?,
        })
    }
}

impl From<&DeadNotice> for pb::DeadNotice {
    fn from(dead: &DeadNotice) -> Self {
        let (to, reason) = (dead.to.to_string(), dead.reason.clone());
        Self { of: Some((&dead.of).into()), to, reason }
    }
}

impl TryFrom<pb::DeadNotice> for DeadNotice {
    type Error = CodecError;
    fn try_from(dead: pb::DeadNotice) -> Result<Self, CodecError> {
        let to = read::text("to", &dead.to)?;
        Ok(Self { of: read::message("of", dead.of)?, to, reason: dead.reason })
    }
}

impl From<&SetAside> for pb::SetAside {
    fn from(letter: &SetAside) -> Self {
        Self {
            of: Some((&letter.of).into()),
            from: letter.from.to_string(),
            via: read::show(letter.via.as_ref()),
            reason: letter.reason.clone(),
        }
    }
}

impl TryFrom<pb::SetAside> for SetAside {
    type Error = CodecError;
    fn try_from(letter: pb::SetAside) -> Result<Self, CodecError> {
        Ok(Self {
            of: read::message("of", letter.of)?,
            from: read::text("from", &letter.from)?,
            via: read::optional("via", &letter.via)?,
            reason: letter.reason,
        })
    }
}
