"""A server of the Model Context Protocol, made with its published library: some tools behave, others do not. What is
called and has an effect is noted in `calls.log` of LAB_DIR, else of the directory that it works in."""

import os
import signal
import subprocess
import sys
import time

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

READS = ToolAnnotations(readOnlyHint=True)
server = FastMCP("lab", log_level="ERROR")


def note(text):
    with open(os.path.join(os.environ.get("LAB_DIR", ""), "calls.log"), "a") as log:
        log.write(text + "\n")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@server.tool(annotations=READS)
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def hidden() -> str:
    """Is on no list."""
    return "found"


@server.tool()
def push(text: str) -> str:
    """Has an effect."""
    note(text)
    return f"pushed {text}"


@server.tool()
def push_and_die(text: str) -> str:
    """Has an effect, and is not there any more to say so."""
    note(text)
    die()


@server.tool(annotations=READS)
def die_once() -> str:
    """Is not there the first time."""
    if os.path.exists("died"):
        return "alive"
    open("died", "w").close()
    die()


@server.tool(annotations=READS)
def die_always() -> str:
    """Is never there."""
    die()


@server.tool()
def push_and_wait(text: str) -> str:
    """Has an effect, and says so too late."""
    # Who reads the note finds the process: it is there once this returns.
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    note(text)
    time.sleep(600)


@server.tool()
def large(size: int) -> str:
    """Says much."""
    return "x" * size


@server.tool()
def variables() -> str:
    """Says what it was given."""
    return f"cwd={os.getcwd()}\n" + ", ".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


@server.tool()
def fail(text: str) -> str:
    """Fails."""
    raise ValueError(text)


def with_key(port):
    """Over HTTP, for whoever has the key."""
    import uvicorn
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.responses import PlainTextResponse

    async def checked(request, answer):
        if request.headers.get("x-lab-key") != os.environ["LAB_KEY"]:
            return PlainTextResponse("no key", status_code=401)
        return await answer(request)

    app = server.streamable_http_app()
    app.add_middleware(BaseHTTPMiddleware, dispatch=checked)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


if sys.argv[1:] == ["garbage"]:
    print("Welcome to the lab!", flush=True)
    sys.stdin.read()
elif sys.argv[1:] == ["broken"]:
    sys.exit("the lab is on fire")
elif sys.argv[1:2] == ["http"]:
    with_key(int(sys.argv[2]))
else:
    server.run()
