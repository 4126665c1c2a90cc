//! What of others' messages is given up so that the streams have room (spec 09, On the bus): requests that are
//! decided, mail and journals of agents that there are none of, the oldest of many journals that an agent outside keeps,
//! when mail has nearly no room left, that of the party outside which wrote most, or had the owner write most to it, and
//! when journals have not, those of the agent outside that wrote most.

use std::collections::BTreeMap;

use crate::agent::Hosting;
use crate::id::{AgentId, Principal, RunId};
use crate::limits::{JOURNAL_ENTRY_BYTES_MAX, OWN_JOURNALS_MAX, UNREAD_MAX};
use crate::records::Records;
use crate::share::Backlog;
use crate::snapshot::Extent;

/// Thousandths of REQUESTS at which what is decided goes.
const REQUESTS_FULL: u64 = 500;
/// Thousandths of MAIL at which the heaviest sender's goes.
const MAIL_FULL: u64 = 800;
/// Thousandths of RUNS at which the journals go of the agent outside that wrote most.
const RUNS_FULL: u64 = 800;
/// Of the room that RUNS has, an agent outside that could have taken less than one part of so many loses nothing.
const RUNS_PARTS: u64 = 8;

/// Mail on one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailCount {
    /// The subject, which is what is purged.
    pub subject: String,
    /// To whom.
    pub to: Principal,
    /// From whom.
    pub from: Principal,
    /// Whether a host published it for an agent that it hosts.
    pub hosted: bool,
    /// How many messages.
    pub count: u64,
}

/// A journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalCount {
    /// Its subject, which is what is purged.
    pub subject: String,
    /// Whose.
    pub agent: AgentId,
    /// Of which run.
    pub run: RunId,
    /// How many entries.
    pub count: u64,
}

/// How full the streams are that others fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fill {
    /// REQUESTS.
    pub requests: Extent,
    /// The sequence up to which STATE says that requests are decided.
    pub decided: u64,
    /// MAIL.
    pub mail: Extent,
    /// What MAIL has by subject.
    pub subjects: Vec<MailCount>,
    /// RUNS.
    pub runs: Extent,
    /// The journals that RUNS has.
    pub journals: Vec<JournalCount>,
    /// What of mail is unread, of those pairs of reader and writer that may be over the bound.
    pub backlogs: Vec<Backlog>,
}

impl Fill {
    /// The subjects of each pair of an agent and somebody who wrote it so much that it may have more unread
    /// than is allowed. The owner's own mail is nobody's to answer for.
    #[must_use]
    pub fn suspects(&self) -> BTreeMap<(AgentId, Principal), Vec<String>> {
        let mut counts: BTreeMap<(AgentId, Principal), (u64, Vec<String>)> = BTreeMap::new();
        for mail in &self.subjects {
            let Principal::Agent(reader) = &mail.to else { continue };
            if mail.from == Principal::Agent(AgentId::Go) {
                continue;
            }
            let counted = counts.entry((reader.clone(), mail.from.clone())).or_default();
            counted.0 += mail.count;
            counted.1.push(mail.subject.clone());
        }
        let many = counts.into_iter().filter(|(_, (count, _))| *count > UNREAD_MAX);
        many.map(|(pair, (_, subjects))| (pair, subjects)).collect()
    }
}

/// What goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reclaim {
    /// Requests up to this sequence.
    pub requests: Option<u64>,
    /// Mail on these subjects.
    pub subjects: Vec<String>,
    /// Journals on these subjects.
    pub journals: Vec<String>,
    /// Whose mail that is, and how many messages of each.
    pub senders: Vec<(Principal, u64)>,
    /// Whose journals go because they fill RUNS, and how many entries.
    pub writer: Option<(AgentId, u64)>,
}

/// What is to go now; asking again after it went finds the rest.
#[must_use]
pub fn reclaim(records: &Records, fill: &Fill) -> Reclaim {
    let decided = is_beyond(fill.requests, REQUESTS_FULL).then_some(fill.decided);
    let strangers = fill.subjects.iter().filter(|mail| goes_nowhere(records, mail));
    let mut gone: Vec<&MailCount> = strangers.collect();
    if gone.is_empty() && is_beyond(fill.mail, MAIL_FULL) {
        let caused = || fill.subjects.iter().filter_map(|mail| Some((cause(records, mail)?, mail)));
        let heaviest = by_cause(caused()).into_iter().max_by_key(|(_, count)| *count);
        if let Some((who, _)) = heaviest {
            gone = caused().filter(|(by, _)| *by == who).map(|(_, mail)| mail).collect();
        }
    }
    let senders = by_cause(gone.iter().map(|mail| (&mail.from, *mail)));
    let mut journals = strays(records, &fill.journals);
    let writer = heaviest_writer(records, fill);
    if let Some((writer, _)) = &writer {
        let written = fill.journals.iter().filter(|journal| journal.agent == *writer);
        journals = written.map(|journal| journal.subject.clone()).collect();
    }
    Reclaim {
        journals,
        writer,
        requests: decided.filter(|through| *through >= fill.requests.first),
        subjects: gone.iter().map(|mail| mail.subject.clone()).collect(),
        senders: senders.into_iter().map(|(who, count)| (who.clone(), count)).collect(),
    }
}

fn is_beyond(extent: Extent, thousandths: u64) -> bool {
    extent.limit > 0 && extent.bytes / 1_000 * 1_000 >= extent.limit / 1_000 * thousandths
}

/// Which party outside is to answer for it: its writer, or whom the owner wrote it to, which answers what it was
/// asked. Of what a host wrote, and what the owner wrote to those that hosts run, it is nobody.
fn cause<'m>(records: &Records, mail: &'m MailCount) -> Option<&'m Principal> {
    if mail.from != Principal::Agent(AgentId::Go) {
        return (!mail.hosted).then_some(&mail.from);
    }
    let outside = match &mail.to {
        Principal::Agent(agent) => {
            records.agents.get(agent).is_none_or(|agent| agent.hosting == Hosting::External)
        }
        Principal::Human(_) => true,
    };
    outside.then_some(&mail.to)
}

fn goes_nowhere(records: &Records, mail: &MailCount) -> bool {
    let reader = match &mail.to {
        Principal::Agent(agent) => records.agents.contains_key(agent),
        // People need no record: whoever has a credential reads.
        Principal::Human(_) => true,
    };
    !reader && mail.from != Principal::Agent(AgentId::Go)
}

/// The subjects of journals that are nobody's: of agents that there are none of, and what agents outside keep beyond
/// [`OWN_JOURNALS_MAX`] of their own work, the earliest ids first. Hosts write those of the agents that they run.
fn strays(records: &Records, journals: &[JournalCount]) -> Vec<String> {
    let mut own: BTreeMap<&AgentId, Vec<&JournalCount>> = BTreeMap::new();
    let (mut gone, unknown) = (Vec::new(), |run| !records.runs.contains_key(run));
    for journal in journals.iter().filter(|journal| unknown(&journal.run)) {
        match records.agents.get(&journal.agent) {
            None => gone.push(journal),
            Some(agent) if agent.hosting == Hosting::External => {
                own.entry(&journal.agent).or_default().push(journal);
            }
            Some(_) => {}
        }
    }
    for mut kept in own.into_values() {
        kept.sort_by_key(|journal| journal.run);
        gone.extend(kept.iter().take(kept.len().saturating_sub(OWN_JOURNALS_MAX)));
    }
    gone.into_iter().map(|journal| journal.subject.clone()).collect()
}

/// The agent outside whose journals are to go, and how many entries they have: the one that wrote most, when RUNS has
/// nearly no room left and it could be what takes it.
fn heaviest_writer(records: &Records, fill: &Fill) -> Option<(AgentId, u64)> {
    if !is_beyond(fill.runs, RUNS_FULL) {
        return None;
    }
    let mut counts: BTreeMap<&AgentId, u64> = BTreeMap::new();
    for journal in &fill.journals {
        let agent = records.agents.get(&journal.agent);
        if agent.is_some_and(|agent| agent.hosting == Hosting::External) {
            *counts.entry(&journal.agent).or_default() += journal.count;
        }
    }
    let (agent, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let bytes = u64::try_from(JOURNAL_ENTRY_BYTES_MAX).unwrap_or(u64::MAX).saturating_mul(count);
    (bytes >= fill.runs.limit / RUNS_PARTS).then(|| (agent.clone(), count))
}

fn by_cause<'m>(
    mail: impl Iterator<Item = (&'m Principal, &'m MailCount)>,
) -> BTreeMap<&'m Principal, u64> {
    let mut causes = BTreeMap::new();
    for (who, one) in mail {
        *causes.entry(who).or_default() += one.count;
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::super::tests::fleet::{Fleet, create, human, tasks};
    use super::*;
    use crate::id::Ulid;
    use crate::request::{Op, ProjectCreate};

    fn extent(bytes: u64) -> Extent {
        Extent { first: 1, last: 9, bytes, limit: 1_000_000 }
    }

    fn mail(to: &str, from: &str, hosted: bool, count: u64) -> MailCount {
        let (to, from): (Principal, Principal) = (to.parse().unwrap(), from.parse().unwrap());
        MailCount { subject: format!("{to} {from}"), to, from, hosted, count }
    }

    fn fill(requests: u64, mail: u64, subjects: Vec<MailCount>) -> Fill {
        let (requests, mail, backlogs) = (extent(requests), extent(mail), Vec::new());
        let (runs, journals) = (extent(0), Vec::new());
        Fill { requests, decided: 7, mail, subjects, runs, journals, backlogs }
    }

    #[test]
    fn pair_is_suspected_from_one_message_above_the_unread_limit() {
        let all = vec![
            mail("PO-demo", "PO-out", false, UNREAD_MAX - 5),
            mail("PO-demo", "PO-out", true, 6),
            mail("PO-demo", "human:eve", false, UNREAD_MAX),
            mail("human:eve", "PO-out", false, 20_000),
            mail("PO-demo", "GO", false, 20_000),
        ];
        let suspects = fill(0, 0, all).suspects();
        let pair = ("PO-demo".parse().unwrap(), "PO-out".parse().unwrap());
        assert_eq!(suspects.keys().collect::<Vec<_>>(), [&pair]);
        assert_eq!(suspects[&pair].len(), 2);
    }

    #[test]
    fn decided_requests_are_trimmed_from_half_the_space() {
        let records = Fleet::ready().records;
        assert_eq!(reclaim(&records, &fill(499_000, 0, Vec::new())), Reclaim::default());
        assert_eq!(reclaim(&records, &fill(500_000, 0, Vec::new())).requests, Some(7));
        let mut gone = fill(500_000, 0, Vec::new());
        gone.requests.first = 8;
        assert_eq!(reclaim(&records, &gone).requests, None, "they went already");
        gone.requests = Extent { limit: 0, ..gone.requests };
        assert_eq!(reclaim(&records, &gone).requests, None, "without a limit there is room");
    }

    #[test]
    fn mail_to_unknown_agents_is_trimmed_and_other_mail_stays() {
        let records = Fleet::ready().records;
        let all = vec![
            mail("PO-none", "PO-out", false, 3),
            mail("PO-demo", "PO-out", false, 5),
            mail("human:eve", "PO-out", false, 7),
            mail("PO-none", "GO", false, 9),
            mail("W:01JD8Z5W6T4QK3M9X2V7B1N0AC", "PO-demo", true, 11),
        ];
        let gone = reclaim(&records, &fill(0, 0, all));
        assert_eq!(gone.subjects, ["PO-none PO-out", "W:01JD8Z5W6T4QK3M9X2V7B1N0AC PO-demo"]);
        assert_eq!(gone.senders.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [11, 3]);
    }

    #[test]
    fn journals_go_of_the_external_agent_that_fills_the_stream() {
        let (mut fleet, epic) = Fleet::with_goal(tasks(1));
        let worker = fleet.worker(epic, "T1.1");
        for project in ["out", "other"] {
            let external = ProjectCreate { project: project.parse().unwrap(), ..create(true) };
            assert_eq!(fleet.op(&human(), Op::ProjectCreate(external)).error, None);
        }
        let journal = |agent: &str, run: u128, count| {
            let (subject, agent) = (format!("{agent} {run}"), agent.parse().unwrap());
            JournalCount { subject, agent, run: RunId(Ulid(run)), count }
        };
        let least = 32;
        let limit = RUNS_PARTS * least * u64::try_from(JOURNAL_ENTRY_BYTES_MAX).unwrap();
        let run = fleet.run_of(&worker).0.0;
        let going = |thousandths: u64, written: u64| {
            let mut fill = fill(0, 0, Vec::new());
            let bytes = (limit / 1_000 * thousandths).next_multiple_of(1_000);
            fill.runs = Extent { first: 1, last: 9, bytes, limit };
            fill.journals = vec![
                journal("PO-out", 1, written - 1),
                journal("PO-out", 2, 1),
                journal("PO-other", 3, least - 1),
                journal(&worker.to_string(), run, 1_000_000),
            ];
            let Reclaim { journals, writer, .. } = reclaim(&fleet.records, &fill);
            (journals, writer)
        };
        assert_eq!(going(RUNS_FULL - 1, least), (Vec::new(), None), "there is room");
        assert_eq!(going(RUNS_FULL, least - 1), (Vec::new(), None), "it is not what takes it");
        let writer = ("PO-out".parse().unwrap(), least);
        let gone = vec!["PO-out 1".to_owned(), "PO-out 2".to_owned()];
        assert_eq!(going(RUNS_FULL, least), (gone, Some(writer)));
    }

    #[test]
    fn journals_of_nobody_go_and_of_an_external_agent_beyond_their_number() {
        let (mut fleet, epic) = Fleet::with_goal(tasks(1));
        let worker = fleet.worker(epic, "T1.1");
        let (run, own) = (fleet.run_of(&worker), |number: usize| RunId(Ulid(number as u128)));
        let external = ProjectCreate { project: "out".parse().unwrap(), ..create(true) };
        let made = fleet.op(&human(), Op::ProjectCreate(external));
        assert_eq!(made.error, None, "{made:?}");
        let journal = |agent: &str, run| {
            let (subject, agent) = (format!("{agent} {run}"), agent.parse().unwrap());
            JournalCount { subject, agent, run, count: 1 }
        };
        let mut fill = fill(0, 0, Vec::new());
        fill.journals = vec![journal("PO-none", own(7)), journal("PO-demo", own(7))];
        fill.journals.extend((1..=OWN_JOURNALS_MAX).map(|number| journal("PO-out", own(number))));
        fill.journals.push(journal("PO-out", run));
        let nobodys = format!("PO-none {}", own(7));
        let gone = reclaim(&fleet.records, &fill).journals;
        assert_eq!(gone, std::slice::from_ref(&nobodys), "as many as it may");
        fill.journals.push(journal("PO-out", own(OWN_JOURNALS_MAX + 1)));
        let gone = reclaim(&fleet.records, &fill).journals;
        assert_eq!(gone, [nobodys, format!("PO-out {}", own(1))], "the earliest one");
    }

    #[test]
    fn heaviest_external_sender_loses_mail_when_space_is_low() {
        let records = Fleet::ready().records;
        let all = vec![
            mail("PO-demo", "PO-out", false, 5),
            mail("GO", "PO-out", false, 5),
            mail("PO-demo", "human:eve", false, 9),
            mail("GO", "PO-demo", true, 90),
            mail("PO-demo", "GO", false, 900),
        ];
        assert_eq!(reclaim(&records, &fill(0, 799_000, all.clone())), Reclaim::default());
        let gone = reclaim(&records, &fill(0, 800_000, all));
        assert_eq!(gone.subjects, ["PO-demo PO-out", "GO PO-out"]);
        assert_eq!(gone.senders, [("PO-out".parse().unwrap(), 10)]);
    }

    #[test]
    fn mail_to_the_heaviest_asker_is_reclaimed_first() {
        let records = Fleet::ready().records;
        let all = vec![
            mail("PO-demo", "PO-out", false, 10),
            mail("human:eve", "PO-out", false, 5),
            mail("human:eve", "GO", false, 90),
            mail("PO-demo", "GO", false, 900),
        ];
        let gone = reclaim(&records, &fill(0, 800_000, all));
        assert_eq!(gone.subjects, ["human:eve GO"]);
        assert_eq!(gone.senders, [("GO".parse().unwrap(), 90)]);
    }
}
