//! Which layers of containment this machine offers, for `doctor` and for the run's journal
//! (spec 06, Runners; spec 09, On the host). Tries them where nothing is hurt by it, and says.

use std::fmt;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;

use tetrarch_core::destination::Network;

use crate::cgroup::{CGROUP_LIMITS, CgroupError, Cgroups};
use crate::confined::{self, NotStarted};
use crate::containment::Containment;
use crate::proxy;

/// The layer that keeps writes to their places.
pub(crate) const LANDLOCK: &str = "landlock";
/// The layer that keeps the network away.
pub(crate) const NETWORK_LAYER: &str = "network";
/// The layer that keeps other processes of the user as they are.
pub(crate) const PROCESSES_LAYER: &str = "other processes";

/// What each layer stops.
const STOPS: [(&str, &str); 11] = [
    ("cgroup v2", "outliving the run by whatever it forks"),
    (CGROUP_LIMITS, "taking all memory, processes or processors"),
    ("no new privileges", "rights from setuid programs"),
    (LANDLOCK, "writing elsewhere, reading the host's keys and memory, signals"),
    (PROCESSES_LAYER, "taking limits or processors of the host's processes, and the user's keys"),
    (NETWORK_LAYER, "reaching anybody, also on this machine"),
    ("limits", "core dumps, open files and files without end"),
    ("descriptors", "using what the host has open"),
    ("environment", "reading the host's variables"),
    ("subreaper and sweep", "outliving the run where there is no cgroup"),
    ("process group", "missing the signals that end the run"),
];

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its name.
    pub name: &'static str,
    /// Whether runs are contained by it.
    pub active: bool,
    /// Whether the machine has it and this user may not use it.
    pub refused: bool,
    /// What it does here, or why it is missing and what to do.
    pub words: String,
}

impl Layer {
    /// A layer that holds, or does not and why.
    pub(crate) fn new(name: &'static str, held: Result<String, String>) -> Self {
        let active = held.is_ok();
        Self { name, active, refused: false, words: held.unwrap_or_else(|cause| cause) }
    }

    /// A layer that was not permitted, when it does not hold because of that.
    pub(crate) fn refused_if(self, refused: bool) -> Self {
        Self { refused: refused && !self.active, ..self }
    }

    /// `enforced`, `missing` or `not permitted`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.active, self.refused) {
            (true, _) => "enforced",
            (false, true) => "not permitted",
            (false, false) => "missing",
        }
    }

    /// What a program could do without it.
    #[must_use]
    pub fn stops(&self) -> &'static str {
        STOPS.iter().find(|(name, _)| *name == self.name).map_or("", |(_, stops)| stops)
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, active, words, .. } = self;
        if *active { write!(f, "{name} ({words})") } else { write!(f, "no {name} ({words})") }
    }
}

/// Every layer, strongest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolation {
    /// The layers.
    pub layers: Vec<Layer>,
}

/// Looks what this machine offers of what is wanted. `cgroup_parent` as in
/// [`crate::RunnerConfig`]. Blocks for a moment; gives this process the limits of programs, makes a control group and removes it again.
#[must_use]
pub fn probe(containment: &Containment, cgroup_parent: Option<&Path>) -> Isolation {
    let mut layers = cgroup(containment, cgroup_parent);
    layers.extend(confinement(containment));
    if let Some(exposed) = containment.exposed() {
        let all = layers.iter_mut().filter(|layer| layer.name == LANDLOCK && layer.active);
        all.for_each(|layer| *layer = Layer::new(LANDLOCK, Err(exposed.clone())));
    }
    for layer in layers.iter_mut().filter(|layer| layer.name == NETWORK_LAYER) {
        layer.words.push_str(match proxy::is_there() {
            true => "; single destinations can be allowed",
            false => "; single destinations cannot be allowed without CAP_SYS_ADMIN",
        });
    }
    let held = |name, words: &str| Layer::new(name, Ok(words.to_owned()));
    layers.extend([
        confined::limits(rustix::process::getpid()),
        held("descriptors", "only standard input, output and error are handed on"),
        held("environment", "only listed variables are handed on"),
        descendants(),
        held("process group", "every program leads a process group of its own"),
    ]);
    Isolation { layers }
}

/// What a thread that is kept within a run's bounds can still do.
fn confinement(containment: &Containment) -> Vec<Layer> {
    let here = Path::new("the working directory");
    let any = Containment { required: false, ..containment.clone() };
    let sandbox = any.sandbox(Network::Off, here, std::env::temp_dir(), Vec::new());
    match confined::within(&sandbox, || UdpSocket::bind("127.0.0.1:0").is_ok()) {
        Ok((true, mut layers, _)) if sandbox.network == Network::Off => {
            for layer in
                layers.iter_mut().filter(|layer| layer.name == NETWORK_LAYER && layer.active)
            {
                *layer = Layer::new(NETWORK_LAYER, Err("the filter is not enforced".to_owned()));
            }
            layers
        }
        Ok((_, layers, _)) => layers,
        Err(NotStarted::NotContained(cause) | NotStarted::NoAllowance(cause)) => {
            vec![Layer::new(LANDLOCK, Err(cause))]
        }
        Err(NotStarted::Failed(cause)) => vec![Layer::new(LANDLOCK, Err(cause.to_string()))],
    }
}

fn cgroup(containment: &Containment, parent: Option<&Path>) -> Vec<Layer> {
    match Cgroups::prepare_trial(parent, containment) {
        Ok(cgroups) => {
            let how = if cgroups.kills_at_once() {
                "killed at once"
            } else {
                "killed one by one, the kernel is older than 5.14"
            };
            let words = format!("one group for each run below {}, {how}", cgroups.home().display());
            let limits = cgroups.limits_of_trial(containment);
            cgroups.remove();
            [Layer::new("cgroup v2", Ok(words))].into_iter().chain(limits).collect()
        }
        Err(cause) => {
            let refused = matches!(cause, CgroupError::Refused { .. });
            vec![Layer::new("cgroup v2", Err(cause.to_string())).refused_if(refused)]
        }
    }
}

fn descendants() -> Layer {
    let readable = fs::read_to_string("/proc/self/environ").is_ok();
    let words = if readable {
        "orphans come to the host; what is left of a run is found by its environment and descent"
    } else {
        "/proc cannot be read, so only the process group is killed; mount /proc"
    };
    let words = words.to_owned();
    Layer::new("subreaper and sweep", if readable { Ok(words) } else { Err(words) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_cgroup_is_reported_with_its_reason() {
        let place = tempfile::tempdir().unwrap();
        let isolation = probe(&Containment::default(), Some(place.path()));
        let cgroup = &isolation.layers[0];
        assert!(!cgroup.active);
        assert!(cgroup.words.contains("is not a cgroup v2 directory"), "{}", cgroup.words);
        assert_eq!((cgroup.state(), cgroup.stops()), ("missing", STOPS[0].1));
        assert!(isolation.layers.iter().any(|layer| layer.active && layer.name == "process group"));
        assert!(isolation.layers.iter().all(|layer| !layer.stops().is_empty()));
        let refused = Layer::new(LANDLOCK, Err(String::new())).refused_if(true);
        assert_eq!(refused.state(), "not permitted");
        assert_eq!(Layer::new(LANDLOCK, Ok(String::new())).refused_if(true).state(), "enforced");
    }
}
