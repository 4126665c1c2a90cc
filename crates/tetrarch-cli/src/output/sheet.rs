//! Everything about one thing, for people: sections of names and values, tables among them.

use crate::output::{Cell, Tone, align, visible};

/// A sheet that is filled from top to bottom. What is empty is left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sheet {
    coloured: bool,
    text: String,
    open: Vec<Vec<Cell>>,
}

impl Sheet {
    /// A sheet with its title.
    pub(crate) fn new(title: &str, coloured: bool) -> Self {
        let text = align(&[vec![Cell::from(title).toned(Tone::Head)]], coloured);
        Self { coloured, text, open: Vec::new() }
    }

    /// A name and its value.
    pub(crate) fn field(&mut self, name: &str, value: impl Into<Cell>) -> &mut Self {
        let value = value.into();
        if value != Cell::default() {
            self.open.push(vec![format!("  {name}").into(), value]);
        }
        self
    }

    /// A name and its values, one a line.
    pub(crate) fn list(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = String>,
    ) -> &mut Self {
        for (at, value) in values.into_iter().enumerate() {
            let name = if at == 0 { format!("  {name}") } else { String::new() };
            self.open.push(vec![name.into(), value.into()]);
        }
        self
    }

    /// Text of many lines under its name.
    pub(crate) fn passage(&mut self, name: &str, passage: &str) -> &mut Self {
        if passage.trim().is_empty() {
            return self;
        }
        self.section(name);
        for line in passage.lines() {
            let line = visible(line);
            self.text.push_str(format!("  {line}").trim_end());
            self.text.push('\n');
        }
        self
    }

    /// A new section.
    pub(crate) fn section(&mut self, name: &str) -> &mut Self {
        self.flush();
        let head = align(&[vec![Cell::from(name).toned(Tone::Head)]], self.coloured);
        self.text.push('\n');
        self.text.push_str(&head);
        self
    }

    /// A section with a table; none when there are no lines.
    pub(crate) fn table(&mut self, name: &str, lines: Vec<Vec<Cell>>) -> &mut Self {
        let lines = lines.into_iter().map(|line| (line, Vec::new()));
        self.table_with_notes(name, lines.collect())
    }

    /// The same, where a line has notes. These stand below it at an indentation of their own, so that a narrow terminal
    /// breaks a command that is to be typed as late as it can.
    pub(crate) fn table_with_notes(
        &mut self,
        name: &str,
        lines: Vec<(Vec<Cell>, Vec<String>)>,
    ) -> &mut Self {
        if lines.is_empty() {
            return self;
        }
        self.section(name);
        let (lines, notes): (Vec<Vec<Cell>>, Vec<Vec<String>>) = lines.into_iter().unzip();
        let indented = lines.into_iter().map(|line| {
            let mut cells = vec![Cell::default()];
            cells.extend(line);
            cells
        });
        let indented: Vec<Vec<Cell>> = indented.collect();
        // One line of text for each: what is in a cell has no line breaks.
        for (line, notes) in align(&indented, self.coloured).lines().zip(notes) {
            self.text.push_str(&format!("{line}\n"));
            for note in notes.iter().filter(|note| !note.is_empty()) {
                self.text.push_str(&format!("    {}\n", visible(note)));
            }
        }
        self
    }

    /// The whole sheet.
    pub(crate) fn finish(mut self) -> String {
        self.flush();
        self.text
    }

    fn flush(&mut self) {
        let lines = std::mem::take(&mut self.open);
        self.text.push_str(&align(&lines, self.coloured));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_of_a_sheet_are_left_out() {
        let mut sheet = Sheet::new("W:1", false);
        sheet.field("role", "worker").field("label", "").field("project", "demo");
        sheet.list("tools", ["git".to_owned(), "sh".to_owned()]);
        sheet.table("slots", Vec::new());
        sheet.passage("deliverable", "one\n\x1b[2Jtwo\n");
        let expected = "W:1\n  role     worker\n  project  demo\n  tools    git\n           sh\n\
                        \ndeliverable\n  one\n  \\u{1b}[2Jtwo\n";
        assert_eq!(sheet.finish(), expected);
    }

    #[test]
    fn notes_of_a_line_stand_below_it_at_a_small_indentation() {
        let mut sheet = Sheet::new("plan", false);
        let row = |id: &str, notes: &[&str]| {
            let notes = notes.iter().map(|note| (*note).to_owned()).collect();
            (vec![id.into(), "holds up 1".into()], notes)
        };
        let (first, second) = ("goal_01JD8Z5W6T4QK3M9X2V7B1N0AC/T1.1", "PO-demo");
        sheet.table_with_notes(
            "obstacles",
            vec![row(first, &["exit code\n1", "next: tetrarch logs"]), row(second, &[""])],
        );
        let wide = format!("{second:<width$}", width = first.len());
        let expected = format!(
            "plan\n\nobstacles\n  {first}  holds up 1\n    exit code\\n1\n    next: tetrarch logs\n  \
             {wide}  holds up 1\n"
        );
        assert_eq!(sheet.finish(), expected);
    }
}
