//! Budgets with real programs: a run that uses all of its grant ends with what there is, calls in
//! parallel never pass it, and what was open when a program died counts as spent (spec 06, Budgets).

use serde_json::{Value, json};
use tetrarch_core::brief::Outcome;
use tetrarch_core::records::Records;
use tetrarch_core::run::RunStatus;

use tetrarch_tests::{Fleet, Ledger, python};

use crate::script;

const GRANT: u64 = 1000;

pub(crate) fn spending(act: &[&str]) -> Vec<String> {
    let words = [python().to_str().unwrap().to_owned(), "-B".to_owned(), script("spending.py")];
    words.into_iter().chain(act.iter().map(|&word| word.to_owned())).collect()
}

fn plan() -> Value {
    let grant = GRANT.to_string();
    let profile =
        |act: &[&str]| json!({"argv": spending(act), "wall": "60s", "budget": {"tokens": GRANT}});
    let task = |id: &str, profile: &str| {
        json!({"id": id, "name": profile, "profile": profile, "acceptance": ["it was told"],
               "maxAttempts": 1})
    };
    json!({
        "project": "thrifty",
        "goal": {"title": "Spend"},
        "phases": [{"id": "P1", "name": "Spend", "tasks": [
            task("T1.1", "over"), task("T1.2", "crowd"), task("T1.3", "dies"),
        ]}],
        "profiles": {
            "over": profile(&["over", &grant]),
            "crowd": profile(&["crowd", "64", "20"]),
            "dies": profile(&["dies", &grant]),
        },
    })
}

/// The run of a task that has a result.
pub(crate) fn ended<'r>(records: &'r Records, task: &str) -> Option<&'r RunStatus> {
    let runs = records.runs.values().filter(|run| run.node.to_string() == task);
    runs.filter_map(|run| records.run_status.get(&run.id)).find(|status| status.result.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_program_exceeds_its_grant_unseen() {
    let fleet = Fleet::up();
    fleet.ok(["project", "create", "thrifty", "--tokens", "10000"]);
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let file = fleet.file("thrifty.json", &plan().to_string());
    let _running = fleet.spawn(["run", file.to_str().unwrap()]);
    let all = |records: &Records| {
        let tasks = ["T1.1", "T1.2", "T1.3"];
        let results = tasks.map(|task| ended(records, task).cloned());
        let [Some(over), Some(crowd), Some(dies)] = results else { return None };
        let orchestrator =
            records.agents.values().find(|agent| agent.id.to_string() == "PO-thrifty")?;
        let settled = orchestrator.slots.is_empty() && orchestrator.unsettled.is_empty();
        settled.then_some((over, crowd, dies, orchestrator.account))
    };
    let (over, crowd, dies, account) = ledger.until("every run is settled", all).await;

    let result = over.result.unwrap();
    assert_eq!(result.outcome, Outcome::BudgetExceeded, "{}", result.error);
    assert_eq!(result.partial, "half of it, after 800 of 1000");
    assert!(result.error.contains("1000 of 1000 tokens"), "{}", result.error);
    assert_eq!(over.usage.spend().tokens, GRANT + 1);

    let told: Value = serde_json::from_str(&crowd.result.unwrap().deliverable).unwrap();
    assert_eq!(told, json!({"granted": GRANT / 20, "more": false}));
    assert_eq!(crowd.usage.spend().tokens, GRANT);

    let told: Value = serde_json::from_str(&dies.result.unwrap().deliverable).unwrap();
    assert_eq!(told, json!({"beyond": false, "left": true}), "it metered on");
    let died = 100 + 500 + 1;
    assert_eq!(account.spent.tokens, GRANT + 1 + GRANT + died, "what was open counts as spent");
    assert_eq!(account.reserved.tokens, 0);

    let shown = fleet.json(&["budget", "PO-thrifty"]);
    assert_eq!(shown[0]["budget"]["tokens"]["free"], 10_000 - account.spent.tokens);
    assert!(fleet.ok(["events", "--kind", "alert"]).contains("budget.warning"));
    fleet.ok(["doctor", "--check-ledger"]);
}
