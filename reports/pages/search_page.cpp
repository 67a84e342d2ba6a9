#include <algorithm>
#include <cmath>
#include <map>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/base/text/printed.h"
#include "reports/answers/answers.h"
#include "reports/page.h"
#include "reports/pages/pages.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr size_t kAllAxes = 8000;  // more than the (dp, tp, cp, ep, pp) of any search

struct Spot {
  perf::Layout layout;
  double seconds = 0, bytes = 0, fits = 1;
};

// The best of each (dp, tp, cp, ep, pp), as the requested engine runs them.
std::vector<Spot> spots_of(const perf::Chooser& chooser, const RunSpec& spec, int64_t gpus,
                           perf::LayoutQuestion q) {
  q.top = kAllAxes;
  std::vector<Spot> out;
  for (const perf::LayoutChoice& c : chooser.best(spec, gpus, q))
    out.push_back({perf::layout_of(c.spec), c.step.value, c.memory.value, c.fits});
  return out;
}

json row_of(const Spot& s) {
  return {{"tp", s.layout.tp},           {"pp", s.layout.pp},       {"dp", s.layout.dp},
          {"cp", s.layout.cp},           {"ep", s.layout.ep},       {"step_s", s.seconds},
          {"memory_gb", 1e-9 * s.bytes}, {"chance_to_fit", s.fits}, {"layout", perf::text_of(s.layout)}};
}

Figure heat_map(const std::vector<Spot>& spots) {
  std::map<std::pair<int, int>, const Spot*> best;
  for (const Spot& s : spots) {
    const Spot*& at = best[{s.layout.tp, s.layout.pp}];
    if (!at || s.seconds / s.fits < at->seconds / at->fits) at = &s;
  }
  json rows = json::array();
  double middle = 0;  // of the colour scale, over log step time
  for (const auto& [axes, s] : best) {
    rows.push_back(row_of(*s));
    middle += std::log(s->seconds) / static_cast<double>(best.size());
  }
  json spec =
      chart_spec("pages/heat", {{"rows", rows}, {"dark", "log(datum.step_s) > " + std::to_string(middle)}});
  return {
      "heat", "search", "Best step time by tensor and pipeline parallelism",
      "Each cell is the best layout with that tp and pp, of any dp, cp, ep and policy. Empty: none fits or "
      "none is "
      "legal.",
      spec};
}

Figure pareto(const std::vector<Spot>& spots) {
  json rows = json::array();
  for (const Spot& s : spots) {
    json row = row_of(s);
    const bool beaten = std::any_of(spots.begin(), spots.end(), [&](const Spot& o) {
      return o.seconds < s.seconds && o.bytes < s.bytes;
    });
    row["front"] = beaten ? "slower and larger than another" : "on the front";
    rows.push_back(std::move(row));
  }
  return {"pareto", "search", "Time against memory",
          "The best layout of each (dp, tp, cp, ep, pp); on the front no other is both faster and smaller.",
          chart_spec("pages/pareto", {{"rows", rows}})};
}

Figure scaling(const std::vector<perf::LayoutChoice>& curve) {
  json rows = json::array();
  for (const perf::LayoutChoice& c : curve) {
    const Known rate = c.samples_per_s();
    const double ideal = curve.front().samples_per_s().value * static_cast<double>(c.ranks()) /
                         static_cast<double>(curve.front().ranks());
    rows.push_back({{"gpus", c.ranks()},
                    {"rate", rate.value},
                    {"lower", rate.lower},
                    {"upper", rate.upper},
                    {"ideal", ideal},
                    {"layout", perf::layout_text(c.spec)}});
  }
  return {"scaling", "search", "Scaling at one global batch",
          "The best layout of each number of GPUs with its 80 % interval; dashed: what the first number "
          "would make "
          "of it without loss.",
          chart_spec("pages/scaling", {{"rows", rows}})};
}

Table spots_table(const std::vector<Spot>& spots) {
  Table t{.id = "layouts", .title = "The best layout of each (dp, tp, cp, ep, pp)"};
  for (const char* name : {"dp", "tp", "cp", "ep", "pp"}) t.columns.push_back(number_column(name));
  t.columns.insert(t.columns.end(), {number_column("step", "s"), number_column("memory", "GB"),
                                     number_column("probability of fit"), text_column("layout")});
  for (const Spot& s : spots)
    t.rows.push_back({integer(s.layout.dp), integer(s.layout.tp), integer(s.layout.cp), integer(s.layout.ep),
                      integer(s.layout.pp), significant(s.seconds, 3), significant(1e-9 * s.bytes, 3),
                      number(s.fits, 2), text(perf::text_of(s.layout))});
  return t;
}

// The layout, its speed, and the error to expect of both.
std::vector<Fact> facts_of(const perf::LayoutChoice& c) {
  const Known rate = c.samples_per_s();
  const auto off = [&](double end) { return printed("%+.0f", 100 * (end / c.step.value - 1)); };
  return {
      {perf::layout_text(c.spec), "best layout of " + std::to_string(c.ranks()) + " x " + c.machine.name},
      {isobar::rounded(rate) + " samples/s", "80 % interval " +
                                                 isobar::rounded(rate.lower, last_place(rate)) + " to " +
                                                 isobar::rounded(rate.upper, last_place(rate))},
      {off(c.step.lower) + " to " + off(c.step.upper) + " %", "expected error of its step, 8 times in 10"}};
}

std::string finish(const std::filesystem::path& out, const PageText& text, const std::vector<Figure>& figures,
                   const std::vector<Table>& tables, const json& data) {
  write_atomically(out / "search.json", json_text(data, 1) + "\n");
  return write_plain_page(out, text, figures, tables);
}

}  // namespace

std::string name_of_file(const RunSpec& spec) {
  return std::filesystem::path(spec.file).stem().string();
}

std::string write_search_page(const std::filesystem::path& out, const perf::Chooser& chooser,
                              const RunSpec& spec, const perf::LayoutQuestion& q,
                              std::vector<perf::NoAnswer>& none) {
  const int64_t gpus = q.gpus.front();
  const std::vector<Spot> spots = spots_of(chooser, spec, gpus, q);
  std::vector<int64_t> numbers = q.gpus;
  if (numbers.size() == 1)  // its neighbours
    for (const int64_t n : {gpus / 4, gpus / 2, gpus * 2, gpus * 4})
      if (n > 0) numbers.push_back(n);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<perf::LayoutChoice> curve;
  perf::LayoutQuestion one = q;
  one.top = 1;
  for (const int64_t n : numbers) try {
      curve.push_back(chooser.best(spec, n, one).front());
    } catch (const ConfigError& e) {  // missing on the page
      none.push_back(perf::no_answer(chooser.machine().name, n, e));
    }
  std::vector<perf::ComparedRow> rows;
  for (const perf::LayoutChoice& c : curve) rows.push_back({c.machine.name, c});
  json data = {{"machine", chooser.machine().name}, {"gpus", gpus}, {"given", q.keep.text()}};
  for (const Spot& s : spots) data["layouts"].push_back(row_of(s));
  data["scaling"] = to_json(compared_numbers(rows));
  Table table = compared_numbers(rows);
  table.id = "scaling", table.title = "Numbers of GPUs";
  std::vector<Figure> figures = {heat_map(spots), pareto(spots), scaling(curve)};
  for (Figure& f : figures) f.shown = true;
  const perf::LayoutChoice best = chooser.best(spec, gpus, one).front();
  return finish(out,
                {.title = name_of_file(spec) + " on " + std::to_string(gpus) + " x " + chooser.machine().name,
                 .facts = facts_of(best),
                 .sentences = {{.brief = "Its step is " + chooser.limit(best, q).text() + "."}}},
                figures, {spots_table(spots), table}, data);
}

std::string write_machines_page(const std::filesystem::path& out, const std::string& title,
                                const std::vector<perf::ComparedRow>& rows) {
  json bars = json::array();
  for (const perf::ComparedRow& r : rows) {
    const Known rate = r.choice.samples_per_s();
    bars.push_back({{"machine", r.name + ", " + std::to_string(r.choice.ranks())},
                    {"rate", rate.value},
                    {"lower", rate.lower},
                    {"upper", rate.upper},
                    {"layout", perf::layout_text(r.choice.spec)}});
  }
  const Figure figure{"machines", "machines", "Machines side by side",
                      "Samples a second of the best layout, or of the one given, with its 80 % interval.",
                      chart_spec("pages/machines", {{"rows", bars}})};
  Table numbers = compared_numbers(rows);
  Table shown = compared(rows);
  shown.id = "machines_rounded";
  const auto best = std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.choice.samples_per_s().value < b.choice.samples_per_s().value;
  });
  return finish(out, {.title = title, .facts = facts_of(best->choice)}, {figure}, {shown, numbers},
                to_json(numbers));
}

}  // namespace isobar::report
