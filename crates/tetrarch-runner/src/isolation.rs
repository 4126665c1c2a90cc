//! Which layers of containment this machine offers, for `doctor` and for the run's journal
//! (spec 06, Runners; spec 09, On the host). Looks and says; contains nothing itself.

use std::fs;
use std::path::Path;

use crate::cgroup::Cgroups;

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its name.
    pub name: &'static str,
    /// Whether runs are contained by it.
    pub active: bool,
    /// What it does here, or why it is missing and what to do.
    pub words: String,
}

/// Every layer, strongest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolation {
    /// The layers.
    pub layers: Vec<Layer>,
}

/// Looks what this machine offers. `cgroup_parent` as in [`crate::RunnerConfig`]. Blocks for a
/// moment; makes a control group and removes it again.
#[must_use]
pub fn probe(cgroup_parent: Option<&Path>) -> Isolation {
    let layers = vec![cgroup(cgroup_parent), descendants(), group(), landlock()];
    Isolation { layers }
}

fn cgroup(parent: Option<&Path>) -> Layer {
    let name = "cgroup v2";
    match Cgroups::prepare_trial(parent) {
        Ok(cgroups) => {
            let how = if cgroups.kills_at_once() {
                "killed at once"
            } else {
                "killed one by one, the kernel is older than 5.14"
            };
            let words = format!("one group for each run below {}, {how}", cgroups.home().display());
            cgroups.remove();
            Layer { name, active: true, words }
        }
        Err(cause) => Layer { name, active: false, words: cause.to_string() },
    }
}

fn descendants() -> Layer {
    let readable = fs::read_to_string("/proc/self/environ").is_ok();
    let words = if readable {
        "orphans come to the host; what is left of a run is found by its environment and descent"
    } else {
        "/proc cannot be read, so only the process group is killed; mount /proc"
    };
    Layer { name: "subreaper and sweep", active: readable, words: words.to_owned() }
}

fn group() -> Layer {
    let words = "every program leads a process group of its own".to_owned();
    Layer { name: "process group", active: true, words }
}

fn landlock() -> Layer {
    let known = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let words = if known.split(',').any(|module| module.trim() == "landlock") {
        "the kernel has it, but runs are not confined by it: they see the host's files"
    } else {
        "not known to be there; runs see the host's files, so give hosts a user or container of their own"
    };
    Layer { name: "landlock", active: false, words: words.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_cgroup_is_said_with_its_reason() {
        let place = tempfile::tempdir().unwrap();
        let isolation = probe(Some(place.path()));
        let cgroup = &isolation.layers[0];
        assert!(!cgroup.active);
        assert!(cgroup.words.contains("is no cgroup v2 directory"), "{}", cgroup.words);
        assert!(isolation.layers.iter().any(|layer| layer.active && layer.name == "process group"));
    }
}
