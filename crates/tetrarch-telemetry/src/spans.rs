//! The spans of agents' work: whose it is, and what its tools are called for.

use opentelemetry::trace::Status;
use tetrarch_core::brief::{Outcome, Runner, RunnerKind, Usage};
use tetrarch_core::converse::Call;
use tetrarch_core::id::{EpicId, NodeId};
use tracing::{Span, field, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::conventions::{
    AGENT_ID, AGENT_NAME, CANCELLED, CONVERSATION, CREATE_AGENT, ERROR_TYPE, EXECUTE_TOOL,
    FUNCTION, INPUT_TOKENS, INVOKE_AGENT, INVOKE_WORKFLOW, OPERATION, OUTPUT_TOKENS, PROVIDER,
    REQUEST_MODEL, TOOL_CALL_ARGUMENTS, TOOL_CALL_ID, TOOL_CALL_RESULT, TOOL_ERROR, TOOL_NAME,
    TOOL_TYPE, WORKFLOW_NAME, provider,
};
use crate::{content, tells_content, trace};

/// On whose behalf something is done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Whose {
    /// The agent's id.
    pub agent: String,
    /// What kind of agent it is: its profile.
    pub profile: String,
    /// The run, which is the conversation.
    pub run: String,
    /// What it is part of, a W3C `traceparent`; without one it is part of the current span.
    pub trace: Option<String>,
}

impl Whose {
    /// Makes a span part of this.
    pub(crate) fn mark(&self, span: &Span) {
        trace::follow(span, self.trace.as_deref());
        span.set_attribute(AGENT_ID, self.agent.clone());
        span.set_attribute(AGENT_NAME, self.profile.clone());
        span.set_attribute(CONVERSATION, self.run.clone());
    }
}

/// The span of a goal that somebody waits for; `name` tells one kind of goals from another.
#[must_use]
pub fn invoke_workflow(name: &str) -> Span {
    let span = info_span!(
        "invoke_workflow",
        otel.name = %format!("{INVOKE_WORKFLOW} {name}"),
    );
    span.set_attribute(OPERATION, INVOKE_WORKFLOW);
    span.set_attribute(WORKFLOW_NAME, name.to_owned());
    span
}

/// The span of a request for an agent that works on a node.
#[must_use]
pub fn create_agent(epic: EpicId, node: Option<NodeId>) -> Span {
    let span = info_span!(
        "create_agent",
        otel.kind = "client",
        tetrarch.epic = %epic,
        tetrarch.node = node.map(field::display),
    );
    span.set_attribute(OPERATION, CREATE_AGENT);
    span
}

/// The span of a run, as long as its agent's session works on it.
#[must_use]
pub fn invoke_agent(whose: &Whose, runner: &Runner, node: NodeId) -> Span {
    // What runs inside of the host is no other system that is called.
    let kind = match runner.kind {
        RunnerKind::Llm | RunnerKind::Echo => "internal",
        RunnerKind::Process
        | RunnerKind::External
        | RunnerKind::Claude
        | RunnerKind::Codex
        | RunnerKind::Acp
        | RunnerKind::Cli => "client",
    };
    let span = info_span!(
        "invoke_agent",
        otel.name = %format!("{INVOKE_AGENT} {}", whose.profile),
        otel.kind = kind,
        tetrarch.agent = %whose.agent,
        tetrarch.run = %whose.run,
        tetrarch.node = %node,
    );
    span.set_attribute(OPERATION, INVOKE_AGENT);
    whose.mark(&span);
    if !runner.served.provider.is_empty() {
        span.set_attribute(PROVIDER, provider(&runner.served.provider).to_owned());
    }
    if !runner.model.is_empty() {
        span.set_attribute(REQUEST_MODEL, runner.model.clone());
    }
    span
}

/// What a run ended with, for its span.
pub fn ended(span: &Span, outcome: Outcome, usage: &Usage) {
    span.set_attribute(INPUT_TOKENS, whole(usage.tokens_in));
    span.set_attribute(OUTPUT_TOKENS, whole(usage.tokens_out));
    if outcome != Outcome::Success {
        failed(span, outcome.as_str(), outcome.as_str());
    }
}

/// Says of a span that what it is of went wrong: of which kind that is, and in words.
pub(crate) fn failed(span: &Span, kind: &str, words: &str) {
    span.set_attribute(ERROR_TYPE, kind.to_owned());
    span.set_status(Status::error(words.to_owned()));
}

/// A number as spans have them.
pub(crate) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A tool that is called. One that is dropped before it ended was given up.
#[derive(Debug)]
pub struct ToolCall {
    span: Span,
    ended: bool,
}

impl ToolCall {
    /// It is called from now on.
    #[must_use]
    pub fn begin(whose: &Whose, call: &Call) -> Self {
        let span = info_span!("execute_tool", otel.name = %format!("{EXECUTE_TOOL} {}", call.tool));
        whose.mark(&span);
        span.set_attribute(OPERATION, EXECUTE_TOOL);
        span.set_attribute(TOOL_NAME, call.tool.clone());
        span.set_attribute(TOOL_TYPE, FUNCTION);
        span.set_attribute(TOOL_CALL_ID, call.id.clone());
        if tells_content() {
            span.set_attribute(TOOL_CALL_ARGUMENTS, content::json(&call.arguments));
        }
        Self { span, ended: false }
    }

    /// What it does happens in here.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// What came of it, in words, and whether that is an error.
    pub fn end(mut self, words: &str, is_error: bool) {
        self.ended = true;
        if is_error {
            failed(&self.span, TOOL_ERROR, "");
        }
        if tells_content() {
            self.span.set_attribute(TOOL_CALL_RESULT, content::text(words));
        }
    }

    /// It ended the run, so there is nobody to hear what came of it.
    pub fn end_run(mut self) {
        self.ended = true;
    }
}

impl Drop for ToolCall {
    fn drop(&mut self) {
        if !self.ended {
            failed(&self.span, CANCELLED, CANCELLED);
        }
    }
}
