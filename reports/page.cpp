#include "reports/page.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "reports/report.h"
#include "reports/style/palette.h"

namespace isobar::report {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1b1c1d; --paper: #fff; --soft: #54575a; --line: #d3d5d7; --panel: #f6f7f7; --link: #005a8e; --pick: #fff2cc; --warn: #b34700; --shade: #0005; color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, "Liberation Sans", "DejaVu Sans", sans-serif; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e9eaeb; --paper: #16181b; --soft: #b1b4b7; --line: #3b3f44; --panel: #202327; --link: #7cc4f5; --pick: #4a3f14; --warn: #ff9a57; --shade: #fff4; } }
body { max-width: 1200px; margin: 0 auto; padding: 1rem 1rem 1.5rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 .2rem; border-top: 2px solid var(--ink); padding-top: .6rem; }
h3 { font-size: 1.08rem; margin: 1rem 0 .2rem; overflow-wrap: anywhere; }
p, figcaption, .note { max-width: 48rem; }
.sub, .note, figcaption { color: var(--soft); font-size: .92rem; margin: .2rem 0 .8rem; overflow-wrap: anywhere; }
.subject { color: var(--soft); font-size: .88rem; max-width: none; margin: .2rem 0; overflow-wrap: anywhere; }
/* Three figures in large type, and the figure that leads beside them */
.lead { display: flex; flex-wrap: wrap; gap: .6rem 2.5rem; align-items: flex-start; margin: .8rem 0; }
.facts { flex: 1 1 17rem; margin: 0; display: grid; gap: .7rem; } .facts div { border-left: 4px solid var(--link); padding-left: .8rem; }
.facts dd { margin: 0; font-size: 1.9rem; line-height: 1.15; font-weight: 650; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; } .facts dt { color: var(--soft); font-size: .92rem; }
.facts div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
.lead section { flex: 3 1 32rem; min-width: 0; } .lead h3 { margin: 0; } .lead figure { display: flex; flex-direction: column-reverse; }
.beside { display: flex; flex-wrap: wrap; gap: 0 2.5rem; } .beside > section { flex: 1 1 27rem; min-width: 0; }
.story { padding-left: 0; margin: .6rem 0; list-style: none; } .story li { margin: .25rem 0; overflow-wrap: anywhere; }
details.fold { border-top: 1px solid var(--line); } .fold > summary { cursor: pointer; padding: .15rem 0; line-height: 1.3; }
.fold > summary h2 { display: inline; font-size: 1.08rem; border: 0; margin: 0; padding: 0; } .fold .count { color: var(--soft); font-size: .92rem; }
.story code { background: var(--panel); padding: 0 .25rem; border-radius: 3px; font-size: .88em; } .story code span { display: inline-block; max-width: 100%; }
a { color: var(--link); }
#controls { border: 1px solid var(--line); border-radius: 6px; padding: .25rem .8rem; margin: .6rem 0; background: var(--panel); }
#controls summary { cursor: pointer; font-weight: 600; }
#controls .note { max-width: none; margin: .4rem 0 0; }
.facet { display: inline-flex; flex-wrap: wrap; gap: .3rem; align-items: baseline; margin: .4rem 1.6rem .1rem 0; }
.facet > span { font-size: .85rem; color: var(--soft); }
.chip { font: inherit; font-size: .85rem; padding: .1rem .6rem; border: 1px solid var(--soft); border-radius: 99px; color: var(--ink); background: var(--paper); cursor: pointer; overflow-wrap: anywhere; }
.chip[aria-pressed=true] { background: var(--link); border-color: var(--link); color: var(--paper); }
#status { position: sticky; top: 0; z-index: 5; background: var(--paper); padding: .1rem 0; font-size: .88rem; overflow-wrap: anywhere; }
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
  body { max-width: none; padding: 0; } #controls, #tip, .find, #status button, .vega-embed details { display: none !important; }
  #status { position: static; } .plot svg, .plot canvas { height: auto !important; width: auto !important; }
  html[data-theme=dark] .plot[data-drawn] { filter: invert(1) hue-rotate(180deg); }
  .scroll { max-height: none; overflow: visible; border: 0; background: none; } table { font-size: 6.5pt; width: auto; }
  th { position: static; white-space: normal; } td { white-space: normal; } th, td { padding: 1pt 2pt; overflow-wrap: anywhere; } td.long { min-width: 10rem; }
  .beside { display: block; } figure { break-inside: avoid; } h2, h3, figcaption { break-after: avoid; }
}
)";

constexpr size_t kRows = 200;  // most rows of a table on the page; the CSV file has all

void append_figure(std::string& out, const Figure& f) {
  constexpr int kWide = 760;
  const int wide = f.spec.value("usermeta", nlohmann::json::object()).value("width", kWide);
  out += "<section id=\"" + f.id + "\">\n<h3>" + html_escape(f.title) + "</h3>\n<figure>\n<figcaption>" +
         html_escape(f.caption) + "</figcaption>\n<div class=\"plot\" id=\"plot-" + f.id +
         "\" style=\"max-width: " + std::to_string(wide) + "px\"><!--isobar:figure " + f.id +
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

// Keeps a number and its unit on one line.
std::string prose_html(const std::string& text) {
  std::string out = html_escape(text);
  for (size_t at = 1; (at = out.find(' ', at)) != std::string::npos; ++at)
    if (std::isdigit(static_cast<unsigned char>(out[at - 1])) && at + 1 < out.size() &&
        std::string("%kM").find(out[at + 1]) != std::string::npos &&
        (at + 2 == out.size() || !std::isalnum(static_cast<unsigned char>(out[at + 2]))))
      out.replace(at, 1, "&nbsp;");
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

void append_list(std::string& out, const char* kind, const std::vector<Sentence>& sentences,
                 std::string Sentence::*words) {
  out += std::string("<ul class=\"") + kind + "\">\n";
  for (const Sentence& s : sentences) {
    if ((s.*words).empty()) continue;
    const std::string head = html_escape(s.head);
    out += "<li>";
    if (!head.empty())
      out += "<b>" + (s.anchor.empty() ? head : "<a href=\"#" + s.anchor + "\">" + head + "</a>") + ".</b> ";
    out += prose_html(s.*words) + (s.command.empty() ? "" : " " + command_html(s.command)) + "</li>\n";
  }
  out += "</ul>\n";
}

std::string tally(size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string fold(const std::string& id, const std::string& title, const std::string& count) {
  return "<details class=\"fold\" id=\"" + id + "\"><summary><h2>" + html_escape(title) +
         "</h2> <span class=\"count\">" + count + "</span></summary>\n";
}

void append_problems(std::string& out, const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  constexpr size_t kShown = 20;
  out += "<div class=\"warn\"><p>Not everything could be read or predicted:</p><ul>";
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i)
    out += "<li>" + html_escape(problems[i]) + "</li>";
  if (problems.size() > kShown) out += "<li>and " + std::to_string(problems.size() - kShown) + " more</li>";
  out += "</ul></div>\n";
}

// Subject, the three figures in large type beside the leading picture, and the short sentences.
void append_head(std::string& out, const PageText& text, const std::vector<Figure>& figures) {
  out += begin_of(text.title);
  if (!text.subject.empty()) out += "<p class=\"subject\">" + html_escape(text.subject) + "</p>\n";
  out += "<div class=\"lead\">\n";
  if (!text.facts.empty()) {
    out += "<dl class=\"facts\">\n";
    for (const Fact& f : text.facts)
      out += "<div><dt>" + prose_html(f.what) + "</dt><dd>" + prose_html(f.value) + "</dd></div>\n";
    out += "</dl>\n";
  }
  if (!figures.empty()) append_figure(out, figures.front());
  out += "</div>\n";
  append_list(out, "story", text.sentences, &Sentence::brief);
  append_problems(out, text.problems);
}

// Sections of what is not shown, each folded, under its heading.
void append_folded(std::string& out, const std::vector<Figure>& figures) {
  std::vector<std::string> sections;
  const auto folded = [&](const Figure& f) { return !f.shown && &f != &figures.front(); };
  for (const Figure& f : figures)
    if (folded(f) && std::find(sections.begin(), sections.end(), f.section) == sections.end())
      sections.push_back(f.section);
  for (size_t i = 0; i < sections.size(); ++i) {
    std::string inside;
    size_t n = 0;
    for (const Figure& f : figures)
      if (folded(f) && f.section == sections[i]) append_figure(inside, f), ++n;
    out += fold("section-" + std::to_string(i), sections[i], tally(n, "figure")) + inside + "</details>\n";
  }
}

void append_in_full(std::string& out, const std::vector<Sentence>& sentences) {
  std::vector<Sentence> more;
  for (const Sentence& s : sentences)
    if (!s.text.empty() && s.text != s.brief) more.push_back(s), more.back().command.clear();
  if (more.empty()) return;
  out += fold("in-full", "In full", tally(more.size(), "note"));
  append_list(out, "full", more, &Sentence::text);
  out += "</details>\n";
}

}  // namespace

const char* page_style() {
  return kStyle;
}

std::string page_html(const PageText& text, const std::vector<Figure>& figures,
                      const std::vector<Table>& tables, const nlohmann::json& rows,
                      const nlohmann::json& facets) {
  std::string out;
  append_head(out, text, figures);
  out +=
      "<details id=\"controls\" hidden><summary>Filter and pick</summary></details>\n"
      "<div id=\"status\" hidden></div>\n<div class=\"beside\">\n";
  for (size_t i = 1; i < figures.size(); ++i)
    if (figures[i].shown) append_figure(out, figures[i]);
  out += "</div>\n";
  // A page without runs shows its first table, unless that is long
  constexpr size_t kShort = 16;
  const size_t shown = rows.empty() && !tables.empty() && tables.front().rows.size() <= kShort ? 1 : 0;
  if (shown > 0) append_table(out, tables.front());
  append_in_full(out, text.sentences);
  append_folded(out, figures);
  if (tables.size() > shown) {
    out += fold("tables", "Tables", tally(tables.size() - shown, "table") + ", also as CSV");
    for (size_t i = shown; i < tables.size(); ++i) append_table(out, tables[i]);
    out += "</details>\n";
  }
  if (!text.made.empty()) out += "<p class=\"sub\">" + html_escape(text.made) + "</p>\n";
  return out + end_with(rows, facets);
}

nlohmann::json facets_of(const ReportData& d) {
  nlohmann::json out = nlohmann::json::array();
  for (size_t i = 0; i < d.facets.size(); ++i)
    out.push_back(
        {{"field", "f" + std::to_string(i)}, {"title", d.facets[i].title}, {"values", d.facets[i].values}});
  return out;
}

std::string write_plain_page(const std::filesystem::path& out, const PageText& text,
                             const std::vector<Figure>& figures, const std::vector<Table>& tables) {
  clear_old(out);
  for (const Figure& f : figures)
    write_atomically(out / "figures" / (f.id + ".vl.json"), json_text(f.spec) + "\n");
  for (const Table& t : tables) write_atomically(out / "tables" / (t.id + ".csv"), to_csv(t));
  write_atomically(out / "index.html", page_html(text, figures, tables));
  return draw_figures(out, {}, true);
}

}  // namespace isobar::report
