# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its debugging pipe. NUL-separated JSON, so that no WebSocket is needed."""
import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

LOOK_S = 0.05  # how often wait() looks
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="ferry-browser-")
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        ours = [to_read, from_write]
        to_read, from_write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in ours) # 3 and 4 are the browser's
        for fd in ours:
            os.close(fd)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 "--remote-debugging-pipe", "--user-data-dir=" + self.profile, "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}', program, *flags],
                                        pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(from_write)
        self.write_fd, self.read_fd = to_write, from_read
        self.pending, self.last, self.events, self.session = b"", 0, [], None
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(domain + ".enable")
        except BaseException:
            self.close()
            raise

    def message(self, deadline):
        while b"\0" not in self.pending:
            if not select.select([self.read_fd], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser says nothing")
            data = os.read(self.read_fd, 1 << 20)
            if not data:
                raise ConnectionError("the browser has ended")
            self.pending += data
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.last += 1
        request = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.write_fd, data):]
        deadline = time.monotonic() + 60
        while True:
            answer = self.message(deadline)
            if answer.get("id") != self.last:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)

    def eval(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, seconds=30):
        """Polls until it is true, for a limited time: a page tells nobody of its changes. Returns its value."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                value = self.eval(expression)
            except RuntimeError:  # the document is being replaced
                value = None
            if value:
                return value
            if time.monotonic() > deadline:
                text = self.eval("document.body && document.body.innerText")
                raise AssertionError(f"not within {seconds} s: {expression}\n{text}\n{self.complaints()}")
            time.sleep(LOOK_S)

    def point(self, selector, press=False):
        """Moves the mouse over the middle of an element, and clicks there. Returns the place."""
        place = self.eval(f"""(element => {{
            element.scrollIntoView({{ block: 'nearest' }});
            const r = element.getBoundingClientRect();
            return {{ x: r.x + r.width / 2, y: r.y + r.height / 2 }};
        }})(document.querySelector({json.dumps(selector)}))""")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
        for kind in ("mousePressed", "mouseReleased") if press else ():
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)
        return place

    def key(self, name, text=""):
        """Presses a key by its name of DOM; text: what it types."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=codes[name],
                      **({"text": text} if text and kind == "keyDown" else {}))

    def complaints(self):
        """Exceptions of the page and what its console has about errors, the policy among them."""
        out = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                out.append(event["params"]["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                out.append(event["params"]["entry"]["text"])
        return out

    def look(self, width, height, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.write_fd)
        os.close(self.read_fd)
        shutil.rmtree(self.profile, ignore_errors=True)
