//! What the programs of runs are kept to (spec 06, Isolation; spec 09, On the host): a pure
//! description, from the host's configuration and the brief. Applied in `confined` and `cgroup`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tetrarch_core::destination::Network;

use crate::isolation::{LANDLOCK, Layer, NETWORK_LAYER};
use crate::launcher::Launcher;

/// How a host keeps the programs of runs apart from itself and from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Containment {
    /// Whether a run fails where a layer is missing (`host.isolation = "required"`), instead of
    /// running less contained.
    pub required: bool,
    /// Whether every run has the network (`runs.network`); else what the brief's tools say: `network`, or
    /// `network:HOST:PORT`. They are tools, so that a child never reaches whom its parent does not (spec 03).
    pub network: bool,
    /// What every run may write besides its working directory and the directory for temporary
    /// files (`host.writable`). What is not there is left out, and what is a link after [`Self::settled`].
    pub writable: Vec<PathBuf>,
    /// What no run may read, its own directories aside: where the host keeps its credentials.
    pub hidden: Vec<PathBuf>,
    /// Most memory of one run, in bytes (`runs.memory_max`).
    pub memory_max: Option<u64>,
    /// Most processes and threads of one run (`runs.processes_max`).
    pub processes_max: Option<u64>,
    /// Most processors that one run keeps busy (`runs.cpus_max`).
    pub cpus_max: Option<u64>,
    /// What starts the programs.
    pub launcher: Launcher,
}

/// What the programs of one run are kept to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SandboxPolicy {
    /// Whether a missing layer is a reason not to start.
    pub(crate) required: bool,
    /// Whom it reaches.
    pub(crate) network: Network,
    /// The model gateway of the run, which it reaches besides.
    pub(crate) gateway: Option<SocketAddr>,
    /// The only places below which anything is written. A path that leads over a link gives nothing: somebody has put
    /// it there since the place was looked at.
    pub(crate) writable: Vec<PathBuf>,
    /// What is read also where it is hidden; no more than in the places that are written, a link gives anything.
    pub(crate) readable: Vec<PathBuf>,
    /// What is not read, unless it is writable or readable.
    pub(crate) hidden: Vec<PathBuf>,
}

/// Which of the hidden places a place lies in, or has in it; the place is as it really is. What is writable is
/// readable too, and rights reach down.
pub(crate) fn exposed<'h>(hidden: &'h [PathBuf], place: &Path) -> Option<&'h PathBuf> {
    hidden.iter().find(|hidden| {
        let hidden = real(hidden);
        hidden.starts_with(place) || place.starts_with(&hidden)
    })
}

/// A place without links; as it is, where it is not there.
pub(crate) fn real(place: &Path) -> PathBuf {
    place.canonicalize().unwrap_or_else(|_| place.to_owned())
}

impl Containment {
    /// What no run may read and every run does, since it lies in the directory for temporary files: rights reach
    /// down. In words, with what to do.
    pub(crate) fn exposed(&self) -> Option<String> {
        let temporary = real(&std::env::temp_dir());
        let inside = self.hidden.iter().find(|hidden| real(hidden).starts_with(&temporary))?;
        Some(format!(
            "{} is in {}, which every program may read and write; use another --data-dir, or set TMPDIR of the host to another directory",
            inside.display(),
            temporary.display()
        ))
    }

    /// The same with the places as they are before any program has run, which may put links there.
    pub(crate) fn settled(mut self) -> Self {
        self.writable.iter_mut().for_each(|place| *place = real(place));
        self
    }

    /// The bounds of a run whose tools allow this network, in this directory; `temporary` is where programs put
    /// what they throw away, `places` is what else is the run's. The directory and these places are without links, as
    /// they were looked at; the directory for temporary files is resolved here.
    pub(crate) fn sandbox(
        &self,
        network: Network,
        dir: &Path,
        temporary: PathBuf,
        places: Vec<PathBuf>,
    ) -> SandboxPolicy {
        let mut writable = vec![dir.to_owned(), real(&temporary)];
        writable.extend(places);
        writable.extend(self.writable.iter().cloned());
        let network = if self.network { Network::Open } else { network };
        let (required, hidden) = (self.required, self.hidden.clone());
        SandboxPolicy { required, network, gateway: None, writable, readable: Vec::new(), hidden }
    }
}

impl SandboxPolicy {
    /// These bounds without what no layer enforces.
    pub(crate) fn enforced(mut self, layers: &[Layer]) -> Self {
        let missing = |name| layers.iter().any(|layer| layer.name == name && !layer.active);
        if missing(LANDLOCK) {
            self.writable = vec![PathBuf::from("/")];
        }
        if missing(NETWORK_LAYER) {
            self.network = Network::Open;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_is_available_by_host_or_brief() {
        for (host, tools, network) in [
            (false, &[][..], Network::Off),
            (false, &["read", "run", "net"], Network::Off),
            (false, &["network"], Network::Open),
            (false, &["*"], Network::Open),
            (true, &[], Network::Open),
        ] {
            let containment = Containment { network: host, ..Containment::default() };
            let tools: tetrarch_core::brief::Tools = tools.iter().copied().collect();
            let allowed = Network::of(&tools).unwrap();
            let sandbox = containment.sandbox(allowed, Path::new("/w"), "/tmp".into(), Vec::new());
            assert_eq!(sandbox.network, network, "{host} {tools:?}");
        }
    }

    #[test]
    fn only_named_paths_are_writable() {
        let writable = vec![PathBuf::from("/cache")];
        let containment = Containment { writable, required: true, ..Containment::default() };
        let places = vec![PathBuf::from("/home")];
        let sandbox = containment.sandbox(Network::Off, Path::new("/w"), "/t".into(), places);
        let expected = ["/w", "/t", "/home", "/cache"].map(PathBuf::from);
        assert_eq!(sandbox.writable, expected);
        assert!(sandbox.required);
    }

    #[test]
    fn missing_layer_restricts_nothing() {
        let containment = Containment::default();
        let sandbox = containment.sandbox(Network::Off, Path::new("/w"), "/t".into(), vec![]);
        let missing = |name| Layer::new(name, Err("the kernel has none".to_owned()));
        let held = |name| Layer::new(name, Ok(String::new()));
        let all = sandbox.clone().enforced(&[held("landlock"), held("network")]);
        assert_eq!(all, sandbox);
        let no_files = sandbox.clone().enforced(&[missing("landlock"), held("network")]);
        assert_eq!((no_files.network, no_files.writable), (Network::Off, vec![PathBuf::from("/")]));
        let open = sandbox.enforced(&[held("landlock"), missing("network")]);
        assert_eq!(open.network, Network::Open);
    }
}
