"""Drives a headless Chromium over the pipe of its DevTools protocol, with nothing but
Python's own library."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


def program():
    """The browser's path, or None where none is installed."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None


class Browser:
    """`with Browser() as browser: page = browser.open(url, …)`"""

    def __init__(self, patience=60):
        self._patience = patience
        self._profile = tempfile.mkdtemp(prefix="orrery-browser-")
        to_read, self._to = os.pipe()
        self._from, from_write = os.pipe()
        arguments = [program(), "--headless=new", "--remote-debugging-pipe", "--disable-gpu",
                     "--no-first-run", "--disable-extensions", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--hide-scrollbars",
                     f"--user-data-dir={self._profile}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Its sandbox refuses to run as root.

        # The protocol is on the file descriptors 3 and 4; both pipes may hold those numbers.
        def place():
            reading, writing = os.dup(to_read), os.dup(from_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._process = subprocess.Popen(arguments, preexec_fn=place, close_fds=False,
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        os.set_blocking(self._from, False)
        self._buffer = b""
        self._number = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _next(self, deadline):
        while b"\0" not in self._buffer:
            try:
                part = os.read(self._from, 1 << 20)
                if not part:
                    raise RuntimeError("the browser has ended")
                self._buffer += part
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the browser said nothing for {self._patience} s") from None
                time.sleep(0.002)
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        """What the browser answers; events that come meanwhile are kept in `events`."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + self._patience
        while True:
            message = self._next(deadline)
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def open(self, url, width=1280, height=900, theme="light", mobile=False):
        return Page(self, url, width, height, theme, mobile)


class Page:
    """One page, loaded."""

    def __init__(self, browser, url, width, height, theme, mobile):
        self._browser = browser
        browser.events.clear()
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target,
                                     flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": theme}])
        began = time.monotonic()
        self.call("Page.navigate", url=url)
        while not self.value("document.readyState === 'complete'"):
            time.sleep(0.005)
        #: From asking for it to its load event, and what the browser itself says of that.
        self.seconds_to_load = time.monotonic() - began
        self.load_event_ms = self.value(
            "performance.timing.loadEventEnd - performance.timing.navigationStart")

    def call(self, method, **params):
        return self._browser.call(method, self._session, **params)

    def value(self, script):
        """What a JavaScript expression gives."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def click(self, script):
        """Moves the mouse to the middle of the element that `script` gives, and clicks."""
        x, y = self.value(f"""(() => {{
            const e = {script};
            e.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = e.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y,
                      button="none" if kind == "mouseMoved" else "left", clickCount=1)

    def write(self, script, text):
        """Puts the cursor into a field and types."""
        self.value(f"({script}).focus()")
        self.call("Input.insertText", text=text)

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.value("new Promise((done) => requestAnimationFrame(() => "
                   "requestAnimationFrame(() => done(true))))")

    def complaints(self):
        """Errors and warnings of the console, and exceptions nobody caught."""
        self.value("0")  # Events that are on their way come first.
        found = []
        for event in self._browser.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
        return found

    def requests(self):
        """Addresses that the page asked for."""
        self.value("0")
        return [event["params"]["request"]["url"] for event in self._browser.events
                if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path, whole=False):
        options = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options = {"captureBeyondViewport": True,
                       "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"],
                                "scale": 1}}
        image = self.call("Page.captureScreenshot", format="png", **options)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(image))

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)
