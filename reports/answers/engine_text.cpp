#include <algorithm>
#include <cmath>

#include "model/base/text/printed.h"
#include "reports/answers/answers.h"

namespace isobar::report {
namespace {

using nlohmann::json;

json json_of(const perf::EngineOn& on, const perf::Machine& m, const perf::EngineLayout& l) {
  const perf::EngineAnswer& a = l.answer;
  const double samples = static_cast<double>(l.spec.train.global_batch);
  return {{"engine", on.name()},
          {"tuned", on.tuned()},
          {"own_runs", on.own_runs()},
          {"machine", m.name},
          {"ranks", l.spec.layout.world()},
          {"layout", perf::layout_text(l.spec)},
          {"offloaded_layers", l.spec.policy.offloaded_layers},
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

std::string one_text(const perf::EngineOn& on, const perf::Machine& m, const perf::EngineLayout& l,
                     bool chosen) {
  std::string text;
  const auto& [spec, a, fits] = l;
  const double samples = static_cast<double>(spec.train.global_batch);
  const TimeUnit u = unit_of(a.step.value);
  const Known step = a.step, memory = a.memory.scaled(1e-9);
  text += printed("%s on %s: %ld rank%s\n", spec.file.c_str(), m.name.c_str(), spec.layout.world(),
                  spec.layout.world() == 1 ? "" : "s");
  text += on.origin();
  text += printed("%s\n\n", perf::layout_text(spec).c_str());
  text += printed("  step %s %s, 80 %% interval\n", with_interval(step.scaled(u.per_second)).c_str(), u.name);
  text += printed("  %s samples/s, %s tokens/s\n", with_interval(step.inverse(samples)).c_str(),
                  rounded(step.inverse(samples * static_cast<double>(spec.net.tokens()))).c_str());
  text += printed("  memory %s GB of %.3g; probability that it fits: %.0f %%\n",
                  with_interval(memory).c_str(), 1e-9 * on.memory(), 100 * fits);
  if (a.memory.value > on.memory()) text += printed("note: it probably does not fit\n");
  if (chosen)
    text += printed("note: policy.micro_batch %ld, the largest that fits by this prediction\n",
                    spec.policy.micro_batch);
  return text;
}

std::string change_text(const std::optional<perf::EngineOn::Change>& c) {
  std::string text;
  if (!c) {
    text += printed("no change of one key fits, even on 4,096 times as many accelerators\n");
    return text;
  }
  const TimeUnit u = unit_of(c->layout.answer.step.value);
  text += printed("smallest change that fits: --set %s  (%s %s a step, %s GB a rank, %ld accelerators)\n",
                  c->set.front().c_str(), rounded(c->layout.answer.step.scaled(u.per_second)).c_str(), u.name,
                  rounded(c->layout.answer.memory.scaled(1e-9)).c_str(), c->layout.spec.layout.world());
  return text;
}

std::string ranked_text(const std::vector<perf::EngineLayout>& ranked, size_t shown, const perf::Ties& ties,
                        double memory) {
  std::string text;
  text += printed("  %-24s %-20s %6s %7s  %s\n", "step s", "memory GB", "fits", "fastest", "layout");
  for (size_t i = 0; i < shown; ++i)
    text += printed("  %-24s %-20s %4.0f %% %5.0f %%  %s\n", with_interval(ranked[i].answer.step).c_str(),
                    with_interval(ranked[i].answer.memory.scaled(1e-9)).c_str(), 100 * ranked[i].fits,
                    100 * (i < ties.chances.size() ? ties.chances[i] : 0),
                    perf::layout_text(ranked[i].spec).c_str());
  text += printed(
      "  (80 %% intervals; fits: probability of fitting into %.3g GB; ranked by step time / probability)\n\n",
      1e-9 * memory);
  return text;
}

std::string ties_text(const perf::Ties& t, const std::vector<perf::EngineLayout>& ranked) {
  std::vector<std::string> telling;
  for (const size_t i : t.telling) telling.push_back(perf::layout_text(ranked[i].spec));
  return report::ties_text(t, telling) + "\n";
}

}  // namespace

std::string text_of(const perf::EngineRunAnswer& a, const perf::EngineOn& on, const perf::Machine& m,
                    bool chosen) {
  std::string text = one_text(on, m, a.layout, chosen);
  if (a.layout.answer.memory.value > on.memory()) text += change_text(a.change);
  if (a.training) text += "\n  " + text_of(*a.training, m) + "\n";
  return text;
}

json json_of(const perf::EngineRunAnswer& a, const perf::EngineOn& on, const perf::Machine& m) {
  json j = json_of(on, m, a.layout);
  if (a.change)
    j["smallest_change"] = {{"set", a.change->set}, {"step_s", a.change->layout.answer.step.value}};
  if (a.training) j["budget"] = json_of(*a.training);
  return j;
}

std::string text_of(const perf::EngineSearchAnswer& a, const perf::EngineOn& on, const perf::Machine& m,
                    int64_t gpus, const perf::LayoutQuestion& q) {
  const RunSpec& spec = a.ranked[0].spec;
  std::string text = a.limit.text() + "\n" +
                     printed("%s on %ld x %s, global batch %ld\n", spec.file.c_str(), gpus, m.name.c_str(),
                             spec.train.global_batch) +
                     on.origin();
  if (!q.keep.all().empty()) text += "constraints of the search: " + q.keep.text() + "\n";
  text += printed(
      "%ld layouts searched; its fastest %zu predicted for %s, the best of each (dp, tp, cp, pp, ep) "
      "kept\n\n",
      a.found.considered, a.found.variants.size(), on.name().c_str());
  const size_t shown = q.all ? a.ties.chances.size() : q.top;
  text += ranked_text(a.ranked, std::min(shown, a.ranked.size()), a.ties, on.memory()) +
          ties_text(a.ties, a.ranked);
  if (a.training) text += "  " + text_of(*a.training, m) + "\n\n";
  return text;
}

json json_of(const perf::EngineSearchAnswer& a, const perf::EngineOn& on, const perf::Machine& m,
             int64_t gpus, const perf::LayoutQuestion& q) {
  json j = json_of(on, m, a.ranked[0]);
  j["gpus"] = gpus;
  j["given"] = q.keep.text();
  j["global_batch"] = a.ranked[0].spec.train.global_batch;
  j["limit"] = json_of(a.limit);
  j["considered"] = a.found.considered;
  j["repriced"] = a.found.variants.size();
  if (a.training) j["budget"] = json_of(*a.training);
  for (size_t i = 0; i < std::min(q.top, a.ranked.size()); ++i)
    j["best"].push_back(json_of(on, m, a.ranked[i]));
  j["ties"] = {{"expected_loss", a.ties.loss}, {"members", json::array()}};
  for (const perf::Ties::Member& one : a.ties.members)
    j["ties"]["members"].push_back(
        {{"layout", perf::layout_text(a.ranked[one.index].spec)}, {"chance", one.chance}});
  return j;
}

}  // namespace isobar::report
