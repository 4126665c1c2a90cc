"""examples/long-haul: agents that misbehave, and a goal that comes to its end all the same.

It needs nats-server (TETRARCH_NATS_SERVER) and the built program (TETRARCH_BIN, else the workspace's own).
tests/e2e/long_haul.rs runs the same plan while the owner is killed.
"""

import os
import subprocess
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMAND = os.path.join(TOP, "examples", "long-haul", "run")
BUILT = os.environ.get("TETRARCH_BIN") or os.path.join(TOP, "target", "debug", "tetrarch")


class LongHaul(unittest.TestCase):
    def test_what_can_be_done_is_done_and_why_explains_each_step(self):
        with tempfile.TemporaryDirectory() as held:
            env = {**os.environ, "TETRARCH_BIN": BUILT, "TMPDIR": held}
            done = subprocess.run([COMMAND], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(os.listdir(held), [])
        for said in ("it ended by itself",
                     "T1.1 is done after 2 attempts",
                     "nudge: no activity for ",
                     "reassign: asking did not help, and its work cannot be split; no activity for ",
                     "update: in_progress; summary: half of it; next: the other half",
                     "it needs an answer to qst_",
                     "nudge: it says that it is done, and shows nothing; evidence is asked for",
                     "ended without a result (exit code 3)",
                     "ended: signal 9; epoch 4 goes on",
                     "T3.4 is todo: it waits for T2.1",
                     "everything that can be done is done, one question waits for a human"):
            self.assertIn(said, done.stdout)
        self.assertNotRegex(done.stdout, r"\d{4,}ms")


if __name__ == "__main__":
    unittest.main()
