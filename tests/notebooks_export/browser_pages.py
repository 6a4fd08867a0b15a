#!/usr/bin/env python3
"""Opens pages in Chromium without a window, over its DevTools protocol:

    tests/notebooks_export/browser_pages.py [--screenshots DIR] PAGE.html...

Every page is opened 1280 and 400 pixels wide, in light and in dark. It must log no error and no warning, ask for nothing
but itself, and its body must not be wider than the window. A timeline on it must zoom and move by keys, buttons, wheel
and two fingers. The last line says how many checks passed.
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODIFIER_CTRL = 2


class Browser:
    """One Chromium; commands and events are JSON texts that end with a zero byte, on two pipes."""

    def __init__(self, program, folder):
        to_browser, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()

        def arrange():  # the browser reads commands from 3, and writes answers to 4
            reader, writer = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--no-first-run", "--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder}",
                   "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(command, close_fds=False, preexec_fn=arrange, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.number, self.events = b"", 0, []

    def read(self):
        while b"\0" not in self.rest:
            piece = os.read(self.from_browser, 1 << 20)
            if not piece:
                sys.exit("browser_pages.py: Chromium has ended")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"browser_pages.py: {method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def close(self):
        self.call("Browser.close")
        self.process.wait(timeout=60)


class Page:
    """A page in a window of its own."""

    def __init__(self, browser, path, width, scheme):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.target, self.url = target, path.resolve().as_uri()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
        browser.events.clear()
        self.call("Page.navigate", url=self.url)
        self.until("document.readyState === 'complete'")
        self.settle()

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"browser_pages.py: {expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression):
        for _ in range(600):
            if self.evaluate(expression):
                return
            time.sleep(0.1)
        sys.exit(f"browser_pages.py: {self.url}: not within a minute: {expression}")

    def settle(self):
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def complaints(self):
        """What the page has logged, and what it has asked for."""
        found = []
        for event in self.browser.events:
            parameters = event.get("params", {})
            if event.get("sessionId") != self.session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(parameters["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(f"console: {parameters['args']}")
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(f"log: {parameters['entry']['text']}")
            elif event["method"] == "Network.requestWillBeSent":
                url = parameters["request"]["url"].split("#")[0]
                if url != self.url and not url.startswith("data:"):
                    found.append(f"asks for {url}")
        return found

    def screenshot(self, path):
        height = min(self.evaluate("document.documentElement.scrollHeight"), 12_000)
        width = self.evaluate("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))

    def view(self):
        """The times between which the first timeline shows."""
        self.settle()
        return self.evaluate("(c => [Number(c.dataset.from), Number(c.dataset.to)])(document.querySelector('canvas'))")

    def key(self, key):
        self.evaluate("document.querySelector('canvas').focus()")
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def touch(self, kind, *points):
        self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y} for x, y in points])

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)


class Checks:
    passed = failed = 0

    def that(self, holds, what):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"failed: {what}")


def length(view):
    return view[1] - view[0]


def check_timeline(page, checks, name):
    def by(what, act, holds):
        before = page.view()
        act()
        after = page.view()
        checks.that(holds(before, after), f"{name}: {what}: {before} became {after}")

    def is_closer(before, after):
        return length(after) < 0.95 * length(before)

    def has_moved(before, after):
        return after[0] != before[0] and abs(length(after) - length(before)) < 1e-9 * length(before)

    whole = page.view()
    by("the key + zooms in", lambda: page.key("+"), is_closer)
    by("the right arrow moves", lambda: page.key("ArrowRight"), has_moved)
    by("the key - zooms out", lambda: page.key("-"), lambda before, after: length(after) > length(before))
    by("the key 0 shows all", lambda: page.key("0"), lambda _, after: after == whole)
    by("a button zooms in", lambda: page.evaluate("document.querySelector('.buttons button').click()"), is_closer)
    page.evaluate("document.querySelector('canvas').scrollIntoView()")
    x, y, width = page.evaluate("(r => [r.left, r.top, r.width])(document.querySelector('canvas').getBoundingClientRect())")
    row = y + 35

    def mouse(kind, x, **more):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=row, **more)

    def drag():
        mouse("mousePressed", x + width / 2, button="left", buttons=1)
        mouse("mouseMoved", x + width / 3, button="left", buttons=1)
        mouse("mouseReleased", x + width / 3, button="left")

    by("the mouse moves it", drag, has_moved)
    by("ctrl and the wheel zoom in",
       lambda: mouse("mouseWheel", x + width / 2, deltaX=0, deltaY=-200, modifiers=MODIFIER_CTRL), is_closer)

    def pinch():
        middle = x + width / 2
        page.touch("touchStart", (middle - 20, row), (middle + 20, row))
        for apart in (30, 45, 60):
            page.touch("touchMove", (middle - apart, row), (middle + apart, row))
        page.touch("touchEnd")

    by("two fingers zoom in", pinch, is_closer)
    page.key("0")
    text = "document.querySelector('.readout').textContent"
    checks.that(page.evaluate(
        f"new Promise(done => {{ let c = document.querySelector('canvas'), r = c.getBoundingClientRect();"
        f"for (let x = 30; x < r.width - 10; x += 3) c.dispatchEvent(new PointerEvent('pointermove',"
        f"{{clientX: r.left + x, clientY: r.top + 35}})); done(/ \\d+: .* to /.test({text})); }})"),
        f"{name}: what is under the pointer is named")


def check_playground(page, checks, name):
    def figures():
        return page.evaluate("document.getElementById('figures').textContent")

    def set_to(what, value, event):
        page.evaluate(f"(e => {{ e.value = '{value}'; e.dispatchEvent(new Event('{event}')); }})"
                      f"(document.querySelector('[name={what}]'))")
        return figures()

    seen = [figures()]
    for what, value, event in (("m", 12, "input"), ("p", 6, "input"), ("weight", 2, "input"), ("transfer", 0.5, "input"),
                               ("schedule", "zb_h1", "change"), ("schedule", "interleaved", "change"), ("v", 3, "input")):
        seen.append(set_to(what, value, event))
        checks.that(seen[-1] != seen[-2], f"{name}: {what} = {value} changes the figures")
    set_to("schedule", "zb_h2", "change")
    set_to("m", 2, "input")
    checks.that("expected" in page.evaluate("document.getElementById('description').textContent"),
                f"{name}: it says why zb_h2 has no 2 micro-batches on 6 ranks")
    page.evaluate("document.querySelector('#all button').click()")
    checks.that(page.evaluate("document.querySelectorAll('[aria-current]').length") == 1, f"{name}: a schedule of the table is chosen")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--chromium", default="chromium")
    parser.add_argument("pages", nargs="+", type=Path)
    options = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(options.chromium, folder)
        for path in options.pages:
            for width in (1280, 400):
                for scheme in ("light", "dark"):
                    name = f"{path} at {width} pixels, {scheme}"
                    page = Page(browser, path, width, scheme)
                    wide = page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
                    checks.that(wide <= width, f"{name}: the body is {wide} pixels wide")
                    if options.screenshots:
                        stem = f"{path.parent.name}-{path.stem}"
                        page.screenshot(options.screenshots / f"{stem}-{width}-{scheme}.png")
                    if page.evaluate("document.querySelector('canvas') !== null"):
                        check_timeline(page, checks, name)
                    if page.evaluate("document.getElementById('controls') !== null"):
                        check_playground(page, checks, name)
                    complaints = page.complaints()
                    checks.that(not complaints, f"{name}: " + "; ".join(complaints))
                    page.close()
        browser.close()
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(checks.failed > 0)


main()
