//! Which rows a list shows, and in which order (spec 08, Roster): what needs somebody first, or by a column, or
//! what a filter finds.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use tetrarch_core::id::AgentId;
use tetrarch_core::words;

use crate::alarm::Alarm;
use crate::lineage::Lineage;
use crate::row::AgentRow;

words! {
    /// What rows are ordered by.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum SortColumn {
        /// What needs somebody first, then the tree.
        #[default]
        Attention = "ALERT",
        /// The name.
        Name = "AGENT",
        /// The state's word.
        State = "STATE",
        /// What it is about.
        Intent = "INTENT",
        /// The model.
        Model = "MODEL",
        /// Prompt tokens.
        TokensIn = "IN",
        /// Tokens that a model wrote.
        TokensOut = "OUT",
        /// The cost.
        Cost = "COST",
        /// The current tool.
        Tool = "TOOL",
        /// How fast it burns.
        Burn = "BURN",
        /// How long it works.
        Elapsed = "TIME",
        /// Where it is.
        Host = "HOST",
    }
}

impl SortColumn {
    /// The one so many places further on, around the end.
    #[must_use]
    pub fn moved(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|column| *column == self).unwrap_or(0);
        let count = Self::ALL.len();
        let by = usize::try_from(by.rem_euclid(count.cast_signed())).unwrap_or(0);
        Self::ALL.get((at + by) % count).copied().unwrap_or_default()
    }
}

/// How two rows stand by a column: texts from their beginning, amounts from the highest; equals with the newest
/// first. Rows without a text stand last.
#[must_use]
pub fn compare(one: &AgentRow, other: &AgentRow, column: SortColumn, reversed: bool) -> Ordering {
    let by = by_column(one, other, column);
    let by = if reversed { by.reverse() } else { by };
    let newest = || other.created.cmp(&one.created);
    by.then_with(newest).then_with(|| one.id.cmp(&other.id))
}

fn by_column(one: &AgentRow, other: &AgentRow, column: SortColumn) -> Ordering {
    let most = |amount: fn(&AgentRow) -> u64| amount(other).cmp(&amount(one));
    let text = |text: fn(&AgentRow) -> &str| {
        let (one, other) = (text(one), text(other));
        (one.is_empty(), one).cmp(&(other.is_empty(), other))
    };
    match column {
        SortColumn::Attention => one.alarm.rank().cmp(&other.alarm.rank()),
        SortColumn::Name => one.id.cmp(&other.id),
        SortColumn::State => text(|row| row.state),
        SortColumn::Intent => text(|row| &row.intent),
        SortColumn::Model => text(|row| &row.model),
        SortColumn::TokensIn => most(|row| row.tokens_in),
        SortColumn::TokensOut => most(|row| row.tokens_out),
        SortColumn::Cost => most(|row| row.cost_micro),
        SortColumn::Tool => text(|row| &row.tool),
        SortColumn::Burn => {
            most(|row| row.rate.cost_micro).then_with(|| most(|row| row.rate.tokens))
        }
        SortColumn::Elapsed => most(|row| row.elapsed.map_or(0, |elapsed| elapsed.0)),
        SortColumn::Host => text(|row| &row.host),
    }
}

/// What a list shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListWish {
    /// By what it is ordered.
    pub column: SortColumn,
    /// The other way round.
    pub reversed: bool,
    /// A fuzzy filter; empty for everybody.
    pub filter: String,
    /// With those that have ended.
    pub ended: bool,
    /// Those below whom nobody is shown.
    pub collapsed: BTreeSet<AgentId>,
}

/// One line of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListLine {
    /// The place of the row among all.
    pub row: usize,
    /// How far it is moved to the right.
    pub indent: usize,
    /// How many below it are not shown, and what their runs cost.
    pub hidden: (usize, u64),
}

/// The lines of a list. Alarms stand before the tree, in their order, and are never hidden by a collapsed parent;
/// by another column, and with a filter, there is no tree.
#[must_use]
pub fn lines(rows: &[AgentRow], wish: &ListWish) -> Vec<ListLine> {
    let flat = |row: usize| ListLine { row, indent: 0, hidden: (0, 0) };
    let shown = |row: &AgentRow| wish.ended || !row.ended || row.alarm != Alarm::Quiet;
    let by_tree = wish.column == SortColumn::Attention && wish.filter.is_empty();
    let found = matching(rows, &wish.filter);
    let first = |row: &AgentRow| !by_tree || row.alarm != Alarm::Quiet;
    let mut places: Vec<usize> = found
        .into_iter()
        .filter(|at| rows.get(*at).is_some_and(|row| shown(row) && first(row)))
        .collect();
    let order = |one: &usize, other: &usize| match (rows.get(*one), rows.get(*other)) {
        (Some(one), Some(other)) => compare(one, other, wish.column, wish.reversed && !by_tree),
        (one, other) => one.is_none().cmp(&other.is_none()),
    };
    places.sort_by(order);
    let mut lines: Vec<ListLine> = places.into_iter().map(flat).collect();
    if by_tree {
        tree(rows, wish, |row| shown(row) && row.alarm == Alarm::Quiet, &mut lines);
    }
    lines
}

fn tree(
    rows: &[AgentRow],
    wish: &ListWish,
    wanted: impl Fn(&AgentRow) -> bool,
    lines: &mut Vec<ListLine>,
) {
    let lineage = Lineage::of(rows, wanted);
    let place = |row: &AgentRow| rows.binary_search_by(|other| other.id.cmp(&row.id)).ok();
    lineage.walk(|row, more| {
        let is_closed = wish.collapsed.contains(&row.id);
        let hidden = if is_closed { lineage.all_below(&row.id) } else { Vec::new() };
        let cost = hidden.iter().map(|row| row.cost_micro).fold(0, u64::saturating_add);
        // Who stands among the alarms already is only passed through.
        if row.alarm == Alarm::Quiet
            && let Some(place) = place(row)
        {
            lines.push(ListLine { row: place, indent: more.len(), hidden: (hidden.len(), cost) });
        }
        !is_closed
    });
}

/// The places of rows in which every word of a filter is found, its letters in their order within one text of the
/// row; with `!` before it, a word that is in none. All of them for an empty filter.
#[must_use]
pub fn matching(rows: &[AgentRow], filter: &str) -> Vec<usize> {
    let words = filter.split_whitespace().map(|word| {
        let is_unwanted = word.starts_with('!');
        (is_unwanted, Pattern::parse(word, CaseMatching::Smart, Normalization::Smart))
    });
    let words: Vec<(bool, Pattern)> = words.collect();
    if words.is_empty() {
        return (0..rows.len()).collect();
    }
    let (mut matcher, mut buffer) = (Matcher::new(Config::DEFAULT), Vec::new());
    let mut fits = |row: &AgentRow| {
        let texts = texts(row);
        words.iter().all(|(is_unwanted, pattern)| {
            let mut found = texts.iter().map(|text| {
                pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher).is_some()
            });
            if *is_unwanted { found.all(|it| it) } else { found.any(|it| it) }
        })
    };
    (0..rows.len()).filter(|at| rows.get(*at).is_some_and(&mut fits)).collect()
}

/// What a filter looks at.
fn texts(row: &AgentRow) -> [String; 10] {
    [
        row.id.to_string(),
        row.alarm.as_str().to_owned(),
        row.state.to_owned(),
        row.project.as_ref().map(ToString::to_string).unwrap_or_default(),
        row.work.map(|(_, node)| node.to_string()).unwrap_or_default(),
        row.label.clone(),
        row.intent.clone(),
        row.model.clone(),
        row.tool.clone(),
        row.host.clone(),
    ]
}

/// The row of a name; rows are in the order of their names.
#[must_use]
pub fn find<'r>(rows: &'r [AgentRow], id: &AgentId) -> Option<&'r AgentRow> {
    rows.binary_search_by(|row| row.id.cmp(id)).ok().and_then(|at| rows.get(at))
}

/// How many rows have an alarm.
#[must_use]
pub fn alarms(rows: &[AgentRow]) -> usize {
    rows.iter().filter(|row| row.alarm != Alarm::Quiet).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{agent, worker};
    use tetrarch_core::budget::Spend;
    use tetrarch_core::ledger::Record;
    use tetrarch_core::liveness::Liveness;
    use tetrarch_core::records::Records;
    use tetrarch_core::time::{BusTime, Millis};

    /// GO, two projects, two workers of the first one.
    fn fleet() -> Vec<AgentRow> {
        let mut records = Records::default();
        for agent in [
            agent("GO", None, Liveness::Active),
            agent("PO-demo", Some("GO"), Liveness::Active),
            agent("PO-zoo", Some("GO"), Liveness::Active),
            worker(2, 2, Liveness::Active),
            worker(3, 1, Liveness::Active),
        ] {
            records.put(Record::Agent(Box::new(agent)));
        }
        let mut rows = crate::row::rows(&records, &Default::default(), BusTime(0));
        rows.iter_mut().for_each(|row| row.created = BusTime(1));
        rows
    }

    fn shown(rows: &[AgentRow], wish: &ListWish) -> Vec<(String, usize)> {
        let name = |line: &ListLine| {
            let id = rows[line.row].id.to_string();
            (id[id.len().saturating_sub(7)..].trim_start_matches('0').to_owned(), line.indent)
        };
        lines(rows, wish).iter().map(name).collect()
    }

    fn lines_of(list: &[(&str, usize)]) -> Vec<(String, usize)> {
        list.iter().map(|(name, indent)| ((*name).to_owned(), *indent)).collect()
    }

    #[test]
    fn quiet_fleet_is_a_tree_in_the_order_of_its_work() {
        let rows = fleet();
        let tree = [("GO", 0), ("PO-demo", 1), ("3", 2), ("2", 2), ("PO-zoo", 1)];
        assert_eq!(shown(&rows, &ListWish::default()), lines_of(&tree));
        let wish = ListWish { collapsed: [rows[1].id.clone()].into(), ..ListWish::default() };
        assert_eq!(shown(&rows, &wish), lines_of(&[("GO", 0), ("PO-demo", 1), ("PO-zoo", 1)]));
        assert_eq!(lines(&rows, &wish)[1].hidden.0, 2);
    }

    #[test]
    fn alarms_come_first_even_of_a_collapsed_parent() {
        let mut rows = fleet();
        (rows[3].alarm, rows[4].alarm) = (Alarm::Orphaned, Alarm::AwaitingInput);
        rows[2].alarm = Alarm::Stuck;
        rows[2].created = BusTime(2);
        let wish = ListWish { collapsed: [rows[1].id.clone()].into(), ..ListWish::default() };
        let expected = [("3", 0), ("PO-zoo", 0), ("2", 0), ("GO", 0), ("PO-demo", 1)];
        assert_eq!(shown(&rows, &wish), lines_of(&expected), "of equals the newest first");
    }

    #[test]
    fn ended_agents_are_shown_when_wanted_or_loud() {
        let mut rows = fleet();
        rows[3].ended = true;
        assert_eq!(lines(&rows, &ListWish::default()).len(), 4);
        assert_eq!(lines(&rows, &ListWish { ended: true, ..ListWish::default() }).len(), 5);
        rows[3].alarm = Alarm::Orphaned;
        assert_eq!(lines(&rows, &ListWish::default()).len(), 5);
        (rows[1].ended, rows[4].alarm) = (true, Alarm::Stuck);
        let expected = [("3", 0), ("2", 0), ("GO", 0), ("PO-zoo", 1)];
        let shown: BTreeSet<_> = shown(&rows, &ListWish::default()).into_iter().collect();
        assert_eq!(shown, lines_of(&expected).into_iter().collect(), "loud ones need no parent");
    }

    #[test]
    fn each_column_orders_by_its_value_and_the_newest_of_equals() {
        use SortColumn as C;
        let rows = fleet();
        let (low, mut high) = (rows[3].clone(), rows[4].clone());
        high.alarm = Alarm::AwaitingInput;
        high.state = "aaa";
        high.intent = "aaa".to_owned();
        high.model = "m".to_owned();
        (high.tokens_in, high.tokens_out, high.cost_micro) = (1, 1, 1);
        high.tool = "t".to_owned();
        high.rate = Spend { tokens: 1, ..Spend::default() };
        high.elapsed = Some(Millis(10_000_000));
        high.host = "a".to_owned();
        let low = AgentRow { intent: "b".to_owned(), state: "bbb", elapsed: None, ..low };
        for column in C::ALL.into_iter().filter(|column| *column != C::Name) {
            assert_eq!(compare(&high, &low, column, false), Ordering::Less, "{column:?}");
            assert_eq!(compare(&high, &low, column, true), Ordering::Greater, "{column:?}");
        }
        assert_eq!(compare(&low, &high, C::Name, false), Ordering::Less);
        let newer = AgentRow { created: BusTime(2), ..low.clone() };
        for reversed in [false, true] {
            assert_eq!(compare(&newer, &low, C::Cost, reversed), Ordering::Less);
        }
    }

    #[test]
    fn filter_finds_letters_in_their_order_within_one_text() {
        let mut rows = fleet();
        rows[3].intent = "Write the report".to_owned();
        rows[4].tool = "grep".to_owned();
        for (filter, found) in [
            ("", vec![0, 1, 2, 3, 4]),
            (" ", vec![0, 1, 2, 3, 4]),
            ("wrtrep", vec![3]),
            ("GREP", vec![]),
            ("grep", vec![4]),
            ("report write", vec![3]),
            ("demo report", vec![3]),
            ("!demo", vec![0, 2]),
            ("xyzzy", vec![]),
        ] {
            assert_eq!(matching(&rows, filter), found, "{filter:?}");
        }
    }

    #[test]
    fn columns_are_passed_through_in_a_circle() {
        assert_eq!(SortColumn::Attention.moved(-1), SortColumn::Host);
        assert_eq!(SortColumn::Host.moved(1), SortColumn::Attention);
        assert_eq!(SortColumn::Name.moved(1), SortColumn::State);
    }
}
