#include "reports/page.h"

#include <cstdio>
#include <ctime>

namespace isobar {
namespace {

constexpr const char* kStyle = R"(
:root { color: #1c1c1c; background: #fff; font: 16px/1.5 system-ui, "Liberation Sans", "DejaVu Sans", sans-serif; }
body { max-width: 1200px; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .4rem; }
p, figcaption, .note { max-width: 46rem; }
.sub, .note, figcaption { color: #555; font-size: .92rem; margin: .2rem 0 .8rem; overflow-wrap: anywhere; }
nav { font-size: .92rem; margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
a { color: #005a8e; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: .8rem; margin: 1.2rem 0; }
.tile { border: 1px solid #d5d5d5; border-radius: 6px; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.3; font-weight: 600; }
.tile span { color: #555; font-size: .85rem; overflow-wrap: anywhere; }
figure { margin: 0; }
.plot { width: 100%; } .plot svg { max-width: 100%; height: auto; }
.plot.vega-embed { display: block; padding: 0; }
.scroll { overflow-x: auto; max-height: 34rem; border: 1px solid #e2e2e2; border-radius: 4px; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .22rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #ececec; }
th { position: sticky; top: 0; background: #f6f6f6; font-weight: 600; white-space: nowrap; }
td { white-space: nowrap; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 20rem; }
th.n, td.n { text-align: right; }
.unit { color: #666; font-weight: 400; }
.warn { border-left: 4px solid #D55E00; padding: .1rem .8rem; }
@media (max-width: 600px) {
  :root { font-size: 15px; } body { padding: 1rem .75rem 3rem; }
  .tiles { grid-template-columns: 1fr 1fr; } .tile b { font-size: 1.2rem; }
}
@media print {
  body { max-width: none; padding: 0; } nav, .vega-actions, details summary { display: none; }
  .scroll { max-height: none; overflow: visible; border: 0; } table { font-size: 6.5pt; width: auto; }
  th { position: static; white-space: normal; } th, td { padding: 1pt 3pt; } td.long { min-width: 10rem; } figure, .tile { break-inside: avoid; } h2 { break-after: avoid; }
}
)";

// Draws each figure from the specification beside it; on a narrow screen labels get less room than marks.
constexpr const char* kScript = R"(
"use strict";
for (const data of document.querySelectorAll("script[type='application/json'][data-figure]")) {
  const plot = document.getElementById("plot-" + data.dataset.figure);
  const spec = JSON.parse(data.textContent);
  if (plot.clientWidth < 560) {
    spec.config.axisY = {...spec.config.axisY, labelLimit: Math.round(0.48 * plot.clientWidth), labelFontSize: 10.5};
    spec.config.axisXQuantitative = {...spec.config.axisXQuantitative, tickCount: 4};
    spec.config.legend = {...spec.config.legend, columns: 1, labelLimit: 240, layout: {top: {direction: "vertical", anchor: "start"}}};
    const narrow = (o) => {
      if (o && typeof o === "object") {
        if (o.legend && o.legend.columns) o.legend.columns = 1;
        Object.entries(o).forEach(([key, value]) => { if (key !== "values" && key !== "config") narrow(value); });
      }
    };
    narrow(spec);
  }
  vegaEmbed(plot, spec, {renderer: "svg", actions: false, logLevel: 1}).catch((e) => console.error(data.dataset.figure, e));
}
)";

std::string format(const char* pattern, double v) {
  char s[64];
  std::snprintf(s, sizeof s, pattern, v);
  return s;
}

void tile(std::string& out, const std::string& big, const std::string& small) {
  out += "<div class=\"tile\"><b>" + html_escape(big) + "</b><span>" + html_escape(small) + "</span></div>\n";
}

std::string tiles(const ReportData& d) {
  std::string out = "<div class=\"tiles\">\n";
  const size_t failed = d.failed().size();
  tile(out, std::to_string(d.ok().size()) + " of " + std::to_string(d.runs.size()),
       failed ? "runs finished; " + std::to_string(failed) + " did not" : "runs finished");
  if (const ReportRun* best = d.best())
    tile(out, significant(best->run.samples_per_s, 4).text + " samples/s", "fastest: " + best->label);
  const bool held_out = d.score(false).runs > 0;
  if (const Score s = d.score(!held_out); s.runs > 0) {
    const std::string which =
        std::to_string(s.runs) + (held_out ? " runs that the fit never saw" : " runs that it was fitted to");
    tile(out, format("%.1f %%", s.median_error * 100), "median error of predicted step time, on " + which);
    tile(out, format("%.0f %%", s.coverage * 100), "of them inside their 80 % interval");
  }
  return out + "</div>\n";
}

std::string today() {
  char s[40];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(s, sizeof s, "%Y-%m-%d %H:%M UTC", &utc);
  return s;
}

}  // namespace

std::string page_html(const ReportData& d, const std::vector<Figure>& figures,
                      const std::vector<Table>& tables) {
  const std::string name = d.dir.lexically_normal().string();
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<!--isobar:csp-->\n";
  out += "<title>Isobar: " + html_escape(name) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n";
  out += "<h1>" + html_escape(name) + "</h1>\n<p class=\"sub\">Isobar report, " + today() +
         (d.machine.empty() ? "" : "; predictions by " + html_escape(d.machine)) + "</p>\n";
  out += tiles(d);
  out += "<nav><b>Figures</b> ";
  for (const Figure& f : figures) out += "<a href=\"#" + f.id + "\">" + html_escape(f.title) + "</a> ";
  out += "</nav>\n<nav><b>Tables</b> ";
  for (const Table& t : tables) out += "<a href=\"#table-" + t.id + "\">" + html_escape(t.title) + "</a> ";
  out += "</nav>\n";
  if (!d.problems.empty()) {
    out += "<div class=\"warn\"><p>Not everything could be read:</p><ul>";
    for (const std::string& p : d.problems) out += "<li>" + html_escape(p) + "</li>";
    out += "</ul></div>\n";
  }
  for (const Figure& f : figures) {
    out += "<section id=\"" + f.id + "\">\n<h2>" + html_escape(f.title) + "</h2>\n<figure>\n<figcaption>" +
           html_escape(f.caption) + "</figcaption>\n<div class=\"plot\" id=\"plot-" + f.id +
           "\"><!--isobar:figure " + f.id +
           "--><p class=\"warn\">Not drawn: vl-convert is not installed. The figure's "
           "specification is figures/" +
           f.id +
           ".vl.json.</p><!--/isobar:figure--></div>\n</figure>\n"
           "<script type=\"application/json\" data-figure=\"" +
           f.id + "\">" + script_json(f.spec) + "</script>\n</section>\n";
  }
  for (const Table& t : tables) {
    out += "<section id=\"table-" + t.id + "\">\n<h2>" + html_escape(t.title) + "</h2>\n";
    if (!t.note.empty()) out += "<p class=\"note\">" + html_escape(t.note) + "</p>\n";
    out += "<div class=\"scroll\">" + to_html(t) + "</div>\n</section>\n";
  }
  out +=
      "<!--isobar:bundle-->\n<script id=\"draw\" type=\"text/plain\">" + std::string(kScript) + "</script>\n";
  return out + "</body>\n</html>\n";
}

}  // namespace isobar
