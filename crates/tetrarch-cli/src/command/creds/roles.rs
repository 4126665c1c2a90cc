//! Roles of people, as `creds` reads them and asks for them (spec 09, On the bus). What a role may do is the bus's.

use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::subject::pattern::policy::Person;

use crate::{CliError, CliResult, Code};

/// Reads a role.
///
/// # Errors
/// It is none; says which there are.
pub(super) fn person(text: &str) -> Result<Person, String> {
    let all = Person::ALL.map(Person::as_str);
    let unknown = || format!("{text:?} is not a role of people: {}", all.join(", "));
    Person::ALL.into_iter().find(|person| person.as_str() == text).ok_or_else(unknown)
}

/// Refuses to choose a role for a person who has none yet: each gives power over the fleet that nobody asked for.
///
/// # Errors
/// It is a person, without a credential before, and no role is said.
pub(super) fn check_said(
    holder: &CredentialHolder,
    said: Option<Person>,
    has_one: bool,
) -> CliResult {
    match (holder, said) {
        (CredentialHolder::Human(_), None) if !has_one => {
            let all = Person::ALL.map(|person| format!("{} {}", person.as_str(), may(person)));
            let what = format!("{holder} has no role yet; roles: {}", all.join("; "));
            let hint =
                format!("say the role with --role: `tetrarch creds issue {holder} --role viewer`");
            Err(CliError::new(Code::Usage, what).hint(hint))
        }
        (
            CredentialHolder::Control
            | CredentialHolder::Host(_)
            | CredentialHolder::External(_)
            | CredentialHolder::Human(_),
            _,
        ) => Ok(()),
    }
}

/// What a person of a role may do, beside what the roles before it may.
fn may(person: Person) -> &'static str {
    match person {
        Person::Viewer => "reads",
        Person::Operator => "also starts, changes and ends work",
        Person::Approver => {
            "also decides what waits for a person, raises budgets, writes to agents"
        }
        Person::Admin => "also creates projects and changes profiles",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_credential_of_a_person_without_a_role_is_refused_with_the_roles() {
        let human = CredentialHolder::Human("finn".parse().unwrap());
        let refused = check_said(&human, None, false).unwrap_err();
        for person in Person::ALL {
            let role = format!("{} {}", person.as_str(), may(person));
            assert!(refused.what.contains(&role), "{refused}");
        }
        assert!(refused.hint.unwrap().contains("issue human:finn --role"));
        check_said(&human, Some(Person::Viewer), false).unwrap();
        check_said(&human, None, true).unwrap();
        check_said(&CredentialHolder::Host("h1".parse().unwrap()), None, false).unwrap();
    }
}
