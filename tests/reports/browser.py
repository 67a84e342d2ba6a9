#!/usr/bin/env python3
"""A report in a real browser: python3 browser.py --isobar build/isobar [--runs 72] [--keep DIR]

Makes up results, has `isobar report` write its page, opens it in headless Chromium, hovers, filters, picks, drags,
resets, narrows the window to a phone's and prints. Exits with 0 and "passed", or prints the failure. Prints
SKIPPED without Chromium or vl-convert. With --runs 10000 it also prints durations.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import made_up  # noqa: E402
from devtools import Browser, find_chromium  # noqa: E402
from page_checks import (  # noqa: E402
    accessible, all_drawn, apart, canvas_tooltips, check, clipped_labels, contrast, dots, facts, first_screen, legible,
    no_overflow, square, stills, tooltips, two_screens, unfold,
)  # fmt: skip

MANY = 1500  # runs beyond which the page draws on canvas (page.js)

# Centres of a figure's point marks, in window coordinates.
POINTS = """(() => {
  const plot = document.getElementById('plot-%s');
  plot.scrollIntoView({block: 'center'});
  return [...plot.querySelectorAll('g.mark-symbol.role-mark path')].map((p) => {
    const r = p.getBoundingClientRect();
    return [r.x + r.width / 2, r.y + r.height / 2];
  }).filter(([x, y]) => x > 0 && y > 0 && x < innerWidth && y < innerHeight);
})()"""
STORY = ["Best layout", "What bounds it", "What the predictor got wrong", "Disturbed or failed", "What to run next"]
STATUS = "document.getElementById('status').textContent"


IN_VIEW, ALL = [], []  # seconds of each change until the visible figures, and until all figures, were updated


def settled(page, action, timed=True):
    """Runs an action that changes the figures, and waits until all are redrawn."""
    seen, before = (page.evaluate(f"document.documentElement.dataset.{k} || '0'") for k in ("seen", "updates"))
    begin = time.monotonic()
    action()
    page.wait(f"(document.documentElement.dataset.seen || '0') !== '{seen}'", 30)
    in_view = time.monotonic() - begin
    page.wait(f"(document.documentElement.dataset.updates || '0') !== '{before}'", 30)
    if timed:
        IN_VIEW.append(in_view)
        ALL.append(time.monotonic() - begin)


def middle(seconds):
    return f"{sorted(seconds)[len(seconds) // 2]:.2f} (worst {max(seconds):.2f})"


def chip(facet, value):
    return (
        "[...document.querySelectorAll('.chip')].find((c) => "
        f"c.dataset.facet === '{facet}' && c.textContent === '{value}').click()"
    )


def tooltip_of(page, figure):
    """Hovers over points of the figure until one answers; returns its text and place."""
    for x, y in page.evaluate(POINTS % figure)[::7]:
        page.hover(x, y)
        time.sleep(0.05)
        text = page.evaluate("(document.querySelector('#tip:not([hidden])') || {}).innerText || ''")
        if text:
            return text, x, y
    raise AssertionError(f"no point of {figure} says anything when hovered over")


def use(page, made, keep):
    ok = [m for m in made if m["ok"]]
    page.wait("document.documentElement.dataset.ready === 'yes'", 120)
    first_screen(page, STORY, "throughput-by-layout")
    two_screens(page)
    follow_link(page)
    unfold(page)
    all_drawn(page)
    no_overflow(page, 1280)
    check(f"status is '{page.evaluate(STATUS)}'", f"{len(ok)} of {len(ok)} runs shown" in page.evaluate(STATUS))
    check("a failed run does not say why", page.evaluate("document.querySelector('main').textContent.includes('ran out of host memory')"))
    if keep:
        page.screenshot(keep / "wide.png", whole=True)

    dots(page)
    few = len(ok) <= MANY
    if few:  # points on a canvas are not DOM elements
        legible(page, 9)
        clipped_labels(page)
        contrast(page)
        apart(page)
        square(page)
        check("no mark has a tooltip", tooltips(page, 1280) > len(ok))
        accessible(page, "light, 1280 pixels")
        text, x, y = tooltip_of(page, "throughput-by-layout")
        named = [m for m in ok if m["id"] in text]
        check(f"the tooltip names no run: {text}", len(named) == 1)
        check(f"the tooltip does not show the layout: {text}", re.search(r"layout\s*dp[12]", text))
        shown = float(re.search(r"step \[ms\], median of the steps\s*([\d.]+)", text)[1])
        check(f"{shown} ms for a run of {named[0]['step_s'] * 1e3}", abs(shown / named[0]["step_s"] / 1e3 - 1) < 0.06)

        settled(page, lambda: page.click(x, y))
        check(f"status is '{page.evaluate(STATUS)}'", "picked: " in page.evaluate(STATUS))
        first = page.evaluate("document.querySelector('#table-runs tbody tr.picked').textContent")
        check(f"the table's first row is not the picked run: {first}", named[0]["id"] in first)
        faded = page.evaluate(
            "[...document.querySelectorAll('#plot-predicted-measured g.mark-symbol.role-mark path')]"
            ".map((p) => +p.getAttribute('opacity'))"
        )
        check(f"one point stands out in another figure, not {faded}", sum(o > 0.5 for o in faded) == 1)
        settled(page, lambda: page.evaluate("document.getElementById('reset').click()"))
    else:
        told = canvas_tooltips(page)
        check(f"these places of canvases have a tooltip: {told}", told and all(n > 2 for n in told.values()))

    bf16 = [m for m in ok if m["axes"]["policy.amp"] == "bf16"]
    settled(page, lambda: page.evaluate(chip("precision", "bf16")))
    check(f"status is '{page.evaluate(STATUS)}'", f"{len(bf16)} of {len(ok)} runs shown" in page.evaluate(STATUS))
    rows = page.evaluate("[...document.querySelectorAll('#table-runs tbody tr')].map((r) => r.textContent)")
    check(f"{len(rows)} rows", len(rows) == min(200, len(bf16)) and all("bf16" in r for r in rows))
    if few:
        points = page.evaluate("document.querySelectorAll('#plot-residuals g.mark-symbol.role-mark path').length")
        check(f"{points} points for {len(bf16)} runs", points == len(bf16))
    settled(page, lambda: page.evaluate(chip("loader workers", "2")))
    both = [m for m in bf16 if m["axes"]["data.workers"] == 2]
    check(f"status is '{page.evaluate(STATUS)}'", f"{len(both)} of {len(ok)} runs shown" in page.evaluate(STATUS))
    kept = page.evaluate("location.hash")  # the link that a reader would share
    settled(page, lambda: page.evaluate("document.getElementById('reset').click()"))
    check("the address keeps a filter that was taken back", not page.evaluate("location.hash"))
    settled(page, lambda: page.evaluate(f"location.hash = {kept!r}"))
    check(f"status is '{page.evaluate(STATUS)}' by {kept}", f"{len(both)} of {len(ok)} runs shown" in page.evaluate(STATUS))
    settled(page, lambda: page.evaluate("document.getElementById('reset').click()"))
    check(f"status is '{page.evaluate(STATUS)}'", f"{len(ok)} of {len(ok)} runs shown" in page.evaluate(STATUS))

    left, top, width, height = page.evaluate(
        "(() => { const p = document.getElementById('plot-pareto-front'); p.scrollIntoView({block: 'center'});"
        "const r = p.querySelector('svg.marks, canvas.marks').getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()"
    )

    def drag():
        page.hover(left + 0.1 * width, top + 0.3 * height)
        time.sleep(0.2)
        page.mouse("mousePressed", left + 0.1 * width, top + 0.3 * height, button="left", clickCount=1)
        for i in range(1, 11):
            page.mouse(
                "mouseMoved", left + (0.1 + 0.08 * i) * width, top + (0.3 + 0.05 * i) * height, button="left", buttons=1
            )
            time.sleep(0.02)
        page.mouse("mouseReleased", left + 0.9 * width, top + 0.8 * height, button="left", clickCount=1)

    settled(page, drag, timed=False)  # its duration includes the mouse movement
    check(f"status is '{page.evaluate(STATUS)}'", re.search(r"picked: \d+ runs", page.evaluate(STATUS)))
    settled(page, lambda: page.evaluate("document.getElementById('reset').click()"))

    # The page must keep answering events while figures redraw; this records the longest pause.
    page.evaluate(
        "window.longest = 0; (() => { let last = performance.now(); const tick = () => { const now = performance.now();"
        "window.longest = Math.max(window.longest, now - last); last = now; window.timer = setTimeout(tick); }; tick(); })()"
    )
    for figure in page.evaluate("[...document.querySelectorAll('script[data-figure]')].map((s) => s.dataset.figure)"):
        page.evaluate(f"document.getElementById('plot-{figure}').scrollIntoView({{block: 'center'}})")
        settled(page, lambda: page.evaluate(chip("precision", "fp32")))
        settled(page, lambda: page.evaluate("document.getElementById('reset').click()"))
    return page.evaluate("clearTimeout(window.timer), window.longest") / 1e3


def follow_link(page):
    """A link to something folded opens it and draws its figures."""
    page.evaluate("document.querySelector('.story a[href=\"#table-failed\"]').click()")
    page.wait("document.querySelector('#table-failed').getBoundingClientRect().height > 0")
    page.evaluate("history.replaceState(null, '', location.href.split('#')[0])")


def many_layouts(page, path):
    """Long names and long legends, wide and narrow."""
    for width, height in ((1280, 900), (390, 844)):
        page.size(width, height, mobile=width < 600)
        page.go(path)
        page.wait("document.documentElement.dataset.ready === 'yes'", 120)
        if width > 600:
            first_screen(page, STORY, "throughput-by-layout")
            two_screens(page)
            stills(page, path.parent)
        else:
            facts(page, width)
        unfold(page)
        all_drawn(page)
        no_overflow(page, width)
        legible(page, 9)
        clipped_labels(page)
        contrast(page)
        tooltips(page, width)


def history(page, isobar, folder):
    """The page of `isobar check`: step times over commits, on a phone in the dark."""
    reference, out = folder / "reference.jsonl", folder / "history"
    command = [isobar, "check", folder / "before", "--reference", reference]
    subprocess.run([*command, "--update"], stdout=subprocess.DEVNULL, check=True)
    command[2] = folder / "after"  # 20 % faster
    subprocess.run([*command, "-o", out], stdout=subprocess.DEVNULL, check=True)
    stills(page, out)
    page.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.size(390, 844, mobile=True)
    page.go(out / "index.html")
    page.wait("document.documentElement.dataset.ready === 'yes'", 120)
    all_drawn(page)
    no_overflow(page, 390)
    legible(page, 9)
    clipped_labels(page)
    check("no mark of the history has a tooltip", tooltips(page, 390) > 10)
    accessible(page, "history, dark, 390 pixels")


def dark(page):
    """The page follows the reader's colour scheme, and no text is dark on dark."""
    page.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.wait("document.documentElement.dataset.theme === 'dark'")
    page.wait("[...document.querySelectorAll('.plot svg text')].filter((t) => t.textContent).every((t) => "
              "/^#[a-f9]/i.test(t.getAttribute('fill') || '#f'))", 60)  # fmt: skip


def narrow_and_print(page, path, keep):
    page.size(390, 844, mobile=True)
    page.go(path)
    page.wait("document.documentElement.dataset.ready === 'yes'", 120)
    facts(page, 390)
    unfold(page)
    all_drawn(page)
    no_overflow(page, 390)
    legible(page, 9)
    clipped_labels(page)
    square(page)
    check("no mark has a tooltip", tooltips(page, 390) > 10)
    dark(page)
    contrast(page)
    if not accessible(page, "dark, 390 pixels"):
        print("axe-core is not installed (bench/setup.sh --tests does): its rules were not checked")
    if keep:
        page.screenshot(keep / "narrow-dark.png", whole=True)
    page.call("Emulation.setEmulatedMedia", media="", features=[])
    page.wait("document.documentElement.dataset.theme === 'light'")
    if keep:
        page.screenshot(keep / "narrow.png", whole=True)
    page.size(1280, 900)
    page.go(path)
    page.wait("document.documentElement.dataset.ready === 'yes'", 120)
    unfold(page)
    page.call("Emulation.setEmulatedMedia", media="print")
    page.size(718, 1000)  # A4 less its margins, at 96 pixels an inch
    time.sleep(0.3)
    no_overflow(page, 718)
    legible(page, 5.5)  # 4 points and more
    check("controls are printed", page.evaluate("getComputedStyle(document.getElementById('controls')).display") == "none")
    if keep:
        page.screenshot(keep / "print.png", whole=True)
    with tempfile.TemporaryDirectory() as folder:
        pdf = (keep or pathlib.Path(folder)) / "page.pdf"
        page.pdf(pdf)
        pages = len(re.findall(rb"/Type\s*/Page[^s]", pdf.read_bytes()))
    check(f"{pages} pages were printed", 3 <= pages <= 40)


def report(args, folders, out):
    begin = time.monotonic()
    done = subprocess.run(
        [args.isobar, "report", *folders, "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if "figures are not drawn: figures need" in done.stderr:
        print("SKIPPED: vl-convert is not installed (bench/setup.sh does)")
        sys.exit(0)
    check(f"isobar report failed: {done.stderr}", done.returncode == 0 and "warning" not in done.stderr)
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--runs", type=int, default=72)
    parser.add_argument("--keep", type=pathlib.Path, help="leave results, pages and screenshots here")
    args = parser.parse_args()
    if not find_chromium():
        print("SKIPPED: there is no Chromium (Debian's package chromium, or $CHROMIUM)")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        made = made_up.write(args.isobar, folder / "before", args.runs, seed=1)
        took = report(args, [folder / "before"], folder / "report")
        with Browser() as browser:
            begin = time.monotonic()
            page = browser.open(folder / "report/index.html")
            page.wait("document.documentElement.dataset.ready === 'yes'", 120)
            opened = time.monotonic() - begin
            first = float(page.evaluate("document.documentElement.dataset.first")) / 1e3
            longest = use(page, made, args.keep)
            if args.runs <= MANY:
                stills(page, folder / "report")
                narrow_and_print(page, folder / "report/index.html", args.keep)
                made_up.write(args.isobar, folder / "layouts", 60, seed=3, axes=made_up.LAYOUTS)
                report(args, [folder / "layouts"], folder / "of-layouts")
                page.call("Emulation.setEmulatedMedia", media="")
                many_layouts(page, folder / "of-layouts/index.html")
                made_up.write(args.isobar, folder / "after", args.runs, seed=2, factor=0.8)
                report(args, [folder / "before", folder / "after"], folder / "change")
                page.size(1280, 900)
                page.go(folder / "change/index.html")
                page.wait("document.documentElement.dataset.ready === 'yes'", 120)
                first_screen(page, ["Change", *STORY], "before-after")
                two_screens(page)
                text = page.evaluate("document.querySelector('.facts dd').innerText")
                change = re.search(r"-([\d.]+)\s%", text)
                check(f"20 % less is not what the page says: {text}", change and abs(float(change[1]) - 20) < 2)
                two = page.evaluate(
                    "new Set([...document.querySelectorAll('#plot-before-after g.mark-symbol.role-mark path')]"
                    ".map((p) => p.getAttribute('fill'))).size"
                )
                check(f"before and after have {two} colours", two == 2)
                unfold(page)
                all_drawn(page)
                no_overflow(page, 1280)
                clipped_labels(page)
                contrast(page)
                if args.keep:
                    page.screenshot(args.keep / "change.png", whole=True)
                history(page, args.isobar, folder)
            check(f"the console complains: {page.complaints}", not page.complaints)
    print(
        f"{args.runs} runs: report written in {took:.1f} s, first figure after {first:.2f} s, all after {opened:.1f} s; "
        f"{len(ALL)} changes: what is in view after {middle(IN_VIEW)} s, all figures after {middle(ALL)} s, longest "
        f"without an answer {longest:.2f} s"
    )
    print("passed")


if __name__ == "__main__":
    main()
