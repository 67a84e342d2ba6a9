#include "reports/figures/chart_file.h"

#include <set>

#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/base/text/json_fault.h"
#include "model/base/text/yaml.h"
#include "perfmodel/machine/shipped.h"
#include "reports/style/palette.h"

namespace isobar::report {
namespace {

using nlohmann::json;

const Fills& colours_of_charts() {
  static const Fills all = {{"ink", palette::kInk},
                            {"paper", palette::kPaper},
                            {"grid", palette::kGrid},
                            {"muted", palette::kMuted},
                            {"predicted_colour", palette::kPredicted},
                            {"fitted_colour", palette::kFitted},
                            // of fields that palette.h does not name
                            {"categories", palette::run_scale(std::vector<std::string>(12))["range"]}};
  return all;
}

class Filling {
 public:
  Filling(const json& chart, const std::string& file, const Fills& fills)
      : file_(file), fills_(fills), defined_(chart.value("$define", json::object())) {}

  json of(const json& part) {
    if (part.is_string() && part.get_ref<const std::string&>().starts_with('$'))
      return named(part.get_ref<const std::string&>().substr(1));
    if (!part.is_structured()) return part;
    json out = part.is_array() ? json::array() : json::object();
    for (const auto& [key, value] : part.items()) {
      if (key == "$if" || key == "$define") continue;
      json inside = of(value);  // of what is left out too, whose names are checked as well
      if (inside.is_discarded()) continue;
      if (part.is_array())
        out.push_back(std::move(inside));
      else
        out[key] = std::move(inside);
    }
    const auto condition = part.find("$if");
    return part.is_array() || condition == part.end() || named(*condition) == true ? out : kLeftOut;
  }

  void check_all_used() const {
    for (const auto& [name, value] : fills_) {
      if (!used_.contains(name)) fail(name, "is supplied, but the chart does not use it");
      if (defined_.contains(name)) fail(name, "is supplied, but the chart defines it too");
    }
  }

 private:
  json named(const std::string& name) {
    used_.insert(name);
    if (const auto it = fills_.find(name); it != fills_.end()) return it->second;  // data: not filled again
    if (const auto it = colours_of_charts().find(name); it != colours_of_charts().end()) return it->second;
    if (!defined_.contains(name)) fail(name, "is neither supplied nor defined");
    const json definition = defined_[name];
    defined_.erase(name);  // so that it cannot contain itself
    json out = of(definition);
    defined_[name] = definition;
    return out;
  }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    throw ConfigError(file_, "$" + name, what, "use the names of the figure's code (reports/figures)");
  }

  const std::string& file_;
  const Fills& fills_;
  json defined_;
  std::set<std::string> used_;
};

std::string file_of_chart(const std::string& name) {
  return perf::shipped("reports/figures/specs/" + name + ".vl.json");
}

json read_chart(const std::string& file) {
  json out = read_json(file);
  if (!out.is_object())
    throw ConfigError(file, "", json_fault(read_file(file)), "write one Vega-Lite specification");
  return out;
}

}  // namespace

json filled(const json& chart, const std::string& file, const Fills& fills) {
  Filling filling(chart, file, fills);
  json out = filling.of(chart);
  filling.check_all_used();
  return out;
}

json chart_spec(const std::string& name, const Fills& fills) {
  const std::string file = file_of_chart(name);
  json whole = read_chart(file_of_chart("base"));
  merge_into(whole, read_chart(file));
  return filled(whole, file, fills);
}

}  // namespace isobar::report
