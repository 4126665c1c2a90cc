"""A client with a credential and bad intentions: a seeded storm of messages on every subject that
its credential lets it publish to.

    storm.py <url> <credential> <seed> <count> <what.json>

`what.json` holds `publish`, the patterns it may publish to; `words`, tokens that mean something here;
`old`, messages that were sent before, as [subject, payload in hex]; `others`, its own subjects that
others' names are put into. It ends well only when its connection was never closed.
"""

import asyncio
import json
import random
import sys

import nats

# The managed server takes 1 MiB; what is larger ends the connection of whoever sends it.
PAYLOAD_MAX = 1_000_000
BATCH = 50
SAFE = bytes(set(range(33, 127)) - set(b".*>"))
KEYS = ["requestId", "request_id", "sender", "kind", "topic", "body", "requestedSubagents", "role", "task", "brief",
        "budget", "tools", "placement", "plan", "result", "verdict", "event", "run", "usage", "positions", "session",
        "epoch", "minReaderVersion", "mail", "ctl", "claim", "host", "\u0000", "\U0001f300"]
HEADERS = ["Nats-Msg-Id", "Tetrarch-Kind", "Tetrarch-Session", "Tetrarch-Epoch", "traceparent", "tracestate",
           "Nats-Rollup", "Nats-TTL", "Nats-Expected-Last-Sequence", "Nats-Schedule", "Nats-Incr", "Status"]
VALUES = [b"", b"0", b"1", b"7", b"-1", b"18446744073709551616", b"all", b"sub", b"1s", b"never", b"@every 1s",
          b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b"\xff\xfe", "\u2028".encode(), b"x" * 4000]
BLOCKS = [b"NATS/1.0\r\nno colon\r\n\r\n", b"NATS/1.0\r\nx: a\rb\r\n\r\n", b"HTTP/1.1 200\r\n\r\n", b"\xff\r\n\r\n", b"NATS/1.0 404\r\n\r\n",
          b"NATS/1.0 nine\r\n\r\n", b"NATS/1.0\r\n: nameless\r\n\r\n", b"NATS/1.0 100 Idle\r\n\r\n"]


class Storm:
    def __init__(self, seed, what):
        self.dice = random.Random(seed)
        self.what = what

    def token(self):
        dice = self.dice
        kind = dice.randrange(10)
        if kind < 6:
            return dice.choice(self.what["words"]).encode()
        if kind == 6:
            return bytes(dice.randrange(128, 256) for _ in range(dice.randrange(1, 20)))
        if kind == 7:
            return dice.choice([b"*", b">", b"-", b"~", b"GO"])
        return bytes(dice.choice(SAFE) for _ in range(dice.choice([1, 5, 30, 300])))

    def subject(self):
        tokens = []
        for token in self.dice.choice(self.what["publish"]).split("."):
            if token == ">":
                tokens += [self.token() for _ in range(self.dice.randrange(1, 4))]
            else:
                tokens.append(self.token() if token == "*" else token.encode())
        return b".".join(tokens)

    def value(self, depth):
        dice = self.dice
        kind = dice.randrange(9 if depth else 7)
        if kind == 7:
            return [self.value(depth - 1) for _ in range(dice.randrange(5))]
        if kind == 8:
            return {dice.choice(KEYS): self.value(depth - 1) for _ in range(dice.randrange(6))}
        return [None, True, dice.randrange(-2**63, 2**64), dice.random() * 1e300, dice.choice(self.what["words"]),
                "x" * dice.randrange(5000), "\ud800" if dice.random() < 0.1 else "\u0000"][kind]

    def payload(self):
        dice = self.dice
        kind = dice.randrange(10)
        if kind == 0:
            return b""
        if kind == 1:
            return dice.randbytes(dice.choice([1, 10, 100, 1000]))
        if kind == 2 and dice.random() < 0.2:
            return dice.choice([b"[", b'{"brief":', b"\x00", b"{}"]) * dice.choice([1000, 20_000, 100_000])
        if kind == 3 and dice.random() < 0.2:
            return dice.randbytes(dice.choice([60_000, 262_144, 300_000, PAYLOAD_MAX]))
        if kind < 6 or not self.what["old"]:
            body = {dice.choice(KEYS): self.value(4) for _ in range(8)}
            return json.dumps(body).encode()
        return self.damaged(bytes.fromhex(dice.choice(self.what["old"])[1]))

    def damaged(self, payload):
        dice = self.dice
        payload = bytearray(payload)
        for _ in range(dice.randrange(3)):
            if payload:
                payload[dice.randrange(len(payload))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.2:
            del payload[dice.randrange(len(payload) + 1):]
        return bytes(payload)

    def headers(self):
        dice = self.dice
        if dice.random() < 0.5:
            return None
        if dice.random() < 0.1:
            return dice.choice(BLOCKS)
        lines = [b"%s: %s\r\n" % (dice.choice(HEADERS).encode(), dice.choice(VALUES)) for _ in range(dice.randrange(5))]
        return b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n"

    def message(self):
        old = self.dice.random() < 0.2 and self.what["old"]
        if old:
            subject, payload = self.dice.choice(old)
            return self.wire(subject.encode(), None, bytes.fromhex(payload))
        return self.wire(self.subject(), self.headers(), self.payload())

    @staticmethod
    def wire(subject, headers, payload):
        payload = payload[:PAYLOAD_MAX - len(headers or b"")]
        if headers is None:
            return b"PUB %s %d\r\n%s\r\n" % (subject, len(payload), payload)
        return b"HPUB %s %d %d\r\n%s%s\r\n" % (subject, len(headers), len(headers) + len(payload), headers, payload)


async def main(url, credential, seed, count, what):
    lost, refused = [], []

    async def gone():
        lost.append(True)

    async def error(problem):
        refused.append(str(problem))

    with open(what) as file:
        storm = Storm(int(seed), json.load(file))
    nc = await nats.connect(url, user_credentials=credential, allow_reconnect=False, disconnected_cb=gone, error_cb=error)
    for at in range(0, int(count), BATCH):
        for _ in range(BATCH):
            nc._transport.write(storm.message())
        await nc.flush(60)
    assert not lost, refused[-5:]
    print(json.dumps({"refused": len(refused)}))
    await nc.close()


asyncio.run(main(*sys.argv[1:]))
