"""examples/mixed-team: four coding agents in one plan. Skipped where one of them is not installed, which tests/run does
where the package index has it.
"""

import os
import subprocess
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMAND = os.path.join(TOP, "examples", "mixed-team", "run")
BUILT = os.environ.get("TETRARCH_BIN") or os.path.join(TOP, "target", "debug", "tetrarch")
AGENTS = os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(TOP, "target"), "agents")
TEAM = ["claude", "codex", "opencode", "gemini"]


def missing():
    """Those that are not installed."""
    return [name for name in TEAM if not os.path.exists(os.path.join(AGENTS, name, "node_modules", ".bin", name))]


class MixedTeam(unittest.TestCase):
    def test_team_finishes_though_one_is_killed_and_nothing_is_done_twice(self):
        if missing():
            self.skipTest("not installed: %s" % ", ".join(missing()))
        with tempfile.TemporaryDirectory() as held:
            env = {**os.environ, "TETRARCH_BIN": os.path.abspath(BUILT), "TMPDIR": held}
            done = subprocess.run([COMMAND], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for words in ["claude is steered", "codex is killed", "opencode asked", "codex has reviewed", "nothing broken"]:
                self.assertIn(words, done.stdout)
            # The programs leave files of their own.
            self.assertEqual([name for name in os.listdir(held) if name.startswith("tetrarch-")], [])


if __name__ == "__main__":
    unittest.main()
