//! Mailboxes: people read their own mail with their own credential, take nothing away, and take
//! turns; another's mail stays closed to them.

use tetrarch_bus::Bus;
use tetrarch_bus::creds::Party;
use tetrarch_bus::mailbox::{Letter, read_any, read_own};
use tetrarch_bus::send::{Author, send_mail};
use tetrarch_core::id::{HumanName, Principal};
use tetrarch_core::mail::MailBody;

use super::{info, soon, worker};

const LETTERS: usize = 450;

fn human(name: &str) -> (Party, Principal) {
    let name = HumanName::new(name).unwrap();
    (Party::Human(name.clone()), Principal::Human(name))
}

async fn write(bus: &Bus, to: &Principal, text: &str) {
    let author = Author { from: worker(2).into(), via: None, session: None, epoch: 1 };
    send_mail(bus, &author, &info(to, text), &format!("{to} {text}"), None).await.unwrap();
}

fn texts(letters: &[Letter]) -> Vec<String> {
    let text = |letter: &Letter| {
        let body = &letter.content.as_ref().unwrap().0.body;
        let MailBody::Info { text } = body else { panic!("{body:?}") };
        text.clone()
    };
    letters.iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn people_read_their_own_mail_and_take_turns() {
    let server = tetrarch_tests::server().await;
    let control = server.control().await;
    let ((ada, ada_is), (bob, bob_is)) = (human("ada"), human("bob"));
    let expected: Vec<String> = (0..LETTERS).map(|number| number.to_string()).collect();
    for text in &expected {
        write(&control, &ada_is, text).await;
    }
    write(&control, &bob_is, "for bob").await;
    let (one, two) = (server.bus(&ada).await, server.bus(&ada).await);
    let (first, second) = soon(
        "both readers' mail",
        futures::future::join(read_own(&one, &ada_is), read_own(&two, &ada_is)),
    )
    .await;
    assert_eq!(texts(&first.unwrap()), expected);
    assert_eq!(texts(&second.unwrap()), expected);
    let again = soon("a third reading", read_own(&one, &ada_is)).await;
    assert_eq!(texts(&again.unwrap()), expected, "reading takes nothing away");
    let bobs = server.bus(&bob).await;
    assert_eq!(texts(&read_own(&bobs, &bob_is).await.unwrap()), ["for bob"]);
    assert_eq!(texts(&read_any(&control, &ada_is).await.unwrap()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_anothers_mail_with_their_own_credential() {
    let server = tetrarch_tests::server().await;
    let ((ada, _), (_, bob_is)) = (human("ada"), human("bob"));
    write(&server.control().await, &bob_is, "for bob").await;
    let bus = server.bus(&ada).await;
    assert!(soon("a refusal", read_own(&bus, &bob_is)).await.is_err());
    assert!(soon("a refusal", read_any(&bus, &bob_is)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_inbox_is_empty() {
    let server = tetrarch_tests::server().await;
    let (ada, ada_is) = human("ada");
    let bus = server.bus(&ada).await;
    assert!(soon("the mail", read_own(&bus, &ada_is)).await.unwrap().is_empty());
}
