"""The programs of examples/first-run: what they measure, and how they speak with their host.

Run with `python3 -m unittest discover -s tests/examples`. It needs git and no server.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "first-run")
AGENTS = os.path.join(EXAMPLE, "agents")
sys.path.insert(0, AGENTS)

import architect  # noqa: E402
import judge  # noqa: E402
import manifest  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
import rust  # noqa: E402
import source  # noqa: E402
import toml  # noqa: E402
from driving import driven  # noqa: E402
from repository import Repository, shown  # noqa: E402

PLAN = open(os.path.join(EXAMPLE, "plan.yaml"), encoding="utf-8").read()
WORKSPACE = """[workspace]
members = ["a", "b"]
[workspace.dependencies]
a = { path = "a" } # own
serde = { version = "1", features = ["derive"] }
[workspace.lints.rust]
unsafe_code = "forbid"
"""
LOCK = """version = 4
[[package]]
name = "a"
version = "0.1.0"
dependencies = ["x 1.0.0", "x 2.0.0"]

[[package]]
name = "x"
version = "1.0.0"
source = "registry+https://github.com/rust-lang/crates.io-index"

[[package]]
name = "x"
version = "2.0.0"
source = "git+https://me:secret@example.org/x?rev=1#2"
"""


def git(path, *arguments):
    env = {**os.environ, "GIT_AUTHOR_DATE": "2024-05-01T12:00Z", "GIT_COMMITTER_DATE": "2024-05-01T12:00Z"}
    subprocess.run(["git", "-C", path, "-c", "user.name=Ann", "-c", "user.email=a@b", *arguments],
                   check=True, env=env, stdout=subprocess.DEVNULL)


def write(top, files):
    for name, data in files.items():
        path = os.path.join(os.fsencode(top), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data if isinstance(data, bytes) else data.encode())


def repository(test, files, more=()):
    """A repository of its own for one test, with a commit of the files and one of each of `more`."""
    held = tempfile.TemporaryDirectory()
    test.addCleanup(held.cleanup)
    git(held.name, "init", "-q")
    for number, some in enumerate([files, *more]):
        write(held.name, some)
        if some:
            git(held.name, "add", "-A")
            git(held.name, "commit", "-q", "-m", "commit %d" % number)
    return held.name


def found(kind, path, **more):
    return measure.KINDS[kind](Repository(path), lambda text: None, **more)


def drive(arguments, path, brief=None, mail=(), hang_up=False):
    """Runs a program of the plan; the lines it wrote. `mail` is sent once it has spawned."""
    argv = [sys.executable, "-B", os.path.join(AGENTS, arguments[0]), *arguments[1:]]
    env = {"TETRARCH_CWD": path, "TETRARCH_ARGS": "[]"}

    def answer(line):
        if hang_up:
            return None
        return [{"type": "mail", **message} for message in mail] if line["type"] == "spawn" else []

    return driven(argv, {"wallMs": 60000, **(brief or {})}, env, answer)


class Measurements(unittest.TestCase):
    def test_lines_are_counted_by_language(self):
        path = repository(self, {"a.rs": "fn a() {}\n\n// end", "b/c.RS": "x\n", "d.py": "", "Makefile": "all:\n \n",
                                 "e.bin": b"\0" * 9, "mac.txt": b"a\r\r\rb"})
        os.symlink("a.rs", os.path.join(path, "link.rs"))
        git(path, "add", "-A")
        git(path, "commit", "-q", "-m", "link")
        got = found("languages", path)
        rows = {row["name"]: (row["files"], row["lines"], row["blank"]) for row in got["languages"]}
        self.assertEqual(rows, {"Rust": (2, 4, 1), "Python": (1, 0, 0), "Make": (1, 2, 1), "Plain text": (1, 1, 0)})
        self.assertEqual((got["unread"]["binary"], got["unread"]["links"]), (1, 1))

    def test_only_what_is_committed_is_measured(self):
        path = repository(self, {"a.rs": "1\n"})
        write(path, {"a.rs": "1\n2\n", "new.rs": "3\n"})
        self.assertEqual(found("languages", path)["total"]["lines"], 1)

    def test_large_files_are_counted_and_not_read(self):
        path = repository(self, {"a.txt": b"x\n" * (source.lines_in(b"") + 600_000), "b.txt": "y\n"})
        got = found("languages", path)
        self.assertEqual((got["unread"]["tooLarge"], got["total"]["lines"]), (1, 1))
        self.assertEqual(found("files", path)["largest"][0]["bytes"], 1_200_000)

    def test_names_in_any_bytes_stay_printable(self):
        path = repository(self, {b"caf\xe9\n.md": "TODO\n"})
        self.assertEqual(found("files", path)["largest"][0]["path"], "caf\\xe9\\n.md")
        self.assertEqual(found("notes", path)["places"][0]["line"], 1)
        self.assertEqual(shown("a\u202eb"), "a\\u202eb")

    def test_notes_are_whole_words(self):
        path = repository(self, {"a.c": "// TODO TODO: x\n// TODOS\n// FIXME\n", "b.c": "hack xXXX\n"})
        got = found("notes", path)
        self.assertEqual((got["total"], got["lines"], got["words"]["TODO"]), (3, 2, 2))

    def test_unsafe_is_found_in_code_only(self):
        code = r'''
            fn main() { let q = '"'; let l: &'static str = "unsafe {"; unsafe { f() } }
            // unsafe fn
            /* /* unsafe */ unsafe impl */
            const R: &str = r#"a " unsafe {"#;  const C: char = '\''; const B: &[u8] = b"\\"; unsafe fn g() {}
            pub unsafe extern "C" fn h() {}  unsafe extern "C" {}  unsafe impl Send for X {}
            #[unsafe(no_mangle)] fn r#unsafe() {}  unsafe trait T {}
            '''
        uses, _ = rust.unsafe_uses(code)
        self.assertEqual(dict(uses), {"blocks": 1, "functions": 2, "externs": 1, "impls": 1, "attributes": 1,
                                      "traits": 1})
        path = repository(self, {"a.rs": code, "lib.rs": "#![deny(missing_docs, unsafe_code)]", "Cargo.toml": WORKSPACE})
        got = found("unsafe", path)
        self.assertEqual((got["rustFiles"], got["total"], got["forbids"]), (2, 7, 2))

    def test_activity_counts_commits_and_authors(self):
        path = repository(self, {"a": "1"}, [{"a": "2"}, {"a": "3"}])
        got = found("activity", path)
        self.assertEqual((got["commits"], got["authors"]), (3, [{"name": "Ann", "commits": 3}]))
        self.assertEqual((got["weeks"], got["last"]), ([0] * 11 + [3], "2024-05-01"))

    def test_churn_goes_to_the_longest_directory(self):
        path = repository(self, {"a/x": "1", "a/b/y": "1", "z": "1"}, [{"a/b/y": "2"}, {"a/b/y": "3", "a/x": "2"}])
        got = found("churn", path, wanted=["a", "a/b"])
        rows = {row["path"]: (row["commits"], row["changes"]) for row in got["directories"]}
        self.assertEqual(rows, {"a/b": (3, 3), "a": (2, 2), ".": (1, 1)})
        self.assertEqual((got["window"], got["changes"]), (3, 6))

    def test_manifests_are_read(self):
        crate = '[package]\nname = "b"\n[dependencies]\na.workspace = true\nserde = "1"\n[dev-dependencies.c]\n' \
                'path = "../c"\n[target.\'cfg(unix)\'.build-dependencies]\nd = "1"\n'
        path = repository(self, {
            "Cargo.toml": WORKSPACE, "a/Cargo.toml": '[package]\nname = "a"\n', "b/Cargo.toml": crate,
            "go.mod": "require a.b/c v1\nrequire (\n\td.e/f v2\n\tg.h/i v3 // indirect\n)\nreplace (\n x.y/z v1 => q v2\n)\n",
            "package.json": '{"dependencies": {"l": "1"}, "devDependencies": 7}',
            "pyproject.toml": '[project]\ndependencies = [\n "q>=2", # [x]\n "r[s]"\n]\n'})
        got = found("dependencies", path)
        rows = {row["name"]: (row["direct"], row["dev"], row["build"]) for row in got["ecosystems"]}
        self.assertEqual(rows, {"Cargo": (2, 1, 1), "Go": (2, 0, 0), "npm": (1, 0, 0), "Python": (2, 0, 0)})
        read = manifest.crates([("Cargo.toml", WORKSPACE), ("a/Cargo.toml", '[package]\nname = "a"\n'),
                                ("b/Cargo.toml", crate)])
        self.assertEqual(manifest.arrows(read), {"a": [], "b": ["a"]})

    def test_a_lock_file_is_read_without_what_is_secret(self):
        got = found("lock", repository(self, {"Cargo.lock": LOCK}))
        self.assertEqual((got["packages"], got["own"], got["distinct"]), (3, 1, 2))
        self.assertEqual(got["duplicates"], [{"name": "x", "versions": ["1.0.0", "2.0.0"]}])
        self.assertEqual({row["source"] for row in got["sources"]},
                         {"this repository", "crates.io", "git+https://example.org/x"})

    def test_toml_that_is_broken_is_read_as_far_as_it_goes(self):
        for text in ("[a", 'x = "', "x = [1, 2", "'''", "]]]\ny = 1", "= 3", "\0"):
            list(toml.pairs(text))
        self.assertIn((("y",), "1"), list(toml.pairs("]]]\ny = 1")))

    def test_layers_stand_above_what_they_use(self):
        rows = [{"name": name, "dependsOn": uses} for name, uses in
                (("cli", ["lib", "core"]), ("lib", ["core"]), ("core", []), ("p", ["q"]), ("q", ["p"]))]
        self.assertEqual(architect.layers(rows), ["p", "q"])
        self.assertEqual([row["layer"] for row in rows], [2, 1, 0, None, None])


class Plan(unittest.TestCase):
    """The whole plan, program by program, on repositories of three kinds."""

    def inputs(self, path):
        kinds = ("languages", "files", "notes", "unsafe", "activity", "dependencies", "lock")
        lines = [drive(["measure.py", kind], path) for kind in kinds]
        lines.append(drive(["architect.py"], path, mail=[
            {"topic": "spawn.denied", "body": {"deniedAgents": [{"reason": "children_limit_exceeded"}]}}]))
        for said in lines:
            types = {line["type"] for line in said}
            self.assertLessEqual({"progress", "usage", "checkpoint", "result"}, types)
            self.assertEqual(said[-1]["outcome"], "success", said[-1])
        return [{"node": "T1.%d" % at, "deliverable": said[-1]["deliverable"]} for at, said in enumerate(lines, 1)]

    def test_any_repository_passes(self):
        samples = {
            "empty": repository(self, {}),
            "without Cargo": repository(self, {"a.py": "# TODO\n", "s p/b.sh": "echo\n"}, [{"a.py": "pass\n"}]),
            "with Cargo": repository(self, {
                "Cargo.toml": WORKSPACE, "Cargo.lock": LOCK, "a/Cargo.toml": '[package]\nname = "a"\n',
                "b/Cargo.toml": '[package]\nname = "b"\n[dependencies]\na.workspace = true\n',
                "a/lib.rs": "unsafe {}\n"}),
        }
        for name, path in samples.items():
            with self.subTest(name):
                inputs = self.inputs(path)
                self.check_schemas(inputs)
                judged = drive(["judge.py", "all"], path, {"inputs": inputs})[-1]
                self.assertEqual(judged["verdict"], {"verdict": "pass", "findings": []})
                self.assertTrue(judged["evidence"]["tests"])
                inputs.append({"node": "T3.1", "deliverable": judged["deliverable"]})
                told = drive(["report.py"], path, {"inputs": inputs})[-1]
                self.assertEqual(told["artifacts"][0]["name"], "report.md")
                self.assertNotIn("No result", told["deliverable"])
                for title, _, _ in report.SECTIONS:
                    self.assertIn("## " + title, told["deliverable"])

    def check_schemas(self, inputs):
        """Every deliverable has what the plan's schema for its kind requires."""
        required = {kind: keys.split(", ") for keys, kind in
                    re.findall(r"required: \[(kind, [^\]]+)\]\s+properties:\s+kind: \{enum: \[(\w+)\]\}", PLAN)}
        for one in inputs:
            for key in required[one["deliverable"]["kind"]]:
                self.assertIn(key, one["deliverable"])

    def test_a_wrong_number_fails_the_verdict(self):
        path = repository(self, {"a.rs": "fn a() {}\n", "Cargo.lock": LOCK})
        inputs = self.inputs(path)
        wrong = [("languages", lambda one: one["total"].update(lines=one["total"]["lines"] + 1)),
                 ("languages", lambda one: [row.update(lines=row["lines"] + 1)
                                            for row in (one["languages"][0], one["total"])]),
                 ("files", lambda one: one["largest"][0].update(bytes=1)),
                 ("notes", lambda one: one.update(lines=1, total=1)),
                 ("unsafe", lambda one: one.update(rustFiles=2)),
                 ("activity", lambda one: one.update(commits=2)),
                 ("lock", lambda one: one.update(packages=4)),
                 ("lock", lambda one: one.update(own=-1)),
                 ("files", lambda one: one.update(commit="--output=x")),
                 ("unsafe", lambda one: one.clear()),
                 ("dependencies", lambda one: one.pop("total"))]
        for kind, change in wrong:
            with self.subTest(kind):
                copy = json.loads(json.dumps(inputs))
                change(next(one["deliverable"] for one in copy if one["deliverable"]["kind"] == kind))
                judged = drive(["judge.py", "all"], path, {"inputs": copy})[-1]
                self.assertEqual(judged["verdict"]["verdict"], "fail")
                self.assertEqual(judged["outcome"], "success")

    def test_a_review_sees_its_own_node_only(self):
        path = repository(self, {"a.rs": "fn a() {}\n"})
        good, bad = found("languages", path), found("files", path)
        bad["bytes"] += 1
        inputs = [{"node": "T1.2", "deliverable": bad}, {"node": "T1.1", "deliverable": good}]
        for node, verdict in (("T1.1", "pass"), ("T1.2", "fail"), ("T9.9", "fail")):
            judged = drive(["judge.py", "one"], path, {"node": node, "inputs": inputs})[-1]
            self.assertEqual(judged["verdict"]["verdict"], verdict, node)

    def test_every_program_of_the_plan_is_there(self):
        argv = re.findall(r'"\{plan_dir\}/agents/(\w+\.py)"(?:, (\w+))?(?:, dies-once)?\]', PLAN)
        self.assertEqual(len(argv), PLAN.count("argv:"))
        for program, kind in argv:
            self.assertTrue(os.path.exists(os.path.join(AGENTS, program)))
            if program == "measure.py":
                self.assertIn(kind, measure.KINDS)


class Conversation(unittest.TestCase):
    def test_the_specialist_folds_in_what_its_worker_found(self):
        path = repository(self, {"a/x": "1\n", "b/y": "1\n"})
        churn = found("churn", path, wanted=["a"])
        churn["directories"] = [{"path": "a", "commits": 7, "changes": 9}]
        answer = {"topic": "spawn.sponsor.answer", "body": {"spawnedAgents": [{"actorId": "W:1"}]}}
        ready = {"topic": "result.ready", "body": {"agent": "W:1", "node": "T4.2", "result": {
            "outcome": "success", "deliverable": json.dumps(churn)}}}
        for mail in ([answer, ready], [ready]):
            lines = drive(["architect.py"], path, mail=mail)
            wish = next(line for line in lines if line["type"] == "spawn")
            self.assertRegex(wish["requestId"], "^[0-7][0-9A-HJKMNP-TV-Z]{25}$")
            self.assertIn("directory: a", wish["requestedSubagents"][0]["brief"]["keyFacts"])
            got = lines[-1]["deliverable"]
            self.assertEqual((got["churn"]["by"], got["churn"]["agent"]), ("worker", "W:1"))
            self.assertEqual({row["name"]: row["changes"] for row in got["components"]}, {"a": 9, "b": 0})

    def test_the_specialist_goes_on_alone_when_it_gets_no_worker(self):
        path = repository(self, {"a/x": "1\n"})
        failed = {"topic": "result.ready", "body": {"agent": "W:1", "result": {"outcome": "failure", "error": "e"}}}
        denied = {"topic": "spawn.sponsor.answer", "body": {"deniedAgents": [{"detail": "no"}]}}
        unread = {"topic": "spawn.denied", "body": {"error": "field x"}}
        cases = [([failed], {}, "ended with failure: e"), ([denied], {}, "denied: no"), ([unread], {}, "field x"),
                 ([], {"wallMs": 20}, "in time")]
        for mail, brief, note in cases:
            got = drive(["architect.py"], path, brief, mail)[-1]["deliverable"]
            self.assertEqual((got["churn"]["by"], got["components"][0]["changes"]), ("itself", 1))
            self.assertIn(note, got["churn"]["note"])

    def test_a_successor_keeps_the_request_and_the_commit(self):
        path = repository(self, {"a/x": "1\n"}, [{"a/y": "1\n"}])
        first = Repository(path).git("rev-parse", "HEAD~1").decode().strip()
        state = {"requestId": "01JD8Z5W6T4QK3M9X2V7B1N0AC", "commit": first}
        lines = drive(["architect.py"], path, {"checkpoint": state, "wallMs": 20})
        self.assertEqual(next(line for line in lines if line["type"] == "spawn")["requestId"], state["requestId"])
        self.assertEqual(lines[-1]["deliverable"]["commit"], first)

    def test_stop_gives_a_cancelled_result(self):
        path = repository(self, {"a/x": "1\n"})
        lines = drive(["architect.py"], path, mail=[{"type": "stop", "reason": "enough", "drainMs": 100}])
        self.assertEqual((lines[-1]["outcome"], lines[-1]["error"]), ("cancelled", "enough"))

    def test_it_ends_without_a_result_when_the_host_is_gone(self):
        lines = drive(["measure.py", "languages"], repository(self, {"a": "1\n"}), hang_up=True)
        self.assertNotIn("result", [line["type"] for line in lines])

    def test_what_is_no_repository_is_said(self):
        with tempfile.TemporaryDirectory() as path:
            last = drive(["measure.py", "files"], path)[-1]
        self.assertEqual(last["outcome"], "failure")
        self.assertIn("no git repository", last["error"])


if __name__ == "__main__":
    unittest.main()
