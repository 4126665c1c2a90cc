"""A specialist: sketches what a repository is made of, and which part depends on which.

How often each part changes it does not measure itself: it asks its project orchestrator for a
worker of its own and folds that worker's result into the sketch. Without one it measures alone.
"""

import json
import os
import sys
import time
from collections import Counter

import history
from host import run
from manifest import arrows, crates, manifests
from repository import choose, counted, open_for, shown
from source import lines_in, read_text

COMPONENTS = 16
STEPS = 4
PATIENCE = 60
"""Seconds to wait for the worker: as long as a sponsor has to answer."""
CHURN_SCHEMA = {
    "type": "object",
    "required": ["kind", "commit", "window", "changes", "directories", "summary"],
    "properties": {
        "kind": {"enum": ["churn"]},
        "window": {"type": "integer", "minimum": 0},
        "changes": {"type": "integer", "minimum": 0},
        "directories": {"type": "array", "items": {
            "type": "object", "required": ["path", "commits", "changes"]}},
    },
}
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def components(repository, entries, step):
    """The largest crates of the repository, else top directories; and what uses what among them."""
    found = crates(manifests(repository, entries))
    uses = arrows(found)
    times = Counter(crate.name for crate in found)
    found = [crate for crate in found if crate.name]
    parts = {crate.path: {"name": shown(crate.name if times[crate.name] == 1 else
                                        "%s (%s)" % (crate.name, crate.path or ".")),
                          "dependsOn": uses[crate.path]} for crate in found}
    if not parts:
        tops = {shown(entry.path.split(b"/")[0]) for entry in entries if b"/" in entry.path}
        parts = {top: {"name": top, "dependsOn": []} for top in tops}
    for part in parts.values():
        part.update(files=0, lines=0)
    chosen, unread = choose(entries)
    step("reading %d files of %d components" % (len(chosen), len(parts)))
    homes = sorted(parts, key=len, reverse=True)
    for entry, data in read_text(repository, chosen, unread):
        path = shown(entry.path, 400)
        home = next((one for one in homes if not one or path.startswith(one + "/")), None)
        if home is not None:
            parts[home]["files"] += 1
            parts[home]["lines"] += lines_in(data)
    rows = [{"path": path or ".", **part} for path, part in parts.items()]
    rows = sorted(rows, key=lambda row: (-row["lines"], row["path"]))[:COMPONENTS]
    names = {row["name"] for row in rows}
    for row in rows:
        row["dependsOn"] = [name for name in row["dependsOn"] if name in names]
    return rows, ("crate" if found else "directory")


def layers(rows):
    """Gives every component its layer: 0 uses none, others stand above all they use.

    Returns the names of those that use each other in a circle; these have no layer.
    """
    left = {row["name"]: set(row["dependsOn"]) for row in rows}
    place = {}
    while left:
        free = [name for name, uses in left.items() if uses <= set(place)]
        if not free:
            break
        for name in free:
            place[name] = 1 + max((place[one] for one in left[name]), default=-1)
        for name in free:
            del left[name]
    for row in rows:
        row["layer"] = place.get(row["name"])
    return sorted(left)


def ask_for_worker(host, repository, rows):
    """Asks for a worker that measures the churn. The same request is asked again after a restart."""
    request = host.once("requestId", new_id)
    facts = ["directory: " + row["path"] for row in rows]
    if repository.commit:
        facts.insert(0, "commit: " + repository.commit)
    host.say("spawn", requestId=request, spawnReason="how often each component changes is independent work",
             requestedSubagents=[{
                 "role": "worker", "suggestedActorId": "churn", "runner": "churn", "budget": {"turns": 10},
                 "brief": {"goal": "Count how often the files of each component changed in the last commits.",
                           "keyFacts": facts, "expectedOutput": json.dumps(CHURN_SCHEMA),
                           "successCriteria": ["every directory that changed has its commits and changes"]},
             }])


def await_churn(host):
    """The worker's churn and who made it; or None and why there is none."""
    end = time.monotonic() + min(PATIENCE, (host.brief.get("wallMs") or 1000 * PATIENCE) / 2000)
    while True:
        mail = host.mail(max(0, end - time.monotonic()))
        if mail is None:
            return None, "no worker's result came in time"
        topic, body = mail.get("topic"), mail.get("body")
        body = body if isinstance(body, dict) else {}
        if topic == "spawn.denied" or topic == "spawn.sponsor.answer" and not body.get("spawnedAgents"):
            return None, "a worker was denied: %s" % shown(reason(body))
        if topic in ("spawn.sponsor.answer", "spawn.accepted"):
            names = ", ".join(str(one.get("actorId")) for one in body.get("spawnedAgents") or [])
            host.say("progress", text="%s works for me" % (names or "a worker"), done=3, total=STEPS)
        elif topic == "result.ready":
            return read_churn(body)


def read_churn(body):
    """The churn in a `result.ready`, when it is one."""
    result = body.get("result") if isinstance(body.get("result"), dict) else {}
    found = result.get("deliverable")
    try:
        found = json.loads(found) if isinstance(found, str) else found
    except ValueError:
        found = None
    who = {"agent": shown(str(body.get("agent"))), "node": shown(str(body.get("node")))}
    if not isinstance(found, dict) or not isinstance(found.get("directories"), list):
        return None, "%s ended with %s: %s" % (
            who["agent"], result.get("outcome"), shown(str(result.get("error") or "no churn")))
    return {**found, "by": who}, ""


def reason(body):
    """Why a request was denied, in the answer's words."""
    denied = body.get("deniedAgents") or [{}]
    return str(denied[0].get("detail") or denied[0].get("reason") or body.get("reason") or body.get("error")
               or "no reason given")


def fold(rows, churn):
    """Puts the churn of its directory into every component."""
    changed = {row["path"]: row for row in churn["directories"]}
    for row in rows:
        found = changed.get(row["path"], {})
        row.update(commits=found.get("commits", 0), changes=found.get("changes", 0))


def new_id():
    """A ULID."""
    number = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -5, -5))


def work(host):
    """The whole of it; the fields of the result."""
    repository = open_for(host)
    host.step("looking for components", 0, STEPS)
    entries = repository.entries()
    rows, made_of = host.once("components", lambda: components(
        repository, entries, lambda text: host.step(text, 1, STEPS)))
    if "churn" not in host.state:
        ask_for_worker(host, repository, rows)
    circles = layers(rows)
    host.step("waiting for the churn", 2, STEPS)
    churn, why = host.once("churn", lambda: await_churn(host))
    by = "worker" if churn else "itself"
    if not churn:
        host.step(why + "; measuring it here", 3, STEPS)
        churn = history.churn(repository, lambda text: None, [row["path"] for row in rows])
    fold(rows, churn)
    used = sum(len(row["dependsOn"]) for row in rows)
    summary = "%s, %s between them, %d in circles" % (
        counted(len(rows), made_of), counted(used, "arrow"), len(circles))
    found = {"kind": "architecture", "commit": repository.commit, "madeOf": made_of, "components": rows,
             "arrows": used, "circles": circles,
             "churn": {"by": by, **churn.get("by", {}), "note": why, "window": churn.get("window", 0),
                       "changes": churn.get("changes", 0), "files": churn.get("files", [])},
             "summary": summary}
    host.say("progress", text=summary, done=STEPS, total=STEPS)
    return {"deliverable": found, "crystallization": summary, "evidence": {"commands": repository.commands}}


if __name__ == "__main__":
    sys.exit(run(work))
