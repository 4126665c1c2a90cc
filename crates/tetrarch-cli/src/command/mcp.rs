//! `mcp`: the commands of this program as tools of the Model Context Protocol, for a person's assistant. Each call
//! runs the command with the person's own credential, so nothing is possible here that is not on the command line.

mod http;
mod tool;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};

use tetrarch_runner::tell_progress;

use crate::command::calling::{CalledProgram, CommandCall};
use crate::output::say;
use crate::process::stop_signal;
use crate::{CliError, CliResult, Code, Context};
use tool::CommandTool;

/// What a client tells its model of the tools together.
const INSTRUCTIONS: &str = "\
Tetrarch runs fleets of AI agents. `status` and `tree` show the fleet, `inbox` what waits for the person, `describe` and \
`why` explain one agent, run, goal, node, project or host. `goal_create` starts work: write a plan in the form that `schema` \
with PlanFile prints, and check it with `plan_check`. Approve only what the person has seen: `approve` takes the digest \
of the change that was shown.";

/// Arguments of `mcp`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch mcp                              # what an assistant starts: its standard input and output are the client's
  tetrarch mcp --read-only
  tetrarch mcp --http                       # for assistants that take an address and a header

With --http the address and the token are printed at the start, and kept in the file mcp.link of the data directory.")]
pub(crate) struct McpArgs {
    /// Offer only the tools that change nothing.
    #[arg(long)]
    read_only: bool,
    /// Serve over streamable HTTP, at a loopback address [default: 127.0.0.1:7879].
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = http::ADDRESS, value_parser = http::address)]
    http: Option<SocketAddr>,
}

/// Serves on standard input and output until the client ends them, or at an address until it is stopped.
///
/// # Errors
/// This program cannot be found, standard output is closed, or nobody can listen at the address.
pub(crate) async fn run(context: &Context, command: clap::Command, args: McpArgs) -> CliResult {
    let tools = tool::all(command, args.read_only);
    let server = AssistantMcp { tools: tools.into(), program: CalledProgram::own(context)? };
    let serving = async {
        if let Some(at) = args.http {
            return http::serve(context, server, at).await;
        }
        if std::io::stdin().is_terminal() {
            say("waiting for an assistant on standard input; see docs/assistants.md");
        }
        serve(server).await
    };
    let mut stop = stop_signal(false)?;
    tokio::select! {
        ended = serving => ended,
        _ = stop.wait_for(|stop| *stop) => Ok(()),
    }
}

async fn serve(server: AssistantMcp) -> CliResult {
    let failed = |what: String| CliError::new(Code::Failed, format!("mcp: {what}"));
    match server.serve(stdio()).await {
        Ok(serving) => serving.waiting().await.map(drop).map_err(|error| failed(error.to_string())),
        // A client that never says anything wants nothing.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The tools, and how their commands are run.
#[derive(Clone)]
struct AssistantMcp {
    tools: Arc<[CommandTool]>,
    program: CalledProgram,
}

impl ServerHandler for AssistantMcp {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("tetrarch", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(CommandTool::described).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name == request.name) else {
            let known: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
            let what =
                format!("{}: unknown tool; the tools are {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(what, None));
        };
        let line = match tool.line(&request.arguments.unwrap_or_default()) {
            Ok(line) => line,
            Err(wrong) => return Ok(refused(wrong).into()),
        };
        let call = CommandCall { of: &self.program, line };
        let outcome = tokio::select! {
            outcome = call.run() => outcome,
            () = tell_progress(&context.peer, context.meta.get_progress_token()) => Err("the client is gone".to_owned()),
            () = context.ct.cancelled() => Err("cancelled by the client".to_owned()),
        };
        Ok(outcome.map_or_else(refused, answered).into())
    }
}

fn refused(why: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

/// What a command printed: as text, and as data where it is JSON. Structured content is an object, so a list
/// becomes its `items`.
fn answered(printed: String) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.structured_content = match serde_json::from_str(&printed) {
        Ok(serde_json::Value::Array(items)) => Some(serde_json::json!({ "items": items })),
        Ok(object @ serde_json::Value::Object(_)) => Some(object),
        Ok(_) | Err(_) => None,
    };
    result.content = vec![ContentBlock::text(printed)];
    result.is_error = Some(false);
    result
}
