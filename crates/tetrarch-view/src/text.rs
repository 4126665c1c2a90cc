//! Text of others as people may see it: control characters and look-alikes made visible, so that what an
//! agent wrote neither moves the cursor nor passes for something else.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Characters of one line of a diff that are shown.
const DIFF_LINE_CHARS: usize = 2_000;

/// Text with its control characters made visible: what others wrote must not move the cursor.
#[must_use]
pub fn visible(text: &str) -> String {
    if !text.chars().any(is_hidden) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    })
}

/// Control and format characters, those that Unicode lets a program leave out (`Default_Ignorable_Code_Point`),
/// and blanks that are no space: variation selectors too, in which a text can be hidden.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    // Most of any text; the tables of Unicode take many times as long.
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || get_general_category(c) == GeneralCategory::Format
        || matches!(
            c,
            '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// A text in which, within words that have Latin letters, those of scripts that look like them are escaped.
#[must_use]
pub fn unmixed(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let inside = part(first);
        let end = rest.find(|c| part(c) != inside).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if inside && word.contains(|c: char| c.is_ascii_alphabetic()) {
            for c in word.chars() {
                if is_alike(c) {
                    shown.extend(c.escape_unicode());
                } else {
                    shown.push(c);
                }
            }
        } else {
            shown.push_str(word);
        }
    }
    shown
}

/// Of a block whose letters look like Latin ones: Greek, Cyrillic, Armenian, Cherokee, Coptic, Lisu, signs that are
/// letters, Roman numerals, Latin of full width and of mathematics; and single letters of phonetics.
fn is_alike(c: char) -> bool {
    matches!(
        c,
        '\u{251}' | '\u{261}' | '\u{269}' | '\u{26a}' | '\u{370}'..='\u{58f}'
            | '\u{13a0}'..='\u{13ff}'
            | '\u{1c80}'..='\u{1c8f}'
            | '\u{1f00}'..='\u{1fff}'
            | '\u{2100}'..='\u{218b}'
            | '\u{2c80}'..='\u{2cff}'
            | '\u{a4d0}'..='\u{a4ff}'
            | '\u{a640}'..='\u{a69f}'
            | '\u{ab30}'..='\u{abbf}'
            | '\u{ff10}'..='\u{ff5a}'
            | '\u{1d400}'..='\u{1d7ff}'
    )
}

/// A diff for people: what others wrote must not move the cursor, end a line unseen or pass for something else.
#[must_use]
pub fn diff_for_people(diff: &str) -> String {
    let mut text = String::with_capacity(diff.len());
    for line in diff.split_terminator('\n') {
        let line = line.replace('\t', "    ");
        let kept: String = line.chars().take(DIFF_LINE_CHARS).collect();
        text.push_str(&visible(&unmixed(&kept)));
        let more = line.chars().count() - kept.chars().count();
        if more > 0 {
            text.push_str(&format!(" [{more} more characters]"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_made_visible() {
        assert_eq!(visible("a\x1b[31mb\r\n\tc"), "a\\u{1b}[31mb\\r\\n\\tc");
        assert_eq!(visible("\u{202e}x\u{9b}"), "\\u{202e}x\\u{9b}");
        for hidden in ['\u{200b}', '\u{200d}', '\u{2060}', '\u{61c}', '\u{feff}', '\u{e0041}'] {
            assert_eq!(visible(&format!("a{hidden}b")), format!("a{}b", hidden.escape_unicode()));
        }
        assert_eq!(visible("grüße, 世界"), "grüße, 世界");
    }

    #[test]
    fn every_character_that_shows_nothing_is_hidden() {
        let ignorable = [
            '\u{ad}'..='\u{ad}',
            '\u{34f}'..='\u{34f}',
            '\u{61c}'..='\u{61c}',
            '\u{115f}'..='\u{1160}',
            '\u{17b4}'..='\u{17b5}',
            '\u{180b}'..='\u{180f}',
            '\u{200b}'..='\u{200f}',
            '\u{202a}'..='\u{202e}',
            '\u{2060}'..='\u{206f}',
            '\u{3164}'..='\u{3164}',
            '\u{fe00}'..='\u{fe0f}',
            '\u{feff}'..='\u{feff}',
            '\u{ffa0}'..='\u{ffa0}',
            '\u{fff0}'..='\u{fff8}',
            '\u{1bca0}'..='\u{1bca3}',
            '\u{1d173}'..='\u{1d17a}',
            '\u{e0000}'..='\u{e0fff}',
        ];
        for c in '\0'..=char::MAX {
            let category = get_general_category(c);
            let blank = ignorable.iter().any(|range| range.contains(&c)) || c == '\u{2800}';
            let unseen = [
                GeneralCategory::Control,
                GeneralCategory::Format,
                GeneralCategory::LineSeparator,
                GeneralCategory::ParagraphSeparator,
            ];
            assert_eq!(is_hidden(c), blank || unseen.contains(&category), "{c:?} {category:?}");
        }
    }

    #[test]
    fn lookalike_letter_inside_a_latin_word_is_escaped() {
        let rows = [
            ("src/p\u{430}yment.rs", "src/p\\u{430}yment.rs"),
            ("is_\u{3bf}wner(x)", "is_\\u{3bf}wner(x)"),
            ("\u{ff21}dmin", "\\u{ff21}dmin"),
            ("a\u{1d41a}b", "a\\u{1d41a}b"),
            ("lo\u{261}in", "lo\\u{261}in"),
            ("u\u{217c}s", "u\\u{217c}s"),
            ("u\u{2c9f}s", "u\\u{2c9f}s"),
            ("u\u{a4f3}s", "u\\u{a4f3}s"),
            ("u\u{ab70}s", "u\\u{ab70}s"),
            ("привет, мир: grüße 世界", "привет, мир: grüße 世界"),
            ("x = 5 // да", "x = 5 // да"),
            ("", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(unmixed(text), expected);
        }
    }

    #[test]
    fn printed_diff_escapes_cursor_moves_and_hides_no_line() {
        let diff = "+a\x1b[2Jb\r\n+\tc\n+\u{202e}d\n";
        assert_eq!(diff_for_people(diff), "+a\\u{1b}[2Jb\\r\n+    c\n+\\u{202e}d\n");
        assert_eq!(diff_for_people("+pass\u{200b}w\u{43e}rd\n"), "+pass\\u{200b}w\\u{43e}rd\n");
        let long = format!("+{}\n", "x".repeat(DIFF_LINE_CHARS));
        assert!(diff_for_people(&long).ends_with("x [1 more characters]\n"));
        assert_eq!(diff_for_people(""), "");
    }
}
