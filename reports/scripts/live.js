// Script of the page that follows a sweep or a run: polls its state every second, and its figures after more
// trials have ended or steps were made. It keeps polling, and says so, while the server does not answer.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const token = new URLSearchParams(location.search).get("token");
  const ask = async (what) => {
    const answer = await fetch(`${what}?token=${token}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${what}: ${answer.status}`);
    return answer.json();
  };
  // Suppresses Vega-Lite's warning about "fit-y", which every figure with one line a layout triggers by
  // design.
  const warn = console.warn;
  console.warn = (...words) => (words.some((w) => /Dropping "fit-y"/.test(w)) ? undefined : warn.apply(console, words));
  const theme = JSON.parse(byId("theme").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const themed = (text) => (dark.matches ? text.replace(/#[0-9a-f]{6}/gi, (c) => theme[c] || c) : text);
  let drawn = -1; // what the figures include, as `drawable` of the state
  const views = new Map();

  const cell = (text, right) => {
    const td = document.createElement("td");
    td.textContent = text;
    if (right) td.className = "n";
    return td;
  };

  function show(state) {
    document.title = `${state.done}/${state.total} ${state.name}`;
    byId("name").textContent = state.name;
    byId("progress").max = Math.max(1, state.total);
    byId("progress").value = state.done;
    byId("summary").textContent = state.summary;
    byId("notes").replaceChildren(
      ...state.notes.map((text) => {
        const line = document.createElement("p");
        line.textContent = text;
        return line;
      }),
    );
    const without = state.without_figures;
    byId("waiting").hidden = without === "" && (drawn >= 0 || state.drawable === 0);
    if (without) byId("waiting").textContent = `No figures: ${without}`;
    byId("waiting").className = without ? "warn" : "note";
    byId("list").hidden = state.trials.length === 0;
    const body = byId("trials");
    body.replaceChildren(
      ...state.trials.map((t) => {
        const row = document.createElement("tr");
        row.dataset.state = t.state;
        row.append(cell(t.name), cell(t.state), cell(t.progress, true), cell(t.rate, true), cell(t.note), cell(t.id));
        return row;
      }),
    );
    document.documentElement.dataset.done = state.done;
  }

  async function showFigures(drawable) {
    if (drawable === drawn || typeof vegaEmbed === "undefined") return;
    const place = byId("figures");
    for (const figure of await ask("figures")) {
      let plot = byId("plot-" + figure.id);
      if (!plot) {
        const section = document.createElement("section");
        const title = document.createElement("h2");
        title.textContent = figure.title;
        const caption = document.createElement("p");
        caption.className = "note";
        caption.textContent = figure.caption;
        plot = document.createElement("div");
        plot.className = "plot";
        plot.id = "plot-" + figure.id;
        section.append(title, caption, plot);
        place.append(section);
      }
      const spec = JSON.parse(themed(JSON.stringify(figure.spec)));
      const { view } = await vegaEmbed(plot, spec, { renderer: "svg", actions: false, logLevel: 1 });
      if (views.has(figure.id)) views.get(figure.id).finalize();
      views.set(figure.id, view);
    }
    drawn = drawable;
    document.documentElement.dataset.drawn = drawable;
  }

  async function follow() {
    try {
      const state = await ask("state");
      byId("lost").hidden = true;
      show(state);
      await showFigures(state.drawable);
    } catch (e) {
      byId("lost").hidden = false;
      byId("lost").textContent = `No answer from isobar watch (${e.message}); what is below was the last. Asking again …`;
    }
    setTimeout(follow, 1000);
  }
  follow();
})();
