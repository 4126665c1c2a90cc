"""What the examples know of coding agents that people already have: where they lie, how their profiles are, and how a
scripted model has them run a command.
"""

import json
import os
import shutil

from fleet import TOP, Trouble

TEAM = ["claude", "codex", "opencode", "gemini"]
SCRIPTED = {"claude": "claude-opus-5-5", "codex": "gpt-5.1-codex", "opencode": "m", "gemini": "gemini-2.5-flash"}
"""The models that the scripted server stands for."""
SHELLS = {
    "claude": ("Bash", lambda command: {"command": command, "description": "works"}),
    "codex": ("exec_command", lambda command: {"cmd": command, "yield_time_ms": 30000}),
    "opencode": ("bash", lambda command: {"command": command, "description": "works"}),
    "gemini": ("run_shell_command", lambda command: {"command": command, "description": "works"}),
}
NAMESPACES = os.path.join(TOP, "tests", "support", "namespaces.cjs")
"""What the scripted server needs for codex's tools."""


def program_of(name):
    """Where a coding agent lies."""
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(TOP, "target")
    own = os.path.join(target, "agents", name, "node_modules", ".bin", name)
    found = os.environ.get("TETRARCH_" + name.upper()) or shutil.which(own) or shutil.which(name)
    if not found:
        raise Trouble("%s is not installed: run tests/run, which installs it, or `tetrarch doctor agents`, which says how" % name)
    return os.path.realpath(found)


def answered(match, **response):
    """A script of the model: what it answers to this."""
    return {"match": match, "response": {**response, "usage": {"input_tokens": 1000, "output_tokens": 20}}}


def said(words, text):
    """The model answers a message that has these words in it."""
    return answered({"userMessage": words}, content=text)


def then(call, text):
    """The model answers after this call of a tool."""
    return answered({"toolCallId": call}, content=text)


def used(match, call, tool, arguments):
    """The model calls a tool."""
    return answered(match, toolCalls=[{"id": call, "name": tool, "arguments": arguments}])


def ran(name, match, call, command):
    """The model has this agent run a command."""
    tool, arguments = SHELLS[name]
    return used(match, call, tool, arguments(command))


def profile(name, model, key, url=None):
    """How this agent is started: with a model, the variable of its key, and a server other than its provider's."""
    program = program_of(name)
    if name == "claude":
        own = {"runner": "claude", "argv": [program], "model": model, "baseUrl": url}
    elif name == "codex":
        own = {"runner": "codex", "argv": [program], "model": model, "baseUrl": url and url + "/v1"}
    elif name == "gemini":
        own = {"runner": "acp", "argv": [program, "--acp", "-m", model], "provider": "gemini", "baseUrl": url,
               "env": {"GEMINI_PTY_INFO": "child_process"}}
    else:
        options = {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:%s}" % key}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "own", "models": {model: {"name": model}}, "options": options}
        config = {"model": "own/" + model, "small_model": "own/" + model, "permission": {"*": "ask"}, "share": "disabled",
                  "provider": {"own": provider}}
        own = {"runner": "acp", "argv": [program, "acp"], "provider": "openai", "baseUrl": url and url + "/v1",
               "env": {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
                       "OPENCODE_DISABLE_AUTOUPDATE": "1"}}
    return {**{field: value for field, value in own.items() if value}, "keyFrom": "env:" + key}
