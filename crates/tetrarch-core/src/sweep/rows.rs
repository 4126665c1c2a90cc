//! Whether a living host still has the sessions that were placed on it: each of its renewals names
//! them (spec 04, Hosts). A session that its host stopped naming, or never named, is lost though
//! the host is not. What the rows say of a session is no business of this.

use std::collections::BTreeMap;

use super::{Signs, Windows};
use crate::id::HostName;
use crate::limits::OFFLINE_WINDOWS;
use crate::liveness::Liveness;
use crate::time::{Millis, Moment};

/// A session whose living host does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Its host never named it: the order to start it came to nothing.
    NeverNamed,
    /// Its host names it, and it did not come up in time.
    NotUp,
    /// Its host named it, and does so no more.
    Dropped,
}

#[derive(Debug, Clone)]
struct Row {
    epoch: u64,
    state: Liveness,
    /// Since when it is watched; moved on by what could not be heard.
    since: Moment,
    /// When its host named it last.
    named: Option<Moment>,
    /// Whether it was declared.
    told: bool,
}

#[derive(Debug, Clone)]
struct Hosted<K> {
    heard: Moment,
    rows: BTreeMap<K, Row>,
}

/// The sessions of living hosts.
#[derive(Debug, Clone)]
pub struct Rows<K> {
    windows: Windows,
    hosts: BTreeMap<HostName, Hosted<K>>,
    places: BTreeMap<K, HostName>,
}

impl<K: Ord + Clone> Rows<K> {
    /// Watches nobody.
    #[must_use]
    pub fn new(windows: Windows) -> Self {
        Self { windows, hosts: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// Watches a session on a host, in place of an earlier one of that name. What is known of the
    /// same session stays known.
    pub fn track(&mut self, who: K, host: &HostName, epoch: u64, state: Liveness, now: Moment) {
        if self.places.get(&who) != Some(host) {
            self.forget(&who);
        }
        let hosted = self.hosts.entry(host.clone());
        let hosted = hosted.or_insert(Hosted { heard: now, rows: BTreeMap::new() });
        match hosted.rows.get_mut(&who) {
            Some(row) if row.epoch == epoch => {
                if row.state == Liveness::Register && state != Liveness::Register {
                    // That it came up is a sign that its host has it.
                    row.named = Some(now);
                }
                row.state = state;
            }
            Some(_) | None => {
                let row = Row { epoch, state, since: now, named: None, told: false };
                hosted.rows.insert(who.clone(), row);
            }
        }
        self.places.insert(who, host.clone());
    }

    /// Watches it no longer.
    pub fn forget(&mut self, who: &K) {
        let Some(host) = self.places.remove(who) else { return };
        if let Some(hosted) = self.hosts.get_mut(&host) {
            hosted.rows.remove(who);
            if hosted.rows.is_empty() {
                self.hosts.remove(&host);
            }
        }
    }

    /// Whether this session was placed on this host: what a host tells of others counts for nothing.
    #[must_use]
    pub fn holds(&self, host: &HostName, who: &K, epoch: u64) -> bool {
        let row = self.hosts.get(host).and_then(|hosted| hosted.rows.get(who));
        row.is_some_and(|row| row.epoch == epoch)
    }

    /// A host renewed its lease and named these sessions, with their epochs. Gives those that it
    /// has lost, each once. A host that was not heard of for more than a window is not judged by
    /// what it said before.
    pub fn renewed<'k>(
        &mut self,
        host: &HostName,
        named: impl IntoIterator<Item = (&'k K, u64)>,
        now: Moment,
    ) -> Vec<(K, u64, Absence)>
    where
        K: 'k,
    {
        let Some(hosted) = self.hosts.get_mut(host) else { return Vec::new() };
        let unheard = now - hosted.heard;
        hosted.heard = hosted.heard.max(now);
        if unheard > self.windows.window() {
            for row in hosted.rows.values_mut() {
                row.since = row.since + unheard;
                row.named = row.named.map(|at| at + unheard);
            }
        }
        for (who, epoch) in named {
            if let Some(row) = hosted.rows.get_mut(who).filter(|row| row.epoch == epoch) {
                row.named = Some(now);
            }
        }
        let windows = self.windows;
        let lost = hosted.rows.iter_mut().filter_map(|(who, row)| {
            let absence = absence(windows, row, now).filter(|_| !row.told)?;
            row.told = true;
            Some((who.clone(), row.epoch, absence))
        });
        lost.collect()
    }
}

/// What is wrong with a session, if anything is.
fn absence(windows: Windows, row: &Row, now: Moment) -> Option<Absence> {
    let patience = Millis(windows.window().0.saturating_mul(OFFLINE_WINDOWS));
    let named = row.named.unwrap_or(row.since);
    let preparing = row.named.is_some();
    if row.state == Liveness::Register {
        let signs = Signs { state: row.state, last: row.since, preparing };
        if now < windows.register_ends(signs, row.since) {
            let dropped = preparing && now - named >= patience;
            return dropped.then_some(Absence::Dropped);
        }
        return Some(if preparing { Absence::NotUp } else { Absence::NeverNamed });
    }
    (now - named >= patience).then_some(Absence::Dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PREPARING;
    use crate::liveness::Liveness::{Active, Register};

    const W: u64 = 1_000;
    const THIRD: u64 = W / 4;

    fn host() -> HostName {
        HostName::new("h1").unwrap()
    }

    /// A host that renews four times a window until `end`, and names session 7 of this epoch
    /// while `names` says so. Gives what was lost, with when it was said.
    fn lost(
        state: Liveness,
        end: u64,
        mut names: impl FnMut(u64) -> Option<u64>,
    ) -> Vec<(u64, Absence)> {
        let mut rows = Rows::new(Windows::new(Millis(W)).unwrap());
        rows.track(7u32, &host(), 2, state, Moment(0));
        let mut said = Vec::new();
        let mut at = 0;
        while at < end {
            at += THIRD;
            let named = names(at).map(|epoch| (&7u32, epoch));
            let found = rows.renewed(&host(), named, Moment(at));
            said.extend(found.into_iter().map(|(_, _, absence)| (at, absence)));
        }
        said
    }

    #[test]
    fn session_dropped_by_its_host_is_lost_after_three_windows() {
        let (named, other) = (|_| Some(2), |at| (at <= 5 * W).then_some(2));
        assert_eq!(lost(Active, 90 * W, named), []);
        assert_eq!(lost(Active, 8 * W - THIRD, other), []);
        assert_eq!(lost(Active, 20 * W, other), [(8 * W, Absence::Dropped)], "and said once");
        assert_eq!(lost(Active, 3 * W - THIRD, |_| None), []);
        assert_eq!(lost(Active, 3 * W, |_| None), [(3 * W, Absence::Dropped)]);
        assert_eq!(lost(Active, 3 * W, |_| Some(1)), [(3 * W, Absence::Dropped)], "another epoch");
    }

    #[test]
    fn row_counts_for_the_host_and_epoch_of_its_session_alone() {
        let mut rows = Rows::new(Windows::new(Millis(W)).unwrap());
        rows.track(7u32, &host(), 2, Active, Moment(0));
        let other = HostName::new("h2").unwrap();
        assert!(rows.holds(&host(), &7, 2));
        assert!(!rows.holds(&other, &7, 2), "placed elsewhere");
        assert!(!rows.holds(&host(), &7, 3), "another epoch");
        assert!(!rows.holds(&host(), &8, 2), "nobody's");
        rows.forget(&7);
        assert!(!rows.holds(&host(), &7, 2), "ended");
    }

    #[test]
    fn session_tracked_again_keeps_its_state() {
        let mut rows = Rows::new(Windows::new(Millis(W)).unwrap());
        let mut said = Vec::new();
        rows.track(7u32, &host(), 2, Active, Moment(0));
        for at in (THIRD..=9 * W).step_by(usize::try_from(THIRD).unwrap()) {
            if at < 6 * W && at % (2 * W) == 0 {
                rows.track(7u32, &host(), 2, Active, Moment(at));
            }
            if at == 6 * W {
                rows.track(7u32, &host(), 3, Active, Moment(at));
            }
            let found = rows.renewed(&host(), [], Moment(at));
            said.extend(found.into_iter().map(|(_, epoch, _)| (at, epoch)));
        }
        assert_eq!(said, [(3 * W, 2), (9 * W, 3)], "once for each epoch");
    }

    #[test]
    fn session_never_named_is_lost_at_the_register_deadline() {
        assert_eq!(lost(Register, 6 * W - THIRD, |_| None), []);
        assert_eq!(lost(Register, 20 * W, |_| None), [(6 * W, Absence::NeverNamed)]);
    }

    #[test]
    fn preparing_session_has_one_minute() {
        let end = PREPARING.0;
        assert_eq!(lost(Register, end - THIRD, |_| Some(2)), []);
        assert_eq!(lost(Register, end + W, |_| Some(2)), [(end, Absence::NotUp)]);
        let dropped = lost(Register, end, |at| (at <= W).then_some(2));
        assert_eq!(dropped, [(4 * W, Absence::Dropped)]);
    }

    #[test]
    fn unheard_session_is_not_missing() {
        let mut rows = Rows::new(Windows::new(Millis(W)).unwrap());
        rows.track(7u32, &host(), 1, Active, Moment(0));
        let none = || std::iter::empty::<(&u32, u64)>();
        assert_eq!(rows.renewed(&host(), none(), Moment(W)), [], "one window is no gap");
        assert_eq!(rows.renewed(&host(), none(), Moment(9 * W)), [], "eight were not heard");
        assert_eq!(rows.renewed(&host(), none(), Moment(10 * W)), []);
        let found = rows.renewed(&host(), none(), Moment(11 * W));
        assert_eq!(found, [(7, 1, Absence::Dropped)], "in three that were heard it was not there");
    }

    #[test]
    fn registered_session_is_present_and_its_successor_starts_anew() {
        let mut rows = Rows::new(Windows::new(Millis(W)).unwrap());
        let none = || std::iter::empty::<(&u32, u64)>();
        rows.track(7u32, &host(), 1, Register, Moment(0));
        for at in 1..=5 {
            assert_eq!(rows.renewed(&host(), none(), Moment(at * W)), []);
        }
        rows.track(7, &host(), 1, Active, Moment(5 * W));
        for at in 6..=7 {
            assert_eq!(rows.renewed(&host(), none(), Moment(at * W)), []);
        }
        rows.track(7, &host(), 2, Register, Moment(8 * W));
        for at in 8..14 {
            assert_eq!(rows.renewed(&host(), none(), Moment(at * W)), []);
        }
        assert_eq!(rows.renewed(&host(), none(), Moment(14 * W)), [(7, 2, Absence::NeverNamed)]);
    }

    #[test]
    fn ended_or_moved_session_is_not_tracked() {
        let mut rows = Rows::new(Windows::new(Millis(W)).unwrap());
        let none = || std::iter::empty::<(&u32, u64)>();
        for who in [7u32, 8] {
            rows.track(who, &host(), 1, Active, Moment(0));
        }
        rows.forget(&7);
        rows.forget(&7);
        rows.track(8, &HostName::new("h2").unwrap(), 2, Register, Moment(0));
        for at in 0..9 {
            assert_eq!(rows.renewed(&host(), none(), Moment(at * W)), []);
        }
        assert_eq!(rows.hosts.len(), 1, "an empty host is forgotten");
    }
}
