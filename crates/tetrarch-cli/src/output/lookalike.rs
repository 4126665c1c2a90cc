//! Letters that look like others, made visible where somebody decides by what is shown. Whole words of another
//! script stay as they are: a word is told apart when it has plain Latin letters as well.

/// A text in which, within words that have Latin letters, those of scripts that look like them are escaped.
pub(crate) fn unmixed(text: &str) -> String {
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

/// Of a script whose letters look like Latin ones: Greek, Cyrillic, Armenian, Cherokee, Latin of full width and
/// of mathematics.
fn is_alike(c: char) -> bool {
    matches!(
        c,
        '\u{370}'..='\u{58f}'
            | '\u{13a0}'..='\u{13ff}'
            | '\u{1f00}'..='\u{1fff}'
            | '\u{ff10}'..='\u{ff5a}'
            | '\u{1d400}'..='\u{1d7ff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookalike_letter_inside_a_latin_word_is_escaped() {
        let rows = [
            ("src/p\u{430}yment.rs", "src/p\\u{430}yment.rs"),
            ("is_\u{3bf}wner(x)", "is_\\u{3bf}wner(x)"),
            ("\u{ff21}dmin", "\\u{ff21}dmin"),
            ("a\u{1d41a}b", "a\\u{1d41a}b"),
            ("привет, мир: grüße 世界", "привет, мир: grüße 世界"),
            ("x = 5 // да", "x = 5 // да"),
            ("", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(unmixed(text), expected);
        }
    }
}
