//! Which hosts and ports a run's programs reach: entries `network:HOST:PORT` of its tools (spec 09, On the host;
//! decision 0089). Names are compared as they are written; what a name leads to is looked up elsewhere.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;
use std::str::FromStr;

use crate::brief::Tools;

/// The tool that allows the whole network.
pub const NETWORK_TOOL: &str = "network";
/// What begins an entry that allows one host and port of it.
const ENTRY: &str = "network:";
/// What begins a name that stands for every name below it.
const ANY_BELOW: &str = "*.";
/// Longest name of a host, and of one label of it, in bytes (RFC 1035).
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;
/// The name that means this machine by itself.
const LOCALHOST: &str = "localhost";

/// A host and a port of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    host: Host,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Host {
    Name(String),
    /// Every name that ends in this and has more before it.
    Below(String),
    Address(IpAddr),
}

/// Why an entry names no destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{entry:?} is not a host and port; expected network:api.example.org:443, network:*.example.org:443, \
         network:127.0.0.1:8080 or network:[::1]:8080"
)]
pub struct NoDestination {
    /// As it was written.
    pub entry: String,
}

/// What a run's programs reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// Nobody.
    #[default]
    Off,
    /// These hosts and ports, through their host's proxy.
    Only(Vec<Destination>),
    /// Everybody.
    Open,
}

impl Network {
    /// What these tools allow.
    ///
    /// # Errors
    /// An entry names no host and port.
    pub fn of(tools: &Tools) -> Result<Self, NoDestination> {
        if tools.has(NETWORK_TOOL) {
            return Ok(Self::Open);
        }
        let entries = tools.names().filter(|name| name.starts_with(ENTRY));
        let destinations: Vec<Destination> = entries.map(str::parse).collect::<Result<_, _>>()?;
        Ok(if destinations.is_empty() { Self::Off } else { Self::Only(destinations) })
    }

    /// The entry by which a host and port is reached; none when it is not.
    #[must_use]
    pub fn allowing(&self, host: &str, port: u16) -> Option<&Destination> {
        let Self::Only(destinations) = self else { return None };
        let host = Host::asked(host)?;
        destinations.iter().find(|it| it.port == port && it.host.covers(&host))
    }
}

impl Destination {
    /// Whether what a name of it leads to may be connected to. An address of this machine or of a network that is not
    /// everybody's is reached only by its own entry: a name is somebody else's to point at it.
    #[must_use]
    pub fn may_lead_to(&self, address: IpAddr) -> bool {
        match &self.host {
            Host::Address(own) => *own == address,
            Host::Name(name) if name == LOCALHOST => address.is_loopback(),
            Host::Name(_) | Host::Below(_) => is_public(address),
        }
    }

    /// Whether it is of the machine that the run's host is on.
    #[must_use]
    pub fn is_of_the_host(&self) -> bool {
        match &self.host {
            Host::Name(name) => name == LOCALHOST,
            Host::Address(address) => address.is_loopback(),
            Host::Below(_) => false,
        }
    }

    /// Whether everything that the other allows is allowed by this.
    fn covers(&self, other: &Self) -> bool {
        self.port == other.port && self.host.covers(&other.host)
    }
}

/// Whether an entry of a parent's tools allows what one of its child's does.
pub(crate) fn covers(allowed: &str, entry: &str) -> bool {
    match (allowed.parse::<Destination>(), entry.parse::<Destination>()) {
        (Ok(allowed), Ok(entry)) => allowed.covers(&entry),
        (Ok(_) | Err(_), Err(_)) => false,
        (Err(_), Ok(_)) => allowed == NETWORK_TOOL,
    }
}

/// Whether an entry of tools is meant to be one of these.
#[must_use]
pub fn is_entry(tool: &str) -> bool {
    tool.starts_with(ENTRY)
}

impl Host {
    /// As an entry has it.
    fn written(text: &str) -> Option<Self> {
        match text.strip_prefix(ANY_BELOW) {
            Some(rest) => {
                let is_narrow = rest.contains('.');
                (is_narrow && is_name(rest)).then(|| Self::Below(rest.to_owned()))
            }
            None => Self::address(text).or_else(|| {
                (is_name(text) && text == text.to_lowercase()).then(|| Self::Name(text.to_owned()))
            }),
        }
    }

    /// As a program asks for it.
    fn asked(text: &str) -> Option<Self> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        Self::address(&name).or_else(|| is_name(&name).then_some(Self::Name(name)))
    }

    fn address(text: &str) -> Option<Self> {
        match text.strip_prefix('[') {
            Some(rest) => {
                let address: Ipv6Addr = rest.strip_suffix(']')?.parse().ok()?;
                Some(Self::Address(IpAddr::V6(address).to_canonical()))
            }
            None => text.parse().ok().map(|address: Ipv4Addr| Self::Address(address.into())),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Below(all), Self::Name(name) | Self::Below(name)) => {
                let below = name.strip_suffix(all.as_str()).is_some_and(|rest| rest.ends_with('.'));
                below || matches!(other, Self::Below(_)) && name == all
            }
            (Self::Name(_) | Self::Address(_), _) | (Self::Below(_), Self::Address(_)) => {
                self == other
            }
        }
    }
}

/// Letters, digits, `-` and `_` in labels between dots. A name whose last label is a number would be read as an address.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        let ends = !label.starts_with('-') && !label.ends_with('-');
        let bytes = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=LABEL_MAX).contains(&label.len()) && ends && label.bytes().all(bytes)
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= NAME_MAX
        && text.split('.').all(label)
        && !last.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether an address is one of the internet's, and none of a machine, a link or a network of somebody's own.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let shared = first == 100 && (64..128).contains(&second);
            let own = address.is_private() || address.is_loopback() || address.is_link_local();
            !(own
                || shared
                || first == 0
                || first >= 224
                || (first == 198 && (second & 0xfe) == 18))
        }
        // Global unicast, without what carries an address of version 4 in it (6to4, Teredo, NAT64).
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            (first & 0xe000) == 0x2000 && first != 0x2002 && !(first == 0x2001 && second == 0)
        }
    }
}

impl FromStr for Destination {
    type Err = NoDestination;

    fn from_str(entry: &str) -> Result<Self, NoDestination> {
        let read = || {
            let (host, port) = entry.strip_prefix(ENTRY)?.rsplit_once(':')?;
            let port: u16 =
                port.parse().ok().filter(|read: &u16| *read > 0 && read.to_string() == port)?;
            Some(Self { host: Host::written(host)?, port })
        };
        read().ok_or_else(|| NoDestination { entry: entry.to_owned() })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{port}"),
            Host::Below(name) => write!(f, "{ANY_BELOW}{name}:{port}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{port}"),
            Host::Address(address) => write!(f, "{address}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(entries: &[&str]) -> Network {
        Network::of(&entries.iter().copied().collect()).unwrap()
    }

    #[test]
    fn destination_is_a_name_or_address_with_port() {
        for good in [
            "network:a.example.org:1",
            "network:*.example.org:65535",
            "network:localhost:8080",
            "network:127.0.0.1:8080",
            "network:[::1]:8080",
            "network:my_host-1:80",
        ] {
            let read: Destination = good.parse().unwrap();
            assert_eq!(format!("network:{read}"), good);
        }
        let label = "a".repeat(LABEL_MAX + 1);
        for bad in [
            "network:",
            "network:example.org",
            "network:example.org:0",
            "network:example.org:65536",
            "network:example.org:+80",
            "network:example.org:080",
            "network:Example.org:80",
            "network:*:80",
            "network:*.org:80",
            "network:a.*.org:80",
            "network:u@example.org:80",
            "network:example..org:80",
            "network:-a.org:80",
            "network:1.2.3:80",
            "network:0x7f.1:80",
            "network:::1:80",
            "network:ex\u{e4}mple.org:80",
            &format!("network:{label}.org:80"),
            &format!("network:{}b:80", "a.".repeat(NAME_MAX / 2 + 1)),
        ] {
            assert!(bad.parse::<Destination>().is_err(), "{bad}");
        }
    }

    #[test]
    fn host_is_reached_only_by_its_name_and_port() {
        let network =
            only(&["network:a.example.org:443", "network:*.sub.org:80", "network:[::1]:5"]);
        for (host, port, is_reached) in [
            ("a.example.org", 443, true),
            ("A.Example.Org.", 443, true),
            ("a.example.org", 80, false),
            ("b.a.example.org", 443, false),
            ("example.org", 443, false),
            ("x.sub.org", 80, true),
            ("x.y.sub.org", 80, true),
            ("sub.org", 80, false),
            ("evilsub.org", 80, false),
            ("x.sub.org.evil.org", 80, false),
            ("[::1]", 5, true),
            ("[0:0::1]", 5, true),
            ("::1", 5, false),
            ("a.example.org@evil.org", 443, false),
            ("", 443, false),
        ] {
            assert_eq!(network.allowing(host, port).is_some(), is_reached, "{host}:{port}");
        }
        assert!(Network::Off.allowing("a.example.org", 443).is_none());
    }

    #[test]
    fn public_name_may_not_lead_to_a_private_address() {
        let network = only(&["network:a.org:1", "network:localhost:2", "network:10.0.0.1:3"]);
        let leads = |host: &str, port: u16, address: &str| {
            network.allowing(host, port).unwrap().may_lead_to(address.parse().unwrap())
        };
        for address in
            ["1.1.1.1", "100.63.255.255", "100.128.0.0", "223.255.255.255", "2606:4700::1"]
        {
            assert!(leads("a.org", 1, address), "{address}");
        }
        for address in [
            "127.0.0.1",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.0",
            "100.127.255.255",
            "198.18.0.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001::1",
            "ff02::1",
        ] {
            assert!(!leads("a.org", 1, address), "{address}");
        }
        assert!(leads("localhost", 2, "127.0.0.1") && !leads("localhost", 2, "1.1.1.1"));
        assert!(leads("10.0.0.1", 3, "10.0.0.1") && !leads("10.0.0.1", 3, "10.0.0.2"));
    }

    #[test]
    fn tools_allow_full_partial_or_no_network() {
        assert_eq!(only(&["read"]), Network::Off);
        assert_eq!(only(&["network", "network:a.org:1"]), Network::Open);
        assert_eq!(only(&["*"]), Network::Open);
        assert!(matches!(only(&["network:a.org:1"]), Network::Only(all) if all.len() == 1));
        let wrong: Tools = ["network:a.org"].into_iter().collect();
        assert!(
            Network::of(&wrong).unwrap_err().to_string().contains("network:api.example.org:443")
        );
    }

    #[test]
    fn child_reaches_only_destinations_of_its_parent() {
        for (parent, child, is_within) in [
            ("network", "network:a.org:1", true),
            ("*", "network:a.org:1", true),
            ("network:a.org:1", "network:a.org:1", true),
            ("network:a.org:1", "network:a.org:2", false),
            ("network:a.org:1", "network", false),
            ("network:*.a.org:1", "network:b.a.org:1", true),
            ("network:*.a.org:1", "network:*.b.a.org:1", true),
            ("network:*.a.org:1", "network:*.a.org:1", true),
            ("network:*.b.a.org:1", "network:*.a.org:1", false),
            ("network:*.a.org:1", "network:a.org:1", false),
            ("network:b.a.org:1", "network:*.a.org:1", false),
            ("network:a.org:1", "network:a.org", false),
            ("read", "network:a.org:1", false),
        ] {
            let of = |tool: &str| -> Tools { [tool].into_iter().collect() };
            assert_eq!(of(child).not_in(&of(parent)).is_empty(), is_within, "{parent} {child}");
        }
    }
}
