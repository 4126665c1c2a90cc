//! An owner in a test's own process: started on a server, waited for, stopped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::time::Duration;

use tetrarch_bus::topology::Ages;
use tetrarch_core::owner::Policy;
use tetrarch_core::snapshot::Retention;
use tetrarch_core::sweep::MassPolicy;
use tetrarch_engine::{EngineError, GlobalConfig, serve_global};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::server::Server;
use crate::wait::soon;

/// A running owner.
#[derive(Debug)]
pub struct Owner {
    stop: watch::Sender<bool>,
    /// Whether its first commit is in.
    pub ready: watch::Receiver<bool>,
    /// Its end.
    pub task: JoinHandle<Result<(), EngineError>>,
}

impl Owner {
    /// What an owner is told when a test does not care, with a lease of this time to live.
    #[must_use]
    pub fn config(instance: &str, ttl_secs: u32) -> GlobalConfig {
        GlobalConfig {
            instance: instance.to_owned(),
            data_dir: None,
            address: "here".to_owned(),
            ttl_secs,
            window: Duration::from_secs(5),
            register_deadline: Duration::from_secs(30),
            mass: MassPolicy::default(),
            replicas: 1,
            policy: Policy::default(),
            planner: None,
            halted: watch::channel(None).1,
            reloads: watch::channel(None).1,
            tick_every: Some(Duration::from_secs(120)),
            retention: Retention::default(),
            ages: Ages::default(),
        }
    }

    /// Starts one; it may have to stand by.
    pub async fn start(server: &Server, config: GlobalConfig) -> Self {
        let bus = server.control().await;
        let (stop, stopped) = watch::channel(false);
        let (tell, ready) = watch::channel(false);
        let task = tokio::spawn(serve_global(bus, config, stopped, tell));
        Self { stop, ready, task }
    }

    /// Waits until its first commit is in.
    ///
    /// # Panics
    /// It does not get there in time.
    pub async fn until_ready(&mut self) {
        soon("an owner", self.ready.wait_for(|ready| *ready)).await.unwrap();
    }

    /// Stops it and waits for its end.
    ///
    /// # Panics
    /// It does not end in time, or with an error.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        soon("the owner's end", self.task).await.unwrap().unwrap();
    }
}
