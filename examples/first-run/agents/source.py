"""Measures what is in the files: languages, sizes, open notes, unsafe Rust.

Every measurement takes a repository and a function that is told of steps, and returns its
deliverable: a JSON object with its kind and the commit it was made on.
"""

import re
from collections import Counter

from repository import choose, counted, is_text, shown
from rust import unsafe_uses

LANGUAGES = {}
for _name, _endings in {
    "Rust": "rs", "Python": "py pyi", "C": "c h", "C++": "cc cpp cxx hpp hh", "Go": "go", "Java": "java",
    "JavaScript": "js mjs cjs jsx", "TypeScript": "ts tsx mts", "Shell": "sh bash zsh", "Ruby": "rb",
    "PHP": "php", "Perl": "pl pm", "Kotlin": "kt kts", "Swift": "swift", "C#": "cs", "Scala": "scala",
    "Haskell": "hs", "OCaml": "ml mli", "Elixir": "ex exs", "Erlang": "erl hrl", "Lua": "lua", "SQL": "sql",
    "HTML": "html htm", "CSS": "css scss less", "Markdown": "md markdown", "reStructuredText": "rst",
    "YAML": "yaml yml", "TOML": "toml", "JSON": "json jsonl", "XML": "xml", "Protobuf": "proto",
    "Assembly": "s asm", "Nix": "nix", "Zig": "zig", "Terraform": "tf", "TeX": "tex", "Plain text": "txt",
}.items():
    LANGUAGES.update((_ending.encode(), _name) for _ending in _endings.split())
NAMES = {b"makefile": "Make", b"dockerfile": "Docker", b"cmakelists.txt": "CMake",
         b"cargo.lock": "Lock file", b"package-lock.json": "Lock file", b"go.sum": "Lock file",
         b"poetry.lock": "Lock file", b"yarn.lock": "Lock file"}
LANGUAGES_MAX = 20
LARGEST, BUSIEST, PLACES = 10, 5, 10
SIZES = [("1 KiB", 1 << 10), ("10 KiB", 10 << 10), ("100 KiB", 100 << 10), ("1 MiB", 1 << 20)]
WORDS = ["TODO", "FIXME", "XXX", "HACK"]
WORD = re.compile(rb"\b(TODO|FIXME|XXX|HACK)\b")
FORBIDS = re.compile(r"\b(?:forbid|deny)\s*\([^)]*\bunsafe_code\b"
                     r"|^\s*unsafe_code\s*=\s*(?:\{\s*level\s*=\s*)?\"(?:forbid|deny)\"", re.M)


def language(path):
    """The language of a file, by its name."""
    name = path.rsplit(b"/", 1)[-1].lower()
    ending = name.rsplit(b".", 1)[-1] if b"." in name else b""
    return NAMES.get(name) or LANGUAGES.get(ending) or "Other"


def lines_in(data):
    """The number of lines; a last one without a newline counts."""
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def blank_lines_in(data):
    """The number of lines of nothing but white space."""
    lines = data.split(b"\n")
    return sum(1 for line in lines if not line.strip()) - (lines[-1] == b"")


def read_text(repository, entries, unread):
    """Pairs of an entry and its bytes, text only; what is no text is counted in `unread`."""
    unread.update(binary=0, missing=0)
    for entry, data in repository.contents(entries):
        if data is None:
            unread["missing"] += 1
        elif is_text(data):
            yield entry, data
        else:
            unread["binary"] += 1


def languages(repository, step):
    """Lines by language."""
    step("listing the files")
    chosen, unread = choose(repository.entries())
    step("reading %d files" % len(chosen))
    table, counts = {}, ("files", "lines", "blank", "bytes")
    for entry, data in read_text(repository, chosen, unread):
        row = table.setdefault(language(entry.path), dict.fromkeys(counts, 0))
        row["files"] += 1
        row["lines"] += lines_in(data)
        row["blank"] += blank_lines_in(data)
        row["bytes"] += len(data)
    rows = [{"name": name, **row} for name, row in table.items()]
    rows.sort(key=lambda row: (-row["lines"], row["name"]))
    if len(rows) > LANGUAGES_MAX:
        rest = {"name": "Other languages"}
        rest.update((key, sum(row[key] for row in rows[LANGUAGES_MAX - 1:])) for key in counts)
        rows = rows[:LANGUAGES_MAX - 1] + [rest]
    total = {key: sum(row[key] for row in rows) for key in counts}
    most = ", ".join("%s %d" % (row["name"], row["lines"]) for row in rows[:3])
    return {"kind": "languages", "commit": repository.commit, "languages": rows, "total": total,
            "unread": unread,
            "summary": "%s in %s: %s" % (counted(total["lines"], "line"), counted(total["files"], "text file"),
                                         most or "none")}


def files(repository, step):
    """How many files there are, how large, and the largest."""
    step("listing the files")
    entries = repository.entries()
    plain = [entry for entry in entries if entry.kind == "file"]
    step("sorting %d files by size" % len(plain))
    total = sum(entry.size for entry in plain)
    largest = sorted(plain, key=lambda entry: (-entry.size, entry.path))[:LARGEST]
    rows = [{"path": shown(entry.path), "bytes": entry.size, "blob": entry.blob} for entry in largest]
    sizes, below = [], 0
    for name, bound in SIZES:
        upto = sum(1 for entry in plain if entry.size <= bound)
        sizes.append({"upTo": name, "files": upto - below})
        below = upto
    sizes.append({"upTo": "more", "files": len(plain) - below})
    kinds = Counter(entry.kind for entry in entries)
    return {"kind": "files", "commit": repository.commit, "entries": len(entries), "files": len(plain),
            "links": kinds["link"], "modules": kinds["module"], "bytes": total, "sizes": sizes,
            "largest": rows,
            "summary": "%s, %s; the largest is %s" % (counted(len(plain), "file"), counted(total, "byte"),
                                                      rows[0]["path"] if rows else "none")}


def notes(repository, step):
    """Open notes: the words TODO, FIXME, XXX and HACK in any text, whatever they stand in."""
    step("listing the files")
    chosen, unread = choose(repository.entries())
    step("reading %d files" % len(chosen))
    words, by_file, places, read, marked = Counter(), Counter(), [], 0, 0
    for entry, data in read_text(repository, chosen, unread):
        read += 1
        if not WORD.search(data):
            continue
        for number, line in enumerate(data.split(b"\n"), 1):
            found = [word.decode("ascii") for word in WORD.findall(line)]
            if not found:
                continue
            words.update(found)
            marked += 1
            by_file[entry.path] += len(found)
            if len(places) < PLACES:
                places.append({"path": shown(entry.path), "line": number, "word": found[0]})
    return {"kind": "notes", "commit": repository.commit, "filesRead": read, "lines": marked,
            "total": sum(words.values()), "words": {word: words[word] for word in WORDS},
            "files": _most(by_file), "places": places,
            "summary": "%s on %s of %s" % (counted(sum(words.values()), "note"), counted(marked, "line"),
                                           counted(len(by_file), "file"))}


def unsafe(repository, step):
    """Uses of `unsafe` in Rust code, without comments and texts, and where it is forbidden."""
    step("listing the files")
    chosen, unread = choose(repository.entries())
    wanted = [entry for entry in chosen
              if language(entry.path) == "Rust" or entry.path.rsplit(b"/", 1)[-1] == b"Cargo.toml"]
    step("reading %d files" % len(wanted))
    kinds, by_file, read, forbids = Counter(), Counter(), 0, 0
    for entry, data in read_text(repository, wanted, unread):
        rust = language(entry.path) == "Rust"
        read += rust
        if b"unsafe" not in data:
            continue
        text = data.decode("utf-8", "replace")
        if rust:
            uses, text = unsafe_uses(text)
            kinds.update(uses)
            if uses:
                by_file[entry.path] += sum(uses.values())
        forbids += len(FORBIDS.findall(text))
    total = sum(kinds.values())
    names = ["blocks", "functions", "impls", "traits", "externs", "attributes", "other"]
    summary = "%s in %s; forbidden or denied in %s" % (
        counted(total, "use"), counted(read, "Rust file"), counted(forbids, "place"))
    return {"kind": "unsafe", "commit": repository.commit, "applicable": read > 0, "rustFiles": read,
            "total": total, "uses": {name: kinds[name] for name in names}, "forbids": forbids,
            "files": _most(by_file), "summary": summary if read else "there is no Rust here"}


def _most(counter):
    rows = sorted(counter.items(), key=lambda row: (-row[1], row[0]))[:BUSIEST]
    return [{"path": shown(path), "count": count} for path, count in rows]
