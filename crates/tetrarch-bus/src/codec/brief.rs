//! Briefs, results and what they are made of.

use tetrarch_core::brief::{
    Artifact, Brief, Evidence, ExpectedOutput, Finding, Judgement, NodeInput, Outcome, RunResult,
    Runner, RunnerKind, Served, Tools, Usage, Verdict, Worktree,
};
use tetrarch_core::time::Millis;

use super::error::CodecError;
use super::{budget, read};
use crate::proto::v1 as pb;

/// What stands for any text in the place of a schema.
const TEXT: &str = "text";

/// A schema's text, when it is not just any text.
pub(super) fn schema(text: String) -> Option<String> {
    read::some(text).filter(|text| text != TEXT)
}

pub(super) fn names(tools: &Tools) -> Vec<String> {
    tools.names().map(str::to_owned).collect()
}

impl From<&Artifact> for pb::Artifact {
    fn from(artifact: &Artifact) -> Self {
        Self {
            name: artifact.name.clone(),
            sha256: artifact.sha256.clone(),
            size: artifact.size,
            media_type: artifact.media_type.clone(),
        }
    }
}

impl TryFrom<pb::Artifact> for Artifact {
    type Error = CodecError;
    fn try_from(artifact: pb::Artifact) -> Result<Self, CodecError> {
        let pb::Artifact { name, sha256, size, media_type } = artifact;
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if sha256.len() != 64 || !sha256.bytes().all(hex) {
            let reason = "expected 64 lower-case hexadecimal digits";
            return Err(CodecError::field("sha256", reason));
        }
        Ok(Self { name, sha256, size, media_type })
    }
}

impl From<Usage> for pb::Usage {
    fn from(usage: Usage) -> Self {
        let Usage { tokens_in, tokens_out, cost_micro, turns } = usage;
        Self { tokens_in, tokens_out, cost_micro, turns }
    }
}

impl From<pb::Usage> for Usage {
    fn from(usage: pb::Usage) -> Self {
        let pb::Usage { tokens_in, tokens_out, cost_micro, turns } = usage;
        Self { tokens_in, tokens_out, cost_micro, turns }
    }
}

/// Evidence, absent when there is none.
pub(super) fn evidence(evidence: &Evidence) -> Option<pb::Evidence> {
    let Evidence { files, commands, tests, commits } = evidence.clone();
    (!evidence.is_empty()).then_some(pb::Evidence { files, commands, tests, commits })
}

impl From<pb::Evidence> for Evidence {
    fn from(evidence: pb::Evidence) -> Self {
        let pb::Evidence { files, commands, tests, commits } = evidence;
        Self { files, commands, tests, commits }
    }
}

impl From<&Verdict> for pb::Verdict {
    fn from(verdict: &Verdict) -> Self {
        let finding = |finding: &Finding| pb::Finding {
            r#where: finding.place.clone(),
            what: finding.what.clone(),
            severity: finding.severity.clone(),
        };
        Self {
            verdict: verdict.judgement.as_str().to_owned(),
            findings: verdict.findings.iter().map(finding).collect(),
            evidence: None,
        }
    }
}

impl TryFrom<pb::Verdict> for Verdict {
    type Error = CodecError;
    fn try_from(verdict: pb::Verdict) -> Result<Self, CodecError> {
        let finding = |finding: pb::Finding| Finding {
            place: finding.r#where,
            what: finding.what,
            severity: finding.severity,
        };
        let judgement =
            read::word("verdict", &verdict.verdict, &Judgement::ALL, Judgement::as_str)?;
        Ok(Self { judgement, findings: verdict.findings.into_iter().map(finding).collect() })
    }
}

impl From<&RunResult> for pb::RunResult {
    fn from(result: &RunResult) -> Self {
        Self {
            outcome: result.outcome.as_str().to_owned(),
            deliverable: result.deliverable.clone(),
            partial: result.partial.clone(),
            artifacts: result.artifacts.iter().map(Into::into).collect(),
            usage: Some(result.usage.into()),
            evidence: evidence(&result.evidence),
            crystallization: result.crystallization.clone(),
            verdict: result.verdict.as_ref().map(Into::into),
            error: result.error.clone(),
        }
    }
}

impl TryFrom<pb::RunResult> for RunResult {
    type Error = CodecError;
    fn try_from(result: pb::RunResult) -> Result<Self, CodecError> {
        let mut evidence = result.evidence.map(Evidence::from).unwrap_or_default();
        if let Some(shown) = result.verdict.as_ref().and_then(|verdict| verdict.evidence.clone()) {
            evidence.files.extend(shown.files);
            evidence.commands.extend(shown.commands);
            evidence.tests.extend(shown.tests);
            evidence.commits.extend(shown.commits);
        }
        Ok(Self {
            outcome: read::word("outcome", &result.outcome, &Outcome::ALL, Outcome::as_str)?,
            deliverable: result.deliverable,
            partial: result.partial,
            artifacts: read::each("artifacts", result.artifacts)?,
            usage: result.usage.map(Usage::from).unwrap_or_default(),
            evidence,
            crystallization: result.crystallization,
            verdict: read::maybe("verdict", result.verdict)?,
            error: result.error,
        })
    }
}

impl From<&Runner> for pb::Runner {
    fn from(runner: &Runner) -> Self {
        Self {
            profile: runner.profile.to_string(),
            kind: runner.kind.as_str().to_owned(),
            argv: runner.argv.clone(),
            env: read::map(&runner.env),
            pass_env: runner.pass_env.clone(),
            writable: runner.writable.clone(),
            model: runner.model.clone(),
            prompt: runner.prompt.clone(),
            provider: runner.served.provider.clone(),
            base_url: runner.served.base_url.clone(),
            key_from: runner.served.key_from.clone(),
            max_output_tokens: runner.served.max_output_tokens,
            context_tokens: runner.served.context_tokens,
        }
    }
}

impl TryFrom<pb::Runner> for Runner {
    type Error = CodecError;
    fn try_from(runner: pb::Runner) -> Result<Self, CodecError> {
        Ok(Self {
            profile: read::text("profile", &runner.profile)?,
            kind: read::word("kind", &runner.kind, &RunnerKind::ALL, RunnerKind::as_str)?,
            argv: runner.argv,
            env: read::pairs(runner.env),
            pass_env: runner.pass_env,
            writable: runner.writable,
            model: runner.model,
            served: Served {
                provider: runner.provider,
                base_url: runner.base_url,
                key_from: runner.key_from,
                max_output_tokens: runner.max_output_tokens,
                context_tokens: runner.context_tokens,
            },
            prompt: runner.prompt,
        })
    }
}

impl From<&NodeInput> for pb::NodeInput {
    fn from(input: &NodeInput) -> Self {
        Self {
            node: input.node.to_string(),
            name: input.name.clone(),
            deliverable: input.deliverable.clone(),
            artifacts: input.artifacts.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::NodeInput> for NodeInput {
    type Error = CodecError;
    fn try_from(input: pb::NodeInput) -> Result<Self, CodecError> {
        Ok(Self {
            node: read::text("node", &input.node)?,
            name: input.name,
            deliverable: input.deliverable,
            artifacts: read::each("artifacts", input.artifacts)?,
        })
    }
}

impl From<&Brief> for pb::Brief {
    fn from(brief: &Brief) -> Self {
        Self {
            goal: brief.goal.clone(),
            key_facts: brief.key_facts.clone(),
            expected_output: match &brief.expected_output {
                ExpectedOutput::Text => TEXT.to_owned(),
                ExpectedOutput::Schema(schema) => schema.clone(),
            },
            success_criteria: brief.success_criteria.clone(),
            definition_of_done: brief.definition_of_done.clone(),
            tools: names(&brief.tools),
            workspace: brief.workspace.clone(),
            scope_paths: brief.scope_paths.clone(),
            budget: budget::written(brief.budget, brief.wall),
            turn_timeout_ms: brief.turn_timeout.map(|timeout| timeout.0),
            runner: Some((&brief.runner).into()),
            worktree: brief.worktree.as_str().to_owned(),
            inputs: brief.inputs.iter().map(Into::into).collect(),
            judges: read::show(brief.judges.as_ref()),
        }
    }
}

impl TryFrom<pb::Brief> for Brief {
    type Error = CodecError;
    fn try_from(brief: pb::Brief) -> Result<Self, CodecError> {
        let (limits, wall) = budget::read("budget", brief.budget)?;
        Ok(Self {
            goal: brief.goal,
            key_facts: brief.key_facts,
            expected_output: schema(brief.expected_output)
                .map_or(ExpectedOutput::Text, ExpectedOutput::Schema),
            success_criteria: brief.success_criteria,
            definition_of_done: brief.definition_of_done,
            tools: brief.tools.into_iter().collect(),
            workspace: brief.workspace,
            scope_paths: brief.scope_paths,
            budget: limits,
            wall,
            turn_timeout: brief.turn_timeout_ms.map(Millis),
            runner: read::message("runner", brief.runner)?,
            worktree: read::word("worktree", &brief.worktree, &Worktree::ALL, Worktree::as_str)?,
            inputs: read::each("inputs", brief.inputs)?,
            judges: read::optional("judges", &brief.judges)?,
        })
    }
}
