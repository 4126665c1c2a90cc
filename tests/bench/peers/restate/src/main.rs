//! The same work as `tests/bench`, done by Restate: a server process with its defaults beside a service of its
//! Rust SDK in this process, asked through the server's ingress.
//!
//! `restate-peer SERVER DIRECTORY [ROUNDS]`: the server's program, a directory for its data that does not exist,
//! rounds of each measurement. Prints a row of the table for each figure.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use restate_sdk::ingress::ReqwestClient;
use restate_sdk::prelude::*;

/// Levels below the root of a tree: 1 + 3 + 9 + 27 nodes.
const LEVELS: u32 = 3;
/// Children of a node, the width that Tetrarch allows.
const CHILDREN: u32 = 3;
/// Lives that are in flight when their rate is measured, as many as Tetrarch's requesters.
const REQUESTERS: usize = 64;
/// Lives of one round.
const LIVES: usize = 6_400;
/// Time between two requests of which the latency is measured, as in `tests/bench/spawning.rs`.
const EVERY: Duration = Duration::from_millis(25);
/// Requests of one round of latencies.
const REQUESTS: usize = 200;
/// Longest start of the server.
const START: Duration = Duration::from_secs(60);

type Failure = Box<dyn Error + Send + Sync>;

struct Agent;

#[service]
impl Agent {
    /// An agent that ends at once.
    #[handler]
    async fn live(&self, _ctx: Context<'_>, number: u32) -> HandlerResult<u32> {
        Ok(number)
    }

    /// A node of a tree: asks for its children and answers with the nodes below it and itself.
    #[handler]
    async fn grow(&self, ctx: Context<'_>, levels: u32) -> HandlerResult<u32> {
        if levels == 0 {
            return Ok(1);
        }
        let child = ctx.service_client::<AgentClient>();
        let children: Vec<_> = (0..CHILDREN).map(|_| child.grow(levels - 1).call()).collect();
        let mut nodes = 1;
        for child in children {
            nodes += child.await?;
        }
        Ok(nodes)
    }
}

/// A running server, killed at its end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only for a process that is gone.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (Some(program), Some(dir)) = (args.next(), args.next()) else {
        return Err("usage: restate-peer SERVER DIRECTORY [ROUNDS]".into());
    };
    let rounds: usize = args.next().map_or(Ok(7), |rounds| rounds.parse())?;
    let [service, ingress, admin, fabric] = ports()?;
    let endpoint = HttpServer::new(Endpoint::builder().bind(Agent).build());
    tokio::spawn(endpoint.listen_and_serve(SocketAddr::from((Ipv4Addr::LOCALHOST, service))));
    let _server = start(&program, Path::new(&dir), ingress, admin, fabric)?;
    register(admin, service).await?;
    let client = ReqwestClient::connect(format!("http://127.0.0.1:{ingress}").parse()?)?;
    assert_eq!(AgentIngressClient::from_client(client.clone()).grow(LEVELS).call().await?.into_body()?, 40);
    let [mut accepted, mut lived, mut lives, mut tree, mut trees] = [const { Vec::new() }; 5];
    for _ in 0..rounds {
        accepted.push(idle(&client, false).await?);
        lived.push(idle(&client, true).await?);
        lives.push(rate(&client).await?);
        tree.push(one_tree(&client).await?);
        trees.push(forest(&client).await?);
    }
    row("request to accepted, idle, p50, ms", &mut accepted);
    row("whole life of a child, idle, p50, ms", &mut lived);
    row("whole lives a second, 64 in flight", &mut lives);
    row("40-node tree, request to result, ms", &mut tree);
    row("40-node trees a second, 16 at once", &mut trees);
    Ok(())
}

/// Four ports that were free a moment ago.
fn ports() -> Result<[u16; 4], Failure> {
    let held: Vec<_> =
        (0..4).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    let free: Vec<u16> =
        held.iter().map(|held| held.local_addr().map(|at| at.port())).collect::<Result<_, _>>()?;
    free.try_into().map_err(|_| "four ports were asked for".into())
}

/// Starts a server with its defaults, of which only ports and the directory are changed.
fn start(program: &str, dir: &Path, ingress: u16, admin: u16, fabric: u16) -> Result<Server, Failure> {
    std::fs::create_dir(dir)?;
    let log = std::fs::File::create(dir.join("log"))?;
    let server = Command::new(program)
        .args(["--no-logo", "--node-name", "peer", "--listen-mode", "tcp", "--bind-ip", "127.0.0.1"])
        .args(["--bind-port", &fabric.to_string()])
        .env("RESTATE_BASE_DIR", dir)
        .env("RESTATE_INGRESS__BIND_PORT", ingress.to_string())
        .env("RESTATE_ADMIN__BIND_PORT", admin.to_string())
        .stdout(log.try_clone()?)
        .stderr(log)
        .stdin(Stdio::null())
        .spawn()?;
    Ok(Server(server))
}

/// Tells the server of the service as soon as it takes calls.
async fn register(admin: u16, service: u16) -> Result<(), Failure> {
    let began = Instant::now();
    let body = format!(r#"{{"uri": "http://127.0.0.1:{service}/"}}"#);
    let mut again = tokio::time::interval(Duration::from_millis(100));
    loop {
        again.tick().await;
        let call = reqwest::Client::new().post(format!("http://127.0.0.1:{admin}/deployments"));
        let answer = call.header("content-type", "application/json").body(body.clone()).send().await;
        match answer {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            other if began.elapsed() > START => {
                return Err(format!("the server does not take the service: {other:?}").into());
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// The median of one request every 25 ms, each to its acceptance or to its result, in milliseconds.
async fn idle(client: &ReqwestClient, whole: bool) -> Result<f64, Failure> {
    let mut every = tokio::time::interval(EVERY);
    let mut open = Vec::new();
    for number in 0..REQUESTS {
        every.tick().await;
        let agent = AgentIngressClient::from_client(client.clone());
        open.push(tokio::spawn(async move {
            let (began, number) = (Instant::now(), number as u32);
            if whole {
                let answer = agent.live(number).call().await?.into_body()?;
                assert_eq!(answer, number);
            } else {
                agent.live(number).send().await?;
            }
            Ok::<_, Failure>(began.elapsed().as_secs_f64() * 1e3)
        }));
    }
    let mut taken = Vec::new();
    for one in open {
        taken.push(one.await??);
    }
    Ok(median(&mut taken))
}

/// Lives a second, each of 64 requesters asking again as soon as its last one ended.
async fn rate(client: &ReqwestClient) -> Result<f64, Failure> {
    let began = Instant::now();
    let mut open = Vec::new();
    for _ in 0..REQUESTERS {
        let agent = AgentIngressClient::from_client(client.clone());
        open.push(tokio::spawn(async move {
            for number in 0..(LIVES / REQUESTERS) as u32 {
                assert_eq!(agent.live(number).call().await?.into_body()?, number);
            }
            Ok::<_, Failure>(())
        }));
    }
    for one in open {
        one.await??;
    }
    Ok(LIVES as f64 / began.elapsed().as_secs_f64())
}

/// The median of nine trees, one after the other, in milliseconds.
async fn one_tree(client: &ReqwestClient) -> Result<f64, Failure> {
    let agent = AgentIngressClient::from_client(client.clone());
    let mut taken = Vec::new();
    for _ in 0..9 {
        let began = Instant::now();
        assert_eq!(agent.grow(LEVELS).call().await?.into_body()?, 40);
        taken.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&mut taken))
}

/// Trees a second, 16 that start at once.
async fn forest(client: &ReqwestClient) -> Result<f64, Failure> {
    let began = Instant::now();
    let mut open = Vec::new();
    for _ in 0..16 {
        let agent = AgentIngressClient::from_client(client.clone());
        let tree = async move { agent.grow(LEVELS).call().await?.into_body().map_err(Failure::from) };
        open.push(tokio::spawn(tree));
    }
    for one in open {
        assert_eq!(one.await??, 40);
    }
    Ok(16.0 / began.elapsed().as_secs_f64())
}

fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Median of the rounds, smallest and largest.
fn row(what: &str, of: &mut [f64]) {
    let middle = median(of);
    println!("| {what} | {middle:.2} ({:.2} .. {:.2}) |", of[0], of[of.len() - 1]);
}
