//! The life of a credential, as the server enforces it: its time, its revocation, its successor.

use std::time::Duration;

use async_nats::connection::State;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::{Authority, CredentialHolder, CredentialStatus, CredsError, LIFETIME};
use tetrarch_bus::error::{ConnectError, PublishError};
use tetrarch_bus::server::{ManagedServer, RefusedUsers, guard_pace, tell_revoked};
use tetrarch_bus::subject::pattern::policy::{CredentialRole, Person};
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::share::Pace;
use tetrarch_tests::wait::soon;

use super::Fixture;

fn external() -> CredentialHolder {
    CredentialHolder::External("PO-demo".parse().unwrap())
}

fn human() -> CredentialHolder {
    CredentialHolder::Human("ada".parse().unwrap())
}

async fn state(bus: &Bus, wanted: State) {
    soon("another state of the connection", async {
        while bus.client().connection_state() != wanted {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn assert_refused(options: &ConnectOptions) {
    let refused = Bus::connect(options).await.map(drop).unwrap_err();
    assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_user_is_cut_off_and_returns_only_with_a_new_key() {
    let (fixture, _control) = Fixture::with_streams().await;
    let authority = &fixture.authority;
    let options = fixture.options(&external());
    let (one, other) = (Bus::connect(&options).await.unwrap(), fixture.bus(&human()).await);
    let tell =
        async || tell_revoked(&options, authority, &authority.revoked().unwrap()).await.unwrap();

    authority.revoke(&external()).unwrap();
    tell().await;
    state(&one, State::Disconnected).await;
    assert_refused(&options).await;
    assert!(matches!(authority.mint(&external()), Err(CredsError::Over { .. })));
    let stored = other.publish_expect("mail.GO.human:ada", HeaderMap::new(), "{}".into(), None);
    assert!(stored.await.is_ok(), "others stay");

    let file = options.credentials.clone().unwrap();
    let old = std::fs::read_to_string(&file).unwrap();
    authority.rotate(&external(), None, LIFETIME).unwrap();
    tell().await;
    // It reads the file again.
    state(&one, State::Connected).await;
    Bus::connect(&options).await.unwrap();
    std::fs::write(&file, old).unwrap();
    assert_refused(&options).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn role_key_newer_than_the_server_is_accepted_after_an_update() {
    let (fixture, _control) = Fixture::with_streams().await;
    // What an earlier version did not have.
    std::fs::remove_file(fixture.path().join("keys/role-viewer.nk")).unwrap();
    let authority = Authority::open_or_create(fixture.path()).unwrap();
    let file = authority.issue(&human(), Some(Person::Viewer), LIFETIME).unwrap();
    let options = ConnectOptions { credentials: Some(file), ..fixture.options(&external()) };
    let others = Bus::connect(&fixture.options(&external())).await.unwrap();
    assert_refused(&options).await;
    tell_revoked(&options, &authority, &authority.revoked().unwrap()).await.unwrap();
    let viewer = Bus::connect(&options).await.unwrap();
    assert_eq!(viewer.role(), Some(CredentialRole::Human(Person::Viewer)));
    let asked =
        viewer.publish_expect("op.goal.create.human:ada", HeaderMap::new(), "{}".into(), None);
    let refused = asked.await.unwrap_err();
    assert!(matches!(refused, PublishError::Refused { code: 403, .. }), "{refused}");
    let stored = others.publish_expect("mail.GO.PO-demo", HeaderMap::new(), "{}".into(), None);
    assert!(stored.await.is_ok(), "others stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn temporarily_refused_user_is_accepted_again() {
    let (fixture, _control) = Fixture::with_streams().await;
    let authority = &fixture.authority;
    let options = fixture.options(&human());
    Bus::connect(&options).await.unwrap();
    let user = authority.credential(&human()).unwrap().unwrap().user;
    let revoked = authority.revoked().unwrap();
    tell_revoked(&options, authority, &revoked.with([user])).await.unwrap();
    assert_refused(&options).await;
    tell_revoked(&options, authority, &revoked).await.unwrap();
    Bus::connect(&options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_and_revoked_credentials_are_refused_after_a_restart() {
    let (mut fixture, _control) = Fixture::with_streams().await;
    let file = fixture.authority.issue(&external(), None, Duration::from_secs(1)).unwrap();
    let mut options = ConnectOptions { credentials: Some(file), ..fixture.options(&human()) };
    // The server counts whole seconds, and lets in whoever comes within its last one.
    let refused = soon("the end of its time", async {
        loop {
            if let Err(refused @ ConnectError::Refused { .. }) = Bus::connect(&options).await {
                return refused;
            }
        }
    })
    .await;
    assert!(refused.to_string().contains("has expired"), "{refused}");
    let standing = fixture.authority.credential(&external()).unwrap().unwrap().standing;
    assert_eq!(standing, CredentialStatus::Expired);
    fixture.authority.issue(&external(), None, LIFETIME).unwrap();
    Bus::connect(&options).await.unwrap();
    fixture.authority.revoke(&external()).unwrap();
    fixture.server.take().unwrap().stop().await.unwrap();
    let again = ManagedServer::start(&fixture.config(), &fixture.authority).await.unwrap();
    (fixture.url, fixture.pid) = (again.url().to_owned(), again.pid());
    options.urls = vec![fixture.url.clone()];
    assert_refused(&options).await;
    fixture.bus(&human()).await;
    fixture.server = Some(again);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_publishing_too_fast_is_cut_off_for_a_while_and_others_stay() {
    let (fixture, _control) = Fixture::with_streams().await;
    let options = fixture.options(&human());
    let (loud, quiet) = (Bus::connect(&options).await.unwrap(), fixture.bus(&external()).await);
    let authority = Authority::open_or_create(fixture.path()).unwrap();
    let to = options.clone();
    let guard = tokio::spawn(async move {
        let pace = Pace { messages: 2_000, ..Pace::default() };
        guard_pace(&to, &authority, pace, Duration::from_secs(2), &mut RefusedUsers::new()).await
    });
    let flood = async {
        while loud.client().connection_state() == State::Connected {
            // Nobody hears it: what counts is what the server has to read.
            let _lost = loud.client().publish("hb.nobody", "x".into()).await;
        }
    };
    soon("the end of the flood", flood).await;
    assert_refused(&options).await;
    let stored = quiet.publish_expect("mail.GO.PO-demo", HeaderMap::new(), "{}".into(), None);
    assert!(stored.await.is_ok(), "others stay");
    soon("its return", async { while Bus::connect(&options).await.is_err() {} }).await;
    assert!(!guard.is_finished());
    guard.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_publishes_in_short_connections_is_cut_off_as_well() {
    let (fixture, control) = Fixture::with_streams().await;
    let (options, to) = (fixture.options(&external()), fixture.options(&CredentialHolder::Control));
    let authority = Authority::open_or_create(fixture.path()).unwrap();
    let guard = tokio::spawn(async move {
        // More than is seen of one connection at a look.
        let pace = Pace { messages: 250, ..Pace::default() };
        guard_pace(&to, &authority, pace, Duration::from_secs(60), &mut RefusedUsers::new()).await
    });
    let file = options.credentials.clone().unwrap();
    let churn = async {
        loop {
            let short = async_nats::ConnectOptions::with_credentials_file(&file).await.unwrap();
            let Ok(client) = short.connect(&fixture.url).await else { return };
            for _ in 0..100 {
                let _lost = client.publish("hb.PO-demo", "x".into()).await;
            }
            // The server has read them, and nothing of it is there at the next look.
            let _lost = client.flush().await;
        }
    };
    soon("a refusal", churn).await;
    assert_refused(&options).await;
    assert_eq!(control.client().connection_state(), State::Connected);
    assert!(!guard.is_finished());
    guard.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn user_with_too_many_connections_is_cut_off_and_others_stay() {
    let (fixture, control) = Fixture::with_streams().await;
    let (options, to) = (fixture.options(&external()), fixture.options(&CredentialHolder::Control));
    let quiet = fixture.bus(&human()).await;
    let authority = Authority::open_or_create(fixture.path()).unwrap();
    let guard = tokio::spawn(async move {
        let pace = Pace { connections: 3, ..Pace::default() };
        guard_pace(&to, &authority, pace, Duration::from_secs(60), &mut RefusedUsers::new()).await
    });
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(Bus::connect(&options).await.unwrap());
    }
    let one_too_many = async {
        while let Ok(bus) = Bus::connect(&options).await {
            all.push(bus);
        }
    };
    soon("a refusal", one_too_many).await;
    state(&all[0], State::Disconnected).await;
    assert_eq!(quiet.client().connection_state(), State::Connected);
    assert_eq!(control.client().connection_state(), State::Connected);
    assert!(!guard.is_finished());
    guard.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_ends_also_when_its_guard_begins_anew() {
    let (fixture, _control) = Fixture::with_streams().await;
    let (options, to) = (fixture.options(&external()), fixture.options(&CredentialHolder::Control));
    let authority = Authority::open_or_create(fixture.path()).unwrap();
    let (time, mut refused) = (Duration::from_secs(2), RefusedUsers::new());
    let mut all = Vec::new();
    let too_many = async {
        while let Ok(bus) = Bus::connect(&options).await {
            all.push(bus);
        }
    };
    let pace = Pace { connections: 1, ..Pace::default() };
    tokio::select! {
        ended = guard_pace(&to, &authority, pace, time, &mut refused) => panic!("{ended:?}"),
        () = soon("a refusal", too_many) => {}
    }
    let back = async { while Bus::connect(&options).await.is_err() {} };
    tokio::select! {
        ended = guard_pace(&to, &authority, Pace::default(), time, &mut refused) => panic!("{ended:?}"),
        () = soon("its return", back) => {}
    }
}
