//! Text of others as people may see it: control characters and look-alikes made visible, so that what an
//! agent wrote neither moves the cursor nor passes for something else.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Text with its control characters made visible: what others wrote must not move the cursor. Blanks that French and
/// Japanese texts are full of are spaces here; what people decide on goes through [`unmixed`] before, which escapes them.
#[must_use]
pub fn visible(text: &str) -> String {
    if !text.chars().any(is_hidden) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        if is_typographic_blank(c) {
            shown.push(' ');
        } else if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    })
}

/// Control and format characters, those that Unicode lets a program leave out (`Default_Ignorable_Code_Point`),
/// and blanks that are not the space: variation selectors too, in which a text can be hidden.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    // Most of any text; the tables of Unicode take many times as long.
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(
            get_general_category(c),
            GeneralCategory::Format | GeneralCategory::SpaceSeparator
        )
        || matches!(
            c,
            '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// The blank before French punctuation marks, broad or narrow, and the one between Japanese words. To a program they are
/// no spaces.
fn is_typographic_blank(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{202f}' | '\u{3000}')
}

/// A text in which, within words that have Latin letters, those of scripts that look like them are escaped; and what
/// looks like a sign of a program or a space, or strikes out what stands before it, wherever it is.
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
        let latin = inside && word.contains(|c: char| c.is_ascii_alphabetic());
        for c in word.chars() {
            if latin && is_alike(c) || is_like_a_sign(c) || is_typographic_blank(c) {
                shown.extend(c.escape_unicode());
            } else {
                shown.push(c);
            }
        }
    }
    shown
}

/// Of a block whose letters look like Latin ones: Greek, Cyrillic, Armenian, Cherokee, Coptic, Lisu, signs that are
/// letters, Roman numerals, Deseret, Latin of full width, of mathematics, of phonetics and of manuscripts.
fn is_alike(c: char) -> bool {
    matches!(
        c,
        '\u{251}' | '\u{261}' | '\u{269}' | '\u{26a}' | '\u{370}'..='\u{58f}'
            | '\u{13a0}'..='\u{13ff}'
            | '\u{1c80}'..='\u{1c8f}'
            | '\u{1d00}'..='\u{1d7f}'
            | '\u{1f00}'..='\u{1fff}'
            | '\u{2100}'..='\u{218b}'
            | '\u{2c80}'..='\u{2cff}'
            | '\u{a4d0}'..='\u{a4ff}'
            | '\u{a640}'..='\u{a69f}'
            | '\u{a720}'..='\u{a7ff}'
            | '\u{ab30}'..='\u{abbf}'
            | '\u{ff10}'..='\u{ff5a}'
            | '\u{10400}'..='\u{1044f}'
            | '\u{1d400}'..='\u{1d7ff}'
    )
}

/// Letters of clicks (`|`, `||`, `!`), the Greek question mark (`;`), the slash of divisions, and overlays.
fn is_like_a_sign(c: char) -> bool {
    matches!(
        c,
        '\u{1c0}'..='\u{1c3}' | '\u{334}'..='\u{338}' | '\u{37e}' | '\u{20d0}'..='\u{20f0}' | '\u{2215}'
    )
}

/// A diff for people, all of it: what others wrote must not move the cursor, end a line unseen or pass for something
/// else.
#[must_use]
pub fn diff_for_people(diff: &str) -> String {
    let mut text = String::with_capacity(diff.len());
    for line in diff.split_terminator('\n') {
        text.push_str(&visible(&unmixed(&line.replace('\t', "    "))));
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
                GeneralCategory::SpaceSeparator,
                GeneralCategory::Control,
                GeneralCategory::Format,
                GeneralCategory::LineSeparator,
                GeneralCategory::ParagraphSeparator,
            ];
            let hidden = c != ' ' && (blank || unseen.contains(&category));
            assert_eq!(is_hidden(c), hidden, "{c:?} {category:?}");
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
    fn both_ends_of_ranges_of_lookalikes_are_escaped() {
        let within_words = [
            ('\u{1cff}', '\u{1d00}'..='\u{1d7f}', '\u{1d80}', '\u{1d04}'),
            ('\u{a71f}', '\u{a720}'..='\u{a7ff}', '\u{a800}', '\u{a731}'),
            ('\u{103ff}', '\u{10400}'..='\u{1044f}', '\u{10450}', '\u{10404}'),
        ];
        let anywhere = [
            ('\u{1bf}', '\u{1c0}'..='\u{1c3}', '\u{1c4}'),
            ('\u{333}', '\u{334}'..='\u{338}', '\u{339}'),
            ('\u{37d}', '\u{37e}'..='\u{37e}', '\u{37f}'),
            ('\u{20cf}', '\u{20d0}'..='\u{20f0}', '\u{20f1}'),
            ('\u{2214}', '\u{2215}'..='\u{2215}', '\u{2216}'),
        ];
        let alone = |c: char| unmixed(&format!("1 {c} 2")) != format!("1 {c} 2");
        for (before, range, after, letter) in within_words {
            assert!(is_alike(*range.start()) && is_alike(*range.end()), "{range:?}");
            assert!(!is_alike(before) && !is_alike(after) && !alone(letter), "{range:?}");
            assert_eq!(unmixed(&format!("a{letter}b")), format!("a{}b", letter.escape_unicode()));
        }
        for (before, range, after) in anywhere {
            assert!(alone(*range.start()) && alone(*range.end()), "{range:?}");
            assert!(!alone(before) && !alone(after), "{range:?}");
        }
        assert_eq!(unmixed("if x \u{1c3}= y"), "if x \\u{1c3}= y");
    }

    #[test]
    fn blanks_of_texts_are_spaces_except_where_people_decide() {
        for c in ['\u{1680}', '\u{205f}', '\u{2000}', '\u{200a}', '\u{2007}'] {
            assert_eq!(visible(&format!("a{c}b")), format!("a{}b", c.escape_unicode()));
        }
        for (text, shown) in [
            ("Quelle couleur\u{a0}?", "Quelle couleur ?"),
            ("vraiment\u{202f}!", "vraiment !"),
            ("東京\u{3000}大阪", "東京 大阪"),
            ("a b", "a b"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible(&unmixed("rm\u{a0}-rf\u{3000}x")), "rm\\u{a0}-rf\\u{3000}x");
        assert_eq!(diff_for_people("+rm\u{202f}x\n"), "+rm\\u{202f}x\n");
    }

    #[test]
    fn printed_diff_escapes_cursor_moves_and_hides_no_line() {
        let diff = "+a\x1b[2Jb\r\n+\tc\n+\u{202e}d\n";
        assert_eq!(diff_for_people(diff), "+a\\u{1b}[2Jb\\r\n+    c\n+\\u{202e}d\n");
        assert_eq!(diff_for_people("+pass\u{200b}w\u{43e}rd\n"), "+pass\\u{200b}w\\u{43e}rd\n");
        let long = format!("+{}eval()\n", " ".repeat(100_000));
        assert_eq!(diff_for_people(&long), long);
        assert_eq!(diff_for_people(""), "");
    }
}
