//! A diff on a screen where people decide on it: all of it, or none and how it is decided on then. It must not show a
//! part that passes for the whole.

use tetrarch_core::id::ChangeId;

use crate::text::diff_for_people;

/// Bytes of the largest diff that a screen shows.
pub const DIFF_BYTES_MAX: u64 = 1024 * 1024;
/// Lines of the longest diff that a screen shows.
pub const DIFF_LINES_MAX: usize = 20_000;

/// Why a diff of so many bytes is not shown; none where its size does not forbid it.
#[must_use]
pub fn too_many_bytes(change: ChangeId, bytes: u64) -> Option<String> {
    (bytes > DIFF_BYTES_MAX).then(|| elsewhere(change, bytes, "bytes", DIFF_BYTES_MAX))
}

fn elsewhere(id: ChangeId, has: u64, what: &str, most: u64) -> String {
    format!(
        "the diff has {has} {what} and at most {most} are shown here; read it with `tetrarch change show {id}`, then \
         approve or deny {id} on the command line"
    )
}

/// All of a diff as people may see it.
///
/// # Errors
/// It is larger than what is shown; the text tells its size and the commands that decide on it.
pub fn whole_diff(change: ChangeId, diff: &str) -> Result<String, String> {
    let bytes = u64::try_from(diff.len()).unwrap_or(u64::MAX);
    if let Some(why) = too_many_bytes(change, bytes) {
        return Err(why);
    }
    let lines = diff.split_terminator('\n').count();
    if lines > DIFF_LINES_MAX {
        let [lines, most] = [lines, DIFF_LINES_MAX].map(|it| u64::try_from(it).unwrap_or(u64::MAX));
        return Err(elsewhere(change, lines, "lines", most));
    }
    Ok(diff_for_people(diff))
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::Ulid;

    use super::*;

    #[test]
    fn diff_is_shown_whole_up_to_its_bounds_and_not_above() {
        let id = ChangeId(Ulid::from_parts(1, 1));
        let most = usize::try_from(DIFF_BYTES_MAX).unwrap();
        for (diff, refused) in [
            ("x".repeat(most), None),
            ("x".repeat(most + 1), Some("has 1048577 bytes and at most 1048576")),
            ("x\n".repeat(DIFF_LINES_MAX), None),
            ("x\n".repeat(DIFF_LINES_MAX + 1), Some("has 20001 lines and at most 20000")),
            (String::new(), None),
        ] {
            match (whole_diff(id, &diff), refused) {
                (Ok(shown), None) => assert_eq!(shown.trim_end(), diff.trim_end()),
                (Err(why), Some(words)) => {
                    assert!(why.contains(words), "{why}");
                    for command in ["change show", "approve or deny"] {
                        assert!(why.contains(&format!("{command} {id}")), "{why}");
                    }
                }
                (shown, refused) => panic!("{:?} {refused:?}", shown.map(|it| it.len())),
            }
        }
    }
}
