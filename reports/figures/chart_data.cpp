#include "reports/figures/chart_data.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <tuple>

#include "model/base/text/printed.h"
#include "reports/style/units.h"

namespace isobar::report {
namespace {

using nlohmann::json;

constexpr size_t kTerms = 8;  // as many as there are colours to tell apart

// Names of the terms of all predictions, those with the largest share of step time first; terms beyond kTerms
// are summed as "other".
std::vector<std::string> terms_by_weight(const ReportData& d) {
  std::map<std::string, double> sums;
  for (const ReportRun* r : d.predicted())
    for (const auto& [name, seconds] : r->prediction->terms) sums[name] += seconds / r->prediction->step_s;
  std::vector<std::pair<double, std::string>> order;
  order.reserve(sums.size());
  for (const auto& [name, sum] : sums) order.emplace_back(-sum, name);
  std::sort(order.begin(), order.end());
  std::vector<std::string> out;
  out.reserve(order.size());
  for (auto& [weight, name] : order) out.push_back(std::move(name));
  return out;
}

double memory_of(const ReportRun& r) {  // bytes of one rank
  return static_cast<double>(r.run.peak_rss_bytes > 0 ? r.run.peak_rss_bytes : r.run.arena_bytes);
}

// The Pareto front of time, memory and cost within each set. After sorting by time, only an earlier run can
// beat a later one.
std::set<const ReportRun*> front_of(std::vector<const ReportRun*> runs, const ReportData& d) {
  const auto cost = [](const ReportRun* r) { return static_cast<double>(r->run.ranks) / r->rate(); };
  std::stable_sort(runs.begin(), runs.end(), [&](const ReportRun* a, const ReportRun* b) {
    return std::tuple(-a->rate(), cost(a), memory_of(*a)) < std::tuple(-b->rate(), cost(b), memory_of(*b));
  });
  std::set<const ReportRun*> out;
  for (const std::string& set : d.sets) {
    std::vector<const ReportRun*> front;
    for (const ReportRun* r : runs) {
      if (r->set != set || !(r->rate() > 0)) continue;
      const bool beaten = std::any_of(front.begin(), front.end(), [&](const ReportRun* f) {
        return memory_of(*f) <= memory_of(*r) && cost(f) <= cost(r);
      });
      if (!beaten) front.push_back(r);
    }
    out.insert(front.begin(), front.end());
  }
  return out;
}

double capacity_of(const ReportData& d) {  // MB a rank
  if (!d.predictor) return 0;
  const perf::Machine& m = *d.predictor;
  int64_t ranks = 1;
  for (const ReportRun* r : d.ok()) ranks = std::max(ranks, r->run.ranks_on_host);
  return perf::memory_of_rank(m, ranks) * kMB;
}

// Effect of a setting on one run. `line` groups runs that agree in all other settings; `gain` and `predicted`
// are rates relative to the mean of the group's runs with the setting's first value, contended ones excluded
// unless all are. NaN: no such run.
struct Effect {
  std::string line;
  double gain = NAN, predicted = NAN;
};

std::map<const ReportRun*, Effect> effects_of(const ReportData& d, const std::string& key) {
  const std::vector<std::string> values = values_of(d, key);
  std::map<std::string, std::vector<const ReportRun*>> lines;
  for (const ReportRun* r : d.ok()) {
    std::string others = r->set;
    for (const auto& [k, v] : r->axes)
      if (k != key) others.append(1, '\n').append(k).append(1, '=').append(v);
    lines[others].push_back(r);
  }
  std::map<const ReportRun*, Effect> out;
  int number = 0;
  for (const auto& [others, runs] : lines) {
    const auto with_first_value = [&](bool contended) {
      std::vector<const ReportRun*> out;
      for (const ReportRun* r : runs)
        if (const auto it = r->axes.find(key); r->run.contention.marked() == contended && !values.empty() &&
                                               it != r->axes.end() && it->second == values[0])
          out.push_back(r);
      return out;
    };
    std::vector<const ReportRun*> first = with_first_value(false);
    if (first.empty()) first = with_first_value(true);  // all runs with the first value are contended
    double base = 0, predicted = 0, count = 0, predictions = 0;  // sums over `first`
    for (const ReportRun* r : first) {
      base += r->measured(), ++count;
      if (r->prediction) predicted += r->prediction->step_s, ++predictions;
    }
    for (const ReportRun* r : runs)
      out[r] = {std::to_string(number), count > 0 ? base / count / r->measured() : NAN,
                r->prediction && predictions > 0 ? predicted / predictions / r->prediction->step_s : NAN};
    ++number;
  }
  return out;
}

}  // namespace

std::vector<std::string> values_of(const ReportData& d, const std::string& key) {
  std::set<std::string> values;
  for (const ReportRun* r : d.ok())
    if (const auto it = r->axes.find(key); it != r->axes.end()) values.insert(it->second);
  std::vector<std::string> out(values.begin(), values.end());
  const std::vector<std::string> words = {"none", "fp32", "tf32", "fp16", "bf16", "fp8"};
  const auto place = [&](const std::string& v) {
    const auto word = std::find(words.begin(), words.end(), v);
    return word != words.end() ? static_cast<double>(word - words.begin()) : std::strtod(v.c_str(), nullptr);
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
  return out;
}

json rounded(double v) {
  if (!std::isfinite(v)) return nullptr;
  const std::string s = printed("%.6g", v);
  return std::strtod(s.c_str(), nullptr);
}

ChartData chart_data(const ReportData& d) {
  ChartData out;
  const std::vector<std::string> terms = terms_by_weight(d);
  for (size_t i = 0; i < std::min(terms.size(), kTerms); ++i)
    out.terms.push_back({"t" + std::to_string(i), terms[i]});
  if (terms.size() > kTerms) out.terms.push_back({"t" + std::to_string(kTerms), "other"});
  std::map<std::string, size_t> term_place, memory_place;
  for (size_t i = 0; i < terms.size(); ++i) term_place[terms[i]] = std::min(i, kTerms);
  for (const ReportRun* r : d.ok())
    for (const auto& [kind, bytes] : r->run.memory_by_category)
      if (bytes > 0) memory_place.emplace(kind, 0);
  for (auto& [kind, place] : memory_place) {
    place = out.memory.size();
    out.memory.push_back({"m" + std::to_string(place), kind});
  }
  const bool priced = d.predictor && d.predictor->accelerator && d.predictor->accelerator->price_per_hour > 0;
  const double price = priced ? d.predictor->accelerator->price_per_hour / 3600 : 1;  // a rank and second
  const double per = priced ? 1e6 : 1e3;                                              // samples
  out.cost_title =
      priced ? d.predictor->accelerator->currency + " per million samples" : "rank-seconds per 1,000 samples";
  out.capacity_mb = capacity_of(d);

  const std::set<const ReportRun*> front = front_of(d.ok(), d);
  const std::pair<const char*, std::map<const ReportRun*, Effect>> effects[] = {
      {"workers", effects_of(d, "data.workers")},
      {"amp", effects_of(d, "policy.amp")},
      {"micro_batch", effects_of(d, "policy.micro_batch")}};
  for (const ReportRun* r : d.ok()) {
    const auto batch = static_cast<double>(r->run.spec.train.global_batch);
    const double rate = r->rate();
    json j = {{"id", r->run.id},
              {"run", r->label},
              {"layout", r->layout},
              {"ranks", r->run.ranks},
              {"amp", precision_name(r->run.spec.policy.amp)},
              {"micro_batch", r->run.spec.micro_batch()},
              {"workers", r->run.spec.data.workers},
              {"batch", r->run.spec.train.global_batch},
              {"rate", rounded(rate)},
              {"measured", rounded(r->measured() * kMs)},
              {"measured_low", rounded(r->measured_lower() * kMs)},
              {"measured_high", rounded(r->measured_upper() * kMs)},
              {"steady", r->run.contention.marked() ? "contended" : "undisturbed"},
              {"p10", rounded(r->run.step_s.p10 * kMs)},
              {"p90", rounded(r->run.step_s.p90 * kMs)},
              {"sample_ms", rounded(kMs / rate)},
              {"cost", rounded(static_cast<double>(r->run.ranks) * price * per / rate)},
              {"front", front.count(r) ? "on the front" : "beaten"}};
    for (const auto& [field, effect] : effects) {
      const Effect& e = effect.at(r);
      j[std::string("line_") + field] = e.line;
      if (std::isfinite(e.gain)) j[std::string("gain_") + field] = rounded(e.gain);
      if (std::isfinite(e.predicted)) j[std::string("predicted_gain_") + field] = rounded(e.predicted);
    }
    if (d.sets.size() > 1) j["set"] = r->set;
    if (r->run.step_s.p90 > 0) j["rate_low"] = rounded(batch / r->run.step_s.p90);
    if (r->run.step_s.p10 > 0) j["rate_high"] = rounded(batch / r->run.step_s.p10);
    if (memory_of(*r) > 0) j["memory"] = rounded(memory_of(*r) * kMB);
    if (r->run.peak_rss_bytes > 0) j["rss"] = rounded(static_cast<double>(r->run.peak_rss_bytes) * kMB);
    for (const auto& [kind, bytes] : r->run.memory_by_category)
      if (bytes > 0) j[out.memory[memory_place[kind]].field] = rounded(static_cast<double>(bytes) * kMB);
    if (const auto& p = r->prediction) {
      j["predicted"] = rounded(p->step_s * kMs);
      j["low"] = rounded(p->lower * kMs);
      j["high"] = rounded(p->upper * kMs);
      j["error"] = rounded(r->error());
      j["was"] = p->in_fit ? "in the fit" : "held out";
      j["predicted_rate"] = rounded(batch / p->step_s);
      if (p->memory_total > 0) j["predicted_rss"] = rounded(static_cast<double>(p->memory_total) * kMB);
      std::map<size_t, double> parts;
      for (const auto& [name, seconds] : p->terms) parts[term_place[name]] += seconds;
      for (const auto& [place, seconds] : parts) j[out.terms[place].field] = rounded(seconds * kMs);
    }
    for (size_t i = 0; i < d.facets.size(); ++i)
      j["f" + std::to_string(i)] = facet_value(*r, d.facets[i].key);
    for (const auto& [field, value] : j.items()) out.fields.insert(field);
    out.rows.push_back(std::move(j));
  }
  return out;
}

json columns_of(const json& rows) {
  json out = json::object();
  for (size_t i = 0; i < rows.size(); ++i)
    for (const auto& [field, value] : rows[i].items()) {
      json& column = out[field];
      if (column.is_null()) column = json::array();
      while (column.size() < i) column.push_back(nullptr);
      column.push_back(value);
    }
  for (auto& [field, column] : out.items())
    while (column.size() < rows.size()) column.push_back(nullptr);
  return out;
}

json fields_used(const ChartData& s, const json& spec) {
  const std::string text = spec.dump(-1, ' ', false, json::error_handler_t::replace);
  std::vector<std::string> used;
  for (const std::string& field : s.fields)
    if (text.find("\"" + field + "\"") != std::string::npos ||
        text.find("datum." + field) != std::string::npos)
      used.push_back(field);
  json out = json::array();
  for (const json& row : s.rows) {
    json kept = json::object();
    for (const std::string& field : used)
      if (const auto it = row.find(field); it != row.end()) kept[field] = *it;
    out.push_back(std::move(kept));
  }
  return out;
}

}  // namespace isobar::report
