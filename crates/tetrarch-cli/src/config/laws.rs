//! What values must be to each other (spec 04, spec 12). Each value's own bounds are with its
//! key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tetrarch_core::id::{AgentId, HumanName, Principal, ProjectName};
use tetrarch_core::limits::{FREEZE_WINDOWS, OFFLINE_WINDOWS};
use tetrarch_core::url::url_fault;

use super::channels;
use super::keys::APPROVALS_MAX;
use super::settings::Settings;
use super::source::ConfigErrors;
use crate::{CliError, CliResult, Code};

/// In `overseer.allow_agents`: all of them.
pub(super) const EVERY_AGENT: &str = "*";

/// A change that needs more people than may approve it could never be applied.
fn approvals(settings: &Settings, faults: &mut ConfigErrors) -> CliResult {
    let (default, of) = ("people.approvals", "people.approvals_of");
    let mut most = (settings.get::<u64>(default)?, default);
    for (project, count) in settings.get::<BTreeMap<String, String>>(of)? {
        let count = count.parse().ok().filter(|count| (1..=APPROVALS_MAX).contains(count));
        match count {
            Some(count) if ProjectName::new(&project).is_ok() => most = most.max((count, of)),
            Some(_) | None => {
                let shown = shown(settings, of);
                let allowed = format!("<project>=<1 to {APPROVALS_MAX}>, several with commas");
                faults.add(format!("{shown}: {project} is not a project; allowed: {allowed}"));
            }
        }
    }
    let people: Vec<String> = settings.get::<Option<_>>("people.approvers")?.unwrap_or_default();
    for name in &people {
        if let Err(error) = HumanName::new(name) {
            faults.add(format!("{}: {error}", shown(settings, "people.approvers")));
        }
    }
    let distinct: BTreeSet<_> = people.iter().collect();
    if !people.is_empty() && (distinct.len() as u64) < most.0 {
        let why = "at least as many people as required approvals are needed";
        faults.add(broken(settings, most.1, "people.approvers", why));
    }
    Ok(())
}

/// Adds each pair of values that do not fit together, both with where they come from.
pub(super) fn check(settings: &Settings, faults: &mut ConfigErrors) -> CliResult {
    let ordered = [
        ("liveness.window", "liveness.register_deadline"),
        ("liveness.window", "host.freeze_max"),
        ("deadlines.compacting", "deadlines.awaiting_input"),
    ];
    for (least, most) in ordered {
        if settings.millis(least)? > settings.millis(most)? {
            faults.add(broken(
                settings,
                least,
                most,
                "the first must not be longer than the second",
            ));
        }
    }
    if settings.get::<bool>("planner.enabled")? {
        let needed = ["planner.provider", "planner.model"];
        for missing in needed.into_iter().filter(|name| is_absent(settings, name)) {
            let why = "a planner needs a provider and a model";
            faults.add(broken(settings, "planner.enabled", missing, why));
        }
        let elsewhere = !is_absent(settings, "planner.base_url");
        if is_absent(settings, "planner.key_from") && !elsewhere {
            let why = "the provider's address requires a key; only your own server may need none";
            faults.add(broken(settings, "planner.key_from", "planner.base_url", why));
        }
        let keyed = elsewhere && !is_absent(settings, "planner.key_from");
        if keyed && let Some(fault) = url_fault(&settings.get::<String>("planner.base_url")?) {
            let why = format!("the address {fault}, and the key is sent there; use https");
            faults.add(broken(settings, "planner.key_from", "planner.base_url", &why));
        }
    }
    let managed = settings.get::<bool>("bus.managed")?;
    let own = is_absent(settings, "bus.url");
    if own && !managed {
        let why = "without a managed bus, the address of another bus is required";
        faults.add(broken(settings, "bus.managed", "bus.url", why));
    }
    if own && settings.get::<u64>("bus.replicas")? > 1 {
        let why = "the managed bus is one server and can keep one replica";
        faults.add(broken(settings, "bus.replicas", "bus.url", why));
    }
    let (cert, key) = ("bus.tls_cert", "bus.tls_key");
    if is_absent(settings, cert) != is_absent(settings, key) {
        faults.add(broken(settings, cert, key, "a certificate requires its key"));
    }
    for name in settings.get::<Vec<String>>("overseer.plan_appliers")? {
        if let Err(error) = name.parse::<Principal>() {
            let shown = shown(settings, "overseer.plan_appliers");
            let allowed = "agents (PO-ci) and people (human:ada), separated by commas";
            faults.add(format!("{shown}: {error}; allowed: {allowed}"));
        }
    }
    approvals(settings, faults)?;
    channels::check(settings, faults)?;
    for name in settings.get::<Vec<String>>("overseer.allow_agents")? {
        if name != EVERY_AGENT
            && let Err(error) = name.parse::<AgentId>()
        {
            let shown = shown(settings, "overseer.allow_agents");
            let allowed = "agents (PO-ci), separated by commas, or * for all";
            faults.add(format!("{shown}: {error}; allowed: {allowed}"));
        }
    }
    Ok(())
}

/// What a silent host runs is frozen before it is started elsewhere: `2 windows + freeze time <
/// 3 windows` (spec 04, Hosts). `freeze_time` is what this machine takes.
///
/// # Errors
/// The window with where it comes from, when it is too short here.
pub(crate) fn check_freezing(settings: &Settings, freeze_time: Duration) -> CliResult {
    let window = settings.span("liveness.window")?;
    let elsewhere = u32::try_from(OFFLINE_WINDOWS).unwrap_or(u32::MAX) * window;
    if FREEZE_WINDOWS * window + freeze_time < elsewhere {
        return Ok(());
    }
    let what = format!(
        "{}: a host freezes its agents {FREEZE_WINDOWS} windows after its last renewal, which takes about {} ms on this machine, but they are started on another host after {OFFLINE_WINDOWS} windows; two could run at once",
        shown(settings, "liveness.window"),
        freeze_time.as_millis()
    );
    let hint = format!("set liveness.window above {} ms, on every host", freeze_time.as_millis());
    Err(CliError::new(Code::Usage, what).hint(hint))
}

/// What is allowed but not advised, in words.
pub(super) fn advice(settings: &Settings) -> CliResult<Vec<String>> {
    let mut advice = Vec::new();
    let window = settings.span("liveness.window")?;
    if settings.get::<u64>("bus.replicas")? > 1 && window.as_secs_f64() * 2.0 <= 10.0 {
        advice.push(
            "liveness.window: two windows are 10 s or less; elections of a cluster stop writes for 5 to 9 s and could freeze hosts needlessly; set it to 6s or more"
                .to_owned(),
        );
    }
    let named = !settings.get::<Vec<String>>("overseer.allow_agents")?.is_empty();
    let (listed, switch) = ("overseer.allow_agents", "overseer.allow_cross_agent");
    if named != settings.get::<bool>(switch)? {
        let (on, off) = if named { (listed, switch) } else { (switch, listed) };
        advice.push(format!(
            "{on} is set, but {off} is not: the overseer supervises agents of external programs only when both are set"
        ));
    }
    Ok(advice)
}

fn broken(settings: &Settings, one: &str, other: &str, why: &str) -> String {
    let (one, other) = (shown(settings, one), shown(settings, other));
    format!("{one} and {other}: {why}; change one of them")
}

fn is_absent(settings: &Settings, name: &str) -> bool {
    settings.named(name).is_none_or(|setting| setting.value.is_null())
}

/// A value with where it comes from.
pub(super) fn shown(settings: &Settings, name: &str) -> String {
    settings.named(name).map_or_else(String::new, |setting| {
        format!("{name} = {} ({})", setting.shown(), setting.from)
    })
}
