#!/usr/bin/env python3
"""Pictures of a report's page: python3 screens.py PAGE OUT [--whole | --height 1300] [--sheet]

Headless Chromium draws PAGE at 1280 and 390 pixels, light and dark, into OUT-1280-light.png and so on: the first
screen, a number of pixel rows, or with --whole the full page. --sheet (needs Pillow) puts the four on one small
sheet instead, OUT.webp, as in reports/gallery/screens.
"""

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from devtools import Browser, find_chromium  # noqa: E402

SIZES = ((1280, 800), (390, 844))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--whole", action="store_true", help="all of the page, not its first screen")
    parser.add_argument("--height", type=int, help="rows of pixels instead of a screen's")
    parser.add_argument("--sheet", action="store_true", help="one sheet of the four pictures")
    args = parser.parse_args()
    if not find_chromium():
        sys.exit("screens.py: there is no Chromium -> install Debian's package chromium, or set $CHROMIUM")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        page = browser.open(args.page)
        for theme in ("light", "dark"):
            page.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": theme}])
            for width, height in SIZES:
                page.size(width, args.height or height, mobile=width < 600)
                page.go(args.page)
                # Pages of older versions do not signal that they are ready.
                page.wait("document.readyState === 'complete'", 120)
                time.sleep(0.3)
                page.wait("!document.querySelector('script[data-figure]') || document.documentElement.dataset.ready === 'yes'", 120)
                time.sleep(0.5)
                page.screenshot(f"{args.out}-{width}-{theme}.png", whole=args.whole)
    if args.sheet:
        sheet(args.out)


def sheet(out):
    """Light above dark, wide beside narrow, in few colours."""
    from PIL import Image

    files = {(w, t): pathlib.Path(f"{out}-{w}-{t}.png") for w, _ in SIZES for t in ("light", "dark")}
    shots = {key: Image.open(path).convert("RGB") for key, path in files.items()}
    gap, height = 16, min(shot.height for shot in shots.values())
    whole = Image.new("RGB", (1280 + 390 + gap, 2 * height + gap), (128, 128, 128))
    for (width, theme), shot in shots.items():
        place = (0 if width == 1280 else 1280 + gap, 0 if theme == "light" else height + gap)
        whole.paste(shot.crop((0, 0, width, height)), place)
    whole.quantize(64, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).convert("RGB").save(f"{out}.webp", lossless=True, method=6)
    for path in files.values():
        path.unlink()


if __name__ == "__main__":
    main()
