//! The page as a browser meets it: the link that `up` prints, views that change by themselves, answers and approvals
//! that reach the fleet, and requests that others would send.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tetrarch_tests::{Fleet, wait};

use crate::acting;
use crate::gate::{Repository, change, id, work};

/// How long an answer may take.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// How long a change may take from its commit to a browser.
const SEEN_WITHIN: Duration = Duration::from_millis(500);

/// An answer.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// A page that is served, and the browser that looks at it.
struct Browser {
    at: String,
    place: String,
    link: String,
    cookie: String,
}

pub(crate) fn paged() -> Fleet {
    let fleet = Fleet::prepared().with_env("TETRARCH_PEOPLE_PAGE_LISTEN", "127.0.0.1:0");
    fleet.with_env("TETRARCH_RUNS_DRAIN", "500ms").started()
}

pub(crate) fn link(fleet: &Fleet) -> String {
    let link = std::fs::read_to_string(fleet.data_dir().join("page.link")).unwrap();
    link.trim().to_owned()
}

fn connected(at: &str) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(ANSWERED_WITHIN)).unwrap();
    stream
}

/// Sends these lines and this body as they are.
fn raw(at: &str, lines: &[String], body: &str) -> Answer {
    let mut stream = connected(at);
    let text = format!("{}\r\nConnection: close\r\n\r\n{body}", lines.join("\r\n"));
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

impl Browser {
    /// Opens the link.
    fn open(fleet: &Fleet) -> Self {
        let link = link(fleet);
        let (at, rest) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let place = format!("/{}/", rest.split('/').next().unwrap());
        let mut it = Self { at: at.to_owned(), place, link: link.clone(), cookie: String::new() };
        let entered = it.get(&link[link.find("enter").unwrap()..]);
        assert_eq!(entered.status, 303, "{}", entered.head);
        for word in ["httponly", "samesite=strict", "path=/", "max-age="] {
            assert!(entered.head.contains(word), "{}", entered.head);
        }
        let cookie = entered.head.split("set-cookie: ").nth(1).unwrap();
        it.cookie = cookie.split(';').next().unwrap().to_owned();
        it
    }

    fn lines(&self, method: &str, path: &str) -> Vec<String> {
        let path =
            if path.starts_with('/') { path.to_owned() } else { format!("{}{path}", self.place) };
        vec![
            format!("{method} {path} HTTP/1.1"),
            format!("Host: {}", self.at),
            format!("Cookie: {}", self.cookie),
        ]
    }

    fn get(&self, path: &str) -> Answer {
        raw(&self.at, &self.lines("GET", path), "")
    }

    fn see(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// What a form of a view carries.
    fn form(&self, path: &str) -> String {
        let page = self.see(path);
        page.split("data-form=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }

    fn post_lines(&self, body: &str) -> Vec<String> {
        let mut lines = self.lines("POST", "act");
        lines.push(format!("Origin: http://{}", self.at));
        lines.push("Content-Type: application/x-www-form-urlencoded".to_owned());
        lines.push(format!("Content-Length: {}", body.len()));
        lines
    }

    fn post(&self, body: &str) -> Answer {
        raw(&self.at, &self.post_lines(body), body)
    }

    /// Sends a form of a view as a browser does, and gives where that leads.
    fn send(&self, path: &str, fields: &str) -> String {
        let answer = self.post(&format!("form={}&{fields}", self.form(path)));
        assert_eq!(answer.status, 303, "{fields}: {}", answer.body);
        answer.head.split("location: ").nth(1).unwrap().lines().next().unwrap().to_owned()
    }

    /// A view as it changes.
    fn live(&self, path: &str) -> BufReader<TcpStream> {
        let mut stream = connected(&self.at);
        let text = self.lines("GET", &format!("live/{path}")).join("\r\n") + "\r\n\r\n";
        stream.write_all(text.as_bytes()).unwrap();
        BufReader::new(stream)
    }
}

/// Reads on until a line has this text in it, and says when that was.
fn until(live: &mut impl BufRead, text: &str) -> Instant {
    let end = Instant::now() + ANSWERED_WITHIN;
    let mut line = String::new();
    while Instant::now() < end {
        line.clear();
        let read = live.read_line(&mut line).unwrap();
        assert!(read > 0, "it ended before {text:?}");
        if line.contains(text) {
            return Instant::now();
        }
    }
    panic!("{text:?} did not come: {line}");
}

pub(crate) fn wondering(fleet: &Fleet, title: &str) -> Value {
    let plan = json!({
        "project": "curious",
        "output": "T1.1",
        "goal": {"title": title},
        "phases": [{"id": "P1", "name": "Ask", "tasks": [
            {"id": "T1.1", "name": "wonder", "profile": "wondering", "acceptance": ["it was told"]},
        ]}],
        "profiles": {"wondering": {"argv": acting(&["wonder"]), "wall": "60s"}},
    });
    json!(fleet.file("curious.json", &plan.to_string()).to_str().unwrap())
}

fn asked(browser: &Browser, text: &str) -> String {
    let id = wait::until("the question is on the page", || {
        let page = browser.see("inbox");
        let row = page.split("<tr>").find(|row| row.contains(text))?.to_owned();
        Some(row.split("href=\"question/").nth(1)?.split('"').next()?.to_owned())
    });
    assert!(id.starts_with("qst_"), "{id}");
    id
}

#[test]
fn question_is_seen_live_and_answered_on_the_page() {
    let fleet = paged();
    let browser = Browser::open(&fleet);
    let mut live = browser.live("");
    until(&mut live, "HO@h1");
    let plan = wondering(&fleet, "Wonder <script>alert(1)</script>");
    let running = fleet.spawn(["run", plan.as_str().unwrap()]);
    until(&mut live, "awaiting-input");

    let page = browser.see("");
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"), "{page}");
    assert!(page.contains("PO-curious") && page.contains("1 for you"), "{page}");
    let which = asked(&browser, "Which one?");
    let view = format!("question/{which}");
    let shown = browser.see(&view);
    assert!(
        shown.contains("<button>A</button>") && shown.contains("<button>B</button>"),
        "{shown}"
    );
    let back = browser.send(&view, &format!("do=answer&id={which}&text=B"));
    assert_eq!(back, format!("{}question/{}", browser.place, which.to_lowercase()));
    assert!(browser.see(&view).contains(&format!("answer {which}: ")));

    let when = asked(&browser, "And when?");
    browser.send(&format!("question/{when}"), &format!("do=answer&id={when}&text=now"));
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&told["which"], &told["when"]), (&json!("B"), &json!("now")));

    let goals = browser.see("goals");
    let plan = goals.split("href=\"plan/").nth(1).unwrap().split('"').next().unwrap();
    let drawn = browser.see(&format!("plan/{plan}"));
    assert!(drawn.contains("<rect") && drawn.contains("* T1.1 done"), "{drawn}");
    let history = browser.see(&format!("plan/{plan}/history"));
    assert!(history.contains("in_progress") && history.contains("versions"), "{history}");
    assert!(browser.see("events").contains("question.answered"));
    assert!(
        browser.see("hosts").contains("nats-server") && browser.see("cost").contains("curious")
    );
    assert!(browser.see("search?q=wonder").contains("T1.1"));
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn commit_is_on_the_page_within_half_a_second() {
    let fleet = paged();
    let browser = Browser::open(&fleet);
    let mut live = browser.live("");
    until(&mut live, "live");
    let mut best = Duration::MAX;
    // Of some, since the machine does other things too.
    for n in 0..5 {
        let name = format!("later{n}");
        fleet.ok(["project", "create", &name]);
        let committed = Instant::now();
        let seen = until(&mut live, &format!("PO-{name}"));
        best = best.min(seen.saturating_duration_since(committed));
    }
    assert!(best < SEEN_WITHIN, "{best:?}");
}

#[test]
fn change_is_read_approved_and_merged_on_the_page() {
    let fleet = paged();
    let repository = Repository::new(&fleet);
    work(&fleet, &repository.0, &[("printf '4\\033[2J<b>\n' >> a", json!({}))]);
    let made = change(&fleet, "T1.1");
    let (id, digest) = (id(&made), made["digest"].as_str().unwrap().to_owned());
    let browser = Browser::open(&fleet);
    let view = format!("change/{id}");
    let shown = browser.see(&view);
    assert!(shown.contains("+4\\u{1b}[2J&lt;b&gt;") && shown.contains(&digest), "{shown}");
    browser.send(&view, &format!("do=approve&id={id}&digest={}", "0".repeat(64)));
    let refused = browser.see(&view);
    assert!(refused.contains("class=\"bad\"") && refused.contains("approve"), "{refused}");
    assert_eq!(change(&fleet, "T1.1")["status"], "proposed", "another digest is no approval");
    browser.send(&view, &format!("do=approve&id={id}&digest={digest}"));
    wait::until("it is approved", || browser.see(&view).contains("value=\"merge\"").then_some(()));
    browser.send(&view, &format!("do=merge&id={id}"));
    wait::until("it is merged", || (change(&fleet, "T1.1")["status"] == "applied").then_some(()));
    assert_eq!(repository.read("a"), "one\ntwo\nthree\n4\u{1b}[2J<b>\n");
}

#[test]
fn agent_is_steered_on_the_page_and_its_transcript_follows() {
    let fleet = paged();
    let witness = fleet.cwd().join("witness");
    let plan = json!({
        "project": "steered",
        "goal": {"title": "Drive"},
        "phases": [{"id": "P1", "name": "Go", "tasks": [
            {"id": "T1.1", "name": "drive", "profile": "helm", "acceptance": ["x"], "maxAttempts": 1},
        ]}],
        "profiles": {"helm": {"argv": acting(&["helm", witness.to_str().unwrap()])}},
    });
    let plan = fleet.file("plan.json", &plan.to_string());
    let running = fleet.spawn(["run", plan.to_str().unwrap()]);
    wait::until("its program is up", || witness.exists().then_some(()));
    let browser = Browser::open(&fleet);
    let agents = fleet.json(&["get", "agents", "--project", "steered"]);
    let worker = agents.as_array().unwrap().iter().find(|agent| agent["label"] == "drive").unwrap();
    let worker = worker["id"].as_str().unwrap();
    let view = format!("agent/{worker}");
    let mut live = browser.live(&view);
    until(&mut live, "started");
    browser.send(&view, &format!("do=steer&id={worker}&text=go+%3Cb%3Eleft"));
    until(&mut live, "go &lt;b&gt;left");
    wait::until("its receipt is shown", || {
        browser.see(&view).contains("<span class=\"good\">effective</span>").then_some(())
    });
    assert_eq!(std::fs::read_to_string(&witness).unwrap(), "up 1\nsteer go <b>left\n");
    let back = browser.send(&view, &format!("do=stop&id={worker}&text=enough"));
    assert!(back.contains("agent/"), "{back}");
    until(&mut live, "enough");
    assert_ne!(running.ended().code, Some(0), "its only attempt was stopped");
}

#[test]
fn requests_of_others_are_refused_and_change_nothing() {
    let fleet = paged();
    let browser = Browser::open(&fleet);
    fleet.ok(["project", "create", "quiet"]);
    wait::until("it is there", || browser.see("").contains("PO-quiet").then_some(()));
    let stop = |form: &str| format!("form={form}&do=stop&id=PO-quiet&text=x");
    let status = |lines: &[String], body: &str| raw(&browser.at, lines, body).status;
    let with = |lines: Vec<String>, from: &str, to: &str| -> Vec<String> {
        let changed =
            lines.into_iter().map(|line| if line.starts_with(from) { to.to_owned() } else { line });
        changed.filter(|line| !line.is_empty()).collect()
    };

    // Nobody without the token, and no other name than the machine's own.
    let get = browser.lines("GET", "");
    assert_eq!(status(&with(get.clone(), "Cookie", ""), ""), 401);
    assert_eq!(status(&with(get.clone(), "Cookie", "Cookie: tetrarch=0"), ""), 401);
    assert_eq!(browser.get(&format!("enter/{}", "0".repeat(64))).status, 401);
    assert_eq!(browser.get("/").status, 404, "nothing is outside of its place");
    for host in ["evil.example:80", "127.0.0.1:1", "127.0.0.1.evil.example"] {
        assert_eq!(status(&with(get.clone(), "Host", &format!("Host: {host}")), ""), 421, "{host}");
    }
    assert_eq!(status(&with(get, "Host", ""), ""), 421);

    // Forms of other places, without their token, of another kind, twice.
    let body = stop(&browser.form(""));
    let post = browser.post_lines(&body);
    for origin in
        ["", "Origin: null", "Origin: http://127.0.0.1:3000", "Origin: http://evil.example"]
    {
        assert_eq!(status(&with(post.clone(), "Origin", origin), &body), 403, "{origin}");
    }
    assert_eq!(status(&with(post.clone(), "Cookie", ""), &body), 401);
    assert_eq!(status(&with(post, "Content-Type", "Content-Type: text/plain"), &body), 415);
    assert_eq!(browser.post(&stop("")).status, 403);
    let other = Browser::open(&fleet);
    assert_eq!(other.post(&body).status, 403, "it is of another session");
    assert_eq!(browser.post(&format!("do=stop&id={}", "x".repeat(70_000))).status, 413);

    // Nothing is changed by reading.
    for path in [format!("act?{body}"), format!("live/act?{body}"), "act".to_owned()] {
        assert_eq!(browser.get(&path).status, 404, "{path}");
    }
    for path in [
        "../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "agent/..%2f..%2fkeys",
        "page.link",
        "%2e%2e/",
    ] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
    assert_eq!(status(&with(browser.lines("PUT", "act"), "x", ""), ""), 405);
    let quiet = fleet.json(&["get", "agents", "--project", "quiet"]);
    assert_eq!(quiet[0]["liveness"], "active", "{quiet}");

    // The same form does something once.
    assert_eq!(browser.post(&body).status, 303);
    assert_eq!(browser.post(&body).status, 403, "a replayed form");
    wait::until("it was stopped", || {
        let all = fleet.json(&["get", "agents", "--project", "quiet", "--all"]);
        (all[0]["liveness"] == "terminated").then_some(())
    });
    let page = browser.get("");
    for header in [
        "content-security-policy: default-src 'none'",
        "nosniff",
        "referrer-policy: same-origin",
        "no-store",
        "deny",
    ] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
}

#[test]
fn slow_and_many_browsers_hold_up_nobody() {
    let fleet = paged();
    let browser = Browser::open(&fleet);
    let let_in = |live: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        live.read_line(&mut line).unwrap();
        line.contains("200")
    };
    // They look and take nothing more of what comes.
    let mut slow: Vec<_> = (0..32).map(|_| browser.live("")).collect();
    assert!(slow.iter_mut().all(let_in));
    assert!(!let_in(&mut browser.live("")), "no more may look");
    for n in 0..5 {
        fleet.ok(["project", "create", &format!("p{n}")]);
    }
    wait::until("others see all of it", || browser.see("").contains("PO-p4").then_some(()));
    drop(slow);
    wait::until("their places are free again", || let_in(&mut browser.live("")).then_some(()));
}

#[test]
fn half_requests_hold_up_nobody_and_the_oldest_are_ended() {
    let fleet = paged();
    let browser = Browser::open(&fleet);
    let half = |_| {
        let mut stream = connected(&browser.at);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
        stream
    };
    let mut half: Vec<_> = (0..600).map(half).collect();
    assert!(browser.see("").contains("GO"));
    let ended = match half[0].read(&mut [0]) {
        Ok(read) => read == 0,
        Err(cause) => cause.kind() == ErrorKind::ConnectionReset,
    };
    assert!(ended, "it is still open");
}

#[test]
fn page_takes_a_free_port_keeps_its_link_and_may_be_off() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let mut fleet = Fleet::prepared().with_env("TETRARCH_PEOPLE_PAGE_LISTEN", &at).started();
    let first = Browser::open(&fleet);
    assert_ne!(first.at, at);
    assert!(first.see("").contains("GO"));
    let ended = fleet.stop();
    assert!(ended.out.contains(&format!("page: {}", first.link)), "{}", ended.out);
    assert!(ended.err.contains("the port of the page is taken"), "{}", ended.err);
    drop(taken);
    fleet.start();
    let second = Browser::open(&fleet);
    assert!(second.at == at && second.place != first.place, "another link at another port");
    let mut beside = fleet.spawn(["page"]);
    let line = beside.line(|line| line.starts_with("page: "));
    assert!(!line.contains(&second.at) && !line.contains(&second.place), "{line}");
    assert_eq!(link(&fleet), second.link, "a page beside it leaves the link");
    beside.signal(Signal::INT);
    beside.ended();
    fleet.stop();
    fleet.start();
    assert_eq!(link(&fleet), second.link, "the same link at the same port");
    fleet.stop();

    let off = Fleet::prepared().with_env("TETRARCH_PEOPLE_PAGE_LISTEN", "off").started();
    assert!(!off.data_dir().join("page.link").exists());
    let none = off.run(["page"]);
    assert_eq!(none.code, Some(2), "{}", none.err);
    let wide = Fleet::prepared().with_env("TETRARCH_PEOPLE_PAGE_LISTEN", "0.0.0.0:7878");
    let refused = wide.run(["up"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(
        refused.err.contains("people.page_listen") || refused.err.contains("PAGE_LISTEN"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("127.0.0.1:<port>"), "{}", refused.err);
}
