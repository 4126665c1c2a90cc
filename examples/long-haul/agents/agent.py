"""Agents that misbehave, each in its own way, as long as they are new to the work: `agent.py <way>`.

    silent      the first says nothing and hears nothing; whoever follows it does the work
    prose       answers a status request in words, and the next one as it should
    blocked     needs a credential that it does not have, and says so
    unproven    claims to be done and shows nothing for it, until it is asked what shows it
    garbage     the first writes bytes that are no lines of the protocol, and fails
    crashing    dies after each of its first three steps; whoever goes on makes the next one
    honest      does the work

Each session, and each piece of work that is done, is a line in a file named after the node, in the
directory that the plan was given after `--`: what an onlooker sees beside what the fleet says.
"""

import json
import os
import signal
import sys
import time

NOISE = [b"\x00\xff\xfe\x80 no UTF-8 at all", b'{"type":"result","outcome":"splendid"}', b'{"type":"resu',
         b"[1, 2", b"}{" * 500, b"\x1b[31mred\x1b[0m", b'{"type":"overseerUpdate","status":"done"}', b""]
"""Lines that are none."""


class Agent:
    """One session: its brief, its two pipes, its witness."""

    def __init__(self):
        self.brief = self.read()
        given = json.loads(os.environ.get("TETRARCH_ARGS") or "[]")
        self.path = os.path.join(given[0] if given else os.getcwd(), self.brief["node"])
        self.before = len([line for line in self.witnessed() if line.startswith("session")])
        self.note("session %s %d" % (self.brief["agent"], self.brief["epoch"]))

    def read(self):
        line = sys.stdin.readline()
        if not line:
            sys.exit(1)
        return json.loads(line)

    def say(self, kind, **fields):
        print(json.dumps({"type": kind, **fields}), flush=True)

    def asked(self):
        """Waits for a status request; what it says."""
        while True:
            line = self.read()
            if line["type"] == "mail" and line["topic"] == "status.request":
                return line["body"]["text"]

    def save(self, **state):
        self.say("checkpoint", state=state, confirm=True)
        while self.read()["type"] != "saved":
            pass

    def witnessed(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path, encoding="utf-8") as lines:
            return lines.read().splitlines()

    def note(self, what):
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, what.encode() + b"\n")
        os.close(file)

    def work(self, how="as it should be"):
        """Does the work, once, and shows it."""
        self.note("work")
        evidence = {"files": [self.brief["node"]], "tests": ["%s: %s" % (self.brief["node"], how)]}
        self.say("result", outcome="success", deliverable="%s, %s" % (self.brief["goal"].splitlines()[0], how),
                 evidence=evidence)


def silent(agent):
    while agent.before == 0:
        time.sleep(3600)
    agent.work("by another agent")


def prose(agent):
    agent.asked()
    print("Thanks for asking! It goes well, I am about half way and see nothing in the way.", flush=True)
    agent.asked()
    agent.say("update", overseerUpdate={"status": "in_progress", "summary": "half of it", "next": "the other half"})
    agent.work("after two status requests")


def blocked(agent):
    agent.say("update", overseerUpdate={
        "status": "blocked", "summary": "the price server refuses",
        "blockers": ["a credential of kind token for the price server; it is configured as PRICES_TOKEN"]})
    while True:
        agent.read()


def unproven(agent):
    agent.say("update", overseerUpdate={"status": "done", "summary": "all totals are right"})
    while "show nothing for it" not in agent.asked():
        agent.say("update", overseerUpdate={"status": "done", "summary": "all totals are right"})
    agent.say("update", overseerUpdate={"status": "done", "evidence": {"testsRun": ["41 of 41 totals are right"]}})
    agent.work("41 of 41 totals are right")


def garbage(agent):
    if agent.before == 0:
        for line in NOISE:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
        sys.exit(3)
    agent.work("by another agent")


def crashing(agent):
    done = (agent.brief["checkpoint"] or {"done": 0})["done"]
    done += 1
    agent.note("step %d" % done)
    agent.save(done=done)
    if done <= 3:
        os.kill(os.getpid(), signal.SIGKILL)
    agent.work("in %d steps, each made once" % done)


def honest(agent):
    agent.work()


WAYS = {"silent": silent, "prose": prose, "blocked": blocked, "unproven": unproven, "garbage": garbage,
        "crashing": crashing, "honest": honest}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in WAYS:
        sys.exit("usage: agent.py " + "|".join(WAYS))
    WAYS[sys.argv[1]](Agent())
