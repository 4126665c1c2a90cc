#!/usr/bin/env python3
"""Makes the pictures of the documents: runs the first plan on a bus of its own and looks at it in Chromium.

    tests/run -E 'test(browser::)'    # installs what is needed
    tests/pictures.py                 # writes docs/images
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR") or os.path.join(TOP, "target")
sys.path.insert(0, os.path.join(TARGET, "browser"))

from playwright.sync_api import sync_playwright  # noqa: E402

TETRARCH = os.path.join(TARGET, "debug", "tetrarch")
IMAGES = os.path.join(TOP, "docs", "images")
SIZE = {"width": 1200, "height": 640}


def main():
    data = tempfile.mkdtemp()
    env = {"PATH": os.path.join(TARGET, "venv", "bin") + ":" + os.environ["PATH"], "HOME": data, "USER": "ada",
           "TETRARCH_BUS_DATA_DIR": os.path.join(data, "data"), "TETRARCH_PEOPLE_PAGE_LISTEN": "127.0.0.1:0"}
    up = subprocess.Popen([TETRARCH, "up", "--name", "h1"], env=env, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        link = next(line.split()[-1] for line in map(bytes.decode, up.stdout) if line.strip().startswith("page: "))
        running = subprocess.Popen([TETRARCH, "run", "examples/first-run/plan.yaml"], env=env, cwd=TOP,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        look(link, env, running)
    finally:
        up.terminate()
        up.wait()
        shutil.rmtree(data)


def look(link, env, running):
    os.makedirs(IMAGES, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto(link)
        page.wait_for_selector("a.row[title^='R:'], a.row[title^='S:']")
        page.screenshot(path=os.path.join(IMAGES, "page-fleet.png"))
        running.wait()
        base = page.url
        goals = subprocess.run([TETRARCH, "get", "goals", "-o", "json"], env=env, check=True, capture_output=True)
        page.set_viewport_size({"width": 1200, "height": 1000})
        page.goto(base + "plan/" + json.loads(goals.stdout)[0]["id"])
        page.wait_for_selector(".bar")
        page.screenshot(path=os.path.join(IMAGES, "page-plan.png"), full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
