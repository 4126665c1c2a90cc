"""An external project orchestrator, written with nothing but a stock NATS client.

    foreign.py <url> <credential> <agent> <story>

It keeps the bus contract (docs/bus.md) and nothing else. Every story ends with one line of JSON
that says what it saw; a step that does not come out as the contract says ends it with a reason.
"""

import asyncio
import json
import os
import sys
import time

import nats
import nats.js.errors

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PATIENCE = 20


def ulid():
    number = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def check(held, what):
    if not held:
        raise SystemExit("not as the contract says: %s" % (what,))


class Agent:
    """One external agent: its connection, its inbox, the plan events it sees."""

    def __init__(self, name):
        self.name, self.refused, self.events = name, [], asyncio.Queue()

    async def connect(self, url, credential):
        self.nc = await nats.connect(url, user_credentials=credential, error_cb=self._error,
                                     inbox_prefix=("_INBOX_" + self.name).encode())
        self.js = self.nc.jetstream(prefix="$JS.fleet.API")
        await self.nc.subscribe("plan.>", cb=self._event)
        opened = await self.nc.request("inbox.open." + self.name, b'{"lane": "mail"}', timeout=PATIENCE)
        self.inbox = await self.js.pull_subscribe_bind(json.loads(opened.data)["consumer"], "MAIL")

    async def _error(self, error):
        self.refused.append(str(error))

    async def _event(self, message):
        await self.events.put((message.subject, json.loads(message.data)))

    async def ask(self, subject, body, headers=None):
        """Publishes a request and gives the mail that answers it."""
        body = {"requestId": ulid(), **body}
        request = body["requestId"]
        await self.js.publish(subject, json.dumps(body).encode(), headers=headers)
        return await self.answer(request)

    async def answer(self, request):
        """The mail with this correlation."""
        return await self.mail(lambda mail: mail.get("correlation") == request)

    async def mail(self, wanted):
        """The first mail that is wanted; others are passed by."""
        end = time.monotonic() + PATIENCE
        while True:
            left = end - time.monotonic()
            check(left > 0, "no mail in time")
            for message in await self.inbox.fetch(1, timeout=left):
                await message.ack()
                mail = json.loads(message.data)
                if wanted(mail):
                    return mail

    async def event(self):
        return await asyncio.wait_for(self.events.get(), PATIENCE)

    async def missed(self, wanted, last):
        """Plan events out of a consumer of one's own, up to a version. Each is taken by a reader of its
        own, so the consumer alone remembers how far they came."""
        opened = await self.nc.request("inbox.open." + self.name, json.dumps(wanted).encode(), timeout=PATIENCE)
        opened = json.loads(opened.data)
        check(opened == {"stream": "PLANS", "consumer": "plan-" + self.name}, opened)
        versions = []
        while not versions or versions[-1] < last:
            reader = await self.js.pull_subscribe_bind(opened["consumer"], opened["stream"])
            (message,) = await reader.fetch(1, timeout=PATIENCE)
            await message.ack_sync()
            versions.append(json.loads(message.data)["version"])
            await reader.unsubscribe()
        return versions

    async def register(self):
        """Begins a session and beats until the owner has seen that it lives."""
        reply = await self.ask("op.agent.register." + self.name, {})
        check(reply["topic"] == "reply", reply)
        session = {"session": reply["body"]["session"], "epoch": int(reply["body"]["agentEpoch"])}
        while True:
            await self.nc.publish("hb." + self.name, json.dumps(session).encode())
            status = await self.ask("op.agent.status." + self.name, {"agent": self.name})
            if status["body"]["liveness"] == "active":
                return session

    async def goal(self):
        """Gives itself a goal; the plan is one phase that grows by what is spawned."""
        plan = {"goal": {"title": "a foreign goal"},
                "phases": [{"id": "P1", "name": "work", "tasks": [
                    {"id": "T1.1", "name": "seed", "acceptance": ["it is there"]}]}]}
        project = self.name.removeprefix("PO-")
        reply = await self.ask("op.goal.create." + self.name, {"project": project, "plan": plan})
        check("error" not in reply["body"], reply)
        return reply["body"]["epic"]

    async def spawn(self, epic, **more):
        body = {"spawnReason": "the parts are independent",
                "requestedSubagents": [{"role": "worker", "task": "wait"}], **more}
        return await self.ask("spawn.request.%s.-.%s" % (epic, self.name), body)


async def story(agent):
    """Three children, a fourth refused, and the plan's versions as they grow."""
    await agent.register()
    epic = await agent.goal()
    subject, created = await agent.event()
    check(subject == "plan.created." + epic, subject)
    check(created["version"] == 1 and created["epicId"] == epic, created)
    accepted, versions = [], [1]
    for _ in range(3):
        mail = await agent.spawn(epic)
        check(mail["topic"] == "spawn.accepted", mail)
        check(mail["epic"] == epic, mail)
        (child,) = mail["body"]["spawnedAgents"]
        check(child["depth"] == 2 and child["host"] == "h1", child)
        accepted.append(child["actorId"])
    fourth = await agent.spawn(epic)
    check(fourth["topic"] == "spawn.denied", fourth)
    (denied,) = fourth["body"]["deniedAgents"]
    while versions[-1] < 4:
        subject, event = await agent.event()
        check(subject == "plan.updated." + epic, subject)
        versions.append(event["version"])
    last = versions[-1]
    missed = {"all": await agent.missed({"lane": "plan"}, last),
              "second": await agent.missed({"lane": "plan", "epic": epic, "version": 2}, last),
              "none": await agent.missed({"lane": "plan", "epic": epic, "version": 0}, last)}
    return {"epic": epic, "accepted": accepted, "denied": denied, "versions": versions, "missed": missed,
            "suggestion": fourth["body"].get("suggestion", "")}


async def again(agent):
    """One request in other spellings, under one `Nats-Msg-Id` and under others; and ones that cannot be read."""
    await agent.register()
    subject, request = "op.goal.create." + agent.name, ulid()
    plan = {"goal": {"title": "again"}, "phases": [{"id": "P1", "name": "p", "tasks": [
        {"id": "T1.1", "name": "t", "acceptance": ["it ends"]}]}]}
    body = {"requestId": request, "project": "foreign", "plan": plan}
    spellings = [json.dumps(body), json.dumps(body, sort_keys=True, indent=2),
                 json.dumps({"plan": {**plan, "profiles": {}}, "project": "foreign", "request_id": request})]
    answers, duplicates = [], []

    async def replied(to):
        return await agent.mail(lambda mail: mail.get("correlation") == to and mail["topic"] == "reply")

    for spelling in spellings:
        stored = await agent.js.publish(subject, spelling.encode(), headers={"Nats-Msg-Id": ulid()})
        duplicates.append(bool(stored.duplicate))
        answers.append((await replied(request))["body"])
    one = {"Nats-Msg-Id": ulid()}
    for headers in (one, one, None):
        stored = await agent.js.publish(subject, spellings[0].encode(), headers=headers)
        duplicates.append(bool(stored.duplicate))
        if not stored.duplicate:
            answers.append((await replied(request))["body"])
    read, reads = ulid(), []
    for _ in range(2):
        await agent.js.publish("op.agent.status." + agent.name,
                               json.dumps({"requestId": read, "agent": agent.name}).encode())
        reads.append((await replied(read))["body"])
    unreadable = []
    for broken in ('{"requestId": "%s", "plan": {' % request, "{"):
        await agent.js.publish(subject, broken.encode())
        mail = await agent.mail(lambda mail: mail["body"].get("error") == "invalid_request")
        unreadable.append(mail.get("correlation"))
    return {"request": request, "answers": answers, "duplicates": duplicates, "reads": reads,
            "unreadable": unreadable}


async def hostile(agent):
    """What a wrong or ill-meaning client sends, and what it is told."""
    await agent.register()
    epic = await agent.goal()
    said = {}

    async def refused(name, subject, body):
        mail = await agent.ask(subject, body)
        check(mail["topic"] in ("spawn.denied", "reply"), mail)
        said[name] = mail["body"]

    own = "spawn.request.%s.-.%s" % (epic, agent.name)
    children = {"requestedSubagents": [{"role": "worker", "task": "wait"}]}
    await refused("unknown_field", own, {**children, "spawnReason": "x", "nonsense": 1})
    await refused("unknown_inside", own, {"requestedSubagents": [
        {"role": "worker", "task": "wait", "shell": "rm"}]})
    await refused("wrong_role", own, {"requestedSubagents": [{"role": "emperor", "task": "x"}]})
    await refused("claims_another", own, {**children, "sender": "PO-other"})
    await refused("for_another", own, {**children, "parent": "GO"})
    await refused("bad_name", "spawn.request.%s.-.%s" % ("goal_nonsense", agent.name), children)
    await refused("long_reason", own, {**children, "spawnReason": "x" * 3000})
    try:
        await agent.ask(own, {**children, "spawnReason": "x" * 500_000})
        said["oversized"] = "stored"
    except nats.js.errors.APIError as error:
        said["oversized"] = str(error)
    await refused("unknown_op", "op.coffee.make." + agent.name, {})
    await refused("unknown_op_field", "op.agent.status." + agent.name,
                  {"agent": agent.name, "colour": "red"})
    await refused("not_for_agents", "op.project.retire." + agent.name, {"project": "foreign"})

    old = await agent.ask(own, dict(children), headers={"Tetrarch-Epoch": "7"})
    said["wrong_epoch"] = old["body"]

    # What the server itself refuses: another's name, the owner's subjects, others' mail.
    before = len(agent.refused)
    forbidden = ["spawn.request.%s.-.PO-other" % epic, "op.agent.register.PO-other",
                 "ledger.main", "$KV.STATE.agent.GO", "plan.updated." + epic,
                 "hb.PO-other", "cursor.GO", "mail.PO-other.GO"]
    for subject in forbidden:
        await agent.nc.publish(subject, b"{}")
    await agent.nc.flush()
    await agent.nc.subscribe("mail.PO-other.>")
    await agent.nc.flush()
    said["forbidden"] = len(forbidden) + 1
    # The client tells of a refusal some time after the flush that brought it.
    end = time.monotonic() + PATIENCE
    while len(agent.refused) < before + said["forbidden"] and time.monotonic() < end:
        await asyncio.sleep(0.01)
    said["server_refused"] = agent.refused[before:]

    for body in (b"", b"\xff\xfe", b"[" * 100_000, b"null", b"\x00" * 64):
        await agent.js.publish(own, body)
        await agent.js.publish("report." + agent.name, body)
        await agent.js.publish("op.goal.create." + agent.name, body)
        await agent.js.publish("mail.GO." + agent.name, body)

    mail = await agent.spawn(epic)
    check(mail["topic"] == "spawn.accepted", mail)
    said["child"] = mail["body"]["spawnedAgents"][0]["actorId"]
    await agent.js.publish("mail.%s.%s" % (said["child"], agent.name),
                           b'{"topic": "weather.report", "body": {"text": "rain"}}')
    await agent.js.publish("mail.%s.%s" % (said["child"], agent.name),
                           b'{"topic": "info", "body": {"text": "hello"}}')
    return {"said": said}


async def receipts(agent):
    """Asks for receipts of mail to a child, to GO and to nobody who may read it."""
    await agent.register()
    epic = await agent.goal()
    children = [{"role": "worker", "task": "wait for a letter", "runner": "mortal"}]
    mail = await agent.spawn(epic, requestedSubagents=children)
    check(mail["topic"] == "spawn.accepted", mail)
    child = mail["body"]["spawnedAgents"][0]["actorId"]
    told = {}

    async def send(name, to, topic, stages):
        body = {"topic": topic, "ackRequired": True, "epic": epic, "body": {"text": name}}
        headers = {"Nats-Msg-Id": "%s.%s" % (agent.name, name)}
        stored = await agent.js.publish("mail.%s.%s" % (to, agent.name),
                                        json.dumps(body).encode(), headers=headers)
        about = lambda mail: (mail["topic"] in ("receipt", "mail.dead")
                              and mail["body"]["of"]["seq"] == str(stored.seq))
        told[name] = [await agent.mail(about) for _ in range(stages)]

    await send("child", child, "info", 2)
    result = await agent.mail(lambda mail: mail["topic"] == "result.ready")
    check("child" in json.dumps(result), result)
    await send("go", "GO", "info", 1)
    await send("unknown", "GO", "weather.report", 1)
    # What tells of another message leads to nothing, however often it is set aside.
    await agent.js.publish("mail.GO." + agent.name, b'{"topic": "mail.dead", "ackRequired": true}')
    await send("after", "GO", "info", 1)
    return {"told": told, "child": child}


BROKEN = [b"NATS/1.0\r\nTraceparent: \xff\xfe\r\n\r\n", b"NATS/1.0\r\nno colon\r\n\r\n",
          b"HTTP/1.1 200\r\n\r\n", b"\xff\r\n\r\n", b"NATS/1.0 404\r\n\r\n", b"NATS/1.0 100 Idle\r\n\r\n",
          b"NATS/1.0 nine\r\n\r\n", b"NATS/1.0\r\nx: a\rb\r\n\r\n"]


async def bytes_of_any_kind(agent):
    """Subjects and headers that are no text, and between them what has to be handled as ever."""
    await agent.register()
    epic = await agent.goal()
    name = agent.name.encode()
    for subject in (b"op.\xff\xfe.x.", b"spawn.request.\xc3\x28.-.", b"mail.\xff\xfe.",
                    b"ctl.\xff\xfe."):
        agent.nc._transport.write(b"PUB %s%s 2\r\n{}\r\n" % (subject, name))

    def broken(subject):
        for header in BROKEN:
            sizes = (subject.encode(), name, len(header), len(header) + 2, header)
            agent.nc._transport.write(b"HPUB %s%s %d %d\r\n%s{}\r\n" % sizes)

    for subject in ("report.", "mail.GO.", "mail.HO@h1.", "ctl.HO@h1."):
        broken(subject)
    children = [{"role": "worker", "task": "wait for a letter", "runner": "letter"}]
    mail = await agent.spawn(epic, requestedSubagents=children)
    check(mail["topic"] == "spawn.accepted", mail)
    child = mail["body"]["spawnedAgents"][0]["actorId"]
    broken("mail.%s." % child)
    await agent.js.publish("mail.%s.%s" % (child, agent.name),
                           b'{"topic": "info", "body": {"text": "it came through"}}')
    result = await agent.mail(lambda mail: mail["topic"] == "result.ready")
    check("it came through" in json.dumps(result), result)
    mail = await agent.spawn(epic)
    check(mail["topic"] == "spawn.accepted", mail)
    return {"child": mail["body"]["spawnedAgents"][0]["actorId"]}


STORIES = {"story": story, "hostile": hostile, "bytes": bytes_of_any_kind, "receipts": receipts,
           "again": again}


async def main(url, credential, name, which):
    agent = Agent(name)
    await agent.connect(url, credential)
    seen = await STORIES[which](agent)
    print(json.dumps(seen))
    await agent.nc.close()


asyncio.run(main(*sys.argv[1:]))
