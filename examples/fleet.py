"""What the examples have in common that start a fleet of their own: its processes, and that none outlives it.

    sys.exit(main("tetrarch-example-", settings, show))

calls `show(fleet)`; what raises Trouble is told and makes the exit code 1.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATIENCE = 60
"""Seconds to wait for anything."""


class Trouble(Exception):
    """It did not go as it should; the text says how."""


class Fleet:
    """What a command started: a bus, an owner, hosts, a run of a plan. `settings` are variables of the
    configuration, without TETRARCH_."""

    def __init__(self, tetrarch, top, settings):
        self.tetrarch, self.top, self.since = tetrarch, top, time.monotonic()
        own = {name: value for name, value in os.environ.items()
               if not name.startswith("TETRARCH_") or name == "TETRARCH_NATS_SERVER"}
        given = {"TETRARCH_" + name: value for name, value in settings.items()}
        self.env = {**own, "TETRARCH_BUS_DATA_DIR": os.path.join(top, "data"), **given}
        self.started = []

    def start(self, name, *arguments):
        """Starts a command of tetrarch; what it says goes to a file."""
        with open(self.log(name), "wb") as log:
            program = subprocess.Popen([self.tetrarch, *arguments], cwd=self.top, env=self.env, start_new_session=True,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.started.append((name, program))
        return program

    def log(self, name):
        return os.path.join(self.top, name + ".log")

    def said(self, name):
        with open(self.log(name), encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_until(self, what, there, runs=()):
        """What `there()` gives, once it gives something; none of the programs that run may end meanwhile."""
        end = time.monotonic() + PATIENCE
        while True:
            found = there()
            if found:
                return found
            for name, program in self.started:
                if name in runs and program.poll() is not None:
                    raise Trouble("%s ended before %s:\n%s" % (name, what, self.said(name)))
            if time.monotonic() > end:
                raise Trouble("no sign of %s for %d s" % (what, PATIENCE))
            time.sleep(0.005)

    def ready(self, name):
        """Whether a program said that it is ready."""
        return any(line.startswith("ready") for line in self.said(name).splitlines())

    def ask(self, *arguments):
        """What a command prints that has to succeed."""
        done = subprocess.run([self.tetrarch, *arguments], cwd=self.top, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            raise Trouble("tetrarch %s: %s" % (" ".join(arguments), done.stderr.strip()))
        return done.stdout

    def tell(self, text):
        print("%5.1f s  %s" % (time.monotonic() - self.since, text), flush=True)

    def processes(self):
        """Every process that works in this command's directory or was started with it."""
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                cwd = os.readlink("/proc/%s/cwd" % pid)
                with open("/proc/%s/cmdline" % pid, "rb") as words:
                    command = os.fsdecode(words.read())
            except OSError:
                continue
            if int(pid) != os.getpid() and (cwd.startswith(self.top) or self.top in command):
                yield int(pid)

    def end(self):
        """Ends everything: as Ctrl-C does, then whatever is left, the agents of a killed host too."""
        for _, program in reversed(self.started):
            if program.poll() is None:
                program.send_signal(signal.SIGINT)
                try:
                    program.wait(20)
                except subprocess.TimeoutExpired:
                    program.kill()
                    program.wait()
        for pid in list(self.processes()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while list(self.processes()):
            time.sleep(0.005)


def binary():
    """The program: what TETRARCH_BIN names, else built from here."""
    if os.environ.get("TETRARCH_BIN"):
        return os.path.abspath(os.environ["TETRARCH_BIN"])
    subprocess.run(["cargo", "build", "--quiet", "-p", "tetrarch-cli"], cwd=TOP, check=True)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(TOP, "target"), "debug", "tetrarch")


def main(prefix, settings, show):
    """Shows something with a fleet in a directory of its own, and ends all of it; the exit code, or words."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory(prefix=prefix) as top:
        fleet = Fleet(binary(), os.path.realpath(top), settings)
        try:
            return show(fleet)
        except Trouble as trouble:
            return "error: %s" % trouble
        except KeyboardInterrupt:
            return "interrupted"
        finally:
            fleet.end()
