//! What a link shows. Each view has an address that says everything about it, so it can be kept and sent.

use std::collections::BTreeSet;

use form_urlencoded::{Serializer, byte_serialize, parse};
use tetrarch_core::duration;
use tetrarch_core::id::{AgentId, ChangeId, DraftId, EpicId, QuestionId};
use tetrarch_core::time::Millis;
use tetrarch_view::order::{ListWish, SortColumn};

/// Characters of a filter or of words that are searched for.
const WORDS_MAX: usize = 200;

/// What is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageView {
    /// The agents, from this page of the list on.
    Fleet(Box<ListWish>, usize),
    /// One agent.
    Agent(AgentId),
    /// The goals.
    Goals,
    /// A goal's plan.
    Plan(EpicId),
    /// The versions of a plan.
    History(EpicId),
    /// What waits for people; with what waits for others.
    Inbox(bool),
    /// What people said, and who works for it.
    Conversations,
    /// A question.
    Question(QuestionId),
    /// A change.
    Change(ChangeId),
    /// A proposed change of a plan.
    Draft(DraftId),
    /// Hosts and the bus.
    Hosts,
    /// What was spent.
    Cost,
    /// What happened, before this sequence of the ledger.
    Events(Option<u64>),
    /// The agents as they were.
    Past(PastMoment),
    /// What has these words in it.
    Search(String),
}

/// A moment of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastMoment {
    /// After this entry of the ledger.
    Seq(u64),
    /// So long ago.
    Ago(Millis),
}

impl PastMoment {
    fn read(seq: Option<&str>, ago: Option<&str>) -> Option<Self> {
        match (seq, ago) {
            (Some(seq), _) => seq.parse().ok().map(Self::Seq),
            (None, Some(ago)) => duration::parse(ago).ok().map(Self::Ago),
            (None, None) => None,
        }
    }
}

impl PageView {
    /// Reads a path below the page's place, and a query; none when there is no such view.
    #[must_use]
    pub fn read(path: &str, query: &str) -> Option<Self> {
        let fields: Vec<(String, String)> = parse(query.as_bytes()).into_owned().collect();
        let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, text)| text);
        let (head, rest) = path.split_once('/').unwrap_or((path, ""));
        let id = || decoded(rest);
        Some(match (head, rest) {
            ("", "") => fleet(&fields),
            ("agent", _) => Self::Agent(id().parse().ok()?),
            ("goals", "") => Self::Goals,
            ("plan", _) => match rest.strip_suffix("/history") {
                Some(epic) => Self::History(decoded(epic).parse().ok()?),
                None => Self::Plan(id().parse().ok()?),
            },
            ("inbox", "") => Self::Inbox(field("everyone").is_some()),
            ("conversations", "") => Self::Conversations,
            ("question", _) => Self::Question(id().parse().ok()?),
            ("change", _) => Self::Change(id().parse().ok()?),
            ("draft", _) => Self::Draft(id().parse().ok()?),
            ("hosts", "") => Self::Hosts,
            ("cost", "") => Self::Cost,
            ("events", "") => {
                Self::Events(field("before").map(|text| text.parse()).transpose().ok()?)
            }
            ("past", "") => {
                let field = |name| field(name).map(String::as_str);
                Self::Past(PastMoment::read(field("seq"), field("ago"))?)
            }
            ("search", "") => Self::Search(words(field("q").map_or("", String::as_str))),
            (_, _) => return None,
        })
    }

    /// The address, relative to the page's place.
    #[must_use]
    pub fn href(&self) -> String {
        let of = |kind: &str, id: String| {
            format!("{kind}/{}", byte_serialize(id.as_bytes()).collect::<String>())
        };
        match self {
            Self::Fleet(wish, part) => fleet_href(wish, *part),
            Self::Agent(id) => of("agent", id.to_string()),
            Self::Goals => "goals".to_owned(),
            Self::Plan(epic) => of("plan", epic.to_string()),
            Self::History(epic) => format!("plan/{epic}/history"),
            Self::Inbox(everyone) => {
                if *everyone { "inbox?everyone=1" } else { "inbox" }.to_owned()
            }
            Self::Conversations => "conversations".to_owned(),
            Self::Question(id) => of("question", id.to_string()),
            Self::Change(id) => of("change", id.to_string()),
            Self::Draft(id) => of("draft", id.to_string()),
            Self::Hosts => "hosts".to_owned(),
            Self::Cost => "cost".to_owned(),
            Self::Events(None) => "events".to_owned(),
            Self::Events(Some(before)) => format!("events?before={before}"),
            Self::Past(PastMoment::Seq(seq)) => format!("past?seq={seq}"),
            Self::Past(PastMoment::Ago(ago)) => format!("past?ago={ago}"),
            Self::Search(words) => {
                let mut query = Serializer::new(String::new());
                query.append_pair("q", words);
                format!("search?{}", query.finish())
            }
        }
    }
}

/// A part of a path without its escapes.
fn decoded(text: &str) -> String {
    // A plus is itself in a path.
    let text = text.replace('+', "%2B");
    parse(text.as_bytes()).next().map(|(key, _)| key.into_owned()).unwrap_or_default()
}

fn words(text: &str) -> String {
    text.trim().chars().take(WORDS_MAX).collect()
}

fn fleet(fields: &[(String, String)]) -> PageView {
    let mut wish = ListWish::default();
    let mut part = 0;
    for (name, text) in fields {
        match name.as_str() {
            "q" => wish.filter = words(text),
            "sort" => {
                let named = |column: &SortColumn| column.as_str().eq_ignore_ascii_case(text);
                wish.column = SortColumn::ALL.into_iter().find(named).unwrap_or_default();
            }
            "reversed" => wish.reversed = true,
            "ended" => wish.ended = true,
            "below" => wish.collapsed.extend(text.parse::<AgentId>()),
            "part" => part = text.parse().unwrap_or(0),
            _ => {}
        }
    }
    PageView::Fleet(Box::new(wish), part)
}

fn fleet_href(wish: &ListWish, part: usize) -> String {
    let mut query = Serializer::new(String::new());
    if !wish.filter.is_empty() {
        query.append_pair("q", &wish.filter);
    }
    if wish.column != SortColumn::default() {
        query.append_pair("sort", &wish.column.as_str().to_lowercase());
    }
    if wish.reversed {
        query.append_pair("reversed", "1");
    }
    if wish.ended {
        query.append_pair("ended", "1");
    }
    for id in &wish.collapsed {
        query.append_pair("below", &id.to_string());
    }
    if part > 0 {
        query.append_pair("part", &part.to_string());
    }
    let query = query.finish();
    if query.is_empty() { "./".to_owned() } else { format!("./?{query}") }
}

/// The agents as they are listed when nobody wishes for something else.
#[must_use]
pub fn everybody() -> PageView {
    PageView::Fleet(Box::default(), 0)
}

/// The same list with other agents below whom nobody is shown.
#[must_use]
pub fn turned(wish: &ListWish, id: &AgentId) -> PageView {
    let mut collapsed: BTreeSet<AgentId> = wish.collapsed.clone();
    if !collapsed.remove(id) {
        collapsed.insert(id.clone());
    }
    PageView::Fleet(Box::new(ListWish { collapsed, ..wish.clone() }), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(path: &str, query: &str) -> Option<String> {
        PageView::read(path, query).map(|view| view.href())
    }

    #[test]
    fn every_address_reads_as_it_was_written() {
        let goal = "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC";
        for (path, query) in [
            ("", "q=a+b%26c&sort=cost&reversed=1&ended=1&below=PO-demo&part=3"),
            ("agent/HO%40box", ""),
            ("agent/W%3A01JD8Z5W6T4QK3M9X2V7B1N0AC", ""),
            ("goals", ""),
            (&format!("plan/{goal}"), ""),
            (&format!("plan/{goal}/history"), ""),
            ("inbox", "everyone=1"),
            ("conversations", ""),
            ("question/qst_01JD8Z5W6T4QK3M9X2V7B1N0AC", ""),
            ("change/chg_01JD8Z5W6T4QK3M9X2V7B1N0AC", ""),
            ("draft/drf_01JD8Z5W6T4QK3M9X2V7B1N0AC", ""),
            ("hosts", ""),
            ("cost", ""),
            ("events", "before=17"),
            ("past", "seq=17"),
            ("past", "ago=3m"),
            ("search", "q=%3Cb%3E"),
        ] {
            let href = round(path, query).unwrap();
            let expected =
                if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
            assert_eq!(href.trim_start_matches("./"), expected);
        }
        assert_eq!(round("", "").as_deref(), Some("./"));
    }

    #[test]
    fn address_that_is_none_shows_nothing() {
        for path in [
            "nothing",
            "agent",
            "agent/",
            "agent/..%2F..%2Fetc",
            "agent/a/b",
            "plan/x",
            "goals/x",
            "../etc/passwd",
            "inbox/%00",
            "question/chg_01JD8Z5W6T4QK3M9X2V7B1N0AC",
        ] {
            assert_eq!(round(path, ""), None, "{path}");
        }
        for query in ["", "seq=x", "ago=", "ago=soon"] {
            assert_eq!(round("past", query), None, "{query}");
        }
        assert_eq!(round("events", "before=x"), None);
    }
}
