//! One run is one trace: every span that a collector receives for it has the run's trace id, and
//! every agent's span hangs below the run's own (spec 07, Traces), down to the model and the tools.

mod collector;
mod conversation;
mod gateway;
mod model;
mod secure;

use std::collections::BTreeMap;

use tetrarch_tests::Fleet;

use crate::acting;
use collector::{Collector, Span};

#[tokio::test(flavor = "multi_thread")]
async fn run_is_one_trace_through_all_agents() {
    let collector = Collector::start().await;
    let fleet = Fleet::prepared().with_env("TETRARCH_TELEMETRY_OTLP_ENDPOINT", &collector.url);
    let mut fleet = fleet.started();
    let plan = serde_json::json!({
        "project": "traced",
        "goal": {"title": "Leave a trace"},
        "phases": [{"id": "P1", "name": "Go", "tasks": [
            {"id": "T1.1", "name": "plain", "profile": "plain", "acceptance": ["x"]},
            {"id": "T1.2", "name": "nested", "role": "specialist", "domain": "d",
             "profile": "nest", "deps": ["T1.1"], "acceptance": ["x"]},
        ]}],
        "profiles": {
            "plain": {"argv": ["sh", "-c", "echo $TRACEPARENT"]},
            "nest": {"argv": acting(&["nest"]), "wall": "60s"},
            "deeper": {"argv": acting(&["deeper"]), "wall": "60s"},
        },
    });
    let plan = fleet.file("traced.json", &plan.to_string());
    let told = fleet.ok(["run", "--quiet", plan.to_str().unwrap()]);
    // Every process sends what it has before it ends.
    fleet.stop();
    let all = collector.spans();

    let roots: Vec<&Span> = all.iter().filter(|s| s.name.starts_with("invoke_workflow")).collect();
    assert_eq!(roots.len(), 1, "{roots:?}");
    let root = roots[0];
    assert!(root.parent.is_empty(), "{root:?}");
    let ours: BTreeMap<&str, &Span> =
        all.iter().filter(|s| s.trace == root.trace).map(|s| (s.id.as_str(), s)).collect();

    // The specialist's worker hangs below the specialist's own span, and all below the run's.
    let agents: Vec<&Span> = all.iter().filter(|s| s.name.starts_with("invoke_agent")).collect();
    let named = |name: &str| {
        let name = format!("invoke_agent {name}");
        agents.iter().filter(|span| span.name == name).count()
    };
    assert_eq!((named("plain"), named("nest"), named("deeper")), (1, 1, 1), "{agents:?}");
    for span in &agents {
        assert_eq!(span.is("gen_ai.operation.name"), "invoke_agent", "{span:?}");
        assert_eq!(span.name, format!("invoke_agent {}", span.is("gen_ai.agent.name")));
    }
    let above = |span: &Span| -> Vec<&Span> {
        let mut line = Vec::new();
        let mut next = span.parent.clone();
        while let Some(parent) = ours.get(next.as_str()) {
            assert!(line.len() < ours.len(), "a circle above {span:?}");
            line.push(*parent);
            next = parent.parent.clone();
        }
        line
    };
    for span in &agents {
        assert_eq!(span.trace, root.trace, "{span:?}");
        let line = above(span);
        assert_eq!(line.last().map(|top| &top.id), Some(&root.id), "{span:?} below {line:?}");
    }
    let specialist = agents.iter().find(|span| span.is("gen_ai.agent.id").starts_with("S:"));
    let specialist = specialist.unwrap();
    let below = |span: &Span| above(span).iter().any(|parent| parent.id == specialist.id);
    assert_eq!(agents.iter().filter(|span| below(span)).count(), 1, "the specialist's own worker");

    // What an agent's program is told is the same trace.
    let trace = &root.trace;
    assert!(told.contains(&format!("00-{trace}-")), "{trace} in\n{told}");
}
