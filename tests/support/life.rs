//! A long life in a short time: an owner that decides on one small request after the other, with
//! snapshots, trimming and forgetting set to seconds instead of days, restarted from time to time.
//! It measures and judges nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::state::{load, load_meta};
use tetrarch_bus::subject::pattern::{LEDGER, MAIL, REQUESTS, STATE};
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_bus::{Bus, codec};
use tetrarch_core::agent::Mode;
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::Limits;
use tetrarch_core::id::{HumanName, Principal, ProjectName, RequestId, Ulid};
use tetrarch_core::owner::{Kept, Policy};
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{Op, ProjectCreate};
use tetrarch_core::snapshot::Retention;
use tetrarch_core::time::Millis;
use tetrarch_engine::GlobalConfig;

use crate::owner::Owner;
use crate::server::Server;
use crate::wait::soon;

/// Requests that are on their way at once. Few, so that most entries cover one.
const AT_ONCE: usize = 1;
/// Requests between two looks at how far the owner is.
const ROUND: usize = 256;
/// How long an owner may take to start: STATE has markers of two minutes.
const RESTART_MAX: Duration = Duration::from_secs(300);
/// Requests that may wait for the owner.
const BEHIND_MAX: u64 = 512;

/// How long the life is.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    /// Entries of the ledger.
    pub entries: u64,
    /// Entries between two looks; at each the owner is restarted.
    pub look_every: u64,
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// How long the ledger and what is decided are kept.
    pub kept: Millis,
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct Look {
    /// The ledger's last sequence.
    pub entries: u64,
    /// Time since the beginning.
    pub at: Duration,
    /// Entries the ledger still has.
    pub kept: u64,
    /// Messages of STATE, markers of what was dropped among them.
    pub state: u64,
    /// Records among them.
    pub records: usize,
    /// Memory of this process, in KiB.
    pub memory: u64,
    /// Everything the server has on disk, in KiB.
    pub disk: u64,
    /// From the start of an owner to its first commit.
    pub restart: Duration,
}

impl Life {
    /// Lives it on a server of its own; `see` is given what was seen at each look. Mail and requests
    /// that are handled are purged, as their age would have them go in a life of this length.
    pub async fn live(&self, server: &Server, mut see: impl FnMut(&Look)) -> Vec<Look> {
        let began = Instant::now();
        let control = server.control().await;
        let mut owner = Owner::start(server, self.config()).await;
        owner.until_ready().await;
        let mut asking = Asking::begin(server).await;
        let mut looks = Vec::new();
        let mut next = self.look_every;
        loop {
            let last = asking.round(&control).await;
            if last < next {
                continue;
            }
            next += self.look_every;
            let look = self.look(server, &control, owner, began).await;
            see(&look.0);
            looks.push(look.0);
            owner = look.1;
            if last >= self.entries {
                owner.stop().await;
                return looks;
            }
        }
    }

    fn config(&self) -> GlobalConfig {
        let kept = self.kept;
        let retention =
            Retention { ledger: kept, entries: self.snapshot_every, ..Retention::default() };
        let kept = Kept {
            decisions: kept,
            ended: kept,
            goals: kept,
            within: Millis(1_000),
            ..Kept::default()
        };
        // One sender asks as fast as it is answered.
        let requests_per_second = 1_000_000;
        let policy = Policy { kept, requests_per_second, ..Policy::default() };
        GlobalConfig { retention, policy, ..Owner::config("life", 10) }
    }

    async fn look(
        &self,
        server: &Server,
        control: &Bus,
        owner: Owner,
        began: Instant,
    ) -> (Look, Owner) {
        owner.stop().await;
        let started = Instant::now();
        let mut owner = Owner::start(server, self.config()).await;
        let ready = owner.ready.wait_for(|ready| *ready);
        assert!(
            tokio::time::timeout(RESTART_MAX, ready).await.is_ok(),
            "no owner in {RESTART_MAX:?}"
        );
        let restart = started.elapsed();
        let ledger = control.stream_extent(LEDGER).await.unwrap();
        let state = control.stream_messages(STATE).await.unwrap();
        let look = Look {
            entries: ledger.last,
            at: began.elapsed(),
            kept: ledger.last + 1 - ledger.first,
            state,
            records: load(control).await.records.len(),
            memory: memory(),
            disk: disk(server.data_dir()) / 1024,
            restart,
        };
        (look, owner)
    }
}

/// A human who changes a project's mode, again and again.
struct Asking {
    bus: Bus,
    from: Principal,
    project: ProjectName,
    asked: u128,
}

impl Asking {
    async fn begin(server: &Server) -> Self {
        let human = HumanName::new("ada").unwrap();
        let bus = server.bus(&CredentialHolder::Human(human.clone())).await;
        let project = ProjectName::new("life").unwrap();
        let mut asking = Self { bus, from: Principal::Human(human), project, asked: 0 };
        let create = Op::ProjectCreate(ProjectCreate {
            project: asking.project.clone(),
            mode: Mode::Solo,
            external: true,
            tools: Tools::default(),
            budget: Limits::default(),
            local_max_depth: None,
            placement: PlacementWish::default(),
        });
        asking.ask(&create).await;
        asking
    }

    async fn ask(&mut self, op: &Op) {
        self.asked += 1;
        let id = RequestId(Ulid(self.asked));
        send(&self.bus, &self.from, op, id).await;
    }

    /// Asks for a while, lets the owner catch up, and has what is handled go; gives the ledger's
    /// last sequence.
    async fn round(&mut self, control: &Bus) -> u64 {
        for _ in 0..ROUND / AT_ONCE {
            let first = self.asked + 1;
            let ids = (0..AT_ONCE as u128).map(|one| RequestId(Ulid(first + one)));
            self.asked += AT_ONCE as u128;
            let (bus, from, project) = (&self.bus, &self.from, &self.project);
            join_all(ids.map(|id| async move {
                let mode = if id.0.0.is_multiple_of(2) { Mode::Solo } else { Mode::Tight };
                let op = Op::ProjectMode { project: project.clone(), mode };
                send(bus, from, &op, id).await;
            }))
            .await;
        }
        soon("an owner that keeps up", self.handled(control)).await;
        control.stream_last_seq(LEDGER).await.unwrap()
    }

    async fn handled(&self, control: &Bus) {
        loop {
            let decided = load_meta(control).await.unwrap().map_or(0, |meta| meta.intake_seq);
            let last = control.stream_last_seq(REQUESTS).await.unwrap();
            if last - decided <= BEHIND_MAX {
                control.purge(REQUESTS, None, Some(decided)).await.unwrap();
                let mail = control.stream_last_seq(MAIL).await.unwrap();
                control.purge(MAIL, None, Some(mail)).await.unwrap();
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn send(bus: &Bus, from: &Principal, op: &Op, id: RequestId) {
    let subject = Subject::Op { op: OpName::of(op), from: from.clone(), via: None };
    let envelope = Envelope { msg_id: Some(id.to_string()), ..Envelope::default() };
    let payload = codec::encode_op(op, id).unwrap();
    let headers = envelope.headers(&subject);
    bus.publish_expect(&subject.to_string(), headers, payload.into(), None).await.unwrap();
}

/// Resident memory of this process, in KiB.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Bytes of all files below a directory. One that goes meanwhile counts for nothing.
fn disk(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => disk(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
