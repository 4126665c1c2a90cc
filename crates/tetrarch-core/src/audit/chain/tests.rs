//! Trails that are whole, and what is told of those that are not.

use super::*;

/// A trail of three acts, as lines with their ends.
fn lines() -> Vec<String> {
    let mut chain = Chain::default();
    let mut lines = vec![chain.header(r#"{"ledger":"now"}"#)];
    lines.extend(["a", "b", "c"].map(|what| chain.entry(&json!({ "what": what }).to_string())));
    lines.push(chain.seal());
    lines
}

fn broken(lines: &[String]) -> String {
    verify(lines.concat().as_bytes()).unwrap_err().to_string()
}

#[test]
fn intact_trail_verifies_to_the_head_of_its_last_act() {
    let lines = lines();
    let verified = verify(lines.concat().as_bytes()).unwrap();
    assert_eq!(verified.header, json!({"ledger": "now"}));
    assert_eq!(verified.entries.len(), 3);
    assert_eq!(verified.entries[2], (4, json!({"what": "c"})));
    assert_eq!(verified.head, sha256_hex(lines[3].trim_end().as_bytes()));
}

#[test]
fn empty_trail_is_valid() {
    let mut chain = Chain::default();
    let text = chain.header("{}") + &chain.seal();
    assert_eq!(verify(text.as_bytes()).unwrap().entries, []);
}

#[test]
fn truncated_trail_is_reported_at_any_cut() {
    let whole = lines().concat();
    for end in 0..whole.len() {
        let told = verify(&whole.as_bytes()[..end]).unwrap_err();
        let at = 1 + whole[..end].matches('\n').count();
        assert_eq!(told.line, u64::try_from(at).unwrap(), "{told}");
        assert!(told.what.contains("cut off"), "{told}");
    }
}

#[test]
fn removed_inserted_or_moved_line_is_reported() {
    let removed: Vec<String> =
        lines().into_iter().enumerate().filter(|(at, _)| *at != 2).map(|(_, line)| line).collect();
    assert!(broken(&removed).starts_with("line 3: its number is 4"));
    let mut moved = lines();
    moved.swap(1, 2);
    assert!(broken(&moved).starts_with("line 2: its number is 3"));
    // One that is made to follow the line before it is told by the line behind it.
    let mut forged = Chain::default();
    let _header = forged.header(r#"{"ledger":"now"}"#);
    let mut inserted = lines();
    inserted.insert(1, forged.entry(r#"{"what":"x"}"#));
    assert!(broken(&inserted).starts_with("line 3: its number is 2"));
    let mut doubled = lines();
    doubled.push(doubled[4].clone());
    assert_eq!(broken(&doubled), "line 6: lines were added after the seal");
}

#[test]
fn any_altered_byte_is_reported() {
    let whole = lines().concat().into_bytes();
    for at in 0..whole.len() {
        for bit in [1, 0x20] {
            let mut altered = whole.clone();
            altered[at] ^= bit;
            let line = 1 + whole[..at].iter().filter(|byte| **byte == b'\n').count();
            let told = verify(&altered).unwrap_err();
            let near = usize::try_from(told.line).unwrap();
            assert!((line..=line + 1).contains(&near), "byte {at} of line {line}: {told}");
        }
    }
}

#[test]
fn seal_with_another_count_is_reported() {
    let mut lines = lines();
    lines[4] = lines[4].replace("\"entries\":3", "\"entries\":2");
    assert_eq!(broken(&lines), "line 5: the seal does not match 3 entries: it was altered");
}

#[test]
fn text_that_is_no_trail_is_reported() {
    assert!(verify(b"").unwrap_err().what.starts_with("the seal is missing"));
    assert!(verify(b"hello\n").unwrap_err().what.starts_with("it is not JSON"));
    let mut chain = Chain::default();
    let told = verify(chain.entry("{}").as_bytes()).unwrap_err();
    assert_eq!(told.to_string(), "line 1: a line of kind \"entry\" is not allowed here");
}
