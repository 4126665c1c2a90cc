//! Plans of record change (spec 05, Plan events): who may ask for it, what is applied at once and what
//! is kept as a draft. The rule itself is `plan::change`; what an accepted change writes is in
//! `applying`, drafts are in `drafting`.

mod applying;
mod drafting;

use crate::agent::Profile;
use crate::error::{ErrorCode, Refusal};
use crate::goal::Goal;
use crate::id::{AgentId, EpicId, Principal, ProjectName};
use crate::limits::TEXT_BYTES_MAX;
use crate::mail::OpReply;
use crate::plan::PlanReason;
use crate::plan::change::{self, Change, Changed, Edit, Present};
use crate::plan::proposal::may_apply;
use crate::plan::schema::PlanFile;
use crate::records::Records;
use crate::request::planning::{PlanMode, PlanOp, Wanted};
use crate::request::{Request, Sender};
use crate::step::Draft;

use super::{Policy, profiles};

pub(super) use applying::write;
pub(super) use drafting::keep_own;

const RULE: &str = "05 Plan events";

/// Decides on an operation that changes plans.
///
/// # Errors
/// The codes of spec 05, each with the details it asks for.
pub(super) fn plan(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    op: &PlanOp,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    // What people do to one node by hand is their override; a plan made anew is a plan made anew.
    let by_hand = match &request.sender.from {
        Principal::Human(_) => PlanReason::ManualOverride,
        Principal::Agent(_) => PlanReason::Replan,
    };
    let mut desk = Desk { draft, policy, request, reply };
    match op {
        PlanOp::Plan(wanted) => {
            let project = &desk.goal(wanted.epic)?.project;
            let what = wanted.what.as_ref();
            let records = desk.draft.base();
            let what = what.map_err(Clone::clone).and_then(|plan| whole(plan, project, records));
            desk.take(wanted, what, PlanReason::Replan)
        }
        PlanOp::Add(wanted) => {
            let what = wanted
                .what
                .as_ref()
                .map_err(Clone::clone)
                .map(|add| Change::Add { parent: add.parent, node: Box::new(add.node.clone()) });
            desk.take(wanted, what, by_hand)
        }
        PlanOp::Split(wanted) => {
            let what = wanted
                .what
                .as_ref()
                .map_err(Clone::clone)
                .map(|split| Change::Split { node: split.node, subtasks: split.subtasks.clone() });
            desk.take(wanted, what, by_hand)
        }
        PlanOp::Merge(wanted) => {
            let what = wanted.what.as_ref().map_err(Clone::clone).map(|merge| Change::Merge {
                nodes: merge.nodes.clone(),
                name: merge.name.clone(),
                objective: merge.objective.clone(),
            });
            desk.take(wanted, what, by_hand)
        }
        PlanOp::Decide { epic, draft, verdict, reason } => {
            drafting::decide(&mut desk, *epic, *draft, *verdict, reason)
        }
    }
}

/// The whole plan that a file asks for. Its profiles are those of the project already: who may change a plan may
/// not therefore change what work is done with (decision 0086).
fn whole(plan: &PlanFile, project: &ProjectName, records: &Records) -> Result<Change, String> {
    if let Some(named) = plan.project.as_ref().filter(|named| *named != project) {
        return Err(format!("project: the plan is {project}'s, not {named}'s"));
    }
    let held = |own: &Profile| records.profiles.get(&(project.clone(), own.name.clone()));
    if let Some(own) = plan.profiles.iter().find(|own| held(own) != Some(own)) {
        return Err(format!(
            "profiles: {project} has no {} that says the same, and a change of a plan sets none; set it with \
             operation `profile.apply` first",
            own.name
        ));
    }
    Ok(Change::Whole { nodes: plan.nodes.clone(), output: plan.output })
}

/// One operation at work.
struct Desk<'d, 'r> {
    draft: &'d mut Draft<'r>,
    policy: &'d Policy,
    request: &'d Request,
    reply: OpReply,
}

impl<'r> Desk<'_, 'r> {
    fn goal(&self, epic: EpicId) -> Result<&'r Goal, Refusal> {
        let goal = self.draft.base().goals.get(&epic);
        goal.ok_or_else(|| Refusal::new(ErrorCode::NotFound, format!("goal {epic} was not found")))
    }

    /// The plan as it is now. Nothing of this decision has changed it yet.
    fn present(&self, epic: EpicId) -> Result<Present<'r>, Refusal> {
        let records = self.draft.base();
        let none = || Refusal::new(ErrorCode::NotFound, format!("{epic} has no plan"));
        let plan = records.plans.get(&epic).ok_or_else(none)?;
        Ok(Present {
            version: plan.version,
            nodes: records.nodes.get(&epic).ok_or_else(none)?,
            states: records.node_states.get(&epic).ok_or_else(none)?,
            output: plan.output,
            folded: &plan.folded,
        })
    }

    /// Takes a change: makes it, or keeps it as a draft.
    fn take<C>(
        &mut self,
        wanted: &Wanted<C>,
        what: Result<Change, String>,
        reason: PlanReason,
    ) -> Result<OpReply, Refusal> {
        let goal = self.goal(wanted.epic)?;
        match wanted.mode {
            PlanMode::Apply => self.may_apply()?,
            PlanMode::Draft => self.may_draft(goal)?,
        }
        said("reason", &wanted.reason)?;
        self.open(wanted.epic)?;
        let present = self.present(wanted.epic)?;
        let refused = |error: change::ChangeError| error.refusal(present.version);
        let what = what.map_err(|problems| {
            Refusal::new(ErrorCode::InvalidPlan, problems).at_version(present.version)
        })?;
        let base = wanted.base_version.unwrap_or(present.version);
        let edit = change::read(&present, base, &what).map_err(refused)?;
        match wanted.mode {
            PlanMode::Apply => self.apply(wanted.epic, base, &edit, reason, &wanted.reason),
            PlanMode::Draft => drafting::keep(self, wanted, base, edit),
        }
    }

    /// Applies an edit and says which version it made.
    fn apply(
        &mut self,
        epic: EpicId,
        base: u32,
        edit: &Edit,
        reason: PlanReason,
        why: &str,
    ) -> Result<OpReply, Refusal> {
        let present = self.present(epic)?;
        let changed =
            change::change(&present, base, edit).map_err(|error| error.refusal(present.version))?;
        let reply = OpReply { epic: Some(epic), ..self.reply.clone() };
        possible(self.draft, epic, &changed, present.version)?;
        if changed.is_nothing(&present) {
            let detail = "the plan does not change".to_owned();
            return Ok(OpReply { version: Some(present.version), detail, ..reply });
        }
        let version = self.draft.next_version(epic);
        let detail = applying::write(self.draft, epic, &changed, reason, why);
        let blocked: Vec<String> = changed.exhausted.iter().map(ToString::to_string).collect();
        let data =
            (!blocked.is_empty()).then(|| serde_json::json!({"blocked": blocked}).to_string());
        Ok(OpReply { version: Some(version), detail, data, ..reply })
    }

    /// Nothing is planned for a goal that is over.
    fn open(&self, epic: EpicId) -> Result<(), Refusal> {
        let status = self.draft.goal_state(epic).map(|state| state.status);
        match status.filter(|status| status.is_closed()) {
            Some(status) => {
                let detail = format!("{epic} is {status}; its plan cannot change any more");
                Err(Refusal::new(ErrorCode::Conflict, detail))
            }
            None => Ok(()),
        }
    }

    /// GO, people, and whom the configuration names.
    fn may_apply(&self) -> Result<(), Refusal> {
        let Sender { from, .. } = &self.request.sender;
        if from.agent().is_some() {
            super::current(self.draft, &self.request.sender)?;
        }
        if may_apply(from, &self.policy.plan_appliers) {
            return Ok(());
        }
        let detail = format!("{from} may not change a plan; propose the change with mode draft");
        Err(Refusal::new(ErrorCode::Unauthorized, detail))
    }

    /// Those, the project's orchestrator, and who works on the epic.
    fn may_draft(&self, goal: &Goal) -> Result<(), Refusal> {
        let Sender { from, .. } = &self.request.sender;
        if from.agent().is_none() {
            return Ok(());
        }
        let agent = super::current(self.draft, &self.request.sender)?;
        let works = agent.work.as_ref().is_some_and(|work| work.epic == goal.id);
        let own = agent.id == AgentId::Po(goal.project.clone()) || agent.id == AgentId::Go;
        if own || works || self.policy.plan_appliers.contains(from) {
            return Ok(());
        }
        let detail = format!("{from} does not work on {}", goal.id);
        Err(Refusal::new(ErrorCode::Unauthorized, detail))
    }
}

/// What a change adds can be done by a profile of the project.
fn possible(
    draft: &Draft<'_>,
    epic: EpicId,
    changed: &Changed,
    version: u32,
) -> Result<(), Refusal> {
    profiles::suffice_for_change(draft, epic, changed)
        .map_err(|refusal| refusal.at_version(version))
}

/// A text that has to say something, within its bound.
fn said(field: &str, text: &str) -> Result<(), Refusal> {
    let size = text.len();
    if (1..=TEXT_BYTES_MAX).contains(&size) {
        return Ok(());
    }
    let detail = format!("{field}: {size} bytes; it has 1 to {TEXT_BYTES_MAX}");
    Err(Refusal::new(ErrorCode::InvalidRequest, detail))
}
