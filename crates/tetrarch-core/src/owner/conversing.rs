//! What people say to their interaction orchestrators (spec 07): a turn is taken in, waits in its lane, is moved by
//! its orchestrator, has goals worked on, and ends with an answer. Which way a turn goes is not decided here.

mod graphs;
mod hearing;
mod scheduled;

use serde_json::json;

use crate::agent::{Agent, Mode};
use crate::conversation::lane::{self, TurnLane};
use crate::conversation::{SESSION_KEY, Turn, TurnDue, TurnId, TurnMove, TurnStatus, delegation};
use crate::error::{ErrorCode, Refusal};
use crate::graph::{Delegation, Doing};
use crate::id::{AgentId, HumanName, NodeId, Principal, ProfileName};
use crate::ledger::{EventKind, Record};
use crate::limits::{TEXT_BYTES_MAX, TURN_TEXT_BYTES_MAX};
use crate::mail::{MailBody, OpReply};
use crate::plan::profiles::sole;
use crate::plan::schema::{PlanFile, one_task};
use crate::request::Request;
use crate::request::conversations::{ConversationOp, TurnSay};
use crate::role::Role;
use crate::step::Draft;

use super::goals::fits;
use super::operations::{join_human, known_project};
use super::{Policy, consulting, profiles};
use crate::fit::Room;

pub(super) use hearing::heard;
use scheduled::person;
pub(super) use scheduled::{begin_scheduled, may_begin};

const RULE: &str = "07 State graphs";
const LANES: &str = "07 Lanes";
/// Characters of a goal's title that is made of a task.
const TITLE_CHARS: usize = 80;

/// Does what is asked.
///
/// # Errors
/// Not the sender's to do, no room, or nothing that can be done.
pub(super) fn operate(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    op: &ConversationOp,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    match op {
        ConversationOp::Say(said) => say(draft, request, said, reply),
        ConversationOp::Cancel { conversation, number } => {
            let id = TurnId {
                human: person(&request.sender.from)?.clone(),
                conversation: conversation.clone(),
                number: *number,
            };
            withdraw(draft, &id)?;
            Ok(OpReply { detail: format!("{id} is withdrawn"), ..reply })
        }
        ConversationOp::Move(it) => {
            move_turn(draft, policy, request, it)?;
            Ok(reply)
        }
        ConversationOp::Graph(apply) => {
            let (version, detail) = graphs::apply(draft, apply)?;
            Ok(OpReply { version: Some(version), detail, ..reply })
        }
    }
}

/// A person says something: the answer to what a turn asks, or a turn of its own.
fn say(
    draft: &mut Draft<'_>,
    request: &Request,
    said: &TurnSay,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    let human = person(&request.sender.from)?;
    check_text(&said.text)?;
    let open = open_turns(draft, human);
    let asking = open.iter().find(|turn| {
        turn.id.conversation == said.conversation && turn.status == TurnStatus::Asking
    });
    if let Some(turn) = asking.cloned() {
        let data = told(&turn, TurnStatus::Running, 0);
        let turn = Turn { status: TurnStatus::Running, since: draft.now, ..turn };
        due(draft, turn, "answered", &said.text);
        return Ok(OpReply { data: Some(data), ..reply });
    }
    let turn = new_turn(draft, human, request.seq, said)?;
    let data = take_in(draft, turn, &open)?;
    Ok(OpReply { data, ..reply })
}

/// A person takes back a turn that waits in its lane or for them. What is worked on is the goal's to end.
fn withdraw(draft: &mut Draft<'_>, id: &TurnId) -> Result<(), Refusal> {
    let Some(turn) = draft.turn(id).cloned() else {
        return Err(Refusal::new(ErrorCode::NotFound, format!("{id} was not found")));
    };
    match turn.status {
        TurnStatus::Queued | TurnStatus::Asking => {
            end(draft, turn, TurnStatus::Failed, "withdrawn");
            Ok(())
        }
        TurnStatus::Running | TurnStatus::Done | TurnStatus::Failed => {
            let next = match turn.epic.filter(|_| turn.working) {
                Some(epic) => format!("; cancel what is worked on: goal cancel {epic}"),
                None => String::new(),
            };
            let detail = format!("{id} does not wait, it is {}{next}", turn.status);
            Err(Refusal::new(ErrorCode::Conflict, detail))
        }
    }
}

/// A turn comes into its lane, behind those of its person that have not ended. Gives what its person is told.
fn take_in(draft: &mut Draft<'_>, turn: Turn, open: &[Turn]) -> Result<Option<String>, Refusal> {
    let (id, lane) = (turn.id.clone(), turn.lane);
    join_human(draft, &Principal::Human(id.human.clone()), &id.human)?;
    let before = open.iter().filter(|open| open.lane == lane).count();
    lane::admit(lane, before, None)
        .map_err(|full| Refusal::new(ErrorCode::LaneFull, full.to_string()))?;
    let event = draft.event(EventKind::TurnSaid, LANES, format!("{id}: {} bytes", turn.text.len()));
    event.agent = Some(AgentId::Io(id.human.clone()));
    draft.put(Record::Turn(Box::new(turn)));
    begin_due(draft, &id.human);
    Ok(draft.turn(&id).map(|turn| told(turn, turn.status, before)))
}

/// What a person is told of a turn that they said or answered: `ahead` is how many of its lane come before it.
fn told(turn: &Turn, status: TurnStatus, ahead: usize) -> String {
    let data = json!({
        "conversation": turn.id.conversation.as_str(),
        "turn": turn.id.number,
        "moved": turn.moved,
        "status": status.as_str(),
        "ahead": ahead,
    });
    data.to_string()
}

fn check_text(text: &str) -> Result<(), Refusal> {
    fits("text", text, TURN_TEXT_BYTES_MAX)?;
    let wrong = |detail: String| Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    if text.trim().is_empty() {
        return wrong("text: is empty; say what you want".to_owned());
    }
    let hidden = |c: &char| c.is_control() && !matches!(c, '\n' | '\t');
    if let Some(hidden) = text.chars().find(hidden) {
        let code = u32::from(hidden);
        return wrong(format!("text: holds the control character U+{code:04X}; remove it"));
    }
    Ok(())
}

/// The next turn of a conversation, which goes on with what its last one pinned.
fn new_turn(
    draft: &Draft<'_>,
    human: &HumanName,
    order: u64,
    said: &TurnSay,
) -> Result<Turn, Refusal> {
    let TurnSay { conversation, text, lane, project, graph, channel, mode, keeps_mode } = said;
    let last = latest(draft, human, said);
    let kept_mode = last.and_then(|last| last.kept_mode);
    let pinned = |what: &str, is: &dyn std::fmt::Display| {
        let detail = format!(
            "conversation {conversation} has the {what} {is}; begin another one with `-c NAME`"
        );
        Refusal::new(ErrorCode::Conflict, detail)
    };
    let (project, graph, version) = match last {
        Some(last) => {
            if project.as_ref().is_some_and(|project| *project != last.project) {
                return Err(pinned("project", &last.project));
            }
            if graph.as_ref().is_some_and(|graph| *graph != last.graph) {
                return Err(pinned("graph", &last.graph));
            }
            (last.project.clone(), last.graph.clone(), last.version)
        }
        None => {
            let Some(project) = project.clone() else {
                let detail = format!("project: name one; conversation {conversation} is new");
                return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
            };
            let (graph, version) = graphs::pinned(draft, &project, graph.as_ref())?;
            (project, graph, version)
        }
    };
    known_project(draft, &project)?;
    let number = last.map_or(0, |last| last.id.number) + 1;
    Ok(Turn {
        id: TurnId { human: human.clone(), conversation: conversation.clone(), number },
        schedule: None,
        tell: None,
        channel: channel.clone(),
        mode: mode.or(kept_mode),
        kept_mode: mode.filter(|_| *keeps_mode).or(kept_mode),
        trace: draft.trace.clone(),
        lane: *lane,
        project,
        graph,
        version,
        text: text.clone(),
        status: TurnStatus::Queued,
        moved: 0,
        position: None,
        epic: None,
        answer: String::new(),
        order,
        working: false,
        outcome: String::new(),
        result: String::new(),
        said: draft.now,
        since: draft.now,
    })
}

/// The mode that an agent works in (spec 03, Modes): its project's, and less where the turn that it works for says so.
pub(super) fn mode_of(draft: &Draft<'_>, agent: &Agent) -> Mode {
    let base = draft.base();
    let project = agent.project.as_ref().and_then(|name| base.projects.get(name));
    let turn = agent.work.as_ref().and_then(|work| base.turn_of(work.epic));
    project.map_or_else(Mode::default, |it| it.mode).narrowed(turn.and_then(|turn| turn.mode))
}

/// The latest turn of a conversation, with those that this decision began: one may begin what is due of many schedules.
fn latest<'d>(draft: &'d Draft<'_>, human: &HumanName, said: &TurnSay) -> Option<&'d Turn> {
    let before = draft.base().turns_of(human, &said.conversation).next_back();
    let next =
        |turn: &&'d Turn| draft.turn(&TurnId { number: turn.id.number + 1, ..turn.id.clone() });
    let first = || {
        let (human, conversation) = (human.clone(), said.conversation.clone());
        draft.turn(&TurnId { human, conversation, number: 1 })
    };
    std::iter::successors(before.or_else(first), next).last()
}

/// An orchestrator's session is up: it is told of what the one before it may have left. A move that was made
/// already is not made again.
pub(super) fn remind(draft: &mut Draft<'_>, io: &AgentId) {
    let AgentId::Io(human) = io else { return };
    let left = |turn: &Turn| turn.status == TurnStatus::Running && !turn.working;
    for turn in open_turns(draft, human).into_iter().filter(left) {
        tell(draft, turn);
    }
}

/// A person's turns that have not ended, in the order in which they were said.
fn open_turns(draft: &Draft<'_>, human: &HumanName) -> Vec<Turn> {
    let before = draft.base().open_turns(human).map(|turn| turn.id.clone());
    let written = draft.written().records.values().filter_map(|record| {
        if let Record::Turn(turn) = record { Some(turn.id.clone()) } else { None }
    });
    let mut ids: Vec<TurnId> = before.chain(written).collect();
    ids.sort();
    ids.dedup();
    let turns = ids.iter().filter_map(|id| draft.turn(id)).filter(|turn| turn.id.human == *human);
    let mut open: Vec<Turn> = turns.filter(|turn| !turn.status.is_over()).cloned().collect();
    // A schedule's turn has the place of what was said last.
    open.sort_by_key(|turn| (turn.order, turn.said));
    open
}

/// Begins the first turn of each lane where none is under way; one that waits for its person lets the next begin (spec
/// 07, Lanes).
fn begin_due(draft: &mut Draft<'_>, human: &HumanName) {
    for lane in TurnLane::ALL {
        let mut turns = open_turns(draft, human);
        turns.retain(|turn| turn.lane == lane);
        let asks = |of: &Turn| {
            let same = |turn: &&Turn| turn.id.conversation == of.id.conversation;
            turns.iter().filter(same).any(|turn| turn.status == TurnStatus::Asking)
        };
        let waits = |turn: &Turn| turn.status == TurnStatus::Queued && !asks(turn);
        let first = turns.iter().position(waits);
        let free = turns.iter().all(|turn| turn.status != TurnStatus::Running);
        if let Some(first) = first.filter(|_| free) {
            let turn = turns.swap_remove(first);
            let turn = Turn { status: TurnStatus::Running, since: draft.now, ..turn };
            due(draft, turn, "", "");
        }
    }
}

/// A turn is to be moved, with what came of what it had to do.
fn due(draft: &mut Draft<'_>, turn: Turn, outcome: &str, result: &str) {
    let result = Room::of(TEXT_BYTES_MAX).text(result, usize::MAX);
    tell(draft, Turn { working: false, outcome: outcome.to_owned(), result, ..turn });
}

/// Tells a turn's orchestrator to move it.
fn tell(draft: &mut Draft<'_>, turn: Turn) {
    match graphs::text(draft, &turn) {
        Ok(graph) => {
            let body = TurnDue {
                turn: turn.id.clone(),
                moved: turn.moved,
                graph,
                text: turn.text.clone(),
                said: turn.said,
                position: turn.position.clone(),
                outcome: turn.outcome.clone(),
                result: turn.result.clone(),
            };
            let io = Principal::Agent(AgentId::Io(turn.id.human.clone()));
            let epic = turn.epic;
            // What another turn's end brings about is not part of its trace.
            let trace = turn.trace.clone();
            draft.put(Record::Turn(Box::new(turn)));
            let before = std::mem::replace(&mut draft.trace, trace);
            draft.mail(io, epic, MailBody::TurnDue(Box::new(body)));
            draft.trace = before;
        }
        Err(why) => end(draft, turn, TurnStatus::Failed, &why),
    }
}

/// An orchestrator moved a turn: it is written down, and what comes next begins.
fn move_turn(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    it: &TurnMove,
) -> Result<(), Refusal> {
    let io = AgentId::Io(it.turn.human.clone());
    if request.sender.from.agent() != Some(&io) {
        let detail = format!("{} is moved by {io}", it.turn);
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    super::current(draft, &request.sender)?;
    let Some(turn) = draft.turn(&it.turn).cloned() else {
        return Err(Refusal::new(ErrorCode::NotFound, format!("{} was not found", it.turn)));
    };
    if turn.status != TurnStatus::Running || turn.working || turn.moved != it.moved {
        let (status, moved) = (turn.status, turn.moved);
        let detail = format!("{} is {status} and was moved {moved} times", it.turn);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let path = Room::of(TEXT_BYTES_MAX).text(&it.path.join("; "), usize::MAX);
    let event = draft.event(EventKind::TurnMoved, RULE, format!("{}: {path}", it.turn));
    event.agent = Some(io);
    let position = it.position.clone();
    // An answer keeps what came of the work before it: words about work that was not done are told from its result.
    let outcome = match &it.doing {
        Doing::Answer(_) => turn.outcome.clone(),
        Doing::Spawn(_) | Doing::Ask(_) | Doing::Stuck(_) => String::new(),
    };
    let result = String::new();
    let moved = turn.moved + 1;
    let turn = Turn { moved, position, outcome, result, since: draft.now, ..turn };
    match &it.doing {
        Doing::Spawn(work) => delegate(draft, policy, turn, work),
        Doing::Ask(text) => {
            let answer = Room::of(TEXT_BYTES_MAX).text(text, usize::MAX);
            let turn = Turn { status: TurnStatus::Asking, answer, ..turn };
            scheduled::tell_of_question(draft, &turn);
            draft.put(Record::Turn(Box::new(turn)));
            begin_due(draft, &it.turn.human);
        }
        Doing::Answer(text) => end(draft, turn, TurnStatus::Done, text),
        Doing::Stuck(why) => end(draft, turn, TurnStatus::Failed, why),
    }
    Ok(())
}

/// Work for an agent is a goal with one task in the conversation's project, whose owner is the person: it is
/// spawned, tried again, reviewed, paid and asked about as any other.
fn delegate(draft: &mut Draft<'_>, policy: &Policy, turn: Turn, work: &Delegation) {
    let owner = Principal::Human(turn.id.human.clone());
    let epic = delegation(turn.said, &turn.id, turn.moved);
    let only = || sole(profiles::of_project(draft, &turn.project)).cloned();
    let plan = plan_of(&turn, work, work.profile.clone().or_else(only));
    let given = profiles::suffice_for_turn(draft, &turn.project, &plan)
        .and_then(|()| consulting::give(draft, policy, epic, &turn.project, &owner, &plan));
    match given {
        Ok(_) => {
            let turn = Turn { epic: Some(epic), working: true, ..turn };
            draft.put(Record::Turn(Box::new(turn)));
        }
        // Nothing was written: the turn goes on with that.
        Err(refusal) => due(draft, turn, "failure", &refusal.to_string()),
    }
}

fn plan_of(turn: &Turn, work: &Delegation, profile: Option<ProfileName>) -> PlanFile {
    let line = work.task.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut plan = one_task(&line.chars().take(TITLE_CHARS).collect::<String>());
    plan.goal.problem_statement.clone_from(&work.task);
    let origin = [(SESSION_KEY, turn.id.to_string()), ("to", turn.id.human.to_string())];
    let channel = turn.channel.iter().map(|channel| ("channel", channel.to_string()));
    let origin = origin.into_iter().chain(channel);
    plan.goal.origin = origin.map(|(key, text)| (key.to_owned(), text)).collect();
    for node in plan.nodes.iter_mut().filter(|node| node.id == NodeId::task(1, 1)) {
        node.objective.clone_from(&work.task);
        node.profile.clone_from(&profile);
        node.domain.clone_from(&work.domain);
        node.role = work.domain.as_ref().map_or(Role::Worker, |_| Role::Specialist);
        node.max_attempts = work.attempts;
        if !work.intents.is_empty() {
            let intent = json!({"enum": work.intents});
            let confidence = json!({"type": "number", "minimum": 0, "maximum": 1});
            let properties = json!({"intent": intent, "confidence": confidence});
            let schema =
                json!({"type": "object", "required": ["intent"], "properties": properties});
            node.output_schema = Some(schema.to_string());
        }
    }
    plan
}

fn end(draft: &mut Draft<'_>, turn: Turn, status: TurnStatus, answer: &str) {
    let answer = Room::of(TEXT_BYTES_MAX).text(answer, usize::MAX);
    let reason = format!("{}: {status}", turn.id);
    draft.event(EventKind::TurnEnded, RULE, reason).epic = turn.epic;
    let human = turn.id.human.clone();
    let turn = Turn { status, answer, working: false, since: draft.now, ..turn };
    scheduled::tell_of_end(draft, &turn);
    draft.put(Record::Turn(Box::new(turn)));
    begin_due(draft, &human);
}
