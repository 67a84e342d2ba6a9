"""Checks that every report page must pass, shared by the browser tests.

    no_overflow(page, 1280)       # raises AssertionError with what is wrong
"""

import json
import pathlib
import random


def check(what, truth):
    if not truth:
        raise AssertionError(what)


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
    """Checks the size of figure text in screen pixels."""
    small = page.evaluate(
        "[...document.querySelectorAll('.plot svg text')].filter((t) => t.textContent && "
        f"parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width / "
        f"(t.ownerSVGElement.viewBox.baseVal.width || 1) < {least}).map((t) => t.textContent).slice(0, 5)"
    )
    check(f"text under {least} pixels: {small}", not small)


def clipped_labels(page):
    """Figure text that is clipped by its drawing."""
    clipped = page.evaluate(
        "[...document.querySelectorAll('.plot svg text')].filter((t) => { if (!t.textContent) return false;"
        "const r = t.getBoundingClientRect(), s = t.ownerSVGElement.getBoundingClientRect();"
        "return r.width && (r.left < s.left - 1 || r.right > s.right + 1 || r.top < s.top - 1 || r.bottom > s.bottom + 1); })"
        ".map((t) => t.closest('.plot').id + ': ' + t.textContent).slice(0, 5)"
    )
    check(f"labels are clipped: {clipped}", not clipped)


def stills(page, folder):
    """Checks that no text is clipped in the figures' SVG files with this browser's fonts."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in sorted((folder / "figures").glob("*.svg"))}
    check(f"{folder} has no figures", files)
    clipped = page.evaluate(
        f"Object.entries({json.dumps(files)}).flatMap(([name, text]) => {{ const place = document.createElement('div');"
        "place.innerHTML = text; document.body.append(place); const s = place.querySelector('svg').getBoundingClientRect();"
        "const out = [...place.querySelectorAll('text')].filter((t) => { const r = t.getBoundingClientRect();"
        "return r.width && (r.left < s.left - 1 || r.right > s.right + 1 || r.top < s.top - 1 || r.bottom > s.bottom + 1); });"
        "const found = out.map((t) => name + ': ' + t.textContent); place.remove(); return found; })"
    )
    check(f"labels of SVG files are clipped: {clipped[:5]}", not clipped)


def tooltips(page, width):
    """Checks for every mark that its tooltip is complete and inside the window."""
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


def first_screen(page, sentences, lead):
    """A picture: three figures in large type beside a chart, and short sentences that each lead to something."""
    page.size(1280, 800)
    page.evaluate("scrollTo(0, 0)")
    below = page.evaluate(
        "[...document.querySelectorAll('h1, .subject, .facts div, .lead .plot svg, .lead .plot canvas, .story li')]"
        ".filter((e) => { const r = e.getBoundingClientRect(); return r.top < 0 || r.bottom > innerHeight || !r.height; })"
        ".map((e) => e.className + e.innerText)"
    )
    check(f"not on the first screen: {below}", not below)
    facts(page, 1280)
    leads = page.evaluate("document.querySelector('.lead section').id")
    check(f"the page is led by {leads}", leads == lead)
    heads = page.evaluate("[...document.querySelectorAll('.story li a')].map((a) => a.innerText)")
    check(f"the sentences are about {heads}", heads == sentences)
    loose = page.evaluate(
        "[...document.querySelectorAll('.story li b')].filter((b) => !b.querySelector('a[href^=\"#\"]') ||"
        "!document.getElementById(b.querySelector('a').getAttribute('href').slice(1))).map((b) => b.innerText)"
    )
    check(f"these sentences lead nowhere: {loose}", not loose)
    short(page)
    page.size(1280, 900)


def facts(page, width):
    """Three figures in type of 20 pixels and more; on a wide screen the chart stands beside them."""
    sizes = page.evaluate("[...document.querySelectorAll('.facts dd')].map((d) => parseFloat(getComputedStyle(d).fontSize))")
    check(f"the large type is of {sizes} pixels", len(sizes) == 3 and min(sizes) >= 20)
    left, right = page.evaluate(
        "['.facts', '.lead .plot'].map((s) => { const r = document.querySelector(s).getBoundingClientRect();"
        "return [r.left, r.top, r.right, r.bottom]; })"
    )
    beside = left[2] <= right[0] and left[1] < right[3]
    check(f"the chart {right} is not beside the figures {left}", beside if width >= 1000 else left[3] <= right[1])


def short(page):
    """No sentence of the first screen has more than 20 words."""
    long = page.evaluate(
        "[...document.querySelectorAll('.story li')].flatMap((li) => { const own = li.cloneNode(true);"
        "own.querySelectorAll('code').forEach((c) => c.remove());"
        "return own.textContent.split(/[.:](?:[ \\n]+|$)/); }).filter((s) => s.split(/[ \\n]+/).length > 20)"
    )
    check(f"sentences of more than 20 words: {long}", not long)


def two_screens(page):
    """All that is not folded stands on two screens of a laptop."""
    page.size(1280, 800)
    height = page.evaluate("document.documentElement.scrollHeight")
    check(f"the page is {height} pixels high before anything is unfolded", height <= 2 * 800)
    page.size(1280, 900)


def unfold(page):
    """Opens all folds and waits until their figures are drawn."""
    page.evaluate("document.querySelectorAll('details.fold').forEach((d) => { d.open = true; })")
    page.wait("[...document.querySelectorAll('.plot')].every((p) => p.dataset.drawn === 'yes')", 120)


def contrast(page, least=3):
    """Every mark of a drawn figure stands out from the paper by its filling or its outline."""
    page.evaluate("scrollTo(0, 0)")
    dull = page.evaluate(
        "(() => { const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;"
        "const pen = canvas.getContext('2d', {willReadFrequently: true});"
        "const of = (colour, under, opacity) => { pen.globalAlpha = 1; pen.fillStyle = under; pen.fillRect(0, 0, 1, 1);"
        "  pen.globalAlpha = opacity; pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);"
        "  return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3); };"
        "const light = (c) => { const [r, g, b] = c.map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);"
        "  return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05; };"
        "const paper = getComputedStyle(document.documentElement).backgroundColor, ground = light(of(paper, '#fff', 1));"
        "const ratio = (colour, opacity) => { if (!colour || ['none', 'transparent'].includes(colour)) return 0;"
        "  const own = light(of(colour, paper, opacity)); return Math.max(own, ground) / Math.min(own, ground); };"
        "const number = (m, name) => m.hasAttribute(name) ? +m.getAttribute(name) : 1;"
        "return [...document.querySelectorAll('.plot svg g.role-mark path, .plot svg g.role-mark rect, .plot svg g.role-mark line')]"
        "  .filter((m) => { const r = m.getBoundingClientRect(), all = number(m, 'opacity');"
        "    if (!r.width && !r.height || !all) return false;"
        "    return Math.max(ratio(m.getAttribute('fill'), all * number(m, 'fill-opacity')),"
        "                    ratio(m.getAttribute('stroke'), all * number(m, 'stroke-opacity'))) < " + str(least) + "; })"
        "  .map((m) => [m.closest('.plot').id, m.getAttribute('fill'), m.getAttribute('stroke'), m.getAttribute('opacity')].join(' '));"
        "})()"
    )
    check(f"marks with a contrast under {least}: {sorted(set(dull))[:8]}", not dull)


def apart(page):
    """No two labels of a figure overlap."""
    over = page.evaluate(
        "[...document.querySelectorAll('.plot svg')].flatMap((s) => {"
        "const all = [...s.querySelectorAll('text')].filter((t) => t.textContent && +(t.getAttribute('opacity') ?? 1))"
        ".map((t) => [t.textContent, t.getBoundingClientRect()]);"
        "return all.flatMap(([a, p], i) => all.slice(i + 1).filter(([, q]) => p.width && q.width &&"
        "Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3)"
        ".map(([b]) => s.closest('.plot').id + ': ' + a + ' / ' + b)); }).slice(0, 8)"
    )
    check(f"labels overlap: {over}", not over)


def square(page):
    """Measured against predicted has equal sides and three lines: no error, and 10 % off."""
    sides, lines = page.evaluate(
        "(() => { const s = document.querySelector('#plot-predicted-measured svg');"
        "const r = s.querySelector('path.background').getBoundingClientRect();"
        "return [[r.width, r.height], s.querySelectorAll('g.mark-line.role-mark path').length]; })()"
    )
    check(f"measured against predicted is {sides} pixels with {lines} lines", abs(sides[0] - sides[1]) < 1 and lines == 3)


def dots(page):
    """Of random runs each is drawn, or one of the same looks within a place of it; a picked one before others."""
    rng = random.Random()
    runs = [
        (rng.lognormvariate(0, 1) if rng.random() < 0.9 else None, rng.gauss(0, 1), rng.choice("abc"), rng.random() < 0.01)
        for _ in range(4000)
    ]
    columns = {name: [run[i] for run in runs] for i, name in enumerate(("x", "y", "kind"))}
    columns["id"] = list(range(len(runs)))
    shown = sorted(rng.sample(range(len(runs)), 3000))
    drawn = page.evaluate(
        f"[...screenSpec.dotsOf({json.dumps(columns)}, new Map([['x', 20], ['y', 10], ['kind', 0]]), {shown}, "
        f"(i) => {json.dumps([run[3] for run in runs])}[i])]"
    )
    drawn = [i for i, here in enumerate(drawn) if here]
    check(f"{len(drawn)} of {len(shown)} runs are drawn", set(drawn) <= set(shown) and len(drawn) < len(shown) / 3)
    xs, ys = ([columns[axis][i] for i in shown if columns[axis][i] is not None] for axis in "xy")
    reach = [(max(values) - min(values)) / (places - 1) for values, places in ((xs, 20), (ys, 10))]

    def stands_for(a, b):
        (x, y, kind, _), (x2, y2, kind2, _) = runs[a], runs[b]
        near = (x is None) == (x2 is None) and (x is None or abs(x - x2) <= reach[0]) and abs(y - y2) <= reach[1]
        return near and kind == kind2

    for i in shown:
        of = [j for j in drawn if (runs[j][3] or not runs[i][3]) and stands_for(i, j)]
        check(f"nothing is drawn for {runs[i]}", of)
    for values, axis in ((xs, "x"), (ys, "y")):
        ends = {columns[axis][j] for j in drawn}
        check(f"the axis {axis} does not reach its ends", {min(values), max(values)} <= ends)


def canvas_tooltips(page):
    """Over random coloured pixels of every figure that is drawn on canvas and has tooltips: whole, inside the window.

    Returns by figure how many places said something; 60 are enough.
    """
    bad, told = page.evaluate(
        "(async () => { const bad = [], told = {}; const tip = document.getElementById('tip');"
        "for (const plot of document.querySelectorAll('.plot')) { const canvas = plot.querySelector('canvas');"
        "  const figure = plot.id.slice(5), script = document.querySelector(`script[data-figure='${figure}']`);"
        "  if (!canvas || !script.textContent.includes('\"tooltip\"')) continue;"
        "  canvas.scrollIntoView({block: 'center'}); const r = canvas.getBoundingClientRect(); told[figure] = 0;"
        "  const { width, height } = canvas, { data } = canvas.getContext('2d').getImageData(0, 0, width, height);"
        "  const places = [];"
        "  for (let i = 0; i < width * height; ++i) { const [a, b, c] = [data[4 * i], data[4 * i + 1], data[4 * i + 2]];"
        "    if (Math.max(a, b, c) - Math.min(a, b, c) > 60) places.push([i % width, Math.floor(i / width)]); }"
        "  for (let tries = 0; tries < 4000 && told[figure] < 60 && places.length; ++tries) {"
        "    const [px, py] = places[Math.floor(Math.random() * places.length)];"
        "    const x = r.left + (px + 0.5) * r.width / width, y = r.top + (py + 0.5) * r.height / height;"
        "    if (y < 0 || y >= innerHeight) continue;"
        "    tip.hidden = true;"
        "    canvas.dispatchEvent(new MouseEvent('pointermove', {clientX: x, clientY: y, bubbles: true, view: window}));"
        "    if (tip.hidden) continue;"
        "    told[figure]++; const t = tip.getBoundingClientRect();"
        "    if (t.left < 0 || t.top < 0 || t.right > innerWidth || t.bottom > innerHeight ||"
        "      tip.scrollHeight > tip.clientHeight + 1 || !tip.innerText.trim()) bad.push([figure, tip.innerText]);"
        "  } } tip.hidden = true; scrollTo(0, 0); return [bad.slice(0, 5), told]; })()"
    )
    check(f"tooltips are cut off or say nothing of a run: {bad}", not bad)
    return told


def find_axe():
    """axe-core from the Python package that bench/setup.sh --tests installs; None if it is missing."""
    root = pathlib.Path(__file__).resolve().parents[2]
    found = sorted(root.glob(".venv-axe/lib/python3*/site-packages/axe_core_python/axe.min.js"))
    return found[0] if found else None


def accessible(page, what):
    """Checks axe-core's serious and critical rules. Returns False without axe-core."""
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
