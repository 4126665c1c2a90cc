//! Mailboxes: people read mail with their own credential, also several at a time, and take nothing away.

use tetrarch_bus::Bus;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::mailbox::{MailMessage, read};
use tetrarch_bus::send::{Author, send_mail};
use tetrarch_core::id::{HumanName, Principal};
use tetrarch_core::mail::MailBody;

use super::{info, soon, worker};

const LETTERS: usize = 450;

fn human(name: &str) -> (CredentialHolder, Principal) {
    let name = HumanName::new(name).unwrap();
    (CredentialHolder::Human(name.clone()), Principal::Human(name))
}

async fn write(bus: &Bus, to: &Principal, text: &str) {
    let author = Author { from: worker(2).into(), via: None, session: None, epoch: 1 };
    send_mail(bus, &author, &info(to, text), &format!("{to} {text}"), None).await.unwrap();
}

fn texts(letters: &[MailMessage]) -> Vec<String> {
    let text = |letter: &MailMessage| {
        let body = &letter.content.as_ref().unwrap().0.body;
        let MailBody::Info { text } = body else { panic!("{body:?}") };
        text.clone()
    };
    letters.iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn people_read_mail_without_consuming_it() {
    let server = tetrarch_tests::server().await;
    let control = server.control().await;
    let ((ada, ada_is), (_, bob_is)) = (human("ada"), human("bob"));
    let expected: Vec<String> = (0..LETTERS).map(|number| number.to_string()).collect();
    for text in &expected {
        write(&control, &ada_is, text).await;
    }
    write(&control, &bob_is, "for bob").await;
    let (one, two) = (server.bus(&ada).await, server.bus(&ada).await);
    let both = futures::future::join(read(&one, &ada_is), read(&two, &ada_is));
    let (first, second) = soon("both readers' mail", both).await;
    assert_eq!(texts(&first.unwrap()), expected);
    assert_eq!(texts(&second.unwrap()), expected);
    let again = soon("a third reading", read(&one, &ada_is)).await;
    assert_eq!(texts(&again.unwrap()), expected, "reading takes nothing away");
    assert_eq!(texts(&read(&one, &bob_is).await.unwrap()), ["for bob"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_inbox_is_empty() {
    let server = tetrarch_tests::server().await;
    let (ada, ada_is) = human("ada");
    let bus = server.bus(&ada).await;
    assert!(soon("the mail", read(&bus, &ada_is)).await.unwrap().is_empty());
}
