//! Records of older versions of the schema, read as if this version had written them: one step for
//! each version, and a record takes all that come after its own (spec 02, Encodings). A step never
//! fails; what is wrong with a record is said by whoever reads it afterwards.

use crate::envelope::SCHEMA_VERSION;
use crate::proto::v1 as pb;
use crate::proto::v1::record::Record as R;

/// From one version to the next one.
type Upgrade = fn(&mut R);

/// The steps, that from version 0 first.
const UPGRADES: [Upgrade; SCHEMA_VERSION as usize] = [from_0];

/// A record as this version would have written it. `version`: the one that wrote it, 0 when it does
/// not say.
pub(super) fn upgraded(image: R, version: u32) -> R {
    let mut image = image;
    let done = usize::try_from(version).unwrap_or(usize::MAX);
    for step in UPGRADES.iter().skip(done) {
        step(&mut image);
    }
    image
}

/// Before the overseer nothing was said of what was sent for an assignment and what was heard.
fn from_0(image: &mut R) {
    if let R::Assignment(assignment) = image
        && assignment.recovery.is_none()
    {
        let since = assignment.updated_unix_ms;
        assignment.recovery = Some(pb::Recovery {
            dispatched_unix_ms: since,
            consumed: assignment.status != "dispatched",
            last_activity_unix_ms: since,
            ..pb::Recovery::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(status: &str) -> R {
        R::Assignment(pb::Assignment {
            status: status.to_owned(),
            updated_unix_ms: 7,
            ..pb::Assignment::default()
        })
    }

    #[test]
    fn assignment_before_overseer_is_upgraded_with_defaults() {
        for (status, consumed) in [("dispatched", false), ("active", true)] {
            let R::Assignment(read) = upgraded(assignment(status), 0) else { panic!("a kind") };
            let told = read.recovery.clone().unwrap_or_default();
            assert_eq!((told.dispatched_unix_ms, told.last_activity_unix_ms), (7, 7));
            assert_eq!(told.consumed, consumed, "{status}");
            let again = upgraded(R::Assignment(read.clone()), 0);
            assert_eq!(again, R::Assignment(read), "once is enough");
        }
    }

    #[test]
    fn current_or_later_record_is_left_unchanged() {
        for version in [SCHEMA_VERSION, SCHEMA_VERSION + 1, u32::MAX] {
            assert_eq!(upgraded(assignment("active"), version), assignment("active"));
        }
    }
}
