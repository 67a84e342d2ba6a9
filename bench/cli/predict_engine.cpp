#include "bench/cli/predict_engine.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/cli/choice.h"
#include "bench/cli/schedule.h"
#include "bench/cli/step_text.h"
#include "bench/cli/unanswered.h"
#include "model/base/error.h"
#include "model/base/json.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr int kTooLarge = 4;

json json_of(const EngineOn& on, const Machine& m, const EngineLayout& l) {
  const EngineAnswer& a = l.answer;
  const double samples = static_cast<double>(l.spec.train.global_batch);
  return {{"engine", on.name()},
          {"tuned", on.tuned()},
          {"own_runs", on.own_runs()},
          {"machine", m.name},
          {"ranks", l.spec.layout.world()},
          {"layout", text_of(layout_of(l.spec))},
          {"step_s", a.step.value},
          {"lower_s", a.step.lower},
          {"upper_s", a.step.upper},
          {"samples_per_s", samples / a.step.value},
          {"tokens_per_s", samples * static_cast<double>(l.spec.net.tokens()) / a.step.value},
          {"memory_total_bytes", std::llround(a.memory.value)},
          {"memory_lower_bytes", std::llround(a.memory.lower)},
          {"memory_upper_bytes", std::llround(a.memory.upper)},
          {"memory_there_bytes", std::llround(on.memory())},
          {"fits", a.memory.value <= on.memory()},
          {"chance_to_fit", l.fits}};
}

void print_one(const EngineOn& on, const Machine& m, const EngineLayout& l, bool chosen) {
  const auto& [spec, a, fits] = l;
  const double samples = static_cast<double>(spec.train.global_batch);
  const TimeUnit u = unit_of(a.step.value);
  const Interval step = a.step, memory = a.memory.scaled(1e-9);
  std::printf("%s on %s: %ld rank%s\n", spec.file.c_str(), m.name.c_str(), spec.layout.world(),
              spec.layout.world() == 1 ? "" : "s");
  on.print_origin();
  std::printf("%s\n\n", text_of(layout_of(spec)).c_str());
  std::printf("  step %s %s, 80 %% interval\n", with_interval(step.scaled(u.per_second)).c_str(), u.name);
  std::printf("  %s samples/s, %s tokens/s\n", with_interval(step.inverse(samples)).c_str(),
              rounded(step.inverse(samples * static_cast<double>(spec.net.tokens()))).c_str());
  std::printf("  memory %s GB of %.3g; probability that it fits: %.0f %%\n", with_interval(memory).c_str(),
              1e-9 * on.memory(), 100 * fits);
  if (a.memory.value > on.memory()) std::printf("note: it probably does not fit\n");
  if (chosen)
    std::printf("note: policy.micro_batch %ld, the largest that fits by this prediction\n",
                spec.policy.micro_batch);
}

void print_change(const std::optional<EngineOn::Change>& c) {
  if (!c) {
    std::printf("no change of one key fits, even on 4,096 times as many accelerators\n");
    return;
  }
  const TimeUnit u = unit_of(c->layout.answer.step.value);
  std::printf("smallest change that fits: --set %s  (%s %s a step, %s GB a rank, %ld accelerators)\n",
              c->set.front().c_str(), rounded(c->layout.answer.step.scaled(u.per_second)).c_str(),
              u.name, rounded(c->layout.answer.memory.scaled(1e-9)).c_str(),
              c->layout.spec.layout.world());
}

void one_layout(const RunSpec& given, const EngineOn& on, const Machine& m, const LayoutQuestion& q) {
  const EngineLayout l = on.own(given);
  std::optional<EngineOn::Change> change;
  const bool large = l.answer.memory.value > on.memory();
  if (large) change = on.smallest_change(l.spec);
  if (q.json) {
    json j = json_of(on, m, l);
    if (change) j["smallest_change"] = {{"set", change->set}, {"step_s", change->layout.answer.step.value}};
    if (has_training(q)) j["budget"] = json_of(training_of(choice_of(l, on, m), q));
    std::printf("%s\n", json_text(j, 1).c_str());
  } else {
    print_one(on, m, l, given.policy.micro_batch == 0);
    if (large) print_change(change);
    if (has_training(q)) std::printf("\n  %s\n", text_of(training_of(choice_of(l, on, m), q), m).c_str());
  }
  // Memory of other engines is known only to a factor: only a certain excess ends with the exit code.
  if (l.answer.memory.lower > on.memory()) {
    std::fprintf(stderr, "isobar: does not fit: a rank needs %.3g GB or more of %.3g\n",
                 1e-9 * l.answer.memory.lower, 1e-9 * on.memory());
    throw CLI::RuntimeError(kTooLarge);
  }
}

void print_ranked(const std::vector<EngineLayout>& ranked, size_t shown, double memory) {
  std::printf("  %-26s %-22s %6s  %s\n", "step s", "memory GB", "fits", "layout");
  for (size_t i = 0; i < shown; ++i)
    std::printf("  %-26s %-22s %4.0f %%  %s\n", with_interval(ranked[i].answer.step).c_str(),
                with_interval(ranked[i].answer.memory.scaled(1e-9)).c_str(), 100 * ranked[i].fits,
                text_of(layout_of(ranked[i].spec)).c_str());
  std::printf(
      "  (80 %% intervals; fits: probability of fitting into %.3g GB; ranked by step time / probability)\n\n",
      1e-9 * memory);
}

/// The best layouts that cannot be distinguished within their uncertainty.
Ties ties_of(const EngineOn& on, const std::vector<EngineLayout>& ranked) {
  constexpr size_t kVariants = 24;
  return on.ties(
      {ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(std::min(kVariants, ranked.size()))});
}

void print_ties(const Ties& t, const std::vector<EngineLayout>& ranked) {
  std::printf(
      "  with a probability of 80 %% the fastest is one of these %zu; expected regret of the first: %.2g "
      "%%\n",
      t.members.size(), 100 * t.loss);
  for (const Ties::Member& m : t.members)
    std::printf("    %3.0f %%  %s\n", 100 * m.chance, text_of(layout_of(ranked[m.index].spec)).c_str());
  if (t.members.size() > 1) std::printf("  most informative runs: the first two\n");
  std::printf("\n");
}

void best_layouts(const RunSpec& given, const EngineOn& on, const Machine& m, const LayoutQuestion& q) {
  json out = json::array();
  Unanswered unanswered(q.json);
  for (const int64_t gpus : q.gpus) {
    SearchResult found;
    std::vector<EngineLayout> ranked;
    try {
      ranked = on.best(searched(given, gpus), q, found);
    } catch (const ConfigError& e) {
      unanswered.say(m.name, gpus, e, out);
      continue;
    }
    const size_t shown = std::min(q.top, ranked.size());
    if (q.json) {
      json j = json_of(on, m, ranked[0]);
      j["gpus"] = gpus;
      j["given"] = q.keep.text();
      j["considered"] = found.considered;
      j["repriced"] = found.best.size();
      if (has_training(q)) j["budget"] = json_of(training_of(choice_of(ranked[0], on, m), q));
      for (size_t i = 0; i < shown; ++i) j["best"].push_back(json_of(on, m, ranked[i]));
      const Ties t = ties_of(on, ranked);
      j["ties"] = {{"expected_loss", t.loss}, {"members", json::array()}};
      for (const Ties::Member& one : t.members)
        j["ties"]["members"].push_back(
            {{"layout", text_of(layout_of(ranked[one.index].spec))}, {"chance", one.chance}});
      out.push_back(std::move(j));
      continue;
    }
    std::printf("%s on %ld x %s, global batch %ld\n", given.file.c_str(), gpus, m.name.c_str(),
                given.train.global_batch);
    on.print_origin();
    if (!q.keep.all().empty()) std::printf("constraints of the search: %s\n", q.keep.text().c_str());
    std::printf(
        "%ld layouts searched for Isobar's own engine; the best of each of %zu (dp, tp, cp, pp) "
        "predicted for %s\n\n",
        found.considered, found.best.size(), on.name().c_str());
    print_ranked(ranked, shown, on.memory());
    print_ties(ties_of(on, ranked), ranked);
    if (has_training(q))
      std::printf("  %s\n\n", text_of(training_of(choice_of(ranked[0], on, m), q), m).c_str());
  }
  if (q.json) std::printf("%s\n", json_text((out.size() == 1 ? out[0] : out), 1).c_str());
  unanswered.end();
}

}  // namespace

void answer(const RunSpec& spec, const Machine& machine, const LayoutQuestion& question,
            const EngineQuestion& engine) {
  const EngineOn on(spec, machine, engine);
  question.gpus.empty() ? one_layout(spec, on, machine, question) : best_layouts(spec, on, machine, question);
}

}  // namespace isobar
