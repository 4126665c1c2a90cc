"""A worker: makes one measurement of a git repository. `measure.py <kind>`."""

import sys

import history
import manifest
import source
from host import run
from repository import open_for

KINDS = {"languages": source.languages, "files": source.files, "notes": source.notes,
         "unsafe": source.unsafe, "activity": history.activity, "churn": history.churn,
         "dependencies": manifest.dependencies, "lock": manifest.lock}


def measure(kind, host):
    """Makes the measurement; the fields of its result."""
    repository = open_for(host)
    done = [0]

    def step(text):
        host.step(text, done[0], 2)
        done[0] += 1

    wanted = {"wanted": host.fact("directory")} if kind == "churn" else {}
    found = KINDS[kind](repository, step, **wanted)
    host.checkpoint(measured=found["summary"])
    host.say("progress", text=found["summary"], done=2, total=2)
    return {"deliverable": found, "crystallization": found["summary"],
            "evidence": {"commands": repository.commands}}


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        sys.exit("usage: measure.py <kind>; kinds: " + ", ".join(KINDS))
    sys.exit(run(lambda host: measure(sys.argv[1], host)))
