//! The fleet as it was, shown in place of the fleet as it is.

use tetrarch_core::time::BusTime;
use tetrarch_view::fold::RecordFold;
use tetrarch_view::news::FleetImage;

/// The fleet after an entry of the ledger.
#[derive(Debug)]
pub struct FleetMoment {
    /// After which.
    pub seq: u64,
    /// When that was stored.
    pub at: BusTime,
    /// The records of then.
    pub fold: RecordFold,
}

/// The past while it is shown.
#[derive(Debug)]
pub struct PastView {
    /// After which entry.
    pub seq: u64,
    /// When that was stored.
    pub at: BusTime,
    /// The fleet as it is meanwhile.
    pub live: FleetImage,
    /// When it is meanwhile.
    pub now: BusTime,
}

/// A moment that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TravelWish {
    /// By which it is answered.
    pub ticket: u64,
    /// The moment, as it was typed.
    pub to: String,
}
