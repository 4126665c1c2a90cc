"""A client with a credential that sends messages of every size where it may publish.

    sizes.py <url> <credential> <name> <run>

Prints what it was told for each: the sequence, the server's refusal, or that its connection ended.
"""

import asyncio
import json
import sys

import nats

KIB = 1024
SIZES = [0, 1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 256 * KIB, 256 * KIB + 1, 300 * KIB, 512 * KIB + 1, 1000 * KIB]
TOO_LARGE = [KIB * KIB + 1, 8 * KIB * KIB]


async def connected(url, credential, name):
    lost = asyncio.Event()
    said = []

    async def gone():
        lost.set()

    async def error(problem):
        said.append(str(problem))

    nc = await nats.connect(url, user_credentials=credential, allow_reconnect=False, disconnected_cb=gone,
                            error_cb=error, inbox_prefix=("_INBOX_" + name).encode())
    return nc, lost, said


async def main(url, credential, name, run):
    subjects = [f"op.agent.status.{name}", f"report.{name}", f"mail.GO.{name}", f"ctl.GO.{name}",
                f"spawn.request.-.-.{name}", f"run.{name}.{run}", f"hb.{name}"]
    told = {}
    nc, lost, said = await connected(url, credential, name)
    for subject in subjects:
        for size in SIZES:
            for filling in (b"x", b'{"a":'):
                payload = (filling * (size // len(filling) + 1))[:size]
                if subject.startswith("hb."):
                    await nc.publish(subject, payload)
                    continue
                answer = json.loads((await nc.request(subject, payload, timeout=20)).data)
                error = answer.get("error")
                told.setdefault(subject.split(".")[0], {})[size] = error["err_code"] if error else 0
    await nc.flush(20)
    assert not lost.is_set(), said
    await nc.close()
    ends = []
    for size in TOO_LARGE:
        for sends_it in (False, True):
            nc, lost, said = await connected(url, credential, name)
            nc._transport.write(b"PUB report.%s %d\r\n" % (name.encode(), size))
            if sends_it:
                nc._transport.write(b"x" * size + b"\r\n")
            await nc._flush_pending(True)
            await asyncio.wait_for(lost.wait(), 20)
            ends.append(size)
            await nc.close()
    print(json.dumps({"told": told, "ends": ends}))


asyncio.run(main(*sys.argv[1:]))
