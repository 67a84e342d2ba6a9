#include "reports/style/palette.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "model/plan/op_table.h"

namespace isobar::palette {
namespace {

using nlohmann::json;

// Paul Tol's "bright" and "muted", then the darker half of his "light"; one colour a layout, repeating after
// 16.
constexpr std::array<const char*, 16> kQualitative = {
    "#4477AA", "#CCBB44", "#228833", "#AA3377", "#66CCEE", "#EE6677", "#882255", "#44AA99",
    "#999933", "#332288", "#DDAA33", "#117733", "#BB5566", "#77AADD", "#AAAA00", "#99DDFF"};

const std::map<std::string, const char*>& named() {
  static const std::map<std::string, const char*> all = {
      // parts of a step (perfmodel/machine/coefficient.cpp, perfmodel/ask/term.h)
      {"matrix products", "#0072B2"},
      {"attention", "#E69F00"},
      {"norms", "#009E73"},
      {"activations", "#8CCF9F"},
      {"reductions", "#B8A35A"},
      {"copies", "#8D6FC0"},
      {"loss", "#A6761D"},
      {"optimizer", "#8C2D5F"},
      {"vector arithmetic", "#4F9E9A"},
      {"cache misses", "#5B5EA6"},
      {"op overhead", "#8A8C8E"},
      {"step overhead", "#A9ABAD"},
      {"host launches", "#5F6163"},
      {"communication", "#CC79A7"},
      {"exposed communication", "#CC79A7"},
      {"communication, exposed", "#CC79A7"},
      {"communication, hidden", "#E9C3D8"},
      {"exposed TP communication", "#B65A90"},
      {"exposed CP communication", "#DB9BC0"},
      {"exposed DP communication", "#9E3F78"},
      {"pipeline transfers", "#E2AFCB"},
      {"stage boundaries", "#C9A9BA"},
      {"compute slowed by communication", "#7A3B5E"},
      {"pipeline bubble", "#E3D3A8"},
      {"waiting for the slowest rank", "#B5A7A0"},
      {"data", "#56B4E9"},
      {"reading data", "#56B4E9"},
      {"waiting for loader threads", "#8FCDF1"},
      {"cores taken by loader threads", "#2F86B8"},
      {"other", "#BBBBBB"},
      // states of a lane
      {"compute", "#5F7387"},
      {"idle", "#D4D6D8"},
      // categories of memory
      {"params", "#0072B2"},
      {"params16", "#6FAFD6"},
      {"grads", "#E69F00"},
      {"adam", "#8C2D5F"},
      {"io", "#56B4E9"},
      {"constants", "#A6761D"},
      {"saved", "#009E73"},
      {"scratch", "#B8A35A"},
      {"host", "#8A8C8E"},
      {"loader", "#2F86B8"},
      {"replay", "#44AA99"},
      // precisions
      {"fp32", "#332288"},
      {"tf32", "#88AADD"},
      {"fp16", "#117733"},
      {"bf16", "#999933"},
      {"fp8", "#AA4499"},
      // measured and predicted
      {"measured", kMeasured},
      {"measured (peak RSS)", kMeasured},
      {"predicted", kPredicted},
      {"held out", kPredicted},
      {"in the fit", kFitted},
      // verdicts
      {"faster", "#228833"},
      {"slower", "#BB5566"},
      {"cannot tell", "#C3C5C7"},
      {"as fast", "#9A9C9E"},
      {"new", "#4477AA"},
      {"not run", "#C3C5C7"},
      // classes of failures
      {"ok, untimed", "#9A9C9E"},
      {"bad_config", "#77AADD"},
      {"oom_host", "#AA3377"},
      {"oom_device", "#882255"},
      {"timeout", "#CCBB44"},
      {"hang", "#999933"},
      {"crash", "#EE6677"},
      {"assertion", "#BB5566"},
      {"numeric", "#4477AA"},
      {"wrong_result", "#332288"},
      {"noisy", "#BBBBBB"},
      {"implausible", "#DDAA33"},
      {"launch_fail", "#44AA99"},
      {"node_fail", "#117733"},
      {"preempted", "#66CCEE"},
      {"interrupted", "#6E7072"}};
  return all;
}

json scale(const std::vector<std::string>& names, auto&& colour) {
  json range = json::array();
  for (size_t i = 0; i < names.size(); ++i) range.push_back(colour(i));
  return {{"domain", names}, {"range", std::move(range)}};
}

}  // namespace

std::string colour_of(const std::string& name) {
  const auto it = named().find(name);
  return it == named().end() ? named().at("other") : it->second;
}

std::string class_of_op(const std::string& kind, const std::string& lane) {
  const auto op = op_named(kind);
  if (lane == "data" || op == OpKind::fetch) return "data";
  if (!op) return "other";
  switch (info_of(*op).price) {
    case PriceClass::product:
      return "matrix products";
    case PriceClass::attention:
    case PriceClass::attention_backward:
      return "attention";
    case PriceClass::norm:
      return "norms";
    case PriceClass::activation:
      return "activations";
    case PriceClass::reduction:
      return "reductions";
    case PriceClass::copy:
      return "copies";
    case PriceClass::loss:
      return "loss";
    case PriceClass::optimizer:
      return "optimizer";
    case PriceClass::transfer:
      return "communication";
  }
  return "other";
}

json on_dark() {
  return {{kInk, "#e9eaeb"},      {kPaper, "#16181b"},    {kGrid, "#34373b"},     {kMuted, "#a3a6a9"},
          {"#332288", "#9d94e6"}, {"#882255", "#c25584"}, {"#8C2D5F", "#cf6f9f"}, {"#117733", "#3fa866"},
          {"#0072B2", "#3a9bd6"}, {"#7A3B5E", "#b9769a"}, {"#9E3F78", "#c9679f"}, {"#AA3377", "#d0619f"},
          {"#5F6163", "#8d9093"}, {"#D4D6D8", "#4a4e53"}};
}

json scale_of(const std::vector<std::string>& names) {
  return scale(names, [&](size_t i) { return colour_of(names[i]); });
}

std::vector<std::string> layouts(const ReportData& d) {
  std::set<std::string> seen;
  for (const ReportRun& r : d.runs) seen.insert(r.layout);
  return {seen.begin(), seen.end()};
}

json layout_scale(const ReportData& d) {
  return run_scale(layouts(d));
}

std::vector<std::string> precisions(const ReportData& d) {
  std::vector<std::string> out;
  for (const char* mode : {"fp32", "tf32", "fp16", "bf16", "fp8"})
    if (std::any_of(d.runs.begin(), d.runs.end(),
                    [&](const ReportRun& r) { return precision_name(r.run.spec.policy.amp) == mode; }))
      out.emplace_back(mode);
  return out;
}

json precision_shapes(const ReportData& d) {
  static const std::map<std::string, const char*> shapes = {{"fp32", "square"},
                                                            {"tf32", "triangle-down"},
                                                            {"fp16", "triangle-up"},
                                                            {"bf16", "circle"},
                                                            {"fp8", "cross"}};
  const std::vector<std::string> names = precisions(d);
  return scale(names, [&](size_t i) { return shapes.at(names[i]); });
}

json run_scale(const std::vector<std::string>& labels) {
  return scale(labels, [](size_t i) { return kQualitative[i % kQualitative.size()]; });
}

}  // namespace isobar::palette
