//! Whether the managed server still stores: a write of our own that has to be acknowledged, and the
//! room on its disk. A connection that stands proves nothing (spec 02, The managed server). It says
//! when the server has to be started again; doing it is its supervisor's work.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use bytes::Bytes;

use super::free_space::{FreeSpace, free_space};
use super::{ManagedServer, ServerError};
use crate::client::{Bus, ConnectOptions};
use crate::creds::{Authority, CredentialHolder};
use crate::subject::Subject;

/// Between two looks at the room, which cost nothing.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Looks from one write to the next.
const LOOKS_PER_WRITE: u32 = 4;
/// How long one may take: it is small, and on this machine.
const STORED_WITHIN: Duration = Duration::from_secs(2);
/// So long without one that was stored, and the server is stuck. A disk that is only slow, or a
/// server that is only paused, gets this time.
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// Looks after one run of the managed server.
#[derive(Debug)]
pub struct Health {
    options: ConnectOptions,
    data_dir: PathBuf,
    signs: HealthState,
}

impl Health {
    /// Of a server that has just been started or found.
    ///
    /// # Errors
    /// Its credential cannot be made.
    pub fn of(
        server: &ManagedServer,
        data_dir: &Path,
        authority: &Authority,
    ) -> Result<Self, ServerError> {
        let options = ConnectOptions {
            credentials: Some(authority.mint(&CredentialHolder::Control)?),
            name: "tetrarch-health".to_owned(),
            ..server.reached()
        };
        let signs = HealthState { stored_at: Instant::now(), low: false };
        Ok(Self { options, data_dir: data_dir.to_owned(), signs })
    }

    /// Writes and looks until the server has to be started again; gives why. Safe to drop.
    pub async fn until_stuck(&mut self) -> &'static str {
        let mut bus = None;
        for look in 1u32.. {
            tokio::time::sleep(LOOK_EVERY).await;
            let began = Instant::now();
            let stored = if look.is_multiple_of(LOOKS_PER_WRITE) {
                Some(self.stored(&mut bus).await)
            } else {
                None
            };
            let free_space = free_space(&self.data_dir);
            let free_space = free_space.as_ref();
            match self.signs.judge(began, stored, free_space) {
                HealthStatus::Well => {}
                HealthStatus::RoomIsLow => {
                    if let Some(free_space) = free_space {
                        tracing::error!(
                            free = free_space.free,
                            "no new work is accepted: {free_space}"
                        );
                    }
                }
                HealthStatus::Stuck(why) => return why,
            }
        }
        "the health check ended"
    }

    async fn stored(&self, bus: &mut Option<Bus>) -> bool {
        let writing = async {
            let bus = match bus {
                Some(bus) => bus,
                None => bus.insert(Bus::connect(&self.options).await.ok()?),
            };
            let subject = Subject::LeaseBus.to_string();
            bus.publish_expect(&subject, HeaderMap::new(), Bytes::new(), None).await.ok()
        };
        tokio::time::timeout(STORED_WITHIN, writing).await.is_ok_and(|stored| stored.is_some())
    }
}

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HealthStatus {
    Well,
    RoomIsLow,
    Stuck(&'static str),
}

/// What was seen so far.
#[derive(Debug, Clone, Copy)]
struct HealthState {
    /// When the last write began that was stored.
    stored_at: Instant,
    low: bool,
}

impl HealthState {
    /// A full disk is no reason to start the server again before there is room: it still gives what
    /// it has. After that it is one, always: a stream that met the end of the disk stays stuck, and
    /// it need not be the one that is written here.
    fn judge(
        &mut self,
        began: Instant,
        stored: Option<bool>,
        free_space: Option<&FreeSpace>,
    ) -> HealthStatus {
        if stored == Some(true) {
            self.stored_at = began;
        }
        if let Some(free_space) = free_space {
            if free_space.is_low() && !self.low {
                self.low = true;
                return HealthStatus::RoomIsLow;
            }
            if self.low && !free_space.is_enough() {
                return HealthStatus::Well;
            }
            if self.low {
                self.low = false;
                return HealthStatus::Stuck("its disk was full and has room again");
            }
        }
        if stored == Some(false) && began.duration_since(self.stored_at) >= STUCK_AFTER {
            return HealthStatus::Stuck("it stopped storing messages");
        }
        HealthStatus::Well
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn mib(free: u64) -> Option<FreeSpace> {
        Some(FreeSpace { path: PathBuf::from("store"), free: free * MIB })
    }

    fn signs(at: Instant) -> HealthState {
        HealthState { stored_at: at, low: false }
    }

    #[test]
    fn server_that_stores_nothing_for_long_is_stuck() {
        let at = Instant::now();
        let mut signs = signs(at);
        let free_space = mib(1_000);
        let short = at + STUCK_AFTER - Duration::from_millis(1);
        assert_eq!(signs.judge(short, Some(false), free_space.as_ref()), HealthStatus::Well);
        assert_eq!(signs.judge(short, Some(true), free_space.as_ref()), HealthStatus::Well);
        let long = short + STUCK_AFTER;
        assert_eq!(
            signs.judge(long, None, free_space.as_ref()),
            HealthStatus::Well,
            "nothing was written"
        );
        assert!(matches!(
            signs.judge(long, Some(false), free_space.as_ref()),
            HealthStatus::Stuck(_)
        ));
    }

    #[test]
    fn full_disk_is_reported_once_and_server_is_stuck_when_freed() {
        let at = Instant::now();
        let mut signs = signs(at);
        assert_eq!(signs.judge(at, Some(true), mib(8).as_ref()), HealthStatus::RoomIsLow);
        let late = at + STUCK_AFTER * 3;
        assert_eq!(
            signs.judge(late, Some(false), mib(0).as_ref()),
            HealthStatus::Well,
            "told once"
        );
        assert_eq!(
            signs.judge(late, Some(true), mib(20).as_ref()),
            HealthStatus::Well,
            "not enough yet"
        );
        let freed = signs.judge(late, Some(true), mib(1_000).as_ref());
        assert!(matches!(freed, HealthStatus::Stuck(_)), "whatever met the end of it stays stuck");
    }
}
