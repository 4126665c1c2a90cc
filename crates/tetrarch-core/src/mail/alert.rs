//! What people have to look at.

use crate::words::words;

words! {
    /// What people have to look at; each is a topic of its own (spec 02, Mail).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Alert {
        /// A parent's children died too often.
        CircuitOpen = "circuit.open",
        /// Too many are silent at once.
        MassSilence = "sweeper.mass_silence",
        /// A run stood for too long where nothing happens without somebody else.
        RunOverdue = "run.overdue",
        /// The ledger is nearly full, and was trimmed before its time.
        LedgerFull = "ledger.full",
        /// A message of the ledger is no commit.
        LedgerInvalid = "ledger.invalid",
        /// A stream ends before what was read of it.
        StreamShrank = "stream.shrank",
        /// STATE was not what the ledger says, and was mended.
        StateMended = "state.mended",
        /// Senders asked for more than their share.
        OverShare = "share.exceeded",
        /// Mail was dropped, as it went to nobody or filled its stream.
        MailDropped = "mail.dropped",
        /// Journals were dropped, as they filled their stream.
        JournalsDropped = "journals.dropped",
        /// Agents leave too much unread of what one sender wrote.
        MailUnread = "mail.unread",
        /// Records that this version cannot read are left as they are.
        RecordsHeld = "records.held",
        /// Work changed files that it may not.
        GuardViolation = "guard.violation",
        /// Most of an agent's grant is used.
        BudgetWarning = "budget.warning",
    }
}
