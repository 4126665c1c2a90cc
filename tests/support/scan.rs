//! The scanner: tells code, comments and string literals apart, character by character.
//! The code it returns has as many lines as the text, so that numbers of lines agree.

/// A piece of text and the line (from 1) it begins on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its line.
    pub line: usize,
    /// As it is written, without its quotes.
    pub text: String,
}

/// A text taken apart.
#[derive(Debug)]
pub struct Scanned {
    /// The code alone: comments are blank, the insides of literals are `~`.
    pub code: String,
    /// Comments, with what makes them comments.
    pub comments: Vec<Found>,
    /// String literals.
    pub literals: Vec<Found>,
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    out: Scanned,
}

/// Takes a Rust file apart. Total: an unfinished literal or comment reaches to the end.
#[must_use]
pub fn scan(text: &str) -> Scanned {
    let out = Scanned { code: String::new(), comments: Vec::new(), literals: Vec::new() };
    let mut scanner = Scanner { rest: text, line: 1, out };
    while !scanner.rest.is_empty() {
        scanner.next();
    }
    scanner.out
}

impl Scanner<'_> {
    fn next(&mut self) {
        if self.rest.starts_with("//") {
            self.comment(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.comment(block_comment(self.rest));
        } else if let Some((quote, hashes)) = raw_string(self.rest).filter(|_| !self.in_name()) {
            self.keep(quote + 1);
            let end = format!("\"{}", "#".repeat(hashes));
            self.literal(self.rest.find(&end).unwrap_or(self.rest.len()));
            self.keep(end.len());
        } else if self.rest.starts_with('"') {
            self.keep(1);
            self.literal(string(self.rest));
            self.keep(1);
        } else if let Some(bytes) = char_literal(self.rest) {
            let text = self.take(bytes);
            self.mask(&text, '~');
        } else {
            self.keep(1);
        }
    }

    /// Whether the last character was a part of a name, so that `r` begins no raw string.
    fn in_name(&self) -> bool {
        self.out.code.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    fn keep(&mut self, bytes: usize) {
        let piece = self.take(bytes);
        self.out.code.push_str(&piece);
    }

    fn comment(&mut self, bytes: usize) {
        let line = self.line;
        let text = self.take(bytes);
        self.mask(&text, ' ');
        self.out.comments.push(Found { line, text });
    }

    fn literal(&mut self, bytes: usize) {
        let line = self.line;
        let text = self.take(bytes);
        self.mask(&text, '~');
        self.out.literals.push(Found { line, text });
    }

    fn mask(&mut self, text: &str, with: char) {
        self.out.code.extend(text.chars().map(|c| if c.is_whitespace() { c } else { with }));
    }

    /// Takes `bytes` bytes, or up to the end of the character they end in.
    fn take(&mut self, bytes: usize) -> String {
        let mut end = bytes.min(self.rest.len());
        while !self.rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.line += piece.matches('\n').count();
        piece.to_owned()
    }
}

/// Length of the block comment at the start, nested ones within it.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Where the quote of the raw string at the start stands, and how many hashes it has.
fn raw_string(text: &str) -> Option<(usize, usize)> {
    let after = ["br", "cr", "r"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some((text.len() - after.len() + hashes, hashes))
}

/// Length of the string that goes on from the start, up to its closing quote.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Length of the character literal at the start; none for a lifetime or anything else.
fn char_literal(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    if let Some(escape) = inside.strip_prefix('\\') {
        let first = escape.chars().next()?.len_utf8();
        return escape[first..].find('\'').map(|end| 2 + first + end + 1);
    }
    let first = inside.chars().next()?.len_utf8();
    inside[first..].starts_with('\'').then_some(1 + first + 1)
}

#[test]
fn code_comments_and_literals_are_distinguished() {
    let text = concat!(
        "let a = \"x // y\\\" z\"; // note\n",
        "let b = r#\"raw \" \n still\"#; /* one /* two */ */ let c = '\"';\n",
        "fn f<'a>(r#type: &'a str) -> char { '\\'' } // end",
    );
    let scanned = scan(text);
    let texts = |found: &[Found]| found.iter().map(|f| f.text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&scanned.literals), ["x // y\\\" z", "raw \" \n still"]);
    assert_eq!(texts(&scanned.comments), ["// note", "/* one /* two */ */", "// end"]);
    assert_eq!(scanned.comments[2].line, 4);
    assert_eq!(scanned.code.matches('\n').count(), text.matches('\n').count());
    assert!(scanned.code.contains("let c = ~~~;") && scanned.code.contains("r#type"));
}

#[test]
fn unfinished_literal_ends_with_the_text() {
    for text in ["\"never closed", "/* never closed", "r##\"never closed\"#", "'", "'\\"] {
        assert_eq!(scan(text).code.lines().count(), 1, "{text}");
    }
}
