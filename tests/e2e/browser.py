"""Looks at the page in a real Chromium, as a person does, and decides there.

    browser.py <facts> <command...>

<facts> is JSON: the page's `link`, the `axe` script, the `goal`, `agent` and `change` that are there after the
ledger's entry `seq`, and maybe a directory for
`pictures`. The command is `tetrarch` with the options for this fleet. Prints as JSON what a test has to check: breaches of the
rules for accessible pages (`violations`), what the browser complained of (`complaints`), views that do not fit a phone (`wide`),
and from a commit to the view that shows it in milliseconds (`lags`).
"""

import json
import os
import shutil
import subprocess
import sys
import time

# Not for the product.
sys.path.insert(0, os.environ.pop("CHROMIUM_DRIVER"))

from playwright.sync_api import sync_playwright  # noqa: E402

PATIENCE_MS = 30_000
SIZES = {"desk": (1280, 800), "phone": (390, 844)}


def views(facts):
    return ["", "goals", "plan/" + facts["goal"], "plan/%s/history" % facts["goal"], "inbox", "conversations", "change/" + facts["change"],
            "agent/" + facts["agent"].replace(":", "%3A"), "hosts", "cost", "events", "past?seq=%d" % facts["seq"], "search?q=wonder"]


def opened(context, facts, told):
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda line: told["complaints"].append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: told["complaints"].append(str(error)))
    page.goto(facts["link"])
    return page, page.url


def look_at_each(browser, facts, told):
    """Every view, in light and dark and on a phone."""
    for scheme, size in [("light", "desk"), ("dark", "phone")]:
        width, height = SIZES[size]
        # Only for the script of the rules: that the policy keeps others out is looked at below.
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height}, bypass_csp=True)
        page, base = opened(context, facts, told)
        for view in views(facts):
            page.goto(base + view)
            page.wait_for_selector("#status .good")
            page.add_script_tag(path=facts["axe"])
            for found in page.evaluate("axe.run()")["violations"]:
                told["violations"].append([view, scheme, size, found["id"], found["nodes"][0]["html"]])
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                told["wide"].append([view, size])
            if facts.get("pictures"):
                name = (view.split("?")[0].split("/")[0] or "fleet") + ("-history" if view.endswith("history") else "")
                page.screenshot(path=os.path.join(facts["pictures"], "page-%s-%s-%s.png" % (name, scheme, size)))
        context.close()


def lag(page, base, command, number):
    """From the end of a command to the view that shows what it did."""
    page.goto(base)
    page.wait_for_selector("#status .good")
    name = "later%d" % number
    page.evaluate("""name => { window.seen = 0; const look = () => {
        if (document.querySelector(`a[title="PO-${name}"]`)) { window.seen ||= Date.now(); return; }
        requestAnimationFrame(look); }; look(); }""", name)
    subprocess.run(command + ["project", "create", name], check=True, stdout=subprocess.DEVNULL)
    committed = time.time() * 1000
    until(page, "window.seen")
    return page.evaluate("window.seen") - committed


def past(page, base, facts):
    """By the slider alone: the fleet before an agent was there, and after."""
    name = "a[title='%s']" % facts["agent"]
    page.goto(base)
    page.click("text=as it was")
    page.wait_for_url("**/past?ago=*")
    page.goto(base + "past?seq=%d" % facts["seq"])
    page.wait_for_selector(name)
    page.focus("#seq")
    page.keyboard.press("Home")
    page.wait_for_url("**/past?seq=1")
    page.wait_for_selector("#live table, #live .faint")
    if page.query_selector(name):
        raise SystemExit("the agent was there before it began")


def decide(page, base, facts):
    """By the keyboard alone: answers a question, approves and merges a change."""
    page.goto(base)
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    until(page, "document.activeElement.matches('a.row')")
    page.keyboard.press("/")
    page.keyboard.type("wonder")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=wonder")
    page.keyboard.press("a")
    page.wait_for_url("**/inbox")
    reach(page, "a[href^='question/']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/question/*")
    reach(page, "button:has-text('B')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status .act .good")
    page.goto(base + "change/" + facts["change"])
    reach(page, "#read")
    page.keyboard.press("Space")
    reach(page, "form:has(input[value=approve]) button")
    page.keyboard.press("Enter")
    page.wait_for_selector("input[value=merge]", state="attached")
    reach(page, "form:has(input[value=merge]) button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#live :text('applied')")


def until(page, wanted):
    """Waits until an expression is true. The page's policy lets nobody evaluate a text in it, so the driver does."""
    page.evaluate("() => new Promise((done) => { const look = () => (%s) ? done() : requestAnimationFrame(look); look(); })" % wanted)


def reach(page, wanted):
    """Moves the focus there with Tab."""
    page.wait_for_selector(wanted)
    for _ in range(200):
        if page.evaluate("(it) => document.activeElement === it", page.query_selector(wanted)):
            return
        page.keyboard.press("Tab")
    raise SystemExit("%s is not reached by Tab" % wanted)


def strangers(browser, facts, told):
    """Nothing of the page without its cookie, and nothing of another place in it."""
    context = browser.new_context()
    place = facts["link"].rsplit("/enter/", 1)[0] + "/"
    answer = context.new_page().goto(place)
    told["without cookie"] = answer.status
    page, _ = opened(context, facts, {"complaints": []})
    page.evaluate("""() => { window.kept = []; addEventListener('securitypolicyviolation', (it) => window.kept.push(it.violatedDirective));
        const script = document.createElement('script'); script.textContent = 'window.broken = 1'; document.body.append(script);
        const picture = new Image(); picture.src = 'http://127.0.0.1:1/x.png'; document.body.append(picture); }""")
    until(page, "window.kept.length >= 2")
    told["let in"] = page.evaluate("window.broken || 0")
    context.close()


def main(facts, command):
    told = {"violations": [], "complaints": [], "wide": [], "lags": []}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        look_at_each(browser, facts, told)
        strangers(browser, facts, told)
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page, base = opened(context, facts, told)
        told["lags"] = [lag(page, base, command, number) for number in range(5)]
        past(page, base, facts)
        decide(page, base, facts)
        browser.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
