//! Hosts, who owns the ledger, and the bus.

use maud::{Markup, html};
use tetrarch_core::id::AgentId;
use tetrarch_core::time::BusTime;
use tetrarch_view::tone::Tone;

use crate::address::PageView;
use crate::render::{PageExtra, PageModel};
use crate::sheet::{ago, field, field_of, heads, nothing, state, toned};

/// Who owns the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerSeen {
    /// Where.
    pub address: String,
    /// In which epoch.
    pub epoch: u64,
    /// Since when.
    pub since: BusTime,
}

/// How the bus is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusHealth {
    /// Its address.
    pub url: String,
    /// Its version.
    pub version: String,
    /// Who owns the ledger; none while nobody does.
    pub owner: Option<OwnerSeen>,
    /// The last sequence of the ledger.
    pub last: u64,
    /// Up to where what it caused was published.
    pub published: u64,
    /// What could not be handled, by where it came from.
    pub dead: Vec<(String, u64)>,
}

/// All of it.
pub(crate) fn hosts(model: &PageModel, extra: &PageExtra) -> Markup {
    let records = &model.fleet.fold.records;
    html! {
        (bus(model, extra))
        h2 { "Hosts" }
        @if records.hosts.is_empty() { (nothing("No hosts. Start one: tetrarch host")) } @else {
            table tabindex="0" {
                (heads(&["HOST", "STATE", "PLACES", "LABELS", "ADDRESS", "JOINED"]))
                tbody {
                    @for host in records.hosts.values() {
                        @let id = AgentId::Ho(host.name.clone());
                        @let busy = records.places_taken_on(&host.name);
                        @let labels: Vec<String> = host.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                        tr {
                            td { a class="row" id={ "row-" (id) } href=(PageView::Agent(id.clone()).href()) { (host.name) } }
                            td {
                                (state(records.agents.get(&id).map_or("", |agent| agent.liveness.as_str())))
                                @if host.drained { " " (state("drained")) }
                            }
                            td { (busy) " of " (host.capacity) }
                            td { (labels.join(" ")) }
                            td { (host.address) }
                            td { (ago(model.now, host.joined)) }
                        }
                    }
                }
            }
        }
    }
}

fn bus(model: &PageModel, extra: &PageExtra) -> Markup {
    let PageExtra::Bus(bus) = extra else { return html! {} };
    let bus = match bus {
        Ok(bus) => bus,
        Err(why) => return html! { p class="bad" { "The bus does not answer: " (why) } },
    };
    let owner = match &bus.owner {
        Some(it) => html! { (it.address) ", epoch " (it.epoch) ", " (ago(model.now, it.since)) },
        None => toned("none: nothing is decided. Start one: tetrarch serve --global", Tone::Bad),
    };
    let behind = bus.last.saturating_sub(bus.published);
    let dead = bus.dead.iter().map(|(origin, count)| format!("{count} of {origin}"));
    let dead =
        if bus.dead.is_empty() { "none".to_owned() } else { dead.collect::<Vec<_>>().join(", ") };
    html! {
        h2 { "Bus" }
        dl class="sheet" {
            (field("address", &format!("{} (nats-server {})", bus.url, bus.version)))
            (field_of("owner", &owner))
            (field_of("ledger", &html! {
                "sequence " (bus.last) @if behind > 0 { " " (toned(&format!("{behind} not yet published"), Tone::Warn)) }
            }))
            (field("dead letters", &dead))
            (field("halted", model.fleet.telemetry.halted.as_deref().unwrap_or_default()))
        }
    }
}
