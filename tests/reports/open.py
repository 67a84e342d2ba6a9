#!/usr/bin/env python3
"""isobar open, in a real browser: python3 open.py --isobar build/isobar

A report and a trace are served; nothing without the token, to no other host's name, nothing outside the report's folder;
a page of somebody else's sees nothing of its neighbours; the trace goes to a Perfetto UI (here a page that answers as it
does) whole. Where a desktop is, xdg-open (here a script)
gets a file that only its user may read. The browser's part is left out, and SKIPPED printed, where there is no Chromium.
"""

import argparse
import contextlib
import ctypes
import http.client
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from page_checks import check  # noqa: E402
from devtools import Browser, find_chromium  # noqa: E402

# Stands in for ui.perfetto.dev: answers PING with PONG, then receives the trace. It begins to listen late.
PERFETTO = """<!doctype html><title>ui</title><script>
setTimeout(() => addEventListener("message", async (event) => {
  if (event.data === "PING") event.source.postMessage("PONG", event.origin);
  else if (event.data.perfetto) {
    const { buffer, title, fileName } = event.data.perfetto;
    fetch("/took", { method: "POST", headers: { title, fileName }, body: buffer });
  }
}), 400);
</script>"""


class PerfettoUi(http.server.BaseHTTPRequestHandler):
    took = []

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PERFETTO.encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.took.append((self.headers["title"], self.headers["fileName"], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def opened(isobar, *words, env=None):
    """URLs that `isobar open` prints, by content, and its process."""
    process = subprocess.Popen(
        [isobar, "open", *map(str, words)], stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    try:
        first = process.stdout.readline()
        addresses = dict([first.split()])
        # A second line follows if both report and trace are served
        if addresses.keys() == {"report"} and "BOTH" in (env or {}):
            addresses.update([process.stdout.readline().split()])
        yield addresses, process
        if process.poll() is None:
            process.terminate()
        check(f"isobar open ended with {process.wait(10)}", process.returncode == 0)
    finally:
        process.kill()
        process.wait()


def get(url_or_port, path=None, name=None):
    if path is None:
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/.*)", url_or_port)
        url_or_port, path = int(match[1]), match[2]
    connection = http.client.HTTPConnection("127.0.0.1", url_or_port, timeout=10)
    connection.request("GET", path, headers={"Host": name} if name else {})
    answer = connection.getresponse()
    return answer.status, answer.read()


def refuses(isobar, folder):
    (folder / "empty").mkdir()
    (folder / "numbers.json").write_text("[1, 2]")
    for path, word in (("none", "does not exist"), ("empty", "isobar report"), ("numbers.json", "no Chrome trace")):
        ran = subprocess.run([isobar, "open", folder / path], capture_output=True, text=True, timeout=30)
        check(f"{path}: {ran.returncode} {ran.stderr}", ran.returncode == 2 and word in ran.stderr)
    ran = subprocess.run(
        [isobar, "open", folder / "out", "--perfetto-ui", "ftp://x"], capture_output=True, text=True, timeout=30
    )
    check(f"a UI that is none: {ran.returncode} {ran.stderr}", ran.returncode == 2 and "--perfetto-ui" in ran.stderr)


def serves_the_report_alone(isobar, folder):
    out = folder / "out"
    (folder / "secret.csv").write_text("secret")
    (out / ".hidden.csv").write_text("secret")
    (out / "key.pem").write_text("secret")
    (out / "link.csv").symlink_to(folder / "secret.csv")
    with opened(isobar, out, env={"BOTH": "1"}) as (addresses, process):
        check(f"addresses: {addresses}", addresses.keys() == {"report", "trace"})
        page = addresses["report"]
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/page/index\.html", page)
        check(f"the address is {page}", match)
        port, token = int(match[1]), match[2]
        check("the page is not the report", get(page) == (200, (out / "index.html").read_bytes()))
        runs = (out / "tables/runs.csv").read_bytes()
        check("the table is not served", get(port, f"/{token}/page/tables/runs.csv") == (200, runs))
        check("the trace is not served", get(port, f"/{token}/trace.json") == (200, (out / "perfetto.json").read_bytes()))
        for name in ("../secret.csv", "%2e%2e/secret.csv", "tables/../../secret.csv", ".hidden.csv", "key.pem", "link.csv",
                     "tables", "", "nothing.csv", "//etc/passwd"):  # fmt: skip
            status, body = get(port, f"/{token}/page/{name}")
            check(f"{name!r} gets {status}", status in (400, 403, 404) and b"secret" not in body)
        for path in ("/", "/page/index.html", f"/{token[:-1]}x/page/index.html", f"/{token}", "/trace", "//page/index.html",
                     f"/page/index.html?token={token}"):  # fmt: skip
            check(f"{path} is answered: {get(port, path)[0]}", get(port, path)[0] == 403)
        check("another host's name is answered", get(port, f"/{token}/page/index.html", "evil.example")[0] == 403)
        command = pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()
        check("the token stands among the words of the process", token not in command)


class MadeIn:
    """What happens to the names in a folder, as the kernel tells (inotify)."""

    CREATE, MOVED = 0x100, 0xC0

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(0o4000)
        check("no inotify", self.fd >= 0 and libc.inotify_add_watch(self.fd, os.fsencode(folder), self.CREATE | self.MOVED) >= 0)

    def names(self):
        out, events = [], os.read(self.fd, 1 << 16)
        os.close(self.fd)
        while events:
            _, mask, _, length = struct.unpack_from("iIII", events)
            out.append(("made " if mask & self.CREATE else "moved ") + events[16 : 16 + length].rstrip(b"\0").decode())
            events = events[16 + length :]
        return out


def asks_the_desktop(isobar, folder):
    """With a desktop: xdg-open gets a file of this user's alone, which leads to the page and is gone afterwards. The file
    gets no other one's content by a new name, which would have a mode of its own for a moment."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "xdg-open").write_text(f'#!/bin/sh\nstat -c %a "$1" >{folder}/mode\ncp "$1" {folder}/seen\nmv {folder}/mode {folder}/modes\n')
    (tools / "xdg-open").chmod(0o755)
    env = {"DISPLAY": ":99", "PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(folder)}
    made = MadeIn(folder)
    with opened(isobar, folder / "out/index.html", env=env) as (addresses, _):
        begin = time.monotonic()
        while not (folder / "modes").exists() and time.monotonic() - begin < 20:
            time.sleep(0.05)
        check("xdg-open was not called", (folder / "modes").exists())
        check("others may read the file", (folder / "modes").read_text().strip() == "600")
        check("it leads elsewhere", f"url={addresses['report']}\"" in (folder / "seen").read_text())
    check("the file is left", not list(folder.glob("isobar-open-*")))
    names = [n for n in made.names() if "isobar-open" in n]
    check(f"the address was written by way of {names}", len(names) == 1 and re.fullmatch(r"made isobar-open-\w{6}\.html", names[0]))


def stands_its_ground(isobar, folder):
    """Hundreds of connections that send nothing or half a head: the page is served, and Ctrl-C ends the server. Another
    server on its port is refused."""
    with opened(isobar, folder / "out/index.html") as (addresses, process):
        port = int(re.search(r":(\d+)/", addresses["report"])[1])
        ran = subprocess.run([isobar, "open", folder / "out/index.html", "--port", str(port)], capture_output=True, text=True, timeout=30)
        check(f"a second server: {ran.returncode} {ran.stderr}", ran.returncode == 2 and f"{port} is taken" in ran.stderr)
        slow = []
        for i in range(300):
            slow.append(socket.create_connection(("127.0.0.1", port), timeout=10))
            if i % 2:
                slow[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
        begin = time.monotonic()
        check("the page is not the report", get(addresses["report"])[0] == 200)
        check(f"the page took {time.monotonic() - begin:.1f} s", time.monotonic() - begin < 5)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(10)
        check(f"Ctrl-C took {time.monotonic() - begin:.1f} s", time.monotonic() - begin < 2)
        for s in slow:
            s.close()


# Somebody else's page, which tries to see its neighbour: by every way of loading it, and by a window of it.
FOREIGN = """<!doctype html><title>foreign</title><script>
const seen = [], ways = [];
const way = (name, work) => ways.push(Promise.resolve().then(work).then((text) => {
  if (String(text).includes("secret")) seen.push(name);
}, () => {}));
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const element = (name, place, read) => way(name, async () => {
  const e = Object.assign(document.createElement(name), place);
  (document.body || document.documentElement).append(e);
  await wait(1500);
  return read(e);
});
way("fetch", () => fetch("neighbour.csv").then((r) => r.text()));
way("request", () => new Promise((done, fail) => {
  const r = new XMLHttpRequest();
  r.onload = () => done(r.responseText);
  r.onerror = fail;
  r.open("GET", "neighbour.csv");
  r.send();
}));
element("iframe", { src: "neighbour.html" }, (e) => e.contentDocument.documentElement.innerText);
element("object", { data: "neighbour.html" }, (e) => e.contentDocument.documentElement.innerText);
element("script", { src: "neighbour.json" }, () => window.stolen || "");
way("window", async () => {
  const w = window.open("neighbour.html");
  await wait(1500);
  return w.document.documentElement.innerText;
});
way("worker", () => new Promise((done, fail) => {
  const w = new Worker(URL.createObjectURL(new Blob(["fetch('" + new URL("neighbour.csv", location.href) +
    "').then((r) => r.text()).then(postMessage, () => postMessage(''))"])));
  w.onmessage = (event) => done(event.data);
  w.onerror = fail;
  setTimeout(fail, 2000);
}));
way("events", () => new Promise((done, fail) => { const e = new EventSource("neighbour.csv"); e.onopen = () => done("secret"); e.onerror = fail; }));
Promise.all(ways).then(() => { document.title = "tried " + ways.length + ": " + seen.join(" "); });
</script>"""


def keeps_neighbours(isobar, folder):
    """What a foreign page sees of the files beside it: nothing."""
    foreign = folder / "foreign"
    foreign.mkdir()
    (foreign / "index.html").write_text(FOREIGN)
    (foreign / "neighbour.csv").write_text("secret\n")
    (foreign / "neighbour.html").write_text("<!doctype html><p>secret")
    (foreign / "neighbour.json").write_text('window.stolen = "secret"')
    with opened(isobar, foreign, "--no-browser") as (addresses, _), Browser() as browser:
        page = browser.open_url(addresses["report"])
        page.wait("document.title.startsWith('tried')", 30)
        title = page.evaluate("document.title")
        check(f"a foreign page: {title!r}", title == "tried 8:")


def draws(isobar, folder, run):
    """A report's page is what it is when opened as a file: drawn, without a complaint."""
    ran = subprocess.run([isobar, "report", run, "-o", folder / "drawn"], capture_output=True, text=True, timeout=300)
    check(f"report: {ran.stderr}", ran.returncode == 0)
    if "figures are not drawn" in ran.stderr:
        print("without vl-convert (bench/setup.sh): a drawn page was not opened")
        return
    with opened(isobar, folder / "drawn", "--no-browser") as (addresses, _), Browser() as browser:
        page = browser.open_url(addresses["report"])
        page.wait("document.documentElement.dataset.ready === 'yes'", 120)
        drawn = page.evaluate("document.querySelectorAll('.plot svg.marks, .plot canvas.marks').length")
        check(f"{drawn} figures are drawn", drawn > 0)
        page.evaluate("location.hash = '#a=b'")
        check(f"the console complains: {page.complaints}", not page.complaints)


def hands_over(isobar, folder):
    """The Perfetto UI receives a run's trace unchanged."""
    ui = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PerfettoUi)
    threading.Thread(target=ui.serve_forever, daemon=True).start()
    trace = folder / "run/trace.json"
    words = [trace, "--no-browser", "--perfetto-ui", f"http://127.0.0.1:{ui.server_port}"]
    with opened(isobar, *words) as (addresses, _), Browser() as browser:
        page = browser.open_url(addresses["trace"])
        # A click before the script has run, or before the first frame is drawn, has no effect.
        page.wait("document.readyState === 'complete'")
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))")
        where = page.evaluate(
            "(() => { const b = document.getElementById('open').getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for _ in range(5):  # a reader would click again
            page.click(*where)
            begin = time.monotonic()
            while time.monotonic() - begin < 5 and not page.evaluate("document.getElementById('said').textContent"):
                time.sleep(0.1)
            if page.evaluate("document.getElementById('said').textContent"):
                break
        while not PerfettoUi.took and time.monotonic() - begin < 60:
            time.sleep(0.05)
        said = page.evaluate("document.getElementById('said').textContent")
        check(f"nothing was handed over; the page says {said!r}", PerfettoUi.took)
        title, name, body = PerfettoUi.took[0]
        check(f"it is called {title}, {name}", title == name == "trace.json")
        check(f"{len(body)} bytes of {trace.stat().st_size}", body == trace.read_bytes())
        page.wait("document.getElementById('said').textContent === 'Handed over.'", 30)
        page.size(390, 844, mobile=True)
        wide = page.evaluate("document.documentElement.scrollWidth")
        check(f"{wide} pixels wide in a window of 390", wide <= 390)
    ui.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isobar", required=True)
    args = parser.parse_args()
    source = pathlib.Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        run = folder / "run"
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        for words in (
            ["train", source / "configs/models/vit-tiny.yaml", "--ranks", "2", "--set", "train.steps=5",
             "--set", f"run.out={run}", "--trace", run / "trace.json"],
            ["report", run, "--machine", source / "configs/machines/example-2core.yaml", "-o", folder / "out",
             "--perfetto", "--no-figures"],
        ):  # fmt: skip
            ran = subprocess.run([args.isobar, *map(str, words)], capture_output=True, text=True, timeout=300, env=env)
            check(f"{words[0]}: {ran.stdout} {ran.stderr}", ran.returncode == 0)
        # The measured time is the run's own record.
        seconds = {}
        for line in (run / "result.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["event"] == "step":
                seconds[record["step"]] = record["seconds"]
        events = json.loads((folder / "out/perfetto.json").read_text())["traceEvents"]
        steps = [e for e in events if e.get("cat") == "step" and e["pid"] == 0]
        check(f"{len(steps)} steps of rank 0", len(steps) == 2)
        took, number = steps[0]["dur"] * 1e-6, steps[0]["args"]["step"]
        near = min(seconds.values(), key=lambda s: abs(s - took))
        check(f"step {number} took {took} s, and the result says {seconds}", abs(near - took) < 2e-9)
        refuses(args.isobar, folder)
        serves_the_report_alone(args.isobar, folder)
        asks_the_desktop(args.isobar, folder)
        stands_its_ground(args.isobar, folder)
        if not find_chromium():
            print("SKIPPED: there is no Chromium (Debian's package chromium, or $CHROMIUM)")
            return
        keeps_neighbours(args.isobar, folder)
        draws(args.isobar, folder, run)
        hands_over(args.isobar, folder)
    print("passed")


if __name__ == "__main__":
    main()
