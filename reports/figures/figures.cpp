#include "reports/figures/figures.h"

#include <algorithm>

#include "reports/style/palette.h"

namespace isobar::report {

using nlohmann::json;

Fills together(Fills a, Fills b) {
  a.merge(b);
  return a;
}

Fills run_fills(const ReportData& d, const std::string& cost_title) {
  return {{"rate_title", std::string("samples/s, ") + title_of(d.statistic)},
          {"step_title", std::string("step [ms], ") + title_of(d.statistic)},
          {"predicted", !d.predicted().empty()},
          {"contended", !d.contended().empty()},
          {"with_cost", !cost_title.empty()},
          {"cost_title", cost_title}};
}

Fills layout_fills(const ReportData& d) {
  return {{"layouts", palette::layout_scale(d)}, {"columns", legend_columns(palette::layouts(d))}};
}

size_t legend_columns(const std::vector<std::string>& names, size_t axis_letters) {
  // Pixels of a wide letter, a legend symbol, a drawing (render.py) and the widest axis (base.vl.json)
  constexpr double kLetter = 7.3, kSymbol = 26, kDrawing = 740, kAxis = 360;
  const double room = kDrawing - std::min(kAxis, kLetter * static_cast<double>(axis_letters));
  size_t columns = 5;
  for (; columns > 1; --columns) {
    std::vector<size_t> longest(columns);
    for (size_t i = 0; i < names.size(); ++i)
      longest[i % columns] = std::max(longest[i % columns], names[i].size());
    double width = 0;
    for (const size_t letters : longest) width += kSymbol + kLetter * static_cast<double>(letters);
    if (width <= room) break;
  }
  return columns;
}

std::vector<std::string> classes_in(const json& rows) {
  std::vector<std::string> classes;
  for (const json& row : rows)
    if (std::find(classes.begin(), classes.end(), row["class"]) == classes.end())
      classes.push_back(row["class"].get<std::string>());
  return classes;
}

Fills parts_of(const ChartData& s, const std::vector<NamedField>& parts) {
  json keys = json::array(), names = json::object(), places = json::object();
  std::vector<std::string> words;
  for (const NamedField& part : parts) {
    places[part.field] = words.size();
    names[part.field] = part.name;
    keys.push_back(part.field);
    words.push_back(part.name);
  }
  size_t letters = 0;
  for (const json& row : s.rows) letters = std::max(letters, row["run"].get_ref<const std::string&>().size());
  const auto text = [](const json& j) { return j.dump(-1, ' ', true, json::error_handler_t::replace); };
  return {{"keys", keys},
          {"name_of_key", text(names) + "[datum.key]"},
          {"place_of_key", text(places) + "[datum.key]"},
          {"colours", palette::scale_of(words)},
          {"columns", legend_columns(words, letters)}};
}

std::string literal(const std::string& s) {
  return json(s).dump(-1, ' ', true, json::error_handler_t::replace);
}

std::vector<Figure> figures(const ReportData& d, const ChartData& s, std::vector<std::string>& problems) {
  std::vector<Figure> out;
  const auto take = [&](std::vector<Figure> more) {
    for (Figure& f : more) out.push_back(std::move(f));
  };
  take(comparison_figures(d));
  take(speed_figures(d, s));
  take(setting_figures(d));
  take(prediction_figures(d, s));
  take(op_figures(d));
  take(timeline_figures(d, problems));
  take(memory_figures(d, s));
  take(training_figures(d));
  take(failure_figures(d));
  // The second screen: two figures beside each other
  const bool lanes = std::any_of(out.begin(), out.end(), [](const Figure& f) { return f.id == "timeline"; });
  const std::vector<std::string> second =
      d.sets.size() > 1 ? std::vector<std::string>{"comparison", "throughput-by-layout"}
                        : std::vector<std::string>{"predicted-measured", lanes ? "timeline" : "residuals"};
  for (Figure& f : out) f.shown = std::find(second.begin(), second.end(), f.id) != second.end();
  return out;
}

json self_contained(const Figure& f, const ChartData& s) {
  json spec = f.spec;
  if (f.of_runs()) spec["datasets"] = {{"runs", fields_used(s, f.spec)}};
  return spec;
}

}  // namespace isobar::report
