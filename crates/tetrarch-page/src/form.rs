//! What a form asks the owner for. Its words come from people, so they are checked like those of a command.

use form_urlencoded::parse;
use maud::{Markup, html};
use tetrarch_core::id::{AgentId, ChangeId, DraftId, EpicId};
use tetrarch_core::plan::proposal::DraftVerdict;
use tetrarch_core::request::planning::PlanOp;
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::request::{GateOp, GateVerdict, Op};
use tetrarch_core::verb::Wanted;
use tetrarch_core::words;

use crate::address::PageView;
use crate::render::PageVisit;

/// Why, when nobody says.
const NO_REASON: &str = "a human asked";
/// Characters of a text that is sent.
const TEXT_MAX: usize = 4_000;

words! {
    /// What a form is for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FormKind {
        /// A text before an agent's next step.
        Steer = "steer",
        /// Abort an agent's turn.
        Interrupt = "interrupt",
        /// Let an agent stand still.
        Pause = "pause",
        /// Let it go on.
        Resume = "resume",
        /// End an agent and all below it.
        Stop = "stop",
        /// Answer a question.
        Answer = "answer",
        /// Approve a change.
        Approve = "approve",
        /// Deny a change.
        Deny = "deny",
        /// Merge an approved change.
        Merge = "merge",
        /// Apply a draft.
        ApproveDraft = "approve-draft",
        /// Reject a draft.
        RejectDraft = "reject-draft",
    }
}

/// A form that was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct SentForm {
    /// What it carries, by which it is taken once.
    pub form: String,
    /// What it asks for.
    pub op: Op,
    /// That, in words.
    pub what: String,
    /// Of whom receipts come.
    pub agent: Option<AgentId>,
    /// What is shown then.
    pub back: PageView,
}

/// Reads a form; `draft_of` says whose plan a draft is for.
///
/// # Errors
/// What is wrong with it.
pub fn read(body: &[u8], draft_of: impl Fn(DraftId) -> Option<EpicId>) -> Result<SentForm, String> {
    let fields: Vec<(String, String)> = parse(body).into_owned().collect();
    let field =
        |name: &str| fields.iter().find(|(key, _)| key == name).map_or("", |(_, text)| text.trim());
    let kind = FormKind::ALL.into_iter().find(|kind| kind.as_str() == field("do"));
    let kind = kind.ok_or("the form does not say what to do")?;
    // Browsers end each line of a field with both characters.
    let (id, text) = (field("id"), &*field("text").replace("\r\n", "\n"));
    if text.chars().count() > TEXT_MAX {
        return Err(format!("the text has more than {TEXT_MAX} characters; shorten it"));
    }
    let (text, reason) =
        (text.to_owned(), if text.is_empty() { NO_REASON } else { text }.to_owned());
    let needed = || {
        if text.is_empty() { Err("nothing was sent: a text is needed") } else { Ok(text.clone()) }
    };
    let verb = |wanted: Wanted| {
        let agent = agent(id)?;
        Ok::<_, String>((Op::Verb(VerbOp { agent: agent.clone(), wanted }), PageView::Agent(agent)))
    };
    let gate = |verdict: GateVerdict, reason: String| {
        let change = change(id)?;
        Ok::<_, String>((
            Op::Gate(GateOp::Decide { change, verdict, reason }),
            PageView::Change(change),
        ))
    };
    let draft = |verdict: DraftVerdict, reason: String| {
        let draft: DraftId = id.parse().map_err(|_| format!("{id:?} is no draft"))?;
        let epic = draft_of(draft).ok_or_else(|| format!("draft {draft} was not found"))?;
        let op = PlanOp::Decide { epic, draft, verdict, reason };
        Ok::<_, String>((Op::Plan(op), PageView::Draft(draft)))
    };
    let (op, back) = match kind {
        FormKind::Steer => verb(Wanted::Steer { text: needed()? })?,
        FormKind::Interrupt => verb(Wanted::Interrupt { reason })?,
        FormKind::Pause => verb(Wanted::Pause)?,
        FormKind::Resume => verb(Wanted::Resume)?,
        FormKind::Stop => {
            let agent = agent(id)?;
            (Op::AgentRetire { agent: agent.clone(), reason }, PageView::Agent(agent))
        }
        FormKind::Answer => {
            let question = id.parse().map_err(|_| format!("{id:?} is no question"))?;
            (Op::QuestionAnswer { question, text: needed()? }, PageView::Question(question))
        }
        FormKind::Approve => {
            gate(GateVerdict::Approve { digest: field("digest").to_owned() }, text.clone())?
        }
        FormKind::Deny => gate(GateVerdict::Deny, needed()?)?,
        FormKind::Merge => {
            let change = change(id)?;
            (Op::Gate(GateOp::Apply { change }), PageView::Change(change))
        }
        FormKind::ApproveDraft => draft(DraftVerdict::Approve, String::new())?,
        FormKind::RejectDraft => draft(DraftVerdict::Reject, needed()?)?,
    };
    let agent = if let PageView::Agent(agent) = &back { Some(agent.clone()) } else { None };
    let what = format!("{} {id}", kind.as_str());
    Ok(SentForm { form: field("form").to_owned(), op, what, agent, back })
}

fn agent(id: &str) -> Result<AgentId, String> {
    id.parse().map_err(|_| format!("{id:?} is no agent"))
}

fn change(id: &str) -> Result<ChangeId, String> {
    id.parse().map_err(|_| format!("{id:?} is no change"))
}

/// A form of this kind about something, with what stands in it.
pub(crate) fn form(visit: &PageVisit<'_>, kind: FormKind, id: &str, inside: &Markup) -> Markup {
    html! {
        form action="act" method="post" class="act" {
            input type="hidden" name="form" value=(visit.form);
            input type="hidden" name="do" value=(kind.as_str());
            input type="hidden" name="id" value=(id);
            (inside)
        }
    }
}

/// A form that is one button.
pub(crate) fn button(visit: &PageVisit<'_>, kind: FormKind, id: &str, name: &str) -> Markup {
    form(visit, kind, id, &html! { button { (name) } })
}

/// A form with a text.
pub(crate) fn text_form(
    visit: &PageVisit<'_>,
    kind: FormKind,
    id: &str,
    label: &str,
    name: &str,
) -> Markup {
    let own = format!("text-{}", kind.as_str());
    form(
        visit,
        kind,
        id,
        &html! {
            label for=(own) { (label) }
            input id=(own) name="text" maxlength=(TEXT_MAX) autocomplete="off";
            button { (name) }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(body: &str) -> Result<SentForm, String> {
        read(body.as_bytes(), |_| None)
    }

    #[test]
    fn form_asks_for_what_its_command_asks_for() {
        let change = "chg_01JD8Z5W6T4QK3M9X2V7B1N0AC";
        let approve = sent(&format!("form=f&do=approve&id={change}&digest=abc&text=")).unwrap();
        let verdict = GateVerdict::Approve { digest: "abc".to_owned() };
        let op = GateOp::Decide { change: change.parse().unwrap(), verdict, reason: String::new() };
        assert_eq!((approve.op, approve.form.as_str()), (Op::Gate(op), "f"));
        let steer = sent("do=steer&id=PO-demo&text=use+metres%2C+please").unwrap();
        let wanted = Wanted::Steer { text: "use metres, please".to_owned() };
        let agent: AgentId = "PO-demo".parse().unwrap();
        assert_eq!(steer.op, Op::Verb(VerbOp { agent: agent.clone(), wanted }));
        assert_eq!((steer.agent, steer.back), (Some(agent.clone()), PageView::Agent(agent)));
    }

    #[test]
    fn answer_keeps_the_line_ends_of_its_option() {
        let question = "qst_01JD8Z5W6T4QK3M9X2V7B1N0AC";
        let answer = sent(&format!("do=answer&id={question}&text=Blue%0D%0Anewline")).unwrap();
        let text = "Blue\nnewline".to_owned();
        let question = question.parse().unwrap();
        assert_eq!(answer.op, Op::QuestionAnswer { question, text });
    }

    #[test]
    fn form_without_what_it_needs_is_refused() {
        let long = format!("do=steer&id=PO-demo&text={}", "x".repeat(TEXT_MAX + 1));
        for (body, word) in [
            ("", "what to do"),
            ("do=destroy&id=PO-demo", "what to do"),
            ("do=steer&id=PO-demo&text=+", "a text is needed"),
            ("do=deny&id=chg_01JD8Z5W6T4QK3M9X2V7B1N0AC", "a text is needed"),
            ("do=pause&id=..%2F..", "is no agent"),
            ("do=merge&id=qst_01JD8Z5W6T4QK3M9X2V7B1N0AC", "is no change"),
            ("do=answer&id=1&text=x", "is no question"),
            ("do=approve-draft&id=drf_01JD8Z5W6T4QK3M9X2V7B1N0AC", "was not found"),
            (&long, "more than 4000"),
        ] {
            let refused = sent(body).unwrap_err();
            assert!(refused.contains(word), "{body}: {refused}");
        }
    }
}
