"""The helpers of examples/resume: a program goes on where its last session died, in both languages."""

import json
import os
import sys
import tempfile
import unittest

from driving import driven

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PYTHON = os.path.join(TOP, "examples", "resume", "python")
BUILT = os.path.dirname(os.environ.get("TETRARCH_BIN") or os.path.join(TOP, "target", "debug", "tetrarch"))
PROGRAMS = {"Python": [sys.executable, "-B", os.path.join(PYTHON, "steps.py")],
            "Rust": [os.path.join(BUILT, "tetrarch-steps")]}
STEPS = 4


class Steps(unittest.TestCase):
    def each(self):
        """Every program with a directory of its own, and how to run it there."""
        for name, argv in PROGRAMS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as path:
                env = {"TETRARCH_CWD": os.path.dirname(path), "TETRARCH_HOST_LIFE": "a.b.1.2",
                       "TETRARCH_ARGS": json.dumps([os.path.basename(path)])}

                def run(answer=lambda line: [], argv=argv, env=env, **brief):
                    return driven([*argv, str(STEPS), "0"], brief, env, answer)

                yield run, os.path.join(path, "T1.1")

    def made(self, path):
        with open(path, encoding="utf-8") as lines:
            return lines.read().splitlines()

    def test_every_step_is_made_recorded_and_told(self):
        for run, path in self.each():
            lines = run()
            self.assertEqual(self.made(path), ["%d a.b 1" % step for step in range(1, STEPS + 1)])
            points = [line for line in lines if line["type"] == "checkpoint"]
            self.assertEqual([(len(one["state"]), one["confirm"]) for one in points],
                             [(step, True) for step in range(1, STEPS + 1)])
            last = lines[-1]
            self.assertEqual((last["type"], last["outcome"]), ("result", "success"))
            self.assertEqual(last["deliverable"], {"steps": STEPS, "hosts": ["a.b"] * STEPS})
            self.assertTrue(last["evidence"]["tests"])
            self.assertEqual([line["turns"] for line in lines if line["type"] == "usage"],
                             list(range(1, STEPS + 1)))

    def test_no_step_is_made_before_the_one_before_it_is_recorded(self):
        for run, path in self.each():
            lines = run(lambda line: None if line["type"] == "checkpoint" else [])
            self.assertEqual(lines[-1]["type"], "checkpoint", "it ended without a result")
            self.assertEqual(self.made(path), ["1 a.b 1"])

    def test_it_goes_on_from_the_checkpoint(self):
        for run, path in self.each():
            lines = run(checkpoint={"step 1": "c", "step 2": "c"}, epoch=2)
            self.assertEqual(self.made(path), ["3 a.b 2", "4 a.b 2"])
            self.assertEqual(lines[-1]["deliverable"]["hosts"], ["c", "c", "a.b", "a.b"])

    def test_a_step_that_was_made_and_not_recorded_is_not_made_again(self):
        for run, path in self.each():
            with open(path, "w", encoding="utf-8") as out:
                out.write("1 c 1\n2 c 1\n")
            lines = run(checkpoint={"step 1": "c"}, epoch=2)
            self.assertEqual(self.made(path), ["1 c 1", "2 c 1", "3 a.b 2", "4 a.b 2"])
            self.assertEqual(lines[-1]["deliverable"]["hosts"], ["c", "c", "a.b", "a.b"])

    def test_what_comes_meanwhile_is_neither_lost_nor_taken_for_something_else(self):
        for run, path in self.each():
            more = [{"type": "mail", "topic": "info", "body": {}}, {"type": "unheard of"}]
            lines = run(lambda line: more if line["type"] == "checkpoint" else [])
            self.assertEqual(lines[-1]["outcome"], "success")
            self.assertEqual(len(self.made(path)), STEPS)

    def test_stop_ends_it_with_what_there_is(self):
        for run, path in self.each():
            stop = [{"type": "stop", "reason": "enough", "drainMs": 100}]
            lines = run(lambda line: stop if "step 2" in line.get("state", ()) else [])
            last = lines[-1]
            self.assertEqual((last["outcome"], last["error"]), ("cancelled", "enough"))
            self.assertEqual(set(json.loads(last["partial"])), {"step 1", "step 2"})
            self.assertEqual(len(self.made(path)), 2)

    def test_what_cannot_be_done_is_said(self):
        for run, path in self.each():
            os.mkdir(path)
            last = run()[-1]
            self.assertEqual(last["outcome"], "failure")
            self.assertIn("directory", last["error"].lower())


class Once(unittest.TestCase):
    def test_a_witness_tells_what_was_made_and_what_is_recorded(self):
        program = "from host import run; run(lambda host: {'deliverable': [host.once(one, lambda: 1) for one in 'ab']})"
        with tempfile.TemporaryDirectory() as path:
            env = {"WITNESS": path, "PYTHONPATH": PYTHON}
            brief = {"epoch": 2, "checkpoint": {"a": 7}}
            last = driven([sys.executable, "-B", "-c", program], brief, env)[-1]
            with open(os.path.join(path, "W-1"), encoding="utf-8") as lines:
                self.assertEqual(lines.read(), "made b 2\nsaved b 2\n")
        self.assertEqual(last["deliverable"], [7, 1])


if __name__ == "__main__":
    unittest.main()
