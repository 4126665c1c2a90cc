//! Cases of the overseer (spec 05): one assignment at a tick (`tick`), an agent's reply (`update`).

use serde_json::Value;
use tetrarch_core::assignment::AssignmentStatus;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::overseer::backoff::Backoff;
use tetrarch_core::overseer::policy::RecoveryPolicy;
use tetrarch_core::overseer::update::from_text;
use tetrarch_core::overseer::{Diagnosis, Means, Patience, Rung, View, judge};
use tetrarch_core::run::RunState;
use tetrarch_core::time::{BusTime, Millis};

use crate::vectors::input::{CaseError, CaseMap, CaseValue, nothing_in};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

pub(super) fn tick(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    nothing_in(when)?;
    let given = given.keys("now_ms policy goal node assignment agent")?;
    let now = time(&given, "now_ms")?.unwrap_or_default();
    let policy = OverseerCase::read(&given)?;
    let view = view(&given, &policy, now)?;
    let patience = own_policy(&given)?.patience(&policy.patience);
    let verdict = judge(&view, &patience, now);
    let status = verdict.rung.map_or(verdict.status, Rung::leads_to);
    let retried = verdict.rung.filter(|rung| rung.is_retried());
    let bound = retried.map_or(0, |_| patience.backoff.bound(view.retries).0);
    let actions: Vec<Value> = verdict.rung.iter().map(|rung| rung.as_str().into()).collect();
    let outcome = CaseOutcome::default().set("assignment", status.as_str());
    Ok(outcome.set("actions", actions).set("backoff_ms_max", bound))
}

pub(super) fn update(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    nothing_in(when)?;
    let given = given.keys("text assignments")?;
    let text = given.need("text")?.text()?;
    let asked = given.or("assignments", 1, |field| Ok(field.texts()?.len()))?;
    let outcome = CaseOutcome::default();
    Ok(match from_text(text, asked) {
        Ok(None) => outcome.set("none", true),
        Ok(Some(update)) => outcome
            .set("node", update.node.map(|node| node.to_string()))
            .set("summary", update.summary)
            .set("next", update.next)
            .set("status", update.status.map(|said| said.as_str()))
            .set("blockers", update.blockers),
        Err(error) => outcome.set_error("invalid_update").set_detail(error.to_string()),
    })
}

struct OverseerCase {
    patience: Patience,
    from: Rung,
    planner: bool,
    reassign: bool,
}

impl OverseerCase {
    fn read(given: &CaseMap<'_>) -> Result<Self, CaseError> {
        let mut policy = Self {
            patience: Patience::default(),
            from: Rung::Nudge,
            planner: false,
            reassign: true,
        };
        let Some(field) = given.get("policy") else { return Ok(policy) };
        let input = field.keys(
            "idle_after_ms max_retries min_resend_interval_ms backoff recovery_policy planner reassign",
        )?;
        let default = policy.patience;
        policy.patience = Patience {
            idle_after: millis(&input, "idle_after_ms", default.idle_after)?,
            max_retries: input.or("max_retries", default.max_retries, CaseValue::whole)?,
            min_resend_interval: millis(
                &input,
                "min_resend_interval_ms",
                default.min_resend_interval,
            )?,
            backoff: input.or("backoff", default.backoff, |field| {
                let input = field.keys("base_ms max_ms")?;
                Ok(Backoff {
                    base: millis(&input, "base_ms", default.backoff.base)?,
                    max: millis(&input, "max_ms", default.backoff.max)?,
                })
            })?,
        };
        policy.from = rung(&input, "recovery_policy")?.unwrap_or(policy.from);
        policy.planner = input.or("planner", policy.planner, CaseValue::flag)?;
        policy.reassign = input.or("reassign", policy.reassign, CaseValue::flag)?;
        Ok(policy)
    }
}

const RUNGS: &str = "resend_last, nudge, replan, reassign, escalate";

fn rung(input: &CaseMap<'_>, key: &str) -> Result<Option<Rung>, CaseError> {
    input.maybe(key, |field| field.word(RUNGS, Rung::parse))
}

/// The assignment's own recovery policy: the first rung as a word, or a mapping that says more.
fn own_policy(given: &CaseMap<'_>) -> Result<RecoveryPolicy, CaseError> {
    let none = RecoveryPolicy::default();
    let assignment = given.need("assignment")?;
    let Some(said) = assignment.value().get("recovery_policy") else { return Ok(none) };
    let field = CaseValue::new("given.assignment.recovery_policy", said);
    if said.is_string() {
        return Ok(RecoveryPolicy { from: Some(field.word(RUNGS, Rung::parse)?), ..none });
    }
    let keys = ["from", "max_retries", "idle_after_ms", "min_resend_interval_ms", "reassign"];
    let own = field.map(&keys)?;
    let millis = |key| own.maybe(key, |field| field.whole().map(Millis));
    Ok(RecoveryPolicy {
        from: rung(&own, "from")?,
        max_retries: own.maybe("max_retries", CaseValue::whole)?,
        idle_after: millis("idle_after_ms")?,
        min_resend_interval: millis("min_resend_interval_ms")?,
        reassign: own.maybe("reassign", CaseValue::flag)?,
    })
}

/// What the tick sees. An assignment of which nothing else is said is active, and consumed what was
/// sent at zero.
fn view(given: &CaseMap<'_>, policy: &OverseerCase, now: BusTime) -> Result<View, CaseError> {
    let assignment = given.need("assignment")?.keys(
        "status last_dispatch_ms consumed last_activity_ms last_progress expected_next_update_ms \
         retry_count backoff_until_ms recovery_policy",
    )?;
    let agent =
        given.maybe("agent", |field| field.keys("liveness run_state progress diagnosis"))?;
    let of_agent = |key: &str| agent.as_ref().and_then(|agent| agent.get(key));
    let status = assignment.or("status", AssignmentStatus::Active, |field| {
        field.word("an assignment's status", AssignmentStatus::parse)
    })?;
    let progress = of_agent("progress").map(|field| field.whole::<u64>()).transpose()?;
    let seen = assignment.or("last_progress", 0, CaseValue::whole)?;
    let last_dispatch = time(&assignment, "last_dispatch_ms")?.unwrap_or_default();
    let noted = time(&assignment, "last_activity_ms")?.unwrap_or(last_dispatch);
    let moves = progress.is_some_and(|progress| progress > seen);
    let consumed = status != AssignmentStatus::Dispatched;
    Ok(View {
        status,
        goal_open: goal(given)? == GoalStatus::Active,
        liveness: word(of_agent("liveness"), Liveness::Active, Liveness::parse)?,
        run: word(of_agent("run_state"), RunState::Running, RunState::parse)?,
        last_dispatch,
        consumed: assignment.or("consumed", consumed, CaseValue::flag)?,
        last_activity: if moves { now } else { noted },
        expected_next_update: time(&assignment, "expected_next_update_ms")?,
        retries: assignment.or("retry_count", 0, CaseValue::whole)?,
        backoff_until: time(&assignment, "backoff_until_ms")?.unwrap_or_default(),
        diagnosis: word(of_agent("diagnosis"), Diagnosis::Unknown, Diagnosis::parse)?,
        means: own_policy(given)?.means(Means {
            from: policy.from,
            replan: policy.planner,
            reassign: policy.reassign && attempts_left(given)?,
        }),
    })
}

fn goal(given: &CaseMap<'_>) -> Result<GoalStatus, CaseError> {
    let Some(field) = given.get("goal") else { return Ok(GoalStatus::Active) };
    if field.value().is_string() {
        return field.word("a goal's status", GoalStatus::parse);
    }
    word(field.keys("status")?.get("status"), GoalStatus::Active, GoalStatus::parse)
}

fn attempts_left(given: &CaseMap<'_>) -> Result<bool, CaseError> {
    let Some(field) = given.get("node") else { return Ok(true) };
    let node = field.keys("id status attempts max_attempts")?;
    let attempts: u32 = node.or("attempts", 1, CaseValue::whole)?;
    Ok(attempts < node.or("max_attempts", u32::MAX, CaseValue::whole)?)
}

fn word<T>(
    field: Option<CaseValue<'_>>,
    default: T,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, CaseError> {
    field.map_or(Ok(default), |field| field.word("one of its words in spec 04 to 06", read))
}

fn time(input: &CaseMap<'_>, key: &str) -> Result<Option<BusTime>, CaseError> {
    input.maybe(key, |field| field.whole().map(BusTime))
}

fn millis(input: &CaseMap<'_>, key: &str, default: Millis) -> Result<Millis, CaseError> {
    input.or(key, default, |field| field.whole().map(Millis))
}
