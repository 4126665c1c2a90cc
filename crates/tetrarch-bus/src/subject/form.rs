//! The forms of all subjects as the public contract shows them (docs/bus.md): one row each.

/// One form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubjectForm {
    /// The subject, with `<names>` for its parts.
    pub subject: &'static str,
    /// Who publishes it.
    pub publisher: &'static str,
    /// The stream that keeps it; `-` when nobody does.
    pub stream: &'static str,
    /// The message in its body, and how that is encoded.
    pub body: &'static str,
}

const fn form(
    subject: &'static str,
    publisher: &'static str,
    stream: &'static str,
    body: &'static str,
) -> SubjectForm {
    SubjectForm { subject, publisher, stream, body }
}

const OUTSIDE: &str = "external agents, humans";
const VIA: &str = "the HO of `<host>`, for agents it hosts";

/// Every form, in the order of the contract.
pub const FORMS: [SubjectForm; 23] = [
    form("spawn.request.<epic>.<node>.<from>", OUTSIDE, "REQUESTS", "`SpawnRequest`, JSON"),
    form("spawn.request.<epic>.<node>.<from>.<host>", VIA, "REQUESTS", "`SpawnRequest`, JSON"),
    form("op.<name>.<from>", OUTSIDE, "REQUESTS", "one message each, JSON"),
    form("op.<name>.<from>.<host>", VIA, "REQUESTS", "one message each, JSON"),
    form("report.<from>", OUTSIDE, "REQUESTS", "`Report`, JSON"),
    form("report.<from>.<host>", VIA, "REQUESTS", "`Report` or `HostReports`, JSON"),
    form("mail.<to>.<from>", "the owner, external agents, humans", "MAIL", "`Mail`, JSON"),
    form("mail.<to>.<from>.<host>", VIA, "MAIL", "`Mail`, JSON"),
    form("ctl.<to>.<from>", "the owner, humans, ancestors", "MAIL", "`Mail`, JSON"),
    form("ctl.<to>.<from>.<host>", VIA, "MAIL", "`Mail`, JSON"),
    form("plan.created.<epic>", "the owner", "PLANS", "`PlanEvent`, JSON"),
    form("plan.updated.<epic>", "the owner", "PLANS", "`PlanEvent`, JSON"),
    form("plan.review_needed.<epic>", "the owner", "PLANS", "`PlanReview`, JSON"),
    form("hb.<agent>", "the external agent itself", "-", "`Vitals`, JSON"),
    form("cursor.<agent>", "the agent or its HO; the owner seals", "CURSORS", "`Cursor`, JSON"),
    form("run.<agent>.<run>", "the agent or its HO", "RUNS", "`JournalEntry`, JSON"),
    form("stream.<agent>.<run>", "the agent or its HO", "-", "text"),
    form("$KV.STATE.<kind>.<key>", "the owner", "STATE", "the record, JSON"),
    form("$KV.LEASES.GO", "the owner", "LEASES", "lease, protobuf"),
    form("$KV.LEASES.BUS", "`tetrarch up`", "LEASES", "nothing: that it is stored is all"),
    form(
        "$KV.LEASES.HO=<host>",
        "the HO of `<host>`",
        "LEASES",
        "lease with `HostLease`, protobuf",
    ),
    form("ledger.main", "the owner", "LEDGER", "`Entry`, protobuf"),
    form("dead.<stream>", "readers", "DEAD", "the bytes that came, with the reason"),
];

/// The table of docs/bus.md, as Markdown.
#[must_use]
pub fn table() -> String {
    let mut text = String::from("| subject | publisher | stream | body |\n|---|---|---|---|\n");
    for form in FORMS {
        let SubjectForm { subject, publisher, stream, body } = form;
        text.push_str(&format!("| `{subject}` | {publisher} | `{stream}` | {body} |\n"));
    }
    text
}
