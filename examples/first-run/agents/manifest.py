"""Measures what a repository depends on: its manifests and its Cargo.lock."""

import json
import posixpath
import re
from collections import Counter

from repository import FILE_BYTES, counted, shown
from toml import attribute, pairs, tables, texts

SECTIONS = {"dependencies": "direct", "dev-dependencies": "dev", "build-dependencies": "build"}
MANIFESTS = 1000
"""At most so many manifests are read, in path order."""
ROWS = 8
DUPLICATES = 20
GO_BLOCK = re.compile(r"^require\s*(?:\((.*?)^\s*\)|([^\n(]+))", re.M | re.S)
GO_LINE = re.compile(r"^\s*([^\s()]+)\s+v\S+(.*)$", re.M)


class Crate:
    """What a Cargo.toml says: dependencies by section, each with its inline table as raw text."""

    def __init__(self, path, text):
        self.path, self.name = posixpath.dirname(path), None
        self.uses = {"direct": {}, "dev": {}, "build": {}}
        self.declared = {}
        for key, raw in pairs(text):
            if key == ("package", "name"):
                self.name = (texts(raw) or [None])[0]
            for at, part in enumerate(key[:-1]):
                above = key[:at]
                whole = above in ((), ("workspace",)) or at == 2 and above[0] == "target"
                if part in SECTIONS and whole:
                    uses = self.declared if above == ("workspace",) else self.uses[SECTIONS[part]]
                    self._add(uses, key[at + 1], key[at + 2:], raw)
                    break

    @staticmethod
    def _add(uses, name, rest, raw):
        more = "%s = %s" % (rest[0], raw) if rest else raw
        uses[name] = uses.get(name, "{ ") + " , " + more.strip("{} \n")


def crates(sources):
    """The Cargo manifests among pairs of a path and a text."""
    return [Crate(path, text) for path, text in sources if posixpath.basename(path) == "Cargo.toml"]


def arrows(found):
    """Which crates use which others of the repository: by the path of the one, names of the others.

    Only normal dependencies count; a name that two crates have is nobody's.
    """
    times = Counter(crate.name for crate in found)
    names = {name for name in times if name and times[name] == 1}
    spaces = sorted((crate for crate in found if crate.declared), key=lambda one: -len(one.path))
    result = {}
    for crate in found:
        if crate.name:
            space = next((one for one in spaces if _holds(one.path, crate.path)), None)
            used = {_inner(name, raw, space) for name, raw in crate.uses["direct"].items()}
            result[crate.path] = sorted(used & names - {crate.name})
    return result


def _holds(above, path):
    return not above or path == above or path.startswith(above + "/")


def _inner(name, raw, space):
    """The package a dependency names when it is one by path, perhaps through the workspace."""
    if attribute(raw, "workspace") == "true" and space:
        raw = space.declared.get(name, "")
    return (attribute(raw, "package") or name) if attribute(raw, "path") is not None else None


def manifests(repository, entries):
    """Pairs of a path and the text of every manifest of a known kind."""
    known = re.compile(rb"(?:^|/)(?:Cargo\.toml|package\.json|go\.mod|pyproject\.toml|requirements[^/]*\.txt)$")
    wanted = [entry for entry in entries
              if entry.kind == "file" and entry.size <= FILE_BYTES and known.search(entry.path)]
    for entry, data in repository.contents(wanted[:MANIFESTS]):
        if data is not None:
            yield shown(entry.path, 400), data.decode("utf-8", "replace")


def dependencies(repository, step):
    """What the manifests ask for, by ecosystem."""
    step("looking for manifests")
    sources = list(manifests(repository, repository.entries()))
    step("reading %d manifests" % len(sources))
    table, used, rows = {}, Counter(), []
    for path, text in sources:
        ecosystem, names = _asked(path, text)
        counts = {section: len(names[section]) for section in ("direct", "dev", "build")}
        row = table.setdefault(ecosystem, {"manifests": 0, "direct": 0, "dev": 0, "build": 0})
        row["manifests"] += 1
        for section, count in counts.items():
            row[section] += count
        used.update(set().union(*names.values()))
        rows.append({"path": path, **counts})
    rows.sort(key=lambda row: (-row["direct"] - row["dev"] - row["build"], row["path"]))
    most = sorted(used.items(), key=lambda row: (-row[1], row[0]))[:ROWS]
    total = {key: sum(row[key] for row in table.values()) for key in ("direct", "dev", "build")}
    summary = "%d direct, %d dev and %d build dependencies in %s" % (
        total["direct"], total["dev"], total["build"], counted(len(sources), "manifest"))
    return {"kind": "dependencies", "commit": repository.commit, "applicable": bool(sources),
            "manifests": len(sources), "total": total, "distinct": len(used),
            "ecosystems": [{"name": name, **row} for name, row in sorted(table.items())],
            "largest": [{**row, "path": shown(row["path"])} for row in rows[:ROWS]],
            "mostUsed": [{"name": shown(name, 60), "usedBy": count} for name, count in most],
            "summary": summary if sources else "there is no manifest of a known kind here"}


def _asked(path, text):
    """The ecosystem of a manifest and the names it asks for, by section."""
    names = {"direct": set(), "dev": set(), "build": set()}
    base = posixpath.basename(path)
    if base == "Cargo.toml":
        names.update((section, set(uses)) for section, uses in Crate(path, text).uses.items())
        return "Cargo", names
    if base == "package.json":
        read = _json_object(text)
        for key, section in (("dependencies", "direct"), ("devDependencies", "dev")):
            names[section].update(read[key] if isinstance(read.get(key), dict) else ())
        return "npm", names
    if base == "go.mod":
        required = "\n".join(block or one for block, one in GO_BLOCK.findall(text))
        names["direct"].update(name for name, rest in GO_LINE.findall(required)
                               if "// indirect" not in rest)
        return "Go", names
    if base == "pyproject.toml":
        for key, raw in pairs(text):
            if key == ("project", "dependencies"):
                names["direct"].update(map(_requirement, texts(raw)))
            elif key[:2] == ("project", "optional-dependencies") and len(key) == 3:
                names["dev"].update(map(_requirement, texts(raw)))
            elif key == ("build-system", "requires"):
                names["build"].update(map(_requirement, texts(raw)))
        return "Python", names
    lines = (line.strip() for line in text.splitlines())
    names["direct"].update(_requirement(line) for line in lines if line and line[0] not in "#-")
    return "Python", names


def _json_object(text):
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _requirement(text):
    return re.split(r"[\s\[<>=!~;@(]", text.strip(), maxsplit=1)[0].lower()


def lock(repository, step):
    """Packages, duplicates and sources of the Cargo.lock nearest to the top."""
    step("looking for Cargo.lock")
    found = [entry for entry in repository.entries()
             if entry.kind == "file" and entry.path.rsplit(b"/", 1)[-1] == b"Cargo.lock"]
    found.sort(key=lambda entry: (entry.path.count(b"/"), entry.path))
    step("reading the first of %d" % len(found))
    base = {"kind": "lock", "commit": repository.commit, "lockFiles": len(found)}
    why = "there is no Cargo.lock in the commit"
    if found and found[0].size > FILE_BYTES:
        why = "%s has %d bytes; at most %d are read" % (shown(found[0].path), found[0].size, FILE_BYTES)
    elif found:
        _, data = next(iter(repository.contents(found[:1])))
        if data is not None:
            return {**base, "applicable": True, "path": shown(found[0].path), "blob": found[0].blob,
                    **_packages(data.decode("utf-8", "replace"))}
        why = "%s is not in this clone" % shown(found[0].path)
    return {**base, "applicable": False, "packages": 0, "own": 0, "distinct": 0, "duplicateCount": 0,
            "duplicates": [], "sources": [], "mostNeeded": [], "summary": why}


def _packages(text):
    versions, sources, needed, own, count = {}, Counter(), Counter(), 0, 0
    for path, rows in tables(text):
        if path != ("package",):
            continue
        fields = {key[0]: texts(raw) for key, raw in rows if len(key) == 1}
        name = (fields.get("name") or ["?"])[0]
        count += 1
        versions.setdefault(name, []).append((fields.get("version") or ["?"])[0])
        source = (fields.get("source") or [None])[0]
        own += source is None
        sources[_source(source)] += 1
        needed.update({one.split(" ", 1)[0] for one in fields.get("dependencies", [])})
    twice = sorted((name, found) for name, found in versions.items() if len(found) > 1)
    most = sorted(needed.items(), key=lambda row: (-row[1], row[0]))[:ROWS]
    return {"packages": count, "own": own, "distinct": len(versions), "duplicateCount": len(twice),
            "duplicates": [{"name": shown(name, 60), "versions": [shown(one, 30) for one in found[:5]]}
                           for name, found in twice[:DUPLICATES]],
            "sources": [{"source": name, "packages": number} for name, number in sources.most_common(ROWS)],
            "mostNeeded": [{"name": shown(name, 60), "neededBy": number} for name, number in most],
            "summary": "%s, %s in more than one version, from %s" % (
                counted(count, "package"), counted(len(twice), "name"), counted(len(sources), "source"))}


def _source(source):
    """A source without what may be secret in it: user, query and revision."""
    if source is None:
        return "this repository"
    if source.startswith("registry+") and source.endswith("/crates.io-index"):
        return "crates.io"
    return shown(re.sub(r"//[^/@]*@", "//", re.split(r"[?#]", source)[0]), 80)
