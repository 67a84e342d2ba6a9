#!/usr/bin/env python3
"""The page that follows a sweep, in a real browser: python3 live.py --isobar build/isobar

Plays a sweep of 36 trials: its files appear one by one, then it dies with some trials unfinished. The page must follow,
go on afterwards, answer nothing without its token, to no other host's name and on no other interface than loopback.
A server that is stopped at its start leaves nothing. Prints SKIPPED where there is no Chromium.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import made_up  # noqa: E402
from page_checks import check  # noqa: E402
from devtools import Browser, find_chromium  # noqa: E402


def status(host, port, path, name=None):
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("GET", path, headers={"Host": name} if name else {})
    return connection.getresponse().status


def loopback_alone(port, token):
    """Checks that the socket is bound to 127.0.0.1 only, by the kernel's table and by connecting to other addresses."""
    bound = []
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        if state == "0A" and int(local.split(":")[1], 16) == port:
            bound.append(local.split(":")[0])
    check(f"bound to {bound}, not to loopback alone", bound == ["0100007F"])
    own = {a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in own - {a for a in own if a.startswith("127.")}:
        try:
            answer = status(address, port, f"/state?token={token}")
        except OSError:
            continue
        raise AssertionError(f"{address} answers with {answer}")


def refusals(port, token):
    for path in ("/", "/state", "/figures", "/vega.js", "/live.js", "/state?token=", f"/state?token={token[:-1]}0x",
                 f"/state?token={token}0", "/nothing"):  # fmt: skip
        check(f"{path} is answered", status("127.0.0.1", port, path) == 403)
    check("another host's name is answered", status("127.0.0.1", port, f"/state?token={token}", "evil.example") == 403)
    check("the token is not taken", status("127.0.0.1", port, f"/state?token={token}") == 200)
    check("localhost is not taken", status("127.0.0.1", port, f"/state?token={token}", f"localhost:{port}") == 200)
    check("a path that is not there", status("127.0.0.1", port, f"/../sweep.json?token={token}") in (400, 404))


def killed_at_its_start(isobar, folder):
    """A server that is stopped before it serves leaves nothing behind, neither in TMPDIR nor in /tmp."""
    made = made_up.write(isobar, folder / "few", 2, seed=4)
    (folder / "few/sweep.json").write_text(matrix(made))
    temporary = folder / "temporary"
    temporary.mkdir()
    before = set(pathlib.Path("/tmp").glob("isobar-*"))
    for hundredths in range(5, 65, 10):
        server = subprocess.Popen(
            [isobar, "watch", folder / "few", "--serve"], stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(temporary)}
        )
        time.sleep(hundredths / 100)
        server.send_signal(signal.SIGTERM if hundredths % 20 == 5 else signal.SIGKILL)
        server.wait(20)
        server.stdout.read()  # until the Python that it started has ended, too
        server.stdout.close()
    left = [*temporary.iterdir(), *(set(pathlib.Path("/tmp").glob("isobar-vega*")) - before)]
    check(f"stopped servers left {left}", not left)


def at_once(isobar, folder):
    """A page is there before its libraries of figures: an interpreter that takes long and fails is no reason to wait. Of
    a run it says step and losses."""
    slow = folder / "slow-python"
    slow.write_text("#!/bin/sh\nsleep 4\nexit 3\n")
    slow.chmod(0o755)
    made = made_up.write(isobar, folder / "two", 2, seed=5)
    (folder / "two/sweep.json").write_text(matrix(made))
    run = folder / "two/trials" / made[0]["id"]
    for path, word in ((folder / "two", "2 trials"), (run, "step ")):
        begin = time.time()
        server = subprocess.Popen(
            [isobar, "watch", path, "--serve"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "ISOBAR_REPORT_PYTHON": str(slow)},
        )  # fmt: skip
        try:
            url = server.stdout.readline().strip()
            with urllib.request.urlopen(url, timeout=10) as answer:
                page = answer.read().decode()
            state = json.load(urllib.request.urlopen(url.replace("/?", "/state?"), timeout=10))
            took = time.time() - begin
            check(f"page and state came after {took:.1f} s", took < 3)
            check("the page does not say what is to come", "Figures are being prepared" in page)
            check(f"figures are known already: {state['without_figures']}", state["without_figures"] is None)
            check(f"the state is {state}", word in state["summary"] and 0 <= state["done"] <= state["total"])
            figures = json.load(urllib.request.urlopen(url.replace("/?", "/figures?"), timeout=20))
            check(f"no curve of {path}", path != run or [f["id"] for f in figures][:1] == ["training-loss"])
            while (state := json.load(urllib.request.urlopen(url.replace("/?", "/state?"), timeout=10)))["without_figures"] is None:
                check("nothing says that figures fail", time.time() - begin < 60)
                time.sleep(0.2)
            check("the reason is missing", state["without_figures"])
        finally:
            server.terminate()
            said = server.communicate(timeout=30)[1]
        check(f"the command does not warn: {said}", "the page has no figures" in said)


def matrix(made):
    trials = [{"id": m["id"], "name": m["name"], "ranks": m["axes"].get("ranks", 1)} for m in made]
    return json.dumps({"schema": 1, "trials": trials})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--keep", type=pathlib.Path, help="leave screenshots here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        killed_at_its_start(args.isobar, pathlib.Path(temporary))
        at_once(args.isobar, pathlib.Path(temporary))
    if not find_chromium():
        print("SKIPPED: there is no Chromium (Debian's package chromium, or $CHROMIUM)")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        made = made_up.write(args.isobar, folder / "all", 36, seed=3)
        dir = folder / "sweep"
        (dir / "trials").mkdir(parents=True)
        (dir / "sweep.json").write_text(matrix(made))

        def end(number):
            source = folder / "all/trials" / made[number]["id"]
            text = json.loads((source / "status.json").read_text())
            (source / "status.json").write_text(json.dumps({**text, "final": True}))
            shutil.copytree(source, dir / "trials" / made[number]["id"])

        server = subprocess.Popen([args.isobar, "watch", dir, "--serve"], stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().strip()
            match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{32})", url)
            check(f"the address is {url}", match)
            port, token = int(match[1]), match[2]
            loopback_alone(port, token)
            refusals(port, token)
            done = "document.documentElement.dataset.done"
            with Browser() as browser:
                page = browser.open_url(url)
                page.wait(f"{done} === '0'", 30)
                for number in range(30):
                    end(number)
                    if number in (0, 11, 29):
                        page.wait(f"{done} === '{number + 1}'", 30)
                        page.wait(f"document.documentElement.dataset.drawn === '{number + 1}'", 60)
                text = page.evaluate("document.body.innerText")
                check(f"the page does not say how far it is: {text[:300]}", "30 of 36 trials" in text)
                named = [m["name"] for m in made if m["name"] in text]
                check(f"{len(named)} of 36 trials are named", len(named) == 36)
                points = page.evaluate("document.querySelectorAll('#plot-throughput-by-layout g.mark-symbol path').length")
                check(f"{points} points for 30 runs", points >= 30)
                best = min(made[:30], key=lambda m: m["step_s"])["axes"]
                check("the fastest is not of two ranks", best["ranks"] == 2 and "Fastest so far: dp2" in text)
                if args.keep:
                    page.screenshot(args.keep / "live.png", whole=True)
                # The sweep dies: files stop changing, the page keeps answering.
                time.sleep(2.5)
                check("the page has lost its server", page.evaluate("document.getElementById('lost').hidden"))
                check("the server ended with the sweep", server.poll() is None)
                page.size(390, 844, mobile=True)
                wide = page.evaluate("document.documentElement.scrollWidth")
                check(f"{wide} pixels wide in a window of 390", wide <= 390)
                # Another sweep resumes and completes it.
                for number in range(30, 36):
                    end(number)
                page.wait(f"{done} === '36'", 30)
                check("the page does not say that all is done", "all done" in page.evaluate("document.body.innerText"))
                page.wait("document.documentElement.dataset.drawn === '36'", 60)
                check(f"the console complains: {page.complaints}", not page.complaints)
                server.terminate()
                server.wait(10)
                page.wait("!document.getElementById('lost').hidden", 30)
                check("what was last is gone", "36 of 36" in page.evaluate("document.body.innerText"))
            check(f"it ended with code {server.returncode}", server.returncode == 0)
        finally:
            server.kill()
            server.wait()
    print("passed")


if __name__ == "__main__":
    main()
