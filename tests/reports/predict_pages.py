#!/usr/bin/env python3
"""Pages of predictions in a real browser: python3 predict_pages.py --isobar build/isobar [--pages search] [--keep DIR]

`search`, `compare` and `budget` write their pages; headless Chromium opens each at 1280 and 390 pixels, light and dark:
three figures in large type beside the chart, no label cut or on another, marks that stand out, short sentences, and
nothing serious for axe-core. With --keep the pictures stay. Prints SKIPPED without Chromium or vl-convert.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from devtools import Browser, find_chromium  # noqa: E402
from page_checks import (  # noqa: E402
    accessible, all_drawn, apart, check, clipped_labels, contrast, facts, legible, no_overflow, short, unfold,
)  # fmt: skip

CLIMATE = "--machine dgx-a100 --machine dgx-h100 --deadline 14d --budget 100k"
PAGES = {
    "search": "search llama3-8b --machine dgx-h100 --gpus 64",
    "compare": "compare llama3-8b --machine dgx-h100 --machine dgx-b200 --gpus 64",
    "budget-llama3-70b": "budget llama3-70b --machine dgx-h100 --machine dgx-b200 --tokens 1T --deadline 45d --budget 2M",
    "budget-graphcast": f"budget graphcast --samples 9.6M {CLIMATE}",
    "budget-aurora": f"budget aurora --samples 4.8M {CLIMATE}",
}


def write(isobar, name, out):
    done = subprocess.run([isobar, *PAGES[name].split(), "-o", out], capture_output=True, text=True)
    if "figures are not drawn: figures need" in done.stderr:
        print("SKIPPED: vl-convert is not installed (bench/setup.sh does)")
        sys.exit(0)
    check(f"{PAGES[name]}: {done.stderr}", done.returncode == 0)


def look(page, path, name, theme, width, height, keep):
    what = f"{name}, {theme}, {width} pixels"
    page.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": theme}])
    page.size(width, height, mobile=width < 600)
    page.go(path)
    page.wait("document.documentElement.dataset.ready === 'yes'", 120)
    if keep:
        page.screenshot(keep / f"{name}-{width}-{theme}.png", whole=True)
    facts(page, width)
    short(page)
    unfold(page)
    for rule in (all_drawn, clipped_labels, contrast, apart):
        try:
            rule(page)
        except AssertionError as e:
            raise AssertionError(f"{what}: {e}") from e
    legible(page, 9)
    no_overflow(page, width)
    if not accessible(page, what):
        print("axe-core is not installed (bench/setup.sh --tests does): its rules were not checked")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--pages", nargs="+", choices=PAGES, default=list(PAGES))
    parser.add_argument("--keep", type=pathlib.Path, help="leave pages and screenshots here")
    args = parser.parse_args()
    if not find_chromium():
        print("SKIPPED: there is no Chromium (Debian's package chromium, or $CHROMIUM)")
        return
    with tempfile.TemporaryDirectory() as temporary, Browser() as browser:
        folder = args.keep or pathlib.Path(temporary)
        page = None
        for name in args.pages:
            write(args.isobar, name, folder / name)
            path = folder / name / "index.html"
            page = page or browser.open(path)
            for theme in ("light", "dark"):
                for width, height in ((1280, 800), (390, 844)):
                    look(page, path, name, theme, width, height, args.keep)
        check(f"the console complains: {page.complaints}", not page.complaints)
    print("passed")


if __name__ == "__main__":
    main()
