//! A hundred people talk at once. Each hears at once what becomes of what they say, also while others flood the lanes for
//! background work. The figures are printed (`--nocapture`).

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_bus::{Bus, HeaderMap, codec};
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::id::{HumanName, Principal, RequestId, Ulid};
use tetrarch_core::request::Op;
use tetrarch_core::request::conversations::{ConversationOp, TurnSay};
use tetrarch_tests::{Fleet, wait};

const PEOPLE: usize = 100;
const FLOODERS: usize = 10;
/// All hundred speak in the same moment, to a program that is built for tests on a machine that may be building: more than
/// the two seconds of spec 07, Streaming, and far less than waiting for what floods.
const FIRST_STATUS_MAX: Duration = Duration::from_secs(6);

/// Somebody with a connection of their own.
struct Speaker {
    bus: Bus,
    human: HumanName,
}

impl Speaker {
    async fn join(fleet: &Fleet, name: &str) -> Self {
        let human: HumanName = name.parse().unwrap();
        let bus = fleet.bus(&CredentialHolder::Human(human.clone())).await;
        Self { bus, human }
    }

    /// Says hello, again until the bus has it.
    async fn says(&self, lane: TurnLane) {
        let said = TurnSay {
            conversation: "main".parse().unwrap(),
            text: "hello".to_owned(),
            lane,
            project: Some("desk".parse().unwrap()),
            graph: None,
            channel: None,
            mode: None,
            keeps_mode: false,
        };
        let op = Op::Conversation(ConversationOp::Say(said));
        let mut random = [0u8; 16];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).unwrap();
        let id = RequestId(Ulid(u128::from_be_bytes(random)));
        let from = Principal::Human(self.human.clone());
        let subject = Subject::Op { op: OpName::of(&op), from, via: None }.to_string();
        let payload = Bytes::from(codec::encode_op(&op, id).unwrap());
        let said = || self.bus.publish_expect(&subject, HeaderMap::new(), payload.clone(), None);
        while said().await.is_err() {}
    }

    /// How long it takes until the first status of what is said next, and until its end.
    async fn hears(&self) -> (Duration, Duration) {
        let turns = format!("$KV.STATE.turn.{}.>", self.human);
        let mut heard = self.bus.client().subscribe(turns).await.unwrap();
        let began = Instant::now();
        self.says(TurnLane::Conversation).await;
        let (mut first, mut last) = (None, None);
        while last.is_none() {
            let record = wait::soon("a status", heard.next()).await.unwrap();
            let record: serde_json::Value = serde_json::from_slice(&record.payload).unwrap();
            if record["lane"] == "conversation" {
                first.get_or_insert(began.elapsed());
                last = (record["status"] == "done").then(|| began.elapsed());
            }
        }
        (first.unwrap(), last.unwrap())
    }
}

/// All speak at once, several times; the median and the 99th percentile of the first status, and of the end.
async fn spoken(people: &[Speaker], rounds: usize) -> [Duration; 4] {
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for _round in 0..rounds {
        for (heard, ended) in join_all(people.iter().map(Speaker::hears)).await {
            first.push(heard);
            last.push(ended);
        }
    }
    let at = |all: &mut Vec<Duration>, part: usize| {
        all.sort_unstable();
        all[all.len() * part / 100]
    };
    [at(&mut first, 50), at(&mut first, 99), at(&mut last, 50), at(&mut last, 99)]
}

#[expect(clippy::print_stdout, reason = "the figures are for whoever runs it")]
#[tokio::test(flavor = "multi_thread")]
async fn hundred_people_hear_a_first_status_at_once_also_in_a_flood() {
    let fleet = Fleet::up();
    fleet.ok(["project", "create", "desk"]);
    let names = (0..PEOPLE).map(|number| format!("p{number}"));
    let people: Vec<Speaker> = join_all(names.map(|name| {
        let fleet = &fleet;
        async move { Speaker::join(fleet, &name).await }
    }))
    .await;
    let mut flooders = Vec::new();
    for number in 0..FLOODERS {
        flooders.push(Speaker::join(&fleet, &format!("f{number}")).await);
    }
    // Their orchestrators come up with the first line.
    spoken(&people, 1).await;
    join_all(flooders.iter().map(Speaker::hears)).await;
    let quiet = spoken(&people, 3).await;
    let flood = join_all(flooders.iter().map(|flooder| async move {
        loop {
            flooder.says(TurnLane::Background).await;
        }
    }));
    let flooded = tokio::select! {
        flooded = spoken(&people, 3) => flooded,
        _ = flood => unreachable!("it goes on for ever"),
    };
    println!("first status p50, p99, answer p50, p99: quiet {quiet:?}, in a flood {flooded:?}");
    assert!(quiet[1] < FIRST_STATUS_MAX && flooded[1] < FIRST_STATUS_MAX, "{quiet:?} {flooded:?}");
}
