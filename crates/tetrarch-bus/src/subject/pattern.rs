//! Names and patterns the infrastructure needs: streams and what they take, keys of leases and
//! objects, the JetStream API, private inboxes. It builds text only; `policy` says who may use it.

pub mod policy;

use tetrarch_core::id::HostName;

/// The ledger's one subject.
pub const LEDGER_SUBJECT: &str = "ledger.main";

/// Stream of commits.
pub const LEDGER: &str = "LEDGER";
/// Stream behind the STATE bucket.
pub const STATE: &str = "KV_STATE";
/// What the owner decides on for others: reports, which tell it something, are left out.
pub(crate) const ASKED: [&str; 2] = ["op.>", "spawn.request.>"];
/// Stream of spawn requests, operations and reports.
pub const REQUESTS: &str = "REQUESTS";
/// Stream of mail and control.
pub const MAIL: &str = "MAIL";
/// All mail, without control.
pub const EVERY_MAIL: &str = "mail.>";
/// All control.
pub const EVERY_CONTROL: &str = "ctl.>";
/// All control that the owner itself writes.
pub const OWNERS_CONTROL: &str = "ctl.*.GO";
/// All plan events.
pub const EVERY_PLAN_EVENT: &str = "plan.>";
/// Stream of public plan events.
pub const PLANS: &str = "PLANS";
/// Stream of cursors.
pub const CURSORS: &str = "CURSORS";
/// Stream of run journals.
pub const RUNS: &str = "RUNS";
/// All run journals.
pub const EVERY_JOURNAL: &str = "run.*.*";
/// Journals as an earlier version kept them.
pub const OLD_JOURNALS: &str = "run.*";
/// Stream of what could not be handled.
pub const DEAD: &str = "DEAD";
/// Stream behind the LEASES bucket.
pub const LEASES: &str = "KV_LEASES";
/// Every subject of DEAD.
pub const DEAD_SUBJECTS: &str = "dead.*";
/// Stream behind the ARTIFACTS object store.
pub const ARTIFACTS: &str = "OBJ_ARTIFACTS";
/// The ARTIFACTS object store's own name.
pub const ARTIFACTS_BUCKET: &str = "ARTIFACTS";

/// What each stream takes, as subject patterns (spec 02, Streams).
pub const TAKES: [(&str, &[&str]); 10] = [
    (LEDGER, &[LEDGER_SUBJECT]),
    (STATE, &["$KV.STATE.>"]),
    (REQUESTS, &["spawn.request.>", "op.>", "report.>"]),
    (MAIL, &["mail.>", "ctl.>"]),
    (PLANS, &["plan.created.*", "plan.updated.*", "plan.review_needed.*"]),
    (CURSORS, &["cursor.*"]),
    (RUNS, &[EVERY_JOURNAL]),
    (DEAD, &["dead.*"]),
    (LEASES, &["$KV.LEASES.>"]),
    (ARTIFACTS, &["$O.ARTIFACTS.C.>", "$O.ARTIFACTS.M.>"]),
];

/// The JetStream API as clients know it, when no prefix is configured.
pub const API: &str = "$JS.API";

/// The same as whoever is not of the control plane knows it: its account stores nothing, and the server
/// answers under the usual name that it does not.
pub const FLEET_API: &str = "$JS.fleet.API";

/// Where an agent outside has the control plane make a consumer of its inbox.
#[must_use]
pub fn inbox_open(who: &str) -> String {
    format!("inbox.open.{who}")
}

/// Where a stream is asked for one message or a batch, by a body.
#[must_use]
pub fn direct_get(api: &str, stream: &str) -> String {
    format!("{api}.DIRECT.GET.{stream}")
}

/// Where a stream is asked for the last message of one subject; permissions can see which.
#[must_use]
pub fn direct_get_last(api: &str, stream: &str, subject: &str) -> String {
    format!("{api}.DIRECT.GET.{stream}.{subject}")
}

/// Where a stream is asked for one message as JSON, by a body.
#[must_use]
pub fn message_get(api: &str, stream: &str) -> String {
    format!("{api}.STREAM.MSG.GET.{stream}")
}

/// Where a consumer is deleted.
#[must_use]
pub fn consumer_delete(api: &str, stream: &str, consumer: &str) -> String {
    format!("{api}.CONSUMER.DELETE.{stream}.{consumer}")
}

/// Where a stream is asked about itself.
#[must_use]
pub fn stream_info(api: &str, stream: &str) -> String {
    format!("{api}.STREAM.INFO.{stream}")
}

/// Where messages of a stream are purged.
#[must_use]
pub fn stream_purge(api: &str, stream: &str) -> String {
    format!("{api}.STREAM.PURGE.{stream}")
}

/// Where a server tells of its connections.
pub const CONNECTIONS: &str = "$SYS.REQ.SERVER.PING.CONNZ";

/// Where a server tells of each connection of an account that ended.
#[must_use]
pub fn disconnections(account: &str) -> String {
    format!("$SYS.ACCOUNT.{account}.DISCONNECT")
}

/// Where servers are told of an account's new token.
#[must_use]
pub fn claims_update(account: &str) -> String {
    format!("$SYS.REQ.ACCOUNT.{account}.CLAIMS.UPDATE")
}

/// The key of the GO lease.
#[must_use]
pub fn lease_go() -> String {
    "$KV.LEASES.GO".to_owned()
}

/// The key that the keeper of the managed bus writes to see that it still stores.
#[must_use]
pub fn lease_bus() -> String {
    "$KV.LEASES.BUS".to_owned()
}

/// Every key of `LEASES`, as a subscription's pattern.
#[must_use]
pub fn leases() -> &'static str {
    "$KV.LEASES.>"
}

/// The host whose lease a key is; none for any other key.
#[must_use]
pub fn leased_host(subject: &str) -> Option<HostName> {
    HostName::new(subject.strip_prefix("$KV.LEASES.HO=")?).ok()
}

/// The key of a host's lease; KV keys write `@` as `=`.
#[must_use]
pub fn lease_host(host: &HostName) -> String {
    format!("$KV.LEASES.HO={host}")
}

/// Where one chunk of an object is published; `nuid` names one upload.
#[must_use]
pub fn object_chunk(nuid: &str) -> String {
    format!("$O.{ARTIFACTS_BUCKET}.C.{nuid}")
}

/// Where all descriptions of objects are published.
#[must_use]
pub fn object_metas() -> &'static str {
    "$O.ARTIFACTS.M.>"
}

/// Where an object's description is published.
#[must_use]
pub fn object_meta(name: &str) -> String {
    let encoded = data_encoding::BASE64URL.encode(name.as_bytes());
    format!("$O.{ARTIFACTS_BUCKET}.M.{encoded}")
}

/// Whether a subject is one of a pattern.
#[must_use]
pub fn matches(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for wanted in pattern.split('.') {
        match (wanted, tokens.next()) {
            (">", rest) => return rest.is_some(),
            ("*", Some(_)) => {}
            (wanted, Some(token)) if wanted == token => {}
            (_, Some(_) | None) => return false,
        }
    }
    tokens.next().is_none()
}

/// The last token of an inbox: unique for the connection that made it.
#[must_use]
pub fn inbox_token(inbox: &str) -> &str {
    inbox.rsplit('.').next().unwrap_or(inbox)
}

/// The subject a server's permission error is about, when it is one about publishing.
#[must_use]
pub fn denied_publish(server_error: &str) -> Option<&str> {
    let lower = server_error.to_ascii_lowercase();
    let at = lower.find("permissions violation for publish to \"")?;
    server_error.get(at..)?.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_subject_is_parsed_from_server_error() {
        let text = "Permissions Violation for Publish to \"ledger.main\"";
        assert_eq!(denied_publish(text), Some("ledger.main"));
        assert_eq!(denied_publish("Permissions Violation for Subscription to \"x\""), None);
        assert_eq!(denied_publish(""), None);
    }

    #[test]
    fn pattern_matching_agrees_with_the_server() {
        for (pattern, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.c", false),
            ("a.b", "a", false),
            ("a.b", "a.b.c", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*.c", "a.b.c", true),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
        ] {
            assert_eq!(matches(pattern, subject), expected, "{pattern} {subject}");
        }
    }

    #[test]
    fn object_names_are_encoded_like_the_object_store() {
        assert_eq!(object_meta("ab"), "$O.ARTIFACTS.M.YWI=");
    }
}
