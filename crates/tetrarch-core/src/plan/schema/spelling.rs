//! Which key of a plan file is meant by one that there is not: other tools' words for it, or one that is
//! almost spelled so.

/// Words of other tools, and what they are called here.
const ELSEWHERE: [(&str, &[&str]); 16] = [
    ("depends_on", &["deps"]),
    ("dependsOn", &["deps"]),
    ("dependencies", &["deps"]),
    ("needs", &["deps"]),
    ("after", &["deps"]),
    ("cmd", &["run", "argv"]),
    ("command", &["run", "argv"]),
    ("script", &["run", "argv"]),
    ("args", &["argv"]),
    ("timeout", &["wall"]),
    ("retries", &["maxAttempts", "maxRetries"]),
    ("criteria", &["acceptance"]),
    ("description", &["objective", "problemStatement"]),
    ("steps", &["tasks"]),
    ("stages", &["phases"]),
    ("agent", &["profile"]),
];
/// Least likeness of two words, from 0 to 1, of which one is taken for the other.
const ALIKE: f64 = 0.75;

/// The key that was meant, when one can tell.
pub(in crate::plan) fn meant<'a>(given: &str, keys: &[&'a str]) -> Option<&'a str> {
    let words =
        ELSEWHERE.iter().find(|(word, _)| *word == given).map_or(&[][..], |(_, words)| words);
    let known = words.iter().find_map(|word| keys.iter().find(|key| *key == word));
    known.copied().or_else(|| nearest(given, keys, ALIKE))
}

/// The word that is most like one that was given, when it is at least so like it, from 0 to 1.
#[must_use]
pub fn nearest<'a>(given: &str, words: &[&'a str], least: f64) -> Option<&'a str> {
    // What is much longer is not alike, and comparing it takes long.
    let words = words.iter().filter(|word| given.len() < 2 * word.len());
    let likeness = |word: &&str| strsim::normalized_damerau_levenshtein(given, word);
    let (most, found) =
        words.map(|word| (word, likeness(word))).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (found >= least).then_some(*most)
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn known_synonym_or_typo_is_suggested_and_nothing_else() {
        let task = ["id", "name", "deps", "profile", "acceptance", "wall", "outputSchema"];
        for (given, key) in [
            ("depends_on", Some("deps")),
            ("profil", Some("profile")),
            ("nmae", Some("name")),
            ("aceptance", Some("acceptance")),
            ("outputschema", Some("outputSchema")),
            ("timeout", Some("wall")),
            ("cmd", None),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(meant(given, &task), key, "{given}");
        }
        assert_eq!(meant("cmd", &["argv"]), Some("argv"));
        assert_eq!(meant("cmd", &["argv", "run"]), Some("run"));
    }
}
