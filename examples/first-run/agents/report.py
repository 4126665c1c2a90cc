"""A worker: puts the results of the plan together as one page of Markdown. It measures nothing."""

import os
import sys

from host import run
from repository import counted, open_for, shown

NAME = "report.md"
BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
ROWS = 8


def cell(text):
    """Text from outside that cannot leave its place in a table."""
    text = shown(str(text), 80)
    for mark in "\\`*[<>|":
        text = text.replace(mark, "\\" + mark)
    return text


def code(text):
    """Text from outside as code."""
    return "`%s`" % shown(str(text), 80).replace("`", "'").replace("|", "\\|")


def number(value):
    """1234567 as 1,234,567."""
    return format(value, ",")


def size(value):
    """A number of bytes in the largest unit it fills."""
    if value < 1024:
        return "%d B" % value
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            break
    return "%.1f %s" % (value, unit)


def bar(part, whole, width=16):
    """A part of a whole as a bar."""
    return "\u2588" * round(width * part / whole) if whole else ""


def spark(values):
    """Numbers as a line of small bars."""
    top = max(values, default=0)
    return "".join("\u00b7" if not value else BARS[min(7, value * 8 // (top + 1))] for value in values)


def table(heads, rows):
    """A Markdown table; a head that begins with `>` is aligned to the right."""
    lines = ["| " + " | ".join(head.lstrip(">") for head in heads) + " |",
             "|" + "|".join("---:" if head.startswith(">") else "---" for head in heads) + "|"]
    return lines + ["| " + " | ".join(str(one) for one in row) + " |" for row in rows]


def languages(found):
    rows, total = found["languages"], found["total"]
    yield from table(["language", ">files", ">lines", ">blank", "share of lines"], [
        (cell(row["name"]), number(row["files"]), number(row["lines"]), number(row["blank"]),
         "%s %.0f%%" % (bar(row["lines"], total["lines"]), 100 * row["lines"] / max(1, total["lines"])))
        for row in rows[:ROWS]])
    unread = ", ".join("%s %d" % (name, count) for name, count in found["unread"].items() if count)
    more = "; %d more languages" % (len(rows) - ROWS) if len(rows) > ROWS else ""
    yield "\n%s lines in %s text files%s. Not read: %s." % (
        number(total["lines"]), number(total["files"]), more, unread or "nothing")


def files(found):
    yield from table(["largest file", ">bytes"],
                     [(code(row["path"]), number(row["bytes"])) for row in found["largest"][:ROWS]])
    yield "\nFiles by size: " + ", ".join(
        "%s %d" % ("larger" if row["upTo"] == "more" else "up to " + row["upTo"], row["files"])
        for row in found["sizes"]) + "."


def notes(found):
    words = ", ".join("%s %d" % pair for pair in found["words"].items())
    yield "**%s** on %s (%s)." % (counted(found["total"], "note"), counted(found["lines"], "line"), words)
    if found["files"]:
        yield "Most: " + ", ".join("%s %d" % (code(row["path"]), row["count"]) for row in found["files"]) + "."


def unsafe(found):
    if not found["applicable"]:
        yield "No Rust."
        return
    uses = ", ".join("%s %d" % pair for pair in found["uses"].items() if pair[1])
    yield "**%s of `unsafe`** in %s%s; forbidden or denied in %s." % (
        counted(found["total"], "use"), counted(found["rustFiles"], "Rust file"),
        " (%s)" % uses if uses else "", counted(found["forbids"], "place"))
    if found["files"]:
        yield "Most: " + ", ".join("%s %d" % (code(row["path"]), row["count"]) for row in found["files"]) + "."


def activity(found):
    if not found["commits"]:
        yield "No commits."
        return
    yield "**%s%s** by %s, %s to %s; the last 12 weeks: `%s` (%d)." % (
        counted(found["commits"], "commit"), " or more" if found["more"] else "",
        counted(found["authorCount"], "author"), found["first"], found["last"], spark(found["weeks"]),
        sum(found["weeks"]))
    if found["sampled"] < found["commits"]:
        yield "Authors and dates are those of the last %s." % counted(found["sampled"], "commit")
    yield "Most: " + ", ".join("%s %d" % (cell(row["name"]), row["commits"]) for row in found["authors"]) + "."
    if found["shallow"]:
        yield "This clone is shallow: the history goes further back."


def dependencies(found):
    if not found["applicable"]:
        yield "No manifest of a known kind."
        return
    yield from table(["ecosystem", ">manifests", ">direct", ">dev", ">build"], [
        (row["name"], row["manifests"], row["direct"], row["dev"], row["build"]) for row in found["ecosystems"]])
    most = ", ".join("%s %d" % (code(row["name"]), row["usedBy"]) for row in found["mostUsed"])
    yield "\n%d different names. Most used: %s." % (found["distinct"], most or "none")


def lock(found):
    if not found["applicable"]:
        yield "No lock file: %s." % cell(found["summary"])
        return
    sources = ", ".join("%s %d" % (cell(row["source"]), row["packages"]) for row in found["sources"])
    yield "**%s** of %s. Sources: %s." % (
        counted(found["packages"], "package"), counted(found["distinct"], "name"), sources)
    twice = "; ".join("%s %s" % (code(row["name"]), ", ".join(map(cell, row["versions"])))
                      for row in found["duplicates"][:ROWS])
    yield "**%d in more than one version**%s." % (found["duplicateCount"], ": " + twice if twice else "")
    yield "Most needed: " + ", ".join("%s %d" % (code(row["name"]), row["neededBy"])
                                      for row in found["mostNeeded"][:5]) + "."


def architecture(found):
    churn = found["churn"]
    rows = sorted(found["components"], key=lambda row: (-(row["layer"] or 0), -row["lines"]))
    yield from table(["component", ">layer", ">lines", ">changes", "depends on"], [
        (code(row["name"]), "-" if row["layer"] is None else row["layer"], number(row["lines"]),
         number(row["changes"]), ", ".join(map(code, row["dependsOn"])) or "-") for row in rows])
    who = "by %s" % code(churn["agent"]) if churn["by"] == "worker" else "by the specialist itself"
    yield "\n%s; circles: %s. Changes are those of the last %s, counted %s." % (
        counted(found["arrows"], "arrow"), ", ".join(map(code, found["circles"])) or "none",
        counted(churn["window"], "commit"), who)


def verdict(found):
    yield "**%s**: %s, over %s." % ("fail" if found["failed"] else "pass", found["summary"],
                                   ", ".join(found["of"]))
    for finding in found["findings"]:
        yield "- %s: %s (%s)" % (cell(finding["where"]), cell(finding["what"]), cell(finding["severity"]))


SECTIONS = [("Languages", "languages", languages), ("Files", "files", files), ("Open notes", "notes", notes),
            ("Unsafe code", "unsafe", unsafe), ("Activity", "activity", activity),
            ("Dependencies", "dependencies", dependencies), ("Lock file", "lock", lock),
            ("Architecture", "architecture", architecture), ("Verdict", "verdict", verdict)]


def page(name, by_kind):
    """The page, and the kinds it could not show."""
    size_of, judged = by_kind.get("files", {}), by_kind.get("verdict", {})
    commit = str(size_of.get("commit") or "no commit yet")[:12]
    lines = ["# %s" % cell(name), "", "Commit %s, %s, %s. %s." % (
        code(commit), counted(size_of.get("files", 0), "file"), size(size_of.get("bytes", 0)),
        cell(judged.get("summary", "not judged")))]
    absent = []
    for title, kind, section in SECTIONS:
        lines += ["", "## " + title, ""]
        try:
            lines += list(section(by_kind[kind]))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            absent.append(kind)
            lines.append("No result that can be read.")
    return "\n".join(lines) + "\n", absent


def work(host):
    """Writes the page; the fields of the result."""
    repository = open_for(host)
    host.step("putting the results together", 0, 1)
    results = [one.get("deliverable") for one in host.brief.get("inputs") or []]
    by_kind = {one["kind"]: one for one in results if isinstance(one, dict) and "kind" in one}
    text, absent = host.once("page", lambda: page(repository.name, by_kind))
    with open(NAME + ".new", "w", encoding="utf-8") as out:
        out.write(text)
    os.replace(NAME + ".new", NAME)
    summary = "%d sections, %d without a result" % (len(SECTIONS), len(absent))
    host.say("progress", text=summary, done=1, total=1)
    return {"deliverable": text, "crystallization": summary, "evidence": {"files": [NAME]},
            "artifacts": [{"name": NAME, "path": NAME, "mediaType": "text/markdown"}]}


if __name__ == "__main__":
    sys.exit(run(work))
