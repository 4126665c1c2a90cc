//! What was published on a subject, told from answers of the server that another client had sent
//! there: whoever may read a stream can name any subject of the fleet for the answer.

use async_nats::{HeaderMap, Message, Subscriber};
use futures::StreamExt;

/// Headers that the server puts on its answers; a sender cannot have them left out.
const ANSWERED: [&str; 4] = ["Nats-Stream", "Nats-Subject", "Nats-Sequence", "Status"];

/// The next message that somebody published; none when the connection was closed. Safe to drop.
pub(crate) async fn next_published(heard: &mut Subscriber) -> Option<Message> {
    loop {
        let message = heard.next().await?;
        if !is_answer(&message) {
            return Some(message);
        }
    }
}

fn is_answer(message: &Message) -> bool {
    let named = |headers: &HeaderMap| ANSWERED.iter().any(|name| headers.get(*name).is_some());
    // A client takes the status line from the headers.
    message.status.is_some() || message.headers.as_ref().is_some_and(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(header: Option<&str>) -> Message {
        let headers = header.map(|name| {
            let mut headers = HeaderMap::new();
            headers.insert(name, "1");
            headers
        });
        Message {
            subject: "stream.a.b".into(),
            reply: None,
            payload: "words".into(),
            headers,
            status: None,
            description: None,
            length: 0,
        }
    }

    #[test]
    fn answer_of_the_server_is_told_from_what_was_published() {
        for name in ANSWERED {
            assert!(is_answer(&message(Some(name))), "{name}");
        }
        for published in [None, Some("Nats-TTL"), Some("KV-Operation"), Some("Tetrarch-Epoch")] {
            assert!(!is_answer(&message(published)), "{published:?}");
        }
        let status = Some(async_nats::StatusCode::NO_RESPONDERS);
        assert!(is_answer(&Message { status, ..message(None) }));
    }
}
