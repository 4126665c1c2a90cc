"""examples/conversation: its graph is sound and a turn takes the way that is meant; two people talk while all is killed.

Run with `python3 -m unittest discover -s tests/examples`. It needs the built program (`TETRARCH_BIN`), and the run nats-server
(`TETRARCH_NATS_SERVER`) and the scripted model server.
"""

import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
GRAPH = os.path.join(TOP, "examples", "conversation", "graph.yaml")
PROGRAM = os.environ.get("TETRARCH_BIN", os.path.join(TOP, "target", "debug", "tetrarch"))


def graph(*arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TETRARCH_")}
    ended = subprocess.run([PROGRAM, "graph", *arguments], env=environment, capture_output=True, text=True, timeout=60)
    return ended.returncode, ended.stdout, ended.stderr


@unittest.skipUnless(os.path.exists(PROGRAM), "the program is not built")
class Graph(unittest.TestCase):
    def test_graph_is_sound_and_draws_no_warning(self):
        code, out, err = graph("check", GRAPH)
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("graph triage, 4 nodes", out)

    def test_paint_needs_a_colour_first(self):
        code, out, err = graph("test", GRAPH, "--say", "paint the fence", "--result", "blue", "--result", "it is blue")
        self.assertEqual(code, 0, err)
        self.assertEqual(out.splitlines(), [
            "intake -> colour", "colour asks: Which colour?",
            "colour -> work", "work spawns: paint the fence blue",
            "work -> respond", "answer: it is blue",
        ])

    def test_anything_else_is_work_at_once(self):
        code, out, err = graph("test", GRAPH, "--say", "count the files")
        self.assertEqual(code, 0, err)
        self.assertEqual(out.splitlines(), ["intake -> work", "work spawns: count the files "])


@unittest.skipUnless(os.path.exists(PROGRAM), "the program is not built")
class Conversation(unittest.TestCase):
    def test_two_people_are_answered_once_though_everything_is_killed(self):
        with tempfile.TemporaryDirectory() as held:
            env = {**os.environ, "TETRARCH_BIN": PROGRAM, "TMPDIR": held}
            command = os.path.join(TOP, "examples", "conversation", "run")
            done = subprocess.run([command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=240)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(os.listdir(held), [])
        for said in ("IO@ada: Which colour?", "IO@ben, meanwhile: Say what you want done", "GO, HO, with IO@ada and IO@ben",
                     "ada: repeat", "IO@ada (done): The fence is blue, and the wind dries it.",
                     "nothing is lost or said twice, the night was silent, and the ledger is sound"):
            self.assertIn(said, done.stdout)


if __name__ == "__main__":
    unittest.main()
