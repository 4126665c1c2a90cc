//! The page in a real Chromium: every view in light, dark and on a phone, by the rules for accessible pages; changes that come by
//! themselves; a question answered and a change merged by the keyboard alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tetrarch_tests::{Fleet, Program, python, wait};

use crate::gate::{Repository, change, id, work};
use crate::page::{link, paged, wondering};
use crate::script;

/// How long a change may take from its commit to a browser, in milliseconds.
const SEEN_WITHIN_MS: f64 = 500.0;

/// The directory with what drives the browser; none where one of both is not installed.
#[expect(clippy::print_stdout, reason = "a skipped test has to be seen")]
fn driver() -> Option<PathBuf> {
    let driver = std::env::var_os("CHROMIUM_DRIVER").map(PathBuf::from);
    if driver.is_none() {
        println!("skipped: install chromium (tests/run does with CI set) and run tests/run");
    }
    driver
}

#[test]
fn people_see_and_decide_on_the_page_in_a_browser() {
    let Some(driver) = driver() else { return };
    let fleet = paged();
    let repository = Repository::new(&fleet);
    work(&fleet, &repository.0, &[("echo four >> a", json!({}))]);
    let made = id(&change(&fleet, "T1.1"));
    let plan = wondering(&fleet, "Wonder about it");
    let running = fleet.spawn(["run", plan.as_str().unwrap()]);
    let asks = || (fleet.json(&["inbox"]).to_string().contains("qst_")).then_some(());
    wait::until("it asks", asks);
    let goals = fleet.json(&["get", "goals", "--project", "curious"]);
    let agents = fleet.json(&["get", "agents", "--project", "curious"]);
    let worker = agents.as_array().unwrap().iter().find(|it| it["label"] == "wonder").unwrap();
    let facts = json!({
        "link": link(&fleet),
        "axe": driver.join("axe.min.js"),
        "goal": goals[0]["id"],
        "agent": worker["id"],
        "change": made,
        "seq": last_seq(&fleet),
        "pictures": std::env::var("PAGE_PICTURES").ok(),
    });
    let told = looked_at(&fleet, &driver, &facts);
    for nothing in ["violations", "complaints", "wide"] {
        assert_eq!(told[nothing], json!([]), "{nothing}");
    }
    assert_eq!((&told["without cookie"], &told["let in"]), (&json!(401), &json!(0)));
    let lags = told["lags"].as_array().unwrap().iter().map(|lag| lag.as_f64().unwrap());
    // Of some, since the machine does other things too.
    let best = lags.fold(f64::MAX, f64::min);
    assert!(best < SEEN_WITHIN_MS, "{told}");
    assert_eq!(repository.read("a"), "one\ntwo\nthree\nfour\n");
    let when = || fleet.json(&["inbox"])[0]["id"].as_str().map(str::to_owned);
    fleet.ok(["answer", &wait::until("it asks again", when), "now"]);
    let ended = running.ended();
    let answers: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(answers["which"], "B", "{}", ended.err);
}

/// The entry of the latest event.
fn last_seq(fleet: &Fleet) -> Value {
    let events = fleet.ok(["events", "-o", "json"]);
    serde_json::from_str::<Value>(events.lines().last().unwrap()).unwrap()["seq"].clone()
}

/// What came of looking.
fn looked_at(fleet: &Fleet, driver: &Path, facts: &Value) -> Value {
    let inner = fleet.command([""; 0]);
    let mut command = Command::new(python());
    command.arg(script("browser.py")).arg(facts.to_string()).arg(inner.get_program());
    command.env_clear().current_dir(fleet.cwd()).env("CHROMIUM_DRIVER", driver);
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = Program::start(&mut command).ended();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    serde_json::from_str(&ended.out).unwrap()
}
