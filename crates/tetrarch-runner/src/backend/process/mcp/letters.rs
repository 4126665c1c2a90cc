//! What a coding agent was given of its mail, and how: so that nothing is said to it twice without saying so.

use std::collections::{BTreeSet, VecDeque};

/// Messages that are remembered; the first is forgotten first.
const LETTERS_MAX: usize = 64;

/// How a message was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend::process) enum LetterWay {
    /// To a call that waited for mail.
    Wait,
    /// Into its conversation.
    Conversation,
    /// To a call that read the inbox.
    Inbox,
}

impl LetterWay {
    fn words(self) -> &'static str {
        match self {
            Self::Wait => "to a call of mail_wait",
            Self::Conversation => "in your conversation",
            Self::Inbox => "to a call of mail_inbox",
        }
    }
}

/// What was given to one session of an agent.
#[derive(Debug, Default)]
pub(super) struct GivenLetters(VecDeque<(String, LetterWay)>);

impl GivenLetters {
    /// Notes a message by its first line.
    pub(super) fn note(&mut self, words: &str, way: LetterWay) {
        if self.0.len() >= LETTERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((first_line(words).to_owned(), way));
    }

    /// What a call is told that reads the inbox: the messages that were taken out of the way to its conversation, and
    /// those that it was given before.
    pub(super) fn read(&mut self, taken: &[String]) -> String {
        let mut words = taken.to_vec();
        let mut now = BTreeSet::new();
        for text in taken {
            let is_it = |(line, way): &(String, LetterWay)| {
                *way == LetterWay::Conversation && text.contains(line.as_str())
            };
            let Some(at) = self.0.iter().rposition(is_it) else { continue };
            if let Some((_, way)) = self.0.get_mut(at) {
                *way = LetterWay::Inbox;
                now.insert(at);
            }
        }
        if taken.is_empty() {
            words.push("no new mail".to_owned());
        }
        let before = self.0.iter().enumerate().filter(|(at, _)| !now.contains(at));
        let listed = before.map(|(_, (line, way))| format!("- {line}: {}", way.words()));
        let listed: Vec<String> = listed.collect();
        if !listed.is_empty() {
            words.push(format!("given to you before, and not repeated:\n{}", listed.join("\n")));
        }
        words.join("\n\n")
    }
}

fn first_line(words: &str) -> &str {
    words.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_read_once_and_what_was_given_otherwise_is_named() {
        let mut letters = GivenLetters::default();
        assert_eq!(letters.read(&[]), "no new mail");
        let mail = |topic: &str| format!("[mail from GO, topic {topic}]\nbody of {topic}");
        letters.note(&mail("a"), LetterWay::Conversation);
        letters.note(&mail("b"), LetterWay::Conversation);
        letters.note(&mail("c"), LetterWay::Wait);
        let read = letters.read(&[mail("a"), mail("b")]);
        assert!(read.starts_with(&format!("{}\n\n{}", mail("a"), mail("b"))), "{read}");
        assert!(read.ends_with("- [mail from GO, topic c]: to a call of mail_wait"), "{read}");
        let again = letters.read(&[]);
        assert!(again.starts_with("no new mail") && !again.contains("body"), "{again}");
        assert_eq!(again.matches("to a call of mail_inbox").count(), 2, "{again}");
        (0..LETTERS_MAX).for_each(|_| letters.note("x", LetterWay::Conversation));
        assert!(!letters.read(&[]).contains("topic a"), "the first is forgotten");
    }
}
