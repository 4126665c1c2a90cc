//! What people have to look at.

/// What people have to look at; each is a topic of its own (spec 02, Mail).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alert {
    /// A parent's children died too often.
    CircuitOpen,
    /// Too many are silent at once.
    MassSilence,
    /// A run stood for too long where nothing happens without somebody else.
    RunOverdue,
    /// The ledger is nearly full, and was trimmed before its time.
    LedgerFull,
    /// A message of the ledger is no commit.
    LedgerInvalid,
    /// A stream ends before what was read of it.
    StreamShrank,
    /// STATE was not what the ledger says, and was mended.
    StateMended,
    /// Senders asked for more than their share.
    OverShare,
    /// Mail was dropped, as it went to nobody or filled its stream.
    MailDropped,
    /// Agents leave too much unread of what one sender wrote.
    MailUnread,
    /// Records that this version cannot read are left as they are.
    RecordsHeld,
    /// Work changed files that it may not.
    GuardViolation,
    /// Most of an agent's grant is used.
    BudgetWarning,
}

impl Alert {
    /// Every alert.
    pub const ALL: [Self; 13] = [
        Self::CircuitOpen,
        Self::MassSilence,
        Self::RunOverdue,
        Self::LedgerFull,
        Self::LedgerInvalid,
        Self::StreamShrank,
        Self::StateMended,
        Self::OverShare,
        Self::MailDropped,
        Self::MailUnread,
        Self::RecordsHeld,
        Self::GuardViolation,
        Self::BudgetWarning,
    ];

    /// The topic.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CircuitOpen => "circuit.open",
            Self::MassSilence => "sweeper.mass_silence",
            Self::RunOverdue => "run.overdue",
            Self::LedgerFull => "ledger.full",
            Self::LedgerInvalid => "ledger.invalid",
            Self::StreamShrank => "stream.shrank",
            Self::StateMended => "state.mended",
            Self::OverShare => "share.exceeded",
            Self::MailDropped => "mail.dropped",
            Self::MailUnread => "mail.unread",
            Self::RecordsHeld => "records.held",
            Self::GuardViolation => "guard.violation",
            Self::BudgetWarning => "budget.warning",
        }
    }
}
