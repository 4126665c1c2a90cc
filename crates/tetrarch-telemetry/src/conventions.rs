//! The words of OpenTelemetry's conventions for generative AI, all of one version, and nowhere else: the conventions
//! are in development and change their words from version to version
//! ([decision 0048](../../../docs/decisions/0048-the-words-of-telemetry-are-of-one-version.md)).

/// The schema of the version of <https://github.com/open-telemetry/semantic-conventions> that is meant.
pub(crate) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const CHAT: &str = "chat";
pub(crate) const CREATE_AGENT: &str = "create_agent";
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
pub(crate) const INVOKE_WORKFLOW: &str = "invoke_workflow";

pub(crate) const AGENT_ID: &str = "gen_ai.agent.id";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(crate) const WORKFLOW_NAME: &str = "gen_ai.workflow.name";

pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const OUTPUT_TYPE: &str = "gen_ai.output.type";
pub(crate) const OUTPUT_JSON: &str = "json";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const SERVER_ADDRESS: &str = "server.address";
pub(crate) const SERVER_PORT: &str = "server.port";

pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
/// A tool that is called where the agent runs.
pub(crate) const FUNCTION: &str = "function";

pub(crate) const ERROR_TYPE: &str = "error.type";
/// It was given up before its end.
pub(crate) const CANCELLED: &str = "cancelled";
/// The tool says that it failed.
pub(crate) const TOOL_ERROR: &str = "tool_error";

/// What only those are told who ask for it: what was said.
pub(crate) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";

pub(crate) const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";
pub(crate) const OPERATION_DURATION_BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
pub(crate) const TOKEN_USAGE: &str = "gen_ai.client.token.usage";
pub(crate) const TOKEN_USAGE_BOUNDS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const INPUT: &str = "input";
pub(crate) const OUTPUT: &str = "output";

/// A provider's name as the conventions have it; its own where they have none.
pub(crate) fn provider(name: &str) -> &str {
    match name {
        "openai_resp" => "openai",
        "gemini" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        own => own,
    }
}
