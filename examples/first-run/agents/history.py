"""Measures what the history tells: how busy a repository is, and where."""

import time
from collections import Counter

from repository import counted, shown

SAMPLE = 5000
"""Commits looked at one by one, the newest first."""
COUNTED = 50_000
"""Commits counted; a longer history is said to have more."""
CHURN = 500
"""Commits whose changed files are looked at."""
WEEKS, AUTHORS, FILES, DIRECTORIES = 12, 5, 5, 24
WEEK = 7 * 24 * 3600


def activity(repository, step):
    """Commits by week and author, as seen from the newest commit, not from the clock."""
    step("counting commits")
    total, shallow = 0, False
    if repository.commit:
        said = repository.git("rev-list", "--count", "--max-count=%d" % (COUNTED + 1), repository.commit)
        total = int(said)
        shallow = repository.git("rev-parse", "--is-shallow-repository").strip() == b"true"
    step("reading up to %d commits" % SAMPLE)
    rows = _commits(repository)
    newest, oldest = (max(rows)[0], min(rows)[0]) if rows else (0, 0)
    weeks = [0] * WEEKS
    for when, _, _ in rows:
        week = (newest - when) // WEEK
        if week < WEEKS:
            weeks[WEEKS - 1 - week] += 1
    authors = Counter(author for _, author, _ in rows)
    most = sorted(authors.items(), key=lambda row: (-row[1], row[0]))[:AUTHORS]
    return {"kind": "activity", "commit": repository.commit, "commits": min(total, COUNTED),
            "more": total > COUNTED, "shallow": shallow, "sampled": len(rows),
            "merges": sum(1 for _, _, parents in rows if parents > 1), "weeks": weeks,
            "authorCount": len(authors),
            "authors": [{"name": shown(name, 40), "commits": count} for name, count in most],
            "first": _day(oldest) if rows else None, "last": _day(newest) if rows else None,
            "summary": "%s by %s" % (counted(min(total, COUNTED), "commit"), counted(len(authors), "author"))}


def _commits(repository):
    if not repository.commit:
        return []
    log = repository.git("log", "-z", "--format=%ct%x00%aN%x00%P", "-n", str(SAMPLE), repository.commit)
    parts = log.split(b"\0")
    triples = zip(parts[0::3], parts[1::3], parts[2::3])
    return [(int(when or 0), author, len(parents.split())) for when, author, parents in triples]


def _day(seconds):
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return "?"


def churn(repository, step, wanted=()):
    """How often files change, by directory: those that are wanted, else two levels of the tree.

    A file belongs to the longest wanted directory that holds it.
    """
    step("reading the last %d commits" % CHURN)
    commits = list(changes(repository))
    step("counting changes")
    wanted = sorted((one.encode("utf-8", "surrogateescape") for one in wanted), key=len, reverse=True)
    touches, touching, by_file = Counter(), Counter(), Counter()
    for paths in commits:
        homes = [_home(path, wanted) for path in paths]
        touches.update(homes)
        touching.update(set(homes))
        by_file.update(set(paths))
    most = sorted(touches, key=lambda home: (-touches[home], home))[:DIRECTORIES]
    hot = sorted(by_file.items(), key=lambda row: (-row[1], row[0]))[:FILES]
    return {"kind": "churn", "commit": repository.commit, "window": len(commits),
            "changes": sum(touches.values()),
            "directories": [{"path": shown(home), "commits": touching[home], "changes": touches[home]}
                            for home in most],
            "files": [{"path": shown(path), "commits": count} for path, count in hot],
            "summary": "%s of files in %s" % (counted(sum(touches.values()), "change"),
                                              counted(len(commits), "commit"))}


def changes(repository):
    """The paths that each of the last commits changed; a merge changes nothing of its own."""
    if not repository.commit:
        return
    log = repository.git("log", "-z", "--format=%x01%H", "--name-only", "--no-renames",
                         "-n", str(CHURN), repository.commit)
    paths, first = None, False
    for part in log.split(b"\0"):
        if part.startswith(b"\x01"):
            if paths is not None:
                yield paths
            paths, first = [], True
        elif part:
            # The first name of a commit stands after an empty line.
            paths.append(part[1:] if first else part)
            first = False
    if paths is not None:
        yield paths


def _home(path, wanted):
    for directory in wanted:
        if directory == b"." or path.startswith(directory + b"/"):
            return directory
    return b"." if wanted else b"/".join(path.split(b"/")[:-1][:2]) or b"."
