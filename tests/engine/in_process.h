// Training inside the test process, from the components of `isobar train`, on the ranks that mpiexec started,
// one layout after the other. Arenas are guarded, and working memory starts as NaN.
//
//   InProcess run(spec, mpi, "dp2 tp2");       // on every rank; a world of one: on each for itself
//   for (int step = 0; step < 10; ++step) losses.push_back(run.step(step).loss);
//   run.params(), run.plan
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/classes.h"
#include "model/base/rng.h"
#include "model/comm/comm.h"
#include "model/engine/executor.h"
#include "model/engine/host/host.h"
#include "model/engine/liveness/watchdog.h"
#include "model/inference/schedule_lr.h"
#include "model/inference/weights/params.h"
#include "model/nets/build.h"
#include "model/nets/loss_settings.h"
#include "model/nets/points.h"
#include "model/plan/layout.h"
#include "tests/engine/guarded_arena.h"
#include "tests/paths.h"

namespace isobar {

inline const std::string kTiny = source_dir() + "/configs/models/vit-tiny.yaml";

/// The process's MPI session. Rank 0 prints for all; results are agreed first.
inline const comm::Mpi& session() {
  static const comm::Mpi mpi;
  static const bool silenced = [] {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (mpi.rank() != 0) delete listeners.Release(listeners.default_result_printer());
    return true;
  }();
  (void)silenced;
  return mpi;
}

/// Equal on every rank; from the environment if set.
inline uint32_t seed_of_all(const char* variable) {
  const char* wanted = std::getenv(variable);
  return static_cast<uint32_t>(
      std::stoul(session().from_first(wanted ? wanted : std::to_string(std::random_device{}()))));
}

struct Step {
  double loss, norm;  // of the batch; of its gradients
};

class InProcess {
 public:
  static constexpr int64_t kSamples = 48;  // distinct samples
  const plan::Plan plan;

  /// `weighted`: the run's settings after loss weights were derived from channel names
  InProcess(const RunSpec& spec, const comm::Mpi& mpi, const std::string& title,
            const TrainSpec* weighted = nullptr)
      : plan(planned(spec, spec.layout.world() == 1 ? 0 : mpi.rank(), weighted)),
        spec_(spec),
        train_(plan::link(plan, plan.train, spec.run.serial)),
        arena_(plan.memory.arena) {
    if (plan.memory.host > 0) host_.emplace(plan.memory.host);
    backend_.emplace(plan, arena_.data(), host_ ? host_->data() : nullptr);
    if (spec.layout.world() > 1) comm_.emplace(plan.groups);
    // Half of the layouts, chosen by a hash of the title, use a communication thread, consistently on all
    // ranks.
    engine::Waiting waiting =
        engine::waiting_among(1, mpi.size(), mpi.ranks_on_host(), engine::cores_of(mpi));
    waiting.comm_thread = std::hash<std::string>{}(title) % 2 == 0;
    waiting.patience.asleep *= 3;  // other tests share the cores, too
    execute_.emplace(plan, *backend_, comm_ ? &*comm_ : nullptr, waiting);
    const auto hang = [&mpi, title](const std::string& op) {
      std::printf("FAILED: rank %d hangs in %s under %s\n", mpi.rank(), op.c_str(), title.c_str());
      std::fflush(stdout);
      mpi.abort(1);
    };
    watchdog_.emplace(nullptr, slow_, background_, 120, engine::WatchdogReports{.hang = hang});
    watchdog_->follow(&*execute_);
    arena_.poison(plan);
    backend_->load_constants();
    inference::init_params(plan, static_cast<uint64_t>(spec.train.seed), weights());
    floats(plan.scalars)[plan::kLossScale] = static_cast<float>(spec.train.initial_loss_scale);
    floats(plan.scalars)[plan::kUnscale] = 1;
    floats(plan.scalars)[plan::kTraining] = 1;
    classes_ = classes_of(spec);
    (*execute_)(plan::link(plan, plan.init, spec.run.serial), 0);
    for (const plan::BatchTensor& t : plan.batch) {
      if (t.role == plan::BatchRole::input) inputs_ = t.sample;
      if (t.role == plan::BatchRole::target) targets_ = t.sample;
    }
    dp_ = plan::coords_of(spec.layout, plan.rank).dp;
  }

  /// Initial weights from a file instead of the seed.
  void start_from(const inference::SafetensorsReader& file, const std::string& prefix) {
    inference::load_weights(plan, file, prefix, weights());
    (*execute_)(plan::link(plan, plan.init, spec_.run.serial), 0);
  }
  /// Each weight moves to a float beside it, up or down.
  void round_weights() {
    static std::mt19937 random(std::random_device{}());
    float* const weights = floats(plan.params_all);
    for (int64_t i = 0; i < plan.params_all.count; ++i)
      weights[i] = std::nextafter(weights[i], (random() & 1) != 0 ? HUGE_VALF : -HUGE_VALF);
    (*execute_)(plan::link(plan, plan.init, spec_.run.serial), 0);
  }
  /// A sample's tensor of the batch, instead of noise.
  using Source = std::function<const double*(const plan::BatchTensor&, int64_t sample)>;
  void samples_from(Source source) { source_ = std::move(source); }

  Step step(int64_t n) {
    const int64_t batch = spec_.micro_batch();
    backend_->on_fetch([&](int32_t micro, const BatchPlaces& to) {
      const int64_t first = n * spec_.train.global_batch + (micro * spec_.layout.dp + dp_) * batch;
      for (const plan::BatchTensor& t : plan.batch) {
        float* const at = to.floats(t.name);
        for (int64_t i = 0; at && i < batch; ++i) {
          if (t.dtype == DType::i32)
            words(t, first + i, reinterpret_cast<int32_t*>(at) + i * t.held.size());
          else if (source_)
            std::copy_n(source_(t, first + i), t.sample, at + i * t.sample);
          else if (t.role == plan::BatchRole::time)
            t.code(6.0 * static_cast<double>(first + i), at + i * t.sample);
          else if (t.role == plan::BatchRole::input)
            sample(first + i, at + i * inputs_, nullptr);
          else
            sample(first + i + t.step, nullptr, at + i * targets_);
        }
      }
    });
    float* scalars = floats(plan.scalars);
    scalars[plan::kLearningRate] = static_cast<float>(inference::learning_rate(spec_.train, n, {}));
    if (spec_.policy.amp != Amp::fp16)
      scalars[plan::kStep] = static_cast<float>(n + 1);  // with fp16 the plan counts
    (*execute_)(train_, static_cast<int32_t>(n));
    return {floats(plan.metrics)[0], std::sqrt(static_cast<double>(*floats(plan.grad_norm2)))};
  }

  inference::Weights weights() {
    return {floats(plan.params_all), plan.params16_all ? backend_->at(plan.params16_all) : nullptr};
  }
  std::vector<float> params() {
    return {floats(plan.params_all), floats(plan.params_all) + plan.params_all.count};
  }
  /// The moving average starts as the weights.
  void begin_average() {
    for (const plan::Shard& s : plan.shards)
      if (s.moments >= 0) std::copy_n(floats(plan.params_all) + s.params, s.count, average() + s.moments);
  }
  float* average() { return floats(plan.ema_all); }
  void exchange() { (*execute_)(plan::link(plan, plan.exchange, spec_.run.serial), 0); }
  std::vector<std::byte> copies() {  // 16-bit copies
    if (!plan.params16_all) return {};
    const std::byte* const at = backend_->at(plan.params16_all);
    return {at, at + plan.buffers[plan.params16_all.buffer].bytes()};
  }
  std::vector<float> metrics() { return {floats(plan.metrics), floats(plan.metrics) + plan.metrics.count}; }
  size_t ops() const { return train_.instrs.size(); }
  engine::Idle idle() const { return arena_.idle(plan); }

 private:
  static plan::Plan planned(const RunSpec& spec, int rank, const TrainSpec* weighted) {
    plan::Plan plan = nets::build_plan(spec, rank, cpu_workspace(1));
    TrainSpec known = weighted ? *weighted : spec.train;
    if (known.latitude_weights && known.latitudes.empty()) known.latitudes = nets::loss_latitudes(spec, {});
    nets::know_loss_weights(plan, known);
    return plan;
  }

  float* floats(const plan::View& v) { return reinterpret_cast<float*>(backend_->at(v)); }
  // Samples repeat after some steps; targets are functions of the input that a net can learn.
  void sample(int64_t index, float* input, float* target) const {
    static std::map<std::pair<int64_t, int64_t>, std::vector<float>> made;  // by sample and size
    std::vector<float>& x = made[{index % kSamples, inputs_}];
    for (auto i = static_cast<int64_t>(x.size()); i < inputs_; ++i)
      x.push_back(normal(9, index % kSamples, i));
    for (int64_t i = 0; input && i < inputs_; ++i) input[i] = x[i];
    if (target && classes_ > 0) {
      target[0] = static_cast<float>(std::max_element(x.begin(), x.begin() + std::min(classes_, inputs_)) -
                                     x.begin());
      return;
    }
    for (int64_t i = 0; target && i < targets_; ++i)
      target[i] = 0.7f * x[i % inputs_] + 0.3f * x[(i + 1) % inputs_];
  }

  // This rank's tokens of a text in which most words follow from the one before, or the words that follow
  // them
  void words(const plan::BatchTensor& t, int64_t index, int32_t* to) const {
    const auto most = static_cast<int32_t>(std::min<int64_t>(64, spec_.net.words()->vocab_size));
    std::mt19937 drawn(static_cast<uint32_t>(index % kSamples));
    int32_t word = 0;
    std::vector<int32_t> text;
    for (int64_t i = 0; i <= t.sample; ++i) {
      word = i == 0 || drawn() % 4 == 0 ? static_cast<int32_t>(drawn() % most) : (5 * word + 7) % most;
      text.push_back(word);
    }
    for (int64_t i = 0; i < t.held.size(); ++i)
      to[i] = text[t.held.place(i) + (t.role == plan::BatchRole::target ? 1 : 0)];
  }

  const RunSpec spec_;
  const plan::Program train_;
  const engine::GuardedArena arena_;
  std::optional<engine::GuardedArena> host_;
  std::optional<CpuBackend> backend_;
  std::optional<comm::Comm> comm_;
  std::optional<engine::Executor> execute_;
  engine::SlowWork slow_;
  engine::BackgroundWriter background_;
  std::optional<engine::Watchdog> watchdog_;
  int64_t inputs_ = 0, targets_ = 0;  // elements of a sample
  int64_t dp_ = 0, classes_ = 0;
  Source source_;
};

}  // namespace isobar
