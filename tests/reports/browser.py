#!/usr/bin/env python3
"""A report in a real browser: python3 browser.py --isobar build/isobar [--runs 72] [--keep DIR]

Makes up results, has `isobar report` write its page, opens it in headless Chromium, hovers, filters, picks, drags,
resets, narrows the window to a phone's and prints. Ends with code 0 and "passed", or says what was wrong. Prints
SKIPPED where there is no Chromium or no vl-convert. With --runs 10000 it also says how long all of it took.
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

MANY = 1500  # runs beyond which the page draws on canvas (page.js)

# The middles of the marks of a figure that are points, inside the window.
POINTS = """(() => {
  const plot = document.getElementById('plot-%s');
  plot.scrollIntoView({block: 'center'});
  return [...plot.querySelectorAll('g.mark-symbol.role-mark path')].map((p) => {
    const r = p.getBoundingClientRect();
    return [r.x + r.width / 2, r.y + r.height / 2];
  }).filter(([x, y]) => x > 0 && y > 0 && x < innerWidth && y < innerHeight);
})()"""
STATUS = "document.getElementById('status').textContent"


def check(what, truth):
    if not truth:
        raise AssertionError(what)


IN_VIEW = []  # seconds until the figures in view had changed, of each change


def settled(page, action):
    """Does something that changes the figures; returns the seconds until all of them have been drawn again."""
    seen, before = (page.evaluate(f"document.documentElement.dataset.{k} || '0'") for k in ("seen", "updates"))
    begin = time.monotonic()
    action()
    page.wait(f"(document.documentElement.dataset.seen || '0') !== '{seen}'", 30)
    IN_VIEW.append(time.monotonic() - begin)
    page.wait(f"(document.documentElement.dataset.updates || '0') !== '{before}'", 30)
    return time.monotonic() - begin


def chip(facet, value):
    return (
        "[...document.querySelectorAll('.chip')].find((c) => "
        f"c.dataset.facet === '{facet}' && c.textContent === '{value}').click()"
    )


def no_overflow(page, width):
    got = page.evaluate("document.documentElement.scrollWidth")
    check(f"the page is {got} pixels wide in a window of {width}", got <= width)
    wide = page.evaluate(
        "[...document.querySelectorAll('.plot svg, .plot canvas')].filter((e) => e.getBoundingClientRect().right > "
        f"{width} + 1).map((e) => e.closest('.plot').id)"
    )
    check(f"figures reach beyond {width} pixels: {wide}", not wide)


def all_drawn(page):
    bare = page.evaluate(
        "[...document.querySelectorAll('.plot')].filter((p) => p.dataset.drawn !== 'yes' || !p.querySelector('svg, "
        "canvas')).map((p) => p.id)"
    )
    check(f"figures were not drawn: {bare}", not bare)


def legible(page, least):
    """Text of figures, in pixels as they are on the screen."""
    small = page.evaluate(
        "[...document.querySelectorAll('.plot svg text')].filter((t) => t.textContent && "
        f"parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width / "
        f"(t.ownerSVGElement.viewBox.baseVal.width || 1) < {least}).map((t) => t.textContent).slice(0, 5)"
    )
    check(f"text under {least} pixels: {small}", not small)


def clipped_labels(page):
    """Text of figures that reaches out of its drawing, which cuts it off."""
    clipped = page.evaluate(
        "[...document.querySelectorAll('.plot svg text')].filter((t) => { if (!t.textContent) return false;"
        "const r = t.getBoundingClientRect(), s = t.ownerSVGElement.getBoundingClientRect();"
        "return r.width && (r.left < s.left - 1 || r.right > s.right + 1 || r.top < s.top - 1 || r.bottom > s.bottom + 1); })"
        ".map((t) => t.closest('.plot').id + ': ' + t.textContent).slice(0, 5)"
    )
    check(f"labels are clipped: {clipped}", not clipped)


def tooltips(page, width):
    """Over every mark of every figure that answers: the whole text, inside the window."""
    bad, shown = page.evaluate(
        "(async () => { const bad = []; let shown = 0; const tip = document.getElementById('tip');"
        "for (const plot of document.querySelectorAll('.plot')) {"
        "  plot.scrollIntoView({block: 'center'});"
        "  for (const mark of plot.querySelectorAll('g.role-mark path, g.role-mark rect, g.role-mark line')) {"
        "    const r = mark.getBoundingClientRect(); if (!r.width && !r.height) continue;"
        "    const x = r.x + r.width / 2, y = r.y + r.height / 2;"
        "    if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue;"
        "    tip.hidden = true;"
        "    for (const kind of ['pointermove', 'mousemove', 'mouseover'])"
        "      mark.dispatchEvent(new MouseEvent(kind, {clientX: x, clientY: y, bubbles: true, view: window}));"
        "    if (tip.hidden) continue;"
        "    shown++; const t = tip.getBoundingClientRect();"
        "    const cut = t.left < 0 || t.top < 0 || t.right > innerWidth || t.bottom > innerHeight ||"
        "      tip.scrollWidth > tip.clientWidth + 1 || tip.scrollHeight > tip.clientHeight + 1 || !tip.innerText.trim();"
        "    if (cut) bad.push([plot.id, Math.round(t.left), Math.round(t.top), Math.round(t.right), Math.round(t.bottom)]);"
        "  } } tip.hidden = true; scrollTo(0, 0); return [bad.slice(0, 5), shown]; })()"
    )
    check(f"tooltips are cut off in a window of {width}: {bad}", not bad)
    return shown


def find_axe():
    """axe-core, of the Python package that bench/setup.sh --tests brings; None where it is not."""
    root = pathlib.Path(__file__).resolve().parents[2]
    found = sorted(root.glob(".venv-axe/lib/python3*/site-packages/axe_core_python/axe.min.js"))
    return found[0] if found else None


def accessible(page, what):
    """None of axe-core's serious or critical rules is broken. Returns whether axe-core was there."""
    axe = find_axe()
    if not axe:
        return False
    page.evaluate(axe.read_text(encoding="utf-8") + "; true")
    broken = page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations"
        ".filter((v) => ['serious', 'critical'].includes(v.impact))"
        ".map((v) => v.id + ': ' + v.nodes.length + ' as ' + v.nodes[0].target + ' ' + v.nodes[0].failureSummary))"
    )
    check(f"{what}: axe-core finds {broken}", not broken)
    return True


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
    all_drawn(page)
    no_overflow(page, 1280)
    check(f"status is '{page.evaluate(STATUS)}'", f"{len(ok)} of {len(ok)} runs shown" in page.evaluate(STATUS))
    check("a failed run does not say why", page.evaluate("document.body.innerText.includes('ran out of host memory')"))
    if keep:
        page.screenshot(keep / "wide.png", whole=True)

    few = len(ok) <= MANY
    if few:  # points on a canvas are no elements that one could find
        legible(page, 9)
        clipped_labels(page)
        check("no mark has a tooltip", tooltips(page, 1280) > len(ok))
        accessible(page, "light, 1280 pixels")
        text, x, y = tooltip_of(page, "throughput-by-layout")
        named = [m for m in ok if m["id"] in text]
        check(f"the tooltip names no run: {text}", len(named) == 1)
        check(f"the tooltip does not show the layout: {text}", re.search(r"layout\s*dp[12]", text))
        shown = float(re.search(r"step[^\[\n]*\[ms\]\s*([\d.]+)", text)[1])
        check(f"{shown} ms for a run of {named[0]['step_s'] * 1e3}", abs(shown / named[0]["step_s"] / 1e3 - 1) < 0.06)

        settled(page, lambda: page.click(x, y))
        check(f"status is '{page.evaluate(STATUS)}'", "picked: " in page.evaluate(STATUS))
        first = page.evaluate("document.querySelector('#table-runs tbody tr.picked').innerText")
        check(f"the table's first row is not the picked run: {first}", named[0]["id"] in first)
        faded = page.evaluate(
            "[...document.querySelectorAll('#plot-predicted-measured g.mark-symbol.role-mark path')]"
            ".map((p) => +p.getAttribute('opacity'))"
        )
        check(f"one point stands out in another figure, not {faded}", sum(o > 0.5 for o in faded) == 1)
        settled(page, lambda: page.evaluate("document.getElementById('reset').click()"))

    bf16 = [m for m in ok if m["axes"]["policy.amp"] == "bf16"]
    seconds = [settled(page, lambda: page.evaluate(chip("precision", "bf16")))]
    check(f"status is '{page.evaluate(STATUS)}'", f"{len(bf16)} of {len(ok)} runs shown" in page.evaluate(STATUS))
    rows = page.evaluate("[...document.querySelectorAll('#table-runs tbody tr')].map((r) => r.innerText)")
    check(f"{len(rows)} rows", len(rows) == min(200, len(bf16)) and all("bf16" in r for r in rows))
    if few:
        points = page.evaluate("document.querySelectorAll('#plot-residuals g.mark-symbol.role-mark path').length")
        check(f"{points} points for {len(bf16)} runs", points == len(bf16))
    seconds.append(settled(page, lambda: page.evaluate(chip("loader workers", "2"))))
    both = [m for m in bf16 if m["axes"]["data.workers"] == 2]
    check(f"status is '{page.evaluate(STATUS)}'", f"{len(both)} of {len(ok)} runs shown" in page.evaluate(STATUS))
    seconds.append(settled(page, lambda: page.evaluate("document.getElementById('reset').click()")))
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

    seconds.append(settled(page, drag))
    check(f"status is '{page.evaluate(STATUS)}'", re.search(r"picked: \d+ runs", page.evaluate(STATUS)))
    settled(page, lambda: page.evaluate("document.getElementById('reset').click()"))

    # While figures are drawn again the page must go on answering: the longest it keeps anybody waiting.
    page.evaluate(
        "window.longest = 0; (() => { let last = performance.now(); const tick = () => { const now = performance.now();"
        "window.longest = Math.max(window.longest, now - last); last = now; window.timer = setTimeout(tick); }; tick(); })()"
    )
    seconds.append(settled(page, lambda: page.evaluate(chip("precision", "fp32"))))
    longest = page.evaluate("clearTimeout(window.timer), window.longest") / 1e3
    settled(page, lambda: page.evaluate("document.getElementById('reset').click()"))
    return max(seconds), longest


def dark(page):
    """The page follows the reader's scheme, and no text of a figure is dark on dark."""
    page.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.wait("document.documentElement.dataset.theme === 'dark'")
    page.wait("[...document.querySelectorAll('.plot svg text')].filter((t) => t.textContent).every((t) => "
              "/^#[a-f9]/i.test(t.getAttribute('fill') || '#f'))", 60)  # fmt: skip


def narrow_and_print(page, path, keep):
    page.size(390, 844, mobile=True)
    page.go(path)
    page.wait("document.documentElement.dataset.ready === 'yes'", 120)
    all_drawn(page)
    no_overflow(page, 390)
    legible(page, 9)
    clipped_labels(page)
    check("no mark has a tooltip", tooltips(page, 390) > 10)
    dark(page)
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
            slowest, longest = use(page, made, args.keep)
            if args.runs <= MANY:
                narrow_and_print(page, folder / "report/index.html", args.keep)
                made_up.write(args.isobar, folder / "after", args.runs, seed=2, factor=0.8)
                report(args, [folder / "before", folder / "after"], folder / "change")
                page.call("Emulation.setEmulatedMedia", media="")
                page.size(1280, 900)
                page.go(folder / "change/index.html")
                page.wait("document.documentElement.dataset.ready === 'yes'", 120)
                all_drawn(page)
                no_overflow(page, 1280)
                text = page.evaluate("document.querySelector('.story').innerText")
                change = re.search(r"takes ([\d.]+) % less time", text)
                check(f"20 % less is not what the page says: {text}", change and abs(float(change[1]) - 20) < 2)
                if args.keep:
                    page.screenshot(args.keep / "change.png", whole=True)
            check(f"the console complains: {page.complaints}", not page.complaints)
    print(
        f"{args.runs} runs: report written in {took:.1f} s, page ready after {opened:.1f} s, slowest change of what is "
        f"in view {max(IN_VIEW):.2f} s, of all figures {slowest:.2f} s, longest without an answer {longest:.2f} s"
    )
    print("passed")


if __name__ == "__main__":
    main()
