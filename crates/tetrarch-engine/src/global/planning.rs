//! Asks the planner what the records say it is asked (spec 05, The planner): a task beside the owner, which
//! never waits for it. Questions come from committed records, at the start those that a former owner left open;
//! each ends as one input. What is said, and what of an answer counts, is core's; how it is sent `model`'s.

mod model;

use std::collections::HashSet;
use std::sync::Arc;

use ractor::ActorRef;
use tetrarch_core::id::DispatchId;
use tetrarch_core::owner::{Input, PlannerQuestion};
use tetrarch_core::planner::dialogue::{Dialogue, Next};
use tetrarch_core::planner::{Bounds, Planning, PlanningStatus, Proposal};
use tetrarch_core::records::Records;
use tetrarch_telemetry::trace;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::owner::OwnerMsg;
use crate::error::EngineResult;
use crate::pump::Pump;

pub use model::{BadPlanner, PlannerConfig};
use model::{PlannerModel, faults};
pub use tetrarch_model::{ApiKey, HttpClient, http_client, provide_tls};

/// Questions that are asked at one time.
const ASKED_AT_ONCE: usize = 2;
/// Questions that wait to be taken up, which takes no longer than starting a task.
const TAKEN_UP: usize = 64;

/// What is asked from now on.
#[derive(Debug, Clone)]
pub(super) struct PlannerHandle(mpsc::Sender<PlannerQuestion>);

impl PlannerHandle {
    /// Asks what is to be asked.
    pub(super) async fn ask(&self, questions: Vec<PlannerQuestion>) {
        for question in questions {
            // A term that ended is followed by one that asks again.
            let _ended = self.0.send(question).await;
        }
    }
}

/// Starts asking, with what is open already. Without a model to put it to a question ends at once.
pub(super) fn start(
    config: Option<&PlannerConfig>,
    records: &Records,
    owner: ActorRef<OwnerMsg>,
) -> EngineResult<(PlannerHandle, Pump)> {
    let bounds = config.map_or_else(Bounds::default, |config| config.bounds);
    let model = config.map(PlannerModel::new).transpose()?.map(Arc::new);
    // What a former owner left open is asked again once that is committed: it is paid again.
    for planning in records.plannings.values().filter(|it| it.status == PlanningStatus::Asked) {
        let again = Box::new(Input::AskAgain(planning.id));
        // An owner that ended has nothing to decide.
        let _ended = owner.cast(OwnerMsg::Found(again));
    }
    let (tell, mut told) = mpsc::channel::<PlannerQuestion>(TAKEN_UP);
    let places = Arc::new(Semaphore::new(ASKED_AT_ONCE));
    let pump = Pump::run(async move {
        let (mut asking, mut taken) = (JoinSet::new(), HashSet::new());
        let take = |asking: &mut JoinSet<DispatchId>, PlannerQuestion { planning, of }| {
            let (model, places, owner) = (model.clone(), Arc::clone(&places), owner.clone());
            let (span, id) = (span_of(&planning), planning.id);
            let asks = async move {
                // The semaphore is never closed.
                let _place = places.acquire().await;
                let proposal = match of.map(|profile| PlannerModel::of(&profile, bounds)) {
                    Some(Ok(own)) => answer(Some(&own), &planning).await,
                    Some(Err(why)) => Dialogue::begin(&planning, bounds).failed(&why),
                    None => answer(model.as_deref(), &planning).await,
                };
                let input = Box::new(Input::Proposed(Box::new(proposal)));
                // An owner that ended is followed by one that asks again.
                let _ended = owner.cast(OwnerMsg::Found(input));
                id
            };
            asking.spawn(asks.instrument(span));
        };
        loop {
            tokio::select! {
                question = told.recv() => match question {
                    // A record may be written anew while it is asked.
                    Some(question) if !taken.insert(question.planning.id) => {}
                    Some(question) => take(&mut asking, question),
                    None => return,
                },
                Some(ended) = asking.join_next() => match ended {
                    Ok(id) => drop(taken.remove(&id)),
                    Err(error) => tracing::error!(%error, "asking the planner failed"),
                }
            }
        }
    });
    Ok((PlannerHandle(tell), pump))
}

/// What is said to the model about a question, as a part of the trace of whoever it comes from.
fn span_of(planning: &Planning) -> tracing::Span {
    let span = tracing::info_span!(
        parent: None,
        "ask",
        otel.name = "ask planner",
        tetrarch.planning = %planning.id,
    );
    trace::follow(&span, planning.trace.as_deref());
    span
}

/// Asks a planner something here and now, for nobody's ledger.
///
/// # Errors
/// There can be no such planner.
pub async fn propose(config: &PlannerConfig, planning: &Planning) -> Result<Proposal, BadPlanner> {
    Ok(answer(Some(&PlannerModel::new(config)?), planning).await)
}

/// Asks until there is a valid answer, or none is to be expected.
async fn answer(model: Option<&PlannerModel>, planning: &Planning) -> Proposal {
    let Some(model) = model else {
        return Dialogue::begin(planning, Bounds::default()).failed("no planner is configured");
    };
    let mut dialogue = Dialogue::begin(planning, model.bounds());
    let schema = dialogue.schema();
    loop {
        let reply = match model.say(&mut dialogue, planning.id).await {
            Ok(reply) => reply,
            Err(why) => return dialogue.failed(&why),
        };
        match dialogue.answered((&reply.text, reply.tokens), |value| faults(&schema, value)) {
            Next::Ask(again) => dialogue = *again,
            Next::End(proposal) => {
                let (id, attempts) = (planning.id, proposal.attempts);
                tracing::info!(%id, attempts, valid = proposal.answer.is_some(), "the planner answered");
                return proposal;
            }
        }
    }
}
