//! Handoffs: their records.

use tetrarch_core::crystallization::{Crystallization, Handoff, References, Source};
use tetrarch_core::time::BusTime;

use super::brief::evidence;
use super::error::CodecError;
use super::read;
use crate::proto::v1 as pb;

impl From<&Crystallization> for pb::Crystallization {
    fn from(it: &Crystallization) -> Self {
        let said = it.handoff.clone();
        Self {
            id: it.id.to_string(),
            epic_id: it.epic.to_string(),
            node: read::show(it.node.as_ref()),
            source: it.source.as_str().to_owned(),
            at_unix_ms: it.at.0,
            summary: said.summary,
            current_state: said.current_state,
            decisions: said.decisions,
            next_actions: said.next_actions,
            open_questions: said.open_questions,
            known_blockers: said.known_blockers,
            evidence: evidence(&said.evidence),
            prs: said.references.prs,
            issues: said.references.issues,
            external_refs: said.references.external,
            agent: read::show(it.agent.as_ref()),
            session: read::show(it.session.as_ref()),
            run: read::show(it.run.as_ref()),
        }
    }
}

impl TryFrom<pb::Crystallization> for Crystallization {
    type Error = CodecError;
    fn try_from(it: pb::Crystallization) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &it.id)?,
            epic: read::text("epic_id", &it.epic_id)?,
            node: read::optional("node", &it.node)?,
            source: read::word("source", &it.source, &Source::ALL, Source::as_str)?,
            at: BusTime(it.at_unix_ms),
            handoff: Handoff {
                summary: it.summary,
                current_state: it.current_state,
                decisions: it.decisions,
                next_actions: it.next_actions,
                open_questions: it.open_questions,
                known_blockers: it.known_blockers,
                evidence: it.evidence.map(Into::into).unwrap_or_default(),
                references: References {
                    prs: it.prs,
                    issues: it.issues,
                    external: it.external_refs,
                },
            },
            agent: read::optional("agent", &it.agent)?,
            session: read::optional("session", &it.session)?,
            run: read::optional("run", &it.run)?,
        })
    }
}
