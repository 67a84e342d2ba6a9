#include "bench/cli/predict_layouts.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/cli/choice.h"
#include "bench/cli/offloaded.h"
#include "bench/cli/rates_text.h"
#include "bench/cli/schedule.h"
#include "bench/cli/step_text.h"
#include "bench/cli/unanswered.h"
#include "model/base/error.h"
#include "model/base/json.h"
#include "model/nets/memory_ladder.h"
#include "perfmodel/layout_predict.h"
#include "perfmodel/search.h"
#include "perfmodel/smallest_change.h"
#include "perfmodel/ties.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr const char* kWhose = "for Isobar's own engine (--engine NAME predicts another)";
constexpr size_t kVariants = 24;  // of a search's layouts, among which ties are looked for
constexpr size_t kTelling = 2;    // runs that are named
constexpr int kDoesNotFit = 4;    // the exit code of out of memory

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

// By the placed plan where there is one, else by the closed form.
double bytes_of(const LayoutCandidate& c) {
  return c.arena > 0 ? static_cast<double>(c.arena) + c.cost.process + c.cost.nccl : c.cost.memory;
}

json json_of(const LayoutCandidate& c) {
  json j = {{"layout", json_of(c.layout)},
            {"step_s", c.cost.seconds},
            {"memory_total_bytes", std::llround(bytes_of(c))},
            {"chance_to_fit", c.fits}};
  if (c.arena > 0) j["arena_bytes"] = c.arena;
  return j;
}

void print_candidates(const char* title, const std::vector<LayoutCandidate>& list, size_t most) {
  std::printf("\n  %-10s %8s %9s %6s  %s\n", title, "step s", "memory GB", "fits", "layout");
  for (size_t i = 0; i < std::min(most, list.size()); ++i) {
    const LayoutCandidate& c = list[i];
    std::printf("  %-10zu %8.3g %9.3g %4.0f %%  %s\n", i + 1, c.cost.seconds, 1e-9 * bytes_of(c),
                100 * c.fits, text_of(c.layout).c_str());
  }
}

void print_ties(const Ties& t, const std::vector<LayoutCandidate>& all) {
  std::printf(
      "\n  with a probability of 80 %% the fastest is one of these %zu; expected regret of the first: %.2g "
      "%%\n",
      t.members.size(), 100 * t.loss);
  for (const Ties::Member& m : t.members)
    std::printf("    %3.0f %%  %8.3g s  %s\n", 100 * m.chance, all[m.index].cost.seconds,
                text_of(all[m.index].layout).c_str());
  if (t.members.size() < 2) return;
  std::printf("  most informative runs:\n");
  for (const size_t i : t.telling) std::printf("    %s\n", text_of(all[i].layout).c_str());
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
    std::printf("  %8ld %10.3g %9.2g %9.0f%%  %s\n", p.gpus, p.step_s, speedup,
                100 * speedup * static_cast<double>(curve[0].gpus) / static_cast<double>(p.gpus),
                p.layout.c_str());
  }
}

json json_of(const std::optional<SmallestChange>& c) {
  if (!c) return nullptr;
  return {
      {"set", c->set}, {"step_s", c->prediction.step.value}, {"memory_total_bytes", c->prediction.memory_total}};
}

void print_change(const std::optional<SmallestChange>& c) {
  if (!c) {
    std::printf("no change of up to three layout and policy keys fits, even on 4,096 times as many ranks\n");
    return;
  }
  std::printf("smallest change that fits:");
  for (const std::string& one : c->set) std::printf(" --set %s", one.c_str());
  const TimeUnit u = unit_of(c->prediction.step.value);
  std::printf("  (%.4g %s a step, %.3g GB a rank; changes the fewest keys, then the fastest)\n",
              u.per_second * c->prediction.step.value, u.name,
              1e-9 * static_cast<double>(c->prediction.memory_total));
}

std::vector<MemoryRung> ladder_of(const RunSpec& spec, const Prediction& p, const PredictOptions& options) {
  if (p.device == Device::cores)
    return memory_ladder(spec, options.workspace ? options.workspace(p.where.threads) : Workspace{});
  return memory_ladder(spec, options.device_workspace ? options.device_workspace() : Workspace{});
}

json json_of(const std::vector<MemoryRung>& ladder) {
  json out = json::array();
  for (const MemoryRung& r : ladder) out.push_back({{"set", r.set}, {"saves_bytes", r.saves}});
  return out;
}

// Answers for the configuration's own layout.
void one_run(const RunSpec& given, const Machine& m, const LayoutQuestion& q, const PredictOptions& options) {
  const MicroBatchChoice micro_batch = choose_micro_batch(given, m, options);
  const RunSpec& spec = micro_batch.spec;
  const Prediction p = predict(spec, m, options);
  const Layout l = layout_of(spec);
  std::optional<SmallestChange> change;
  std::vector<MemoryRung> ladder;
  if (!p.fits()) change = smallest_change(spec, m, options), ladder = ladder_of(spec, p, options);
  if (q.json) {
    json j = json_of(p, spec, m);
    j["layout"] = json_of(l);
    j["micro_batch_chosen"] = micro_batch.chosen;  // the largest that fits; else given
    if (!p.fits()) j["smallest_change"] = json_of(change), j["memory_ladder"] = json_of(ladder);
    if (q.rates) j["rates"] = rates_json(p.counts, m);
    if (has_training(q)) j["budget"] = json_of(training_of(choice_of(spec, p, m, options), q));
    std::printf("%s\n", json_text(j, 1).c_str());
  } else {
    if (!p.fits()) {
      std::printf("does not fit: %s\n", shortfall(p).c_str());
      print_change(change);
      if (!ladder.empty()) std::printf("single changes, for each rank: %s\n", to_text(ladder).c_str());
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
    if (has_training(q))
      std::printf("\n  %s\n", text_of(training_of(choice_of(spec, p, m, options), q), m).c_str());
  }
  if (!p.fits()) throw CLI::RuntimeError(kDoesNotFit);
}

}  // namespace

SearchSpace space_of(const LayoutQuestion& q) {
  SearchSpace space = q.space == "1d" ? SearchSpace::one_d() : SearchSpace{};
  space.keep = q.keep;
  return space;
}

void answer(const RunSpec& given, const Machine& m, const LayoutQuestion& q, const PredictOptions& options) {
  if (q.gpus.empty()) return one_run(given, m, q, options);
  json out = json::array();
  std::vector<Point> curve;
  Unanswered unanswered(q.json);
  for (const int64_t gpus : q.gpus) {
    RunSpec spec = given;
    spec.layout = {.dp = gpus};
    spec.policy.micro_batch = 0;
    SearchResult r;
    try {
      r = search(spec, m, {.top = q.top, .variants = kVariants, .pareto = q.pareto, .space = space_of(q)});
    } catch (const ConfigError& e) {
      unanswered.say(m.name, gpus, e, out);
      continue;
    }
    const LayoutCandidate& best = r.best.front();
    LayoutModel model(spec, m);
    const Prediction p = predict_layout(model, best.layout);
    const RunSpec found = with_layout(spec, best.layout);
    const std::vector<Turn> changes = turns(spec, m, r.best);
    const Ties tied = ties(model, r.variants, kTelling);
    curve.push_back({gpus, p.step.value, text_of(best.layout)});
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
      for (const Ties::Member& one : tied.members) {
        json t = json_of(r.variants[one.index]);
        t["chance"] = one.chance;
        j["ties"].push_back(std::move(t));
      }
      j["expected_loss"] = tied.loss;
      for (const size_t i : tied.telling) j["telling"].push_back(json_of(r.variants[i]));
      for (const LayoutCandidate& c : r.pareto) j["pareto"].push_back(json_of(c));
      if (q.offload) j["offloaded"] = to_json(offloaded(spec, m, space_of(q)));
      for (const Turn& t : changes)
        j["would_change"].push_back({{"quantity", t.quantity},
                                     {"factor", t.factor},
                                     {"layout", json_of(t.layout)},
                                     {"step_s", t.seconds}});
      if (has_training(q)) j["budget"] = json_of(training_of(choice_of(found, p, m, options), q));
      out.push_back(std::move(j));
      continue;
    }
    std::printf("%s on %ld x %s, global batch %ld\n%s\n", spec.file.c_str(), gpus, m.name.c_str(),
                spec.train.global_batch, kWhose);
    if (!q.keep.all().empty()) std::printf("constraints of the search: %s\n", q.keep.text().c_str());
    std::printf(
        "%ld layouts considered in %.3f s (%.2f million/s), %ld do not fit in memory, %ld priced "
        "individually\n\n",
        r.considered, r.seconds, 1e-6 * static_cast<double>(r.considered) / r.seconds, r.too_large, r.priced);
    std::printf("best: %s\n\n", text_of(best.layout).c_str());
    print_prediction(p, found, m);
    print_candidates("best", r.best, q.top);
    print_ties(tied, r.variants);
    if (q.pareto) print_candidates("pareto", r.pareto, 40);
    if (q.offload) std::fputs(to_text(offloaded(spec, m, space_of(q))).c_str(), stdout);
    std::printf("\n  changes of the machine that would make another layout the fastest\n");
    for (const Turn& t : changes)
      std::printf("    %-10s x %-6.3g %8.3g s  %s\n", t.quantity.c_str(), t.factor, t.seconds,
                  text_of(t.layout).c_str());
    if (changes.empty()) std::printf("    none: no single quantity changed by up to a factor of 16\n");
    if (has_training(q))
      std::printf("\n  %s\n", text_of(training_of(choice_of(found, p, m, options), q), m).c_str());
    std::printf("\n");
  }
  if (q.json) {
    std::printf("%s\n", json_text((out.size() == 1 ? out[0] : out), 1).c_str());
  } else if (curve.size() > 1) {
    print_curve(curve);
  }
  unanswered.end();
}

}  // namespace isobar
