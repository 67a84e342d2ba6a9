// Adapts a figure's specification to the screen: dark colours, narrow layouts, and optimisations for
// thousands of runs (tooltips built on demand, one mark for runs at the same position).
"use strict";
const screenSpec = (() => {
  const PLACES = { x: 200, y: 64 }; // positions along each axis that marks can occupy: about 5 pixels each
  const isObject = (o) => o !== null && typeof o === "object";

  // Calls `see` on every object of a specification except its data.
  function walk(o, see) {
    if (!isObject(o)) return;
    if (!Array.isArray(o)) see(o);
    for (const [key, value] of Object.entries(o)) if (!["values", "datasets", "config"].includes(key)) walk(value, see);
  }

  // Sets the number of legend columns that fit beside the axis labels.
  function fitLegends(spec, width) {
    const room = width - Math.min(380, 0.44 * width);
    walk(spec, (o) => {
      if (!o.legend?.columns) return;
      const letters = Math.max(...(o.scale?.domain || [""]).map((word) => String(word).length));
      o.legend.columns = Math.max(1, Math.min(5, Math.floor(room / (26 + 7.3 * letters))));
    });
  }

  // Narrow screens get shorter labels.
  function narrow(spec, width) {
    if (spec.width.step) Object.assign(spec, { width: "container", autosize: { type: "fit-x", contains: "padding" } });
    spec.padding = { left: 5, top: 5, right: 12, bottom: 5 }; // for the half of the axis's last number
    // A square of fixed sides stays one, beside its axis.
    if (spec.width > 0) spec.width = spec.height = Math.min(spec.width, width - 70);
    spec.config.axisY = { ...spec.config.axisY, labelLimit: Math.round(0.44 * width), labelFontSize: 10.5 };
    spec.config.axisXQuantitative = { ...spec.config.axisXQuantitative, tickCount: 4 };
    spec.config.legend = { ...spec.config.legend, columns: 1, labelLimit: Math.round(0.8 * width) };
    walk(spec, (o) => {
      // "error (right: too long)" on two lines
      if (o.encoding?.x?.title?.includes(" (")) o.encoding.x.title = o.encoding.x.title.split(/ (?=\()/);
    });
  }

  // Vega would format every tooltip line of every mark on each draw. Marks keep an index into the returned
  // lists instead.
  function takeTips(spec) {
    const lists = [];
    walk(spec, (o) => {
      if (!o.encoding || !Array.isArray(o.encoding.tooltip)) return;
      lists.push(o.encoding.tooltip);
      o.encoding.tooltip = { value: String(lists.length - 1) };
    });
    return lists;
  }

  // Filters by a mask over run numbers, so that a filter change builds no new rows.
  function filterByMask(spec) {
    spec.params.push({ name: "mask", value: null }, { name: "dots", value: null });
    spec.transform = [{ filter: "!mask || mask[datum.number]" }, ...(spec.transform || [])];
  }

  // Restricts layers with one mark a run to the marks chosen by dotsOf. Returns the fields that distinguish
  // such marks, each with its number of positions; ends of intervals do not count.
  function thin(spec) {
    const fields = new Map([["set", 0]]); // marks never merge runs of two sets
    for (const layer of (spec.usermeta?.mark_per_run || []).map((i) => spec.layer[i])) {
      layer.transform = [...(layer.transform || []), { filter: "dots ? dots[datum.number] : datum.dot" }];
      for (const channel of ["x", "y", "color", "shape"]) {
        const { field } = layer.encoding[channel] || {};
        if (field && !layer.encoding[channel + "2"]) fields.set(field, PLACES[channel]);
      }
    }
    return fields;
  }

  // Maps values to positions along an axis (or indices of words); returns positions, their count, and the
  // runs at both ends.
  function placesOf(column, shown, many) {
    if (!many || !column.some((v) => typeof v === "number")) {
      const ranks = new Map();
      const rank = (v) => ranks.get(v) ?? ranks.set(v, ranks.size).size - 1;
      return { places: shown.map((i) => rank(column[i])), size: column.length, ends: [] };
    }
    let first = -1;
    let last = -1;
    for (const i of shown) {
      if (column[i] === null) continue;
      if (first < 0 || column[i] < column[first]) first = i;
      if (last < 0 || column[i] > column[last]) last = i;
    }
    const low = column[first];
    const scale = column[last] > low ? (many - 1) / (column[last] - low) : 0;
    const place = (v) => (v === null ? 0 : 1 + Math.floor((v - low) * scale));
    return { places: shown.map((i) => place(column[i])), size: many + 1, ends: [first, last] };
  }

  // Mask of the shown runs that get a mark: one of those that coincide, preferably a picked one, and the ends
  // of each axis.
  function dotsOf(columns, fields, shown, isPicked) {
    const keys = new Float64Array(shown.length);
    const dots = new Uint8Array(columns.id.length);
    for (const [field, many] of fields) {
      if (!columns[field]) continue; // derived inside the figure
      const { places, size, ends } = placesOf(columns[field], shown, many);
      for (let k = 0; k < keys.length; ++k) keys[k] = keys[k] * size + places[k];
      for (const i of ends) if (i >= 0) dots[i] = 1;
    }
    const kept = new Map();
    for (let k = 0; k < keys.length; ++k)
      if (!kept.has(keys[k]) || (isPicked && isPicked(shown[k]))) kept.set(keys[k], shown[k]);
    for (const i of kept.values()) dots[i] = 1;
    return dots;
  }

  return { fitLegends, narrow, takeTips, filterByMask, thin, dotsOf };
})();
