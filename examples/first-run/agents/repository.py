"""Reads one commit of a git repository. It never reads the work tree and changes nothing.

Everything is taken from the commit that HEAD names when a program starts, so links, pipes and
half-written files cannot disturb a measurement, and a checker can look at the same bytes again.
"""

import json
import os
import re
import shlex
import subprocess
import tempfile
from collections import namedtuple

from host import Trouble

Entry = namedtuple("Entry", "path kind blob size")

FILE_BYTES = 1 << 20
"""Larger files are counted, not read."""
READ_BYTES = 16 << 20
"""At most this much is read, chosen in path order; what does not fit is counted, not read."""
COMMAND_SECONDS = 20
SETTINGS = ["color.ui=false", "core.fsmonitor=false", "core.quotePath=false", "log.showRoot=true",
            "log.showSignature=false", "grep.lineNumber=false", "grep.column=false"]
KINDS = {b"120000": "link", b"160000": "module"}


class Repository:
    """A repository, a commit (None when there is none yet), and the commands that were run."""

    def __init__(self, path, commit=None):
        self.path, self.commands = path, []
        self._git_dir = None
        found = self._run(["-C", path, "rev-parse", "--absolute-git-dir", "--show-toplevel"])
        lines = os.fsdecode(found.stdout).splitlines()
        if not lines:
            said = shown(found.stderr).strip() or "git found no repository"
            raise Trouble("%s is no git repository that can be read: %s; start in one, or name "
                          "one after `--`" % (path, said))
        self._git_dir = lines[0]
        self.name = shown(os.path.basename(lines[-1].rstrip("/")) or "repository")
        self.commit = commit or self._head()

    def _head(self):
        found = self._run(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
        return found.stdout.decode("ascii").strip() or None

    def _run(self, arguments, **more):
        command = ["git"]
        for setting in SETTINGS:
            command += ["-c", setting]
        if self._git_dir:
            command.append("--git-dir=" + self._git_dir)
        text = shlex.join(["git"] + [os.fsdecode(word) for word in arguments])
        self.commands.append(shown(text, 200))
        try:
            return subprocess.run(command + arguments, env=environment(), timeout=COMMAND_SECONDS, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        except FileNotFoundError as error:
            raise Trouble("git is not in PATH; install it") from error
        except subprocess.TimeoutExpired as error:
            raise Trouble("`%s` did not end within %d s" % (text, COMMAND_SECONDS)) from error

    def git(self, *arguments, ok=(0,), **more):
        """Runs git on the repository; the bytes it wrote. Raises Trouble on another exit code."""
        done = self._run(list(arguments), **more)
        if done.returncode not in ok:
            said = shown(done.stderr).strip()
            raise Trouble("`git %s` failed with %d: %s" % (arguments[0], done.returncode, said))
        return done.stdout

    def entries(self):
        """Every file, link and submodule of the commit, in path order."""
        if self.commit is None:
            return []
        listed = self.git("ls-tree", "-r", "-l", "-z", "--full-tree", self.commit)
        found = []
        for line in listed.split(b"\0")[:-1]:
            head, path = line.split(b"\t", 1)
            mode, _, blob, size = head.split()
            number = int(size) if size.isdigit() else 0
            found.append(Entry(path, KINDS.get(mode, "file"), blob.decode("ascii"), number))
        return found

    def contents(self, entries):
        """Pairs of an entry and its bytes; None for bytes that are not in this clone."""
        entries = list(entries)
        if not entries:
            return
        with tempfile.TemporaryFile() as names:
            names.write("".join(entry.blob + "\n" for entry in entries).encode("ascii"))
            names.seek(0)
            command = ["git", "--git-dir=" + self._git_dir, "cat-file", "--batch"]
            self.commands.append("git cat-file --batch < %d blobs" % len(entries))
            with subprocess.Popen(command, stdin=names, stdout=subprocess.PIPE,
                                  env=environment()) as process:
                for entry in entries:
                    head = process.stdout.readline().split()
                    if len(head) != 3:
                        yield entry, None
                        continue
                    data = process.stdout.read(int(head[2]))
                    process.stdout.read(1)
                    yield entry, data


def open_for(host):
    """The repository the run is about: the plan's argument, else where `tetrarch run` was started.

    A commit that a checkpoint or the fact `commit` names is kept, so that work that belongs
    together is measured on the same commit.
    """
    start = os.environ.get("TETRARCH_CWD") or os.getcwd()
    path = os.path.normpath(os.path.join(start, _argument() or "."))
    if not os.path.isdir(path):
        raise Trouble("%s is no directory; name a git repository after `--`" % shown(path))
    pinned = [host.state.get("commit")] + host.fact("commit")
    pinned = [one for one in pinned if isinstance(one, str) and re.fullmatch("[0-9a-f]{40,64}", one)]
    repository = Repository(path, pinned[0] if pinned else None)
    host.once("commit", lambda: repository.commit)
    return repository


def _argument():
    text = os.environ.get("TETRARCH_ARGS") or "[]"
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = None
    if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        raise Trouble("TETRARCH_ARGS is no JSON list of texts: %s" % shown(text, 80))
    if len(arguments) > 1:
        raise Trouble("%d arguments after `--`; at most one is taken, the repository's path"
                      % len(arguments))
    return arguments[0] if arguments else None


def environment():
    """What git may know of the outside: no other repository, no fetching, no questions."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env.update(LC_ALL="C", GIT_OPTIONAL_LOCKS="0", GIT_NO_LAZY_FETCH="1", GIT_TERMINAL_PROMPT="0")
    return env


def choose(entries):
    """Splits entries into the files to read and the counts of those that are not, by reason."""
    chosen, left, total = [], {"tooLarge": 0, "beyondBound": 0, "links": 0, "modules": 0}, 0
    for entry in entries:
        if entry.kind != "file":
            left[entry.kind + "s"] += 1
        elif entry.size > FILE_BYTES:
            left["tooLarge"] += 1
        elif total + entry.size > READ_BYTES:
            left["beyondBound"] += 1
        else:
            total += entry.size
            chosen.append(entry)
    return chosen, left


def is_text(data):
    """Git's own rule: no NUL among the first 8000 bytes."""
    return b"\0" not in data[:8000]


def shown(text, limit=120):
    """Text or bytes from outside as one printable line of at most `limit` characters."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii")
                   for c in text.strip())
    if len(text) <= limit:
        return text
    return text[:limit // 2 - 1] + "\u2026" + text[-(limit // 2):]


def counted(number, noun):
    """A number with its noun: 1 commit, 2 commits, 2 directories."""
    if number == 1:
        return "1 " + noun
    return "%s %s" % (format(number, ","), noun[:-1] + "ies" if noun.endswith("ry") else noun + "s")
