"""examples/fix-the-bug: models mend a bug apart from its repository; what comes in is what was decided on.

It needs nats-server (TETRARCH_NATS_SERVER), git, the scripted model server, which tests/run installs, and the built
program (TETRARCH_BIN, else the workspace's own).
"""

import os
import subprocess
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMAND = os.path.join(TOP, "examples", "fix-the-bug", "run")
BUILT = os.environ.get("TETRARCH_BIN") or os.path.join(TOP, "target", "debug", "tetrarch")


AGENTS = os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(TOP, "target"), "agents")


def run(*arguments, **more):
    """What the command ended with, and what was left of its files."""
    with tempfile.TemporaryDirectory() as held:
        env = {**os.environ, "TETRARCH_BIN": BUILT, "TMPDIR": held, **more}
        done = subprocess.run([COMMAND, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280)
        return done, os.listdir(held)


class FixTheBug(unittest.TestCase):
    def test_the_branch_ends_green_with_the_one_change_that_was_approved(self):
        done, left = run()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("T1.1 is approved and applied; main: OK", done.stdout)
        self.assertIn("+    return len(text.split())", done.stdout)
        self.assertRegex(done.stdout, r"T1\.2 is approved: error: chg_\w+ is conflicted: .*words\.py")
        self.assertIn("nothing broken", done.stdout)
        self.assertEqual(left, [])

    def test_a_coding_agent_mends_it_as_well(self):
        for agent in ["claude", "codex", "opencode", "gemini"]:
            with self.subTest(agent):
                if not os.path.exists(os.path.join(AGENTS, agent, "node_modules", ".bin", agent)):
                    self.skipTest("not installed: %s" % agent)
                done, left = run("--agent", agent)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("T1.1 is approved and applied; main: OK", done.stdout)
                self.assertRegex(done.stdout, r"T1\.2 is approved: error: chg_\w+ is conflicted: .*words\.py")
                self.assertEqual([name for name in left if name.startswith("tetrarch-")], [])

    def test_it_says_what_it_lacks(self):
        done, left = run(TETRARCH_AIMOCK="/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no scripted model server: TETRARCH_AIMOCK names /nowhere", done.stderr)
        self.assertEqual(left, [])
        done, _ = run("--agent", "claude", FIX_KEY="k")
        self.assertIn("FIX_KEY is set and FIX_MODEL is not", done.stderr)
        done, _ = run("--agent", "nobody")
        self.assertIn("--agent claude|codex|gemini|opencode", done.stderr)


if __name__ == "__main__":
    unittest.main()
