//! Who looks: the browsers that came with the link's token, each known by a cookie, and the forms that each was given.
//! A form has an id of its own, under which it asks the owner, so that it does something once. Secrets come in as
//! arguments, and are compared by their digests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tetrarch_core::id::{AgentId, RequestId, sha256_hex};
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_core::words;

/// Browsers that may look at the same time; who came first goes first.
pub const SESSIONS_MAX: usize = 64;
/// How long a browser may look without a new token.
pub const SESSION_AGE: Millis = Millis(12 * 60 * 60 * 1_000);
/// Forms that one browser may send.
const FORMS_MAX: usize = 10_000;
/// Acts of which a browser is told the outcome.
const ACTS_MAX: usize = 5;

/// Something that a browser asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAct {
    /// The request.
    pub id: RequestId,
    /// What, in words.
    pub what: String,
    /// Of whom receipts come.
    pub agent: Option<AgentId>,
    /// What the owner said.
    pub outcome: Result<String, String>,
}

words! {
    /// Why a form is not taken.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FormRefusal {
        /// The page did not make it for this browser.
        Forged = "the form is not of this session; load the page again",
        /// It was sent before.
        Used = "the form was sent before; load the page again",
        /// The browser has sent too many.
        TooMany = "too many forms were sent; open the link again",
    }
}

/// A browser that may look.
#[derive(Debug)]
pub struct PageSession {
    secret: String,
    since: BusTime,
    used: BTreeSet<RequestId>,
    /// What it asked for last.
    pub acts: VecDeque<PageAct>,
}

impl PageSession {
    /// What a form of this id carries.
    #[must_use]
    pub fn form(&self, id: RequestId) -> String {
        format!("{id}.{}", sha256_hex(format!("{}{id}", self.secret).as_bytes()))
    }

    /// Takes a form, once.
    ///
    /// # Errors
    /// It is forged, or was taken before.
    pub fn take(&mut self, text: &str) -> Result<RequestId, FormRefusal> {
        let id =
            text.split('.').next().and_then(|id| id.parse().ok()).ok_or(FormRefusal::Forged)?;
        if sha256_hex(text.as_bytes()) != sha256_hex(self.form(id).as_bytes()) {
            return Err(FormRefusal::Forged);
        }
        if self.used.len() >= FORMS_MAX {
            return Err(FormRefusal::TooMany);
        }
        if self.used.insert(id) { Ok(id) } else { Err(FormRefusal::Used) }
    }

    /// Keeps what became of something.
    pub fn keep(&mut self, act: PageAct) {
        self.acts.push_front(act);
        self.acts.truncate(ACTS_MAX);
    }
}

/// All browsers that may look.
#[derive(Debug, Default)]
pub struct PageSessions {
    sessions: BTreeMap<String, PageSession>,
}

impl PageSessions {
    /// Lets a browser look that is given this cookie; its forms are made with the secret.
    pub fn open(&mut self, cookie: &str, secret: String, now: BusTime) {
        self.sessions.retain(|_, session| !is_over(session, now));
        while self.sessions.len() >= SESSIONS_MAX {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.since);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.sessions.remove(&oldest);
        }
        let session =
            PageSession { secret, since: now, used: BTreeSet::new(), acts: VecDeque::new() };
        self.sessions.insert(sha256_hex(cookie.as_bytes()), session);
    }

    /// The browser with this cookie; none when it may not look.
    pub fn find(&mut self, cookie: &str, now: BusTime) -> Option<&mut PageSession> {
        let session = self.sessions.get_mut(&sha256_hex(cookie.as_bytes()))?;
        (!is_over(session, now)).then_some(session)
    }
}

fn is_over(session: &PageSession, now: BusTime) -> bool {
    now - session.since >= SESSION_AGE
}

/// The value of a cookie of this name among those that a request carries.
#[must_use]
pub fn cookie<'c>(header: &'c str, name: &str) -> Option<&'c str> {
    let mut pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetrarch_core::id::Ulid;

    fn id(n: u128) -> RequestId {
        RequestId(Ulid::from_parts(1, n))
    }

    fn with(cookies: &[&str]) -> PageSessions {
        let mut sessions = PageSessions::default();
        cookies.iter().for_each(|it| sessions.open(it, format!("secret of {it}"), BusTime(0)));
        sessions
    }

    #[test]
    fn form_is_taken_once_and_only_of_its_own_session() {
        let mut sessions = with(&["a", "b"]);
        let form = sessions.find("a", BusTime(1)).unwrap().form(id(7));
        let other = sessions.find("b", BusTime(1)).unwrap();
        assert_eq!(other.take(&form), Err(FormRefusal::Forged));
        let own = sessions.find("a", BusTime(1)).unwrap();
        for forged in ["", ".", "x.y", &id(7).to_string(), &format!("{}x", form)] {
            assert_eq!(own.take(forged), Err(FormRefusal::Forged), "{forged}");
        }
        let moved = form.replace(&id(7).to_string(), &id(8).to_string());
        assert_eq!(own.take(&moved), Err(FormRefusal::Forged));
        assert_eq!(own.take(&form), Ok(id(7)));
        assert_eq!(own.take(&form), Err(FormRefusal::Used));
    }

    #[test]
    fn session_ends_with_its_time_and_unknown_cookies_have_none() {
        let mut sessions = with(&["a"]);
        assert!(
            sessions.find("A", BusTime(1)).is_none() && sessions.find("", BusTime(1)).is_none()
        );
        let end = BusTime(0) + SESSION_AGE;
        assert!(sessions.find("a", BusTime(end.0 - 1)).is_some());
        assert!(sessions.find("a", end).is_none());
    }

    #[test]
    fn sessions_are_bounded_and_the_oldest_ends() {
        let mut sessions = PageSessions::default();
        for n in 0..=SESSIONS_MAX {
            sessions.open(&n.to_string(), String::new(), BusTime(n as u64));
        }
        assert_eq!(sessions.sessions.len(), SESSIONS_MAX);
        assert!(
            sessions.find("0", BusTime(9)).is_none() && sessions.find("1", BusTime(9)).is_some()
        );
    }

    #[test]
    fn cookie_is_found_by_its_whole_name() {
        assert_eq!(cookie("a=1; page=x; b=2", "page"), Some("x"));
        assert_eq!(cookie("mypage=1", "page"), None);
        assert_eq!(cookie("", "page"), None);
    }
}
