//! Briefs, results and what they are made of.

use tetrarch_core::brief::{
    Artifact, Brief, Evidence, ExpectedOutput, Finding, Judgement, NodeInput, Outcome, RunResult,
    Runner, RunnerKind, Served, Tools, Usage, Verdict, Worktree,
};
use tetrarch_core::mcp::McpServer;
use tetrarch_core::permission::{PermissionAction, PermissionList, PermissionRule};

use super::error::CodecError;
use super::wire::{Wire, absent, kept, message, words};
use crate::proto::v1 as pb;

/// What stands for any text in the place of a schema.
const TEXT: &str = "text";

words!(Judgement, Outcome, PermissionAction, RunnerKind, Worktree);

/// A schema's text, when it is not just any text.
pub(super) mod schema {
    use super::{CodecError, TEXT, Wire};

    pub(in crate::codec) fn put(schema: &Option<String>) -> String {
        schema.put()
    }

    #[expect(clippy::unnecessary_wraps, reason = "fields are read alike")]
    pub(in crate::codec) fn get(_: &str, held: String) -> Result<Option<String>, CodecError> {
        Ok(Some(held).filter(|text| !text.is_empty() && text != TEXT))
    }
}

impl Wire<String> for ExpectedOutput {
    fn put(&self) -> String {
        match self {
            Self::Text => TEXT.to_owned(),
            Self::Schema(schema) => schema.clone(),
        }
    }

    fn get(held: String) -> Result<Self, CodecError> {
        Ok(schema::get("", held)?.map_or(Self::Text, Self::Schema))
    }
}

impl Wire<Vec<String>> for Tools {
    fn put(&self) -> Vec<String> {
        self.names().map(str::to_owned).collect()
    }

    fn get(held: Vec<String>) -> Result<Self, CodecError> {
        Ok(held.into_iter().collect())
    }
}

message!(Artifact, Artifact { name, sha256, size, media_type }, first: |it: &mut pb::Artifact| {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if it.sha256.len() == 64 && it.sha256.bytes().all(hex) {
        return Ok(());
    }
    Err(CodecError::field("sha256", "expected 64 lower-case hexadecimal digits"))
});

message!(Usage, Usage { tokens_in, tokens_out, cost_micro, turns });
message!(Evidence, Evidence { files, commands, tests, commits });
message!(Finding, Finding { place: r#where, what, severity });
message!(Verdict, Verdict { judgement: verdict, findings, evidence <- |_: &Self| None });

message!(RunResult, RunResult {
    outcome, deliverable, partial, artifacts, usage as kept, evidence as absent, crystallization,
    verdict, error,
}, first: |result: &mut pb::RunResult| {
    // What a judge shows stands beside its verdict or in it.
    if let Some(shown) = result.verdict.as_mut().and_then(|verdict| verdict.evidence.take()) {
        let evidence = result.evidence.get_or_insert_default();
        evidence.files.extend(shown.files);
        evidence.commands.extend(shown.commands);
        evidence.tests.extend(shown.tests);
        evidence.commits.extend(shown.commits);
    }
    Ok::<(), CodecError>(())
});

message! { Runner, Runner {
    profile, kind, argv, env, pass_env, writable, model,
    served: Served {
        provider: provider, base_url: base_url, key_from: key_from,
        max_output_tokens: max_output_tokens, context_tokens: context_tokens,
    },
    prompt, permissions, mcp_servers,
} }

message!(
    McpServer,
    McpServer {
        name,
        argv,
        env,
        pass_env,
        url,
        key_from,
        header,
        timeout: timeout_ms,
        required,
        trusted,
    }
);
message!(PermissionRule, PermissionRule { tool, words: r#match, action });
message!(PermissionList, PermissionList { rules });

message!(NodeInput, NodeInput { node, name, deliverable, artifacts });

message!(Brief, Brief {
    goal, key_facts, expected_output, success_criteria, definition_of_done, tools, workspace,
    scope_paths, (budget, wall): budget, turn_timeout: turn_timeout_ms, runner, worktree, inputs,
    judges,
});
