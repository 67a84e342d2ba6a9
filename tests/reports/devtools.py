"""A headless Chromium, driven over its DevTools protocol with nothing but the standard library.

    with Browser() as browser:
        page = browser.open(path, width=1280)
        page.wait("document.documentElement.dataset.ready === 'yes'")
        page.evaluate("document.title")
        page.screenshot("page.png")

find_chromium() returns None where there is no browser.
"""

import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request


def find_chromium():
    for name in (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"):
        if name and (path := shutil.which(name)):
            return path
    return None


class WebSocket:
    """RFC 6455, the client's half that DevTools needs: whole text messages, masked on the way out."""

    def __init__(self, url, timeout):
        host, path = url.removeprefix("ws://").split("/", 1)
        name, port = host.rsplit(":", 1)
        self.socket = socket.create_connection((name, int(port)), timeout=timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(head.decode(errors="replace"))

    def _more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the browser closed the connection")
        return data

    def _take(self, n):
        while len(self.buffer) < n:
            self.buffer += self._more()
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def _frame(self, opcode, data):
        n = len(data)
        if n < 126:
            size = struct.pack("!B", 0x80 | n)
        elif n <= 0xFFFF:
            size = struct.pack("!BH", 0x80 | 126, n)
        else:
            size = struct.pack("!BQ", 0x80 | 127, n)
        mask = os.urandom(4)
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.socket.sendall(bytes([0x80 | opcode]) + size + mask + masked)

    def send(self, text):
        self._frame(1, text.encode())

    def receive(self):
        message = b""
        while True:
            first, second = self._take(2)
            n = second & 0x7F
            if n == 126:
                (n,) = struct.unpack("!H", self._take(2))
            elif n == 127:
                (n,) = struct.unpack("!Q", self._take(8))
            data = self._take(n)
            opcode = first & 0x0F
            if opcode == 8:
                raise ConnectionError("the browser closed the connection")
            if opcode == 9:
                self._frame(10, data)
            elif opcode in (0, 1):
                message += data
                if first & 0x80:
                    return message.decode()


class Page:
    def __init__(self, url, timeout):
        self.socket = WebSocket(url, timeout)
        self.number = 0
        self.complaints = []  # console errors and uncaught exceptions
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def _note(self, message):
        params = message.get("params", {})
        if message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(a.get("value", a.get("description", ""))) for a in params["args"]))
        elif message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])

    def size(self, width, height, mobile=False):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )

    def go(self, path):
        self.call("Page.navigate", url=pathlib.Path(path).absolute().as_uri())

    def go_url(self, url):
        self.call("Page.navigate", url=url)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {json.dumps(result['exceptionDetails'])[:600]}")
        return result["result"].get("value")

    def wait(self, expression, seconds=60):
        """Until the expression is true; returns how long that took."""
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            if self.evaluate(f"Boolean(document.documentElement && ({expression}))"):
                return time.monotonic() - begin
            time.sleep(0.02)
        raise TimeoutError(f"{expression} did not come true within {seconds} s; console: {self.complaints}")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def hover(self, x, y):
        self.mouse("mouseMoved", x - 2, y - 2)
        self.mouse("mouseMoved", x, y)

    def click(self, x, y):
        self.hover(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def screenshot(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(data["data"]))

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        pathlib.Path(path).write_bytes(base64.b64decode(data["data"]))


class Browser:
    def __init__(self, timeout=120):
        self.timeout = timeout

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="isobar-chromium-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [
                find_chromium(),
                "--headless=new",
                "--no-sandbox",  # needed as root; the page is trusted
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-first-run",
                "--disable-extensions",
                "--disable-background-networking",
                f"--user-data-dir={self.folder.name}",
                "--remote-debugging-port=0",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self.port = self._port()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _port(self):
        file = pathlib.Path(self.folder.name) / "DevToolsActivePort"
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            if file.exists() and (lines := file.read_text().split()):
                return int(lines[0])
            if self.process.poll() is not None:
                raise RuntimeError(f"the browser ended with code {self.process.returncode}")
            time.sleep(0.05)
        raise TimeoutError("the browser did not start")

    def open(self, path, width=1280, height=900, mobile=False):
        return self.open_url(pathlib.Path(path).absolute().as_uri(), width, height, mobile)

    def open_url(self, url_of_page, width=1280, height=900, mobile=False):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/json/list", timeout=self.timeout) as f:
            targets = json.load(f)
        url = next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
        page = Page(url, self.timeout)
        page.size(width, height, mobile)
        page.go_url(url_of_page)
        return page

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()
