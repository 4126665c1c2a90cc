//! What this machine offers: the configuration, the server's binary, the data directory, the
//! layers of isolation, the tools that examples need.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{Access, FlockOperation, access, flock};
use tetrarch_bus::server::{
    BINARY_VARIABLE, Durability, FreeSpace, MIN_VERSION, Version, free_space,
};
use tetrarch_runner::{Containment, Layer};
use tokio::process::Command;

use super::check::{CheckStatus, DoctorCheck, LAYER};
use crate::Context;
use crate::telemetry::Collector;

/// Time for a program to tell its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);
/// What to do when spans do not arrive.
const COLLECTOR_NEXT: &str = "check telemetry.otlp_endpoint, otlp_protocol (4317 is usually the port of grpc, 4318 of http/protobuf) and \
     otlp_ca";
const FETCHED: &str =
    "`tetrarch up` downloads it once with Python 3 and pip; or install nats-server into PATH";

/// Every check of this machine.
pub(super) async fn checks(context: &Context) -> Vec<DoctorCheck> {
    let mut checks = vec![configuration(context)];
    checks.extend(planner(context));
    checks.extend(collector(context).await);
    if context.config.bus.url.is_none() {
        checks.push(server(&context.config.bus.data_dir).await);
        checks.push(durability(context.config.bus.durability));
        checks.extend(free_space(&context.config.bus.data_dir).map(|free_space| disk(&free_space)));
    }
    checks.push(data_dir(&context.config.bus.data_dir));
    checks.extend(isolation(context.config.host.containment.clone()).await);
    checks.push(tool("git", "for plans whose programs work on repositories").await);
    checks.push(tool("python3", "for the first example and for fetching nats-server").await);
    checks
}

fn configuration(context: &Context) -> DoctorCheck {
    let settings = &context.config.settings;
    let files: Vec<String> =
        settings.files().iter().map(|file| file.display().to_string()).collect();
    let set = settings.all().iter().filter(|setting| setting.is_set()).count();
    let from = if files.is_empty() { "no file".to_owned() } else { files.join(", ") };
    let what = format!("keys set: {set}; read: {from}");
    let advice = settings.advice();
    if advice.is_empty() {
        DoctorCheck::ok("configuration", what)
    } else {
        DoctorCheck::warn("configuration", what, advice.join("; "))
    }
}

/// Whether there can be a planner where one is wanted; nobody is asked.
fn planner(context: &Context) -> Option<DoctorCheck> {
    match context.config.planner.prepared() {
        Ok(None) => None,
        Ok(Some(planner)) => {
            let at = planner.base_url.as_deref().unwrap_or("the provider's own address");
            Some(DoctorCheck::ok(
                "planner",
                format!("{} {} at {at}", planner.provider, planner.model),
            ))
        }
        Err(error) => {
            let next = error.hint.clone().unwrap_or_else(|| "correct [planner]".to_owned());
            Some(DoctorCheck::fail("planner", error.what, next))
        }
    }
}

/// Whether the collector takes spans, where there is one.
async fn collector(context: &Context) -> Option<DoctorCheck> {
    let name = "collector";
    let collector = match Collector::of(&context.config.telemetry).transpose()? {
        Ok(collector) => collector,
        Err(error) => return Some(DoctorCheck::warn(name, error.what, COLLECTOR_NEXT)),
    };
    let protocol = context.config.telemetry.otlp_protocol.clone();
    // What is sent there must not be waited for on a thread of the runtime.
    let tried = tokio::task::spawn_blocking(move || {
        let at = format!("{} by {protocol}", collector.url());
        match collector.try_out() {
            Ok(()) => DoctorCheck::ok(name, format!("{at} accepts spans")),
            Err(why) => {
                DoctorCheck::warn(name, format!("{at} accepts no spans: {why}"), COLLECTOR_NEXT)
            }
        }
    });
    Some(
        tried
            .await
            .unwrap_or_else(|error| DoctorCheck::warn(name, error.to_string(), COLLECTOR_NEXT)),
    )
}

/// The binary that `up` would start: the same places in the same order.
async fn server(data_dir: &Path) -> DoctorCheck {
    let name = "nats-server";
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        let path = PathBuf::from(path);
        let from = format!("{} ({BINARY_VARIABLE})", path.display());
        let fix = format!("correct {BINARY_VARIABLE} or unset it");
        return match version(&path).await {
            Ok(found) if found >= MIN_VERSION => DoctorCheck::ok(name, format!("{found}, {from}")),
            Ok(found) => DoctorCheck::fail(name, too_old(found, &from), fix),
            Err(reason) => DoctorCheck::fail(name, format!("{from}: {reason}"), fix),
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(data_dir.join("bin")).chain(std::env::split_paths(&search));
    let mut others = Vec::new();
    for path in places.map(|dir| dir.join(name)).filter(|path| path.is_file()) {
        let from = path.display().to_string();
        match version(&path).await {
            Ok(found) if found >= MIN_VERSION => {
                return DoctorCheck::ok(name, format!("{found}, {from}"));
            }
            Ok(found) => others.push(too_old(found, &from)),
            Err(reason) => others.push(format!("{from}: {reason}")),
        }
    }
    if others.is_empty() {
        others.push("not installed yet".to_owned());
    }
    DoctorCheck::warn(name, others.join("; "), FETCHED)
}

fn too_old(found: Version, from: &str) -> String {
    format!("{from} has version {found}; {MIN_VERSION} or newer is required")
}

async fn version(program: &Path) -> Result<Version, String> {
    said(program).await?.parse::<Version>().map_err(|error| error.to_string())
}

/// What a program says of its version.
pub(super) async fn said(program: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(VERSION_WITHIN, command.output())
        .await
        .map_err(|_| format!("it printed no version within {} s", VERSION_WITHIN.as_secs()))?
        .map_err(|error| {
            let is_missing = error.kind() == ErrorKind::NotFound;
            if is_missing { "not found in PATH".to_owned() } else { error.to_string() }
        })?;
    if !output.status.success() {
        return Err(format!("`--version` ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(super) fn data_dir(dir: &Path) -> DoctorCheck {
    let name = "data directory";
    let shown = dir.display();
    if !dir.exists() {
        return DoctorCheck::ok(
            name,
            format!("{shown} does not exist yet; `tetrarch up` creates it"),
        );
    }
    if !dir.is_dir() || access(dir, Access::READ_OK | Access::WRITE_OK).is_err() {
        let what = format!("{shown} is not a directory that this user can write to");
        return DoctorCheck::fail(
            name,
            what,
            "change its owner, or choose another with --data-dir",
        );
    }
    match holder(dir) {
        Some(pid) => DoctorCheck::ok(name, format!("{shown}, in use by process {pid}")),
        None => DoctorCheck::ok(name, format!("{shown}, not in use")),
    }
}

/// What an acknowledged write survives on the bus of this machine.
pub(super) fn durability(chosen: Durability) -> DoctorCheck {
    let name = "durability";
    match chosen.loses() {
        None => DoctorCheck::ok(name, "power: acknowledged writes survive a power cut"),
        Some(loses) => {
            let next =
                "remove bus.durability from the configuration, then stop and start `tetrarch up`";
            DoctorCheck::warn(name, format!("{}: {loses}", chosen.as_str()), next)
        }
    }
}

/// Whether the bus of this machine has room to store what it is given.
pub(super) fn disk(free_space: &FreeSpace) -> DoctorCheck {
    let name = "disk of the bus";
    let path = free_space.path.display();
    if free_space.is_low() {
        let next = format!("free some space at {path}; no new work is accepted until then");
        return DoctorCheck::fail(name, free_space.to_string(), next);
    }
    DoctorCheck::ok(name, format!("{} MiB are free at {path}", free_space.free / 1024 / 1024))
}

/// The process that holds the directory's lock, as it wrote itself into the file.
fn holder(dir: &Path) -> Option<String> {
    let path = dir.join("lock");
    let file = File::open(&path).ok()?;
    let free = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
    let pid = std::fs::read_to_string(&path).ok()?;
    (!free).then(|| pid.trim().to_owned())
}

async fn isolation(containment: Containment) -> Vec<DoctorCheck> {
    let required = containment.required;
    let probe = move || tetrarch_runner::probe(&containment, None);
    let Ok(isolation) = tokio::task::spawn_blocking(probe).await else {
        let what = "checking the isolation layers failed";
        return vec![DoctorCheck::new("isolation", CheckStatus::Warn, what)];
    };
    let layers = isolation.layers.into_iter();
    let check = |layer: Layer| {
        let shown = Some((layer.state(), layer.stops()));
        DoctorCheck { layer: shown, ..layer_check(required, layer.name, layer.active, layer.words) }
    };
    layers.map(check).collect()
}

/// A run needs every layer where isolation is required.
pub(super) fn layer_check(required: bool, layer: &str, active: bool, words: String) -> DoctorCheck {
    let name = format!("{LAYER}{layer}");
    match (active, required) {
        (true, _) => DoctorCheck::ok(&name, words),
        (false, true) => {
            let next =
                "runs fail here, since host.isolation is required; fix this, or set it to best";
            DoctorCheck::fail(&name, words, next)
        }
        (false, false) => DoctorCheck::warn(
            &name,
            words,
            "runs are less isolated; acceptable for programs that you trust",
        ),
    }
}

async fn tool(program: &str, purpose: &str) -> DoctorCheck {
    match said(Path::new(program)).await {
        Ok(version) => DoctorCheck::ok(program, version),
        Err(reason) => DoctorCheck::warn(program, reason, format!("install it {purpose}")),
    }
}
