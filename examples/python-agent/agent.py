"""A project orchestrator in Python: asks for a worker for every node that is ready, remembers what came of it, and
puts the goal's result together.

    python3 agent.py PO-words <url> <credential>
"""

import asyncio
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

from external import run, ulid  # noqa: E402


async def work(agent):
    """Ends when a goal it was given is reached."""
    state = agent.state
    state.setdefault("epics", {})
    events = asyncio.Queue()

    async def heard(message):
        await events.put(json.loads(message.data))

    await agent.nats.subscribe("plan.>", cb=heard)
    print("%s, session %d, %s" % (agent.name, agent.epoch, "goes on" if agent.resumed else "begins"), flush=True)
    views = {}
    for epic in state["epics"]:
        views[epic] = await look(agent, epic)
    while True:
        for mail in await agent.mail(timeout=0.5):
            await read(agent, mail, views)
        while not events.empty():
            event = events.get_nowait()
            if event["epicId"] in state["epics"]:
                views[event["epicId"]] = {node["id"]: node for node in event["nodes"]}
        for epic in list(views):
            plan_next(state["epics"][epic], views[epic])
        # What is going to be asked for is stored before it is asked for: a successor asks under the same ids.
        await agent.checkpoint()
        for epic in list(views):
            await ask(agent, epic)
            if await reached(agent, epic, views[epic]):
                return


async def look(agent, epic):
    """The nodes of an epic that was taken on, as they are now."""
    found = await agent.records("node_state", epic + ".*")
    return {record["state"]["id"]: record["state"] for record in found.values()}


async def read(agent, mail, views):
    """What a message means for an epic."""
    state, body = agent.state, mail.get("body") or {}
    if mail["topic"] == "instruction":
        epic = body["epic"]
        print("takes on %s" % epic, flush=True)
        state["epics"].setdefault(epic, {"asked": {}, "results": {}, "report": ulid()})
        views[epic] = await look(agent, epic)
        return
    epic = state["epics"].get(mail.get("epic"))
    if epic is None:
        return
    if mail["topic"] == "result.ready":
        epic["results"][body["node"]] = body["result"].get("deliverable")
        print("%s: %s" % (body["node"], body["result"].get("deliverable")), flush=True)
    elif mail["topic"] == "spawn.denied":
        # No slot is free, or the plan moved on: the node shows as ready again when there is reason to ask again.
        for node, request in list(epic["asked"].items()):
            if request == mail["correlation"]:
                del epic["asked"][node]


def plan_next(epic, nodes):
    """Gives every node that is ready the id of the request that will be made for it."""
    for name, node in nodes.items():
        ready = node["status"] == "queued" and not node.get("assignee") and name.startswith(("T", "S"))
        if ready and name not in epic["asked"]:
            epic["asked"][name] = ulid()


async def ask(agent, epic):
    """Asks for what is not asked for yet in this session; the owner decides each id once."""
    for node, request in agent.state["epics"][epic]["asked"].items():
        if request in agent.published:
            continue
        await agent.publish("spawn.request.%s.%s.%s" % (epic, node.replace(".", "_"), agent.name), {
            "requestId": request, "spawnReason": "%s is ready" % node,
            "requestedSubagents": [{"role": "worker", "task": "do " + node}]})


async def reached(agent, epic, nodes):
    """Reports the goal's result once every node is done and its result is here."""
    tasks = [name for name, node in nodes.items() if name.startswith("T")]
    results = agent.state["epics"][epic]["results"]
    if not tasks or any(nodes[name]["status"] != "done" or name not in results for name in tasks):
        return False
    total = sum(int(str(result).strip()) for result in results.values())
    await agent.publish("report." + agent.name, {
        "requestId": agent.state["epics"][epic]["report"], "kind": "result", "epic": epic,
        "result": {"outcome": "success", "deliverable": str(total),
                   "evidence": {"commands": ["wc -w"]},
                   "crystallization": "%d words in %d texts" % (total, len(results))}})
    print("%d words" % total, flush=True)
    return True


if __name__ == "__main__":
    sys.exit(run(work, window=float(os.environ.get("AGENT_WINDOW", "5"))))
