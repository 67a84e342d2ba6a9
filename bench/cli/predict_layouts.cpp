#include "bench/cli/predict_layouts.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/cli/rates_text.h"
#include "bench/cli/step_text.h"
#include "bench/cli/unanswered.h"
#include "model/base/error.h"
#include "perfmodel/layout_predict.h"
#include "perfmodel/search.h"
#include "perfmodel/smallest_change.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr const char* kWhose = "Isobar's own engine (--engine prices others')";
constexpr int kDoesNotFit = 4;  // the exit code of out of memory

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

json json_of(const LayoutCandidate& c) {
  json j = {{"layout", json_of(c.layout)},
            {"step_s", c.cost.seconds},
            {"memory_total_bytes", std::llround(c.cost.memory)}};
  if (c.arena > 0) j["arena_bytes"] = c.arena;
  return j;
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

struct Point {
  int64_t gpus;
  double step_s;
  std::string layout;
};

void print_curve(const std::vector<Point>& curve) {
  std::printf("  %8s %10s %9s %10s  %s\n", "GPUs", "step s", "speedup", "efficiency", "layout");
  for (const Point& p : curve) {
    const double speedup = curve[0].step_s / p.step_s;
    std::printf("  %8ld %10.3f %9.2f %9.1f%%  %s\n", p.gpus, p.step_s, speedup,
                100 * speedup * static_cast<double>(curve[0].gpus) / static_cast<double>(p.gpus),
                p.layout.c_str());
  }
}

json json_of(const Bill& b) {
  return {{"hours", b.hours}, {"gpu_hours", b.gpu_hours}, {"price", b.price}, {"kwh", b.kwh}};
}

json json_of(const std::optional<SmallestChange>& c) {
  if (!c) return nullptr;
  return {
      {"set", c->set}, {"step_s", c->prediction.step_s}, {"memory_total_bytes", c->prediction.memory_total}};
}

void print_change(const std::optional<SmallestChange>& c) {
  if (!c) {
    std::printf("no change of three keys of layout and policy fits, on up to 4,096 times as many ranks\n");
    return;
  }
  std::printf("smallest change that fits:");
  for (const std::string& one : c->set) std::printf(" --set %s", one.c_str());
  const TimeUnit u = unit_of(c->prediction.step_s);
  std::printf("  (%.4g %s a step, %.3g GB a rank; fewest keys, of those the fastest)\n",
              u.per_second * c->prediction.step_s, u.name,
              1e-9 * static_cast<double>(c->prediction.memory_total));
}

// The configuration's own layout
void one_run(const RunSpec& given, const Machine& m, const LayoutQuestion& q, const PredictOptions& options) {
  const MicroBatchChoice micro_batch = choose_micro_batch(given, m, options);
  const RunSpec& spec = micro_batch.spec;
  const Prediction p = predict(spec, m, options);
  const Layout l = layout_of(spec);
  const Bill bill = bill_of(spec, m, q, p.step_s, l.world());
  std::optional<SmallestChange> change;
  if (!p.fits()) change = smallest_change(spec, m, options);
  if (q.json) {
    json j = json_of(p, spec, m);
    j["layout"] = json_of(l);
    j["micro_batch_chosen"] = micro_batch.chosen;  // the largest that fits; else it was given
    if (!p.fits()) j["smallest_change"] = json_of(change);
    if (q.rates) j["rates"] = rates_json(p.counts, m);
    if (has_budget(q)) j["budget"] = json_of(bill);
    std::printf("%s\n", j.dump(1).c_str());
  } else {
    if (!p.fits()) {
      std::printf("does not fit: %s\n", shortfall(p).c_str());
      print_change(change);
      std::printf("\n");
    }
    std::printf("%s on %s: %ld rank%s", spec.file.c_str(), m.name.empty() ? m.file.c_str() : m.name.c_str(),
                l.world(), l.world() == 1 ? "" : "s");
    if (p.device == Device::cores)
      std::printf(" x %ld thread%s", p.where.threads, p.where.threads == 1 ? "" : "s");
    std::printf("\n%s\n%s\n\n", kWhose, text_of(l).c_str());
    print_prediction(p, spec, m);
    if (micro_batch.chosen) std::printf("note: %s\n", micro_batch.text().c_str());
    if (q.rates) print_rates(p.counts, m);
    if (has_budget(q)) print_bill(bill, m);
  }
  if (!p.fits()) throw CLI::RuntimeError(kDoesNotFit);
}

}  // namespace

void answer(const RunSpec& given, const Machine& m, const LayoutQuestion& q, const PredictOptions& options) {
  if (q.gpus.empty()) return one_run(given, m, q, options);
  json out = json::array();
  std::vector<Point> curve;
  SearchSpace space = q.space == "1d" ? SearchSpace::one_d() : SearchSpace{};
  space.keep = q.keep;
  Unanswered unanswered(m.name, q.json);
  for (const int64_t gpus : q.gpus) {
    RunSpec spec = given;
    spec.layout = {.dp = gpus};
    spec.policy.micro_batch = 0;
    SearchResult r;
    try {
      r = search(spec, m, {.top = q.top, .pareto = q.pareto, .space = space});
    } catch (const ConfigError& e) {
      unanswered.say(gpus, e, out);
      continue;
    }
    const LayoutCandidate& best = r.best.front();
    LayoutModel model(spec, m);
    const Prediction p = predict_layout(model, best.layout);
    const RunSpec found = with_layout(spec, best.layout);
    const std::vector<Turn> changes = turns(spec, m, r.best);
    const Bill bill = bill_of(spec, m, q, p.step_s, gpus);
    curve.push_back({gpus, p.step_s, text_of(best.layout)});
    if (q.json) {
      json j = json_of(p, found, m);
      j["layout"] = json_of(best.layout);
      j["gpus"] = gpus;
      j["given"] = q.keep.text();
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
      if (has_budget(q)) j["budget"] = json_of(bill);
      out.push_back(std::move(j));
      continue;
    }
    std::printf("%s on %ld x %s, global batch %ld\n%s\n", spec.file.c_str(), gpus, m.name.c_str(),
                spec.train.global_batch, kWhose);
    if (!q.keep.all().empty()) std::printf("given %s; the rest is searched\n", q.keep.text().c_str());
    std::printf(
        "%ld layouts considered in %.3f s (%.2f million/s), %ld do not fit, %ld priced one by one\n\n",
        r.considered, r.seconds, 1e-6 * static_cast<double>(r.considered) / r.seconds, r.too_large, r.priced);
    std::printf("best: %s\n\n", text_of(best.layout).c_str());
    print_prediction(p, found, m);
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
  } else if (curve.size() > 1) {
    print_curve(curve);
  }
  unanswered.end();
}

}  // namespace isobar
