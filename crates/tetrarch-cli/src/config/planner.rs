//! `[planner]`: what the planner is made of, once somebody wants one. The key is read where it is said to
//! be, when the owner starts, and is in no value of the configuration.

use std::time::Duration;

use tetrarch_core::planner::Bounds;
use tetrarch_core::secret::SecretSource;
use tetrarch_engine::{ApiKey, PlannerConfig};

use super::settings::Settings;
use crate::{CliError, CliResult, Code};

/// `[planner]`.
#[derive(Debug, Clone)]
pub(crate) struct PlannerSection {
    enabled: bool,
    provider: Option<String>,
    model: Option<String>,
    base_url: Option<String>,
    /// Where the key is found.
    key_from: Option<SecretSource>,
    timeout: Duration,
    max_tokens: u32,
    bounds: Bounds,
}

impl PlannerSection {
    pub(super) fn of(settings: &Settings) -> CliResult<Self> {
        let key_from: Option<String> = settings.get("planner.key_from")?;
        Ok(Self {
            enabled: settings.get("planner.enabled")?,
            provider: settings.get("planner.provider")?,
            model: settings.get("planner.model")?,
            base_url: settings.get("planner.base_url")?,
            key_from: key_from.and_then(|from| SecretSource::parse(&from)),
            timeout: settings.span("planner.timeout")?,
            max_tokens: settings.get("planner.max_tokens")?,
            bounds: Bounds {
                phases: settings.get("planner.max_phases")?,
                tasks: settings.get("planner.max_tasks_per_phase")?,
                subtasks: settings.get("planner.max_subtasks_per_task")?,
                repairs: settings.get("planner.max_repair_attempts")?,
            },
        })
    }

    /// The planner with its key; none when nobody wants one.
    ///
    /// # Errors
    /// The variable with the key is not set, or there can be no such planner.
    pub(crate) fn prepared(&self) -> CliResult<Option<PlannerConfig>> {
        let (true, Some(provider), Some(model)) = (self.enabled, &self.provider, &self.model)
        else {
            return Ok(None);
        };
        let key = self.key_from.as_ref().map(|source| {
            ApiKey::found(source).map_err(|cause| {
                let what = format!("planner.key_from: {cause}");
                let hint = format!(
                    "set it to the key of {provider} for the owner, or set planner.enabled = false"
                );
                CliError::new(Code::Usage, what).hint(hint)
            })
        });
        let config = PlannerConfig {
            provider: provider.clone(),
            model: model.clone(),
            base_url: self.base_url.clone(),
            key: key.transpose()?,
            timeout: self.timeout,
            max_tokens: self.max_tokens,
            bounds: self.bounds,
        };
        config.check().map_err(CliError::usage)?;
        Ok(Some(config))
    }
}
