//! What is heard of a fleet, and what it comes to: the one picture of it that every screen that stays open shows.

use tetrarch_core::id::RunId;
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::Entry;
use tetrarch_core::obstacle::Telemetry;
use tetrarch_core::time::BusTime;
use tetrarch_core::vitals::Vitals;

use crate::fold::RecordFold;
use crate::row::ReportedVitals;

/// How what is shown stands to what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// Nothing was read yet.
    Opening,
    /// It is shown as it changes.
    Live,
    /// The bus is away since then: it is shown as it was.
    Stale(BusTime),
}

/// Something that was heard of the fleet.
#[derive(Debug)]
pub enum FleetNews {
    /// All records, in place of what was known.
    Loaded(Box<RecordFold>),
    /// Entries of the ledger, with their sequences.
    Entries(Vec<(u64, Entry)>),
    /// What a host says of its sessions.
    Reported(Vec<Vitals>),
    /// What the records do not say.
    Told(Telemetry),
    /// The bus came or went.
    Linked(LinkState),
}

/// Something that was heard of a run that is read along with.
#[derive(Debug)]
pub enum RunNews {
    /// Entries of its journal, with when they were stored.
    Journal {
        /// The run.
        run: RunId,
        /// The entries, oldest first.
        entries: Vec<(BusTime, JournalEvent)>,
    },
    /// Words as they come.
    Text {
        /// The run.
        run: RunId,
        /// The words.
        text: String,
    },
}

/// A fleet as it was heard of.
#[derive(Debug)]
pub struct FleetImage {
    /// The records.
    pub fold: RecordFold,
    /// What hosts said.
    pub reported: ReportedVitals,
    /// What the records do not say.
    pub telemetry: Telemetry,
    /// How it stands to what is.
    pub link: LinkState,
}

/// What news change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewsEffect {
    /// Nothing that is shown.
    Nothing,
    /// How the picture stands to what is.
    Link,
    /// The picture.
    Fleet,
}

impl Default for FleetImage {
    fn default() -> Self {
        Self {
            fold: RecordFold::default(),
            reported: ReportedVitals::new(),
            telemetry: Telemetry { owner: true, halted: None },
            link: LinkState::Opening,
        }
    }
}

impl FleetImage {
    /// Takes news in.
    pub fn hear(&mut self, news: FleetNews) -> NewsEffect {
        let changed = |differs, effect| if differs { effect } else { NewsEffect::Nothing };
        match news {
            FleetNews::Loaded(fold) => self.fold = *fold,
            FleetNews::Entries(entries) => {
                for (seq, entry) in entries {
                    self.fold.apply(seq, &entry);
                }
            }
            FleetNews::Reported(rows) => {
                self.reported.extend(rows.into_iter().map(|row| (row.agent.clone(), row)));
            }
            FleetNews::Told(telemetry) => {
                let effect = changed(self.telemetry != telemetry, NewsEffect::Fleet);
                self.telemetry = telemetry;
                return effect;
            }
            FleetNews::Linked(link) => {
                let effect = changed(self.link != link, NewsEffect::Link);
                self.link = link;
                return effect;
            }
        }
        NewsEffect::Fleet
    }
}
