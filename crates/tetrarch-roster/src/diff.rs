//! The diff of a change as the roster shows it: cut into lines of the screen once, not at each drawing.

use tetrarch_core::id::ChangeId;
use tetrarch_view::diff::whole_diff;
use tetrarch_view::tone::Tone;

use crate::draw::texts::marked;

/// A line of a diff on the screen: a whole one, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffRow {
    /// With the mark where it goes on.
    pub text: String,
    /// Whether it was added, or removed.
    pub tone: Tone,
}

/// A diff that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownDiff {
    /// Whose.
    pub change: ChangeId,
    /// The digest of the action that it belongs to: an approval is for exactly that.
    pub digest: String,
    /// The diff as people may see it, or why it is not shown; none while it is read.
    pub text: Option<Result<String, String>>,
    /// All of it, for the width of the screen.
    pub rows: Vec<DiffRow>,
}

impl ShownDiff {
    /// One that is read.
    pub(crate) fn reading(change: ChangeId, digest: String) -> Self {
        Self { change, digest, text: None, rows: Vec::new() }
    }

    /// It was read.
    pub(crate) fn take(&mut self, diff: Result<String, String>, columns: usize) {
        self.text = Some(diff.and_then(|diff| whole_diff(self.change, &diff)));
        self.wrap(columns);
    }

    /// Cuts it for so many columns.
    pub(crate) fn wrap(&mut self, columns: usize) {
        self.rows.clear();
        let Some(Ok(text)) = &self.text else { return };
        for line in text.lines() {
            let tone = match line.chars().next() {
                Some('+') => Tone::Good,
                Some('-') => Tone::Bad,
                Some('@') => Tone::Head,
                Some(_) | None => Tone::Plain,
            };
            // Lines of a diff begin with their kind: none begins with the mark.
            let cut = marked(line, columns).into_iter();
            self.rows.extend(cut.map(|text| DiffRow { text, tone }));
        }
    }
}
