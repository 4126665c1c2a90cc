//! `page`: the fleet in a browser on this machine (spec 08, Page). What is shown, and who may look, is
//! `tetrarch-page`'s; here it is joined to sockets and to the bus, with the credential of whoever started it.

mod answering;
mod keeping;
mod link;
mod live;
mod sources;

use std::io::ErrorKind;
use std::net::SocketAddr;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::answering::{PageServer, serve};
use self::link::PageLink;
use crate::output;
use crate::process::{announce, explained, stop_signal};
use crate::{CliError, CliResult, Code, Context};

pub(super) use self::link::{random, write_private};

/// Arguments of `page`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch page

`tetrarch up` serves the page by itself; this command serves it beside a bus that runs elsewhere. Whoever opens the printed link acts with the credential of
whoever started this command. The link is kept in the file page.link of the data directory; a page beside one that
runs has another link, which ends with it. The page listens at people.page_listen on this machine alone; reach it from elsewhere through ssh -L.")]
pub(crate) struct PageArgs {
    /// Stop at the end of standard input.
    #[arg(long, hide = true)]
    with_parent: bool,
}

/// Runs the command.
///
/// # Errors
/// The page is turned off, nobody can listen there, or the bus does not answer.
pub(crate) async fn run(context: &Context, args: PageArgs) -> CliResult {
    explained(args.with_parent, show(context, args)).await
}

async fn show(context: &Context, args: PageArgs) -> CliResult {
    let Some(wanted) = context.config.page_listen else {
        return Err(CliError::new(Code::Usage, "people.page_listen is off")
            .hint("name a loopback address with a port, such as 127.0.0.1:7878"));
    };
    let mut stop = stop_signal(args.with_parent)?;
    let client = context.client().await?;
    let listener = listen(wanted).await?;
    let at = listener.local_addr()?;
    let data_dir = &context.config.bus.data_dir;
    let held = link::hold(data_dir)?;
    let link = match &held {
        Some(_) => link::keep(data_dir, at)?,
        None => PageLink::fresh(at)?,
    };
    let mut tasks = JoinSet::new();
    let server = PageServer::start(client, at, &link, &mut tasks);
    if args.with_parent {
        output::text(&link.url)?;
        announce(watch::channel(true).1);
    } else {
        let value = json!({"event": "ready", "page": link.url, "human": context.human()?.as_str()});
        let line = format!("page: {}", link.url);
        let _unheard = output::item(context.output, &value, &line);
    }
    tracing::info!(%at, "the page is served");
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => Ok(()),
        () = serve(server, listener) => Ok(()),
    }
}

/// Listens at an address; when somebody else does, at a free port beside it.
async fn listen(wanted: SocketAddr) -> CliResult<TcpListener> {
    let refused = |error: std::io::Error| {
        let what = format!("people.page_listen {wanted}: {error}");
        CliError::new(Code::Failed, what).hint("name another loopback address or port, or off")
    };
    match TcpListener::bind(wanted).await {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let listener = TcpListener::bind((wanted.ip(), 0)).await.map_err(refused)?;
            tracing::warn!(taken = %wanted, at = %listener.local_addr()?, "the port of the page is taken; using a free one");
            Ok(listener)
        }
        listener => listener.map_err(refused),
    }
}
