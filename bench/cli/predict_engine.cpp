#include "bench/cli/predict_engine.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/cli/step_text.h"
#include "model/base/error.h"
#include "perfmodel/score/engine_model.h"
#include "perfmodel/score/own_runs.h"
#include "perfmodel/score/published_spec.h"
#include "perfmodel/step/utilization.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr int kTooLarge = 4;
constexpr size_t kReranked = 200;  // of a search's layouts, each with other (dp, tp, cp, pp)

/// The engine asked for, its coefficients and the chip: what prices a layout.
struct Asked {
  const ForeignEngine* engine;  // nullptr: unknown
  EngineModel model;
  ChipSpec chip;
  const Machine& machine;
  std::string fit;

  Asked(const Machine& m, const EngineQuestion& q)
      : engine(q.engine == "unknown" ? nullptr : &engine_named(q.engine)),
        model(EngineModel::shipped(engine, q.tuned)),
        chip(chip_of(m)),
        machine(m),
        fit(q.fit) {
    if (!fit.empty()) model.learn(runs_of(load_own_runs(fit, m), m, chip));
  }

  PublishedRun run(const RunSpec& spec) const {
    if (engine) refuse_axes(spec, *engine);
    return run_of(spec, machine, chip, engine ? engine->habits : Habits{});
  }

  static void refuse_axes(const RunSpec& s, const ForeignEngine& e) {
    const auto lacks = [&](const char* key, int64_t value, bool has) {
      if (value > 1 && !has)
        throw ConfigError(s.file, key, e.name + " has no such axis (" + e.file + ")", "use 1");
    };
    lacks("layout.dp", s.layout.dp, e.axes.dp);
    lacks("layout.tp", s.layout.tp, e.axes.tp);
    lacks("layout.cp", s.layout.cp, e.axes.cp);
    lacks("layout.pp", s.layout.pp, e.axes.pp);
    lacks("layout.vpp", s.layout.vpp, e.axes.vpp);
    if (std::find(e.axes.zero.begin(), e.axes.zero.end(), s.policy.zero) == e.axes.zero.end())
      throw ConfigError(s.file, "policy.zero",
                        e.name + " has no ZeRO stage " + std::to_string(s.policy.zero) + " (" + e.file + ")",
                        "use " + std::to_string(e.axes.zero.front()));
  }

  std::string name() const { return engine ? engine->name : "unknown"; }
  void print_origin() const {
    std::printf("as %s runs it: ", name().c_str());
    if (engine)
      std::printf("coefficients from %zu published runs of it and %zu of others (%s)", model.own_rows(),
                  model.other_rows(), engine->file.c_str());
    else
      std::printf("coefficients from %zu published runs of all engines", model.other_rows());
    std::printf(", tuned %.2g", model.tuned().mean);
    if (model.tuned().sigma > 0) std::printf(" +- %.2g", model.tuned().sigma);
    std::printf(" (0: research code, 1: a submission to MLPerf)\n");
    if (!fit.empty())
      std::printf("and from %zu runs of your own (%s)\n", model.own_runs().size(), fit.c_str());
  }
};

/// The run's micro-batch or, where none is given, the largest that this engine fits into memory.
RunSpec with_micro_batch(RunSpec spec, const Asked& asked) {
  if (spec.policy.micro_batch > 0) return spec;
  const int64_t samples = spec.train.global_batch / spec.layout.dp;
  for (int64_t m = samples; m >= 1; --m) {
    if (samples % m != 0) continue;
    spec.policy.micro_batch = m;
    if (m == 1 || asked.model.predict(asked.run(spec)).memory.value <= asked.chip.memory_bytes) break;
  }
  return spec;
}

json json_of(const Asked& asked, const RunSpec& spec, const EngineAnswer& a) {
  const double samples = static_cast<double>(spec.train.global_batch);
  return {{"engine", asked.name()},
          {"tuned", asked.model.tuned().mean},
          {"own_runs", asked.model.own_runs().size()},
          {"machine", asked.machine.name},
          {"ranks", spec.layout.world()},
          {"layout", text_of(layout_of(spec))},
          {"step_s", a.step.value},
          {"lower_s", a.step.lower},
          {"upper_s", a.step.upper},
          {"samples_per_s", samples / a.step.value},
          {"tokens_per_s", samples * static_cast<double>(spec.net.tokens()) / a.step.value},
          {"memory_total_bytes", std::llround(a.memory.value)},
          {"memory_lower_bytes", std::llround(a.memory.lower)},
          {"memory_upper_bytes", std::llround(a.memory.upper)},
          {"memory_there_bytes", std::llround(asked.chip.memory_bytes)},
          {"fits", a.memory.value <= asked.chip.memory_bytes}};
}

void one_layout(const RunSpec& given, const Asked& asked, const LayoutQuestion& q) {
  const RunSpec spec = with_micro_batch(given, asked);
  const EngineAnswer a = asked.model.predict(asked.run(spec));
  if (q.json) {
    std::printf("%s\n", json_of(asked, spec, a).dump(1).c_str());
  } else {
    const double samples = static_cast<double>(spec.train.global_batch);
    const TimeUnit u = unit_of(a.step.value);
    std::printf("%s on %s: %ld rank%s\n", spec.file.c_str(), asked.machine.name.c_str(), spec.layout.world(),
                spec.layout.world() == 1 ? "" : "s");
    asked.print_origin();
    std::printf("%s\n\n", text_of(layout_of(spec)).c_str());
    std::printf("  step %.4g %s, 80 %% interval %.4g ... %.4g\n", u.per_second * a.step.value, u.name,
                u.per_second * a.step.lower, u.per_second * a.step.upper);
    std::printf("  %.4g samples/s (%.4g ... %.4g), %.4g tokens/s\n", samples / a.step.value,
                samples / a.step.upper, samples / a.step.lower,
                samples * static_cast<double>(spec.net.tokens()) / a.step.value);
    std::printf("  memory %.3g GB of %.3g, 80 %% interval %.3g ... %.3g\n", 1e-9 * a.memory.value,
                1e-9 * asked.chip.memory_bytes, 1e-9 * a.memory.lower, 1e-9 * a.memory.upper);
    if (a.memory.value > asked.chip.memory_bytes) std::printf("note: more likely than not it does not fit\n");
    if (given.policy.micro_batch == 0)
      std::printf("note: policy.micro_batch %ld, the largest that fits by this prediction\n",
                  spec.policy.micro_batch);
  }
  // What other engines need is known to a factor: only what is surely too much ends with the exit code.
  if (a.memory.lower > asked.chip.memory_bytes) {
    std::fprintf(stderr, "isobar: does not fit: a rank needs %.3g GB or more of %.3g\n",
                 1e-9 * a.memory.lower, 1e-9 * asked.chip.memory_bytes);
    throw CLI::RuntimeError(kTooLarge);
  }
}

/// The search's space, as far as the engine has it.
SearchSpace space_of(const LayoutQuestion& q, const ForeignEngine* e) {
  SearchSpace space = q.space == "1d" ? SearchSpace::one_d() : SearchSpace{};
  space.given = q.given;
  space.orders = false;
  space.schedules = {ScheduleKind::one_f_one_b, ScheduleKind::interleaved};
  if (!e) return space;
  std::erase_if(space.zero, [&](int z) {
    return std::find(e->axes.zero.begin(), e->axes.zero.end(), z) == e->axes.zero.end();
  });
  const auto only_one = [](bool has, auto& given) {
    if (!has && !given) given = 1;
  };
  only_one(e->axes.dp, space.given.dp);
  only_one(e->axes.tp, space.given.tp);
  only_one(e->axes.cp, space.given.cp);
  only_one(e->axes.pp, space.given.pp);
  if (!e->axes.vpp) space.schedules = {ScheduleKind::one_f_one_b};
  return space;
}

struct Ranked {
  RunSpec spec;
  EngineAnswer answer;
};

void best_layouts(const RunSpec& given, const Asked& asked, const LayoutQuestion& q) {
  json out = json::array();
  for (const int64_t gpus : q.gpus) {
    RunSpec spec = given;
    spec.layout = {.dp = gpus};
    spec.policy.micro_batch = 0;
    const SearchResult found =
        search(spec, asked.machine,
               {.top = kReranked, .pareto = false, .confirm = false, .space = space_of(q, asked.engine)});
    std::vector<Ranked> ranked;
    for (const LayoutCandidate& c : found.best) {
      RunSpec one = with_layout(spec, c.layout);
      if (one.layout.cp > 1 && one.policy.cp_kind == "ulysses") one.policy.cp_kind = "ring";
      const EngineAnswer a = asked.model.predict(asked.run(one));
      if (a.memory.value <= asked.chip.memory_bytes) ranked.push_back({std::move(one), a});
    }
    if (ranked.empty())
      throw DoesNotFit(
          given.file, "--gpus",
          "of " + std::to_string(found.best.size()) + " layouts none fits as " + asked.name() + " runs them",
          "ask for more GPUs, or set policy.recompute=full");
    std::sort(ranked.begin(), ranked.end(),
              [](const Ranked& a, const Ranked& b) { return a.answer.step.value < b.answer.step.value; });
    const size_t shown = std::min(q.top, ranked.size());
    if (q.json) {
      json j = json_of(asked, ranked[0].spec, ranked[0].answer);
      j["gpus"] = gpus;
      j["considered"] = found.considered;
      j["repriced"] = found.best.size();
      for (size_t i = 0; i < shown; ++i)
        j["best"].push_back(json_of(asked, ranked[i].spec, ranked[i].answer));
      out.push_back(std::move(j));
      continue;
    }
    std::printf("%s on %ld x %s, global batch %ld\n", spec.file.c_str(), gpus, asked.machine.name.c_str(),
                spec.train.global_batch);
    asked.print_origin();
    std::printf(
        "%ld layouts considered as Isobar's own engine runs them; the best of each of %zu (dp, tp, cp, "
        "pp) priced as %s runs it\n\n",
        found.considered, found.best.size(), asked.name().c_str());
    std::printf("  %8s %18s %9s  %s\n", "step s", "80 % interval", "memory GB", "layout");
    for (size_t i = 0; i < shown; ++i) {
      const EngineAnswer& a = ranked[i].answer;
      std::printf("  %8.3f %8.3f %9.3f %9.1f  %s\n", a.step.value, a.step.lower, a.step.upper,
                  1e-9 * a.memory.value, text_of(layout_of(ranked[i].spec)).c_str());
    }
    std::printf("\n");
  }
  if (q.json) std::printf("%s\n", (out.size() == 1 ? out[0] : out).dump(1).c_str());
}

}  // namespace

void take_fit(const Machine& machine, EngineQuestion& q) {
  const OwnRuns own = load_own_runs(q.fit, machine);
  if (q.engine != "isobar" && q.engine != own.engine)
    throw ConfigError(q.fit, "engine", "is " + own.engine + ", not " + q.engine, "leave --engine out");
  q.engine = own.engine;
  q.tuned = own.tuned;
}

void answer(const RunSpec& spec, const Machine& machine, const LayoutQuestion& question,
            const EngineQuestion& engine) {
  if (device_of(spec, machine) != Device::accelerator)
    throw ConfigError(machine.file, "--engine", "prices runs on accelerators",
                      "name a machine like configs/machines/dgx-h100.yaml");
  const Asked asked(machine, engine);
  question.gpus.empty() ? one_layout(spec, asked, question) : best_layouts(spec, asked, question);
}

}  // namespace isobar
