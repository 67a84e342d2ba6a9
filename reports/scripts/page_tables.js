// Tables of the page: sorted by clicking a header, filtered by text; the table of runs follows the page's
// filter and picks.
"use strict";
const pageTables = (() => {
  const ROWS = 200; // rows of the table of runs added at a time while scrolling
  const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  const hasAll = (text, words) => words.every((w) => text.includes(w));

  function element(tag, properties = {}, ...children) {
    const e = Object.assign(document.createElement(tag), properties);
    e.append(...children);
    return e;
  }

  function searchField(place, change) {
    const field = element("input", { type: "search", className: "find", placeholder: "Filter rows …" });
    const title = document.getElementById(place.getAttribute("aria-labelledby")).textContent;
    field.setAttribute("aria-label", `Filter rows of: ${title}`);
    field.addEventListener("input", () => change(wordsOf(field.value)));
    place.before(field);
  }

  function sortButton(th, title, unit, here, down) {
    const button = element("button", { type: "button" }, title);
    if (unit) button.append(" ", element("span", { className: "unit", textContent: unit }));
    if (here) button.append(down ? " ▾" : " ▴");
    if (here) th.setAttribute("aria-sort", down ? "descending" : "ascending");
    th.append(button);
    return button;
  }

  // Unknown values sort last in both directions.
  const compare = (x, y, down) =>
    x === null || y === null ? (x === null) - (y === null) : (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);

  // ---- the table of runs ----

  // Fixed number of significant digits, as tables.cpp prints them.
  const decimals = (v, n) => Math.min(12, Math.max(0, n - 1 - Math.floor(Math.log10(Math.abs(v)))));
  const digits = (n) => (v) => (typeof v === "number" ? v.toFixed(v === 0 ? 0 : decimals(v, n)) : "–");
  const signed = (text) => (/[1-9]/.test(text) ? (text < "0" ? "" : "+") + text : text.replace("-", ""));
  const percent = (v) => (typeof v === "number" ? signed((100 * v).toFixed(1)) : "–");
  const word = (v) => v ?? "–";
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
  ];

  // Creates the table over columns of data; `onPick` receives the clicked row's number. Returns a function
  // that applies a mask of shown runs and the picked ones.
  function runsTable(place, data, onPick) {
    const columns = COLUMNS.filter(([field]) => data[field]);
    const numeric = (field) => typeof data[field].find((v) => v !== null) === "number";
    let sorting = { field: "rate", down: true };
    let order = null; // all run numbers, sorted
    let texts = null; // all runs as searchable text
    let words = [];
    let now = { mask: null, isPicked: null };
    let rows = []; // rows to show, in order
    let body = element("tbody");

    const textOf = (i) => columns.map(([field, , , show]) => show(data[field][i])).join("\n").toLowerCase();

    function head() {
      const row = element("tr");
      for (const [field, title, unit] of columns) {
        const th = element("th", { className: numeric(field) ? "n" : "" });
        const here = field === sorting.field;
        const button = sortButton(th, title, unit, here, sorting.down);
        button.dataset.sort = field;
        button.addEventListener("click", () => {
          sorting = { field, down: here ? !sorting.down : numeric(field) };
          order = null;
          fill();
          place.querySelector(`[data-sort="${field}"]`).focus();
        });
        row.append(th);
      }
      return element("thead", {}, row);
    }

    function more() {
      for (const i of rows.slice(body.rows.length, body.rows.length + ROWS)) {
        const row = element("tr", { className: now.isPicked?.(i) ? "picked" : "" });
        for (const [field, , , show] of columns)
          row.append(element("td", { className: numeric(field) ? "n" : "", textContent: show(data[field][i]) }));
        row.addEventListener("click", () => onPick(i));
        body.append(row);
      }
    }

    function fill() {
      const key = data[sorting.field];
      order ??= key.map((_, i) => i).sort((a, b) => compare(key[a], key[b], sorting.down));
      if (words.length) texts ??= key.map((_, i) => textOf(i));
      rows = order.filter((i) => now.mask[i] && (!words.length || hasAll(texts[i], words)));
      if (now.isPicked) rows = [...rows.filter(now.isPicked), ...rows.filter((i) => !now.isPicked(i))];
      body = element("tbody");
      more();
      place.replaceChildren(element("table", {}, head(), body));
      place.scrollTop = 0;
    }

    place.parentElement.querySelector(".cut")?.remove();
    place.addEventListener("scroll", () => {
      if (place.scrollTop + place.clientHeight > place.scrollHeight - 300) more();
    });
    if (data.run.length > 12) searchField(place, (w) => ((words = w), fill()));
    return (mask, isPicked) => ((now = { mask, isPicked }), fill());
  }

  // ---- the other tables, already in the page ----

  const numberIn = (text) => {
    const number = parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(number) ? null : number;
  };

  function enliven(place) {
    const table = place.querySelector("table");
    const body = table && table.tBodies[0];
    if (!body || body.rows.length < 2) return;
    const rows = [...body.rows];
    if (rows.length > 12)
      searchField(place, (words) =>
        rows.forEach((row) => (row.hidden = !hasAll(row.textContent.toLowerCase(), words))),
      );
    const state = { column: -1, down: false };
    const heads = [...table.tHead.rows[0].cells].map((th, c) => {
      const unit = th.querySelector(".unit");
      const label = [(unit ? th.firstChild.textContent : th.textContent).trim(), unit ? unit.textContent : ""];
      const draw = (here) => {
        th.replaceChildren();
        th.removeAttribute("aria-sort");
        sortButton(th, label[0], label[1], here, state.down).addEventListener("click", () => sort(c));
      };
      draw(false);
      return { draw, numeric: th.classList.contains("n") };
    });
    function sort(c) {
      state.down = state.column === c ? !state.down : heads[c].numeric;
      state.column = c;
      const text = (row) => row.cells[c].textContent;
      const key = (row) => (heads[c].numeric ? numberIn(text(row)) : text(row).toLowerCase());
      body.append(...[...rows].sort((a, b) => compare(key(a), key(b), state.down)));
      heads.forEach((head, i) => head.draw(i === c));
      table.tHead.rows[0].cells[c].querySelector("button").focus();
    }
  }

  return { element, runsTable, enliven };
})();
