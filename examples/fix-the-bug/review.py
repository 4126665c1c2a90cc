"""A reviewer: it runs the tests in the worktree as the work was left, and its verdict is theirs."""

import json
import subprocess
import sys

json.loads(sys.stdin.readline())
tests = [sys.executable, "-B", "-m", "unittest", "-v"]
done = subprocess.run(tests, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
lines = [line for line in done.stdout.splitlines() if " ... " in line]
findings = [{"where": line.split(" ... ")[0], "what": "fails", "severity": "high"} for line in lines
            if not line.endswith("ok")]
verdict = "pass" if done.returncode == 0 and lines else "fail"
print(json.dumps({"type": "result", "outcome": "success", "deliverable": lines[-1] if lines else done.stdout[-500:],
                  "verdict": {"verdict": verdict, "findings": findings},
                  "evidence": {"commands": ["python3 -m unittest"], "tests": lines}}))
