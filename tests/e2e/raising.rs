//! Raised grants with real programs: one that nears its end goes on with what a human adds, also after its
//! death; one that got nothing ends. No agent raises its own (spec 06, Budgets; spec 09, Human gate).

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tetrarch_core::brief::{Outcome, RunResult};
use tetrarch_core::records::Records;
use tetrarch_tests::scripted::{Words, serve_model, turn_of};
use tetrarch_tests::{Fleet, Ledger, Program, wait};

use crate::spending::{ended, spending};

const GRANT: u64 = 1000;
const MORE: u64 = 600;

fn goal(fleet: &Fleet, project: &str, tasks: &[Value], profiles: &Value) -> Program {
    let plan = json!({
        "project": project,
        "goal": {"title": project},
        "phases": [{"id": "P1", "name": "Spend", "tasks": tasks}],
        "profiles": profiles,
    });
    let file = fleet.file(&format!("{project}.json"), &plan.to_string());
    fleet.spawn(["run", file.to_str().unwrap()])
}

fn task(id: &str, profile: &str) -> Value {
    json!({"id": id, "name": profile, "profile": profile, "acceptance": ["it was told"], "maxAttempts": 1})
}

/// The questions that are open: who asks, and what the question is called.
fn asking(fleet: &Fleet, count: usize) -> Vec<(String, String)> {
    wait::until("all have asked", || {
        let listed = fleet.json(&["inbox"]);
        let text = |question: &Value, field: &str| question[field].as_str().unwrap().to_owned();
        let all = listed.as_array().unwrap().iter().filter(|one| one["kind"] == "question");
        let all: Vec<_> = all.map(|one| (text(one, "agent"), text(one, "id"))).collect();
        (all.len() == count).then_some(all)
    })
}

/// How the runs of both tasks ended.
async fn outcomes(ledger: &mut Ledger) -> [RunResult; 2] {
    let both = |records: &Records| {
        let [one, two] = ["T1.1", "T1.2"].map(|task| ended(records, task)?.result.clone());
        Some([one?, two?])
    };
    ledger.until("both runs have ended", both).await
}

#[tokio::test(flavor = "multi_thread")]
async fn raised_budget_is_used_and_metered_across_a_crash() {
    let fleet = Fleet::up();
    let mut ledger = Ledger::follow(&fleet.control().await);
    fleet.ok(["project", "create", "raised", "--tokens", "2500"]);
    let (grant, more) = (GRANT.to_string(), MORE.to_string());
    let profile =
        |act: &[&str]| json!({"argv": spending(act), "wall": "60s", "budget": {"tokens": GRANT}});
    let profiles =
        json!({"raised": profile(&["raised", &grant, &more]), "over": profile(&["over", &grant])});
    let tasks = [task("T1.1", "raised"), task("T1.2", "over")];
    let _running = goal(&fleet, "raised", &tasks, &profiles);
    let [(agent, question)] = asking(&fleet, 1).try_into().unwrap();

    let raise = |more: u64, id: &str| {
        fleet.run([
            "budget",
            "raise",
            &agent,
            "--tokens",
            &format!("+{more}"),
            "--reason",
            "go on",
            "--request-id",
            id,
        ])
    };
    wait::until("the other's grant is settled", || {
        let project = &fleet.json(&["budget", "PO-raised"])[0]["budget"]["tokens"];
        (project["spent"] == GRANT + 1).then_some(())
    });
    let refused = raise(MORE, "01JD8Z5W6T4QK3M9X2V7B1N0A1");
    assert_eq!(refused.code, Some(5), "{}", refused.err);
    let why = "budget_exceeded: 600 more tokens were requested for";
    assert!(
        refused.err.contains(why) && refused.err.contains("limit 2500, current 2001"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("raise PO-raised by 101 tokens first"), "{}", refused.err);
    fleet.ok(["budget", "raise", "PO-raised", "--tokens", "101"]);
    for _ in 0..2 {
        let raised = raise(MORE, "01JD8Z5W6T4QK3M9X2V7B1N0A2");
        assert_eq!(raised.code, Some(0), "{}", raised.err);
        assert!(raised.out.contains("600 tokens more, 1600 tokens in all"), "{}", raised.out);
    }
    fleet.ok(["answer", &question, "yes"]);

    let [raised, over] = outcomes(&mut ledger).await;
    assert_eq!((raised.outcome, over.outcome), (Outcome::Success, Outcome::BudgetExceeded));
    let told: Value = serde_json::from_str(&raised.deliverable).unwrap();
    assert_eq!(told, json!({"beyond": false, "left": true}), "it metered on");
    let account = wait::until("all is settled", || {
        let account = fleet.json(&["budget", "PO-raised"])[0]["budget"]["tokens"].clone();
        (account["reserved"] == 0).then_some(account)
    });
    let died = 800 + 201 + 1;
    assert_eq!(account["spent"], GRANT + 1 + died, "{account}");
    let events = fleet.ok(["events", "--kind", "budget"]);
    let raises = events.lines().filter(|line| line.contains("granted 600 tokens more"));
    assert_eq!(raises.count(), 1, "{events}");
    assert!(fleet.ok(["why", &agent]).contains("1600 tokens in all: go on"));
    fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn model_is_told_of_a_raise_and_uses_its_turns() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&asked);
    let url = serve_model(move |request| {
        told.lock().unwrap().push(request.to_string());
        let (text, calls) = match turn_of(request) {
            1 => ("", vec![("ask_human", json!({"question": "May I have more?"}))]),
            2 => ("", vec![("agent_status", json!({}))]),
            _ => ("it was enough", Vec::new()),
        };
        Some(Words { text: text.to_owned(), calls, ..Words::default() })
    });
    let fleet = Fleet::up();
    let mut ledger = Ledger::follow(&fleet.control().await);
    let profile = json!({
        "runner": "llm", "provider": "openai", "model": "scripted", "baseUrl": format!("{url}/v1"),
        "tools": ["ask_human", "agent_status"], "budget": {"turns": 2},
    });
    let profiles = json!({"more": profile, "none": profile});
    let _running = goal(&fleet, "turns", &[task("T1.1", "more"), task("T1.2", "none")], &profiles);
    let open = asking(&fleet, 2);
    let lucky = |records: &Records| {
        let mut runs = records.runs.values();
        runs.find(|run| run.node.to_string() == "T1.1").map(|run| run.agent.to_string())
    };
    let lucky = ledger.until("its run is known", lucky).await;
    fleet.ok(["budget", "raise", &lucky, "--turns", "2"]);
    for (_, question) in &open {
        fleet.ok(["answer", question, "you will see"]);
    }
    let [more, none] = outcomes(&mut ledger).await;
    assert_eq!((more.outcome, none.outcome), (Outcome::Success, Outcome::BudgetExceeded));
    let asked = asked.lock().unwrap();
    let told = asked.iter().filter(|request| request.contains(" 4 turns in all; go on"));
    assert!(told.count() > 0, "{asked:?}");
    fleet.ok(["doctor", "--check-ledger"]);
}
