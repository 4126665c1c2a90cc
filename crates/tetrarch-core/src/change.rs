//! Changes that runs make in worktrees of their own, and the gate before the branch they are for
//! (spec 06, Worktrees and the apply gate; spec 09, Human gate): what is proposed, approved and
//! applied, and what an approval is bound to. Deciding is the owner's, merging the host's.

mod approving;

use std::fmt::Write as _;

use crate::id::{
    AgentId, AssignmentId, ChangeId, EpicId, HostName, NodeId, Principal, ProjectName, RunId,
    sha256_hex,
};
use crate::limits::{
    CHANGE_FILES_BYTES_MAX, CHANGE_FILES_MAX, REFUSALS_MAX, REFUSALS_WITHIN, TEXT_BYTES_MAX,
};
use crate::time::BusTime;
use crate::words::words;

pub use approving::{Approval, Approvals, NotApproved};

/// What is to be done, in all that decides what comes of it. An approval is for exactly this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// The git directory that the worktree shares with its repository, as the host sees it.
    pub repository: String,
    /// The branch it is for, `refs/heads/<name>`.
    pub target: String,
    /// Where the work left that branch: a commit.
    pub base: String,
    /// What is to be merged: a commit.
    pub head: String,
    /// Lower-case hexadecimal sha256 of the diff between the two, which is an artifact.
    pub diff: String,
    /// Every file that differs, relative to the repository's top.
    pub files: Vec<String>,
}

impl Action {
    /// What the digest stands for: each field with its length, so that no two actions read alike.
    fn canonical(&self) -> String {
        let mut text = "tetrarch apply 1\n".to_owned();
        let fields = [&self.repository, &self.target, &self.base, &self.head, &self.diff];
        for field in fields.into_iter().chain(&self.files) {
            // Writing to a text cannot fail.
            let _written = writeln!(text, "{}:{field}", field.len());
        }
        text
    }

    /// Lower-case hexadecimal sha256 by which it is approved.
    #[must_use]
    pub fn digest(&self) -> String {
        sha256_hex(self.canonical().as_bytes())
    }

    /// What is wrong with it, in words; none when it can be looked at.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let commit = |text: &str| matches!(text.len(), 40 | 64) && hex(text);
        if !self.repository.starts_with('/') || self.repository.len() > TEXT_BYTES_MAX {
            return Some(format!("repository: {:?} is not an absolute path", self.repository));
        }
        let branch = self.target.strip_prefix("refs/heads/").is_some_and(|name| !name.is_empty());
        if !branch || self.target.len() > TEXT_BYTES_MAX {
            return Some(format!("target: {:?} is not refs/heads/<name>", self.target));
        }
        if let Some(wrong) = [&self.base, &self.head].into_iter().find(|id| !commit(id)) {
            return Some(format!("{wrong:?} is not a commit id"));
        }
        if self.diff.len() != 64 || !hex(&self.diff) {
            return Some(format!("diff: {:?} is not a sha256", self.diff));
        }
        let size: usize = self.files.iter().map(String::len).sum();
        if self.files.len() > CHANGE_FILES_MAX || size > CHANGE_FILES_BYTES_MAX {
            let count = self.files.len();
            return Some(format!(
                "{count} files differ, with {size} bytes of names; a change has at most \
                 {CHANGE_FILES_MAX} files and {CHANGE_FILES_BYTES_MAX} bytes of names: split the work"
            ));
        }
        let outside = |file: &&String| {
            file.is_empty() || file.starts_with('/') || file.split('/').any(|part| part == "..")
        };
        self.files.iter().find(outside).map(|file| format!("{file:?} is not within the repository"))
    }
}

/// What a run made, as its host found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// What applying it means.
    pub action: Action,
    /// The branch it is on, `refs/heads/tetrarch/<run>`.
    pub branch: String,
    /// Lines that are new.
    pub additions: u64,
    /// Lines that are gone.
    pub deletions: u64,
    /// Size of the diff, in bytes.
    pub size: u64,
    /// The run did not succeed: this is what there was at its end.
    pub salvaged: bool,
}

words! {
    /// Where a change stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ChangeStatus {
        /// Nobody has decided.
        Proposed = "proposed",
        /// It could not be merged as things stood; it may be approved again.
        Conflicted = "conflicted",
        /// It may be applied, once.
        Approved = "approved",
        /// Its host was ordered to merge it.
        Applying = "applying",
        /// It is in the branch it was for.
        Applied = "applied",
        /// Somebody said no.
        Denied = "denied",
        /// It breaks a rule, or is not what was approved.
        Refused = "refused",
        /// Nobody decided in time, or what was approved was not applied in time.
        Expired = "expired",
        /// A later change of the same work took its place.
        Superseded = "superseded",
    }
}

impl ChangeStatus {
    /// Whether nothing can happen to it any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Proposed | Self::Conflicted | Self::Approved | Self::Applying => false,
            Self::Applied | Self::Denied | Self::Refused | Self::Expired | Self::Superseded => true,
        }
    }

    /// Whether one may lead to the other.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Proposed | Self::Conflicted => matches!(
                next,
                Self::Approved | Self::Denied | Self::Refused | Self::Expired | Self::Superseded
            ),
            // Proposed again when the credential of one who approved is revoked.
            Self::Approved => matches!(
                next,
                Self::Applying
                    | Self::Proposed
                    | Self::Denied
                    | Self::Refused
                    | Self::Expired
                    | Self::Superseded
            ),
            // The last three only once the host's life is over that was ordered to merge it.
            Self::Applying => matches!(
                next,
                Self::Applied
                    | Self::Conflicted
                    | Self::Refused
                    | Self::Denied
                    | Self::Expired
                    | Self::Superseded
            ),
            Self::Applied | Self::Denied | Self::Refused | Self::Expired | Self::Superseded => {
                false
            }
        }
    }
}

/// A change that waits before the branch it is for, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its id.
    pub id: ChangeId,
    /// Whose work it is.
    pub agent: AgentId,
    /// The epoch of the session that made it.
    pub epoch: u64,
    /// The run that made it.
    pub run: RunId,
    /// The assignment it was made for.
    pub assignment: AssignmentId,
    /// The epic.
    pub epic: EpicId,
    /// The node.
    pub node: NodeId,
    /// The project whose files they are.
    pub project: Option<ProjectName>,
    /// Where the repository lies.
    pub host: HostName,
    /// Globs that the work may change; none: anything.
    pub scope: Vec<String>,
    /// What it is.
    pub made: Made,
    /// Who is asked: the goal's owner.
    pub to: Principal,
    /// Where it stands.
    pub status: ChangeStatus,
    /// Why it stands there.
    pub reason: String,
    /// Files that could not be merged.
    pub conflicts: Vec<String>,
    /// How many people have to approve it.
    pub needed: u32,
    /// Approvals before the latest one, each by somebody else; those that were used stay until the next.
    pub earlier: Vec<Approval>,
    /// The approval with which there were enough; the latest such.
    pub approval: Option<Approval>,
    /// The commit by which it came into its branch; empty before.
    pub commit: String,
    /// When it was proposed.
    pub proposed: BusTime,
    /// From when it can neither be approved nor applied.
    pub until: BusTime,
    /// Since when it stands there.
    pub since: BusTime,
}

/// The order to merge a change, to the orchestrator of the host where its repository lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyOrder {
    /// Which.
    pub change: ChangeId,
    /// The life of the host that is to merge it: a later one is ordered anew, or not at all.
    pub host_epoch: u64,
    /// The run that made it.
    pub run: RunId,
    /// What was approved.
    pub digest: String,
    /// What is to be done.
    pub action: Action,
    /// The branch it is on.
    pub branch: String,
    /// What the merge's commit says.
    pub message: String,
    /// What the merge's commit says of its time: the same however often it is made.
    pub at: BusTime,
}

/// What came of an order to merge a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// It is in the branch.
    Applied {
        /// By this commit.
        commit: String,
    },
    /// It is not, as things stand.
    Conflicted {
        /// The files that both sides changed.
        files: Vec<String>,
        /// Why, in words.
        reason: String,
    },
    /// It is not what was approved, or there is nothing to merge it into.
    Refused {
        /// Why, in words.
        reason: String,
    },
}

impl ApplyOutcome {
    /// The lower-case word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Applied { .. } => "applied",
            Self::Conflicted { .. } => "conflicted",
            Self::Refused { .. } => "refused",
        }
    }
}

/// Notes that work was refused by the guard, given when it was before, and whether people are to
/// look at the plan: at the third time within an hour (spec 05, Reservations), and then anew.
#[must_use]
pub fn refusals(earlier: &[BusTime], now: BusTime) -> (Vec<BusTime>, bool) {
    let recent = earlier.iter().copied().filter(|at| now - *at < REFUSALS_WITHIN);
    let mut times: Vec<BusTime> = recent.chain([now]).collect();
    let review = times.len() >= REFUSALS_MAX;
    if review {
        times.clear();
    }
    (times, review)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One thing that is otherwise.
    type Breaking = fn(&mut Action);

    fn action() -> Action {
        Action {
            repository: "/srv/repo/.git".to_owned(),
            target: "refs/heads/main".to_owned(),
            base: "a".repeat(40),
            head: "b".repeat(40),
            diff: "c".repeat(64),
            files: vec!["src/a".to_owned(), "src/b".to_owned()],
        }
    }

    #[test]
    fn every_field_is_part_of_the_digest() {
        let digest = action().digest();
        let changed: [Breaking; 7] = [
            |it| it.repository.push('x'),
            |it| it.target.push('x'),
            |it| it.base = "d".repeat(40),
            |it| it.head = "d".repeat(40),
            |it| it.diff = "d".repeat(64),
            |it| it.files = vec!["src/a\n5:src/b".to_owned()],
            |it| it.files.reverse(),
        ];
        for change in changed {
            let mut other = action();
            change(&mut other);
            assert_ne!(other.digest(), digest, "{other:?}");
        }
        assert_eq!(action().digest(), digest);
    }

    #[test]
    fn unviewable_change_is_reported() {
        assert_eq!(action().flaw(), None);
        let broken: [(Breaking, &str); 8] = [
            (|it| it.repository = "repo".to_owned(), "repository"),
            (|it| it.target = "main".to_owned(), "target"),
            (|it| it.target = "refs/heads/".to_owned(), "target"),
            (|it| it.base = "HEAD".to_owned(), "HEAD"),
            (|it| it.diff.truncate(63), "diff"),
            (|it| it.files = vec!["../x".to_owned()], "../x"),
            (|it| it.files = vec!["/x".to_owned()], "/x"),
            (|it| it.files = vec!["x".to_owned(); CHANGE_FILES_MAX + 1], "split"),
        ];
        for (breaking, word) in broken {
            let mut other = action();
            breaking(&mut other);
            let flaw = other.flaw().unwrap();
            assert!(flaw.contains(word), "{flaw}");
        }
        let mut most = action();
        most.files = vec!["x".to_owned(); CHANGE_FILES_MAX];
        assert_eq!(most.flaw(), None);
    }

    #[test]
    fn only_listed_transitions_are_legal() {
        use ChangeStatus::{
            Applied, Applying, Approved, Conflicted, Denied, Expired, Proposed, Refused, Superseded,
        };
        let legal = [
            (Proposed, Approved),
            (Proposed, Denied),
            (Proposed, Refused),
            (Proposed, Expired),
            (Proposed, Superseded),
            (Conflicted, Approved),
            (Conflicted, Denied),
            (Conflicted, Refused),
            (Conflicted, Expired),
            (Conflicted, Superseded),
            (Approved, Applying),
            (Approved, Proposed),
            (Approved, Denied),
            (Approved, Refused),
            (Approved, Expired),
            (Approved, Superseded),
            (Applying, Applied),
            (Applying, Conflicted),
            (Applying, Refused),
            (Applying, Denied),
            (Applying, Expired),
            (Applying, Superseded),
        ];
        for from in ChangeStatus::ALL {
            for to in ChangeStatus::ALL {
                assert_eq!(from.may_become(to), legal.contains(&(from, to)), "{from} -> {to}");
            }
            let moves = ChangeStatus::ALL.into_iter().any(|to| from.may_become(to));
            assert_eq!(from.is_terminal(), !moves, "{from}");
        }
    }

    #[test]
    fn third_refusal_within_an_hour_alerts_people() {
        let hour = REFUSALS_WITHIN.0;
        let at = |ms: u64| BusTime(10 * hour + ms);
        assert_eq!(refusals(&[], at(0)), (vec![at(0)], false));
        assert_eq!(refusals(&[at(0)], at(1)), (vec![at(0), at(1)], false));
        assert_eq!(refusals(&[at(0), at(1)], at(hour - 1)), (vec![], true));
        assert_eq!(refusals(&[at(0), at(1)], at(hour)), (vec![at(1), at(hour)], false));
        assert_eq!(refusals(&[at(0), at(1)], at(2 * hour)), (vec![at(2 * hour)], false));
    }

    proptest! {
        /// Whatever two lists of files there are, equal digests mean equal lists.
        #[test]
        fn different_file_lists_have_different_digests(
            one in proptest::collection::vec("[a0-9:\n]{0,6}", 0..4),
            other in proptest::collection::vec("[a0-9:\n]{0,6}", 0..4),
        ) {
            let with = |files: &[String]| Action { files: files.to_vec(), ..action() }.digest();
            prop_assert_eq!(with(&one) == with(&other), one == other);
        }
    }
}
