// Makes a figure's specification one for this screen: colours of a dark page, room on a narrow one, and what keeps
// thousands of runs quick: tooltips that are put together when they are asked for, and one dot where many would lie on
// the same place.
"use strict";
const screenSpec = (() => {
  const PLACES = { x: 200, y: 64 }; // along an axis, by which dots are told apart: some 5 pixels each
  const isObject = (o) => o !== null && typeof o === "object";

  // Calls `see` on every object of a specification, but not on its data.
  function walk(o, see) {
    if (!isObject(o)) return;
    if (!Array.isArray(o)) see(o);
    for (const [key, value] of Object.entries(o)) if (!["values", "datasets", "config"].includes(key)) walk(value, see);
  }

  // Legends in as many columns as fit beside the labels of an axis.
  function fitLegends(spec, width) {
    const room = width - Math.min(380, 0.44 * width);
    walk(spec, (o) => {
      if (!o.legend?.columns) return;
      const letters = Math.max(...(o.scale?.domain || [""]).map((word) => String(word).length));
      o.legend.columns = Math.max(1, Math.min(5, Math.floor(room / (26 + 7.3 * letters))));
    });
  }

  // On a narrow screen labels get less room than marks.
  function narrow(spec, width) {
    spec.config.axisY = { ...spec.config.axisY, labelLimit: Math.round(0.44 * width), labelFontSize: 10.5 };
    spec.config.axisXQuantitative = { ...spec.config.axisXQuantitative, tickCount: 4 };
    spec.config.legend = { ...spec.config.legend, columns: 1, labelLimit: Math.round(0.8 * width) };
    walk(spec, (o) => {
      // "error (right: too long)" on two lines
      if (o.encoding?.x?.title?.includes(" (")) o.encoding.x.title = o.encoding.x.title.split(/ (?=\()/);
    });
  }

  // Vega would format every line of every mark's tooltip whenever it draws. Marks keep the number of their list of
  // lines instead; returns the lists.
  function takeTips(spec) {
    const lists = [];
    walk(spec, (o) => {
      if (!o.encoding || !Array.isArray(o.encoding.tooltip)) return;
      lists.push(o.encoding.tooltip);
      o.encoding.tooltip = { value: String(lists.length - 1) };
    });
    return lists;
  }

  // What is shown goes by a mask over the numbers of runs, so that a filter makes no new rows.
  function filterByMask(spec) {
    spec.params.push({ name: "mask", value: null }, { name: "dots", value: null });
    spec.transform = [{ filter: "!mask || mask[datum.number]" }, ...(spec.transform || [])];
  }

  // Layers with a mark for each run draw the dots alone (see dotsOf). Returns by which fields such marks differ,
  // and in how many places each: those of axes and looks, not the ends of intervals.
  function thin(spec) {
    const fields = new Map([["set", 0]]); // whatever else: no mark stands for runs of two sets of results
    for (const layer of (spec.usermeta?.mark_per_run || []).map((i) => spec.layer[i])) {
      layer.transform = [...(layer.transform || []), { filter: "dots ? dots[datum.number] : datum.dot" }];
      for (const channel of ["x", "y", "color", "shape"]) {
        const { field } = layer.encoding[channel] || {};
        if (field && !layer.encoding[channel + "2"]) fields.set(field, PLACES[channel]);
      }
    }
    return fields;
  }

  // Numbers of the places along an axis, or of words; how many there are; the runs at both ends of the axis.
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

  // A mask of the runs that get a mark, of those that are shown (numbers): one of all that would look alike on the same
  // place, a picked one if there is any, and the ends of each axis.
  function dotsOf(columns, fields, shown, isPicked) {
    const keys = new Float64Array(shown.length);
    const dots = new Uint8Array(columns.id.length);
    for (const [field, many] of fields) {
      if (!columns[field]) continue; // one that the figure works out of others
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
