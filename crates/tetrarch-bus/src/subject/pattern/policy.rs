//! The one permission table (spec 09): for each role, what its credential may publish and
//! subscribe, as templates the server fills in with the user's name. Credentials and the
//! permission tests are both made from it. Anything not listed is refused by the server.
//!
//! Known hole, accepted until the accounts are split: the server does not check the reply
//! subject of a permitted publish, so its acknowledgement can be stored under a foreign subject.

use super::{ARTIFACTS, CURSORS, DEAD, LEASES, LEDGER, LEDGER_SUBJECT, MAIL, PLANS, RUNS, STATE};

/// The user's name in a template; names are checked before they are put there.
const NAME: &str = "{{name()}}";

/// What kind of party a credential is for; each has its own signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The owner of the ledger and whoever prepares the streams.
    Control,
    /// A host orchestrator with the agents it hosts.
    Host,
    /// An agent that holds a connection of its own.
    External,
    /// A person.
    Human,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Control, Self::Host, Self::External, Self::Human];

    /// The role's name in keys, tags and file names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Host => "host",
            Self::External => "external",
            Self::Human => "human",
        }
    }

    /// The private inbox prefix of a user of this role. Hosts and humans are named apart from
    /// agents, so a host called like an agent does not share its inbox.
    #[must_use]
    pub fn inbox_prefix(self, name: &str) -> String {
        match self {
            Self::Control | Self::External => format!("_INBOX_{name}"),
            Self::Host => format!("_INBOX_HO@{name}"),
            Self::Human => format!("_INBOX_human:{name}"),
        }
    }
}

/// What one role may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Subjects it may publish, with `{{name()}}` where the user's name goes.
    pub publish: Vec<String>,
    /// Subjects it may subscribe.
    pub subscribe: Vec<String>,
}

/// The table's row for a role.
#[must_use]
pub fn grant(role: Role) -> Grant {
    let inbox = format!("{}.>", role.inbox_prefix(NAME));
    let mut grant = match role {
        Role::Control => control(),
        Role::Host => host(),
        Role::External => external(),
        Role::Human => human(),
    };
    grant.publish.push("$JS.API.INFO".to_owned());
    grant.subscribe.push(inbox);
    grant
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn control() -> Grant {
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
        "run.*",
        "dead.*",
        "hb.*",
        "stream.*",
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
        "run.*",
        "dead.*",
        "hb.*",
        "stream.*",
        "$JS.EVENT.ADVISORY.>",
    ];
    Grant { publish: owned(&families), subscribe: owned(&heard) }
}

/// A host publishes for the agents it hosts only in the forms that end in its own token, and as
/// itself; it is trusted to read all mail (spec 09).
fn host() -> Grant {
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
    publish.extend(owned(&["cursor.*", "run.*", "stream.*", "dead.*"]));
    publish.extend(owned(&["$O.ARTIFACTS.C.*", "$O.ARTIFACTS.M.*"]));
    for stream in [MAIL, CURSORS, RUNS, ARTIFACTS, LEASES, PLANS, STATE] {
        publish.extend(reads(stream));
    }
    for stream in [STATE, PLANS] {
        publish.extend(watches(stream));
    }
    let subscribe = owned(&["mail.*.>", "ctl.*.>", "plan.>", "stream.*"]);
    Grant { publish, subscribe }
}

/// An external agent speaks as itself and reads only its own inbox and public events.
fn external() -> Grant {
    let mut publish = sends_as(NAME);
    publish.push(format!("hb.{NAME}"));
    publish.push(format!("cursor.{NAME}"));
    publish.extend(owned(&["run.*", "stream.*"]));
    publish.extend(inbox_consumers(NAME));
    publish.push(format!("$JS.API.DIRECT.GET.{CURSORS}.cursor.{NAME}"));
    publish.push(format!("$JS.API.DIRECT.GET.{RUNS}.run.*"));
    publish.extend(watches(STATE));
    publish.push(format!("$JS.API.DIRECT.GET.{STATE}.>"));
    let mut subscribe = vec![format!("mail.{NAME}.>"), format!("ctl.{NAME}.>")];
    subscribe.extend(owned(&["plan.>", SHARED_INBOX]));
    Grant { publish, subscribe }
}

/// A human speaks as a principal of their own and reads everything public.
fn human() -> Grant {
    let principal = format!("human:{NAME}");
    let mut publish = sends_as(&principal);
    publish.extend(inbox_consumers(&principal));
    for stream in [STATE, PLANS, LEDGER, RUNS, ARTIFACTS, LEASES] {
        publish.extend(reads(stream));
        publish.extend(watches(stream));
    }
    // How many there are of what could not be handled; what it says is for the control plane.
    publish.push(format!("$JS.API.STREAM.INFO.{DEAD}"));
    let mut subscribe = vec![format!("mail.{principal}.>"), format!("ctl.{principal}.>")];
    subscribe.extend(owned(&["plan.>", "stream.*", "hb.*", SHARED_INBOX]));
    Grant { publish, subscribe }
}

/// Replies of stock clients that set no inbox prefix, so that the commands of spec 02 work as
/// they are written; a user that wants its replies private sets the prefix of its role.
const SHARED_INBOX: &str = "_INBOX.>";

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
        format!("$JS.API.STREAM.MSG.GET.{stream}"),
        format!("$JS.API.STREAM.INFO.{stream}"),
        format!("$JS.API.DIRECT.GET.{stream}"),
        format!("$JS.API.DIRECT.GET.{stream}.>"),
    ]
}

/// Ordered consumers, as key-value and stream watchers make them.
fn watches(stream: &str) -> Vec<String> {
    vec![
        format!("$JS.API.STREAM.INFO.{stream}"),
        format!("$JS.API.CONSUMER.CREATE.{stream}"),
        format!("$JS.API.CONSUMER.CREATE.{stream}.>"),
        format!("$JS.API.CONSUMER.INFO.{stream}.*"),
        format!("$JS.API.CONSUMER.DELETE.{stream}.*"),
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.*"),
        format!("$JS.FC.{stream}.>"),
    ]
}

/// The two consumers on MAIL a party outside reads its inbox with, each with its one filter in
/// the create subject (spec 02, Inbox). Acknowledgements come in two forms since 2.14.
fn inbox_consumers(who: &str) -> Vec<String> {
    ["mail", "ctl"]
        .iter()
        .flat_map(|lane| {
            let consumer = format!("{lane}-{who}");
            [
                format!("$JS.API.CONSUMER.CREATE.{MAIL}.{consumer}.{lane}.{who}.>"),
                format!("$JS.API.CONSUMER.INFO.{MAIL}.{consumer}"),
                format!("$JS.API.CONSUMER.MSG.NEXT.{MAIL}.{consumer}"),
                format!("$JS.API.CONSUMER.DELETE.{MAIL}.{consumer}"),
                format!("$JS.ACK.{MAIL}.{consumer}.>"),
                format!("$JS.ACK.*.*.{MAIL}.{consumer}.>"),
            ]
        })
        .collect()
}
