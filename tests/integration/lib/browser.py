"""
Chromium without a window (Debian's chromium-headless-shell), driven by the DevTools protocol over two pipes.

    with Browser(directory) as browser:
        page = browser.open("http://127.0.0.1:9121/", width=360)
        page.evaluate("document.title")

What the page complains of (errors on the console, exceptions, violations of its policy, answers that
failed) is kept in page.complaints.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import time

from .process import SLOW, die_with_parent, wait_for

PROGRAM = "chromium-headless-shell"
SECONDS = 30 # for one answer
# No sandbox as root, no second process for drawing, and nothing that asks the network by itself.
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
           "--force-color-profile=srgb", "--remote-debugging-pipe")


class Pipe:
    """Messages of JSON, each with a zero byte after it."""

    def __init__(self, reads, writes):
        self.reads, self.writes = reads, writes
        self.rest = b""

    def send(self, message):
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writes, data):]

    def receive(self, seconds):
        """The next message; None: none came."""
        until = time.monotonic() + seconds
        while b"\0" not in self.rest:
            if not select.select([self.reads], [], [], max(0, until - time.monotonic()))[0]:
                return None
            more = os.read(self.reads, 1 << 20)
            assert more, "Chromium has ended"
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def close(self):
        os.close(self.reads)
        os.close(self.writes)


class Browser:
    def __init__(self, directory):
        self.directory = os.path.join(directory, "chromium")
        self.log = os.path.join(directory, "chromium.log")
        self.pages, self.number = {}, 0

    def __enter__(self):
        hear, answer = os.pipe()
        order, tell = os.pipe()

        def give():
            """Chromium reads orders from descriptor 3, and answers on 4."""
            die_with_parent()
            low, high = os.dup2(order, 203), os.dup2(answer, 204)
            os.dup2(low, 3)
            os.dup2(high, 4)
        with open(self.log, "wb") as log:
            self.popen = subprocess.Popen(
                [PROGRAM, *OPTIONS, "--user-data-dir=" + self.directory], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, pass_fds=(3, 4), preexec_fn=give)
        os.close(order)
        os.close(answer)
        self.pipe = Pipe(hear, tell)
        return self

    def __exit__(self, *_):
        """Without its pipe, Chromium ends with all its processes."""
        self.pipe.close()
        try:
            self.popen.wait(10 * SLOW)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def ask(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        self.pipe.send({**message, "sessionId": session} if session else message)
        while True:
            answer = self.pipe.receive(SECONDS * SLOW)
            assert answer, f"Chromium does not answer {method}"
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.hear(answer)

    def hear(self, event):
        page = self.pages.get(event.get("sessionId"))
        if page:
            page.hear(event["method"], event["params"])

    def open(self, url, width=1280, height=900, **media):
        """A new page, in a window of its own. media: as prefers_color_scheme="dark"."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            page.ask(domain + ".enable")
        page.resize(width, height)
        page.ask("Emulation.setEmulatedMedia",
                 features=[{"name": name.replace("_", "-"), "value": value} for name, value in media.items()])
        page.ask("Page.navigate", url=url)
        page.wait("document.readyState === 'complete'", "it does not load")
        return page


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.complaints = []
        self.answers = {} # path: (status, headers)

    def ask(self, method, **params):
        return self.browser.ask(method, self.session, **params)

    def hear(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.responseReceived":
            answer = params["response"]
            self.answers[answer["url"]] = answer["status"], {k.lower(): v for k, v in answer["headers"].items()}

    def evaluate(self, expression):
        """Its value, as JSON has it."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, expression, what, seconds=SECONDS):
        return wait_for(lambda: self.evaluate(f"Boolean({expression})"), lambda: f"{what}: {expression}\n{self.text()}", seconds)

    def text(self):
        return self.evaluate("document.body.innerText")

    def resize(self, width, height=900):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def press(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                     windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key])

    def screenshot(self, path, height=None):
        """The whole page, or its first so many pixels."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, optimizeForSpeed=False,
                        clip={"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))
