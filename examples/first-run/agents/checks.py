"""What has to hold of the measurements. Nothing is measured anew, but wherever it can be done a
check looks at the repository again, by another way than the measurement took.

A check is a generator of triples: what was checked, whether it holds, and what was seen.
"""

import re

from history import CHURN, SAMPLE
from host import Trouble
from repository import Repository, choose, is_text, shown
from source import WORDS, language

COUNTS = {
    "languages": ["total.files", "total.lines", "total.blank", "total.bytes"],
    "files": ["entries", "files", "links", "modules", "bytes"],
    "notes": ["filesRead", "lines", "total"],
    "unsafe": ["rustFiles", "total", "forbids"],
    "activity": ["commits", "sampled", "merges", "authorCount"],
    "dependencies": ["manifests", "distinct", "total.direct", "total.dev", "total.build"],
    "lock": ["packages", "own", "distinct", "duplicateCount"],
    "architecture": ["arrows", "churn.window", "churn.changes"],
}
"""Every kind of deliverable, and the counts it must have."""
SEARCHED = 64 << 20
"""A repository with more bytes than this is not searched a second time."""


class Ground:
    """The repository at one commit, as a checker sees it."""

    def __init__(self, path, commit):
        if commit is not None:
            object_name(commit)
        self.repository = Repository(path, commit)
        self.repository.commit = commit
        self.entries = self.repository.entries()
        self._text = None

    def text(self):
        """Paths of the files that a measurement reads as text."""
        if self._text is None:
            read = self.repository.contents(choose(self.entries)[0])
            self._text = {entry.path for entry, data in read if data is not None and is_text(data)}
        return self._text

    def lines_with(self, *pattern):
        """Lines that match, by path, as git grep counts them; None when there is too much to search."""
        if sum(entry.size for entry in self.entries) > SEARCHED:
            return None
        if not self.entries:
            return {}
        commit = self.repository.commit
        said = self.repository.git("grep", "-a", "-c", "-z", "--no-recurse-submodules", *pattern, commit,
                                   ok=(0, 1))
        found, rest = {}, said
        while rest:
            path, rest = rest.split(b"\0", 1)
            count, rest = rest.split(b"\n", 1)
            found[path[len(commit) + 1:]] = int(count)
        return {path: count for path, count in found.items() if path in self.text()}

    def sizes(self, blobs):
        """Sizes of blobs, as the object store has them."""
        asked = "".join(blob + "\n" for blob in blobs).encode("ascii")
        said = self.repository.git("cat-file", "--batch-check=%(objectsize)", input=asked)
        return [int(line) if line.isdigit() else 0 for line in said.split(b"\n")[:-1]]

    def commits(self, most):
        """The number of commits, counting at most so many."""
        if not self.repository.commit:
            return 0
        return int(self.repository.git("rev-list", "--count", "--max-count=%d" % most, self.repository.commit))


def object_name(name):
    """The name of an object, so that nothing else gets into git's arguments."""
    if not isinstance(name, str) or not re.fullmatch("[0-9a-f]{40,64}", name):
        raise Trouble("%s is no name of a git object" % shown(str(name), 60))
    return name


def same(what, seen, again):
    """Two numbers that have to agree."""
    return what, seen == again, "%s and %s" % (seen, again)


def at_most(what, part, whole):
    """A part that cannot be more than the whole."""
    return what, part <= whole, "%s of %s" % (part, whole)


def shape(found):
    """Every count is there and a whole number; no number anywhere is negative."""
    wrong = []
    for name in COUNTS[found["kind"]]:
        value = found
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if type(value) is not int:
            wrong.append(name)
    yield "its counts are whole numbers", not wrong, "wrong: " + ", ".join(wrong) if wrong else "all"
    negative = list(_negative(found, found["kind"]))
    yield "nothing is negative", not negative, "negative: " + ", ".join(negative) if negative else "all"


def _negative(value, path):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _negative(inner, "%s.%s" % (path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _negative(inner, "%s[%d]" % (path, index))
    elif isinstance(value, (int, float)) and value < 0:
        yield path


def languages(found, ground):
    rows, total = found["languages"], found["total"]
    for key in ("files", "lines", "bytes"):
        yield same("%s by language sum up" % key, sum(row[key] for row in rows), total[key])
    yield at_most("blank lines are lines", total["blank"], total["lines"])
    accounted = total["files"] + sum(found["unread"].values())
    yield same("every entry of the tree is accounted for", accounted, len(ground.entries))
    again = ground.lines_with("-e", "")
    if again is not None:
        yield same("git grep counts as many lines", total["lines"], sum(again.values()))
        for row in rows[:3]:
            lines = sum(count for path, count in again.items() if language(path) == row["name"])
            yield same("git grep counts as many lines of %s" % row["name"], row["lines"], lines)


def files(found, ground):
    yield same("entries are files, links and submodules", found["entries"],
               found["files"] + found["links"] + found["modules"])
    yield same("files by size sum up", sum(row["files"] for row in found["sizes"]), found["files"])
    sizes = ground.sizes(entry.blob for entry in ground.entries if entry.kind == "file")
    yield same("the object store has as many files", found["files"], len(sizes))
    yield same("the object store has as many bytes", found["bytes"], sum(sizes))
    stored = ground.sizes(row["blob"] for row in found["largest"])
    yield same("the largest are as large as stored", [row["bytes"] for row in found["largest"]], stored)
    yield same("none is larger", stored, sorted(sizes, reverse=True)[:len(stored)])


def notes(found, ground):
    yield same("notes by word sum up", sum(found["words"].values()), found["total"])
    yield at_most("a line with a note has at least one", found["lines"], found["total"])
    yield same("all text was read", found["filesRead"], len(ground.text()))
    again = ground.lines_with("-w", "-E", "-e", "|".join(WORDS))
    if again is not None:
        yield same("git grep finds as many lines", found["lines"], sum(again.values()))


def unsafe(found, ground):
    yield same("uses by kind sum up", sum(found["uses"].values()), found["total"])
    sources = [path for path in ground.text() if language(path) == "Rust"]
    yield same("all Rust was read", found["rustFiles"], len(sources))
    again = ground.lines_with("-w", "-e", "unsafe")
    if again is not None:
        wanted = sum(again.get(path, 0) for path in sources)
        yield "no use without the word", bool(wanted) or not found["total"], "%d lines have it" % wanted


def activity(found, ground):
    yield at_most("commits of the last weeks are commits", sum(found["weeks"]), found["sampled"])
    yield at_most("commits looked at are commits", found["sampled"], found["commits"])
    yield at_most("authors have commits", found["authorCount"], found["sampled"])
    counted = ground.commits(found["commits"] + 1)
    yield same("git counts as many commits", found["commits"], counted if not found["more"] else found["commits"])
    if 0 < found["commits"] <= SAMPLE:
        said = ground.repository.git("shortlog", "-s", "-n", ground.repository.commit).splitlines()
        yield same("git shortlog knows as many authors", found["authorCount"], len(said))
        yield same("the busiest has as many commits", found["authors"][0]["commits"], int(said[0].split()[0]))


def dependencies(found, ground):
    for key in ("direct", "dev", "build"):
        yield same("%s by ecosystem sum up" % key, sum(row[key] for row in found["ecosystems"]),
                   found["total"][key])
    yield same("manifests by ecosystem sum up", sum(row["manifests"] for row in found["ecosystems"]),
               found["manifests"])
    names = [entry.path.rsplit(b"/", 1)[-1] for entry in ground.entries]
    crates = sum(row["manifests"] for row in found["ecosystems"] if row["name"] == "Cargo")
    yield at_most("Cargo manifests are in the tree", crates, names.count(b"Cargo.toml"))


def lock(found, ground):
    there = sum(1 for entry in ground.entries
                if entry.kind == "file" and entry.path.rsplit(b"/", 1)[-1] == b"Cargo.lock")
    yield same("lock files are in the tree", found["lockFiles"], there)
    if not found["applicable"]:
        yield same("nothing is claimed without a lock file", found["packages"], 0)
        return
    text = ground.repository.git("cat-file", "blob", object_name(found["blob"]))
    yield same("the file has as many packages", found["packages"], len(re.findall(rb"^\[\[package\]\]", text, re.M)))
    yield at_most("packages by source are packages", sum(row["packages"] for row in found["sources"]),
                  found["packages"])
    checked = len(re.findall(rb"^source = ", text, re.M))
    yield same("the others have a source", found["packages"] - found["own"], checked)
    more = sum(len(row["versions"]) - 1 for row in found["duplicates"])
    yield at_most("versions beyond the first are packages", more, found["packages"] - found["distinct"])
    few = [row["name"] for row in found["duplicates"] if len(row["versions"]) < 2]
    yield "a duplicate has two versions", not few, ", ".join(few) or "all"


def architecture(found, ground):
    rows = {row["name"]: row for row in found["components"]}
    upward = ["%s -> %s" % (name, used) for name, row in rows.items() for used in row["dependsOn"]
              if row["layer"] is not None and used in rows and not (rows[used]["layer"] or 0) < row["layer"]]
    yield "every arrow leads to a lower layer", not upward, ", ".join(upward) or "all"
    yield same("every component has a name of its own", len(found["components"]), len(rows))
    yield same("arrows sum up", sum(len(row["dependsOn"]) for row in rows.values()), found["arrows"])
    yield at_most("changes of components are changes", sum(row["changes"] for row in rows.values()),
                  found["churn"]["changes"])
    yield same("the churn looked at the last commits", found["churn"]["window"], ground.commits(CHURN))
    busy = [row["name"] for row in rows.values() if row["commits"] > found["churn"]["window"]]
    yield "no component changed in more commits", not busy, ", ".join(busy) or "all"


OF_ONE = {"languages": languages, "files": files, "notes": notes, "unsafe": unsafe, "activity": activity,
          "dependencies": dependencies, "lock": lock, "architecture": architecture}


def between(by_kind):
    """Numbers that two independent measurements have to agree on, when their commit is the same."""
    def pair(one, other):
        both = by_kind.get(one), by_kind.get(other)
        alike = all(both) and both[0].get("commit") == both[1].get("commit")
        return both if alike else None

    if pair("languages", "files"):
        lang, size = pair("languages", "files")
        yield same("languages and files see the same tree",
                   lang["total"]["files"] + sum(lang["unread"].values()), size["entries"])
        yield at_most("text is a part of all bytes", lang["total"]["bytes"], size["bytes"])
    if pair("languages", "notes"):
        lang, note = pair("languages", "notes")
        yield same("languages and notes read the same files", lang["total"]["files"], note["filesRead"])
    if pair("languages", "unsafe"):
        lang, use = pair("languages", "unsafe")
        rust = sum(row["files"] for row in lang["languages"] if row["name"] == "Rust")
        yield same("languages and unsafe know the same Rust files", rust, use["rustFiles"])
    if pair("languages", "architecture"):
        lang, parts = pair("languages", "architecture")
        yield at_most("components are a part of all lines",
                      sum(row["lines"] for row in parts["components"]), lang["total"]["lines"])
    if pair("activity", "architecture"):
        busy, parts = pair("activity", "architecture")
        yield at_most("churn is a part of the history", parts["churn"]["window"], busy["commits"])
