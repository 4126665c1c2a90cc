//! Servers of an operator's own, as `tetrarch config server` configures them: one alone, or three
//! that form a cluster. They work below the fleet's directory and are killed with it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use tetrarch_bus::Bus;
use tetrarch_bus::retry::Retry;

use crate::fleet::{Fleet, nats_server};
use crate::program::Program;

/// Longest wait for a majority to choose a leader; a server takes 4 to 9 s.
const CHOSEN_WITHIN: Duration = Duration::from_secs(30);

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// One server.
#[derive(Debug)]
struct Seat {
    name: String,
    config: PathBuf,
    url: String,
    command: Vec<String>,
    running: Option<Program>,
}

/// The servers.
#[derive(Debug)]
pub struct Cluster {
    seats: Vec<Seat>,
}

impl Cluster {
    /// Starts so many servers that take a fleet's credentials, on the loopback address.
    ///
    /// # Panics
    /// They cannot be configured or started.
    #[must_use]
    pub fn start(fleet: &Fleet, servers: usize) -> Self {
        let within = vec![Vec::new(); servers];
        Self::start_at(fleet, &vec!["127.0.0.1".to_owned(); servers], &within)
    }

    /// Starts a server at each of these addresses, each by its own words before the command: what
    /// puts it into a network namespace.
    ///
    /// # Panics
    /// They cannot be configured or started.
    #[must_use]
    pub fn start_at(fleet: &Fleet, addresses: &[String], within: &[Vec<String>]) -> Self {
        let ports = free_ports(addresses.len() * 2);
        let (clients, peers) = ports.split_at(addresses.len());
        let routes: Vec<String> = addresses
            .iter()
            .zip(peers)
            .map(|(address, port)| format!("nats://{address}:{port}"))
            .collect();
        let mut seats = Vec::new();
        for (at, within) in within.iter().enumerate() {
            let name = format!("n{}", at + 1);
            let store = fleet.cwd().join(&name);
            std::fs::create_dir(&store).unwrap();
            let mut words: Vec<String> =
                ["config", "server", "--name", &name].iter().map(|&word| word.to_owned()).collect();
            words.extend(["--listen".to_owned(), format!("0.0.0.0:{}", clients[at])]);
            words.extend(["--store".to_owned(), store.join("store").display().to_string()]);
            if addresses.len() > 1 {
                words.extend(["--cluster-listen".to_owned(), format!("0.0.0.0:{}", peers[at])]);
                let routes = routes.iter().flat_map(|route| ["--route".to_owned(), route.clone()]);
                words.extend(routes);
            }
            let config = store.join("server.conf");
            let log = store.join("log");
            let text = fleet.ok(&words);
            let logged = format!("log_file: {:?}\nlogtime_utc: true\n", log.display().to_string());
            std::fs::write(&config, text + &logged).unwrap();
            let (url, command) =
                (format!("nats://{}:{}", addresses[at], clients[at]), within.clone());
            seats.push(Seat { name, config, url, command, running: None });
        }
        let mut cluster = Self { seats };
        for at in 0..cluster.seats.len() {
            cluster.restart(at);
        }
        cluster
    }

    /// The addresses for `bus.url`.
    #[must_use]
    pub fn urls(&self) -> String {
        self.seats.iter().map(|seat| seat.url.clone()).collect::<Vec<_>>().join(",")
    }

    /// The address of one of them.
    #[must_use]
    pub fn url(&self, at: usize) -> String {
        self.seats[at].url.clone()
    }

    /// Which of them leads a stream, waited for.
    ///
    /// # Panics
    /// None leads it in time.
    pub async fn leader(&self, bus: &Bus, stream: &str) -> usize {
        let mut retry = Retry::until(CHOSEN_WITHIN);
        loop {
            if let Ok(info) = bus.jetstream().get_stream(stream).await
                && let Some(cluster) = &info.cached_info().cluster
                && let Some(leader) = &cluster.leader
                && let Some(at) = self.seats.iter().position(|seat| seat.name == *leader)
                && self.seats[at].running.is_some()
            {
                return at;
            }
            assert!(retry.pause().await, "nobody leads {stream}");
        }
    }

    /// How long after a moment one was chosen to lead a stream, in seconds, as the servers' logs say it; none
    /// when they do not.
    ///
    /// # Panics
    /// The clock is before 1970.
    #[must_use]
    pub fn chosen(&self, stream: &str, after: SystemTime) -> Option<f64> {
        let logs = self
            .seats
            .iter()
            .filter_map(|seat| std::fs::read_to_string(seat.config.with_file_name("log")).ok());
        let at = |text: &str| {
            let line = text.lines().rfind(|line| {
                line.contains("new stream leader for") && line.contains(&format!("> {stream}'"))
            })?;
            // As in [7] 2026/11/24 20:14:24.123456 [INF], in UTC.
            let time = line.split(' ').nth(2)?.split(':');
            let parts: Vec<f64> = time.filter_map(|part| part.parse().ok()).collect();
            let [hours, minutes, seconds] = parts[..] else { return None };
            Some((hours * 60.0 + minutes) * 60.0 + seconds)
        };
        let since = after.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let later = logs.filter_map(|text| at(&text)).map(|at| (at - since).rem_euclid(DAY));
        later.filter(|later| *later < CHOSEN_WITHIN.as_secs_f64()).reduce(f64::max)
    }

    /// Stops one, or has it go on.
    pub fn signal(&self, at: usize, signal: Signal) {
        if let Some(running) = &self.seats[at].running {
            running.signal(signal);
        }
    }

    /// Kills one without notice.
    pub fn kill(&mut self, at: usize) {
        if let Some(running) = self.seats[at].running.take() {
            running.signal(Signal::KILL);
            drop(running.ended());
        }
    }

    /// Starts one again, with what it had.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn restart(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        let server = nats_server().unwrap_or_else(|| PathBuf::from("nats-server"));
        let words = seat.command.iter().cloned().chain([server.display().to_string()]);
        let mut words = words.collect::<Vec<_>>().into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg("-c").arg(&seat.config);
        seat.running = Some(Program::start(&mut command));
    }
}

/// Ports of this machine that nobody holds right now.
fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()).collect();
    held.iter().map(|one| one.local_addr().unwrap().port()).collect()
}
