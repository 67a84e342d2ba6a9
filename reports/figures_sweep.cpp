// What the swept settings do: throughput along one setting with all others held, throughput by layout, and
// memory.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "reports/figures.h"

namespace isobar {
namespace {

using nlohmann::json;

std::string layout_of(const RunSpec& s) {
  std::string out = "dp" + std::to_string(s.layout.dp);
  const auto add = [&](const char* name, int64_t n) {
    if (n > 1) out += std::string(" ") + name + std::to_string(n);
  };
  add("tp", s.layout.tp);
  add("cp", s.layout.cp);
  add("pp", s.layout.pp);
  add("vpp", s.layout.vpp);
  return out;
}

std::string others_of(const ReportRun& r, const std::string& key) {
  std::string out;
  for (const auto& [k, v] : r.axes)
    if (k != key) out += (out.empty() ? "" : " ") + k.substr(k.find_last_of('.') + 1) + "=" + v;
  return out.empty() ? "all runs" : out;
}

double middle(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

// Samples/s against one setting; runs that agree in all others are a line, repetitions its median.
std::vector<Figure> curve(const ReportData& d, const std::string& key, const std::string& id,
                          const std::string& title, const std::string& x_title, const std::string& caption) {
  std::map<std::string, std::map<std::string, std::vector<const ReportRun*>>>
      lines;  // others -> value -> runs
  std::set<std::string> values;
  for (const ReportRun* r : d.ok()) {
    const auto it = r->axes.find(key);
    if (it == r->axes.end()) continue;
    lines[others_of(*r, key)][it->second].push_back(r);
    values.insert(it->second);
  }
  if (values.size() < 2) return {};
  std::vector<std::string> sorted(values.begin(), values.end());
  const bool numeric = std::all_of(sorted.begin(), sorted.end(), [](const std::string& s) {
    char* end = nullptr;
    (void)std::strtod(s.c_str(), &end);
    return !s.empty() && *end == '\0';
  });
  if (numeric)
    std::sort(sorted.begin(), sorted.end(), [](const std::string& a, const std::string& b) {
      return std::strtod(a.c_str(), nullptr) < std::strtod(b.c_str(), nullptr);
    });
  else if (values.count("none"))  // what is switched off comes first
    std::stable_partition(sorted.begin(), sorted.end(), [](const std::string& s) { return s == "none"; });
  json rows = json::array();
  bool predicted = false;
  for (const auto& [others, points] : lines)
    for (const auto& [value, runs] : points) {
      std::vector<double> rate, guess;
      for (const ReportRun* r : runs) {
        rate.push_back(r->run.samples_per_s);
        if (r->prediction)
          guess.push_back(static_cast<double>(r->run.spec.train.global_batch) / r->prediction->step_s);
      }
      json row = {{"value", value}, {"others", others}, {"rate", middle(rate)}, {"runs", runs.size()}};
      rows.push_back(row);
      rows.back()["what"] = "measured";
      if (guess.empty()) continue;
      predicted = true;
      row["rate"] = middle(guess);
      row["what"] = "predicted";
      rows.push_back(row);
    }
  json spec = base_spec(rows);
  spec["height"] = 320;
  const bool few = lines.size() <= 8;
  json colour = {{"field", "others"}, {"type", "nominal"}, {"title", nullptr}};
  if (!few) {
    colour["legend"] = nullptr;
    colour["scale"] = {{"scheme", "tableau20"}};
  } else {
    colour["legend"] = {{"columns", 2}, {"symbolType", "stroke"}};
  }
  const json x = {{"field", "value"}, {"type", "ordinal"},           {"sort", sorted},
                  {"title", x_title}, {"axis", {{"labelAngle", 0}}}, {"scale", {{"padding", 0.3}}}};
  const json y = {
      {"field", "rate"}, {"type", "quantitative"}, {"title", "samples/s"}, {"scale", {{"zero", true}}}};
  json dash = {{"field", "what"},
               {"type", "nominal"},
               {"title", nullptr},
               {"scale", {{"domain", {"measured", "predicted"}}, {"range", {{1, 0}, {4, 4}}}}}};
  dash["legend"] = predicted ? dash_legend() : json();
  const json tips = {tip("others", "run"), tip("value", x_title), tip("what", "rate is"),
                     tip("rate", "samples/s", ".4~g"), tip("runs", "runs", "d")};
  spec["layer"] = json::array();
  spec["layer"].push_back({{"mark", {{"type", "line"}, {"strokeWidth", 2}}},
                           {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"strokeDash", dash}}}});
  spec["layer"].push_back(points_of(x, y, "others", "what", 55, 1, tips));
  return {{id, title,
           caption + (predicted ? " Solid: measured; dashed: predicted." : "") +
               (few ? "" : " Hover over a line to read which runs it is."),
           spec}};
}

Figure throughput(const ReportData& d) {
  json rows = json::array();
  for (const ReportRun* r : d.ok()) {
    json j = {{"layout", layout_of(r->run.spec)},
              {"ranks", r->run.ranks},
              {"amp", r->run.spec.policy.amp == "none" ? "fp32" : r->run.spec.policy.amp},
              {"run", r->label},
              {"id", r->run.id},
              {"rate", r->run.samples_per_s}};
    if (r->prediction)
      j["predicted"] = static_cast<double>(r->run.spec.train.global_batch) / r->prediction->step_s;
    rows.push_back(j);
  }
  const json y = {{"field", "layout"}, {"type", "nominal"}, {"title", "layout"}};
  json tips = {tip("run", "run"), tip("layout", "layout"), tip("amp", "precision"),
               tip("rate", "samples/s", ".4~g")};
  if (!d.predicted().empty()) tips.push_back(tip("predicted", "predicted samples/s", ".4~g"));
  tips.push_back(tip("id", "id"));
  json spec = base_spec(rows);
  spec["height"] = {{"step", 46}};
  const json amp = {{"field", "amp"}, {"type", "nominal"}, {"title", nullptr}};
  spec["mark"] = {{"type", "point"}, {"filled", true}, {"size", 75}, {"opacity", 0.75}};
  spec["encoding"] = {
      {"y", y},
      {"yOffset", amp},
      {"x",
       {{"field", "rate"}, {"type", "quantitative"}, {"title", "samples/s"}, {"scale", {{"zero", true}}}}},
      {"color", amp},
      {"shape", amp},
      {"tooltip", tips}};
  return {"throughput-by-layout", "Throughput by layout",
          "One point per run, over all other settings. Further right is faster.", spec};
}

std::vector<Figure> memory(const ReportData& d) {
  json rows = json::array(), totals = json::array();
  bool predicted = false;
  for (const ReportRun* r : d.ok()) {
    if (r->run.memory_by_category.empty()) continue;
    for (const auto& [kind, bytes] : r->run.memory_by_category) {
      if (bytes <= 0) continue;
      rows.push_back(
          {{"run", r->label}, {"id", r->run.id}, {"kind", kind}, {"mb", static_cast<double>(bytes) * 1e-6}});
    }
    const auto total = [&](const char* what, int64_t bytes) {
      if (bytes > 0)
        totals.push_back({{"run", r->label},
                          {"id", r->run.id},
                          {"what", what},
                          {"mb", static_cast<double>(bytes) * 1e-6}});
    };
    total("measured RSS", r->run.peak_rss_bytes);
    predicted = predicted || (r->prediction && r->prediction->memory_total > 0);
    if (r->prediction) total("predicted RSS", r->prediction->memory_total);
  }
  if (rows.empty()) return {};
  json words = {"measured RSS"};
  if (predicted) words.push_back("predicted RSS");
  const json y = {{"field", "run"}, {"type", "nominal"}, {"title", nullptr}};
  json spec = base_spec(rows);
  spec["height"] = {{"step", 19}};
  spec["resolve"] = {{"scale", {{"color", "independent"}, {"shape", "independent"}}}};
  json bars = {
      {"mark", {{"type", "bar"}, {"height", {{"band", 0.75}}}}},
      {"encoding",
       {{"y", y},
        {"x", {{"field", "mb"}, {"type", "quantitative"}, {"stack", "zero"}, {"title", "MB of one rank"}}},
        {"color", {{"field", "kind"}, {"type", "nominal"}, {"title", nullptr}, {"legend", {{"columns", 3}}}}},
        {"tooltip",
         {tip("run", "run"), tip("kind", "category"), tip("mb", "MB", ".4~g"), tip("id", "id")}}}}};
  json marks = {
      {"data", {{"values", totals}}},
      {"mark", {{"type", "point"}, {"filled", true}, {"size", 55}, {"opacity", 0.9}}},
      {"encoding",
       {{"y", y},
        {"x", {{"field", "mb"}, {"type", "quantitative"}}},
        {"shape",
         {{"field", "what"},
          {"type", "nominal"},
          {"title", nullptr},
          {"scale", {{"domain", words}, {"range", {"circle", "diamond"}}}}}},
        {"color",
         {{"field", "what"},
          {"type", "nominal"},
          {"title", nullptr},
          {"scale", {{"domain", words}, {"range", {"black", "#D55E00"}}}}}},
        {"tooltip", {tip("run", "run"), tip("what", "memory"), tip("mb", "MB", ".4~g"), tip("id", "id")}}}}};
  spec["layer"] = json::array({bars});
  if (!totals.empty()) spec["layer"].push_back(marks);
  return {
      {"memory", "Memory of one rank",
       "Bars: what the plan places, by category. Points: peak resident memory of the process, which besides "
       "holds the program, its libraries and the data loader.",
       spec}};
}

}  // namespace

std::vector<Figure> sweep_figures(const ReportData& d) {
  std::vector<Figure> out;
  if (!d.ok().empty()) out.push_back(throughput(d));
  struct Axis {
    const char *key, *id, *title, *x, *caption;
  };
  for (const Axis& a :
       {Axis{"data.workers", "loader-workers", "Throughput against loader workers", "loader workers",
             "Workers read and decode beside training; with 0 the training thread reads."},
        Axis{"policy.amp", "precision", "Throughput against precision", "precision (AMP)",
             "none is fp32 throughout."},
        Axis{"policy.micro_batch", "micro-batch", "Throughput against micro-batch", "samples per micro-batch",
             "0 is the whole batch of a rank at once."}})
    for (Figure& f : curve(d, a.key, a.id, a.title, a.x, a.caption)) out.push_back(std::move(f));
  for (Figure& f : memory(d)) out.push_back(std::move(f));
  return out;
}

}  // namespace isobar
