//! Mail as the owner deals with it: what is written to GO, and what becomes of a message that its
//! reader set aside (spec 02, Mail).

use crate::agent::Hosting;
use crate::id::{AgentId, EpicId, HostName, Principal};
use crate::ledger::{EventKind, Record};
use crate::limits::{MESSAGE_ID_BYTES_MAX, TEXT_BYTES_MAX};
use crate::liveness::Liveness;
use crate::mail::receipt::{About, DeadNotice, Receipt, SetAside, Stage, is_about_mail};
use crate::mail::{Lane, Mail, MailBody};
use crate::plan::PlanReason;
use crate::plan::proposal::ReviewAsk;
use crate::records::Records;
use crate::request::Sender;
use crate::step::{Draft, Step};
use crate::time::BusTime;

use super::{fit, go, questions};

const RULE: &str = "02 Mail";
/// What GO does not read.
const OTHERWISE: &str = "GO accepts plan.review_needed, info and receipts as mail; send anything else as an operation (op.<name>) or a report (report.<you>)";

/// A message to GO.
#[derive(Debug, Clone, PartialEq)]
pub struct Posted {
    /// Which message.
    pub of: About,
    /// On which lane it came.
    pub lane: Lane,
    /// Who wrote it, as the subject says, and the host that published it; none when that cannot be
    /// read.
    pub writer: Option<(Principal, Option<HostName>)>,
    /// What it says and who says it, or why that cannot be read.
    pub content: Result<(Mail, Sender), String>,
}

/// Why GO sets a message aside; none when it takes it.
#[must_use]
pub fn refusal(records: &Records, posted: &Posted) -> Option<String> {
    let (mail, sender) = match &posted.content {
        Ok(read) => read,
        Err(error) => return Some(error.clone()),
    };
    if posted.lane == Lane::Ctl {
        return Some(format!("GO accepts no control messages; {OTHERWISE}"));
    }
    match &sender.from {
        Principal::Human(_) => {}
        Principal::Agent(AgentId::Go) => return None,
        Principal::Agent(_) => {
            let draft = Draft::new(records, BusTime::default(), go());
            if let Err(refusal) = super::current(&draft, sender) {
                return Some(refusal.to_string());
            }
        }
    }
    if matches!(mail.body, MailBody::ReviewNeeded { .. })
        && !is_about_own_goal(records, sender, mail.epic)
    {
        return Some(
            "plan.review_needed names no goal of the writer's project; set `epic`".to_owned(),
        );
    }
    match &mail.body {
        MailBody::ReviewNeeded { .. }
        | MailBody::Info { .. }
        | MailBody::Receipt(_)
        | MailBody::Dead(_) => None,
        other @ (MailBody::SpawnAnswer(_)
        | MailBody::Sponsor(_)
        | MailBody::SponsorAnswer(_)
        | MailBody::Launch(_)
        | MailBody::Kill(_)
        | MailBody::Stop(_)
        | MailBody::Rotate(_)
        | MailBody::Superseded(_)
        | MailBody::TakeOn { .. }
        | MailBody::StatusRequest(_)
        | MailBody::TurnDue(_)
        | MailBody::ResultReady(_)
        | MailBody::AgentCompleted { .. }
        | MailBody::Violation { .. }
        | MailBody::AgentLost { .. }
        | MailBody::Question { .. }
        | MailBody::Answer { .. }
        | MailBody::Reply(_)
        | MailBody::SponsorSilent { .. }
        | MailBody::Alert { .. }
        | MailBody::Verb(_)
        | MailBody::BudgetRaised(_)
        | MailBody::Apply(_)
        | MailBody::Unknown { .. }) => {
            Some(format!("{} is not for GO: {OTHERWISE}", other.topic()))
        }
    }
}

/// Whether an agent outside names a goal of its own project; anybody else may also name none.
fn is_about_own_goal(records: &Records, sender: &Sender, epic: Option<EpicId>) -> bool {
    let agent = sender.from.agent().and_then(|id| records.agents.get(id));
    let Some(agent) = agent.filter(|agent| agent.hosting == Hosting::External) else { return true };
    let goal = epic.and_then(|epic| records.goals.get(&epic));
    goal.is_some_and(|goal| agent.project.as_ref() == Some(&goal.project))
}

/// Decides on a message to GO. The position moves with what it causes.
pub(super) fn posted(records: &Records, now: BusTime, posted: &Posted) -> Step {
    let actor = posted.writer.as_ref().map_or_else(go, |(from, _)| from.clone());
    let mut draft = Draft::new(records, now, actor);
    if posted.lane == Lane::Mail
        && let Some(mut owner) = draft.agent(&AgentId::Go).cloned()
    {
        owner.mail_read = posted.of.seq;
        draft.put(Record::Agent(Box::new(owner)));
    }
    let refused = refusal(records, posted);
    match (refused, &posted.content) {
        (Some(reason), _) => {
            if let Some((from, via)) = posted.writer.clone() {
                let letter = SetAside { of: posted.of.clone(), from, via, reason };
                set_aside(&mut draft, &AgentId::Go, &letter);
            }
        }
        (None, Ok((mail, sender))) => take(&mut draft, &sender.from, mail, &posted.of),
        (None, Err(_)) => {}
    }
    draft.finish()
}

fn take(draft: &mut Draft<'_>, from: &Principal, mail: &Mail, of: &About) {
    if *from == go() {
        // What the overseer asks of itself it knows.
        return;
    }
    if let MailBody::ReviewNeeded { reason } = &mail.body {
        review(draft, from, mail.epic, &short(reason));
    }
    if let MailBody::Info { text } = &mail.body {
        let event = draft.event(EventKind::MailRead, RULE, format!("info: {}", short(text)));
        event.agent = from.agent().cloned();
        event.epic = mail.epic;
    }
    if mail.owes_receipts() {
        let receipt = Receipt { of: about(of), stage: Stage::Consumed };
        draft.mail(from.clone(), mail.epic, MailBody::Receipt(receipt));
    }
}

/// Somebody wants people to look at a plan: the goal's owner is told, or all people when it is about
/// no goal that is known.
fn review(draft: &mut Draft<'_>, from: &Principal, epic: Option<EpicId>, text: &str) {
    let event = draft.event(EventKind::MailRead, RULE, format!("plan.review_needed: {text}"));
    event.agent = from.agent().cloned();
    event.epic = epic;
    let known = epic.and_then(|epic| draft.base().goals.get(&epic).map(|goal| (epic, goal)));
    let told = match known {
        Some((epic, goal)) => {
            let owner = questions::desk_of(draft, &goal.owner);
            if draft.base().plans.contains_key(&epic) {
                let (by, text) = (from.clone(), text.to_owned());
                let reason = PlanReason::Replan;
                draft.review(epic, ReviewAsk { by, reason, draft: None, text });
            }
            vec![owner]
        }
        None => {
            let people = draft.base().people();
            people.map(|io| Principal::Agent(io.clone())).collect()
        }
    };
    let reason = format!("{from}: {text}");
    for to in told.into_iter().filter(|to| to != from) {
        draft.mail(to, epic, MailBody::ReviewNeeded { reason: reason.clone() });
    }
}

/// Notes what a reader reports that it set aside. Of one outside nobody can tell whether it had that message, so its
/// words are told as its own.
pub(super) fn reported_set_aside(draft: &mut Draft<'_>, reader: &AgentId, letter: &SetAside) {
    let mut letter = letter.clone();
    if draft.agent(reader).is_some_and(|agent| agent.hosting == Hosting::External) {
        letter.reason.insert_str(0, &format!("{reader} says: "));
    }
    set_aside(draft, reader, &letter);
}

/// Notes that a message was set aside and tells its writer, once. What tells of another message is
/// only counted, and so is what GO wrote: one notice never leads to another.
pub(super) fn set_aside(draft: &mut Draft<'_>, reader: &AgentId, letter: &SetAside) {
    let (of, reason) = (about(&letter.of), short(&letter.reason));
    let topic = if of.topic.is_empty() { "unreadable" } else { of.topic.as_str() };
    let what = format!("{topic} from {} to {reader}, {} in MAIL: {reason}", letter.from, of.seq);
    draft.event(EventKind::MailSetAside, RULE, what).agent = Some(reader.clone());
    if is_about_mail(topic) || !can_hear(draft, letter) {
        return;
    }
    let to = Principal::Agent(reader.clone());
    draft.mail(letter.from.clone(), None, MailBody::Dead(DeadNotice { of, to, reason }));
}

/// Whether the writer is somebody who can be told, and wrote it: a host speaks only for those that it
/// has.
fn can_hear(draft: &Draft<'_>, letter: &SetAside) -> bool {
    let id = match &letter.from {
        Principal::Human(_) => return letter.via.is_none(),
        Principal::Agent(AgentId::Go) => return false,
        Principal::Agent(id) => id,
    };
    let Some(agent) = draft.agent(id).filter(|agent| agent.liveness != Liveness::Terminated) else {
        return false;
    };
    let Some(via) = &letter.via else { return agent.hosting == Hosting::External };
    let own = *id == AgentId::Ho(via.clone());
    own || agent.placement.as_ref().is_some_and(|placement| placement.host == *via)
}

fn about(of: &About) -> About {
    let cut = |text: &str| fit::Room::of(MESSAGE_ID_BYTES_MAX).text(text, usize::MAX);
    About { seq: of.seq, message: cut(&of.message), topic: cut(&of.topic) }
}

fn short(text: &str) -> String {
    fit::Room::of(TEXT_BYTES_MAX).text(text, usize::MAX)
}
