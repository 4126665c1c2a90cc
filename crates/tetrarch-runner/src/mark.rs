//! By which variables in their environment the processes of a run and of a host's life are known
//! (spec 04, Hosts; spec 09, On the host). Looks for no process; that is in `sweep`.

use std::fmt;
use std::str::FromStr;

use tetrarch_core::id::{HostName, RunId, Ulid};

/// The variable that marks every process of a run.
pub(crate) const RUN_VARIABLE: &str = "TETRARCH_RUN";
/// The variable that marks every process of one life of a host.
pub(crate) const LIFE_VARIABLE: &str = "TETRARCH_HOST_LIFE";
/// The variable that marks every process of one command that a run's tools started.
pub(crate) const CALL_VARIABLE: &str = "TETRARCH_CALL";

/// One life of a host: from the start of its process to the end of it (spec 04, Hosts).
///
/// Written as `<host>.<instance>.<life>`. The instance tells hosts of one name apart: two
/// installations on one machine both call theirs after the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLife {
    owner: String,
    life: Ulid,
}

/// A text that is no life of a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the life of a host; expected <host>.<instance>.<life>")]
pub struct NoHostLife(String);

impl HostLife {
    /// The life of this host, kept apart by `instance`: what is the same in every life of the
    /// host and of no other host of the machine.
    #[must_use]
    pub fn new(host: &HostName, instance: &str, life: Ulid) -> Self {
        Self { owner: format!("{host}.{instance}"), life }
    }

    fn is_of_same_host(&self, other: &Self) -> bool {
        self.owner == other.owner
    }
}

impl fmt::Display for HostLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.owner, self.life)
    }
}

impl FromStr for HostLife {
    type Err = NoHostLife;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (owner, life) = text.rsplit_once('.')?;
            let (host, instance) = owner.split_once('.')?;
            let whole = !host.is_empty() && !instance.is_empty();
            whole.then_some(Self { owner: owner.to_owned(), life: life.parse().ok()? })
        };
        read().ok_or_else(|| NoHostLife(text.to_owned()))
    }
}

/// What processes are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProcessMark {
    /// Those of a run.
    Run(RunId),
    /// Those of one command of a run: nobody else's on this machine has the same text.
    Call(String),
    /// Those of a life of a host.
    Life(HostLife),
    /// Those of every other life of the same host.
    OtherLives(HostLife),
}

impl ProcessMark {
    /// The variable that carries it.
    pub(crate) fn variable(&self) -> &'static str {
        match self {
            Self::Run(_) => RUN_VARIABLE,
            Self::Call(_) => CALL_VARIABLE,
            Self::Life(_) | Self::OtherLives(_) => LIFE_VARIABLE,
        }
    }

    /// Whether a value of its variable is this mark.
    pub(crate) fn fits(&self, value: &str) -> bool {
        match self {
            Self::Run(run) => value == run.to_string(),
            Self::Call(call) => value == call,
            Self::Life(life) => value == life.to_string(),
            Self::OtherLives(present) => value
                .parse::<HostLife>()
                .is_ok_and(|life| life.is_of_same_host(present) && life != *present),
        }
    }
}

impl fmt::Display for ProcessMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => write!(f, "run {run}"),
            Self::Call(call) => write!(f, "command {call}"),
            Self::Life(life) => write!(f, "life {life}"),
            Self::OtherLives(present) => write!(f, "lives before {present}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(host: &str, instance: &str, number: u128) -> HostLife {
        HostLife::new(&HostName::new(host).unwrap(), instance, Ulid::from_parts(1, number))
    }

    #[test]
    fn host_life_round_trips() {
        let one = life("build-2", "01H", 7);
        assert_eq!(one.to_string().parse(), Ok(one));
        for text in ["", "build-2", "build-2.01H", "build-2..", ".01H.x", "a.b.c"] {
            assert!(text.parse::<HostLife>().is_err(), "{text}");
        }
        assert!(format!("build-2.{}", Ulid::from_parts(1, 1)).parse::<HostLife>().is_err());
    }

    #[test]
    fn other_lives_match_the_same_host_and_instance() {
        let mark = ProcessMark::OtherLives(life("a", "i", 2));
        assert!(mark.fits(&life("a", "i", 1).to_string()));
        for other in [life("a", "i", 2), life("a", "j", 1), life("b", "i", 1)] {
            assert!(!mark.fits(&other.to_string()), "{other}");
        }
        assert!(!mark.fits("a.i.x"));
        assert!(ProcessMark::Life(life("a", "i", 2)).fits(&life("a", "i", 2).to_string()));
        assert!(!ProcessMark::Life(life("a", "i", 2)).fits(&life("a", "i", 1).to_string()));
    }
}
