#include "reports/style/palette.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "model/plan/ops/op_table.h"

namespace isobar::report::palette {
namespace {

using nlohmann::json;

// Hues of Paul Tol's "bright" and "muted", dark enough for marks on white (3:1); one colour a layout,
// repeating after 16.
constexpr std::array<const char*, 16> kQualitative = {
    "#4477AA", "#A19009", "#228833", "#AA3377", "#149CC0", "#EE6677", "#882255", "#09A18E",
    "#6E7B1F", "#332288", "#C0850E", "#117733", "#BB5566", "#5794D0", "#7A5C00", "#7D8FA9"};

const std::map<std::string, const char*>& named() {
  static const std::map<std::string, const char*> all = {
      // parts of a step (perfmodel/machine/coefficient.cpp, perfmodel/ask/predict.h)
      {"matrix products", "#0072B2"},
      {"attention", "#C0850E"},
      {"norms", "#009E73"},
      {"activations", "#4FA16A"},
      {"reductions", "#8A8F2A"},
      {"copies", "#8D6FC0"},
      {"loss", "#8A5A12"},
      {"optimizer", "#8C2D5F"},
      {"vector arithmetic", "#4F9E9A"},
      {"cache misses", "#5B5EA6"},
      {"op overhead", "#8A8C8E"},
      {"step overhead", "#76787A"},
      {"host launches", "#5F6163"},
      {"communication", "#CC79A7"},
      {"exposed communication", "#CC79A7"},
      {"communication, exposed", "#9E2F6E"},
      {"communication, hidden", "#CC79A7"},
      {"exposed TP communication", "#B65A90"},
      {"exposed CP communication", "#C57BA7"},
      {"exposed DP communication", "#9E3F78"},
      {"pipeline transfers", "#AE6F92"},
      {"stage boundaries", "#A9879A"},
      {"compute slowed by communication", "#7A3B5E"},
      {"pipeline bubble", "#8F8467"},
      {"waiting for the slowest rank", "#9D8D85"},
      {"data", "#149BD8"},
      {"reading data", "#149BD8"},
      {"waiting for loader threads", "#2D7CA4"},
      {"cores taken by loader threads", "#1B5E84"},
      {"other", "#929292"},
      // states of a lane
      {"compute", "#5F7387"},
      // categories of memory
      {"params", "#0072B2"},
      {"params16", "#4A9AC8"},
      {"grads", "#C0850E"},
      {"adam", "#8C2D5F"},
      {"io", "#149BD8"},
      {"constants", "#8A5A12"},
      {"saved", "#009E73"},
      {"scratch", "#8A8F2A"},
      {"host", "#8A8C8E"},
      {"loader", "#1B5E84"},
      {"replay", "#09A18E"},
      // precisions
      {"fp32", "#332288"},
      {"tf32", "#6991CD"},
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
      {"cannot tell", "#919294"},
      {"as fast", "#747678"},
      {"new", "#4477AA"},
      {"not run", "#919294"},
      // classes of failures
      {"ok, untimed", "#747678"},
      {"bad_config", "#5794D0"},
      {"oom_host", "#AA3377"},
      {"oom_device", "#882255"},
      {"timeout", "#A19009"},
      {"hang", "#6E7B1F"},
      {"crash", "#EE6677"},
      {"assertion", "#BB5566"},
      {"numeric", "#4477AA"},
      {"wrong_result", "#332288"},
      {"noisy", "#8B8B8B"},
      {"implausible", "#C0850E"},
      {"launch_fail", "#09A18E"},
      {"node_fail", "#117733"},
      {"preempted", "#149CC0"},
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

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& [name, colour] : named()) out.push_back(name);
  return out;
}

std::string class_of_op(const std::string& kind, const std::string& lane) {
  const auto op = plan::op_named(kind);
  if (lane == "data" || op == plan::OpKind::fetch) return "data";
  if (!op) return "other";
  switch (plan::info_of(*op).price) {
    case plan::PriceClass::product:
      return "matrix products";
    case plan::PriceClass::attention:
    case plan::PriceClass::attention_backward:
      return "attention";
    case plan::PriceClass::norm:
      return "norms";
    case plan::PriceClass::activation:
      return "activations";
    case plan::PriceClass::reduction:
      return "reductions";
    case plan::PriceClass::copy:
      return "copies";
    case plan::PriceClass::loss:
      return "loss";
    case plan::PriceClass::optimizer:
      return "optimizer";
    case plan::PriceClass::transfer:
      return "communication";
  }
  return "other";
}

json on_dark() {
  return {{kInk, "#e9eaeb"},      {kPaper, "#16181b"},    {kGrid, "#34373b"},     {kMuted, "#a3a6a9"},
          {"#332288", "#9d94e6"}, {"#882255", "#c25584"}, {"#8C2D5F", "#cf6f9f"}, {"#117733", "#3fa866"},
          {"#0072B2", "#3a9bd6"}, {"#7A3B5E", "#b9769a"}, {"#9E3F78", "#c9679f"}, {"#AA3377", "#d0619f"},
          {"#5F6163", "#8d9093"}, {"#C0850E", "#E69F00"}, {"#4FA16A", "#8CCF9F"}, {"#8A8F2A", "#B8A35A"},
          {"#8A5A12", "#A6761D"}, {"#76787A", "#A9ABAD"}, {"#9E2F6E", "#d76aa8"}, {"#CC79A7", "#E9C3D8"},
          {"#C57BA7", "#DB9BC0"}, {"#AE6F92", "#E2AFCB"}, {"#A9879A", "#C9A9BA"}, {"#8F8467", "#E3D3A8"},
          {"#9D8D85", "#B5A7A0"}, {"#149BD8", "#56B4E9"}, {"#2D7CA4", "#8FCDF1"}, {"#1B5E84", "#3f9bd0"},
          {"#929292", "#BBBBBB"}, {"#4A9AC8", "#6FAFD6"}, {"#09A18E", "#44AA99"}, {"#6991CD", "#88AADD"},
          {"#919294", "#C3C5C7"}, {"#747678", "#9A9C9E"}, {"#5794D0", "#77AADD"}, {"#A19009", "#CCBB44"},
          {"#8B8B8B", "#BBBBBB"}, {"#149CC0", "#66CCEE"}, {"#6E7B1F", "#999933"}, {"#7A5C00", "#b8952f"}};
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

json set_scale(const std::vector<std::string>& sets) {
  return scale(sets, [](size_t i) {
    return i == 0 ? kMuted : i == 1 ? "#0072B2" : kQualitative[(i + 1) % kQualitative.size()];
  });
}

json run_scale(const std::vector<std::string>& labels) {
  return scale(labels, [](size_t i) { return kQualitative[i % kQualitative.size()]; });
}

}  // namespace isobar::report::palette
