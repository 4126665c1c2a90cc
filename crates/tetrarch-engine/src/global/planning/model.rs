//! The model behind the planner (docs/decisions/0028, 0042): one request for one turn, again when the server is
//! busy or broken.

use std::time::Duration;

use serde_json::Value;
use tetrarch_core::agent::Profile;
use tetrarch_core::converse::cost::Prices;
use tetrarch_core::converse::{Message, Reply};
use tetrarch_core::id::DispatchId;
use tetrarch_core::limits::OUTPUT_TOKENS;
use tetrarch_core::planner::dialogue::{Dialogue, Speaker};
use tetrarch_core::planner::{Bounds, Planner};
use tetrarch_model::{Address, ApiKey, BadAddress, ModelFailure, ModelRequest, TRIES, pause};

/// Longest request to a profile's model: as long as the installation's planner has unless it is configured.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// Faults by the schema that are named of one answer.
const FAULTS_MAX: usize = 20;

/// What the planner is told by whoever starts the owner (spec 12, `[planner]`).
#[derive(Debug, Clone)]
pub struct PlannerConfig {
    /// The provider, by the name that `genai` gives its adapter: `openai`, `anthropic`, ...
    pub provider: String,
    /// The model.
    pub model: String,
    /// Where it is served; none means the provider's own address.
    pub base_url: Option<String>,
    /// The key; none for servers that want none.
    pub key: Option<ApiKey>,
    /// Longest request.
    pub timeout: Duration,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// What it may propose.
    pub bounds: Bounds,
}

/// Why there can be no planner.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the planner: {0}; check planner.provider and planner.base_url")]
pub struct BadPlanner(#[from] BadAddress);

impl PlannerConfig {
    /// What the owner knows of it, with what models cost.
    #[must_use]
    pub fn planner(&self, prices: &Prices) -> Planner {
        Planner {
            model: format!("{} {}", self.provider, self.model),
            bounds: self.bounds,
            output_tokens: self.max_tokens,
            price: prices.of(&self.provider, &self.model),
        }
    }

    /// Looks whether a planner can be made of this.
    ///
    /// # Errors
    /// It cannot; why.
    pub fn check(&self) -> Result<(), BadPlanner> {
        PlannerModel::new(self).map(drop)
    }
}

/// A model that can be asked.
#[derive(Debug)]
pub(super) struct PlannerModel {
    model: tetrarch_model::Model,
    timeout: Duration,
    max_tokens: u32,
    bounds: Bounds,
}

impl PlannerModel {
    pub(super) fn new(config: &PlannerConfig) -> Result<Self, BadPlanner> {
        let PlannerConfig { provider, model, base_url, key, .. } = config.clone();
        let model = tetrarch_model::Model::new(&Address { provider, model, base_url, key })?;
        let PlannerConfig { timeout, max_tokens, bounds, .. } = *config;
        Ok(Self { model, timeout, max_tokens, bounds })
    }

    /// The model of a profile, with the key from this process's environment; why there is none otherwise.
    pub(super) fn of(profile: &Profile, bounds: Bounds) -> Result<Self, String> {
        let address = Address::of(&profile.served, &profile.model);
        let model = address.and_then(|address| tetrarch_model::Model::new(&address));
        let name = profile.name.as_str();
        let model = model.map_err(|error| format!("profile `{name}`: {error}"))?;
        let max_tokens = profile.served.max_output_tokens.unwrap_or(OUTPUT_TOKENS);
        Ok(Self { model, timeout: ANSWER_WITHIN, max_tokens, bounds })
    }

    /// What it may propose.
    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Says what was said so far and gives what the model says to it. What goes wrong on the way is noted in
    /// the dialogue.
    pub(super) async fn say(
        &self,
        dialogue: &mut Dialogue,
        id: DispatchId,
    ) -> Result<Reply, String> {
        let mut tries = 0;
        loop {
            let trouble = match self.request(dialogue).await {
                Ok(reply) => return Ok(reply),
                Err(trouble) => trouble,
            };
            tries += 1;
            if trouble.heard {
                dialogue.heard();
            }
            tracing::warn!(%id, tries, trouble = %trouble.words, "the planner did not answer");
            if !trouble.again || tries >= TRIES {
                return Err(format!("no answer after {tries} requests: {}", trouble.words));
            }
            dialogue.troubled(&trouble.words);
            tokio::time::sleep(pause(tries, &id.to_string(), trouble.after)).await;
        }
    }

    async fn request(&self, dialogue: &Dialogue) -> Result<Reply, ModelFailure> {
        let mut system = String::new();
        let mut messages = Vec::new();
        for turn in dialogue.turns() {
            let text = turn.text.clone();
            match turn.by {
                Speaker::System => system.push_str(&text),
                Speaker::User => messages.push(Message::User(text)),
                Speaker::Model => messages.push(Message::Model { text, calls: Vec::new() }),
            }
        }
        let request = ModelRequest {
            system: &system,
            messages: &messages,
            tools: &[],
            may_call: false,
            max_output_tokens: self.max_tokens,
            json_only: true,
        };
        self.model.say(&request, self.timeout).await
    }
}

/// What of a schema a value does not satisfy.
pub(super) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let built = jsonschema::options().offline().build(schema);
    let validator = match built {
        Ok(validator) => validator,
        Err(error) => return vec![format!("cannot read the schema: {error}")],
    };
    let faults = validator.iter_errors(value).take(FAULTS_MAX);
    faults.map(|fault| format!("{}: {}", fault.instance_path(), fault.masked())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tetrarch_core::planner::{Purpose, schema};

    use super::*;

    #[test]
    fn unusable_planner_is_reported_with_its_setting() {
        let config = PlannerConfig {
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            base_url: None,
            key: Some(ApiKey::new("sk-secret".to_owned()).unwrap()),
            timeout: Duration::from_secs(1),
            max_tokens: 100,
            bounds: Bounds::default(),
        };
        assert!(!format!("{config:?}").contains("sk-secret"));
        config.check().unwrap();
        let unknown = PlannerConfig { provider: "nobody".to_owned(), ..config };
        let why = unknown.check().unwrap_err().to_string();
        assert!(why.contains("\"nobody\"") && why.contains("planner.provider"), "{why}");
    }

    #[test]
    fn schema_violation_is_reported_with_its_position() {
        let schema = schema::answer(Purpose::Plan, Bounds::default());
        let plan = json!({"phases": [{"id": "P1", "name": "go", "tasks": [
            {"id": "T1.1", "name": "go", "acceptance": ["it went"]},
        ]}]});
        assert_eq!(faults(&schema, &plan), Vec::<String>::new());
        let mut wrong = plan;
        wrong["phases"][0]["tasks"][0]["argv"] = json!(["rm"]);
        let found = faults(&schema, &wrong);
        assert!(found[0].starts_with("/phases/0/tasks/0: "), "{found:?}");
    }
}
