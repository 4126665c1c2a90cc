//! What the bus says: the connection, the server, the streams against the contract, who holds
//! the leases.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tetrarch_bus::Bus;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::error::ReadError;
use tetrarch_bus::intake::dead_letters;
use tetrarch_bus::lease::{Lease, LeaseKey};
use tetrarch_bus::server;
use tetrarch_bus::state::{MetaError, OwnerMeta, Select, load_meta, read_records};
use tetrarch_bus::subject::pattern::{LEASES, LEDGER};
use tetrarch_bus::subject::{KeyKind, Origin};
use tetrarch_bus::topology::{self, StreamSettings};
use tetrarch_core::id::HostName;
use tetrarch_core::ledger::Record;
use tetrarch_core::obstacle::{Telemetry, of_fleet};
use tetrarch_core::restart::Memory;
use tetrarch_core::time::BusTime;
use tetrarch_engine::{MemorySource, memories, remembered};

use super::check::DoctorCheck;
use crate::obstacles;
use crate::output::{age, now};
use crate::{CliResult, Code, Context, StateSnapshot};

/// Windows without a renewal after which a lease is worth a warning (spec 04).
const WINDOWS: u32 = 3;

/// Connects, or says why not. A bus that was never started is no failure.
pub(super) async fn connect(context: &Context) -> Result<(Bus, DoctorCheck), DoctorCheck> {
    let name = "bus";
    let data_dir = &context.config.bus.data_dir;
    if context.config.bus.url.is_none() && server::endpoint(data_dir).is_none() {
        let what = format!("no bus was started in {}", data_dir.display());
        return Err(DoctorCheck::warn(name, what, "start one with `tetrarch up`"));
    }
    let who = holder(context)
        .map_err(|error| DoctorCheck::fail(name, error.what, error.hint.unwrap_or_default()))?;
    match context.connect(&who, "doctor").await {
        Ok(bus) => {
            let server = bus.client().server_info();
            let what = format!(
                "nats-server {} at {}:{}, JetStream",
                server.version, server.host, server.port
            );
            Ok((bus, DoctorCheck::ok(name, what)))
        }
        Err(error) if error.code == Code::BusUnreachable => {
            Err(DoctorCheck::fail(name, error.what, error.hint.unwrap_or_default()))
        }
        Err(error) => {
            let next = "fix the credential or the server first";
            Err(DoctorCheck::fail(name, error.what, error.hint.unwrap_or_else(|| next.to_owned())))
        }
    }
}

/// Whether what is said on the bus can be read on the way.
fn tls(context: &Context, bus: &Bus) -> DoctorCheck {
    match context.urls() {
        Ok(urls) => {
            let speaks = bus.client().server_info().tls_required;
            let mut check = tls_check(&urls, speaks, context.tls_ca().as_deref());
            if let Some(own) = &context.config.bus.tls_identity {
                check.what.push_str(&format!("; this machine has {}", own.cert.display()));
            }
            check
        }
        Err(error) => DoctorCheck::fail("tls", error.what, error.hint.unwrap_or_default()),
    }
}

/// `speaks`: the server takes no connection without TLS.
pub(super) fn tls_check(urls: &[String], speaks: bool, ca: Option<&Path>) -> DoctorCheck {
    let name = "tls";
    let demanded = ca.is_some() || urls.iter().all(|url| url.starts_with("tls://"));
    let here = urls.iter().all(|url| is_loopback(url));
    let by = ca.map_or_else(
        || "a CA that this machine trusts".to_owned(),
        |ca| format!("the CA in {}", ca.display()),
    );
    match (demanded, speaks, here) {
        (true, _, _) => {
            DoctorCheck::ok(name, format!("the server has a certificate issued by {by}"))
        }
        (false, true, _) => DoctorCheck::warn(
            name,
            "the server has TLS, but the address does not require it: an attacker on the network can turn it off",
            "write tls:// instead of nats:// in bus.url",
        ),
        (false, false, true) => DoctorCheck::ok(
            name,
            "none, which loopback does not need; for other machines, `tetrarch up` has --listen",
        ),
        (false, false, false) => DoctorCheck::warn(
            name,
            "the bus is on another machine without TLS: an attacker on the network can read and change everything",
            "start `tetrarch up` with --listen, or configure TLS on your own servers (deploy/README.md)",
        ),
    }
}

/// Whether an address is of this machine's loopback.
fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Every check that needs the bus.
pub(super) async fn checks(context: &Context, bus: &Bus) -> Vec<DoctorCheck> {
    let (streams, owner, ledger, dead, hosts, circuits) = tokio::join!(
        streams(bus, shape(context)),
        owner(context, bus),
        ledger(context, bus),
        dead(bus),
        hosts(context, bus),
        circuits(context, bus),
    );
    let mut checks = vec![tls(context, bus)];
    checks.extend(streams);
    checks.extend([owner, ledger, dead]);
    checks.extend(hosts);
    checks.extend(circuits);
    checks
}

/// Open circuits, one check each.
async fn circuits(context: &Context, bus: &Bus) -> Vec<DoctorCheck> {
    let name = "circuit";
    let snapshot = match StateSnapshot::read(bus, &[Select::Kind(KeyKind::Agent)]).await {
        Ok(snapshot) => snapshot,
        Err(error) => {
            return vec![DoctorCheck::fail(
                name,
                error.what,
                "fix the connection to the bus first",
            )];
        }
    };
    let telemetry = Telemetry { owner: true, halted: None };
    let open = of_fleet(&snapshot.records, &telemetry);
    let next = |obstacle| obstacles::commands(context, obstacle).join("; ");
    open.iter().map(|it| DoctorCheck::warn(name, it.what.as_str(), next(it))).collect()
}

/// The streams as the configuration wants them.
fn shape(context: &Context) -> StreamSettings {
    StreamSettings { replicas: context.config.bus.replicas, ages: context.config.retention.ages }
}

async fn streams(bus: &Bus, shape: StreamSettings) -> Vec<DoctorCheck> {
    let wanted = topology::streams(shape);
    let total = wanted.len();
    let looks = wanted.into_iter().map(async |wanted| {
        let settings = serde_json::to_value(&wanted).unwrap_or_default();
        stream(bus, &wanted.name, &settings).await
    });
    let found = futures::future::join_all(looks).await;
    let wrong: Vec<DoctorCheck> = found.into_iter().flatten().collect();
    if wrong.is_empty() {
        return vec![DoctorCheck::ok("streams", format!("all {total} match the bus contract"))];
    }
    wrong
}

/// What is wrong with a stream; none when it is as it should be.
async fn stream(bus: &Bus, name: &str, wanted: &Value) -> Option<DoctorCheck> {
    let check = format!("stream {name}");
    // Asked first because it tells a missing right at once, where the client would wait.
    match bus.stream_created(name).await {
        Ok(_) => {}
        Err(ReadError::Refused { code: 403, .. }) => {
            let next =
                "run doctor on the machine with the installation's keys, or name its --credentials";
            return Some(DoctorCheck::warn(&check, "your credential may not read it", next));
        }
        Err(error) => {
            let next = "the owner creates missing streams at its start: `tetrarch serve --global`";
            return Some(DoctorCheck::fail(&check, error.to_string(), next));
        }
    }
    let found = match bus.jetstream().get_stream(name).await {
        Ok(stream) => serde_json::to_value(&stream.cached_info().config).unwrap_or_default(),
        Err(error) => {
            return Some(DoctorCheck::fail(
                &check,
                error.to_string(),
                "try again; check the server log",
            ));
        }
    };
    let differences = differences(wanted, &found);
    (!differences.is_empty()).then(|| {
        let next =
            "the owner updates settings at its start; check the log of `tetrarch serve --global`";
        DoctorCheck::warn(&check, differences.join("; "), next)
    })
}

/// Settings that differ, in words. What a server notes by itself is no setting; and a stream that waits for the disk
/// although it need not stays so when it was made by an earlier version (docs/decisions/0090).
pub(super) fn differences(wanted: &Value, found: &Value) -> Vec<String> {
    let empty = serde_json::Map::new();
    let wanted = wanted.as_object().unwrap_or(&empty);
    let found = found.as_object().unwrap_or(&empty);
    let names: std::collections::BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    names
        .into_iter()
        .filter(|name| name.as_str() != "metadata")
        .filter_map(|name| {
            let (is, must) = (found.get(name), wanted.get(name));
            let shown = |value: Option<&Value>| {
                value.map_or_else(|| "not set".to_owned(), Value::to_string)
            };
            let stays = name.as_str() == "persist_mode" && is_nothing(is);
            let differs = is != must && !stays && !(is_nothing(is) && is_nothing(must));
            differs.then(|| format!("{name} is {}, should be {}", shown(is), shown(must)))
        })
        .collect()
}

/// Whether a setting says no more than if it were left out.
fn is_nothing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Bool(flag)) => !flag,
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::String(text)) => text.is_empty() || text == "none",
        Some(Value::Array(values)) => values.is_empty(),
        Some(Value::Object(fields)) => fields.values().all(|value| is_nothing(Some(value))),
    }
}

async fn owner(context: &Context, bus: &Bus) -> DoctorCheck {
    let silent = Duration::from_secs(u64::from(context.config.retention.go_ttl_secs));
    let none = "no owner is running, so nothing is decided";
    lease(bus, &LeaseKey::Go, "owner", none, "start one with `tetrarch serve --global`", silent)
        .await
}

async fn hosts(context: &Context, bus: &Bus) -> Vec<DoctorCheck> {
    let found = match read_records(bus, &[Select::Kind(KeyKind::Host)]).await {
        Ok(found) => found,
        Err(error) => {
            return vec![DoctorCheck::fail("hosts", error.to_string(), "see the bus above")];
        }
    };
    let names: Vec<HostName> = found
        .records
        .into_iter()
        .filter_map(
            |(record, _)| if let Record::Host(host) = record { Some(host.name) } else { None },
        )
        .collect();
    if names.is_empty() {
        let next = "start one with `tetrarch host`";
        return vec![DoctorCheck::warn("hosts", "no host has joined, so nothing can run", next)];
    }
    let silent = context.config.liveness.window * WINDOWS;
    let looks = names.into_iter().map(async |host| {
        let (name, next) =
            (format!("host {host}"), format!("start it there: `tetrarch host --name {host}`"));
        let key = LeaseKey::Host(host);
        lease(bus, &key, &name, "its lease is not held", &next, silent).await
    });
    futures::future::join_all(looks).await
}

/// Who holds a lease, since when, and whether it is still renewed.
async fn lease(
    bus: &Bus,
    key: &LeaseKey,
    name: &str,
    none: &str,
    next: &str,
    silent: Duration,
) -> DoctorCheck {
    let seen = match Lease::look(bus, key).await {
        Ok(seen) => seen,
        Err(error) => return DoctorCheck::fail(name, error.to_string(), "see the bus above"),
    };
    let Some((seq, holder)) = seen.and_then(|seen| Some((seen.seq, seen.holder?))) else {
        return match key {
            LeaseKey::Go => DoctorCheck::fail(name, none, next),
            LeaseKey::Host(_) => DoctorCheck::warn(name, none, next),
        };
    };
    let renewed = match bus.get_seq(LEASES, seq).await {
        Ok(Some(message)) => BusTime(message.time_unix_ms),
        // Renewed in between, which is all that was to be found out.
        Ok(None) => now(),
        Err(error) => return DoctorCheck::fail(name, error.to_string(), "see the bus above"),
    };
    let held = age(now(), BusTime(holder.since_unix_ms));
    let what = format!(
        "{}, epoch {}, for {held}, renewed {} ago",
        holder.address,
        holder.epoch,
        age(now(), renewed)
    );
    if u128::from((now() - renewed).0) > silent.as_millis() {
        return DoctorCheck::warn(name, what, "it is silent: check whether the process still runs");
    }
    DoctorCheck::ok(name, what)
}

/// The ledger's figures, and whether it is still the one that was written to (spec 02, Amnesia
/// guard).
async fn ledger(context: &Context, bus: &Bus) -> DoctorCheck {
    let read = tokio::try_join!(bus.stream_created(LEDGER), bus.stream_last_seq(LEDGER));
    let (created, last) = match read {
        Ok(read) => read,
        Err(error) => return DoctorCheck::fail("ledger", error.to_string(), "see the streams"),
    };
    match load_meta(bus).await {
        Ok(meta) => {
            let kept = remembered(&context.config.bus.data_dir).await;
            let known = match kept {
                Ok(kept) => memories(bus, meta.as_ref(), kept.as_ref()).await,
                Err(error) => {
                    return DoctorCheck::fail("ledger", error.to_string(), accepting(last));
                }
            };
            match known {
                Ok(known) => ledger_check(&meta.unwrap_or_default(), &known, &created, last),
                Err(error) => DoctorCheck::fail("ledger", error.to_string(), "see the bus above"),
            }
        }
        Err(error @ MetaError::Unreadable(_)) => {
            DoctorCheck::fail("ledger", error.to_string(), "the owner repairs it at its start")
        }
        Err(error @ MetaError::Read(_)) => {
            DoctorCheck::fail("ledger", error.to_string(), "see the bus above")
        }
    }
}

/// What to do about a ledger that is not recognized.
fn accepting(last: u64) -> String {
    format!(
        "the owner does not start with it; restore the stream LEDGER from a backup, or accept it: tetrarch doctor --accept-ledger {last}"
    )
}

/// What could not be handled and is kept with its reason.
async fn dead(bus: &Bus) -> DoctorCheck {
    let name = "dead letters";
    let counted = match dead_letters(bus).await {
        Ok(counted) => counted,
        Err(error) => return DoctorCheck::fail(name, error.to_string(), "see the streams"),
    };
    if counted.is_empty() {
        return DoctorCheck::ok(name, "none");
    }
    let what = counted.iter().map(|(origin, count)| format!("{count} of {}", origin.as_str()));
    let what = what.collect::<Vec<_>>().join(", ");
    if counted.contains_key(&Origin::Ledger) {
        let next = "another process writes the ledger: find out who has the control plane's credential, and run `tetrarch doctor --check-ledger`";
        return DoctorCheck::warn(name, what, next);
    }
    DoctorCheck::ok(name, what)
}

pub(super) fn ledger_check(
    meta: &OwnerMeta,
    known: &[(MemorySource, Memory)],
    created: &str,
    last: u64,
) -> DoctorCheck {
    let name = "ledger";
    for (keeper, memory) in known {
        if let Err(lost) = memory.judge(created, last) {
            return DoctorCheck::fail(
                name,
                format!("{lost} (remembered by {keeper})"),
                accepting(last),
            );
        }
    }
    match last - meta.outbox_through.min(last) {
        0 => DoctorCheck::ok(name, format!("{last} entries, all published")),
        behind => {
            let what = format!("{last} entries, {behind} not yet published");
            DoctorCheck::warn(name, what, "check again: a running owner catches up within seconds")
        }
    }
}

/// As whom to look: the control plane where its keys are, since people do not see every stream;
/// elsewhere the human who asks.
pub(super) fn holder(context: &Context) -> CliResult<CredentialHolder> {
    if context.config.bus.url.is_none() {
        return Ok(CredentialHolder::Control);
    }
    Ok(CredentialHolder::Human(context.human()?))
}
