"""A worker: makes one measurement of a git repository. `measure.py <kind> [dies-once]`.

With `dies-once` the first session is killed when it has measured: the next one goes on from there.
"""

import os
import signal
import sys

import history
import manifest
import source
from host import run
from repository import open_for

KINDS = {"languages": source.languages, "files": source.files, "notes": source.notes,
         "unsafe": source.unsafe, "activity": history.activity, "churn": history.churn,
         "dependencies": manifest.dependencies, "lock": manifest.lock}


def measure(kind, host, dies=False):
    """Makes the measurement, unless an earlier session has; the fields of its result."""
    if "measured" in host.state:
        host.say("progress", text="goes on from its checkpoint", done=2, total=2)
    repository = open_for(host)
    done = [0]

    def step(text):
        host.step(text, done[0], 2)
        done[0] += 1

    wanted = {"wanted": host.fact("directory")} if kind == "churn" else {}
    measured = host.once("measured", lambda: {"found": KINDS[kind](repository, step, **wanted),
                                              "commands": repository.commands})
    found = measured["found"]
    host.say("progress", text=found["summary"], done=2, total=2)
    if dies and host.brief["epoch"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"deliverable": found, "crystallization": found["summary"],
            "evidence": {"commands": measured["commands"]}}


if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in KINDS or sys.argv[2:] not in ([], ["dies-once"]):
        sys.exit("usage: measure.py <kind> [dies-once]; kinds: " + ", ".join(KINDS))
    sys.exit(run(lambda host: measure(sys.argv[1], host, len(sys.argv) == 3)))
