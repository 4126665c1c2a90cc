//! What `tetrarch up` starts where it is configured, and what a fleet does without: the page and the notifier.

use futures::future::join_all;

use super::child::{Supervised, end};
use super::{FleetLauncher, NOTIFIER, PAGE};
use crate::{CliError, CliResult};

/// What was started, and why the rest was not.
#[derive(Default)]
pub(super) struct Extras {
    started: Vec<Supervised>,
    failed: Vec<(&'static str, CliError)>,
}

impl Extras {
    /// Starts what is configured.
    pub(super) async fn start(launcher: FleetLauncher<'_>) -> Self {
        let config = &launcher.context.config;
        let page = config.page_listen.is_some().then_some(PAGE);
        let notifier = (!config.channels.channels.is_empty()).then_some(NOTIFIER);
        let starting = page
            .into_iter()
            .chain(notifier)
            .map(|what| async move { (what, launcher.start(what).await) });
        let mut all = Self::default();
        for (what, started) in join_all(starting).await {
            match started {
                Ok(started) => all.started.push(started),
                Err(error) => {
                    tracing::warn!(what, %error, "the fleet does without");
                    all.failed.push((what, error));
                }
            }
        }
        all
    }

    /// Starts each again whenever it ends.
    pub(super) async fn keep(&mut self, launcher: FleetLauncher<'_>) {
        join_all(self.started.iter_mut().map(|extra| launcher.keep(extra))).await;
        std::future::pending().await
    }

    /// Has all stop.
    ///
    /// # Errors
    /// One cannot be waited for.
    pub(super) async fn end(self) -> CliResult {
        for extra in self.started {
            end(extra).await?;
        }
        Ok(())
    }

    /// The link of the page; none when it is not served.
    pub(super) fn page(&self) -> Option<&String> {
        self.said(PAGE)?.first()
    }

    /// The channels by which people are told, or why they are not; none where no channel is set.
    pub(super) fn channels(&self) -> Option<String> {
        let failed = self.failed.iter().find(|(what, _)| *what == NOTIFIER);
        shown(self.said(NOTIFIER), failed.map(|(_, error)| error))
    }

    fn said(&self, what: &str) -> Option<&[String]> {
        self.started.iter().find(|extra| extra.what == what).map(|extra| &*extra.said)
    }
}

/// What the notifier said before it was ready, or why it is not.
fn shown(said: Option<&[String]>, failed: Option<&CliError>) -> Option<String> {
    match (said, failed) {
        (Some([]), _) => Some("none (no channel can be used; see the log)".to_owned()),
        (Some(channels), _) => Some(channels.join(", ")),
        (None, Some(error)) => Some(format!("none ({error})")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn channels_are_those_that_started_or_none_with_the_reason() {
        let channels = ["desk", "pager"].map(str::to_owned);
        assert_eq!(shown(Some(&channels), None).as_deref(), Some("desk, pager"));
        let error = CliError::new(Code::Failed, "HOOK_KEY is missing").hint("set it");
        assert_eq!(shown(None, Some(&error)).as_deref(), Some("none (HOOK_KEY is missing)"));
        assert!(shown(Some(&[]), None).unwrap().starts_with("none (no channel"));
        assert_eq!(shown(None, None), None);
    }
}
