"""A channel of a person in another language: it says a turn and draws what comes of it, with nothing but a stock NATS client.

    channel.py <url> <credential> <person> <project> <text>

It keeps the bus contract (docs/bus.md, Follow a conversation) and nothing else. It ends with one line of JSON: the tree that it
drew live at each change, the tree that somebody draws who comes after all is over, and the numbers of words and turns.
"""

import asyncio
import json
import os
import sys
import time

import nats

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PATIENCE = 30
FAMILIES = ["turn", "agent", "run", "run_state"]


def ulid():
    number = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


class Conversation:
    """What the records say of one person's conversation, whoever brings them."""

    def __init__(self, person, name):
        self.person, self.name = person, name
        self.turns, self.agents, self.runs, self.states = {}, {}, {}, {}
        self.reached = {}

    def take(self, subject, payload):
        """One record, as a message of STATE has it. An empty one was removed."""
        kind = subject.split(".")[2]
        record = json.loads(payload) if payload else None
        if record is None:
            return
        if kind == "turn" and record["conversation"] == self.name:
            self.turns[int(record["number"])] = record
        elif kind == "agent":
            self.agents[record["id"]] = record
        elif kind == "run":
            self.runs[record["id"]] = record
        elif kind == "run_state":
            self.states[record["id"]] = record

    def journaled(self, entry):
        """One entry of a run's journal, with those in it: how far its agent is."""
        for event in [entry] + entry.get("then", []):
            turn = event.get("turn", {}).get("step") or event.get("usage", {}).get("turns")
            if turn:
                self.reached[entry["run"]] = max(int(turn), self.reached.get(entry["run"], 0))

    def children(self, turn):
        """Agents that work for a turn, or did, in the order of their names; each with its current run."""
        works = lambda agent: turn.get("epic") and agent.get("work", {}).get("epic") == turn["epic"]
        return sorted(filter(works, self.agents.values()), key=lambda agent: agent["id"])

    def draw(self):
        lines = ["IO@" + self.person, "  " + self.name]
        for number, turn in sorted(self.turns.items()):
            lines.append("    turn %d %s: %s" % (number, turn["status"], turn["text"]))
            for agent in self.children(turn):
                lines.append("      " + self.line(agent))
        return "\n".join(lines)

    def line(self, agent):
        run = agent["work"]["run"]
        brief = self.runs.get(run, {}).get("brief", {})
        state = self.states.get(run, {})
        most, now = brief.get("budget", {}).get("turns"), self.reached.get(run)
        turn = ", turn %s of %s" % (now, most) if now and most else ""
        outcome = state.get("result", {}).get("outcome")
        ended = ", ended with %s" % outcome if outcome else ""
        role = agent["id"].split(":")[0]
        return "%s %s%s%s: %s" % (role, state.get("state", "?"), turn, ended, brief.get("goal", "?"))

    def over(self):
        last = self.turns.get(max(self.turns, default=0), {})
        return last.get("status") in ("done", "failed", "asking")


async def connect(url, credential, person):
    inbox = ("_INBOX_human:" + person).encode()
    return await nats.connect(url, user_credentials=credential, inbox_prefix=inbox)


async def drawn_later(nc, conversation):
    """Draws it for somebody who heard nothing: from what STATE and the journals have."""
    inbox = nc.new_inbox()
    answers = await nc.subscribe(inbox)
    wanted = {"multi_last": ["$KV.STATE.%s.>" % kind for kind in FAMILIES]}
    await nc.publish("$JS.fleet.API.DIRECT.GET.KV_STATE", json.dumps(wanted).encode(), reply=inbox)
    while True:
        message = await answers.next_msg(timeout=PATIENCE)
        headers = message.headers or {}
        if "Nats-Subject" not in headers:
            if headers.get("Status") != "204":
                raise SystemExit("not as the contract says: %s" % headers)
            break
        conversation.take(headers["Nats-Subject"], message.data)
    return conversation.draw()


async def main(url, credential, person, project, text):
    nc = await connect(url, credential, person)
    live, seen, words = Conversation(person, "main"), [], {}
    ended = asyncio.Event()

    async def look():
        tree = live.draw()
        if not seen or seen[-1] != tree:
            seen.append(tree)
        if live.over():
            ended.set()

    async def record(message):
        live.take(message.subject, message.data)
        await look()

    async def journaled(message):
        live.journaled(json.loads(message.data))
        await look()

    async def spoken(message):
        headers = message.headers
        words.setdefault(headers["Tetrarch-Session"], []).append(int(headers["Tetrarch-Number"]))

    await nc.subscribe("$KV.STATE.turn.%s.main.*" % person, cb=record)
    for kind in FAMILIES[1:]:
        await nc.subscribe("$KV.STATE.%s.>" % kind, cb=record)
    await nc.subscribe("run.*.*", cb=journaled)
    await nc.subscribe("stream.*.*", cb=spoken)
    said = {"requestId": ulid(), "conversation": "main", "text": text, "project": project}
    await nc.jetstream(prefix="$JS.fleet.API").publish(
        "op.conversation.say.human:" + person, json.dumps(said).encode())
    await asyncio.wait_for(ended.wait(), PATIENCE)
    later = await drawn_later(nc, Conversation(person, "main"))
    last = live.turns[max(live.turns)]
    print(json.dumps({"seen": seen, "later": later, "words": list(words.values()),
                      "answer": last.get("answer", "")}))
    await nc.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
