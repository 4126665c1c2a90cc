"""Runs a command on a terminal of its own, 60 columns wide, and tells what was shown.

    terminal.py <steps> <command...>

<steps> is JSON: each has a text to `see` and what to `type` or which file to `make` then. Prints
{"code": ..., "shown": ...} as JSON.
"""

import fcntl
import json
import os
import pty
import struct
import sys
import termios

COLUMNS = 60


def main(steps, command):
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        os.execvp(command[0], command)
    shown, seen = b"", 0
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
        if steps and (at := shown.find(steps[0]["see"].encode(), seen)) >= 0:
            seen, step = at + 1, steps.pop(0)
            if "type" in step:
                os.write(terminal, step["type"].encode())
            else:
                open(step["make"], "w").close()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps({"code": code, "shown": shown.decode("utf-8", "replace")}))


main(json.loads(sys.argv[1]), sys.argv[2:])
