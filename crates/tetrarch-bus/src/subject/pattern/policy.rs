//! The one permission table (spec 09): for each role, what its credential may publish and
//! subscribe, as templates the server fills in with the user's name. Credentials and the
//! permission tests are both made from it. Anything not listed is refused by the server.
//!
//! The server checks what a user publishes, not where it wants the answer. So the streams are in an
//! account of their own, which everybody else reaches through the crossings below alone: an answer
//! crosses back into the account it was asked from, and is stored by nobody there.

mod person;

use super::{
    API, ARTIFACTS, CURSORS, DEAD, FLEET_API, LEASES, LEDGER, LEDGER_SUBJECT, MAIL, PLANS, RUNS,
    STATE, direct_get, inbox_open, message_get, stream_info,
};

pub use person::Person;

/// The user's name in a template; names are checked before they are put there.
const NAME: &str = "{{name()}}";

/// What kind of party a credential is for; each has its own signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CredentialRole {
    /// The owner of the ledger and whoever prepares the streams.
    Control,
    /// A host orchestrator with the agents it hosts.
    Host,
    /// An agent that holds a connection of its own.
    External,
    /// A person.
    Human(Person),
}

impl CredentialRole {
    /// Every role.
    pub const ALL: [Self; 7] = [
        Self::Control,
        Self::Host,
        Self::External,
        Self::Human(Person::Viewer),
        Self::Human(Person::Operator),
        Self::Human(Person::Approver),
        Self::Human(Person::Admin),
    ];

    /// The role's name in keys, tags and file names. Before there were others, every person was an admin.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Host => "host",
            Self::External => "external",
            Self::Human(Person::Admin) => "human",
            Self::Human(person) => person.as_str(),
        }
    }

    /// The account in which its users are.
    #[must_use]
    pub fn account(self) -> BusAccount {
        match self {
            Self::Control => BusAccount::Control,
            Self::Host | Self::External | Self::Human(_) => BusAccount::Fleet,
        }
    }

    /// The private inbox prefix of a user of this role. Hosts and humans are named apart from
    /// agents, so a host called like an agent does not share its inbox.
    #[must_use]
    pub fn inbox_prefix(self, name: &str) -> String {
        match self {
            Self::Control | Self::External => format!("_INBOX_{name}"),
            Self::Host => format!("_INBOX_HO@{name}"),
            Self::Human(_) => format!("_INBOX_human:{name}"),
        }
    }
}

/// Who shares subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BusAccount {
    /// The owner of the ledger; it has the streams.
    Control,
    /// Hosts, agents and people; it stores nothing.
    Fleet,
}

impl BusAccount {
    /// Where its users find the JetStream API.
    #[must_use]
    pub fn api(self) -> &'static str {
        match self {
            Self::Control => API,
            Self::Fleet => FLEET_API,
        }
    }
}

/// What becomes of a message at the border of the accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// The fleet's go to the control plane, and one answer comes back.
    Ask,
    /// The fleet's go to the control plane, and any number of answers come back.
    AskMany,
    /// The control plane's are heard in the fleet.
    Hear,
}

/// The border of the accounts: each subject of the control plane that the fleet reaches, and how.
/// What the fleet says under `stream.*.*` does not cross it. No consumer is created across it: where one delivers
/// is its creator's to say, and would be a subject of the control plane.
#[must_use]
pub fn crossings() -> Vec<(Crossing, String)> {
    let asked = [
        "spawn.request.*.*.*",
        "spawn.request.*.*.*.*",
        "mail.*.*",
        "mail.*.*.*",
        "ctl.*.*",
        "ctl.*.*.*",
        "op.*.*.*",
        "op.*.*.*.*",
        "report.*",
        "report.*.*",
        "hb.*",
        "cursor.*",
        "run.*.*",
        "dead.*",
        "inbox.open.*",
        "$KV.LEASES.*",
        "$O.ARTIFACTS.C.*",
        "$O.ARTIFACTS.M.*",
        "$JS.ACK.MAIL.*.>",
        "$JS.ACK.PLANS.*.>",
        "$JS.API.STREAM.INFO.*",
        "$JS.API.STREAM.MSG.GET.*",
        "$JS.API.CONSUMER.INFO.MAIL.*",
        "$JS.API.CONSUMER.INFO.PLANS.*",
        // By subject: one answer. By a body: as many as it asks for.
        "$JS.API.DIRECT.GET.*.>",
    ];
    let asked_many = [
        "$JS.API.DIRECT.GET.*",
        "$JS.API.CONSUMER.MSG.NEXT.MAIL.*",
        "$JS.API.CONSUMER.MSG.NEXT.PLANS.*",
    ];
    let heard = [
        LEDGER_SUBJECT,
        "mail.>",
        "ctl.>",
        "plan.>",
        "cursor.*",
        "run.*.*",
        "hb.*",
        "$KV.STATE.>",
        "$KV.LEASES.>",
    ];
    let all = |crossing: Crossing, subjects: &[&str]| -> Vec<(Crossing, String)> {
        subjects.iter().map(|subject| (crossing, (*subject).to_owned())).collect()
    };
    [all(Crossing::Ask, &asked), all(Crossing::AskMany, &asked_many), all(Crossing::Hear, &heard)]
        .concat()
}

/// Whether the server says with what crosses here which user it came from: with what the owner decides on.
#[must_use]
pub fn tells_who(crossing: &str) -> bool {
    crossing.starts_with("op.") || crossing.starts_with("spawn.request.")
}

/// What one role may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolePermissions {
    /// Subjects it may publish, with `{{name()}}` where the user's name goes.
    pub publish: Vec<String>,
    /// Subjects it may subscribe.
    pub subscribe: Vec<String>,
}

/// The table's row for a role.
#[must_use]
pub fn grant(role: CredentialRole) -> RolePermissions {
    let inbox = format!("{}.>", role.inbox_prefix(NAME));
    let mut grant = match role {
        CredentialRole::Control => control(),
        CredentialRole::Host => host(),
        CredentialRole::External => external(),
        CredentialRole::Human(person) => human(person),
    };
    // Whoever connects proves the connection by asking for this.
    grant.publish.push(stream_info(role.account().api(), STATE));
    grant.subscribe.push(inbox);
    grant
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn control() -> RolePermissions {
    let families = [
        "$JS.API.>",
        "$JS.ACK.>",
        "$JS.FC.>",
        "$KV.STATE.>",
        "$KV.LEASES.>",
        "$O.ARTIFACTS.>",
        LEDGER_SUBJECT,
        "spawn.request.>",
        "op.>",
        "report.>",
        "mail.>",
        "ctl.>",
        "plan.>",
        "cursor.*",
        "run.>",
        "dead.*",
        "hb.*",
        // Answers to what the fleet asks, under the name that the server gives their way back.
        "_R_.>",
    ];
    let heard = [
        LEDGER_SUBJECT,
        "$KV.STATE.>",
        "$KV.LEASES.>",
        "spawn.request.>",
        "op.>",
        "report.>",
        "mail.>",
        "ctl.>",
        "plan.>",
        "cursor.*",
        "run.*.*",
        "dead.*",
        "hb.*",
        "inbox.open.*",
        "$JS.EVENT.ADVISORY.>",
    ];
    RolePermissions { publish: owned(&families), subscribe: owned(&heard) }
}

/// A host publishes for the agents it hosts only in the forms that end in its own token, and as
/// itself; it is trusted to read all mail (spec 09).
fn host() -> RolePermissions {
    let mut publish = vec![
        format!("spawn.request.*.*.*.{NAME}"),
        format!("mail.*.*.{NAME}"),
        format!("ctl.*.*.{NAME}"),
        format!("op.*.*.*.{NAME}"),
        format!("report.*.{NAME}"),
        format!("hb.HO@{NAME}"),
        format!("$KV.LEASES.HO={NAME}"),
    ];
    publish.extend(sends_as(&format!("HO@{NAME}")));
    publish.extend(owned(&["cursor.*", "run.*.*", "stream.*.*", "dead.*"]));
    publish.extend(owned(&["$O.ARTIFACTS.C.*", "$O.ARTIFACTS.M.*"]));
    for stream in [MAIL, CURSORS, RUNS, ARTIFACTS, LEASES, PLANS, STATE] {
        publish.extend(reads(stream));
    }
    let subscribe = owned(&[
        "mail.*.>",
        "ctl.*.>",
        "plan.>",
        "cursor.*",
        "run.*.*",
        "$KV.STATE.>",
        "$KV.LEASES.>",
    ]);
    RolePermissions { publish, subscribe }
}

/// An external agent speaks as itself and reads only its own inbox and public events.
fn external() -> RolePermissions {
    let mut publish = sends_as(NAME);
    publish.push(format!("hb.{NAME}"));
    publish.push(format!("cursor.{NAME}"));
    publish.extend([format!("run.{NAME}.*"), format!("stream.{NAME}.*")]);
    publish.push(inbox_open(NAME));
    publish.extend(reads_with(MAIL, &format!("mail-{NAME}")));
    publish.extend(reads_with(MAIL, &format!("ctl-{NAME}")));
    publish.extend(reads_with(PLANS, &format!("plan-{NAME}")));
    publish.push(format!("{FLEET_API}.DIRECT.GET.{CURSORS}.cursor.{NAME}"));
    publish.push(format!("{FLEET_API}.DIRECT.GET.{RUNS}.run.{NAME}.*"));
    publish.push(format!("{FLEET_API}.DIRECT.GET.{STATE}"));
    publish.push(format!("{FLEET_API}.DIRECT.GET.{STATE}.>"));
    let mut subscribe = vec![format!("mail.{NAME}.>"), format!("ctl.{NAME}.>")];
    subscribe.extend(owned(&["plan.>", "$KV.STATE.>"]));
    RolePermissions { publish, subscribe }
}

/// A human speaks as a principal of their own, as their role allows, and reads everything public.
fn human(person: Person) -> RolePermissions {
    let principal = format!("human:{NAME}");
    let mut publish = person::sends(person, &principal);
    publish.push(inbox_open(&principal));
    publish.extend(reads_with(PLANS, &format!("plan-{principal}")));
    for stream in [STATE, PLANS, LEDGER, RUNS, ARTIFACTS, LEASES, MAIL] {
        publish.extend(reads(stream));
    }
    // How many there are of what could not be handled; what it says is for the control plane.
    publish.push(stream_info(FLEET_API, DEAD));
    let mut subscribe = vec![format!("mail.{principal}.>"), format!("ctl.{principal}.>")];
    subscribe.extend(owned(&[
        LEDGER_SUBJECT,
        "plan.>",
        "run.*.*",
        "stream.*.*",
        "hb.*",
        "$KV.STATE.>",
        "$KV.LEASES.>",
    ]));
    RolePermissions { publish, subscribe }
}

/// Everything a sender publishes under its own name. Operation names have two tokens, so the
/// host form, which has one more, is told apart by its length alone.
fn sends_as(from: &str) -> Vec<String> {
    vec![
        format!("spawn.request.*.*.{from}"),
        format!("mail.*.{from}"),
        format!("ctl.*.{from}"),
        format!("op.*.*.{from}"),
        format!("report.{from}"),
    ]
}

/// Reads of one message or a batch, and the stream's own figures.
fn reads(stream: &str) -> Vec<String> {
    vec![
        message_get(FLEET_API, stream),
        stream_info(FLEET_API, stream),
        direct_get(FLEET_API, stream),
        format!("{}.>", direct_get(FLEET_API, stream)),
    ]
}

/// A consumer that the control plane makes for whom it is for; they take and acknowledge what it has
/// (spec 02, Inbox).
fn reads_with(stream: &str, consumer: &str) -> [String; 3] {
    [
        format!("{FLEET_API}.CONSUMER.INFO.{stream}.{consumer}"),
        format!("{FLEET_API}.CONSUMER.MSG.NEXT.{stream}.{consumer}"),
        format!("$JS.ACK.{stream}.{consumer}.>"),
    ]
}
