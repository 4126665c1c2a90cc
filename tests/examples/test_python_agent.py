"""examples/python-agent: an orchestrator that speaks NATS itself goes on where its killed sessions stopped.

It needs nats-server (TETRARCH_NATS_SERVER), nats-py, and the built program (TETRARCH_BIN, else the workspace's own).
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMAND = os.path.join(TOP, "examples", "python-agent", "run")
BUILT = os.environ.get("TETRARCH_BIN") or os.path.join(TOP, "target", "debug", "tetrarch")


def run(python, *arguments):
    """What the command ended with, and what was left of its files."""
    with tempfile.TemporaryDirectory() as held:
        env = {**os.environ, "TETRARCH_BIN": BUILT, "TMPDIR": held}
        done = subprocess.run([*python, COMMAND, *arguments], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=150)
        return done, os.listdir(held)


class PythonAgent(unittest.TestCase):
    def test_it_survives_being_killed_at_three_moments(self):
        done, left = run([sys.executable])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("it is killed"), 3, done.stdout)
        self.assertRegex(done.stdout, r"PO-words, session 4, goes on")
        self.assertEqual(len(re.findall(r"T1\.\d +done", done.stdout)), 3, done.stdout)
        self.assertIn("nothing broken", done.stdout)
        self.assertIn("every task was asked for once", done.stdout)
        self.assertEqual(left, [])

    def test_it_says_what_it_lacks(self):
        # Without site packages there is no nats-py.
        done, left = run([sys.executable, "-S", "-E"], "--kills", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("pip install 'nats-py[nkeys]'", done.stderr)
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
