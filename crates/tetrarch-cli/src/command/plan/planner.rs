//! `plan propose` and `plan provenance`: what the planner would answer, and what it was asked and answered
//! (spec 05, The planner). Neither changes anything.

use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::budget::Spend;
use tetrarch_core::converse::cost::Prices;
use tetrarch_core::goal::{Goal, GoalSpec};
use tetrarch_core::id::{EpicId, Principal, ProjectName};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::owner::goal_question;
use tetrarch_core::planner::{Planning, Proposal};
use tetrarch_engine::propose;

use crate::output::{self, Cell, Sheet, is_coloured, now, stamp};
use crate::{CliError, CliResult, Code, Context, StateSnapshot, new_ulid};

/// The project of a goal that nobody gave.
const PROJECT: &str = "main";

/// Asks the planner configured here for a plan, from here, and prints it.
///
/// # Errors
/// There is no planner, or it gave no valid plan.
pub(super) async fn propose_plan(
    context: &Context,
    epic: Option<EpicId>,
    goal: Option<String>,
) -> CliResult {
    let config = context.config.planner.prepared()?.ok_or_else(|| {
        CliError::new(Code::Usage, "no planner is configured: planner.enabled is false")
            .hint("set [planner] enabled, provider, model and key_from; `tetrarch config explain planner`")
    })?;
    let goal = match (epic, goal) {
        (Some(epic), _) => given(context, epic).await?,
        (None, text) => fresh(context, text.unwrap_or_default())?,
    };
    let planning = goal_question(now(), &config.planner(&Prices::default()), goal);
    let proposal = propose(&config, &planning).await.map_err(CliError::usage)?;
    let Proposal { answer, attempts, problems, .. } = proposal;
    let Some(answer) = answer else {
        let what = format!("no valid plan in {attempts} answers:\n{}", problems.join("\n"));
        return Err(CliError::new(Code::Failed, what));
    };
    let plan: Value = serde_json::from_str(&answer).unwrap_or(Value::Null);
    let value = json!({
        "plan": plan,
        "model": planning.model,
        "template": planning.template,
        "templateHash": planning.template_hash,
        "attempts": attempts,
        "problems": problems,
    });
    output::record(context.output, &value, || format!("{plan:#}"))
}

async fn given(context: &Context, epic: EpicId) -> CliResult<Goal> {
    let bus = context.client().await?.bus;
    let snapshot = StateSnapshot::read(&bus, &[Select::One(RecordKey::Goal(epic))]).await?;
    snapshot.records.goals.get(&epic).cloned().ok_or_else(|| crate::snapshot::no_plan_of(epic))
}

fn fresh(context: &Context, title: String) -> CliResult<Goal> {
    let project = ProjectName::new(PROJECT).map_err(CliError::usage)?;
    Ok(Goal {
        id: EpicId(new_ulid()),
        project,
        spec: GoalSpec { title, ..GoalSpec::default() },
        owner: Principal::Human(context.human()?),
        created: now(),
        updated: now(),
    })
}

/// Shows what the planner was asked about an epic and what it answered.
///
/// # Errors
/// The planner was never asked about it.
pub(super) async fn provenance(context: &Context, bus: &Bus, epic: EpicId) -> CliResult {
    let snapshot = StateSnapshot::read(bus, &[Select::Kind(KeyKind::Planning)]).await?;
    let asked = snapshot.records.plannings.values().filter(|planning| planning.epic == epic);
    let asked: Vec<&Planning> = asked.collect();
    if asked.is_empty() {
        let what = format!("the planner was not used for {epic}");
        return Err(CliError::new(Code::NotFound, what));
    }
    let all: CliResult<Vec<Value>> = asked
        .iter()
        .map(|planning| snapshot.json(&Record::Planning(Box::new((*planning).clone()))))
        .collect();
    let sheets = || asked.iter().map(|planning| sheet(planning)).collect::<Vec<_>>().join("\n");
    output::record(context.output, &Value::Array(all?), sheets)
}

fn amount(Spend { tokens, cost_micro, turns }: Spend) -> String {
    format!("{tokens} tokens, {cost_micro} millionths of a dollar, {turns} turns")
}

fn sheet(planning: &Planning) -> String {
    let Planning { template, template_hash, .. } = planning;
    let mut sheet = Sheet::new(&planning.id.to_string(), is_coloured());
    sheet
        .field("purpose", planning.purpose.as_str())
        .field("node", Cell::some(planning.node))
        .field("status", Cell::state(planning.status.as_str()))
        .field("reason", planning.reason.as_str())
        .field("asked", stamp(planning.at))
        .field("settled", stamp(planning.since))
        .field("model", planning.model.as_str())
        .field("template", format!("{template}, sha256 {template_hash}"))
        .field("plan version", planning.base_version.to_string())
        .field("answers", format!("{} of {}", planning.attempts, planning.calls))
        .field("took", amount(planning.used))
        .field("set aside", amount(planning.set_aside))
        .list("problems", planning.problems.iter().cloned())
        .passage("inputs", &planning.inputs)
        .passage("answer", &planning.answer);
    sheet.finish()
}
