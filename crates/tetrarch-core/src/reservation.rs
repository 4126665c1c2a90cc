//! File reservations (spec 05): who may change which paths while somebody else must not. Two
//! exclusive ones of overlapping globs conflict, an exclusive with a shared one too.

mod literal;

use crate::id::{AgentId, ProjectName, ReservationId, SessionId};
use crate::time::BusTime;
use crate::words::parsed_words;

parsed_words! {
    /// Whether others may hold the same paths.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Mode {
        /// Nobody else.
        Exclusive = "exclusive",
        /// Others who share.
        Shared = "shared",
    }
}

/// Paths that a session holds in a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its id.
    pub id: ReservationId,
    /// The project whose paths they are.
    pub project: ProjectName,
    /// Its number in the project: a later one is higher, so that what an earlier one wrote can be
    /// told from it.
    pub fencing: u64,
    /// Who holds it.
    pub agent: AgentId,
    /// In which session; it ends with that.
    pub session: SessionId,
    /// The session's epoch.
    pub epoch: u64,
    /// Globs, relative to the project's root.
    pub paths: Vec<String>,
    /// Whether others may hold them too.
    pub mode: Mode,
    /// When it ends at the latest.
    pub until: BusTime,
    /// What for.
    pub reason: String,
}

/// What a session wants to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'w> {
    /// Who.
    pub agent: &'w AgentId,
    /// Its session's epoch.
    pub epoch: u64,
    /// Globs, relative to the project's root.
    pub paths: &'w [String],
    /// Whether others may hold them too.
    pub mode: Mode,
}

impl Reservation {
    /// Whether what is wanted cannot be given beside it, compared in at most so many more steps. One that
    /// has run out stands in nobody's way; an agent's own only in that of its earlier sessions.
    fn conflicts(&self, wanted: Wanted<'_>, now: BusTime, steps: &mut usize) -> bool {
        if !self.stands_against((wanted.agent, wanted.epoch), now) {
            return false;
        }
        if self.agent == *wanted.agent {
            return true;
        }
        let shared = self.mode == Mode::Shared && wanted.mode == Mode::Shared;
        let mut overlaps =
            |held: &String| wanted.paths.iter().any(|path| overlap(held, path, steps));
        !shared && self.paths.iter().any(&mut overlaps)
    }
}

impl Reservation {
    /// Whether it counts against a session: not once it has run out, and of an agent's own only
    /// against its earlier ones.
    fn stands_against(&self, who: (&AgentId, u64), now: BusTime) -> bool {
        let (agent, epoch) = who;
        self.until > now && (self.agent != *agent || self.epoch > epoch)
    }

    /// Whether a session may not change a file while it stands. A file's name is no glob.
    fn bars(&self, who: (&AgentId, u64), file: &str, now: BusTime) -> bool {
        self.stands_against(who, now)
            && (self.agent == *who.0 || self.paths.iter().any(|held| literal::touches(held, file)))
    }
}

/// Decides on what is wanted, beside everything that is held in the project: the fencing number that
/// the new reservation gets.
///
/// # Errors
/// What stands in the way, in the order given.
pub fn reserve<'r>(
    held: impl IntoIterator<Item = &'r Reservation>,
    wanted: Wanted<'_>,
    now: BusTime,
) -> Result<u64, Vec<&'r Reservation>> {
    let (mut last, mut conflicts, mut steps) = (0, Vec::new(), STEPS_MAX);
    for reservation in held {
        last = last.max(reservation.fencing);
        if reservation.conflicts(wanted, now, &mut steps) {
            conflicts.push(reservation);
        }
    }
    if conflicts.is_empty() { Ok(last + 1) } else { Err(conflicts) }
}

/// A change that may not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach<'b> {
    /// The path is in none of the work's own.
    OutOfScope {
        /// Which.
        path: &'b str,
    },
    /// Somebody else holds the path.
    Reserved {
        /// Which.
        path: &'b str,
        /// As what.
        by: &'b Reservation,
    },
}

/// Whether a session may change these files (spec 05, Reservations): each is within the work's
/// `scope`, all of the project when there is none, and nobody else holds it. What others share is
/// theirs to read, and nobody else's to change. `held` is what stands in the project.
///
/// # Errors
/// The first breach, in the order of the paths.
pub fn guard<'b>(
    held: impl IntoIterator<Item = &'b Reservation> + Clone,
    who: (&AgentId, u64),
    scope: &[String],
    paths: &'b [String],
    now: BusTime,
) -> Result<(), Breach<'b>> {
    for path in paths {
        if !scope.is_empty() && !scope.iter().any(|glob| literal::covers(glob, path)) {
            return Err(Breach::OutOfScope { path });
        }
        if let Some(by) = held.clone().into_iter().find(|held| held.bars(who, path, now)) {
            return Err(Breach::Reserved { path, by });
        }
    }
    Ok(())
}

/// Steps in which one wish is compared with all that is held, some tens of milliseconds. What is left then is
/// taken to overlap: globs that are made to be slow are refused, and hold up nobody.
const STEPS_MAX: usize = 10_000_000;

/// Whether some path fits both globs. `?` is one character, `*` any within one segment, `**` any
/// number of segments, `{a,b}` either; of `[..]` it is only believed to be some character, so two
/// globs may be taken to overlap that do not, never the other way round. A glob holds what is
/// below what it names. With too few steps left for it, they are taken to.
fn overlap(one: &str, other: &str, steps: &mut usize) -> bool {
    let (ones, others) = (alternatives(one), alternatives(other));
    let characters = |globs: &[String]| globs.iter().map(|it| it.len() + 1).sum::<usize>();
    let Some(left) = steps.checked_sub(characters(&ones) * characters(&others)) else {
        return true;
    };
    *steps = left;
    ones.iter().any(|one| others.iter().any(|other| segments_overlap(&split(one), &split(other))))
}

/// Alternatives that one glob is expanded to at most; with more it is taken to fit anything.
const ALTERNATIVES_MAX: usize = 64;

/// A glob without braces for each of its alternatives.
fn alternatives(glob: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![glob.to_owned()];
    while let Some(glob) = open.pop() {
        if done.len() + open.len() >= ALTERNATIVES_MAX {
            return vec!["**".to_owned()];
        }
        match innermost(&glob) {
            Some((from, to)) => {
                let (before, after) = (&glob[..from], &glob[to + 1..]);
                let choices = glob[from + 1..to].split(',');
                open.extend(choices.map(|choice| format!("{before}{choice}{after}")));
            }
            None => done.push(glob),
        }
    }
    done
}

/// Where the first brace that closes was opened, and where it closes.
fn innermost(glob: &str) -> Option<(usize, usize)> {
    let to = glob.find('}')?;
    let from = glob[..to].rfind('{')?;
    Some((from, to))
}

fn split(glob: &str) -> Vec<&str> {
    glob.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect()
}

/// Whether some path fits both, or fits one of them as far as the other goes: a directory holds what
/// is below it.
fn segments_overlap(one: &[&str], other: &[&str]) -> bool {
    let fit = |one: &&str, other: &&str| {
        let reached =
            meet(&pieces(one), &pieces(other), |piece| *piece == Piece::Many, Piece::fits);
        reached.last().is_some_and(|row| row.last() == Some(&true))
    };
    let reached = meet(one, other, |segment| *segment == "**", fit);
    let through_one = reached.last().is_some_and(|row| row.contains(&true));
    through_one || reached.iter().any(|row| row.last() == Some(&true))
}

/// Which places of two patterns can be reached together, from the beginning of both. What is `many`
/// stands for any number of whatever the other has.
fn meet<T>(
    one: &[T],
    other: &[T],
    many: impl Fn(&T) -> bool,
    fit: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<bool>> {
    let mut reached = vec![vec![false; other.len() + 1]; one.len() + 1];
    reached[0][0] = true;
    for at in 0..=one.len() {
        for to in 0..=other.len() {
            if !reached[at][to] {
                continue;
            }
            let (left, right) = (one.get(at), other.get(to));
            let left_many = left.is_some_and(&many);
            let right_many = right.is_some_and(&many);
            if left.is_some() && (left_many || right_many) {
                reached[at + 1][to] = true;
            }
            if right.is_some() && (left_many || right_many) {
                reached[at][to + 1] = true;
            }
            if let (Some(left), Some(right), false, false) = (left, right, left_many, right_many) {
                reached[at + 1][to + 1] |= fit(left, right);
            }
        }
    }
    reached
}

/// One piece of a segment's pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// This character.
    One(char),
    /// Some character.
    Any,
    /// Any characters.
    Many,
}

impl Piece {
    /// Whether one character can be both.
    fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(a), Self::One(b)) => a == b,
            (Self::Any | Self::Many, Self::One(_) | Self::Any | Self::Many)
            | (Self::One(_), Self::Any | Self::Many) => true,
        }
    }
}

fn pieces(segment: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = segment.chars();
    while let Some(next) = rest.next() {
        pieces.push(match next {
            '*' => Piece::Many,
            '?' => Piece::Any,
            '[' => match rest.as_str().find(']') {
                Some(end) => {
                    rest = rest.as_str()[end + 1..].chars();
                    Piece::Any
                }
                None => Piece::One('['),
            },
            '\\' => Piece::One(rest.next().unwrap_or('\\')),
            other => Piece::One(other),
        });
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::Ulid;

    #[test]
    fn globs_overlap_when_some_path_matches_both() {
        for (one, other) in [
            ("src/a.rs", "src/a.rs"),
            ("src/*.rs", "src/a.rs"),
            ("src/*.rs", "src/a*"),
            ("src/**", "src/deep/down/a.rs"),
            ("**/*.rs", "src/a.rs"),
            ("**/a.rs", "**/src/*"),
            ("src", "src/a.rs"),
            ("src/", "./src/a.rs"),
            ("src/?.rs", "src/[ab].rs"),
            ("src/{a,b}.rs", "src/b.rs"),
            ("{src,tests}/{a,b}.rs", "tests/a.rs"),
            ("a*c", "*b*"),
            ("**", "anything"),
            ("", "anything"),
            ("a\\*b", "a?b"),
        ] {
            assert!(overlaps(one, other) && overlaps(other, one), "{one} and {other}");
        }
        for (one, other) in [
            ("src/a.rs", "src/b.rs"),
            ("src/*.rs", "src/a.py"),
            ("src/*", "tests/*"),
            ("src/**", "source/a"),
            ("src/?.rs", "src/ab.rs"),
            ("src/{a,b}.rs", "src/c.rs"),
            ("a*c", "*b"),
            ("a\\*b", "acb"),
            ("src/*/a", "src/x/b"),
        ] {
            assert!(!overlaps(one, other) && !overlaps(other, one), "{one} and {other}");
        }
    }

    fn overlaps(one: &str, other: &str) -> bool {
        overlap(one, other, &mut STEPS_MAX.clone())
    }

    /// Each pair of the slow ones takes two thousand million steps.
    #[test]
    fn globs_beyond_the_steps_of_a_wish_are_taken_to_overlap() {
        let slow = |end: char| {
            let choices: Vec<String> = (0..60).map(|at| format!("{at}")).collect();
            format!("*{{{}}}{}{end}", choices.join(","), "*a".repeat(400))
        };
        let (agent, paths) = (AgentId::Worker(Ulid(9)), [slow('x'), slow('z')]);
        let wanted = Wanted { agent: &agent, epoch: 1, paths: &paths, mode: Mode::Exclusive };
        let standing = [held(1, Mode::Exclusive, "docs"), held(2, Mode::Exclusive, &slow('y'))];
        let in_the_way = reserve(&standing, wanted, BusTime(0)).unwrap_err();
        assert_eq!(in_the_way, [&standing[1]], "what is cheap is compared");
    }

    #[test]
    fn hostile_glob_is_matched_in_bounded_time() {
        let (one, other) = ("**/a/".repeat(200) + "x", "**/b/".repeat(200) + "y");
        assert!(overlaps(&one, &other), "the one may be below the other");
        let (one, other) = ("*a".repeat(200) + "x", "*b".repeat(200) + "y");
        assert!(!overlaps(&one, &other));
    }

    fn held(number: u128, mode: Mode, path: &str) -> Reservation {
        Reservation {
            id: ReservationId(Ulid(number)),
            project: ProjectName::new("demo").unwrap(),
            fencing: u64::try_from(number).unwrap(),
            agent: AgentId::Worker(Ulid(number)),
            session: SessionId(Ulid(number)),
            epoch: 2,
            paths: vec![path.to_owned()],
            mode,
            until: BusTime(1_000),
            reason: String::new(),
        }
    }

    #[test]
    fn only_two_shared_reservations_may_overlap() {
        use Mode::{Exclusive, Shared};
        let other = AgentId::Worker(Ulid(9));
        let paths = ["docs/a".to_owned(), "src/a".to_owned()];
        for (mode, wanted, conflict) in [
            (Exclusive, Exclusive, true),
            (Exclusive, Shared, true),
            (Shared, Exclusive, true),
            (Shared, Shared, false),
        ] {
            let held = held(1, mode, "src/**");
            let wants = |paths| Wanted { agent: &other, epoch: 1, paths, mode: wanted };
            assert_eq!(
                held.conflicts(wants(&paths), BusTime(999), &mut STEPS_MAX.clone()),
                conflict,
                "{mode:?} {wanted:?}"
            );
            assert!(
                !held.conflicts(wants(&paths), BusTime(1_000), &mut STEPS_MAX.clone()),
                "it has run out"
            );
            assert!(!held.conflicts(wants(&paths[..1]), BusTime(0), &mut STEPS_MAX.clone()));
        }
    }

    #[test]
    fn own_reservation_conflicts_only_across_sessions() {
        let held = held(1, Mode::Exclusive, "src/**");
        let (agent, paths) = (held.agent.clone(), ["src/a".to_owned()]);
        for (epoch, conflict) in [(1, true), (2, false), (3, false)] {
            let wanted = Wanted { agent: &agent, epoch, paths: &paths, mode: Mode::Exclusive };
            assert_eq!(
                held.conflicts(wanted, BusTime(0), &mut STEPS_MAX.clone()),
                conflict,
                "{epoch}"
            );
        }
    }

    #[test]
    fn tokens_grow_and_holders_are_named() {
        let all = [held(4, Mode::Exclusive, "a"), held(7, Mode::Exclusive, "b/**")];
        let other = AgentId::Worker(Ulid(9));
        let ask = |paths: &[String]| {
            let wanted = Wanted { agent: &other, epoch: 1, paths, mode: Mode::Shared };
            reserve(&all, wanted, BusTime(0)).map_err(|held| held.len())
        };
        assert_eq!(ask(&["c".to_owned()]), Ok(8));
        assert_eq!(ask(&["a".to_owned()]), Err(1));
        assert_eq!(ask(&["**".to_owned()]), Err(2));
    }

    #[test]
    fn change_stays_in_scope_and_outside_other_reservations() {
        let all = [held(1, Mode::Exclusive, "src/a/**"), held(2, Mode::Shared, "docs/**")];
        let words =
            |paths: &[&str]| -> Vec<String> { paths.iter().map(|&path| path.to_owned()).collect() };
        let (one, other) = (all[0].agent.clone(), AgentId::Worker(Ulid(9)));
        for (who, epoch, scope, path, breach) in [
            (&other, 1, &["src/**"][..], "src/b", None),
            (&other, 1, &["src/**"][..], "lib/b", Some("scope")),
            (&other, 1, &[][..], "lib/b", None),
            (&other, 1, &["src/**"][..], "src/a/x", Some("held")),
            (&other, 1, &[][..], "docs/x", Some("held")),
            (&one, 2, &[][..], "src/a/x", None),
            (&one, 1, &[][..], "src/a/x", Some("held")),
        ] {
            let (scope, paths) = (words(scope), words(&[path]));
            let found = guard(&all, (who, epoch), &scope, &paths, BusTime(999));
            let found = found.err().map(|breach| match breach {
                Breach::OutOfScope { .. } => "scope",
                Breach::Reserved { .. } => "held",
            });
            assert_eq!(found, breach, "{who} {epoch} {path}");
        }
        let late = guard(&all, (&other, 1), &[], &words(&["docs/x"]), BusTime(1_000)).is_ok();
        assert!(late, "they have run out");
    }

    proptest! {
        /// Whatever path fits a glob, the path itself overlaps with it; and no glob makes it slow.
        #[test]
        fn path_conflicts_with_a_matching_glob(
            path in prop::collection::vec("[ab]{1,4}", 1..4), stars in any::<u64>(),
        ) {
            let mut glob = Vec::new();
            for (place, segment) in path.iter().enumerate() {
                let bits = stars >> (place * 8);
                match bits % 4 {
                    0 => glob.push("**".to_owned()),
                    1 => glob.push(format!("{}*", &segment[..1])),
                    2 => glob.push("?".repeat(segment.len())),
                    _ => glob.push(segment.clone()),
                }
            }
            prop_assert!(overlaps(&glob.join("/"), &path.join("/")));
        }

        #[test]
        fn any_glob_is_accepted_and_overlap_is_symmetric(one in "[a*?{},/\\[\\]\\\\]{0,40}", other in "[a*?{},/\\[\\]\\\\]{0,40}") {
            prop_assert_eq!(overlaps(&one, &other), overlaps(&other, &one));
        }
    }
}
