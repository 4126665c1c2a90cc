"""examples/two-hosts: a host is killed and its agents go on on the other one; nothing is left behind.

It needs nats-server (TETRARCH_NATS_SERVER) and the built program (TETRARCH_BIN, else the workspace's own).
"""

import os
import signal
import subprocess
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMAND = os.path.join(TOP, "examples", "two-hosts", "run")
BUILT = os.environ.get("TETRARCH_BIN") or os.path.join(TOP, "target", "debug", "tetrarch")
WINDOW = "400ms"


class TwoHosts(unittest.TestCase):
    def start(self, built=BUILT):
        """The command, its files in a directory of the test's own."""
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        env = {**os.environ, "TETRARCH_BIN": built, "TMPDIR": held.name}
        program = subprocess.Popen([COMMAND, "--window", WINDOW], env=env, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stderr.close)
        self.addCleanup(program.kill)
        return program, held.name

    def assert_nothing_left(self, path, of_killed=""):
        self.assertEqual([name for name in os.listdir(path) if not of_killed or not name.startswith(of_killed)], [])
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, encoding="utf-8", errors="replace") as words:
                    about = os.readlink("/proc/%s/cwd" % pid) + words.read()
            except OSError:
                continue
            self.assertNotIn(path, about)

    def test_what_ran_on_the_killed_host_goes_on_on_the_other_one(self):
        program, path = self.start()
        out, err = program.communicate(timeout=120)
        self.assertEqual(program.returncode, 0, out + err)
        self.assertRegex(out, r"second is killed, after step \d+ of T1\.\d")
        self.assertRegex(out, r"T1\.\d makes step \d+ on first: \d+\.\d\d s after the kill")
        self.assertRegex(out, r"steps 1 to \d+ on second \(session 1\), \d+ to 40 on first \(session 2\)")
        self.assertIn("every step was made once", out)
        # A killed host's next life removes the temporary files of its runs, and here it has none.
        self.assert_nothing_left(path, of_killed="tetrarch-run_")

    def test_it_ends_what_it_started_when_it_is_ended(self):
        program, path = self.start()
        self.assertIn("are ready", program.stdout.readline())
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=60)
        self.assertNotEqual(program.returncode, 0)
        self.assert_nothing_left(path)

    def test_a_program_that_does_not_start_is_an_error(self):
        program, path = self.start("/bin/false")
        _, err = program.communicate(timeout=60)
        self.assertEqual(program.returncode, 1)
        self.assertIn("first ended before", err)
        self.assert_nothing_left(path)


if __name__ == "__main__":
    unittest.main()
