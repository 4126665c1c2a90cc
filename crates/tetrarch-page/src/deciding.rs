//! One thing that waits, in full and from the stored bytes, with the forms that decide on it. A yes is for exactly the
//! digest that was shown (spec 09, Human gate).

use maud::{Markup, html};
use tetrarch_core::change::{Change, ChangeStatus};
use tetrarch_core::id::{ChangeId, DraftId, QuestionId};
use tetrarch_core::plan::proposal::{DraftStatus, Proposal};
use tetrarch_core::plan::schema::node_in_words;
use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_view::diff::whole_diff;
use tetrarch_view::inbox::{change_in_words, output_in_words};
use tetrarch_view::text::unmixed;
use tetrarch_view::tone::Tone;

use crate::address::PageView;
use crate::form::{FormKind, button, form, text_form};
use crate::render::{PageExtra, PageModel, PageParts, PageVisit};
use crate::sheet::{agent, ago, class, field, field_of, link, list, nothing, state};

fn unknown(title: String) -> PageParts {
    PageParts { title, live: nothing("It is not known, or not any more."), ..PageParts::default() }
}

/// A question with its answers.
pub(crate) fn question(model: &PageModel, visit: &PageVisit<'_>, id: QuestionId) -> PageParts {
    let title = format!("Question {id}");
    let Some(it) = model.fleet.fold.records.questions.get(&id) else { return unknown(title) };
    let live = html! {
        dl class="sheet" data-state=(it.status.as_str()) {
            (field_of("state", &state(it.status.as_str())))
            (field_of("from", &agent(&it.agent)))
            (field_of("for", &link(&PageView::Plan(it.epic), &it.node.to_string())))
            (field("to", &it.to.to_string()))
            (field("asked", &ago(model.now, it.asked)))
            (field("answer", &it.answer))
        }
        pre class="said" { (unmixed(&it.text)) }
    };
    let after = if it.status == QuestionStatus::Open {
        answers(visit, it)
    } else {
        html! {}
    };
    PageParts { title, live, after, ..PageParts::default() }
}

fn answers(visit: &PageVisit<'_>, it: &Question) -> Markup {
    let id = it.id.to_string();
    html! {
        h2 { "Answer" }
        @for option in &it.options {
            (form(visit, FormKind::Answer, &id, &html! {
                input type="hidden" name="text" value=(option);
                button { (unmixed(option)) }
            }))
        }
        (text_form(visit, FormKind::Answer, &id, "Another answer", "Answer"))
    }
}

/// A change with its diff.
pub(crate) fn change(
    model: &PageModel,
    visit: &PageVisit<'_>,
    id: ChangeId,
    extra: &PageExtra,
) -> PageParts {
    let title = format!("Change {id}");
    let Some(it) = model.fleet.fold.records.changes.get(&id) else { return unknown(title) };
    let action = &it.made.action;
    let digest = action.digest();
    let shown = if let PageExtra::Diff(of, shown) = extra
        && *of == digest
    {
        Some(shown)
    } else {
        None
    };
    let live = html! {
        dl class="sheet" data-state=(it.status.as_str()) {
            (field_of("state", &state(it.status.as_str())))
            (field("why", &unmixed(&it.reason)))
            @if !it.status.is_terminal() { (field("will", &unmixed(&change_in_words(it, model.now)))) }
            (field("in", &unmixed(&format!("{} on {}", action.repository, it.host))))
            (field("head", &format!("{} from {}", action.head, action.base)))
            (field_of("from", &agent(&it.agent)))
            (field_of("for", &link(&PageView::Plan(it.epic), &it.node.to_string())))
            (field("commit", &it.commit))
            (field("digest", &digest))
        }
        (conflicts(it))
        @if shown.is_none() {
            p class="bad" { "It is not the same any more. " (link(&PageView::Change(id), "Look at it again.")) }
        }
    };
    let whole = shown
        .map(|shown| shown.as_ref().map_err(Clone::clone).and_then(|diff| whole_diff(id, diff)));
    let after = html! {
        dl class="sheet" { (files(it)) }
        @match whole {
            Some(Ok(diff)) => { (decide(visit, it, &digest)) (lines(&diff)) }
            Some(Err(why)) => { p class="bad" { "Nothing is decided here without the diff: " (why) } }
            None => {}
        }
    };
    PageParts { title, live, after, ..PageParts::default() }
}

fn files(it: &Change) -> Markup {
    let files: Vec<String> = it.made.action.files.iter().map(|file| unmixed(file)).collect();
    list("files", files.iter().map(String::as_str))
}

fn conflicts(it: &Change) -> Markup {
    let files: Vec<String> = it.conflicts.iter().map(|file| unmixed(file)).collect();
    html! { @if !files.is_empty() { dl class="sheet" { (list("conflicts", files.iter().map(String::as_str))) } } }
}

fn decide(visit: &PageVisit<'_>, it: &Change, digest: &str) -> Markup {
    let id = it.id.to_string();
    let no = text_form(visit, FormKind::Deny, &id, "Deny, because", "Deny");
    match it.status {
        ChangeStatus::Proposed | ChangeStatus::Conflicted => html! {
            h2 { "Decide" }
            (form(visit, FormKind::Approve, &id, &html! {
                input type="hidden" name="digest" value=(digest);
                input type="checkbox" id="read" required;
                label for="read" { "I have read the diff with digest " code { (digest) } }
                button { "Approve" }
            }))
            (no)
        },
        ChangeStatus::Approved => html! {
            h2 { "Decide" }
            (button(visit, FormKind::Merge, &id, "Merge")) (no)
        },
        ChangeStatus::Applying
        | ChangeStatus::Applied
        | ChangeStatus::Denied
        | ChangeStatus::Refused
        | ChangeStatus::Expired
        | ChangeStatus::Superseded => html! {},
    }
}

fn lines(diff: &str) -> Markup {
    html! {
        h2 { "Diff" }
        pre class="diff" tabindex="0" aria-label="Diff" {
            @for line in diff.lines() {
                @let tone = match line.chars().next() {
                    Some('+') => Tone::Good,
                    Some('-') => Tone::Bad,
                    Some('@') => Tone::Head,
                    Some(_) | None => Tone::Plain,
                };
                span class=(class(tone)) { (line) } "\n"
            }
        }
    }
}

/// A proposed change of a plan.
pub(crate) fn draft(model: &PageModel, visit: &PageVisit<'_>, id: DraftId) -> PageParts {
    let title = format!("Draft {id}");
    let drafts = &model.fleet.fold.records.drafts;
    let Some(it) = drafts.values().find_map(|of| of.get(&id)) else { return unknown(title) };
    let removed: Vec<String> = it.edit.removes.iter().map(ToString::to_string).collect();
    let live = html! {
        dl class="sheet" data-state=(it.status.as_str()) {
            (field_of("state", &state(it.status.as_str())))
            (field("from", &it.author.to_string()))
            (field_of("plan", &link(&PageView::Plan(it.epic), &format!("{} version {}", it.epic, it.base_version))))
            (field("why", &unmixed(&it.reason)))
            (field("notes", &unmixed(&it.notes)))
            (field("gives up", &removed.join(" ")))
            (field("output", &output_in_words(&it.edit.output)))
        }
        @for node in &it.edit.puts {
            h2 { (node.id) " " (unmixed(&node.name)) }
            dl class="sheet" {
                @for (key, text) in node_in_words(node) {
                    @match text.split_once('\n') {
                        None => { (field(&key, &unmixed(&text))) }
                        Some(_) => { (list(&key, text.lines().map(unmixed).collect::<Vec<_>>().iter().map(String::as_str))) }
                    }
                }
            }
        }
    };
    PageParts { title, live, after: verdict(visit, it), ..PageParts::default() }
}

fn verdict(visit: &PageVisit<'_>, it: &Proposal) -> Markup {
    if it.status != DraftStatus::Open {
        return html! {};
    }
    let id = it.id.to_string();
    html! {
        h2 { "Decide" }
        (form(visit, FormKind::ApproveDraft, &id, &html! {
            input type="checkbox" id="read" required;
            label for="read" { "I have read what it defines and gives up" }
            button { "Approve and apply" }
        }))
        (text_form(visit, FormKind::RejectDraft, &id, "Reject, because", "Reject"))
    }
}
