#include "reports/page.h"

#include <algorithm>
#include <ctime>
#include <sstream>

#include "reports/style/palette.h"
#include "reports/subject.h"

namespace isobar {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1b1c1d; --paper: #fff; --soft: #54575a; --line: #d3d5d7; --panel: #f6f7f7; --link: #005a8e; --pick: #fff2cc; --warn: #b34700; --shade: #0005; color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, "Liberation Sans", "DejaVu Sans", sans-serif; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e9eaeb; --paper: #16181b; --soft: #b1b4b7; --line: #3b3f44; --panel: #202327; --link: #7cc4f5; --pick: #4a3f14; --warn: #ff9a57; --shade: #fff4; } }
body { max-width: 1200px; margin: 0 auto; padding: 1.2rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 .2rem; border-top: 2px solid var(--ink); padding-top: .6rem; }
h3 { font-size: 1.08rem; margin: 1.8rem 0 .3rem; overflow-wrap: anywhere; }
p, figcaption, .note { max-width: 48rem; }
.sub, .note, figcaption { color: var(--soft); font-size: .92rem; margin: .2rem 0 .8rem; overflow-wrap: anywhere; }
.subject { max-width: 60rem; margin: .2rem 0; overflow-wrap: anywhere; }
.story { padding-left: 1.4rem; max-width: 60rem; margin: .9rem 0; } .story li { margin: .4rem 0; overflow-wrap: anywhere; }
.story code { background: var(--panel); padding: 0 .25rem; border-radius: 3px; font-size: .88em; } .story code span { display: inline-block; max-width: 100%; }
nav { font-size: .92rem; margin: .5rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
a { color: var(--link); }
#controls { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .8rem; margin: 1rem 0; background: var(--panel); }
#controls summary { cursor: pointer; font-weight: 600; }
#controls .note { max-width: none; margin: .4rem 0 0; }
.facet { display: inline-flex; flex-wrap: wrap; gap: .3rem; align-items: baseline; margin: .4rem 1.6rem .1rem 0; }
.facet > span { font-size: .85rem; color: var(--soft); }
.chip { font: inherit; font-size: .85rem; padding: .1rem .6rem; border: 1px solid var(--soft); border-radius: 99px; color: var(--ink); background: var(--paper); cursor: pointer; overflow-wrap: anywhere; }
.chip[aria-pressed=true] { background: var(--link); border-color: var(--link); color: var(--paper); }
#status { position: sticky; top: 0; z-index: 5; background: var(--paper); border-bottom: 1px solid var(--line); padding: .35rem 0; font-size: .88rem; overflow-wrap: anywhere; }
#status button { font: inherit; margin-left: .6rem; }
[hidden] { display: none !important; }
/* Figures do not wait for the layout of tables that are not in view. */
html:not([data-ready]) section[id^="table-"] { content-visibility: auto; contain-intrinsic-size: auto 34rem; }
figure { margin: 0; }
.plot { width: 100%; min-width: 0; } .plot svg, .plot canvas { max-width: 100%; }
.plot > svg { height: auto; }
.plot.vega-embed { display: block; padding: 0 !important; }
#tip { position: fixed; left: 0; top: 0; z-index: 20; pointer-events: none; max-width: min(24rem, calc(100vw - 16px)); max-height: calc(100vh - 16px); overflow: hidden; box-sizing: border-box; padding: .4rem .6rem; border: 1px solid var(--line); border-radius: 4px; background: var(--paper); color: var(--ink); box-shadow: 0 2px 8px #0004; font-size: 12px; line-height: 1.35; }
#tip dl { display: grid; grid-template-columns: auto 1fr; gap: 0 .7rem; margin: 0; } #tip dt { color: var(--soft); } #tip dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.find { font: inherit; font-size: .88rem; color: var(--ink); background: var(--paper); border: 1px solid var(--soft); border-radius: 4px; padding: .15rem .5rem; margin: 0 0 .4rem; max-width: 100%; box-sizing: border-box; }
/* Shades at the edges where there is more to scroll to */
.scroll { overflow-x: auto; max-height: 34rem; border: 1px solid var(--line); border-radius: 4px; background: linear-gradient(90deg, var(--paper) 30%, transparent), linear-gradient(270deg, var(--paper) 30%, transparent) 100% 0, linear-gradient(90deg, var(--shade), transparent), linear-gradient(270deg, var(--shade), transparent) 100% 0; background-size: 40px 100%, 40px 100%, 12px 100%, 12px 100%; background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .22rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: var(--panel); font-weight: 600; white-space: nowrap; }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; text-align: inherit; text-decoration: underline dotted; }
tr.picked td { background: var(--pick); }
td { white-space: nowrap; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 20rem; }
th.n, td.n { text-align: right; }
.unit { color: var(--soft); font-weight: 400; }
.warn { border-left: 4px solid var(--warn); padding: .1rem .8rem; overflow-wrap: anywhere; }
@media (max-width: 600px) {
  :root { font-size: 15px; } body { padding: .8rem .75rem 3rem; }
}
@media print {
  body { max-width: none; padding: 0; } nav, #controls, #tip, .find, #status button, .vega-embed details { display: none !important; }
  #status { position: static; } .plot svg, .plot canvas { height: auto !important; width: auto !important; }
  html[data-theme=dark] .plot { filter: invert(1) hue-rotate(180deg); }
  .scroll { max-height: none; overflow: visible; border: 0; background: none; } table { font-size: 6.5pt; width: auto; }
  th { position: static; white-space: normal; } td { white-space: normal; } th, td { padding: 1pt 2pt; overflow-wrap: anywhere; } td.long { min-width: 10rem; }
  figure { break-inside: avoid; } h2, h3, figcaption { break-after: avoid; }
}
)";

constexpr size_t kRows = 200;  // most rows of a table on the page; the CSV file has all

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
  out += "<section id=\"table-" + t.id + "\">\n<h3 id=\"title-" + t.id + "\">" + html_escape(t.title) +
         "</h3>\n";
  Table shown = t;
  if (!t.note.empty()) out += "<p class=\"note\">" + html_escape(t.note) + "</p>\n";
  if (t.rows.size() > kRows) {  // page_tables.js removes this note where it shows more rows
    shown.rows.resize(kRows);
    out += "<p class=\"note cut\">The first " + std::to_string(kRows) + " of " +
           std::to_string(t.rows.size()) + " rows; all are in tables/" + html_escape(t.id) + ".csv.</p>\n";
  }
  out += "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"title-" + t.id + "\">" +
         to_html(shown) + "</div>\n</section>\n";
}

// Breaks lines only at spaces, not at the hyphens of an option.
std::string command_html(const std::string& command) {
  std::string out;
  std::istringstream words(command);
  for (std::string word; words >> word;)
    out += (out.empty() ? "<span>" : " <span>") + html_escape(word) + "</span>";
  return "<code>" + out + "</code>";
}

// Keeps a number and its percent sign on one line.
std::string prose_html(const std::string& text) {
  std::string out = html_escape(text);
  for (size_t at = 0; (at = out.find(" %", at)) != std::string::npos;) out.replace(at, 1, "&nbsp;");
  return out;
}

std::string begin_of(const std::string& title) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, "
         "initial-scale=1\">\n<!--isobar:csp-->\n<title>" +
         html_escape(title) + " \u2013 Isobar</title>\n<style>" + kStyle +
         "</style>\n</head>\n<body>\n<main>\n<h1>" + html_escape(title) + "</h1>\n";
}

// Data for the scripts, and the placeholder of the scripts.
std::string end_with(const nlohmann::json& rows, const nlohmann::json& facets) {
  std::string out;
  for (const auto& [id, data] :
       {std::pair{"runs-data", columns_of(rows)}, {"facets", facets}, {"theme", palette::on_dark()}})
    out += std::string("<script type=\"application/json\" id=\"") + id + "\">" + script_json(data) +
           "</script>\n";
  return out + "</main>\n<!--isobar:scripts-->\n</body>\n</html>\n";
}

void append_head(std::string& out, const ReportData& d, const std::vector<Sentence>& sentences) {
  std::string name;
  for (const auto& dir : d.dirs) name += (name.empty() ? "" : " and ") + dir.lexically_normal().string();
  const Subject subject = subject_of(d);
  out += begin_of(subject.title);
  for (const std::string& line : subject.lines) out += "<p class=\"subject\">" + html_escape(line) + "</p>\n";
  out += "<p class=\"sub\">" + html_escape(name) + "; report of " + today() +
         (d.machine.empty() ? "" : "; predictions by " + html_escape(d.machine)) + "</p>\n";
  if (!sentences.empty()) {
    out += "<ol class=\"story\">\n";
    for (const Sentence& s : sentences) {
      const std::string head = html_escape(s.head);
      out += "<li><b>" + (s.anchor.empty() ? head : "<a href=\"#" + s.anchor + "\">" + head + "</a>") +
             ".</b> " + prose_html(s.text) + (s.command.empty() ? "" : " " + command_html(s.command)) +
             "</li>\n";
    }
    out += "</ol>\n";
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

nlohmann::json facets_json(const ReportData& d) {
  nlohmann::json out = nlohmann::json::array();
  for (size_t i = 0; i < d.facets.size(); ++i)
    out.push_back(
        {{"field", "f" + std::to_string(i)}, {"title", d.facets[i].title}, {"values", d.facets[i].values}});
  return out;
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
  out += "<nav><span>Figures:</span> ";
  for (const std::string& section : sections)
    out += "<a href=\"#" + anchor(section) + "\">" + html_escape(section) + "</a> ";
  out += "</nav>\n<nav><span>Tables:</span> ";
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
  return out + end_with(s.rows, facets_json(d));
}

std::string page_html(const std::string& title, const std::vector<Figure>& figures,
                      const std::vector<Table>& tables, const std::vector<std::string>& sentences) {
  std::string out = begin_of(title);
  if (!sentences.empty()) out += "<ol class=\"story\">\n";
  for (const std::string& s : sentences) out += "<li>" + prose_html(s) + "</li>\n";
  if (!sentences.empty()) out += "</ol>\n";
  for (const Figure& f : figures) append_figure(out, f);
  for (const Table& t : tables) append_table(out, t);
  return out + end_with(nlohmann::json::array(), nlohmann::json::array());
}

}  // namespace isobar
