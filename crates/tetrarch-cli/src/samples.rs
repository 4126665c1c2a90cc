//! Records for the tests of views.

use tetrarch_core::agent::{Agent, Hosting, Unsettled, Work};
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::Account;
use tetrarch_core::id::{
    AgentId, AssignmentId, EpicId, NodeId, Principal, ProjectName, RunId, Ulid,
};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::time::BusTime;

/// An agent of this name; below a project orchestrator it belongs to the project `demo`.
pub(crate) fn agent(id: &str, parent: Option<&str>, liveness: Liveness) -> Agent {
    let project = parent.is_some_and(|parent| parent.starts_with("PO"));
    Agent {
        id: id.parse().unwrap(),
        session: None,
        mail_read: 0,
        denials: Default::default(),
        epoch: 1,
        liveness,
        reason: String::new(),
        since: BusTime(10_000),
        ending: None,
        parent: parent.map(|parent| parent.parse().unwrap()),
        depth: 0,
        max_depth: 3,
        local_max_depth: 3,
        requested_by: Principal::Agent(AgentId::Go),
        project: project.then(|| ProjectName::new("demo").unwrap()),
        hosting: Hosting::Hosted,
        placement: None,
        label: String::new(),
        slots: Vec::new(),
        account: Account::default(),
        unsettled: Unsettled::default(),
        deadline: None,
        tools: Tools::default(),
        circuit: Default::default(),
        work: None,
        verbs: Default::default(),
        created: BusTime(1_000),
    }
}

/// The `n`th worker of `PO-demo`, at its run, assignment and task.
pub(crate) fn worker(n: u128, task: u32, liveness: Liveness) -> Agent {
    let id = format!("W:{}", Ulid::from_parts(1, n));
    let work = Work {
        epic: EpicId(Ulid::from_parts(1, 7)),
        node: NodeId::task(1, task),
        assignment: AssignmentId(Ulid::from_parts(1, n)),
        run: RunId(Ulid::from_parts(1, n)),
    };
    Agent { work: Some(work), ..agent(&id, Some("PO-demo"), liveness) }
}
