"""An assistant of a person: the published client of the Model Context Protocol, with `tetrarch mcp` as its server, or
one at an address. Prints what it saw as JSON."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

PLAN = """
title: Two words
phases:
  - id: P1
    name: Words
    tasks:
      - {id: T1.1, name: one, run: "echo one"}
      - {id: T1.2, name: two, deps: [T1.1], run: "echo two"}
"""


def seen(result):
    return {"error": bool(result.isError), "text": result.content[0].text, "data": result.structuredContent}


async def story(session, change):
    listed = await session.list_tools()
    saw = {"tools": {tool.name: tool.annotations.model_dump() for tool in listed.tools}}

    async def call(name, arguments=None, **more):
        return seen(await session.call_tool(name, arguments or {}, **more))

    progress = []

    async def heard(passed, _total, message):
        progress.append([passed, message])

    saw["status"] = await call("status")
    saw["wrong"] = await call("plan_check", {"plan_text": "title: x\nphazes: []\n"})
    saw["goal"] = await call("goal_create", {"plan_text": PLAN})
    goal = saw["goal"]["data"]["epic"]
    done = {"thing": goal, "for": "completed", "timeout": "60s"}
    saw["waited"] = await call("wait", done, progress_callback=heard)
    saw["progress"] = progress
    saw["nodes"] = await call("get", {"kind": "nodes", "epic": goal})
    saw["missing"] = await call("steer", {"agent": "W:01JD8Z5W6T4QK3M9X2V7B1N0AC", "text": "go on"})
    saw["stranger"] = await call("tree", {"al": True})
    saw["shown"] = await call("change_show", {"change": change})
    saw["unseen"] = await call("approve", {"id": change})
    other = {"id": change, "digest": "0" * 64}
    saw["other"] = await call("approve", other)
    shown = {"id": change, "digest": saw["shown"]["data"]["digest"], "apply": True}
    saw["approved"] = await call("approve", shown)
    return saw


async def far(url, token):
    async with streamablehttp_client(url, headers={"Authorization": f"Bearer {token}"}) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            saw = {"tools": [tool.name for tool in (await session.list_tools()).tools]}
            progress = []

            async def heard(passed, _total, message):
                progress.append(message)

            saw["status"] = seen(await session.call_tool("status", {}, progress_callback=heard))
            saw["missing"] = seen(await session.call_tool("tree", {"al": True}))
            calls = [session.call_tool("goal_list", {}) for _ in range(8)]
            saw["many"] = [seen(result)["error"] for result in await asyncio.gather(*calls)]
            saw["progress"] = progress
    print(json.dumps(saw))


async def main(program, *rest):
    if program.startswith("http"):
        return await far(program, *rest)
    change, *options = rest
    server = StdioServerParameters(command=program, args=["mcp", *options], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        if options:
            saw = {"tools": [tool.name for tool in (await session.list_tools()).tools]}
            refused = await session.call_tool("tree", {})
            saw["tree"] = seen(refused)
        else:
            saw = await story(session, change)
        saw["server"] = hello.serverInfo.name
        saw["instructions"] = hello.instructions
    print(json.dumps(saw))


asyncio.run(main(*sys.argv[1:]))
