"""A headless Chromium driven through its chromedriver. WebDriver is JSON over HTTP: the standard library is enough."""

import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that the standard gives to references


def find():
    """(chromedriver, chromium), or None where one is missing."""
    driver = shutil.which("chromedriver") or shutil.which("chromedriver", path="/usr/lib/chromium")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return (driver, browser) if driver and browser else None


class Browser:
    def __init__(self, width=1440, height=900, mobile=False):
        driver, browser = find()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.profile = tempfile.mkdtemp(prefix="nestor-browser-")
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     f"--user-data-dir={self.profile}", f"--window-size={width},{height}"]
        options = {"binary": browser, "args": arguments}
        if mobile:
            metrics = {"width": width, "height": height, "pixelRatio": 2, "touch": True}
            options["mobileEmulation"] = {"deviceMetrics": metrics}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        deadline = time.monotonic() + 60
        while True:
            try:
                self.session = None
                answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
                self.session = answer["sessionId"]
                break
            except (ConnectionError, urllib.error.URLError):
                if time.monotonic() > deadline:
                    self.close()
                    raise
                time.sleep(0.1)

        self.call("POST", "/url", {"url": "about:blank"})
        self.log("performance")  # what the browser's own first page fetched

    def call(self, method, path, body=None):
        prefix = f"/session/{self.session}" if self.session else ""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + prefix + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(json.load(e)["value"]["message"].split("\n")[0]) from e

    def open(self, path):
        """A file, perhaps with #place."""
        self.call("POST", "/url", {"url": "about:blank"})  # a new place in the same file would not load it anew
        self.call("POST", "/url", {"url": "file://" + os.path.abspath(path)})

    def js(self, expression, *args):
        return self.call("POST", "/execute/sync", {"script": "return " + expression, "args": list(args)})

    def do(self, statements, *args):
        self.call("POST", "/execute/sync", {"script": statements, "args": list(args)})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector, then=None):
        """Clicks, and waits until an element `then` is there: a link to a place in the page is followed some time later."""
        self.call("POST", f"/element/{self.find(selector)}/click", {})
        if then:
            self.wait("document.querySelector(arguments[0])", then)

    def wait(self, expression, *args):
        deadline = time.monotonic() + 30
        while not self.js("!!(" + expression + ")", *args):
            if time.monotonic() > deadline:
                raise RuntimeError(f"never true: {expression} {args}")
            time.sleep(0.02)

    def press(self, key):
        codes = {"ArrowRight": "\ue014", "ArrowLeft": "\ue012", "Home": "\ue011", "End": "\ue010"}
        actions = [{"type": kind, "value": codes.get(key, key)} for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def hover(self, selector):
        self.do("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self.find(selector)}}
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("GET", "/screenshot")))

    def log(self, kind):
        return self.call("POST", "/se/log", {"type": kind})

    def close(self):
        try:
            if self.session:
                self.call("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait()
            shutil.rmtree(self.profile, ignore_errors=True)
