"""Runs a command on a terminal of its own and reads its screen as a person does.

    screen.py <columns>x<lines> <steps> <command...>

<steps> is JSON: each has texts that the screen is to show (`see`), one that it is not to (`gone`), and then what to
`type`, which file to `make`, or to which [columns, lines] to `resize`. Prints as JSON: the exit `code`, the screen at
each step (`screens`), whether the terminal's settings are as they were before (`kept`), also after a screen of its own
(`restored`), what is on it then (`left`), and which step never came (`missing`).
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyte

PATIENCE = 45


def sized(terminal, columns, lines):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def main(size, steps, command):
    columns, lines = map(int, size.split("x"))
    ours, theirs = pty.openpty()
    sized(theirs, columns, lines)
    before = termios.tcgetattr(theirs)
    screen = pyte.Screen(columns, lines)
    stream = pyte.ByteStream(screen)
    own = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    env = {**os.environ, "TERM": "xterm-256color"}
    child = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True, preexec_fn=own)
    raw, typed, screens, deadline = b"", b"", [], time.monotonic() + PATIENCE

    def show():
        return "\n".join(line.rstrip() for line in screen.display)

    def ready(step):
        shown = show()
        wanted = step["see"] if isinstance(step["see"], list) else [step["see"]]
        return all(text in shown for text in wanted) and not ("gone" in step and step["gone"] in shown)

    while True:
        if time.monotonic() > deadline:
            child.kill()
            break
        readable, writable, _ = select.select([ours], [ours] if typed else [], [], 0.05)
        if writable:
            # No more than there is room for: whoever reads it may have to write first.
            typed = typed[os.write(ours, typed[:1000]):]
        if readable:
            part = os.read(ours, 65536)
            raw += part
            stream.feed(part)
        elif child.poll() is not None:
            break
        if steps and ready(steps[0]):
            step = steps.pop(0)
            screens.append(show())
            if "type" in step:
                typed += step["type"].encode()
            if "make" in step:
                open(step["make"], "w").close()
            if "resize" in step:
                screen.resize(step["resize"][1], step["resize"][0])
                sized(theirs, *step["resize"])
                os.killpg(child.pid, signal.SIGWINCH)
    code = child.wait()
    # What it wrote between the last look and its end.
    while select.select([ours], [], [], 0)[0]:
        part = os.read(ours, 65536)
        raw += part
        stream.feed(part)
    after = termios.tcgetattr(theirs)
    # What a full-screen program draws on is another screen, which it leaves.
    left = raw.rsplit(b"\x1b[?1049l", 1)[-1].decode("utf-8", "replace")
    kept = after == before
    told = {"code": code, "screens": screens, "kept": kept, "restored": kept and b"\x1b[?1049l" in raw, "left": left}
    if steps:
        told["missing"] = {"step": steps[0], "screen": show()}
    print(json.dumps(told))


main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:])
