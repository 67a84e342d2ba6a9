// Script of the report's page: draws each figure from its embedded specification, applies filters to all
// figures at once, and highlights picked runs in every figure and in the table. A run is represented by its
// index into the data columns.
"use strict";
(() => {
  const MANY = 1500; // rows; above it figures use a canvas and overlapping marks are merged
  const { element } = pageTables;
  const byId = (id) => document.getElementById(id);
  const parse = (id) => JSON.parse(byId(id).textContent);
  const root = document.documentElement;

  const columns = parse("runs-data");
  const facets = parse("facets");
  const fields = Object.keys(columns);
  const count = fields.length ? columns[fields[0]].length : 0;
  const everyRun = Array.from({ length: count }, (_, i) => i);
  // By facet: the index of each run's value, and the values chosen (none chosen: all are shown).
  const codes = facets.map((f) => Uint8Array.from(columns[f.field] || [], (v) => f.values.indexOf(v)));
  const chosen = facets.map(() => new Set());
  let shown = everyRun;
  let mask = new Uint8Array(count).fill(1); // 1: the run is shown
  let picked = null; // picked runs, {id: 1, ...}
  let changes = 0; // number of changes to filters and picks
  let table = null; // table of runs: {place, follow}
  const figures = []; // {place, view, follow}
  const isPicked = (i) => Boolean(picked && picked[columns.id[i]]);

  // `breath` lets the page handle events between figures; `painted` resolves when the figure is on the
  // screen.
  const breath = () => new Promise((next) => setTimeout(next));
  const painted = () => new Promise((next) => requestAnimationFrame(() => setTimeout(next)));

  // ---- figures ----

  // Suppresses Vega-Lite's warning about "fit-y", which every figure with one line a run triggers by design.
  const warn = console.warn;
  console.warn = (...words) => (words.some((w) => /Dropping "fit-y"/.test(w)) ? undefined : warn.apply(console, words));

  // Dark mode swaps ink, paper and colours too dark to see (palette.cpp).
  const theme = parse("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const themed = (text) => (dark.matches ? text.replace(/#[0-9a-f]{6}/gi, (c) => theme[c] || c) : text);

  // Each figure gets copies of its rows, with only the fields it uses, because Vega writes into them.
  // Filtering changes a mask over row numbers instead of the rows.
  function rowsOf(used, dots) {
    const own = used.map((f) => [f, columns[f]]);
    return everyRun.map((number) => {
      const row = { number };
      for (const [f, column] of own) if (column[number] !== null) row[f] = column[number];
      if (dots) row.dot = dots[number];
      return row;
    });
  }

  async function draw(script) {
    const text = script.textContent;
    const spec = JSON.parse(themed(text));
    const name = script.dataset.figure;
    const place = byId("plot-" + name);
    const ofRuns = Boolean(spec.data && spec.data.name === "runs");
    const many = ofRuns && count > MANY;
    const looks = many ? screenSpec.thin(spec) : null; // fields by which marks of runs differ
    const tips = ofRuns ? screenSpec.takeTips(spec) : [];
    if (ofRuns) {
      screenSpec.filterByMask(spec);
      const used = fields.filter((f) => f === "id" || text.includes(`"${f}"`) || text.includes(`datum.${f}`));
      spec.datasets = { runs: rowsOf(used, looks && screenSpec.dotsOf(columns, looks, everyRun, null)) };
    }
    screenSpec.fitLegends(spec, place.clientWidth);
    if (place.clientWidth < 560) screenSpec.narrow(spec, place.clientWidth);
    const { view } = await vegaEmbed(place, spec, {
      renderer: many || (spec.data?.values?.length ?? 0) > MANY ? "canvas" : "svg",
      actions: { export: true, source: false, compiled: false, editor: false },
      logLevel: 1,
      downloadFileName: name,
      tooltip: (_, event, item, value) => showTip(event, tips.length ? linesOf(view, tips[value], item) : value),
    });
    // Screen readers see one image with a name; the numbers are in the tables.
    const picture = place.querySelector("svg.marks, canvas.marks");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", place.closest("section").querySelector("h3").textContent);
    for (const part of picture.children) part.setAttribute("aria-hidden", "true");
    figures.push({ place, view, follow: ofRuns ? follower(view, looks) : null });
    if (count) view.addEventListener("click", (event, item) => onClick(view, event, item));
    if (text.includes('"brush"')) view.addSignalListener("brush", later((_, extent) => onBrush(extent), 120));
    place.dataset.drawn = "yes";
  }

  // Figures of closed folds are drawn when these open.
  const isFolded = (place) => place.closest("details.fold:not([open])");
  const folds = () => document.querySelectorAll("details.fold");

  // Opens the fold of what the address names.
  function unfold() {
    if (location.hash.length < 2 || location.hash.includes("=")) return;
    const named = byId(location.hash.slice(1));
    const fold = named?.closest("details.fold:not([open])");
    if (!fold) return;
    fold.open = true;
    named.scrollIntoView();
  }

  // Returns a function that updates a figure to the current filter and picks.
  function follower(view, looks) {
    let was = { shown: everyRun, picked: null };
    return async () => {
      const changed = was.shown !== shown;
      if (changed) view.signal("mask", mask).resize();
      if (looks && (changed || was.picked !== picked))
        view.signal("dots", screenSpec.dotsOf(columns, looks, shown, picked && isPicked));
      was = { shown, picked };
      await view.signal("picked", picked).runAsync();
    };
  }

  const later = (f, wait) => {
    let timer;
    return (...args) => {
      clearTimeout(timer);
      timer = setTimeout(() => f(...args), wait);
    };
  };

  // ---- tooltips, shown in full and kept inside the window ----

  const tip = element("div", { id: "tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);

  // Text of a mark's tooltip, from Vega-Lite's list of lines.
  function linesOf(view, list, item) {
    if (!list || !item || !item.datum) return null;
    const known = (v) => v !== undefined && v !== null && !Number.isNaN(v);
    const shape = ({ format }, v) => (format && typeof v === "number" ? view.locale().format(format)(v) : String(v));
    return Object.fromEntries(
      list.map((l) => [l.title, item.datum[l.field], l]).map(([t, v, l]) => [t, known(v) ? shape(l, v) : ""]),
    );
  }

  function showTip(event, value) {
    tip.hidden = true;
    if (value === null || value === undefined || value === "") return;
    const lines = typeof value === "object" ? Object.entries(value) : [["", value]];
    const known = lines.filter(([, v]) => !["", "null", "undefined", "NaN"].includes(String(v)));
    if (!known.length) return;
    const list = element("dl");
    for (const [name, v] of known)
      list.append(element("dt", { textContent: name }), element("dd", { textContent: String(v) }));
    tip.replaceChildren(list);
    tip.hidden = false;
    const gap = 12;
    const { offsetWidth: w, offsetHeight: h } = tip;
    const inside = (at, size, room) => Math.max(8, Math.min(at, room - size - 8));
    const right = event.clientX + gap + w + 8 <= innerWidth;
    const left = event.clientX - gap - w >= 8;
    const x = right || !left ? event.clientX + gap : event.clientX - gap - w;
    // Above or below the pointer if there is no space on either side.
    const below = event.clientY + gap + h + 8 <= innerHeight;
    const y = right || left ? event.clientY + gap : below ? event.clientY + gap : event.clientY - gap - h;
    tip.style.left = `${inside(x, w, innerWidth)}px`;
    tip.style.top = `${inside(y, h, innerHeight)}px`;
  }

  // ---- picking ----

  const brushed = (view) => {
    try {
      return Object.keys(view.signal("brush") || {}).length > 0;
    } catch {
      return false; // figure without a brush
    }
  };

  function onClick(view, event, item) {
    if (brushed(view)) return; // end of a drag, not a click
    const id = item && item.datum && item.datum.id;
    if (!id) pick(null);
    else if (event.shiftKey && picked) pick({ ...picked, [id]: 1 });
    else pick({ [id]: 1 });
  }

  function onBrush(extent) {
    const limits = Object.entries(extent || {}).filter(([field]) => columns[field]);
    if (!limits.length) return;
    const within = (v, a, b) => v !== null && v >= Math.min(a, b) && v <= Math.max(a, b);
    const inside = shown.filter((i) => limits.every(([f, [a, b]]) => within(columns[f][i], a, b)));
    pick(inside.length ? Object.fromEntries(inside.map((i) => [columns.id[i], 1])) : null);
  }

  function pick(ids) {
    picked = ids;
    describe();
    update();
  }

  // Updates figures and table to the current filter and picks, visible figures first, yielding to events in
  // between. A later change cancels it; data-seen and data-updates hold the last change that is visible and
  // complete.
  async function update() {
    const own = ++changes;
    const away = ({ place }) => {
      const { top, bottom } = place.getBoundingClientRect();
      return Math.max(0, top - innerHeight, -bottom);
    };
    const order = [...figures, ...(table ? [table] : [])].filter((f) => f.follow).map((f) => [away(f), f]);
    order.sort((a, b) => a[0] - b[0]);
    let inView = true;
    for (const [distance, f] of order) {
      if (inView && distance > 0) {
        inView = false;
        await painted();
        if (own === changes) root.dataset.seen = own;
      }
      if (own !== changes) return;
      await f.follow();
      await breath();
    }
    if (own === changes) root.dataset.seen = root.dataset.updates = own;
  }

  // ---- filters ----

  // Filters are kept in the URL's fragment, so that a shared link shows the same runs.
  function remember() {
    const pairs = facets.flatMap((facet, i) => [...chosen[i]].map((v) => [facet.title, v]));
    const here = location.href.split("#")[0];
    if (pairs.length) history.replaceState(null, "", `${here}#${new URLSearchParams(pairs)}`);
    else if (location.hash.includes("=")) history.replaceState(null, "", here);
  }

  function recall() {
    if (!location.hash.includes("=")) return; // fragment is an anchor on the page
    const wanted = new URLSearchParams(location.hash.slice(1));
    facets.forEach((facet, i) => {
      chosen[i] = new Set(wanted.getAll(facet.title).filter((v) => facet.values.includes(v)));
    });
    showChosen();
    filter();
  }

  function showChosen() {
    for (const chip of document.querySelectorAll(".chip")) {
      const i = facets.findIndex((facet) => facet.title === chip.dataset.facet);
      chip.setAttribute("aria-pressed", String(chosen[i].has(chip.textContent)));
    }
  }

  function filter() {
    remember();
    mask = new Uint8Array(count).fill(1);
    facets.forEach((facet, f) => {
      if (!chosen[f].size) return;
      const wanted = facet.values.map((v) => chosen[f].has(v));
      for (let i = 0; i < count; ++i) if (!wanted[codes[f][i]]) mask[i] = 0;
    });
    shown = everyRun.filter((i) => mask[i]);
    describe();
    update();
  }

  function buildControls() {
    const controls = byId("controls");
    facets.forEach((facet, i) => {
      const line = element("div", { className: "facet" }, element("span", { textContent: facet.title }));
      for (const value of facet.values) {
        const chip = element("button", { className: "chip", type: "button", textContent: value });
        chip.setAttribute("aria-pressed", "false");
        chip.dataset.facet = facet.title;
        chip.addEventListener("click", () => {
          if (!chosen[i].delete(value)) chosen[i].add(value);
          showChosen();
          filter();
        });
        line.append(chip);
      }
      controls.append(line);
    });
    controls.append(
      element("p", {
        className: "note",
        textContent:
          "Choose values to show only runs that have them, in every figure of runs. Click a mark to pick its run: it " +
          "stands out in all figures and comes first in the table of runs. Shift adds to the choice; where the text " +
          "says so, drag a rectangle. The page's address keeps the filter. In names, mb is samples per micro-batch and w is loader workers." +
          (count > MANY ? " Where many runs lie on the same place of a figure, one dot stands for them." : ""),
      }),
    );
    controls.hidden = false;
    byId("status").hidden = false;
  }

  function describe() {
    const status = byId("status");
    const names = picked ? everyRun.filter(isPicked).map((i) => columns.run[i]) : [];
    status.textContent = `${shown.length} of ${count} runs shown`;
    if (names.length) status.textContent += `; picked: ${names.length > 3 ? names.length + " runs" : names.join("; ")}`;
    if (!names.length && shown.length === count) return;
    const reset = element("button", { type: "button", id: "reset", textContent: "Show all" });
    reset.addEventListener("click", () => {
      chosen.forEach((set) => set.clear());
      showChosen();
      picked = null;
      filter();
    });
    status.append(reset);
  }

  // ---- start ----

  async function drawAll() {
    const before = figures.length;
    for (const script of document.querySelectorAll("script[data-figure]")) {
      const place = byId("plot-" + script.dataset.figure);
      if (place.dataset.drawn || isFolded(place)) continue;
      place.dataset.drawn = "now";
      try {
        await draw(script);
      } catch (e) {
        console.error(script.dataset.figure, e);
      }
      root.dataset.first ??= performance.now();
      await breath();
    }
    if (figures.length > before && (shown !== everyRun || picked)) await update(); // filtered or picked meanwhile
    else table?.follow();
  }

  const setTheme = () => (root.dataset.theme = dark.matches ? "dark" : "light");

  async function start() {
    setTheme();
    dark.addEventListener("change", () => {
      setTheme();
      for (const { place, view } of figures.splice(0)) {
        view.finalize();
        delete place.dataset.drawn;
      }
      drawAll();
    });
    addEventListener("scroll", () => (tip.hidden = true), { passive: true, capture: true });
    const ofRuns = document.querySelector("#table-runs .scroll");
    for (const place of document.querySelectorAll(".scroll"))
      if (place !== ofRuns || count < 2) pageTables.enliven(place);
    if (count > 1) {
      buildControls();
      describe();
      recall();
      addEventListener("hashchange", recall);
      if (ofRuns) {
        const fill = pageTables.runsTable(ofRuns, columns, (i) => pick({ [columns.id[i]]: 1 }));
        table = { place: ofRuns, follow: () => fill(mask, picked && isPicked) };
      }
    }
    for (const fold of folds()) fold.addEventListener("toggle", () => fold.open && drawAll());
    addEventListener("hashchange", unfold);
    addEventListener("beforeprint", () => folds().forEach((fold) => (fold.open = true)));
    unfold();
    await drawAll();
    root.dataset.ready = "yes";
  }
  start();
})();
