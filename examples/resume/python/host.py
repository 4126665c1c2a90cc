"""Talks with the host over stdin and stdout (docs/stdio-protocol.md), and goes on where a session died.

    def work(host):
        table = host.once("table", lambda: count(host.brief["goal"]))
        return {"deliverable": table, "evidence": {"tests": ["it was counted"]}}

    sys.exit(run(work))

A program needs this file and Python 3.9 or newer. It must not know what the work is about.
"""

import json
import os
import select
import sys
import time
import traceback


class Trouble(Exception):
    """The work cannot be done; the text says what, why, and what to do."""


class Stopped(Exception):
    """The host asked for an end."""


class HostGone(Exception):
    """Nobody reads or writes at the other end any more."""


class Host:
    """The two pipes of one run. No threads: lines are taken in at the boundaries of the work.

    `brief` is the first line, `state` what is recorded of this work so far, by earlier sessions too.
    """

    def __init__(self, source=0, sink=1):
        self._source, self._sink = source, sink
        self._rest, self._mail, self._turns, self._unsaved = b"", [], 0, 0
        self.brief = None
        while self.brief is None:
            self._take_in(None)
        self.state = self.brief.get("checkpoint") or {}
        if not isinstance(self.state, dict):
            self.state = {}

    def fact(self, name):
        """The values of the brief's key facts that are written `name: value`."""
        start = name + ": "
        facts = [fact for fact in self.brief.get("keyFacts") or [] if isinstance(fact, str)]
        return [fact[len(start):] for fact in facts if fact.startswith(start)]

    def say(self, kind, **fields):
        """Writes one line. Fields that are None are left out."""
        line = {"type": kind}
        line.update((name, value) for name, value in fields.items() if value is not None)
        data = json.dumps(line).encode("ascii") + b"\n"
        try:
            while data:
                data = data[os.write(self._sink, data):]
        except OSError as error:
            raise HostGone() from error

    def step(self, text, done, total):
        """Says what is done next; a step is a turn, and a boundary at which the host may stop us."""
        self.boundary()
        self._turns += 1
        self.say("progress", text=text, done=done, total=total)
        self.say("usage", turns=self._turns)

    def save(self, name, value):
        """Adds to what a successor goes on from, and waits until that is recorded."""
        self.state[name] = value
        self._unsaved += 1
        self.say("checkpoint", state=self.state, confirm=True)
        while self._unsaved > 0:
            self._take_in(None)

    def once(self, name, make, made=None):
        """What `make()` gives (any JSON), made once over all sessions of this work.

        It is recorded before this returns, so no later session makes it again. A session that dies
        between the two leaves something that is made and not recorded: `made()` looks for that and
        gives it, or None. Without it that one thing may be made a second time: let it do no harm.
        """
        if name not in self.state:
            found = made() if made else None
            if found is None:
                found = make()
                self._witness("made", name)
            self.save(name, found)
            self._witness("saved", name)
        return json.loads(json.dumps(self.state[name]))

    def _witness(self, what, name):
        """Appends to this agent's file in the directory WITNESS, when there is such a variable: a proof
        beside the bus's own records of what was made how often."""
        if os.environ.get("WITNESS"):
            path = os.path.join(os.environ["WITNESS"], self.brief["agent"].replace(":", "-"))
            with open(path, "a", encoding="utf-8") as out:
                out.write("%s %s %d\n" % (what, name, self.brief["epoch"]))

    def boundary(self):
        """Takes in what has arrived, without waiting. Raises Stopped or HostGone."""
        while self._take_in(0):
            pass

    def mail(self, seconds):
        """The next mail line, or None after `seconds`. Raises Stopped or HostGone."""
        end = time.monotonic() + seconds
        while not self._mail:
            left = end - time.monotonic()
            if left <= 0 or not self._take_in(left):
                return None
        return self._mail.pop(0)

    def _take_in(self, timeout):
        """Reads once; False when nothing came within `timeout` seconds (None waits for ever)."""
        if not select.select([self._source], [], [], timeout)[0]:
            return False
        data = os.read(self._source, 65536)
        if not data:
            raise HostGone()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take_line(line)
        return True

    def _take_line(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            print("not JSON, ignored: %r" % line[:80], file=sys.stderr)
            return
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "brief" and self.brief is None:
            self.brief = message
        elif kind == "mail":
            self._mail.append(message)
        elif kind == "saved":
            self._unsaved -= 1
        elif kind == "stop":
            raise Stopped(str(message.get("reason") or "stopped"))


def run(work):
    """Runs `work(host)`, which returns the fields of its result. Gives the exit code."""
    host = None
    try:
        host = Host()
        result = work(host)
        host.say("result", outcome="success", **result)
        return 0
    except HostGone:
        return 1
    except Stopped as stop:
        return _end(host, "cancelled", str(stop))
    except Trouble as trouble:
        return _end(host, "failure", str(trouble))
    except Exception as error:  # whatever it is, the host gets a result
        traceback.print_exc()
        return _end(host, "failure", "%s: %s" % (type(error).__name__, error))


def _end(host, outcome, why):
    if host is not None:
        try:
            text = json.dumps(host.state) if host.state else ""
            host.say("result", outcome=outcome, error=why, partial=text)
        except HostGone:
            pass
    return 1
