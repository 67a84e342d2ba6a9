#include "bench/suggest/trial_forecast.h"

#include <cmath>
#include <map>
#include <memory>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/error.h"
#include "model/base/rng.h"
#include "model/base/text/printed.h"
#include "model/base/text/progress.h"
#include "model/engine/processor.h"
#include "perfmodel/ask/choose/engine_on.h"
#include "perfmodel/ask/predict.h"

namespace isobar::suggest {
namespace {

// Up to this number of different trials, placed plans give the price, which takes a while each; beyond, the
// closed form does.
constexpr size_t kMostPlaced = 48;

sweep::Forecast forecast_of(const RunSpec& spec, const perf::Machine& m, int64_t ranks_per_node,
                            bool closed_form) {
  perf::PredictOptions options{.host = {.ranks_on_host = ranks_per_node},
                               .workspace = cpu_workspace,
                               .device_workspace = [&spec] { return engine::gpu_workspace(spec); },
                               .campaign = "",
                               .closed_form = closed_form};
  const nets::MicroBatchChoice micro_batch = perf::choose_micro_batch(spec, m, options);
  if (closed_form && !micro_batch.chosen) options.device_workspace = {};
  const perf::Prediction p = perf::predict(micro_batch.spec, m, options);
  sweep::Forecast f{.step_s = p.step_s,
                    .upper_s = p.upper,
                    .ceiling_s = p.ceiling_s,
                    .checkpoint_s = p.checkpoint.upper,
                    .memory_bytes = p.memory_total};
  f.closed_form = p.device == perf::Device::cores && closed_form;
  if (micro_batch.chosen) f.micro_batch = micro_batch.spec.policy.micro_batch;
  f.infeasible = perf::shortfall(p);
  return f;
}

// Key of trials that share a forecast. Loader, data and learning rate are left out: the plan does not depend
// on them.
std::string key_of(const RunSpec& spec) {
  nlohmann::json j = to_json(spec);
  for (const char* name : {"lr", "seed", "steps", "log_every", "valid_every", "checkpoint_every"})
    j["train"].erase(name);
  j.erase("run");
  return j.dump() + " " + std::to_string(spec.run.threads) + " " + name_of(spec.run.device);
}

sweep::Forecast forecast_of(const RunSpec& spec, const perf::EngineOn& engine) {
  const perf::EngineLayout l = engine.own(spec);
  sweep::Forecast f{.step_s = l.answer.step.value,
                    .upper_s = l.answer.step.upper,
                    .memory_bytes = std::llround(l.answer.memory.value)};
  if (spec.policy.micro_batch == 0) f.micro_batch = l.spec.policy.micro_batch;
  if (l.answer.memory.value > engine.memory()) {
    f.infeasible = printed("does not fit as %s runs it: a rank needs %.3g GB of %.3g", engine.name().c_str(),
                           1e-9 * l.answer.memory.value, 1e-9 * engine.memory());
  }
  return f;
}

void refuse_if_empty(const sweep::Matrix& matrix, const sweep::SweepSpec& sweep,
                     const perf::Machine& machine) {
  if (!matrix.trials.empty()) return;
  throw ConfigError(
      sweep.file, "axes", "leave no trial that is predicted to run on " + machine.file,
      matrix.skipped.empty() ? "change the axes" : "the first reason is: " + matrix.skipped.back().reason);
}

void extend(sweep::Forecast& f, const sweep::Trial& t, const perf::Machine& machine) {
  f.trial_s = f.step_s * static_cast<double>(t.spec.train.steps);
  f.rank_hours = f.trial_s * static_cast<double>(t.ranks()) / 3600;
  if (!machine.accelerator) return;
  f.cost = f.rank_hours * machine.accelerator->price_per_hour;
  f.currency = machine.accelerator->currency;
}

}  // namespace

void forecast(sweep::Matrix& matrix, const sweep::SweepSpec& sweep, const perf::Machine& machine,
              int64_t ranks_per_node, bool progress) {
  perf::require_trainable(machine);              // the trials are to run there
  std::map<std::string, sweep::Forecast> known;  // repetitions share a forecast
  for (const sweep::Trial& t : matrix.trials) known.try_emplace(key_of(t.spec));
  const bool closed_form = known.size() > kMostPlaced;
  known.clear();
  std::vector<sweep::Trial> run;
  constexpr size_t kQuick = 2000;  // takes seconds
  Progress bar("forecasts", static_cast<int64_t>(matrix.trials.size()),
               progress && matrix.trials.size() > kQuick);
  int64_t done = 0;
  for (sweep::Trial& t : matrix.trials) {
    bar.update(done++);
    if (t.spec.run.by_settings) {  // nothing to price
      run.push_back(std::move(t));
      continue;
    }
    const auto [at, fresh] = known.try_emplace(key_of(t.spec));
    if (fresh) at->second = forecast_of(t.spec, machine, ranks_per_node, closed_form);
    t.forecast = at->second;
    extend(*t.forecast, t, machine);
    // Seeded by the trial's id: a sweep that continues must choose the same trials.
    const double dice = uniform(sweep.seed, std::stoull(t.id, nullptr, 16), 0);
    if (t.forecast->infeasible.empty() || dice < sweep.probe_infeasible)
      run.push_back(std::move(t));
    else
      matrix.skipped.push_back({t.axes, t.forecast->infeasible, t.forecast});
  }
  bar.update(done);
  bar.finish();
  matrix.trials = std::move(run);
  refuse_if_empty(matrix, sweep, machine);
}

void forecast(sweep::Matrix& matrix, const sweep::SweepSpec& sweep, const perf::Machine& machine,
              const perf::EngineQuestion& question) {
  std::vector<sweep::Trial> run;
  std::unique_ptr<perf::EngineOn> engine;  // each trial names its device
  for (sweep::Trial& t : matrix.trials) {
    RunSpec spec = t.spec;
    spec.run.device = RunDevice::automatic;  // the machine file's accelerators, not this host's
    if (!engine) engine = std::make_unique<perf::EngineOn>(spec, machine, question);
    sweep::Forecast f;
    try {
      f = forecast_of(spec, *engine);
    } catch (const ConfigError& e) {  // the engine lacks an axis or a policy
      matrix.skipped.push_back({t.axes, e.what(), {}});
      continue;
    }
    extend(f, t, machine);
    if (f.infeasible.empty()) {
      t.forecast = f;
      run.push_back(std::move(t));
    } else {
      matrix.skipped.push_back({t.axes, f.infeasible, f});
    }
  }
  matrix.trials = std::move(run);
  refuse_if_empty(matrix, sweep, machine);
}

}  // namespace isobar::suggest
