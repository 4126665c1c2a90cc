//! What views are put together from: words with their tone, links, fields, bars.

use maud::{Markup, html};
use tetrarch_core::id::AgentId;
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_view::row::short;
use tetrarch_view::tone::{Tone, tone_of};

use crate::address::PageView;

/// The class that shows a tone beside its word.
pub(crate) fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Warn => "warn",
        Tone::Bad => "bad",
        Tone::Faint => "faint",
        Tone::Head => "head",
    }
}

/// A word with its tone.
pub(crate) fn toned(word: &str, tone: Tone) -> Markup {
    html! { @if !word.is_empty() { span class=(class(tone)) { (word) } } }
}

/// A state's word.
pub(crate) fn state(word: &str) -> Markup {
    html! { span class={ "state " (class(tone_of(word))) } { (word) } }
}

/// A link to a view.
pub(crate) fn link(view: &PageView, text: &str) -> Markup {
    html! { a href=(view.href()) { (text) } }
}

/// A link to an agent, by its short name.
pub(crate) fn agent(id: &AgentId) -> Markup {
    html! { a href=(PageView::Agent(id.clone()).href()) title=(id) { (short(id)) } }
}

/// A field of a sheet, unless it is empty.
pub(crate) fn field(name: &str, text: &str) -> Markup {
    html! { @if !text.is_empty() { dt { (name) } dd { (text) } } }
}

/// A field whose text is made already.
pub(crate) fn field_of(name: &str, shown: &Markup) -> Markup {
    html! { dt { (name) } dd { (shown) } }
}

/// Several texts in one field, unless there are none.
pub(crate) fn list<'t>(name: &str, texts: impl IntoIterator<Item = &'t str>) -> Markup {
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    html! { @if !texts.is_empty() { dt { (name) } dd { ul { @for text in texts { li { (text) } } } } } }
}

/// A length of time that does not change with every second.
pub(crate) fn age(of: Millis) -> String {
    match of.0 {
        0..10_000 => "<10s".to_owned(),
        10_000..60_000 => Millis(of.0 / 10_000 * 10_000).to_string(),
        60_000.. => Millis(of.0 / 60_000 * 60_000).to_string(),
    }
}

/// How long ago something was.
pub(crate) fn ago(now: BusTime, since: BusTime) -> String {
    format!("{} ago", age(now - since))
}

/// Says that there is nothing.
pub(crate) fn nothing(text: &str) -> Markup {
    html! { p class="faint" { (text) } }
}

/// Columns of a table, for people who hear it too.
pub(crate) fn heads(names: &[&str]) -> Markup {
    html! { thead { tr { @for name in names { th scope="col" { (name) } } } } }
}
