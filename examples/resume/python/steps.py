"""A worker that makes steps, each exactly once, whatever dies in between. `steps.py <count> <ms>`.

A step is a line in a file: its number, the host and the session that made it. The file is named after
the node, in the directory that the plan was given after `--`, else where `tetrarch run` was started.
Between two steps it waits for `ms` milliseconds.
"""

import json
import os
import sys
import time

from host import Trouble, run


def make(path, step, epoch):
    """Appends the step's line at once, never half of it; the host that did."""
    host = os.environ.get("TETRARCH_HOST_LIFE", "").rsplit(".", 2)[0] or "none"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, b"%d %s %d\n" % (step, host.encode(), epoch))
    finally:
        os.close(file)
    return host


def made(path, step):
    """The host that made the step and died before that was recorded; None when nobody has."""
    try:
        with open(path, encoding="utf-8") as lines:
            found = [line.split()[1] for line in lines if line.split()[0] == str(step)]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Trouble("the steps made so far cannot be read: %s" % error) from error
    return found[0] if found else None


def work(host, count, pause):
    """Makes the steps that are not made yet; the fields of the result."""
    brief = host.brief
    given = json.loads(os.environ.get("TETRARCH_ARGS") or "[]")
    path = os.path.join(os.environ.get("TETRARCH_CWD") or os.getcwd(), *given[:1], brief["node"])
    hosts = []
    for step in range(1, count + 1):
        name = "step %d" % step
        if name not in host.state:
            host.step(name, step - 1, count)
            time.sleep(pause)
        hosts.append(host.once(name, lambda: make(path, step, brief["epoch"]), lambda: made(path, step)))
    return {"deliverable": {"steps": count, "hosts": hosts}, "evidence": {"tests": ["%d steps in %s" % (count, path)]}}


if __name__ == "__main__":
    if len(sys.argv) != 3 or not all(one.isdecimal() for one in sys.argv[1:]):
        sys.exit("usage: steps.py <count> <ms>")
    sys.exit(run(lambda host: work(host, int(sys.argv[1]), int(sys.argv[2]) / 1000)))
