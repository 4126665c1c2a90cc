//! Cases of file reservations (spec 05).

use serde_json::json;
use tetrarch_core::id::{AgentId, ProjectName, ReservationId, SessionId, Ulid};
use tetrarch_core::reservation::{Breach, Mode, Reservation, Wanted, guard, reserve};
use tetrarch_core::time::BusTime;

use crate::vectors::input::{CaseError, CaseMap, CaseValue};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

pub(super) fn outcome(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let given = given.keys("held")?;
    let when = when.keys("request change at_ms")?;
    let mut holders = Holders::default();
    let mut fencing = 0;
    let held = given.each("held", |field| {
        fencing += 1;
        holders.reservation(field, fencing)
    })?;
    let now = BusTime(when.or("at_ms", 0, CaseValue::whole)?);
    if let Some(change) = when.get("change") {
        return applied(&mut holders, &held, &change, now);
    }
    let request = when.need("request")?.keys("holder epoch paths mode ttl_ms")?;
    let agent = holders.agent(request.need("holder")?.text()?);
    let paths = paths(&request)?;
    let epoch = request.or("epoch", 1, CaseValue::whole)?;
    let wanted = Wanted { agent: &agent, epoch, paths: &paths, mode: mode(&request)? };
    let outcome = CaseOutcome::default();
    Ok(match reserve(&held, wanted, now) {
        Ok(fencing) => {
            outcome.set("granted", true).set("fencing", fencing).set("conflicts", json!([]))
        }
        Err(conflicts) => {
            let names = conflicts.into_iter().map(|held| holders.name(&held.agent));
            outcome.set("granted", false).set("conflicts", names.collect::<Vec<_>>())
        }
    })
}

/// Whether a change may be applied, and the first file that stands against it.
fn applied(
    holders: &mut Holders,
    held: &[Reservation],
    change: &CaseValue<'_>,
    now: BusTime,
) -> CaseResult {
    let change = change.keys("holder epoch scope files")?;
    let agent = holders.agent(change.need("holder")?.text()?);
    let epoch = change.or("epoch", 1, CaseValue::whole)?;
    let (scope, files) = (change.need("scope")?.texts()?, change.need("files")?.texts()?);
    let outcome = CaseOutcome::default();
    Ok(match guard(held, (&agent, epoch), &scope, &files, now) {
        Ok(()) => outcome.set("allowed", true),
        Err(Breach::OutOfScope { path }) => outcome.set("allowed", false).set("out_of_scope", path),
        Err(Breach::Reserved { path, by }) => outcome
            .set("allowed", false)
            .set("reserved", path)
            .set("conflicts", vec![holders.name(&by.agent)]),
    })
}

/// Whom the case names; what they are called is its own affair.
#[derive(Default)]
struct Holders(Vec<(String, AgentId)>);

impl Holders {
    fn agent(&mut self, name: &str) -> AgentId {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| known == name) {
            return known.clone();
        }
        let agent = AgentId::Worker(Ulid(self.0.len() as u128));
        self.0.push((name.to_owned(), agent.clone()));
        agent
    }

    fn name(&self, agent: &AgentId) -> &str {
        self.0.iter().find(|(_, known)| known == agent).map_or("", |(name, _)| name)
    }

    fn reservation(
        &mut self,
        field: &CaseValue<'_>,
        fencing: u64,
    ) -> Result<Reservation, CaseError> {
        let input = field.keys("holder epoch paths mode expires_ms")?;
        let project = ProjectName::new("case").map_err(|error| CaseError(error.to_string()))?;
        Ok(Reservation {
            id: ReservationId(Ulid(u128::from(fencing))),
            project,
            fencing,
            agent: self.agent(input.need("holder")?.text()?),
            session: SessionId(Ulid(0)),
            epoch: input.or("epoch", 1, CaseValue::whole)?,
            paths: paths(&input)?,
            mode: mode(&input)?,
            until: BusTime(input.or("expires_ms", u64::MAX, CaseValue::whole)?),
            reason: String::new(),
        })
    }
}

fn paths(input: &CaseMap<'_>) -> Result<Vec<String>, CaseError> {
    input.need("paths")?.texts()
}

fn mode(input: &CaseMap<'_>) -> Result<Mode, CaseError> {
    input.or("mode", Mode::Exclusive, |field| field.one(&Mode::ALL, Mode::as_str))
}
