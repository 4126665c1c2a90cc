//! What an interaction orchestrator passes on to its person: the owner's messages as they are, and what anybody else
//! writes as words of whoever wrote them (spec 08, IO; spec 09, On the bus).

use super::{Mail, MailBody};
use crate::id::{AgentId, HumanName, Principal};

/// The message that a person gets of one in the inbox of their orchestrator; none when it is for the orchestrator alone.
#[must_use]
pub fn passed_on(mail: Mail, from: &Principal, to: &HumanName) -> Option<Mail> {
    let to = Principal::Human(to.clone());
    if mail.body.is_owners_order() || *from == to {
        return None;
    }
    if *from == Principal::Agent(AgentId::Go) {
        return Some(Mail { to, ..mail });
    }
    let text = format!("{from} wrote {}: {}", mail.body.topic(), words(&mail.body));
    let body = MailBody::Info { text: text.trim_end_matches(": ").to_owned() };
    Some(Mail { to, ack_required: false, body, ..mail })
}

/// What a message says in words of its writer.
fn words(body: &MailBody) -> &str {
    match body {
        MailBody::Info { text } | MailBody::Alert { text, .. } | MailBody::Answer { text, .. } => {
            text
        }
        MailBody::ReviewNeeded { reason } | MailBody::AgentCompleted { reason, .. } => reason,
        MailBody::Question { question, .. } => question,
        MailBody::AgentLost { cause, .. } => cause,
        MailBody::Unknown { json, .. } => json,
        MailBody::SpawnAnswer(_)
        | MailBody::Sponsor(_)
        | MailBody::SponsorAnswer(_)
        | MailBody::Launch(_)
        | MailBody::Kill(_)
        | MailBody::Stop(_)
        | MailBody::Rotate(_)
        | MailBody::Verb(_)
        | MailBody::BudgetRaised(_)
        | MailBody::Apply(_)
        | MailBody::Superseded(_)
        | MailBody::TakeOn { .. }
        | MailBody::TurnDue(_)
        | MailBody::StatusRequest(_)
        | MailBody::ResultReady(_)
        | MailBody::Violation { .. }
        | MailBody::Reply(_)
        | MailBody::SponsorSilent { .. }
        | MailBody::Receipt(_)
        | MailBody::Dead(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::Alert;

    fn mail(body: MailBody) -> Mail {
        let to = Principal::Agent("IO@ada".parse().unwrap());
        let (epic, correlation, cause, trace) = (None, None, String::new(), None);
        Mail { to, epic, correlation, cause, ack_required: false, trace, body }
    }

    #[test]
    fn words_of_anybody_but_the_owner_are_passed_on_as_theirs() {
        let ada = HumanName::new("ada").unwrap();
        let alert = || MailBody::Alert { alert: Alert::ALL[0], text: "spend it".to_owned() };
        let review = || MailBody::ReviewNeeded { reason: "look".to_owned() };
        let po = Principal::Agent("PO-evil".parse().unwrap());
        for (from, body, expected) in [
            (Principal::Agent(AgentId::Go), alert(), Some(alert())),
            (
                po.clone(),
                alert(),
                Some(info(&format!("PO-evil wrote {}: spend it", alert().topic()))),
            ),
            (po.clone(), review(), Some(info("PO-evil wrote plan.review_needed: look"))),
            (po.clone(), info("hi"), Some(info("PO-evil wrote info: hi"))),
            (po, MailBody::Answer { question: None, text: "B".to_owned() }, None),
            (Principal::Human(ada.clone()), info("hi"), None),
        ] {
            let passed = passed_on(mail(body), &from, &ada).map(|mail| (mail.to, mail.body));
            let expected = expected.map(|body| (Principal::Human(ada.clone()), body));
            assert_eq!(passed, expected, "{from}");
        }
    }

    fn info(text: &str) -> MailBody {
        MailBody::Info { text: text.to_owned() }
    }
}
