//! What a worker's program wrote about itself: the judge of whether work was lost or done twice.

use std::collections::BTreeSet;
use std::path::Path;

/// Steps of a program.
pub(crate) const STEPS: u64 = 5;
/// Sessions of a worker at most: the first, the one after its turn, and one for each of two faults.
const SESSIONS_MAX: u64 = 4;

/// Whether step `done` of a program is recorded.
pub(crate) fn has_saved(path: &Path, done: u64) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| line.starts_with(&format!("saved {done} ")))
}

/// Each session began once, one after the other; every step was made in order, and none again that
/// its session knew to be recorded.
///
/// # Panics
/// It was not so.
pub(crate) fn assert_made_once(path: &Path, said: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let (mut begun, mut saved) = (BTreeSet::new(), 0);
    let (mut made, mut session) = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, step, epoch] = words.as_slice() else { panic!("{said}: {text}") };
        let (step, epoch): (u64, u64) = (step.parse().unwrap(), epoch.parse().unwrap());
        assert!(epoch >= session, "{said}: two sessions at once\n{text}");
        session = epoch;
        match *what {
            "begun" => assert!(begun.insert(epoch), "{said}: started twice\n{text}"),
            "made" => {
                assert!(step > saved, "{said}: made again\n{text}");
                assert!(step == made || step == made + 1, "{said}: left out\n{text}");
                made = step;
            }
            "saved" => saved = step,
            other => panic!("{said}: {other}\n{text}"),
        }
    }
    assert_eq!(made, STEPS, "{said}\n{text}");
    assert!(session <= SESSIONS_MAX, "{said}: more sessions than faults\n{text}");
}
