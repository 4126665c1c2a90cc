"""Runs a program of the examples as its host would."""

import json
import os
import subprocess
import tempfile


def driven(argv, brief, env, answer=lambda line: []):
    """The lines it wrote. What asks to be confirmed is, after the lines `answer` gives to it; with None it
    gives nothing more, and the program's input ends."""
    with tempfile.TemporaryDirectory() as work:
        program = subprocess.Popen(argv, cwd=work, env={"PATH": os.environ["PATH"], **env},
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with program:
            first = {"type": "brief", "agent": "W:1", "epoch": 1, "node": "T1.1", **brief}
            give(program, [first])
            lines = []
            for line in program.stdout:
                lines.append(json.loads(line))
                if program.stdin.closed:
                    continue
                given = answer(lines[-1])
                if given is None:
                    program.stdin.close()
                    continue
                give(program, given + ([{"type": "saved"}] if lines[-1].get("confirm") else []))
    return lines


def give(program, lines):
    """Writes lines to its input; one that has ended reads none."""
    try:
        for line in lines:
            program.stdin.write(json.dumps(line).encode() + b"\n")
        program.stdin.flush()
    except BrokenPipeError:
        pass
