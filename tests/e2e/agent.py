"""A hosted agent that speaks the stdio protocol (docs/stdio-protocol.md).

    agent.py nest          asks for one worker, waits for what it came to, and tells of it
    agent.py deeper        asks for a worker it may not have, and tells what it was answered
    agent.py meet <dir> N  comes into a directory and waits until N are there
    agent.py insist <gate>  waits for a gate, asks for a worker and dies; asks again, and tells the answer
    agent.py gate <file>   waits until there is such a file
    agent.py steps <file> N  writes steps 1..N to a file, each once; dies at every third
    agent.py walk <file> <gate> N  writes steps 1..N to a file; after the third it waits for a gate
    agent.py turn <file> N  writes steps 1..N to a file; after the third it waits to be rotated
    agent.py deaf <file> N  writes steps 1..N to a file; after the third it hears nothing, TERM neither
    agent.py pace <dir> N  writes steps 1..N to a file named after its node, one every 150 ms
    agent.py letter        waits for a letter, and tells what is in it
    agent.py stuck         says that it is blocked, and stays so
    agent.py mute <file>   writes its number to a file, and hears neither a stop nor TERM
    agent.py record <file> N how  makes steps 1..N and tells a file what it begins, makes and has saved; after
                           the third, once, it dies or waits, as it is told
    agent.py perish <file> S  notes its session in a file and dies S seconds later, every time
    agent.py poisoned <file>  waits for a letter, notes its session in a file and dies, every time
    agent.py mortal        waits for a letter, and dies of it; the next session tells what is in it
    agent.py silent <file>  notes who it is in a file, begins and says nothing; goes on when it was told of the vault
    agent.py leak          says credentials in every way there is, and asks; tells more when it was answered
    agent.py canary how S..  says what it was passed, and each S backwards, in every encoding and every way there is,
                           and ends as it is told: done, failed or with a code
    agent.py asked         waits to be asked how it stands, twice, and says so; tells by which names it was asked
    agent.py helm <file>   takes steers and interrupts, and notes them in a file, where it counts too; ends when
                           it is steered to
    agent.py bomb N how    asks for N workers as fast as it can, and tells how many it got and was denied, or stays
    agent.py permitted <file>  asks for the use of two tools, waits for a file, asks when, and tells what it heard
    agent.py wonder        asks a question and dies of the answer; asks again, then another, and tells what it heard
"""

import base64
import json
import os
import signal
import sys
import threading
import time
import urllib.parse

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PATIENCE = 120


def ulid():
    number = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(1)
    return json.loads(line)


def say(kind, **fields):
    print(json.dumps({"type": kind, **fields}), flush=True)


def ask(profile, request=None):
    """Asks for one worker."""
    say("spawn", requestId=request or ulid(), spawnReason="a part is independent",
        requestedSubagents=[{"role": "worker", "task": "a part of it", "runner": profile}])


def nest(brief):
    ask("deeper")
    heard = []
    while not heard or heard[-1]["topic"] != "result.ready":
        line = read()
        if line["type"] == "mail":
            heard.append(line)
            if line["topic"] == "spawn.denied":
                break
    return {"depth": brief["depth"], "agent": brief["agent"], "heard": heard}


def deeper(brief):
    ask("deeper")
    while True:
        line = read()
        if line["type"] == "mail" and line["topic"].startswith("spawn."):
            return {"depth": brief["depth"], "answer": line}


def bomb(brief, count, how="tell"):
    """Reads while it asks: whoever does not read is told to, by a full pipe."""
    count, told = int(count), {"spawn.accepted": 0, "spawn.denied": 0}
    asking = threading.Thread(target=lambda: [ask("bomblet") for _ in range(count)], daemon=True)
    asking.start()
    while sum(told.values()) < count:
        line = read()
        if line["type"] == "mail" and line["topic"] in ("spawn.accepted", "spawn.sponsor.answer"):
            told["spawn.accepted" if line["body"].get("spawnedAgents") else "spawn.denied"] += 1
        elif line["type"] == "mail" and line["topic"] == "spawn.denied":
            told["spawn.denied"] += 1
    while how == "stay":
        read()
    return {"depth": brief["depth"], **told}


def save(**state):
    say("checkpoint", state=state, confirm=True)
    while read()["type"] != "saved":
        pass


def insist(brief, path):
    until(lambda: os.path.exists(path))
    request = (brief["checkpoint"] or {"request": ulid()})["request"]
    save(request=request)
    ask("deeper", request)
    if brief["epoch"] == 1:
        # What is recorded after it has left after it.
        save(request=request)
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        line = read()
        if line["type"] == "mail" and line["topic"].startswith("spawn."):
            return {"epoch": brief["epoch"], "answer": line}


def until(there):
    end = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > end:
            say("result", outcome="failure", error="nobody came")
            sys.exit(1)
        time.sleep(0.01)


def meet(brief, directory, count):
    open(os.path.join(directory, brief["agent"].replace(":", "-")), "w").close()
    until(lambda: len(os.listdir(directory)) >= int(count))
    return {"agent": brief["agent"]}


def gate(brief, path):
    until(lambda: os.path.exists(path))
    return {"agent": brief["agent"], "epoch": brief["epoch"]}


def steps(brief, path, count):
    done = (brief["checkpoint"] or {"done": 0})["done"]
    while done < int(count):
        done += 1
        with open(path, "a") as witness:
            print(done, brief["epoch"], file=witness)
        say("checkpoint", state={"done": done})
        if done % 3 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return {"steps": done, "epoch": brief["epoch"]}


def walk(brief, path, gate, count):
    done = (brief["checkpoint"] or {"done": 0})["done"]
    while done < int(count):
        if done == 3:
            until(lambda: os.path.exists(gate))
        done += 1
        with open(path, "a") as witness:
            print(done, brief["epoch"], file=witness)
        say("checkpoint", state={"done": done})
    return {"steps": done, "epoch": brief["epoch"]}


def turn(brief, path, count):
    done = (brief["checkpoint"] or {"done": 0})["done"]
    while done < int(count):
        if done == 3 and brief["epoch"] == 1:
            rotation = read()
            assert rotation["type"] == "rotate", rotation
            say("checkpoint", state={"done": done, "reason": rotation["reason"]})
            sys.exit(0)
        done += 1
        with open(path, "a") as witness:
            print(done, brief["epoch"], file=witness)
        say("checkpoint", state={"done": done})
    return {"steps": done, "given": brief["checkpoint"]}


def deaf(brief, path, count):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    before = brief["checkpoint"] or {"done": 0, "pid": 0}
    done = before["done"]
    if before["pid"] and os.path.exists("/proc/%d" % before["pid"]):
        say("result", outcome="failure", error="two at once")
        sys.exit(1)
    while done < int(count):
        while done == 3 and brief["epoch"] == 1:
            time.sleep(60)
        done += 1
        with open(path, "a") as witness:
            print(done, brief["epoch"], file=witness)
        say("checkpoint", state={"done": done, "pid": os.getpid()})
    return {"steps": done, "epoch": brief["epoch"]}


def pace(brief, directory, count):
    done = (brief["checkpoint"] or {"done": 0})["done"]
    while done < int(count):
        done += 1
        with open(os.path.join(directory, brief["node"]), "a") as witness:
            print(done, brief["epoch"], file=witness)
        save(done=done)
        time.sleep(0.15)
    return {"steps": done, "epoch": brief["epoch"]}


def record(brief, path, count, how):
    state = brief["checkpoint"] or {"done": 0, "turned": False}

    def note(what):
        with open(path, "a") as witness:
            print(what, state["done"], brief["epoch"], file=witness)

    note("begun")
    while state["done"] < int(count):
        if state["done"] == 3 and not state["turned"]:
            state["turned"] = True
            save(**state)
            if how == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            # A session before it may have been lost before it got here.
            until(lambda: brief["epoch"] > 1)
        state["done"] += 1
        note("made")
        save(**state)
        note("saved")
    return {"steps": state["done"], "epoch": brief["epoch"]}


def letter(brief):
    while True:
        line = read()
        if line["type"] == "mail" and line["topic"] == "info":
            return line["body"]


def stuck(brief):
    say("blocked", reason="a lock that nobody gives back")
    until(lambda: False)


def mute(brief, path):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(path, "w") as witness:
        print(os.getpid(), file=witness)
    until(lambda: False)


def mortal(brief):
    body = letter(brief)
    if brief["epoch"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"epoch": brief["epoch"], "body": body}


def perish(brief, path, seconds):
    with open(path, "a") as witness:
        print(brief["epoch"], file=witness)
    time.sleep(float(seconds))
    os.kill(os.getpid(), signal.SIGKILL)


def poisoned(brief, path):
    letter(brief)
    perish(brief, path, 0)


def helm(brief, path):
    def note(what):
        with open(path, "a") as witness:
            print(what, file=witness)

    def count():
        while True:
            with open(path + ".count", "a") as witness:
                print(brief["epoch"], file=witness)
            time.sleep(0.02)

    threading.Thread(target=count, daemon=True).start()
    say("takes", verbs=["steer", "interrupt"])
    note("up %d" % brief["epoch"])
    while True:
        line = read()
        if line["type"] in ("steer", "interrupt"):
            note("%s %s" % (line["type"], line.get("text", line.get("reason"))))
            say("taken", id=line["id"])
            if line.get("text") == "end":
                return {"epoch": brief["epoch"]}


def answer(question, options=()):
    say("ask", question=question, options=list(options))
    while True:
        line = read()
        if line["type"] == "mail" and line["topic"] == "answer":
            return line["body"]["text"]


def permitted(brief, path):
    uses = [answer("May it use %s?" % tool, ["allow", "deny"]) for tool in ("run", "fetch")]
    until(lambda: os.path.exists(path))
    return {"uses": uses, "when": answer("And when?", ["now", "later"])}


def wonder(brief):
    which = answer("Which one?", ["A", "B"])
    if brief["epoch"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"epoch": brief["epoch"], "which": which, "when": answer("And when?")}


def silent(brief, path):
    with open(path, "a") as witness:
        print(brief["agent"], file=witness)
    say("progress", text="looking for the key")
    while "in the vault" not in json.dumps(brief):
        read()
    return "opened"


def leak(brief):
    body = "MIIE" + "q7W" * 20
    pem = ["-----BEGIN PRIVATE KEY-----", body, body, "-----END PRIVATE KEY-----"]
    secrets = ["ghp_" + "aB3" * 12, "AKIA" + "ABCD234E" * 2, "sk-" + "x9Y" * 12, "xoxb-" + "1a-" * 8,
               "postgres://me:hunter2pass@db/x", "\n".join(pem)]
    spilt = "it is " + " and ".join(secrets) + " there"
    for secret in secrets:
        print("log:", secret, flush=True)
    print(json.dumps({"type": "progress", "text": 7, "note": spilt}), flush=True)
    print("\n".join(pem), file=sys.stderr, flush=True)
    say("progress", text=spilt)
    say("checkpoint", state={"spilt": [spilt]})
    say("update", overseerUpdate={"status": "in_progress", "summary": spilt, "evidence": {"commandsRun": [spilt]}})
    say("blocked", reason=spilt)
    say("unblocked")
    say("spawn", requestId=ulid(), spawnReason=spilt, requestedSubagents=[{"role": "worker", "task": spilt}])
    say("ask", question=spilt, options=[spilt, "no"])
    while True:
        line = read()
        if line["type"] == "mail" and line["topic"] == "answer":
            break
    say("result", outcome="success", deliverable={"spilt": [spilt], "long": spilt * 400}, crystallization=spilt,
        evidence={"commands": [spilt], "files": ["x"], "tests": [spilt], "commits": ["da39a3ee5e6b4b0d3255bfef95601890afd80709"]})
    sys.exit(0)


def encoded(secret):
    """How programs write a secret."""
    raw = secret.encode()
    for before in (b"", b"a", b"bc"):
        for after in (b"", b"z"):
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                text = encode(before + raw + after).decode()
                yield from (text, text.rstrip("="))
    letters = "".join(f"\\u{ord(letter):04x}" for letter in secret)
    bytewise = "".join(f"%{byte:02x}" for byte in raw)
    yield from (secret, raw.hex(), raw.hex().upper(), urllib.parse.quote(secret, safe=""), urllib.parse.quote(secret),
                urllib.parse.quote_plus(secret), bytewise, json.dumps(secret), json.dumps(json.dumps(secret)), letters)


def canary(brief, how, *backwards):
    secrets = [os.environ["CANARY_GIVEN"], *(secret[::-1] for secret in backwards)]
    forms = [form for secret in secrets for form in encoded(secret)]
    spilt = " and ".join(forms)
    for pipe in (sys.stdout, sys.stderr):
        for form in forms:
            for part in ("log: ", form[:5], form[5:-3], form[-3:] + "\n"):
                pipe.write(part)
                pipe.flush()
    for secret in secrets:
        print(json.dumps({"type": "progress", secret: secret}), flush=True)
        say("progress", text=secret)
    with open("spilt.txt", "w") as file:
        file.write("\n".join(forms * 100))
    say("artifact", name="spilt.txt", path="spilt.txt", mediaType="text/plain")
    say("artifact", name=secrets[0], path="spilt.txt", mediaType="text/plain")
    say("artifact", name="none", path=secrets[0], mediaType="text/plain")
    say("progress", text=spilt)
    say("checkpoint", state={"spilt": [spilt], **{secret: secret for secret in secrets}})
    say("update", overseerUpdate={"status": "in_progress", "summary": spilt, "evidence": {"commandsRun": [spilt]}})
    say("blocked", reason=spilt)
    say("unblocked")
    say("mail", to="po", text=spilt)
    say("mail", to=secrets[0], text=spilt)
    say("op", op="todo.add", body={"title": secrets[0], "objective": spilt})
    say("spawn", requestId=ulid(), spawnReason=spilt, requestedSubagents=[{"role": "worker", "task": spilt}])
    heard = 0
    while heard < 3:
        heard += read()["type"] == "mail"
    if how == "code":
        print(spilt, file=sys.stderr, flush=True)
        sys.exit(3)
    say("result", outcome="success" if how == "done" else "failure", error=spilt, partial=spilt,
        deliverable={"spilt": [spilt], "long": spilt * 40}, crystallization=spilt,
        evidence={"commands": [spilt], "files": [spilt], "tests": [spilt], "commits": []})
    sys.exit(0)


def asked(brief):
    names = []
    while len(names) < 2:
        line = read()
        if line["type"] == "mail" and line["topic"] == "status.request":
            names.append(line["body"]["dispatch"])
            say("update", overseerUpdate={"status": "in_progress", "summary": "half of it"})
    return {"epoch": brief["epoch"], "asked": len(set(names))}


ACTS = {"nest": nest, "deeper": deeper, "insist": insist, "meet": meet, "gate": gate, "steps": steps, "walk": walk,
        "turn": turn, "deaf": deaf, "pace": pace, "record": record, "letter": letter, "stuck": stuck, "mute": mute,
        "perish": perish, "poisoned": poisoned, "mortal": mortal, "wonder": wonder, "permitted": permitted,
        "silent": silent, "asked": asked, "bomb": bomb, "leak": leak, "helm": helm, "canary": canary}
found = ACTS[sys.argv[1]](read(), *sys.argv[2:])
say("result", outcome="success", deliverable=found, evidence={"tests": ["it came out"]})
