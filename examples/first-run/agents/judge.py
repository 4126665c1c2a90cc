"""A reviewer: checks measurements against their criteria and returns a verdict.

`judge.py one` judges the result of the node under review; `judge.py all` judges every result
the plan has so far, and that none is missing.
"""

import sys

from checks import COUNTS, OF_ONE, Ground, between, shape
from host import Trouble, run
from repository import open_for, shown


def check(of, triples):
    """Runs checks to their end; one that cannot even be made has failed."""
    rows = []
    try:
        for name, holds, seen in triples:
            rows.append({"of": of, "name": name, "ok": bool(holds), "detail": shown(str(seen))})
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        seen = "cannot be read: %s %s" % (type(error).__name__, error)
        rows.append({"of": of, "name": "it can be checked", "ok": False, "detail": shown(seen)})
    except Trouble as trouble:
        rows.append({"of": of, "name": "it can be checked", "ok": False, "detail": shown(str(trouble))})
    return rows


def judge_one(found, grounds, path):
    """Every check of one deliverable."""
    def against_the_ground():
        commit = found["commit"]
        if commit not in grounds:
            grounds[commit] = Ground(path, commit)
        yield from OF_ONE[found["kind"]](found, grounds[commit])

    return check(found["kind"], shape(found)) + check(found["kind"], against_the_ground())


def work(host, scope):
    """Judges; the fields of the result."""
    repository = open_for(host)
    judged = host.once("judged", lambda: judge(host, scope, repository.path))
    return result(**judged)


def judge(host, scope, path):
    """Every check, what was judged, and the commands that took."""
    inputs = host.brief.get("inputs") or []
    if scope == "one":
        inputs = [one for one in inputs if one.get("node") == host.brief.get("node")]
    by_kind, rows, grounds = {}, [], {}
    for one in inputs:
        found = one.get("deliverable")
        kind = found.get("kind") if isinstance(found, dict) else None
        if kind in COUNTS:
            by_kind[kind] = found
        elif one.get("node"):
            rows += check(one["node"], [("it is a measurement", False, kind)])
    missing = [kind for kind in COUNTS if kind not in by_kind] if scope == "all" else []
    if scope == "all" or not inputs:
        rows += check("all", [("nothing is missing", not missing and bool(inputs), ", ".join(missing) or "all")])
    for done, (kind, found) in enumerate(by_kind.items()):
        host.step("checking " + kind, done, len(by_kind))
        rows += judge_one(found, grounds, path)
    rows += check("agreement", between(by_kind))
    host.say("progress", text="checked", done=len(by_kind), total=len(by_kind))
    commands = [command for ground in grounds.values() for command in ground.repository.commands]
    commits = sorted({str(found.get("commit")) for found in by_kind.values()})
    return {"rows": rows, "kinds": sorted(by_kind), "commits": commits, "commands": commands}


def result(rows, kinds, commits, commands):
    """The verdict, with one finding for each check that failed."""
    failed = [row for row in rows if not row["ok"]]
    findings = [{"where": row["of"], "what": "%s: %s" % (row["name"], row["detail"]), "severity": "high"}
                for row in failed]
    if len(commits) > 1:
        findings.append({"where": "commits", "severity": "info",
                         "what": "HEAD moved: measured at " + ", ".join(one[:12] for one in commits)})
    summary = "%d of %d checks hold" % (len(rows) - len(failed), len(rows))
    tests = ["%s %s: %s (%s)" % ("ok" if row["ok"] else "FAILED", row["of"], row["name"], row["detail"])
             for row in rows]
    return {"deliverable": {"kind": "verdict", "checks": len(rows), "failed": len(failed),
                            "of": kinds, "commits": commits, "findings": findings, "summary": summary},
            "verdict": {"verdict": "fail" if failed else "pass", "findings": findings},
            "crystallization": summary, "evidence": {"tests": tests, "commands": commands}}


if __name__ == "__main__":
    if sys.argv[1:] not in (["one"], ["all"]):
        sys.exit("usage: judge.py one|all")
    sys.exit(run(lambda host: work(host, sys.argv[1])))
