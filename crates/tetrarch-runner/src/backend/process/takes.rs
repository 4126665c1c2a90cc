//! Which verbs a program takes, and what becomes of those it is asked for (docs/stdio-protocol.md,
//! Verbs): a pure machine, told what time it is. A program says itself what it takes; what it does
//! not take is refused, never lost. Any program can be made to stand still.

use std::collections::BTreeSet;
use std::time::Duration;

use tetrarch_core::id::RequestId;
use tetrarch_core::verb::{Command, Verb};
use tokio::time::Instant;

/// How long after its start a program may take to say what it takes; what comes before it does
/// waits so long.
const DECLARED_WITHIN: Duration = Duration::from_secs(5);

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VerbAction {
    /// The program is told.
    Tell(Command),
    /// All its processes are frozen.
    Freeze(RequestId),
    /// They run again.
    Thaw(RequestId),
    /// Nothing.
    Refuse(RequestId, String),
}

/// What a program takes.
#[derive(Debug)]
pub(super) struct Takes {
    declared: Option<BTreeSet<Verb>>,
    until: Instant,
    waiting: Vec<Command>,
    frozen: bool,
}

impl Takes {
    /// A program that starts now.
    pub(super) fn new(now: Instant) -> Self {
        Self { declared: None, until: now + DECLARED_WITHIN, waiting: Vec::new(), frozen: false }
    }

    /// It says what it takes; the last word counts.
    pub(super) fn declare(&mut self, now: Instant, verbs: BTreeSet<Verb>) -> Vec<VerbAction> {
        self.declared = Some(verbs);
        self.settle(now)
    }

    /// It is asked for a verb.
    pub(super) fn ask(&mut self, now: Instant, command: Command) -> Vec<VerbAction> {
        self.waiting.push(command);
        self.settle(now)
    }

    /// What has waited for long enough.
    pub(super) fn due(&mut self, now: Instant) -> Vec<VerbAction> {
        self.settle(now)
    }

    /// When to look again.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.until)
    }

    /// Its processes run: they were let go, or could not be frozen.
    pub(super) fn runs(&mut self) {
        self.frozen = false;
    }

    /// In the order in which it was asked; a pause does not wait behind a steer that does.
    fn settle(&mut self, now: Instant) -> Vec<VerbAction> {
        let mut deeds = Vec::new();
        let mut waiting = Vec::new();
        for command in std::mem::take(&mut self.waiting) {
            match self.deed(now, &command) {
                Some(deed) => deeds.push(deed),
                None => waiting.push(command),
            }
        }
        self.waiting = waiting;
        deeds
    }

    fn deed(&mut self, now: Instant, command: &Command) -> Option<VerbAction> {
        let (id, verb) = (command.id, command.wanted.verb());
        let holds = self.declared.as_ref().is_some_and(|verbs| verbs.contains(&Verb::Pause));
        Some(match verb {
            Verb::Resume if std::mem::take(&mut self.frozen) => VerbAction::Thaw(id),
            Verb::Pause | Verb::Resume if holds => VerbAction::Tell(command.clone()),
            Verb::Pause => {
                self.frozen = true;
                VerbAction::Freeze(id)
            }
            Verb::Resume => VerbAction::Refuse(id, "it does not stop".to_owned()),
            Verb::Steer | Verb::Interrupt => match &self.declared {
                Some(verbs) if verbs.contains(&verb) => VerbAction::Tell(command.clone()),
                Some(_) => VerbAction::Refuse(
                    id,
                    format!("its program does not support {}", verb.as_str()),
                ),
                None if now < self.until => return None,
                None => VerbAction::Refuse(
                    id,
                    format!("its program does not announce support for {}", verb.as_str()),
                ),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetrarch_core::verb::Wanted;
    use ulid::Ulid;

    fn id(number: u128) -> RequestId {
        RequestId(Ulid::from_parts(1, number))
    }

    fn command(number: u128, wanted: Wanted) -> Command {
        Command { id: id(number), by: "human:ada".parse().unwrap(), wanted }
    }

    fn steer(number: u128) -> Command {
        command(number, Wanted::Steer { text: "left".to_owned() })
    }

    #[test]
    fn accepted_verbs_are_passed_on_and_others_refused() {
        let now = Instant::now();
        let mut takes = Takes::new(now);
        assert_eq!(takes.declare(now, BTreeSet::from([Verb::Steer])), []);
        assert_eq!(takes.ask(now, steer(1)), [VerbAction::Tell(steer(1))]);
        let interrupt = command(2, Wanted::Interrupt { reason: String::new() });
        let deeds = takes.ask(now, interrupt);
        assert!(
            matches!(deeds.as_slice(), [VerbAction::Refuse(it, _)] if *it == id(2)),
            "{deeds:?}"
        );
    }

    #[test]
    fn verb_before_the_declaration_waits_until_it_or_its_timeout() {
        let now = Instant::now();
        let mut takes = Takes::new(now);
        assert_eq!((takes.ask(now, steer(1)), takes.next_deadline()), (vec![], Some(takes.until)));
        let deeds = takes.declare(now, BTreeSet::from([Verb::Steer]));
        assert_eq!((deeds, takes.next_deadline()), (vec![VerbAction::Tell(steer(1))], None));

        let mut takes = Takes::new(now);
        takes.ask(now, steer(1));
        let end = now + DECLARED_WITHIN;
        assert_eq!(takes.due(end - Duration::from_millis(1)), []);
        assert!(matches!(takes.due(end).as_slice(), [VerbAction::Refuse(..)]));
        assert!(matches!(takes.ask(end, steer(2)).as_slice(), [VerbAction::Refuse(..)]));
    }

    #[test]
    fn program_without_pause_support_is_frozen_and_thawed() {
        let now = Instant::now();
        for declared in [None, Some(BTreeSet::from([Verb::Steer]))] {
            let mut takes = Takes::new(now);
            if let Some(verbs) = declared {
                takes.declare(now, verbs);
            }
            assert_eq!(takes.ask(now, command(1, Wanted::Pause)), [VerbAction::Freeze(id(1))]);
            assert_eq!(takes.ask(now, command(2, Wanted::Resume)), [VerbAction::Thaw(id(2))]);
            let again = takes.ask(now, command(3, Wanted::Resume));
            assert!(matches!(again.as_slice(), [VerbAction::Refuse(..)]));
        }
        let mut holds = Takes::new(now);
        holds.declare(now, BTreeSet::from([Verb::Pause]));
        for wanted in [Wanted::Pause, Wanted::Resume] {
            let command = command(1, wanted);
            assert_eq!(holds.ask(now, command.clone()), [VerbAction::Tell(command)]);
        }
    }
}
