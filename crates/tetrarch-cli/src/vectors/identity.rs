//! Cases of identities (spec 03).

use serde_json::json;
use tetrarch_core::id::{AgentId, IdError};
use tetrarch_core::role::Role;

use crate::vectors::input::nothing_in;
use crate::vectors::input::{CaseError, CaseValue};
use crate::vectors::outcome::CaseOutcome;

pub(super) fn outcome(
    given: &CaseValue<'_>,
    when: &CaseValue<'_>,
) -> Result<CaseOutcome, CaseError> {
    nothing_in(when)?;
    let text = given.map(&["text"])?.need("text")?.text()?;
    Ok(match text.parse::<AgentId>() {
        Ok(id) => read(&id),
        Err(error) => refused(&error),
    })
}

fn read(id: &AgentId) -> CaseOutcome {
    let mut outcome = CaseOutcome::default();
    let role = Role::of(id);
    outcome.set_or("role", role.as_str(), &[json!(prefix(role))]);
    outcome.set("name", name(id)).set("canonical", id.to_string());
    outcome
}

/// How identities of a role begin, which also names the role.
fn prefix(role: Role) -> &'static str {
    match role {
        Role::Global => "GO",
        Role::Host => "HO",
        Role::Project => "PO",
        Role::Interaction => "IO",
        Role::Specialist => "S",
        Role::Reviewer => "R",
        Role::Worker => "W",
    }
}

/// The name the identity is bound to: host, project, human or domain; a worker has only its
/// own ULID, and GO nothing.
fn name(id: &AgentId) -> String {
    match id {
        AgentId::Go => String::new(),
        AgentId::Ho(host) => host.to_string(),
        AgentId::Po(project) => project.to_string(),
        AgentId::Io(human) => human.to_string(),
        AgentId::Specialist(domain, _) | AgentId::Reviewer(domain, _) => domain.to_string(),
        AgentId::Worker(ulid) => ulid.to_string(),
    }
}

fn refused(error: &IdError) -> CaseOutcome {
    let mut outcome = CaseOutcome::default();
    outcome.set_error("invalid_identity").set_detail(error.to_string());
    let position = match error {
        IdError::Empty { .. } => None,
        IdError::Character { found, position, .. } => {
            outcome.set("character", found.to_string());
            Some(*position)
        }
        IdError::TooLong { position, .. }
        | IdError::Form { position, .. }
        | IdError::Ulid { position, .. } => Some(*position),
    };
    if let Some(position) = position {
        outcome.set("position", position);
    }
    outcome
}
