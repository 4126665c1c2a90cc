//! The permission matrix: every role attempts subjects that are made of the policy table, of others' names
//! and of hostile tokens, by the protocol itself. The server allows what the table says and nothing else.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tetrarch_bus::creds::{Authority, CredentialHolder, LIFETIME};
use tetrarch_bus::server::{ManagedServer, ServerConfig};
use tetrarch_bus::subject::pattern::policy::{
    BusAccount, CredentialRole, Crossing, Person, crossings, grant,
};
use tetrarch_tests::dice::Dice;

/// Attempts in all.
const ATTEMPTS: usize = 1_000_000;
/// Attempts that are answered together.
const BATCH: usize = 500;
/// Tokens beside those of the table: others' names, other spellings, wildcards, what looks alike.
const TOKENS: [&str; 28] = [
    "*",
    ">",
    "**",
    ">>",
    "*.",
    "",
    "-",
    "GO",
    "PO-demo",
    "PO-dem",
    "PO-demo2",
    "po-demo",
    "PO-d\u{435}mo",
    "human:ada",
    "human:eve",
    "HO@h1",
    "HO@h2",
    "HO=h1",
    "h1",
    "h2",
    "control",
    "MAIL",
    "KV_STATE",
    "LEDGER",
    "$JS",
    "$SYS",
    "_R_",
    "\u{202e}omed-OP",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
    Publish,
    Subscribe,
}

/// A connection as the server's protocol has it: a client would not send some of this.
pub(super) struct Raw {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Raw {
    pub(super) fn connect(address: &str, credentials: &Path) -> Self {
        let text = std::fs::read_to_string(credentials).unwrap();
        let line = |beginning: &str| {
            text.lines().find(|line| line.starts_with(beginning)).unwrap().to_owned()
        };
        let (jwt, key) = (line("eyJ"), KeyPair::from_seed(&line("SU")).unwrap());
        let stream = TcpStream::connect(address).unwrap();
        let mut raw = Self { lines: BufReader::new(stream.try_clone().unwrap()), stream };
        let info = raw.line();
        let info: Value = serde_json::from_str(info.strip_prefix("INFO ").unwrap()).unwrap();
        let nonce = info["nonce"].as_str().unwrap();
        let sig = BASE64URL_NOPAD.encode(&key.sign(nonce.as_bytes()).unwrap());
        let options = json!({"verbose": false, "pedantic": false, "jwt": jwt, "sig": sig, "lang": "raw",
            "version": "0", "protocol": 1, "headers": true, "no_responders": true});
        raw.send(format!("CONNECT {options}\r\n"));
        assert_eq!(raw.refused(), BTreeSet::new());
        raw
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    pub(super) fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.lines.read_until(b'\n', &mut line).unwrap();
        assert!(!line.is_empty(), "the server closed the connection");
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// What was refused since the last time.
    pub(super) fn refused(&mut self) -> BTreeSet<(Verb, String)> {
        self.send("PING\r\n");
        let mut refused = BTreeSet::new();
        loop {
            let line = self.line();
            // The server writes what cannot be seen as its number.
            let shown = || line.split('"').nth(1).unwrap_or_default();
            let subject = || shown().replace("\\u202e", "\u{202e}");
            if line == "PONG" {
                return refused;
            } else if line.starts_with("-ERR 'Permissions Violation for Publish") {
                refused.insert((Verb::Publish, subject()));
            } else if line.starts_with("-ERR 'Permissions Violation for Subscription") {
                refused.insert((Verb::Subscribe, subject()));
            } else if line.starts_with("MSG ") || line.starts_with("HMSG ") {
                // What another said on a subject that was just subscribed.
                let bytes: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
                self.lines.read_exact(&mut vec![0; bytes + 2]).unwrap();
            } else {
                assert!(line == "PING" || line.starts_with("INFO"), "{line}");
            }
        }
    }

    /// Makes attempts, and gives those that the server refused.
    fn attempt(&mut self, attempts: &[(Verb, String)]) -> BTreeSet<(Verb, String)> {
        let mut text = String::new();
        for (number, (verb, subject)) in attempts.iter().enumerate() {
            match verb {
                Verb::Publish => text += &format!("PUB {subject} 0\r\n\r\n"),
                Verb::Subscribe => text += &format!("SUB {subject} {number}\r\nUNSUB {number}\r\n"),
            }
        }
        self.send(text);
        self.refused()
    }
}

/// Whether the server is to allow it by a pattern of the table.
fn covers(pattern: &str, wanted: &str) -> bool {
    let (mut pattern, mut wanted) = (pattern.split('.'), wanted.split('.'));
    loop {
        match (pattern.next(), wanted.next()) {
            (None, None) => return true,
            (Some(">"), Some(token)) => {
                return !token.is_empty() && wanted.all(|it| !it.is_empty());
            }
            // What is published is no pattern, whatever it looks like. Of a subscription nats-server 2.15.1 takes a
            // last `>` for one token, and so allows it where the table has a last `*`.
            (Some("*"), Some(token)) if !token.is_empty() => {}
            (Some(token), Some(other)) if token == other => {}
            _ => return false,
        }
    }
}

struct Attempts {
    dice: Dice,
    tokens: Vec<String>,
    patterns: Vec<String>,
}

impl Attempts {
    /// Of the table's own words, for whatever role and name.
    fn new(names: &[String]) -> Self {
        let mut patterns: Vec<String> =
            crossings().into_iter().map(|(_, subject)| subject).collect();
        for role in CredentialRole::ALL {
            let grant = grant(role);
            for pattern in grant.publish.into_iter().chain(grant.subscribe) {
                patterns.extend(names.iter().map(|name| pattern.replace("{{name()}}", name)));
            }
        }
        let words = patterns.iter().flat_map(|pattern| pattern.split('.')).map(str::to_owned);
        let words: BTreeSet<String> = words.chain(TOKENS.map(str::to_owned)).collect();
        Self { dice: Dice::new(17), tokens: words.into_iter().collect(), patterns }
    }

    /// A pattern with its wildcards filled in, and now and then a token changed, added or dropped.
    fn next(&mut self) -> (Verb, String) {
        let pattern = self.dice.pick(&self.patterns).cloned().unwrap();
        let mut tokens: Vec<String> = pattern.split('.').map(str::to_owned).collect();
        for token in &mut tokens {
            if (token == "*" || token == ">") && self.dice.percent(80) {
                *token = self.dice.pick(&self.tokens).cloned().unwrap();
            }
        }
        let other = self.dice.pick(&self.tokens).cloned().unwrap();
        let at = self.dice.below(tokens.len());
        match self.dice.below(8) {
            0 => tokens[at] = other,
            1 => tokens.insert(at, other),
            2 => tokens.push(other),
            3 if tokens.len() > 1 => drop(tokens.remove(at)),
            _ => {}
        }
        let verb = if self.dice.percent(50) { Verb::Publish } else { Verb::Subscribe };
        (verb, tokens.join("."))
    }
}

fn role_is_kept_to(
    address: &str,
    credentials: &Path,
    role: CredentialRole,
    name: &str,
    count: usize,
) -> [usize; 2] {
    let grant = grant(role);
    let own = |patterns: Vec<String>| -> Vec<String> {
        patterns.into_iter().map(|pattern| pattern.replace("{{name()}}", name)).collect()
    };
    let (publish, subscribe) = (own(grant.publish), own(grant.subscribe));
    let mut attempts =
        Attempts::new(&[name, "PO-demo", "PO-other", "ada", "h1", "h2"].map(str::to_owned));
    let mut raw = Raw::connect(address, credentials);
    let mut counts = [0; 2];
    for _ in 0..count.div_ceil(BATCH) {
        let batch: Vec<(Verb, String)> = std::iter::repeat_with(|| attempts.next())
            .filter(|(_, subject)| is_sendable(subject))
            .take(BATCH)
            .collect();
        let refused = raw.attempt(&batch);
        for (verb, subject) in &batch {
            let table = if *verb == Verb::Publish { &publish } else { &subscribe };
            let allowed = table.iter().any(|pattern| covers(pattern, subject));
            let was_refused = refused.contains(&(*verb, subject.clone()));
            assert_eq!(was_refused, !allowed, "{role:?}: {verb:?} {subject}");
            counts[usize::from(allowed)] += 1;
        }
    }
    counts
}

/// Whether the protocol can carry it: what it cannot is a parse error, which ends the connection.
fn is_sendable(subject: &str) -> bool {
    let tokens: Vec<&str> = subject.split('.').collect();
    // The server refuses an empty token and an early `>` of a subscription as no subject at all.
    let early = tokens.iter().rev().skip(1).any(|token| *token == ">");
    !early && tokens.iter().all(|token| !token.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_is_limited_to_its_row_of_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::open_or_create(dir.path()).unwrap();
    let server = ManagedServer::start(&ServerConfig::new(dir.path()), &authority).await.unwrap();
    let address = server.url().trim_start_matches("nats://").to_owned();
    let issue = |party: CredentialHolder, person| {
        let name = party.user_name();
        (authority.issue(&party, person, LIFETIME).unwrap(), party.role(), name)
    };
    let mut parties = vec![
        issue(CredentialHolder::Control, None),
        issue(CredentialHolder::Host("h1".parse().unwrap()), None),
        issue(CredentialHolder::External("PO-demo".parse().unwrap()), None),
    ];
    // Each under a name of its own; that of the admin is among the others' names.
    for (person, name) in Person::ALL.into_iter().zip(["vera", "olga", "axel", "ada"]) {
        let (file, _, name) = issue(CredentialHolder::Human(name.parse().unwrap()), Some(person));
        parties.push((file, CredentialRole::Human(person), name));
    }
    assert_eq!(parties.len(), CredentialRole::ALL.len(), "every role takes part");
    let each = ATTEMPTS / parties.len();
    let tried = parties.into_iter().map(|(credentials, role, name)| {
        let address = address.clone();
        tokio::task::spawn_blocking(move || {
            role_is_kept_to(&address, &credentials, role, &name, each)
        })
    });
    for tried in futures::future::join_all(tried).await {
        let [refused, allowed] = tried.unwrap();
        assert!(refused > each / 10 && allowed > each / 50, "{refused} refused, {allowed} allowed");
    }
    server.stop().await.unwrap();
}

/// A subscription may end in `>` where the table says `*` (see `covers`): there is nothing more to hear by that.
#[test]
fn widened_last_wildcard_hears_nothing_more() {
    let fleet = CredentialRole::ALL.into_iter().filter(|role| role.account() == BusAccount::Fleet);
    let said = fleet.clone().flat_map(|role| grant(role).publish);
    let crossing = crossings().into_iter().filter(|(how, _)| *how == Crossing::Hear);
    let said: Vec<String> = said.chain(crossing.map(|(_, subject)| subject)).collect();
    let mut widened = 0;
    for role in fleet {
        for heard in grant(role).subscribe.into_iter().filter(|heard| heard.ends_with(".*")) {
            widened += 1;
            let deeper = said.iter().find(|said| is_deeper(said, &heard));
            assert_eq!(deeper, None, "{role:?} hears {heard}");
        }
    }
    assert!(widened > 3, "there are such grants");
}

/// Whether some subject of a pattern has more tokens than one that ends in `*`, and is as that up to there.
fn is_deeper(said: &str, heard: &str) -> bool {
    let (said, heard): (Vec<&str>, Vec<&str>) =
        (said.split('.').collect(), heard.split('.').collect());
    let alike = |(one, other): (&&str, &&str)| *one == "*" || *other == "*" || one == other;
    let longer = said.len() > heard.len() || said.last() == Some(&">");
    let front = heard.len() - 1;
    longer && said.iter().zip(&heard).take(front).take_while(|(said, _)| **said != ">").all(alike)
}
