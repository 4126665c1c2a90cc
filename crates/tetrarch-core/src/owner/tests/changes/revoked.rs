//! Approvals of people whose credential is revoked.

use super::{applied, apply, approve, ask, needing_two, person, refused, says, status};
use crate::audit::{Act, CredentialAct};
use crate::change::ChangeStatus;
use crate::id::RequestId;
use crate::ledger::Entry;
use crate::owner::Input;
use crate::owner::tests::fleet::{Fleet, human};
use crate::time::BusTime;

fn revoke(fleet: &mut Fleet, name: &str) -> Entry {
    let act = Act { what: "creds.revoke".to_owned(), about: name.to_owned(), credential: None };
    let id = RequestId::derive(BusTime(1), name, "creds.revoke", 0);
    let act = CredentialAct { id, by: human(), ends: Some(person(name)), act };
    fleet.one(Input::Credential(Box::new(act)))
}

#[test]
fn approval_of_a_revoked_person_is_withdrawn_and_others_stay() {
    let (mut fleet, _, waits) = needing_two();
    for name in ["Ada", "Ben"] {
        assert_eq!(fleet.op(&person(name), approve(&waits)).error, None);
    }
    assert_eq!(status(&fleet, &waits), ChangeStatus::Approved);
    revoke(&mut fleet, "Shai");
    assert_eq!(status(&fleet, &waits), ChangeStatus::Approved, "Shai approved nothing");
    let told = revoke(&mut fleet, "Ben");
    let told = format!("{:?}", told.mail);
    assert!(told.contains("the approval of human:Ben is withdrawn"), "{told}");
    assert_eq!(status(&fleet, &waits), ChangeStatus::Proposed);
    refused(&mut fleet, apply(&waits), "1 of 2 required approvals");
    assert_eq!(fleet.op(&person("Shai"), approve(&waits)).error, None);
    ask(&mut fleet, apply(&waits));
    revoke(&mut fleet, "Ada");
    assert_eq!(status(&fleet, &waits), ChangeStatus::Applying, "the order is given");
    says(&mut fleet, &waits, applied());
    assert_eq!(status(&fleet, &waits), ChangeStatus::Applied);
}
