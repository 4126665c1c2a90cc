//! A kept journal that is read, entry by entry, from the artifact that it may share with others.

use std::collections::VecDeque;

use tetrarch_core::id::RunId;

use super::{ArchiveError, ArchiveHeader, EntryPosition, MEDIA_TYPE, parsed};
use crate::artifact::{ArtifactLines, Artifacts};
use crate::client::Bus;
use crate::journal::Journaled;

/// A kept journal that is read.
#[derive(Debug)]
pub struct Archive {
    artifacts: Artifacts,
    sha256: String,
    section: Section,
    /// Parts that are not begun.
    before: VecDeque<String>,
    /// The part that is read.
    current: Option<ArtifactLines>,
    /// The last part, behind its first line.
    head: Option<ArtifactLines>,
    /// What is read and not given.
    read: VecDeque<Journaled>,
}

impl Archive {
    /// Begins to read a run's journal by the artifact that was noted; without a run, every journal that
    /// is there, one after the other.
    ///
    /// # Errors
    /// There is none of this name, it holds no journal, or what the bus answered.
    pub async fn open(bus: &Bus, sha256: &str, run: Option<RunId>) -> Result<Self, ArchiveError> {
        let artifacts = Artifacts::new(bus);
        let (header, head) = begun(&artifacts, sha256).await?;
        let section = Section::behind(&header, run);
        let (sha256, before) = (sha256.to_owned(), header.before.into());
        let (current, head, read) = (None, Some(head), VecDeque::new());
        Ok(Self { artifacts, sha256, section, before, current, head, read })
    }

    /// The next thing that happened, with the sequence and the time that it had in `RUNS`; none after the last one, when
    /// all that was read is what the artifact's name says.
    ///
    /// # Errors
    /// A part is damaged or missing, the run's journal is not there, or what the bus answered.
    pub async fn next(&mut self) -> Result<Option<Journaled>, ArchiveError> {
        let no_journal = |reason| ArchiveError::NoJournal { sha256: self.sha256.clone(), reason };
        loop {
            if let Some(next) = self.read.pop_front() {
                return Ok(Some(next));
            }
            while let Some(lines) = &mut self.current
                && let Some(line) = lines.next().await?
            {
                if let Some((place, payload)) = self.section.entry(&line).map_err(no_journal)? {
                    self.read.extend(Journaled::read(place.seq, place.stored_unix_ms, &payload));
                    break;
                }
            }
            if !self.read.is_empty() {
                continue;
            }
            self.current = match self.before.pop_front() {
                Some(part) => Some(begun(&self.artifacts, &part).await?.1),
                None => self.head.take(),
            };
            if self.current.is_none() {
                self.section.end().map_err(no_journal)?;
                return Ok(None);
            }
        }
    }
}

/// The lines of an artifact that are read.
#[derive(Debug)]
struct Section {
    /// Whose; everybody's when it is nobody's.
    run: Option<String>,
    /// Whether the lines that come are theirs.
    inside: bool,
    /// Whether any were.
    found: bool,
}

impl Section {
    /// That of a run, behind the first line.
    fn behind(first: &ArchiveHeader, run: Option<RunId>) -> Self {
        let mut section = Self { run: run.map(|run| run.to_string()), inside: false, found: false };
        section.enter(first);
        section
    }

    fn enter(&mut self, header: &ArchiveHeader) {
        self.inside = self.run.as_ref().is_none_or(|run| *run == header.run);
        self.found |= self.inside;
    }

    /// The entry of a line that is read; none when it is another's, or begins a journal.
    fn entry(&mut self, line: &[u8]) -> Result<Option<(EntryPosition, Vec<u8>)>, String> {
        if let Some(entry) = parsed(line) {
            return Ok(Some(entry).filter(|_| self.inside));
        }
        let header = serde_json::from_slice(line)
            .map_err(|_| format!("{:?} is not an entry", String::from_utf8_lossy(line)))?;
        self.enter(&header);
        Ok(None)
    }

    /// All lines were read.
    fn end(&self) -> Result<(), String> {
        match &self.run {
            Some(run) if !self.found => Err(format!("it does not have the journal of {run}")),
            Some(_) | None => Ok(()),
        }
    }
}

/// A part behind its first line.
async fn begun(
    artifacts: &Artifacts,
    sha256: &str,
) -> Result<(ArchiveHeader, ArtifactLines), ArchiveError> {
    let no_journal = |reason: String| ArchiveError::NoJournal { sha256: sha256.to_owned(), reason };
    let (known, mut lines) = artifacts.lines(sha256).await?;
    if known.media_type != MEDIA_TYPE {
        return Err(no_journal(format!("it is {:?}", known.media_type)));
    }
    let line = lines.next().await?.unwrap_or_default();
    let header = serde_json::from_slice(&line).map_err(|error| no_journal(error.to_string()))?;
    Ok((header, lines))
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::Ulid;

    use super::*;

    const FIRST: &str = "{\"run\":\"run_00000000000000000000000001\"}\n";
    const SECOND: &str = "{\"run\":\"run_00000000000000000000000002\"}\n";

    /// The entries of a run in an artifact's lines, and how it ends.
    fn read(lines: &[&str], run: Option<u128>) -> (Vec<String>, bool) {
        let first = serde_json::from_str(lines[0]).unwrap();
        let mut section = Section::behind(&first, run.map(|run| RunId(Ulid(run))));
        let entries = lines[1..].iter().filter_map(|line| section.entry(line.as_bytes()).unwrap());
        let entries = entries.map(|(_, payload)| String::from_utf8(payload).unwrap()).collect();
        (entries, section.end().is_ok())
    }

    fn entry(payload: &str) -> String {
        format!("{{\"seq\":1,\"storedUnixMs\":2,\"entry\":{payload}}}\n")
    }

    #[test]
    fn run_in_a_shared_artifact_reads_its_own_entries() {
        // An entry that looks like another journal's beginning is an entry.
        let (a, b, c) = (entry("[1]"), entry(SECOND.trim_end()), entry("{\"run\":1,\"entry\":2}"));
        let lines = [FIRST, &a, &b, SECOND, &c];
        let text = |entries: &[&str]| entries.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(read(&lines, Some(1)), (text(&["[1]", SECOND.trim_end()]), true));
        assert_eq!(read(&lines, Some(2)), (text(&["{\"run\":1,\"entry\":2}"]), true));
        assert_eq!(read(&lines, Some(3)), (text(&[]), false), "it is not there");
        let (all, found) = read(&lines, None);
        assert_eq!((all.len(), found), (3, true));
    }

    #[test]
    fn artifact_of_one_run_reads_as_before() {
        let a = entry("[1]");
        for run in [Some(1), None] {
            assert_eq!(read(&[FIRST, &a], run), (vec!["[1]".to_owned()], true));
            assert_eq!(read(&[FIRST], run), (Vec::new(), true), "an empty one");
        }
        assert_eq!(read(&[FIRST, &a], Some(2)), (Vec::new(), false));
        let mut section = Section::behind(&serde_json::from_str(FIRST).unwrap(), None);
        for bad in ["nonsense\n", "{}\n", "\n", "{\"seq\":1}\n"] {
            assert!(section.entry(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
