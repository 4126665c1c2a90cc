//! Random secrets in each encoding, in text that comes in random pieces. What `know` is told is the process's, so each
//! test that uses it has secrets of its own that stand in no other's text.

use data_encoding::{BASE64, BASE64_MIME, BASE64URL, Encoding};
use proptest::prelude::*;

use super::*;

/// How programs write a secret: each encoding's name, and the secret in it, somewhere in other text.
fn encoded(secret: &str, before: &str) -> Vec<(&'static str, String)> {
    let bytes = secret.as_bytes();
    let each = |form: fn(u8) -> String| bytes.iter().map(|byte| form(*byte)).collect::<String>();
    let within =
        |encoding: &Encoding| encoding.encode(&[before.as_bytes(), bytes, b" after"].concat());
    let units: String = secret.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
    let json = serde_json::Value::from(secret).to_string();
    let reserved = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    let percent = each(reserved);
    vec![
        ("raw", secret.to_owned()),
        ("base64", BASE64.encode(bytes)),
        ("base64 without padding", BASE64_NOPAD.encode(bytes)),
        ("base64 for addresses", BASE64URL.encode(bytes)),
        ("base64 for addresses without padding", BASE64URL_NOPAD.encode(bytes)),
        ("base64 with text around", within(&BASE64)),
        ("base64 for addresses with text around", within(&BASE64URL)),
        ("base64 in an address", BASE64.encode(bytes).replace('+', "%2B").replace('/', "%2f")),
        ("hex", HEXLOWER.encode(bytes)),
        ("hex in capitals", HEXUPPER.encode(bytes)),
        ("percent", percent.clone()),
        (
            "percent in small letters",
            each(|byte| match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' => char::from(byte).to_string(),
                other => format!("%{other:02x}"),
            }),
        ),
        ("percent of all", each(|byte| format!("%{byte:02x}"))),
        ("percent of percent", percent.replace('%', "%25")),
        ("a form", percent.replace("%20", "+")),
        ("JSON", json[1..json.len() - 1].to_owned()),
        ("JSON in JSON", serde_json::Value::from(json.clone()).to_string()),
        ("JSON of all", units),
        ("backslashes", each(|byte| format!("\\x{byte:02x}"))),
    ]
}

/// What of an encoding tells the secret: with other text around it its outer characters belong to both.
fn telling(name: &str, encoded: &str, before: &str) -> String {
    if name.ends_with("text around") {
        encoded[before.len() * 4 / 3 + 2..encoded.len() - 10].to_owned()
    } else {
        encoded.to_owned()
    }
}

fn secret() -> impl Strategy<Value = String> {
    // With what each encoding writes in its own way; its outer characters are no blanks, which a key never has.
    "[!-~äß€\u{1F511}]([ -~äß€\u{1F511}]{14,60})[!-~ä\u{1F511}]"
}

fn known(secret: &str) -> Known {
    Known::of(vec![secret.as_bytes().to_vec()]).unwrap()
}

/// What comes of bytes in pieces.
fn streamed(known: &Known, bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<u8> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let (mut held, mut clean, mut from) = (Vec::new(), Vec::new(), 0);
    for cut in cuts.into_iter().chain([bytes.len()]) {
        held.extend_from_slice(&bytes[from..cut]);
        clean.extend(known.release(&mut held).0);
        from = cut;
    }
    clean.extend_from_slice(&known.hidden(&held));
    clean
}

proptest! {
    #[test]
    fn known_secret_is_hidden_in_any_encoding_and_chunking(
        secret in secret(),
        before in "[g-z]{0,9}\n?[g-z ]{0,40} ",
        after in " [g-z ]{0,40}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let known = known(&secret);
        for (name, encoded) in encoded(&secret, &before) {
            let planted = format!("{before}{encoded}{after}");
            let telling = telling(name, &encoded, &before);
            prop_assert!(planted.contains(&telling));
            let whole = known.hidden(planted.as_bytes()).into_owned();
            for clean in [whole, streamed(&known, planted.as_bytes(), &cuts)] {
                let clean = String::from_utf8(clean).unwrap();
                prop_assert!(!clean.contains(&telling), "{name}: {clean}");
                prop_assert!(!clean.contains(&secret), "{name}: {clean}");
                prop_assert!(clean.contains(MARK), "{name}: {clean}");
                prop_assert!(clean.starts_with(&before) && clean.ends_with(&after), "{name}: {clean}");
            }
        }
    }

    #[test]
    fn text_without_a_secret_is_unchanged_in_any_chunking(
        text in "[ -~\nä€\u{1F511}]{0,600}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let known = known("a secret that no text has: {0123456789}");
        prop_assert!(matches!(known.hidden(text.as_bytes()), Cow::Borrowed(_)));
        prop_assert_eq!(streamed(&known, text.as_bytes(), &cuts), text.as_bytes());
    }

    #[test]
    fn arbitrary_bytes_are_accepted(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\\'), Just(b'u'), Just(b'%'), Just(b'd')], 0..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let known = known("a secret that no bytes have: {0123456789}");
        prop_assert_eq!(streamed(&known, &bytes, &cuts), bytes);
    }
}

#[test]
fn stream_emits_whole_lines_and_buffers_a_bounded_part() {
    know(b"held-back-0123456789").unwrap();
    let mut stream = Stream::default();
    assert_eq!(stream.feed(b"it is held-back-01234\nheld-back"), b"it is held-back-01234\n");
    assert_eq!(stream.feed(b"-0123456789\n"), [MARK.as_bytes(), b"\n"].concat());
    assert!(stream.found());
    let mut given = 0;
    for _ in 0..10_000 {
        given += stream.feed(b"held-back-0123456789held-back-0123456789").len();
        assert!(stream.held.len() < 2_000, "{}", stream.held.len());
    }
    assert!(given > 100_000);
}

#[test]
fn overlapping_secrets_are_hidden_whole() {
    know(b"overlap-one-two").unwrap();
    know(b"one-two-three-overlap").unwrap();
    let clean = hidden("overlap-one-two-three-overlap overlap-one-two").unwrap();
    assert_eq!(clean, format!("{MARK} {MARK}"));
}

#[test]
fn base64_broken_into_lines_is_hidden_in_each() {
    let secret = format!("broken{}", "7Hy+zX".repeat(30));
    know(secret.as_bytes()).unwrap();
    let mime = BASE64_MIME.encode(secret.as_bytes());
    for line in mime.lines() {
        assert!(hidden(line).unwrap().starts_with(MARK), "{line}");
    }
}

#[test]
fn secret_lines_are_known_and_short_or_trivial_ones_are_not() {
    let key = b"-----BEGIN SOME KEY-----\nfirst-line-of-it\r\nsecond-line-of-it\n-----END SOME KEY-----\n";
    assert!(know(key).unwrap());
    for none in ["7 bytes", "redacted:secret", "long-enough-line\nshort"] {
        assert!(!know(none.as_bytes()).unwrap(), "{none}");
    }
    let text = "7 bytes, short, redacted:secret, -----BEGIN SOME KEY-----";
    assert_eq!(hidden(text), None);
    for line in ["first-line-of-it", "second-line-of-it", "long-enough-line"] {
        assert_eq!(hidden(&format!("<{line}>")).unwrap(), format!("<{MARK}>"));
    }
}

#[test]
fn json_hides_known_names_and_numbers_and_stays_json() {
    know(b"name-that-is-known").unwrap();
    know(b"8067421953").unwrap();
    let mut json = r#"{"a":[{"name-that-is-known":1}],"b":8067421953,"c":2}"#.to_owned();
    assert!(super::super::redact_json(&mut json));
    assert_eq!(json, format!(r#"{{"a":[{{"{MARK}":1}}],"b":"{MARK}","c":2}}"#));
}

#[test]
fn oldest_secret_is_forgotten_beyond_the_bound() {
    know(b"the-very-first-secret").unwrap();
    let many = |from: usize, to: usize| {
        let lines: Vec<String> = (from..to).map(|number| format!("token-{number:05}")).collect();
        lines.join("\n").into_bytes()
    };
    know(&many(1, SECRETS_MAX)).unwrap();
    assert!(is_in(b"the-very-first-secret"), "there is room for all of them");
    know(&many(SECRETS_MAX, SECRETS_MAX + 1)).unwrap();
    assert!(!is_in(b"the-very-first-secret"));
    assert!(is_in(b"token-00001"));
}
