//! Cases of identities (spec 03).

use serde_json::json;
use tetrarch_core::id::{AgentId, IdError};
use tetrarch_core::role::Role;

use crate::vectors::input::{CaseValue, nothing_in};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

pub(super) fn outcome(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    nothing_in(when)?;
    let text = given.keys("text")?.need("text")?.text()?;
    Ok(match text.parse::<AgentId>() {
        Ok(id) => read(&id),
        Err(error) => refused(&error),
    })
}

fn read(id: &AgentId) -> CaseOutcome {
    let role = Role::of(id);
    CaseOutcome::default()
        .set_or("role", role.as_str(), &[json!(prefix(role))])
        .set("name", name(id))
        .set("canonical", id.to_string())
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
    let outcome =
        CaseOutcome::default().set_error("invalid_identity").set_detail(error.to_string());
    match error {
        IdError::Empty { .. } => outcome,
        IdError::Character { found, position, .. } => {
            outcome.set("character", found.to_string()).set("position", *position)
        }
        IdError::TooLong { position, .. }
        | IdError::Form { position, .. }
        | IdError::Ulid { position, .. } => outcome.set("position", *position),
    }
}
