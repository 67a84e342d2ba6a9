#!/usr/bin/env python3
"""Draws a report: python render.py OUT [--png] [--pdf]

Renders OUT/figures/*.vl.json to SVG (and PNG, PDF) and inserts the drawings into OUT/index.html, with the Vega bundle and
page*.js that make them interactive, and a content security policy that forbids any other script or resource.
With --no-stills the page has no drawings; browsers draw them.
Exit code 3: vl-convert is not installed.
"""

import argparse
import base64
import copy
import hashlib
import json
import os
import pathlib
import re
import sys

try:
    import vl_convert
except ImportError:
    sys.exit(3)

WIDTH = 760  # pixels of a drawing, which has no container to size it
# Text positions are measured with these fonts: the widest come first, so that a narrower substitute clips
# nothing.
FONT = "'DejaVu Sans', Verdana, 'Liberation Sans', Arial, sans-serif"
PAGE = ("page_spec.js", "page_tables.js", "page.js")  # in this order


def static(spec):
    """The specification with the width that its page gives it at most."""
    spec = copy.deepcopy(spec)
    if spec["width"] == "container":
        spec["width"] = spec.get("usermeta", {}).get("width", WIDTH)
    spec.setdefault("config", {})["font"] = FONT
    return spec


def write(path, data):
    """Replaces the file atomically."""
    temp = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    temp.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    os.replace(temp, path)


def script(text):
    """A script element, and its hash for the content security policy."""
    assert "</script" not in text.lower() and "<!--" not in text
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
    return f"<script>{text}</script>", f"'sha256-{digest}'"


def bundle():
    text = vl_convert.javascript_bundle()
    # Inside a script element these sequences would end it or open a comment. In JavaScript they occur only in
    # strings, regular expressions and templates, where the escape means the same.
    return re.sub(r"</(script)", r"<\\/\1", text, flags=re.I).replace("<!--", r"\x3C!--")


def fill(out, drawings):
    """Fills drawings, scripts and policy into the page."""
    page = (out / "index.html").read_text(encoding="utf-8")

    def drawing(match):
        if drawings is None:
            return "<noscript><p class='warn'>Drawn by JavaScript, which this browser does not run.</p></noscript>"
        # Clip paths have the same names in every drawing, so one page needs a prefix for each.
        return re.sub(r"\b(clip|gradient)_?(\d+)\b", rf"{match[1]}-\1\2", drawings[match[1]])

    page = re.sub(r"<!--isobar:figure ([\w-]+)-->.*?<!--/isobar:figure-->", drawing, page, flags=re.S)
    library, library_hash = script(bundle())
    parts = [(pathlib.Path(__file__).parent / "scripts" / name).read_text(encoding="utf-8") for name in PAGE]
    own, own_hash = script("\n".join(parts))
    policy = (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"script-src {library_hash} {own_hash} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:\">"
    )
    page = page.replace("<!--isobar:scripts-->", library + own, 1).replace("<!--isobar:csp-->", policy, 1)
    write(out / "index.html", page)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--bundle", action="store_true", help="only print the JavaScript that draws figures")
    parser.add_argument("--png", action="store_true")
    parser.add_argument("--pdf", action="store_true")
    parser.add_argument("--no-stills", action="store_true")
    args = parser.parse_args()
    if args.bundle:
        sys.stdout.buffer.write(bundle().encode("utf-8"))
        return
    if not args.out:
        parser.error("OUT is missing")
    drawings = {}
    if args.no_stills and not args.png and not args.pdf:
        fill(args.out, None)
        return
    for path in sorted((args.out / "figures").glob("*.vl.json")):
        name = path.name.removesuffix(".vl.json")
        spec = static(json.loads(path.read_text(encoding="utf-8")))
        svg = vl_convert.vegalite_to_svg(spec)
        drawings[name] = svg
        write(path.with_name(name + ".svg"), svg)
        if args.png:
            write(path.with_name(name + ".png"), vl_convert.vegalite_to_png(spec, scale=2))
        if args.pdf:
            write(path.with_name(name + ".pdf"), vl_convert.vegalite_to_pdf(spec))
    fill(args.out, None if args.no_stills else drawings)


if __name__ == "__main__":
    main()
