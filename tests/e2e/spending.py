"""A hosted agent that spends its budget (docs/stdio-protocol.md, The budget).

    spending.py over <tokens>   uses most of it, waits for the warning, uses all of it, and is stopped half way
    spending.py crowd N <tokens>  asks for N calls at once, and tells how many were granted
    spending.py raised <tokens> <more>  is withheld a call near the end, asks people, and makes it when its grant was
                                raised; dies of it, and its next session asks for all that is left, and one more
    spending.py dies <tokens>   dies with a call open; its next session asks for all that is left, and one more
"""

import json
import os
import signal
import sys


def read(*kinds):
    while True:
        line = sys.stdin.readline()
        if not line:
            sys.exit(1)
        line = json.loads(line)
        if line["type"] in kinds:
            return line


def say(kind, **fields):
    print(json.dumps({"type": kind, **fields}), flush=True)


def call(name, tokens):
    say("call", call=name, tokens=tokens)
    answer = read("granted", "withheld")
    assert answer["call"] == name, answer
    return answer["type"] == "granted"


def over(brief, tokens):
    tokens = int(tokens)
    assert brief["budget"]["tokens"] == tokens, brief
    say("usage", tokensIn=tokens * 8 // 10)
    warning = read("budget")
    say("usage", tokensIn=tokens)
    read("stop")
    say("usage", tokensIn=tokens + 1)
    say("result", outcome="cancelled", partial="half of it, after %(used)d of %(limit)d" % warning)
    sys.exit(0)


def crowd(brief, count, tokens):
    for place in range(int(count)):
        say("call", call=str(place), tokens=int(tokens))
    answers = [read("granted", "withheld") for _ in range(int(count))]
    granted = [answer["call"] for answer in answers if answer["type"] == "granted"]
    for name in granted:
        say("spent", call=name, tokens=int(tokens))
    return {"granted": len(granted), "more": call("one more", 1)}


def dies(brief, tokens):
    tokens = int(tokens)
    if brief["epoch"] == 1:
        assert call("a", tokens // 2)
        say("spent", call="a", tokens=tokens // 10)
        assert call("b", tokens // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    left = tokens - tokens // 10 - tokens // 2
    found = {"beyond": call("c", left + 1), "left": call("c", left)}
    say("spent", call="c", tokens=1)
    return found


def raised(brief, tokens, more):
    tokens, more = int(tokens), int(more)
    most, beyond = tokens * 8 // 10, tokens * 2 // 10 + 1
    if brief["epoch"] == 1:
        assert brief["budget"]["tokens"] == tokens, brief
        say("usage", tokensIn=most)
        read("budget")
        assert not call("a", beyond)
        agent = brief["agent"]
        say("op", op="budget.raise", body={"agent": agent, "more": {"tokens": more}})
        answer = read("mail")
        assert answer["body"]["error"] == "E_UNAUTHORIZED", answer
        say("ask", question="May I have more?")
        assert read("raised")["budget"] == {"tokens": tokens + more, "costUsd": None, "turns": None}
        read("mail")
        assert call("b", beyond)
        os.kill(os.getpid(), signal.SIGKILL)
    assert brief["budget"]["tokens"] == tokens + more, brief
    left = tokens + more - most - beyond
    found = {"beyond": call("c", left + 1), "left": call("c", left)}
    say("spent", call="c", tokens=1)
    return found


ACTS = {"over": over, "raised": raised, "crowd": crowd, "dies": dies}
found = ACTS[sys.argv[1]](read("brief"), *sys.argv[2:])
say("result", outcome="success", deliverable=found, evidence={"tests": ["it came out"]})
