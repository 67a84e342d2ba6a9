// The page's life: draws every figure from the specification beside it, filters the runs by their settings in all
// figures at once, and lets a run that is picked in one figure stand out in the others and in the table.
"use strict";
(() => {
  const MANY = 1500; // runs; beyond it marks go on a canvas, which is faster than an element for each
  const ROWS = 200; // of the table at a time
  const byId = (id) => document.getElementById(id);
  const parse = (id) => JSON.parse(byId(id).textContent);

  const columns = parse("runs-data");
  const facets = parse("facets");
  const fields = Object.keys(columns);
  const runs = fields.length
    ? columns[fields[0]].map((_, i) => Object.fromEntries(fields.map((f) => [f, columns[f][i]])))
    : [];
  const chosen = facets.map(() => new Set()); // by facet: values that are shown; none chosen means all
  let shown = runs;
  let picked = null; // {id: 1, ...}
  let sorting = { field: "rate", down: true };
  let changes = 0; // of filters and choices
  const figures = []; // {name, view, ofRuns, fields, shown}

  // ---- figures ----

  // Vega-Lite notes at every figure with a line for each run that its height is not fitted, which is as it should be.
  const warn = console.warn;
  console.warn = (...words) => (words.some((w) => /Dropping "fit-y"/.test(w)) ? undefined : warn.apply(console, words));

  // A dark page exchanges ink, paper and what is too dark to see (palette.cpp).
  const theme = parse("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const themed = (text) => (dark.matches ? text.replace(/#[0-9a-f]{6}/gi, (c) => theme[c] || c) : text);

  // ---- tooltips: whole, and inside the window wherever the mark is ----

  const tip = element("div", { id: "tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);

  function showTip(_, event, __, value) {
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
    // Where it fits neither at the right nor at the left it goes above or below the pointer.
    const below = event.clientY + gap + h + 8 <= innerHeight;
    const y = right || left ? event.clientY + gap : below ? event.clientY + gap : event.clientY - gap - h;
    tip.style.left = `${inside(x, w, innerWidth)}px`;
    tip.style.top = `${inside(y, h, innerHeight)}px`;
  }

  // On a narrow screen labels get less room than marks.
  function narrow(spec, width) {
    spec.config.axisY = { ...spec.config.axisY, labelLimit: Math.round(0.44 * width), labelFontSize: 10.5 };
    spec.config.axisXQuantitative = { ...spec.config.axisXQuantitative, tickCount: 4 };
    spec.config.legend = {
      ...spec.config.legend,
      columns: 1,
      labelLimit: Math.round(0.8 * width),
      layout: { top: { direction: "vertical", anchor: "start", bounds: "full" } },
    };
    const inner = (o) => {
      if (!o || typeof o !== "object") return;
      if (o.legend && o.legend.columns) o.legend.columns = Math.min(2, o.legend.columns);
      for (const [key, value] of Object.entries(o)) if (key !== "values" && key !== "config") inner(value);
    };
    inner(spec);
  }

  // Rows of its own for each figure, with only what it speaks of: Vega writes into them.
  const rowsFor = (figure) =>
    shown.map((run) => Object.fromEntries(figure.fields.map((f) => [f, run[f] === null ? undefined : run[f]])));

  async function draw(element) {
    const text = element.textContent;
    const spec = JSON.parse(themed(text));
    const name = element.dataset.figure;
    const plot = byId("plot-" + name);
    const ofRuns = spec.data && spec.data.name === "runs";
    const figure = {
      name,
      ofRuns,
      fields: fields.filter((f) => text.includes(`"${f}"`) || text.includes(`datum.${f}`)),
    };
    if (!figure.fields.includes("id") && fields.includes("id")) figure.fields.push("id");
    const drawn = shown;
    if (ofRuns) spec.datasets = { runs: rowsFor(figure) };
    if (plot.clientWidth < 560) narrow(spec, plot.clientWidth);
    const { view } = await vegaEmbed(plot, spec, {
      renderer: ofRuns && runs.length > MANY ? "canvas" : "svg",
      actions: { export: true, source: false, compiled: false, editor: false },
      logLevel: 1,
      downloadFileName: name,
      tooltip: showTip,
    });
    // To those who listen it is one picture with a name; its numbers are in the tables.
    const picture = plot.querySelector("svg.marks, canvas.marks");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", plot.closest("section").querySelector("h3").textContent);
    for (const part of picture.children) part.setAttribute("aria-hidden", "true");
    Object.assign(figure, { view, shown: drawn });
    figures.push(figure);
    view.addEventListener("click", (event, item) => onClick(figure, event, item));
    if (text.includes('"brush"')) view.addSignalListener("brush", later((_, extent) => onBrush(figure, extent), 120));
    plot.dataset.drawn = "yes";
  }

  const later = (f, wait) => {
    let timer;
    return (...args) => {
      clearTimeout(timer);
      timer = setTimeout(() => f(...args), wait);
    };
  };

  // ---- picking ----

  const brushed = (figure) => {
    try {
      return Object.keys(figure.view.signal("brush") || {}).length > 0;
    } catch {
      return false; // a figure without one
    }
  };

  function onClick(figure, event, item) {
    if (brushed(figure)) return; // the end of a drag
    const id = item && item.datum && item.datum.id;
    if (!id) pick(null);
    else if (event.shiftKey && picked) pick({ ...picked, [id]: 1 });
    else pick({ [id]: 1 });
  }

  function onBrush(figure, extent) {
    const limits = Object.entries(extent || {}).filter(([field]) => fields.includes(field));
    if (!limits.length) return;
    const inside = shown.filter((run) =>
      limits.every(([f, [a, b]]) => run[f] !== null && run[f] >= Math.min(a, b) && run[f] <= Math.max(a, b)),
    );
    pick(inside.length ? Object.fromEntries(inside.map((run) => [run.id, 1])) : null);
  }

  function pick(ids) {
    picked = ids;
    describe();
    fillTable();
    update();
  }

  // Brings the figures of runs to what is shown and picked now, those in view first, the page answering in between, and
  // counts both for whoever waits. A change that comes meanwhile takes over.
  async function update() {
    const own = ++changes;
    const away = (f) => {
      const { top, bottom } = byId("plot-" + f.name).getBoundingClientRect();
      return top > innerHeight ? top - innerHeight : Math.max(0, -bottom);
    };
    const order = figures.filter((f) => f.ofRuns).map((f) => [away(f), f]);
    order.sort((a, b) => a[0] - b[0]);
    for (const [distance, f] of order) {
      if (distance > 0) document.documentElement.dataset.seen = own;
      if (f.shown !== shown) f.view.data("runs", rowsFor(f)).resize();
      f.shown = shown;
      await f.view.signal("picked", picked).runAsync();
      await new Promise((next) => setTimeout(next));
      if (own !== changes) return;
    }
    document.documentElement.dataset.seen = document.documentElement.dataset.updates = changes;
  }

  // ---- filters ----

  function filter() {
    shown = runs.filter((run) => facets.every((f, i) => !chosen[i].size || chosen[i].has(run[f.field])));
    describe();
    fillTable();
    update();
  }

  function element(tag, properties = {}, ...children) {
    const e = Object.assign(document.createElement(tag), properties);
    e.append(...children);
    return e;
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
          chip.setAttribute("aria-pressed", String(chosen[i].has(value)));
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
          "says so, drag a rectangle. In names, mb is samples per micro-batch and w is loader workers.",
      }),
    );
    controls.hidden = false;
    byId("status").hidden = false;
  }

  function describe() {
    const status = byId("status");
    const names = picked ? runs.filter((run) => picked[run.id]).map((run) => run.run) : [];
    status.textContent = `${shown.length} of ${runs.length} runs shown`;
    if (names.length) status.textContent += `; picked: ${names.length > 3 ? names.length + " runs" : names.join("; ")}`;
    if (!names.length && shown.length === runs.length) return;
    const reset = element("button", { type: "button", id: "reset", textContent: "Show all" });
    reset.addEventListener("click", () => {
      chosen.forEach((set) => set.clear());
      for (const chip of document.querySelectorAll(".chip")) chip.setAttribute("aria-pressed", "false");
      picked = null;
      filter();
    });
    status.append(reset);
  }

  // ---- the table of runs ----

  const digits = (n) => (v) => (typeof v === "number" ? (+v.toPrecision(n)).toString() : "–");
  const percent = (v) => (typeof v === "number" ? (v > 0 ? "+" : "") + (100 * v).toFixed(1) : "–");
  const word = (v) => v ?? "–";
  const found = (texts, words) => words.every((w) => texts.some((t) => t.includes(w)));
  const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  let wanted = []; // words that rows of the table of runs must hold

  const COLUMNS = [
    ["run", "run", "", word],
    ["ranks", "ranks", "", word],
    ["rate", "rate", "samples/s", digits(4)],
    ["measured", "measured", "ms", digits(4)],
    ["predicted", "predicted", "ms", digits(4)],
    ["low", "low", "ms", digits(4)],
    ["high", "high", "ms", digits(4)],
    ["error", "error", "%", percent],
    ["was", "run was", "", word],
    ["steady", "steps", "", word],
    ["memory", "memory", "MB", digits(4)],
    ["id", "id", "", word],
  ].filter(([field]) => fields.includes(field));

  function fillTable() {
    const place = document.querySelector("#table-runs .scroll");
    if (!place || !runs.length) return;
    const key = (run) => run[sorting.field];
    const order = (a, b) => {
      const here = (picked && picked[b.id] ? 1 : 0) - (picked && picked[a.id] ? 1 : 0);
      if (here) return here;
      if (key(a) === null || key(b) === null) return (key(a) === null) - (key(b) === null);
      return (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (sorting.down ? -1 : 1);
    };
    const numeric = (field) => typeof (runs.find((run) => run[field] !== null) || {})[field] === "number";
    const head = element("tr");
    for (const [field, title, unit] of COLUMNS) {
      const th = element("th", { className: numeric(field) ? "n" : "" });
      const here = field === sorting.field;
      const button = sortButton(th, title, unit, here, sorting.down);
      button.dataset.sort = field;
      button.addEventListener("click", () => {
        sorting = { field, down: here ? !sorting.down : numeric(field) };
        fillTable();
        place.querySelector(`[data-sort="${field}"]`).focus();
      });
      head.append(th);
    }
    const body = element("tbody");
    const texts = (run) => COLUMNS.map(([field, , , show]) => String(show(run[field])).toLowerCase());
    const rows = wanted.length ? shown.filter((run) => found(texts(run), wanted)) : [...shown];
    for (const run of rows.sort(order).slice(0, ROWS)) {
      const row = element("tr", { className: picked && picked[run.id] ? "picked" : "" });
      for (const [field, , , show] of COLUMNS)
        row.append(element("td", { className: numeric(field) ? "n" : "", textContent: show(run[field]) }));
      row.addEventListener("click", () => pick({ [run.id]: 1 }));
      body.append(row);
    }
    place.replaceChildren(element("table", {}, element("thead", {}, head), body));
  }

  function sortButton(th, title, unit, here, down) {
    const button = element("button", { type: "button" }, title);
    if (unit) button.append(" ", element("span", { className: "unit", textContent: unit }));
    if (here) button.append(down ? " ▾" : " ▴");
    if (here) th.setAttribute("aria-sort", down ? "descending" : "ascending");
    th.append(button);
    return button;
  }

  // ---- the other tables: sorted by a click on a head, filtered by words ----

  function searchField(place, change) {
    const field = element("input", { type: "search", className: "find", placeholder: "Filter rows …" });
    field.setAttribute("aria-label", `Filter rows of: ${byId(place.getAttribute("aria-labelledby")).textContent}`);
    field.addEventListener("input", () => change(wordsOf(field.value)));
    place.before(field);
  }

  const numberIn = (text) => {
    const number = parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(number) ? null : number;
  };

  function enliven(place) {
    const table = place.querySelector("table");
    if (!table || (place.closest("#table-runs") && runs.length > 1)) {
      if (runs.length > 12) searchField(place, (words) => ((wanted = words), fillTable()));
      return;
    }
    const body = table.tBodies[0];
    const rows = [...body.rows];
    if (rows.length < 2) return;
    const text = (row, c) => row.cells[c].textContent;
    if (rows.length > 12)
      searchField(place, (words) =>
        rows.forEach((row) => (row.hidden = !found([row.textContent.toLowerCase()], words))),
      );
    const state = { column: -1, down: false };
    const heads = [...table.tHead.rows[0].cells].map((th, c) => {
      const unit = th.querySelector(".unit");
      const label = [(unit ? th.firstChild.textContent : th.textContent).trim(), unit ? unit.textContent : ""];
      const draw = (here) => {
        th.replaceChildren();
        th.removeAttribute("aria-sort");
        const button = sortButton(th, label[0], label[1], here, state.down);
        button.addEventListener("click", () => sort(c));
        return button;
      };
      draw(false);
      return { draw, numeric: th.classList.contains("n") };
    });
    function sort(c) {
      state.down = state.column === c ? !state.down : heads[c].numeric;
      state.column = c;
      const key = (row) => (heads[c].numeric ? numberIn(text(row, c)) : text(row, c).toLowerCase());
      const order = [...rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return (x < y ? -1 : x > y ? 1 : 0) * (state.down ? -1 : 1);
      });
      body.append(...order);
      heads.forEach((head, i) => head.draw(i === c));
      table.tHead.rows[0].cells[c].querySelector("button").focus();
    }
  }

  // ---- all of it ----

  async function drawAll() {
    for (const element of document.querySelectorAll("script[data-figure]")) {
      try {
        await draw(element);
      } catch (e) {
        console.error(element.dataset.figure, e);
      }
      if (!document.documentElement.dataset.first) document.documentElement.dataset.first = performance.now();
      await new Promise((next) => setTimeout(next)); // the page answers between two figures
    }
    if (shown !== runs || picked) await update(); // chosen while they were drawn
  }

  const setTheme = () => (document.documentElement.dataset.theme = dark.matches ? "dark" : "light");

  async function start() {
    setTheme();
    dark.addEventListener("change", () => {
      setTheme();
      figures.splice(0).forEach((f) => f.view.finalize());
      drawAll();
    });
    addEventListener("scroll", () => (tip.hidden = true), { passive: true, capture: true });
    document.querySelectorAll(".scroll").forEach(enliven);
    if (runs.length > 1) {
      buildControls();
      describe();
      fillTable();
    }
    await drawAll();
    document.documentElement.dataset.ready = "yes";
  }
  start();
})();
