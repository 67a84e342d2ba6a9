// Effect of single settings: throughput against one setting with all others fixed.
#include <string>
#include <vector>

#include "reports/figures/figures.h"

namespace isobar {
namespace {

using nlohmann::json;

struct VariedKey {
  const char *key, *field, *id, *title, *x, *caption;
  const char *with, *what;  // `with`: the setting's first value in words, "with 0 loader workers"
};

std::vector<Figure> curve(const ReportData& d, const VariedKey& s) {
  const std::vector<std::string> values = values_of(d, s.key);
  if (values.size() < 2) return {};
  const std::string first = precision_name(values[0]);
  const bool predicted = !d.predicted().empty();
  json spec = runs_spec();
  spec["height"] = 300;
  as_wide_as_its_places(spec, 120);
  json x = {{"field", s.field},
            {"type", "ordinal"},
            {"title", s.x},
            {"axis", {{"labelAngle", 0}}},
            {"scale", {{"padding", 0.3}}}};
  if (std::string(s.field) == "amp") x["sort"] = {"fp32", "tf32", "fp16", "bf16", "fp8"};
  const std::string gain = std::string("gain_") + s.field, predicted_gain = "predicted_" + gain;
  const auto share = [](const std::string& field) {
    json j = quantity(field, "rate");
    j["axis"] = {{"format", "%"}};
    j["scale"] = {{"zero", false}};
    return j;
  };
  const json y = share(gain);
  const auto median = [&](const std::string& field) {
    json j = share(field);
    j["aggregate"] = "median";
    return j;
  };
  const std::string line = std::string("line_") + s.field;
  const auto dash = [&](const char* word) {
    return json{{"datum", word},
                {"type", "nominal"},
                {"title", nullptr},
                {"legend", dash_legend()},
                {"scale",
                 {{"domain", {"measured, median of a layout", "predicted, median of a layout"}},
                  {"range", {{1, 0}, {6, 4}}}}}};
  };
  const json colour = layout_colour(d);
  spec["layer"] = {
      {{"mark", {{"type", "line"}, {"strokeWidth", 0.6}}},
       {"encoding", {{"x", x}, {"y", median(gain)}, {"color", colour}, {"detail", nominal(line)}}}},
      {{"mark", {{"type", "point"}, {"size", 34}}},
       {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"opacity", faded()}, {"tooltip", run_tips(d)}}}},
      {{"mark", {{"type", "line"}, {"strokeWidth", 3}}},
       {"encoding",
        {{"x", x},
         {"y", median(gain)},
         {"color", colour},
         {"strokeDash", dash("measured, median of a layout")}}}}};
  mark_per_run(spec, {1});
  if (predicted)
    spec["layer"].push_back({{"mark", {{"type", "line"}, {"strokeWidth", 2}}},
                             {"encoding",
                              {{"x", x},
                               {"y", median(predicted_gain)},
                               {"color", colour},
                               {"strokeDash", dash("predicted, median of a layout")}}}});
  return {{s.id, "Effect of the settings", s.title,
           std::string("100 % is the rate (") + title_of(d.statistic) + ") of the same run " + s.with +
               first + s.what +
               ". A thin line joins runs that differ in this setting alone; thick: the median of a layout" +
               (predicted ? ", dashed as predicted. " : ". ") + s.caption,
           spec}};
}

constexpr VariedKey kSettings[] = {
    {"data.workers", "workers", "loader-workers", "Loader workers", "loader workers",
     "Workers read and decode beside training; with 0 the training thread reads.", "with ",
     " loader workers"},
    {"policy.amp", "amp", "precision", "Precision (AMP)", "precision", "fp32: no mixed precision.", "in ",
     ""},
    {"policy.micro_batch", "micro_batch", "micro-batch", "Micro-batch", "samples per micro-batch", "",
     "with a micro-batch of ", ""}};

}  // namespace

std::vector<Figure> setting_figures(const ReportData& d) {
  std::vector<Figure> out;
  for (const VariedKey& s : kSettings)
    for (Figure& f : curve(d, s)) out.push_back(std::move(f));
  return out;
}

}  // namespace isobar
