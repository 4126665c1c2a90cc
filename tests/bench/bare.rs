//! The floor under a latency: bare clients on a server of their own that pass messages of the
//! right sizes along the same chain of publishes, deliveries and commits as the contract asks
//! for, and do nothing else. What leads to what is in `step`; it decides nothing.

mod step;

use std::collections::HashMap;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use tetrarch_bus::Bus;
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::{LEDGER, REQUESTS};
use tetrarch_core::id::{AgentId, EpicId, HostName, Principal, ProjectName, RunId};
use tetrarch_core::limits::COMMIT_BYTES_MAX;
use tetrarch_core::mail::Lane;
use tetrarch_tests::Server;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval};

use crate::capture::Sizes;
use crate::fleet::{new_id, soon};
use crate::lead::{LEAVES, SCRIPT};
use crate::numbers::Samples;
use step::{Note, Step};

/// Results of workers that wait for a specialist.
const READY_MAX: usize = 8;

/// Bare clients on a server without a fleet.
pub(crate) struct Bare {
    client: Bus,
    mail: Subscriber,
    plans: Subscriber,
    sizes: watch::Sender<Sizes>,
    parts: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Bare {
    fn drop(&mut self) {
        for part in &self.parts {
            part.abort();
        }
    }
}

impl Bare {
    /// Clients in the places of the owner, of a host and of orchestrators. With `processes`
    /// agents are programs that are started.
    pub(crate) async fn on(server: &Server, processes: bool) -> Self {
        let nothing = Sizes { request: 0, entry: 0, mail: 0, cursor: 0, journal: 0, plan: 0 };
        let (sizes, told) = watch::channel(nothing);
        let owner = Owner::on(server, told.clone()).await;
        let voice = Voice { bus: server.control().await, sizes: told.clone() };
        let host_mail = voice.hears(&host()).await;
        let host = tokio::spawn(work_as_host(voice, host_mail, processes));
        let voice = Voice { bus: server.control().await, sizes: told };
        let (mail, plans) = (voice.hears(&orchestrator()).await, voice.plans().await);
        let orchestrator = tokio::spawn(work_as_orchestrator(voice, mail, plans));
        let voice = Voice { bus: server.control().await, sizes: sizes.subscribe() };
        let (mail, plans) = (voice.hears(&client()).await, voice.plans().await);
        let parts = vec![tokio::spawn(owner.work()), host, orchestrator];
        Self { client: voice.bus, mail, plans, sizes, parts }
    }

    /// Has everybody write messages of these sizes from now on.
    pub(crate) fn write(&self, sizes: Sizes) {
        self.sizes.send_replace(sizes);
    }

    fn voice(&self) -> Voice {
        Voice { bus: self.client.clone(), sizes: self.sizes.subscribe() }
    }

    /// Publish, deliver, commit, publish, deliver; at a steady rate that waits for nobody.
    pub(crate) async fn answers(&mut self, count: usize, every: Duration) -> Samples {
        let voice = self.voice();
        let asking = async {
            let mut sent = Vec::with_capacity(count);
            let mut beat = interval(every);
            for number in 0..count {
                beat.tick().await;
                sent.push(Instant::now());
                voice.ask(Note::of(Step::Ask, u32::try_from(number).unwrap_or(0))).await;
            }
            sent
        };
        let reading = async {
            let mut answered: HashMap<u32, Instant> = HashMap::new();
            while answered.len() < count {
                let message = self.mail.next().await.unwrap();
                let at = Instant::now();
                answered.insert(Note::read(&message.payload).unwrap().tree, at);
            }
            answered
        };
        let both = async { tokio::join!(asking, reading) };
        let (sent, answered) = soon("an answer to every bare request", both).await;
        let times = (0u32..).zip(sent).map(|(number, at)| answered[&number] - at);
        Samples::new(times.collect())
    }

    /// The chain of so many trees at once, each of `leads` specialists with three workers each.
    pub(crate) async fn trees(&mut self, count: u32, leads: u8) -> Duration {
        let voice = self.voice();
        let started = Instant::now();
        for tree in 0..count {
            for lead in 0..leads {
                voice.ask(Note { lead, ..Note::of(Step::Goal, tree) }).await;
            }
        }
        let mut left = usize::from(leads) * usize::try_from(count).unwrap_or(0);
        let reached = async {
            while left > 0 {
                let message = self.plans.next().await.unwrap();
                let note = Note::read(&message.payload);
                left -= usize::from(note.is_some_and(|note| note.step == Step::Done));
            }
        };
        soon("the end of every bare tree", reached).await;
        started.elapsed()
    }
}

fn host() -> Principal {
    Principal::Agent(AgentId::Ho(HostName::new("bare").unwrap()))
}

fn orchestrator() -> Principal {
    Principal::Agent(AgentId::Po(ProjectName::new("bare").unwrap()))
}

fn client() -> Principal {
    Principal::Agent(AgentId::Po(ProjectName::new("client").unwrap()))
}

/// What every bare client can do.
#[derive(Clone)]
struct Voice {
    bus: Bus,
    sizes: watch::Receiver<Sizes>,
}

impl Voice {
    async fn hears(&self, who: &Principal) -> Subscriber {
        self.listens(Subject::inbox(Lane::Mail, who)).await
    }

    async fn plans(&self) -> Subscriber {
        self.listens("plan.updated.*".to_owned()).await
    }

    async fn listens(&self, pattern: String) -> Subscriber {
        let heard = self.bus.client().subscribe(pattern).await.unwrap();
        self.bus.client().flush().await.unwrap();
        heard
    }

    fn sizes(&self) -> Sizes {
        *self.sizes.borrow()
    }

    /// Sends without waiting until it is stored.
    async fn send(&self, subject: &Subject, payload: Bytes) {
        let subject = subject.to_string();
        self.bus.start_publish(&subject, HeaderMap::new(), payload, None).await.unwrap();
    }

    /// Sends and waits until it is stored.
    async fn store(&self, subject: &Subject, payload: Bytes, expect: Option<u64>) -> u64 {
        let subject = subject.to_string();
        self.bus.publish_expect(&subject, HeaderMap::new(), payload, expect).await.unwrap()
    }

    async fn ask(&self, note: Note) {
        let subject = Subject::Report { from: client(), via: None };
        self.send(&subject, note.written(self.sizes().request)).await;
    }

    async fn write(&self, to: Principal, note: Note) {
        let subject = Subject::Mail { lane: Lane::Mail, to, from: AgentId::Go.into(), via: None };
        self.send(&subject, note.written(self.sizes().mail)).await;
    }

    async fn publish_plan(&self, note: Note) {
        let subject = Subject::PlanUpdated(EpicId(new_id().0));
        self.send(&subject, note.written(self.sizes().plan)).await;
    }
}

/// A bare client in the place of the owner.
struct Owner {
    voice: Voice,
    requests: pull::Stream,
    last: u64,
}

impl Owner {
    async fn on(server: &Server, sizes: watch::Receiver<Sizes>) -> Self {
        let bus = server.control().await;
        let stream = bus.jetstream().get_stream_no_info(REQUESTS).await.unwrap();
        let config = pull::Config {
            deliver_policy: DeliverPolicy::New,
            ack_policy: AckPolicy::None,
            memory_storage: true,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await.unwrap();
        let requests = consumer.messages().await.unwrap();
        let last = bus.stream_last_seq(LEDGER).await.unwrap();
        Self { voice: Voice { bus, sizes }, requests, last }
    }

    /// Commits what has arrived, one commit after the other, then sends what follows from it.
    async fn work(mut self) {
        while let Some(first) = self.requests.next().await {
            let mut notes: Vec<Note> = Note::read(&first.unwrap().payload).into_iter().collect();
            while let Some(Some(more)) = self.requests.next().now_or_never() {
                notes.extend(Note::read(&more.unwrap().payload));
            }
            if notes.is_empty() {
                continue;
            }
            let size = (self.voice.sizes().entry * notes.len()).min(COMMIT_BYTES_MAX);
            let entry = Bytes::from(vec![0; size]);
            self.last = self.voice.store(&Subject::Ledger, entry, Some(self.last)).await;
            let voice = self.voice.clone();
            drop(tokio::spawn(async move {
                join_all(notes.into_iter().map(|note| follow(&voice, note))).await;
            }));
        }
    }
}

/// What follows from a committed request.
async fn follow(voice: &Voice, note: Note) {
    match note.step {
        Step::Ask => voice.write(client(), note).await,
        Step::Goal => voice.publish_plan(note.at(Step::Planned)).await,
        Step::AskLead => launch(voice, note.at(Step::LaunchLead)).await,
        Step::AskLeaves => {
            let leaves = (0..LEAVES).map(|_| launch(voice, note.at(Step::LaunchLeaf)));
            join_all(leaves).await;
        }
        Step::LeafResult => voice.write(host(), note.at(Step::LeafReady)).await,
        Step::LeadResult => voice.publish_plan(note.at(Step::Reached)).await,
        Step::GoalResult => voice.publish_plan(note.at(Step::Done)).await,
        Step::Up
        | Step::Planned
        | Step::LaunchLead
        | Step::Sponsor
        | Step::LaunchLeaf
        | Step::LeafReady
        | Step::Reached
        | Step::Done => {}
    }
}

/// A sealed cursor, then the order to its host.
async fn launch(voice: &Voice, note: Note) {
    let cursor = Subject::Cursor(AgentId::Worker(new_id().0));
    voice.store(&cursor, note.written(voice.sizes().cursor), Some(0)).await;
    voice.write(host(), note).await;
}

async fn work_as_orchestrator(voice: Voice, mut mail: Subscriber, mut plans: Subscriber) {
    loop {
        let message = tokio::select! {
            Some(message) = mail.next() => message,
            Some(message) = plans.next() => message,
            else => return,
        };
        let Some(note) = Note::read(&message.payload) else { continue };
        let links = [
            (Step::Planned, Step::AskLead),
            (Step::Sponsor, Step::AskLeaves),
            (Step::Reached, Step::GoalResult),
        ];
        if let Some((_, next)) = links.into_iter().find(|(step, _)| *step == note.step) {
            voice.ask(note.at(next)).await;
        }
    }
}

async fn work_as_host(voice: Voice, mut mail: Subscriber, processes: bool) {
    let mut leads: HashMap<(u32, u8), mpsc::Sender<()>> = HashMap::new();
    while let Some(message) = mail.next().await {
        let Some(note) = Note::read(&message.payload) else { continue };
        if note.step == Step::LaunchLead {
            let (tell, ready) = mpsc::channel(READY_MAX);
            leads.insert((note.tree, note.lead), tell);
            drop(tokio::spawn(lead(voice.clone(), note, ready, processes)));
        } else if note.step == Step::LaunchLeaf {
            drop(tokio::spawn(leaf(voice.clone(), note, processes)));
        } else if note.step == Step::LeafReady {
            let lead = leads.get(&(note.tree, note.lead)).unwrap();
            lead.send(()).await.unwrap();
        }
    }
}

/// Claims a cursor and begins a journal; gives the run.
async fn begin(voice: &Voice, note: Note) -> Subject {
    let agent = AgentId::Worker(new_id().0);
    let run = Subject::Run { agent: agent.clone(), run: RunId(new_id().0) };
    let cursor = Subject::Cursor(agent);
    voice.store(&cursor, note.written(voice.sizes().cursor), Some(0)).await;
    journal(voice, &run, note).await;
    run
}

async fn journal(voice: &Voice, run: &Subject, note: Note) {
    voice.store(run, note.written(voice.sizes().journal), None).await;
}

async fn lead(voice: Voice, note: Note, mut ready: mpsc::Receiver<()>, processes: bool) {
    let run = begin(&voice, note).await;
    let mut program = if processes { Some(Program::start().await) } else { None };
    voice.ask(note.at(Step::Up)).await;
    voice.write(orchestrator(), note.at(Step::Sponsor)).await;
    for _ in 0..LEAVES {
        ready.recv().await.unwrap();
        if let Some(program) = &mut program {
            program.tell().await;
        }
    }
    if let Some(program) = program {
        program.end().await;
    }
    journal(&voice, &run, note).await;
    voice.ask(note.at(Step::LeadResult)).await;
}

async fn leaf(voice: Voice, note: Note, processes: bool) {
    let run = begin(&voice, note).await;
    if processes {
        assert!(Command::new("true").status().await.unwrap().success());
    }
    journal(&voice, &run, note).await;
    voice.ask(note.at(Step::LeafResult)).await;
}

/// A specialist's program, started without a runner.
struct Program {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    async fn start() -> Self {
        let piped = std::process::Stdio::piped;
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).stdin(piped()).stdout(piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        input.write_all(b"{}\n").await.unwrap();
        output.next_line().await.unwrap().unwrap();
        Self { child, input, output }
    }

    async fn tell(&mut self) {
        self.input.write_all(b"\"result.ready\"\n").await.unwrap();
    }

    async fn end(mut self) {
        self.output.next_line().await.unwrap().unwrap();
        assert!(self.child.wait().await.unwrap().success());
    }
}
