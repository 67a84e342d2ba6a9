#include "bench/cli/predict_layouts.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/cli/rates_text.h"
#include "bench/cli/step_text.h"
#include "model/base/error.h"
#include "perfmodel/layout_predict.h"
#include "perfmodel/search.h"

namespace isobar {
namespace {

using nlohmann::json;

// What a training of so many samples takes.
struct Bill {
  double hours = 0, gpu_hours = 0, price = 0, kwh = 0;
};

Bill bill_of(const RunSpec& s, const Machine& m, const LayoutQuestion& q, double step_s, int64_t gpus) {
  const double samples = q.samples > 0 ? q.samples : q.tokens / static_cast<double>(s.net.tokens());
  Bill b;
  b.hours = samples / static_cast<double>(s.train.global_batch) * step_s / 3600;
  b.gpu_hours = b.hours * static_cast<double>(gpus);
  if (m.accelerator) {
    b.price = b.gpu_hours * m.accelerator->price_per_hour;
    b.kwh = b.gpu_hours * m.accelerator->power_w / 1000;
  }
  return b;
}

bool has_budget(const LayoutQuestion& q) {
  return q.tokens > 0 || q.samples > 0;
}

json json_of(const Layout& l) {
  return {{"dp", l.dp},
          {"tp", l.tp},
          {"cp", l.cp},
          {"pp", l.pp},
          {"vpp", l.vpp},
          {"order", rank_orders()[l.order]},
          {"micro_batch", l.micro_batch},
          {"schedule", with_layout({}, l).policy.schedule},
          {"zero", l.zero},
          {"sequence_parallel", l.sequence_parallel},
          {"recompute", kRecompute[l.recompute]},
          {"cp_kind", kCpKinds[l.cp_kind]}};
}

StepText text_of(const LayoutPrediction& p) {
  return {p.step_s,     p.lower, p.upper,      p.cost.ceiling, p.samples_per_s,
          p.correction, p.terms, p.checkpoint, p.warnings};
}

json json_of(const LayoutPrediction& p, const Layout& l) {
  json memory = json::object();
  for (const auto& [name, bytes] : p.memory) memory[name] = std::llround(bytes);
  json j = json_of(text_of(p));
  j.update({{"layout", json_of(l)},
            {"tokens_per_s", p.tokens_per_s},
            {"flops", p.flops},
            {"memory_bytes", memory},
            {"memory_total_bytes", std::llround(p.memory_total)}});
  return j;
}

json json_of(const LayoutCandidate& c) {
  json j = {{"layout", json_of(c.layout)},
            {"step_s", c.cost.seconds},
            {"memory_total_bytes", std::llround(c.cost.memory)}};
  if (c.arena > 0) j["arena_bytes"] = c.arena;
  return j;
}

void print_terms(const LayoutPrediction& p, const RunSpec& spec, const Machine& m, int64_t gpus) {
  print_step(text_of(p));
  const TimeUnit u = unit_of(p.step_s);
  std::printf(
      "  %.5g samples/s, %.5g tokens/s; %.4g TFLOP/s an accelerator; the peaks would allow %.3f %s\n\n",
      p.samples_per_s, p.tokens_per_s, 1e-12 * p.flops / p.step_s / static_cast<double>(gpus),
      u.per_second * p.cost.ceiling, u.name);
  std::printf("  %-34s %12s\n", "memory of the fullest rank", "GB");
  for (const auto& [name, bytes] : p.memory) std::printf("  %-34s %12.2f\n", name.c_str(), 1e-9 * bytes);
  std::printf("  %-34s %12.2f", "together", 1e-9 * p.memory_total);
  if (m.accelerator) std::printf("         of %.2f", 1e-9 * static_cast<double>(m.accelerator->memory_bytes));
  std::printf("\n");
  std::printf("\n  %s\n", text_of(p.checkpoint, spec, p.step_s).c_str());
  for (const std::string& w : p.warnings) std::printf("note: %s\n", w.c_str());
}

void print_candidates(const char* title, const std::vector<LayoutCandidate>& list, size_t most) {
  std::printf("\n  %-10s %8s %9s  %s\n", title, "step s", "memory GB", "layout");
  for (size_t i = 0; i < std::min(most, list.size()); ++i)
    std::printf("  %-10zu %8.3f %9.1f  %s\n", i + 1, list[i].cost.seconds, 1e-9 * list[i].cost.memory,
                text_of(list[i].layout).c_str());
}

void print_bill(const Bill& b, const Machine& m) {
  std::printf("\n  the whole training: %.2f days, %.4g GPU-hours", b.hours / 24, b.gpu_hours);
  if (b.price > 0) std::printf(", %.4g %s", b.price, m.accelerator->currency.c_str());
  if (b.kwh > 0) std::printf(", %.4g kWh (accelerators at full power)", b.kwh);
  std::printf("\n");
}

void one_layout(const RunSpec& spec, const Machine& m, const LayoutQuestion& q) {
  const LayoutPrediction p = predict_layout(spec, m);
  const Layout l = layout_of(spec);
  const Bill bill = bill_of(spec, m, q, p.step_s, l.world());
  if (q.json) {
    json j = json_of(p, l);
    j["machine"] = m.name;
    if (q.rates) j["rates"] = rates_json(p.counts, m);
    if (has_budget(q))
      j["budget"] = {
          {"hours", bill.hours}, {"gpu_hours", bill.gpu_hours}, {"price", bill.price}, {"kwh", bill.kwh}};
    std::printf("%s\n", j.dump(1).c_str());
    return;
  }
  std::printf("%s on %ld x %s\n%s\n\n", spec.file.c_str(), l.world(), m.name.c_str(), text_of(l).c_str());
  print_terms(p, spec, m, l.world());
  if (q.rates) print_rates(p.counts, m);
  if (m.accelerator && p.memory_total > static_cast<double>(m.accelerator->memory_bytes))
    std::printf("note: does not fit\n");
  if (has_budget(q)) print_bill(bill, m);
}

}  // namespace

void answer(const RunSpec& given, const Machine& m, const LayoutQuestion& q) {
  if (q.gpus.empty()) return one_layout(given, m, q);
  json out = json::array();
  struct Point {
    int64_t gpus;
    double step_s;
    Bill bill;
    std::string layout;
  };
  std::vector<Point> curve;
  for (const int64_t gpus : q.gpus) {
    RunSpec spec = given;
    spec.layout = {.dp = gpus};
    spec.policy.micro_batch = 0;
    const SearchResult r = search(
        spec, m,
        {.top = q.top, .pareto = q.pareto, .space = q.space == "1d" ? SearchSpace::one_d() : SearchSpace{}});
    const LayoutCandidate& best = r.best.front();
    LayoutModel model(spec, m);
    const LayoutPrediction p = predict_layout(model, best.layout);
    const std::vector<Turn> changes = turns(spec, m, r.best);
    const Bill bill = bill_of(spec, m, q, p.step_s, gpus);
    curve.push_back({gpus, p.step_s, bill, text_of(best.layout)});
    if (q.json) {
      json j = json_of(p, best.layout);
      j["gpus"] = gpus;
      j["machine"] = m.name;
      j["considered"] = r.considered;
      j["priced"] = r.priced;
      j["out_of_memory"] = r.too_large;
      j["search_s"] = r.seconds;
      for (size_t i = 0; i < std::min(q.top, r.best.size()); ++i) j["best"].push_back(json_of(r.best[i]));
      for (const LayoutCandidate& c : r.pareto) j["pareto"].push_back(json_of(c));
      for (const Turn& t : changes)
        j["would_change"].push_back({{"quantity", t.quantity},
                                     {"factor", t.factor},
                                     {"layout", json_of(t.layout)},
                                     {"step_s", t.seconds}});
      if (has_budget(q))
        j["budget"] = {
            {"hours", bill.hours}, {"gpu_hours", bill.gpu_hours}, {"price", bill.price}, {"kwh", bill.kwh}};
      out.push_back(std::move(j));
      continue;
    }
    std::printf("%s on %ld x %s, global batch %ld\n", spec.file.c_str(), gpus, m.name.c_str(),
                spec.train.global_batch);
    std::printf(
        "%ld layouts considered in %.3f s (%.2f million/s), %ld do not fit, %ld priced one by one\n\n",
        r.considered, r.seconds, 1e-6 * static_cast<double>(r.considered) / r.seconds, r.too_large, r.priced);
    std::printf("best: %s\n\n", text_of(best.layout).c_str());
    print_terms(p, spec, m, gpus);
    print_candidates("next best", r.best, q.top);
    if (q.pareto) print_candidates("pareto", r.pareto, 40);
    std::printf("\n  another layout would win with\n");
    for (const Turn& t : changes)
      std::printf("    %-10s x %-6.3g %8.3f s  %s\n", t.quantity.c_str(), t.factor, t.seconds,
                  text_of(t.layout).c_str());
    if (changes.empty()) std::printf("    no change of any one quantity by up to a factor of 16\n");
    if (has_budget(q)) print_bill(bill, m);
    std::printf("\n");
  }
  if (q.json) {
    std::printf("%s\n", (out.size() == 1 ? out[0] : out).dump(1).c_str());
    return;
  }
  if (curve.size() < 2) return;
  std::printf("  %8s %10s %9s %10s  %s\n", "GPUs", "step s", "speedup", "efficiency", "layout");
  for (const Point& p : curve) {
    const double speedup = curve[0].step_s / p.step_s;
    std::printf("  %8ld %10.3f %9.2f %9.1f%%  %s\n", p.gpus, p.step_s, speedup,
                100 * speedup * static_cast<double>(curve[0].gpus) / static_cast<double>(p.gpus),
                p.layout.c_str());
  }
}

}  // namespace isobar
