//! What a tick of the overseer looks at, and what it does about each (spec 05, The tick): a bounded
//! number, oldest due first, and nothing more at the same moment.

use std::collections::BTreeSet;

use crate::agent::Hosting;
use crate::assignment::Assignment;
use crate::id::{AgentId, AssignmentId, Principal, RunId};
use crate::limits::{
    ASSIGNMENTS_PER_TICK, DIAGNOSED_PER_TICK, OVERSEEN_BYTES_MAX, SUMMARY_BYTES_MAX,
};
use crate::overseer::{Means, Rung, SILENT, Telemetry, Verdict, View, judge};
use crate::records::Records;
use crate::run::RunState;
use crate::step::Draft;
use crate::time::BusTime;

use super::{holding, put, rungs, tell};
use crate::owner::{Policy, consulting, fit, plans, sessions, weight};

/// Looks at what is due and acts; says what it did and why, a line for each assignment.
pub(in crate::owner) fn tick(
    draft: &mut Draft<'_>,
    policy: &Policy,
    telemetry: &Telemetry,
) -> Vec<String> {
    let mut said = Vec::new();
    for id in due(draft, policy, telemetry) {
        let Some(line) = look(draft, policy, telemetry, id) else { continue };
        said.push(line);
        if weight::step(draft.base(), draft.written()) >= OVERSEEN_BYTES_MAX {
            break;
        }
    }
    said
}

/// The same; says it in one text.
pub(in crate::owner) fn looked(
    draft: &mut Draft<'_>,
    policy: &Policy,
    telemetry: &Telemetry,
) -> String {
    let said = tick(draft, policy, telemetry);
    if said.is_empty() {
        return "nothing stands still".to_owned();
    }
    fit::Room::of(SUMMARY_BYTES_MAX).text(&said.join("\n"), usize::MAX)
}

/// The runs that a look at this moment would find standing still, and not leave alone: their journals
/// are worth reading before (spec 05, Stall). At most [`DIAGNOSED_PER_TICK`], oldest due first.
#[must_use]
pub fn stalling(
    records: &Records,
    policy: &Policy,
    telemetry: &Telemetry,
    now: BusTime,
) -> Vec<RunId> {
    let draft = Draft::new(records, now, Principal::Agent(AgentId::Go));
    let standing = due(&draft, policy, telemetry).into_iter().filter_map(|id| {
        let assignment = draft.assignment(id)?;
        let view = view(&draft, policy, assignment, telemetry)?;
        let patience = assignment.policy.patience(&policy.overseer);
        let still = judge(&view, &patience, now).stands_still && view.backoff_until <= now;
        let left = consulting::is_asked(&draft, id)
            || is_out_of_reach(&draft, policy, &assignment.agent)
            || busy(&draft, assignment, &view).is_some();
        (still && !left).then_some(assignment.run)
    });
    standing.take(DIAGNOSED_PER_TICK).collect()
}

/// Whose time has passed, oldest first. What nobody has listened to for long enough is not silent yet.
fn due(draft: &Draft<'_>, policy: &Policy, telemetry: &Telemetry) -> Vec<AssignmentId> {
    let (records, now) = (draft.base(), draft.now);
    let idle_after = policy.overseer.idle_after;
    let expected = records.expected().take_while(|(at, _)| *at <= now);
    let listened = telemetry.since + idle_after <= now;
    let quiet = records.quiet().map(|(since, id)| (since + idle_after, id));
    let quiet = quiet.take_while(|(at, _)| listened && *at <= now);
    let own = records.quiet_by_own_time().take_while(|(at, _)| *at <= now);
    let own = own.filter(|(_, id)| {
        let idle_after = draft.assignment(*id).and_then(|it| it.policy.idle_after);
        idle_after.is_some_and(|idle_after| telemetry.since + idle_after <= now)
    });
    let mut all: Vec<(BusTime, AssignmentId)> = expected.take(ASSIGNMENTS_PER_TICK).collect();
    all.extend(quiet.take(ASSIGNMENTS_PER_TICK));
    all.extend(own.take(ASSIGNMENTS_PER_TICK));
    all.sort_unstable();
    let mut seen = BTreeSet::new();
    let once = all.into_iter().map(|(_, id)| id).filter(|id| seen.insert(*id));
    once.take(ASSIGNMENTS_PER_TICK).collect()
}

/// What a tick sees of an assignment; none when its agent or run is not known any more.
pub(in crate::owner) fn view(
    draft: &Draft<'_>,
    policy: &Policy,
    assignment: &Assignment,
    telemetry: &Telemetry,
) -> Option<View> {
    let agent = draft.agent(&assignment.agent)?;
    let run = draft.run_status(assignment.run)?;
    let state = draft.node_state(assignment.epic, assignment.node)?;
    let node = draft.node(assignment.epic, assignment.node)?;
    let heard = telemetry.progressed.get(&agent.id).copied().unwrap_or_default();
    let recovery = &assignment.recovery;
    Some(View {
        status: assignment.status,
        goal_open: plans::is_open(draft, assignment.epic),
        liveness: agent.liveness,
        run: run.state,
        last_dispatch: recovery.dispatched,
        consumed: recovery.consumed,
        last_activity: recovery.last_activity.max(run.since).max(heard),
        expected_next_update: recovery.expected_next_update,
        retries: recovery.retries,
        backoff_until: recovery.backoff_until,
        diagnosis: telemetry.diagnosed.get(&assignment.run).copied().unwrap_or_default(),
        means: assignment.policy.means(Means {
            replan: consulting::may_split(draft, policy, assignment),
            reassign: state.attempts < node.max_attempts,
            ..Means::default()
        }),
    })
}

fn look(
    draft: &mut Draft<'_>,
    policy: &Policy,
    telemetry: &Telemetry,
    id: AssignmentId,
) -> Option<String> {
    let assignment = draft.assignment(id).filter(|it| !it.status.is_terminal()).cloned()?;
    let view = view(draft, policy, &assignment, telemetry)?;
    let patience = assignment.policy.patience(&policy.overseer);
    let verdict = judge(&view, &patience, draft.now);
    if verdict.stands_still && is_out_of_reach(draft, policy, &assignment.agent) {
        return leave(draft, assignment);
    }
    let (node, agent) = (assignment.node, assignment.agent.clone());
    if verdict.stands_still && consulting::is_asked(draft, assignment.id) {
        // Its answer, or that there is none, is an input of its own.
        return None;
    }
    let did = if verdict.stands_still {
        match busy(draft, &assignment, &view) {
            Some(why) => excuse(draft, assignment, draft.now, why),
            None => {
                let words = telemetry.words.get(&assignment.run).map_or(&[][..], Vec::as_slice);
                act(draft, policy, assignment, (&view, verdict), words)?
            }
        }
    } else {
        // One that waits is not idle: its time begins anew when it goes on.
        let heard = if verdict.moves { view.last_activity } else { draft.now };
        let assignment = Assignment { reason: verdict.why.to_owned(), ..assignment };
        let moved = verdict.status != assignment.status;
        if moved {
            let mut assignment = assignment;
            assignment.recovery.last_activity = heard;
            put(draft, assignment, verdict.status, verdict.why);
            format!("{}: {}", verdict.status, verdict.why)
        } else {
            excuse(draft, assignment, heard, verdict.why)
        }
    };
    Some(format!("{node} {agent}: {did}"))
}

/// Why somebody else's agent is left alone.
const OUT_OF_REACH: &str = "it works for a program of somebody else's, which supervises it;      overseer.allow_cross_agent and overseer.allow_agents let the overseer do so";

/// Whether an agent, or one above it, is a program of somebody else's, and supervising it was not
/// allowed (spec 05, The tick).
fn is_out_of_reach(draft: &Draft<'_>, policy: &Policy, id: &AgentId) -> bool {
    let mut line = Vec::new();
    let mut foreign = false;
    let mut next = draft.agent(id);
    while let Some(agent) = next {
        foreign |= agent.hosting == Hosting::External;
        line.push(agent.id.clone());
        next = agent.parent.as_ref().and_then(|parent| draft.agent(parent));
    }
    foreign && !policy.reach.covers(&line)
}

/// Does nothing about it and says so, once as long as it stands still.
fn leave(draft: &mut Draft<'_>, mut assignment: Assignment) -> Option<String> {
    let told = assignment.reason == OUT_OF_REACH;
    assignment.recovery.last_activity = draft.now;
    assignment.recovery.expected_next_update = None;
    OUT_OF_REACH.clone_into(&mut assignment.reason);
    let (node, agent) = (assignment.node, assignment.agent.clone());
    if !told {
        tell(draft, &assignment, format!("left alone: {OUT_OF_REACH}"));
    }
    let status = assignment.status;
    put(draft, assignment, status, OUT_OF_REACH);
    (!told).then(|| format!("{node} {agent}: left alone: {OUT_OF_REACH}"))
}

/// Why one that shows nothing is left alone all the same.
fn busy(draft: &Draft<'_>, assignment: &Assignment, view: &View) -> Option<&'static str> {
    if !view.goal_open {
        return Some("its goal is not worked on");
    }
    if matches!(view.run, RunState::Queued | RunState::Spawning) {
        return Some("its program is not up, which has a deadline of its own");
    }
    let helped = !sessions::sub_agents(draft, &assignment.agent).is_empty();
    helped.then_some("its own agents are at work")
}

/// Leaves it alone, and writes down until when it was heard of, so that it is not the first to be
/// looked at again.
fn excuse(draft: &mut Draft<'_>, mut assignment: Assignment, heard: BusTime, why: &str) -> String {
    assignment.recovery.last_activity = assignment.recovery.last_activity.max(heard);
    let status = assignment.status;
    put(draft, assignment, status, why);
    format!("left alone: {why}")
}

/// One that stands still. None when it waits for the ladder's next moment, and did so before.
fn act(
    draft: &mut Draft<'_>,
    policy: &Policy,
    assignment: Assignment,
    (view, verdict): (&View, Verdict),
    words: &[String],
) -> Option<String> {
    let quiet = draft.now - view.last_activity.max(view.last_dispatch);
    let patience = assignment.policy.patience(&policy.overseer);
    let (tried, most) = (view.retries, patience.max_retries);
    let why = match verdict.why {
        SILENT => format!("{SILENT} for {quiet}"),
        other => format!("{other}; {SILENT} for {quiet}"),
    };
    let shown = view.diagnosis.in_words().map(|shown| format!("; {shown}")).unwrap_or_default();
    let why = format!("{why}; asked {tried} of {most} times{shown}");
    let Some(rung) = verdict.rung else {
        if assignment.status == verdict.status {
            return None;
        }
        put(draft, assignment, verdict.status, &why);
        return Some(format!("stalled: {why}"));
    };
    if rung == Rung::Escalate && holding::is_held(draft, &assignment, view, &patience) {
        return holding::hold(draft, assignment);
    }
    tell(draft, &assignment, format!("{rung}: {why}"));
    rungs::climb(draft, policy, assignment, rung, (&why, words));
    Some(format!("{rung}: {why}"))
}
