"""An agent that speaks NATS itself (docs/bus.md): identity, heartbeat, inbox, cursor, journal and requests.

    async def work(agent): ...

    sys.exit(run(work, window=5.0))

A program needs this file, Python 3.9 or newer and nats-py with nkeys. It must not know what the work is about.

What is taken from the inbox counts only when `checkpoint` has stored it: the journal gets the state with how far
the inbox was read, then the cursor moves, then the messages are acknowledged. A successor goes on from there, so
`state` must hold everything it needs, the ids of requests that were made among it.
"""

import asyncio
import hashlib
import json
import os
import sys
import time

import nats
import nats.errors
from nats.js.errors import APIError, NotFoundError

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LANES = ("ctl", "mail")
API = "$JS.fleet.API"
"""Where agents find the JetStream API: the streams are the control plane's."""
WRONG_LAST_SEQUENCE = 10071
WITHIN = 30
"""Seconds in which the owner must have answered."""


class Ended(Exception):
    """This session is over; the text says why."""


def ulid(number=None):
    """A fresh ULID, or a number of 128 bits written as one."""
    if number is None:
        number = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


class Agent:
    """One session of an external agent.

    `state` is what the last checkpoint of any session stored, `resumed` whether there was one, `published` the ids
    of the requests that this session made.
    """

    def __init__(self, name, window):
        self.name, self.window = name, window
        # A journal of its own under a name that every session finds again.
        digest = hashlib.sha256(name.encode()).digest()[:16]
        self.run = "run_" + ulid(int.from_bytes(digest, "big"))
        self.journal = "run.%s.%s" % (name, self.run)
        self.state, self.resumed, self.progress = {}, False, 0
        self.positions = dict.fromkeys(LANES, 0)
        self.published, self.session = set(), None
        self._unacknowledged, self._index, self._beating, self._ended = [], 0, None, None

    async def join(self, url, credential):
        """Connects, begins a session, takes over what the one before it left, and lives."""
        self.nats = await nats.connect(url, user_credentials=credential, max_reconnect_attempts=-1,
                                       inbox_prefix=("_INBOX_" + self.name).encode())
        self.bus = self.nats.jetstream(prefix=API)
        await self._register()
        await self._take_over()
        await self._open_inbox()
        self._beating = asyncio.create_task(self._beat())

    async def leave(self):
        """Ends without giving anything up: the next session goes on."""
        if self._beating:
            self._beating.cancel()
        await self.nats.close()

    async def _register(self):
        """The answer is read from the inbox like any mail, by a subscription that lasts as long as the question."""
        request = ulid()
        answers = await self.nats.subscribe("mail.%s.>" % self.name)
        await self.publish("op.agent.register." + self.name, {"requestId": request})
        end = time.monotonic() + WITHIN
        while True:
            message = await answers.next_msg(timeout=max(end - time.monotonic(), 0.001))
            mail = json.loads(message.data)
            if mail.get("correlation") == request:
                break
        await answers.unsubscribe()
        reply = mail["body"]
        if reply.get("error"):
            raise Ended("%s: %s" % (reply["error"], reply.get("detail", "")))
        self.session, self.epoch = reply["session"], int(reply["agentEpoch"])

    async def _take_over(self):
        """Claims the cursor that the owner sealed for this session, and reads the journal's end."""
        subject = "cursor." + self.name
        end = time.monotonic() + WITHIN
        while True:
            sealed = await self._last("CURSORS", subject)
            cursor = json.loads(sealed.data) if sealed else {}
            if int(cursor.get("epoch", 0)) > self.epoch:
                raise Ended("epoch %s took over" % cursor["epoch"])
            if int(cursor.get("epoch", 0)) == self.epoch:
                break
            if time.monotonic() > end:
                raise Ended("the cursor was not sealed for epoch %d" % self.epoch)
            await asyncio.sleep(0.05)
        self._cursor_at = sealed.seq
        self._see(cursor.get("positions"))
        journal = await self._last("RUNS", self.journal)
        self._journal_at = journal.seq if journal else 0
        if journal:
            entry = json.loads(journal.data)
            self._index = int(entry["index"])
            self._see(entry.get("positions"))
            self.state, self.resumed = entry["checkpoint"]["state"], True
        self._claim = {"host": "external", "hostEpoch": self.epoch, "instance": self.session}
        await self._move_cursor()

    def _see(self, positions):
        for lane, position in (positions or {}).items():
            self.positions[lane] = max(self.positions[lane], int(position))

    async def _last(self, stream, subject):
        try:
            return await self.bus.get_last_msg(stream, subject, direct=True)
        except NotFoundError:
            return None

    async def _open_inbox(self):
        """A consumer for each lane, from behind what is stored: what the last session took and did not store
        comes again, without waiting until its acknowledgement is overdue."""
        self._inbox = {}
        for lane in LANES:
            wanted = json.dumps({"lane": lane, "after": self.positions[lane]}).encode()
            answer = await self.nats.request("inbox.open." + self.name, wanted, timeout=WITHIN)
            opened = json.loads(answer.data)
            if "error" in opened:
                raise Ended("no inbox: " + opened["error"])
            self._inbox[lane] = await self.bus.pull_subscribe_bind(opened["consumer"], "MAIL")

    async def _beat(self):
        while True:
            body = {"session": self.session, "epoch": self.epoch, "runState": "running", "progress": self.progress,
                    "positions": self.positions}
            await self.nats.publish("hb." + self.name, json.dumps(body).encode())
            await asyncio.sleep(self.window / 3)

    async def mail(self, timeout):
        """The next messages, control before mail; none after so many seconds. Orders to end are obeyed here."""
        for lane in LANES:
            try:
                batch = await self._inbox[lane].fetch(16, timeout=timeout if lane == LANES[-1] else 0.05)
            except (nats.errors.TimeoutError, asyncio.TimeoutError):
                continue
            mails = []
            for message in batch:
                self._unacknowledged.append(message)
                self._see({lane: message.metadata.sequence.stream})
                self.progress += 1
                mail = json.loads(message.data)
                self._obey(message.subject, mail)
                mails.append(mail)
            return mails
        return []

    def _obey(self, subject, mail):
        """Only the owner and people end a session, by the control lane, and only the one that they name: its epoch,
        and its session where it is given."""
        lane, _, *sender = subject.split(".")
        order = mail.get("body") or {}
        known = order.get("session") in (None, "", self.session) and int(order.get("epoch") or 0) == self.epoch
        # A host's name behind the sender would say that the host speaks for it, and it does so for neither.
        if lane == "ctl" and len(sender) == 1 and (sender[0] == "GO" or sender[0].startswith("human:")) and known:
            if mail["topic"] in ("stop", "kill", "superseded"):
                self._ended = "%s: %s" % (mail["topic"], order.get("reason", ""))

    async def checkpoint(self):
        """Stores `state` and how far the inbox was read; whoever took over meanwhile makes this fail."""
        self._index += 1
        entry = {"run": self.run, "agent": self.name, "session": self.session, "epoch": self.epoch,
                 "index": self._index, "positions": self.positions, "checkpoint": {"state": self.state}}
        self._journal_at = await self._expect(self.journal, entry, self._journal_at)
        await self._move_cursor()
        for message in self._unacknowledged:
            await message.ack()
        self._unacknowledged.clear()
        if self._ended:
            raise Ended(self._ended)

    async def _move_cursor(self):
        cursor = {"agent": self.name, "session": self.session, "epoch": self.epoch, "positions": self.positions,
                  "claim": self._claim}
        self._cursor_at = await self._expect("cursor." + self.name, cursor, self._cursor_at)

    async def _expect(self, subject, body, last):
        try:
            return await self.publish(subject, body, {"Nats-Expected-Last-Subject-Sequence": str(last)})
        except APIError as error:
            if error.err_code == WRONG_LAST_SEQUENCE:
                raise Ended("another session writes " + subject) from error
            raise

    async def publish(self, subject, body, headers=None):
        """Stores a message and gives its sequence. The same request again is answered the same by its `requestId`."""
        headers = dict(headers or {})
        if self.session:
            headers.update({"Tetrarch-Session": self.session, "Tetrarch-Epoch": str(self.epoch)})
        if "requestId" in body:
            self.published.add(body["requestId"])
        stored = await self.bus.publish(subject, json.dumps(body).encode(), headers=headers)
        return stored.seq

    async def records(self, kind, rest):
        """The records of a kind as STATE has them now, by their key."""
        start = "$KV.STATE.%s." % kind
        inbox, found = self.nats.new_inbox(), {}
        answers = await self.nats.subscribe(inbox)
        wanted = json.dumps({"multi_last": [start + rest]}).encode()
        await self.nats.publish(API + ".DIRECT.GET.KV_STATE", wanted, reply=inbox)
        while True:
            message = await answers.next_msg(timeout=WITHIN)
            if "Status" in (message.headers or {}):
                break
            if message.data:
                found[message.headers["Nats-Subject"][len(start):]] = json.loads(message.data)
        await answers.unsubscribe()
        return found


def run(work, window=5.0):
    """Runs a program: `<program> <agent> <url> <credential>`. The exit code is 0 when `work` returned, 1 when the
    session ended otherwise."""
    if len(sys.argv) != 4:
        print("usage: %s <agent> <url> <credential>" % sys.argv[0], file=sys.stderr)
        return 2
    name, url, credential = sys.argv[1:]

    async def session():
        agent = Agent(name, window)
        await agent.join(url, credential)
        try:
            await work(agent)
        finally:
            await agent.leave()

    try:
        asyncio.run(session())
    except Ended as why:
        print("%s ends: %s" % (name, why), file=sys.stderr)
        return 1
    return 0
