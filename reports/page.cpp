#include "reports/page.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace isobar {
namespace {

constexpr const char* kStyle = R"(
:root { color: #1c1c1c; background: #fff; font: 16px/1.5 system-ui, "Liberation Sans", "DejaVu Sans", sans-serif; }
body { max-width: 1200px; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 3rem 0 .2rem; border-top: 2px solid #1c1c1c; padding-top: .6rem; }
h3 { font-size: 1.08rem; margin: 1.8rem 0 .3rem; overflow-wrap: anywhere; }
p, figcaption, .note, .story { max-width: 48rem; }
.sub, .note, figcaption { color: #555; font-size: .92rem; margin: .2rem 0 .8rem; overflow-wrap: anywhere; }
.story { padding-left: 1.2rem; } .story li { margin: .45rem 0; overflow-wrap: anywhere; }
nav { font-size: .92rem; margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
a { color: #005a8e; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: .8rem; margin: 1.2rem 0; }
.tile { border: 1px solid #d5d5d5; border-radius: 6px; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.3; font-weight: 600; }
.tile span { color: #555; font-size: .85rem; overflow-wrap: anywhere; }
#controls { border: 1px solid #d5d5d5; border-radius: 6px; padding: .5rem .8rem; margin: 1rem 0; background: #fafafa; }
#controls summary { cursor: pointer; font-weight: 600; }
.facet { display: flex; flex-wrap: wrap; gap: .3rem; align-items: baseline; margin: .4rem 0; }
.facet > span { font-size: .85rem; color: #555; min-width: 6.5rem; }
.chip { font: inherit; font-size: .85rem; padding: .1rem .6rem; border: 1px solid #b5b5b5; border-radius: 99px; background: #fff; cursor: pointer; overflow-wrap: anywhere; }
.chip[aria-pressed=true] { background: #005a8e; border-color: #005a8e; color: #fff; }
#status { position: sticky; top: 0; z-index: 5; background: #fffffff2; border-bottom: 1px solid #d5d5d5; padding: .35rem 0; font-size: .88rem; overflow-wrap: anywhere; }
#status button { font: inherit; margin-left: .6rem; }
[hidden] { display: none !important; }
figure { margin: 0; }
.plot { width: 100%; min-width: 0; } .plot svg, .plot canvas { max-width: 100%; }
.plot > svg { height: auto; }
.plot.vega-embed { display: block; padding: 0 !important; }
.scroll { overflow-x: auto; max-height: 34rem; border: 1px solid #e2e2e2; border-radius: 4px; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .22rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #ececec; }
th { position: sticky; top: 0; background: #f6f6f6; font-weight: 600; white-space: nowrap; }
th[data-sort] { cursor: pointer; text-decoration: underline dotted; }
tr.picked td { background: #fff2cc; }
td { white-space: nowrap; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 20rem; }
th.n, td.n { text-align: right; }
.unit { color: #666; font-weight: 400; }
.warn { border-left: 4px solid #D55E00; padding: .1rem .8rem; overflow-wrap: anywhere; }
@media (max-width: 600px) {
  :root { font-size: 15px; } body { padding: 1rem .75rem 3rem; }
  .tiles { grid-template-columns: 1fr 1fr; } .tile b { font-size: 1.2rem; }
}
@media print {
  body { max-width: none; padding: 0; } nav, #controls, #status button, .vega-embed details { display: none !important; }
  #status { position: static; } .plot svg, .plot canvas { height: auto !important; width: auto !important; }
  .scroll { max-height: none; overflow: visible; border: 0; } table { font-size: 6.5pt; width: auto; }
  th { position: static; white-space: normal; } td { white-space: normal; } th, td { padding: 1pt 2pt; overflow-wrap: anywhere; } td.long { min-width: 10rem; }
  figure, .tile { break-inside: avoid; } h2, h3, figcaption { break-after: avoid; }
}
)";

constexpr size_t kRows = 200;  // of a table on the page: more is for the CSV file

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
    tile(out, significant(best->rate(), 4).text + " samples/s",
         "fastest (" + std::string(title_of(d.statistic)) + "): " + best->label);
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

void append_figure(std::string& out, const Figure& f) {
  out += "<section id=\"" + f.id + "\">\n<h3>" + html_escape(f.title) + "</h3>\n<figure>\n<figcaption>" +
         html_escape(f.caption) + "</figcaption>\n<div class=\"plot\" id=\"plot-" + f.id +
         "\"><!--isobar:figure " + f.id +
         "--><p class=\"warn\">Not drawn: vl-convert is not installed. The figure's "
         "specification is figures/" +
         f.id +
         ".vl.json.</p><!--/isobar:figure--></div>\n</figure>\n"
         "<script type=\"application/json\" data-figure=\"" +
         f.id + "\">" + script_json(f.spec) + "</script>\n</section>\n";
}

void append_table(std::string& out, const Table& t) {
  out += "<section id=\"table-" + t.id + "\">\n<h3>" + html_escape(t.title) + "</h3>\n";
  Table shown = t;
  if (shown.rows.size() > kRows) {
    shown.rows.resize(kRows);
    shown.note += (shown.note.empty() ? "" : ". ") + std::string("The first ") + std::to_string(kRows) +
                  " of " + std::to_string(t.rows.size()) + " rows; all are in tables/" + t.id + ".csv";
  }
  if (!shown.note.empty()) out += "<p class=\"note\">" + html_escape(shown.note) + "</p>\n";
  out += "<div class=\"scroll\">" + to_html(shown) + "</div>\n</section>\n";
}

void append_head(std::string& out, const ReportData& d, const std::vector<Sentence>& sentences) {
  std::string name;
  for (const auto& dir : d.dirs) name += (name.empty() ? "" : " and ") + dir.lexically_normal().string();
  out +=
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<!--isobar:csp-->\n";
  out += "<title>Isobar: " + html_escape(name) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n";
  out += "<h1>" + html_escape(name) + "</h1>\n<p class=\"sub\">Isobar report, " + today() +
         (d.machine.empty() ? "" : "; predictions by " + html_escape(d.machine)) + "</p>\n";
  out += tiles(d);
  if (!sentences.empty()) {
    out += "<h2>What to look at first</h2>\n<ul class=\"story\">\n";
    for (const Sentence& s : sentences)
      out += "<li><b>" + html_escape(s.head) + ".</b> " + html_escape(s.text) +
             (s.anchor.empty() ? "" : " <a href=\"#" + s.anchor + "\">See</a>") + "</li>\n";
    out += "</ul>\n";
  }
  if (!d.problems.empty()) {
    constexpr size_t kShown = 20;
    out += "<div class=\"warn\"><p>Not everything could be read or predicted:</p><ul>";
    for (size_t i = 0; i < std::min(kShown, d.problems.size()); ++i)
      out += "<li>" + html_escape(d.problems[i]) + "</li>";
    if (d.problems.size() > kShown)
      out += "<li>and " + std::to_string(d.problems.size() - kShown) + " more</li>";
    out += "</ul></div>\n";
  }
}

std::string facets_json(const ReportData& d) {
  nlohmann::json out = nlohmann::json::array();
  for (size_t i = 0; i < d.facets.size(); ++i)
    out.push_back(
        {{"field", "f" + std::to_string(i)}, {"title", d.facets[i].title}, {"values", d.facets[i].values}});
  return script_json(out);
}

}  // namespace

const char* page_style() {
  return kStyle;
}

std::string page_html(const ReportData& d, const ChartData& s, const std::vector<Sentence>& sentences,
                      const std::vector<Figure>& figures, const std::vector<Table>& tables) {
  std::string out;
  append_head(out, d, sentences);
  std::vector<std::string> sections;
  for (const Figure& f : figures)
    if (std::find(sections.begin(), sections.end(), f.section) == sections.end())
      sections.push_back(f.section);
  const auto anchor = [&](const std::string& section) {
    return "section-" +
           std::to_string(std::find(sections.begin(), sections.end(), section) - sections.begin());
  };
  out += "<nav>";
  for (const std::string& section : sections)
    out += "<a href=\"#" + anchor(section) + "\">" + html_escape(section) + "</a> ";
  for (const Table& t : tables) out += "<a href=\"#table-" + t.id + "\">" + html_escape(t.title) + "</a> ";
  out +=
      "</nav>\n<details id=\"controls\" open hidden><summary>Filter and pick</summary></details>\n"
      "<div id=\"status\" hidden></div>\n";
  for (const std::string& section : sections) {
    out += "<h2 id=\"" + anchor(section) + "\">" + html_escape(section) + "</h2>\n";
    for (const Figure& f : figures)
      if (f.section == section) append_figure(out, f);
  }
  out += "<h2>Tables</h2>\n";
  for (const Table& t : tables) append_table(out, t);
  out +=
      "<script type=\"application/json\" id=\"runs-data\">" + script_json(columns_of(s.rows)) + "</script>\n";
  out += "<script type=\"application/json\" id=\"facets\">" + facets_json(d) + "</script>\n";
  out += "<!--isobar:scripts-->\n";
  return out + "</body>\n</html>\n";
}

}  // namespace isobar
