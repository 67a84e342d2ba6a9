// Run by mpiexec with 1 to 8 ranks: every layout of that world, with each cp kind, schedule, ZeRO stage and
// recompute mode that applies, trains ten steps like one rank: its losses and gradient norms (Adam would hide
// a gradient that is a multiple of the true one), on every rank, and the weights that every rank holds after
// them. fp32; what may differ is the order of sums. All in one set of processes, with the parts that
// `isobar train` is made of.
//
// Runs a pairwise-covering set; ISOBAR_PRODUCT_SECONDS=n goes on with others in random order until n seconds
// are over, 0: with all of them. ISOBAR_PRODUCT_SEED repeats an order and what is drawn beside the product.
#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/rng.h"
#include "model/engine/arena.h"
#include "model/engine/executor.h"
#include "model/engine/params.h"
#include "model/engine/schedule_lr.h"
#include "model/engine/watchdog.h"
#include "model/nets/build.h"
#include "model/plan/layout.h"
#include "tests/engine/product.h"

namespace isobar {
namespace {

using Words = std::vector<std::string>;
constexpr const char* kConfig = ISOBAR_SOURCE_DIR "/configs/models/vit-tiny.yaml";

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string text_of(const Words& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

struct Trained {
  std::vector<double> losses, norms;  // by step
  Plan plan;
  std::vector<float> params;  // the buffer of that name
};

// Samples repeat after some steps; a target is what a net can learn of its input.
void sample(int64_t index, int64_t size, float* input, float* target) {
  static std::map<int64_t, std::vector<float>> made;
  std::vector<float>& x = made[index % 48];
  for (auto i = static_cast<int64_t>(x.size()); i < size; ++i) x.push_back(normal(9, index % 48, i));
  for (int64_t i = 0; i < size; ++i) {
    if (input) input[i] = x[i];
    if (target) target[i] = 0.7f * x[i] + 0.3f * x[(i + 1) % size];
  }
}

Trained trained(const RunSpec& spec, const Mpi& mpi, const std::string& words) {
  const bool alone = spec.layout.world() == 1;
  const int rank = alone ? 0 : mpi.rank();
  Trained out;
  out.plan = build_plan(spec, rank, cpu_workspace(1));
  const Plan& plan = out.plan;
  Arena arena(plan.memory.arena);
  std::optional<Arena> host;
  if (plan.memory.host > 0) host.emplace(plan.memory.host);
  CpuBackend backend(plan, arena.data(), spec.train, host ? host->data() : nullptr);
  std::optional<Comm> comm;
  if (!alone) comm.emplace(plan.groups);
  Executor execute(plan, backend, comm ? &*comm : nullptr);
  const Watchdog watchdog(execute, 120, [&](const std::string& op) {
    std::printf("rank %d hangs in %s under %s\n", mpi.rank(), op.c_str(), words.c_str());
    std::fflush(stdout);
    mpi.abort(1);
  });
  const auto floats = [&](const View& v) { return reinterpret_cast<float*>(backend.at(v)); };
  // Activations and scratch begin as no numbers.
  const int64_t poisoned = plan.memory.by_kind[static_cast<int>(BufferKind::scratch)] +
                           plan.memory.by_kind[static_cast<int>(BufferKind::saved)];
  std::memset(arena.data() + plan.memory.arena - poisoned, 0xff, static_cast<size_t>(poisoned));
  init_params(plan, static_cast<uint64_t>(spec.train.seed), floats(plan.params_all));
  float* scalars = floats(plan.scalars);
  scalars[kLossScale] = scalars[kUnscale] = 1;
  execute(link(plan, plan.init, spec.run.serial), 0);
  const Program program = link(plan, plan.train, spec.run.serial);
  const int64_t size = spec.net.in_channels * spec.net.img_height * spec.net.img_width;
  const int64_t batch = spec.micro_batch(), dp = coords_of(spec.layout, rank).dp;
  for (int64_t step = 0; step < spec.train.steps; ++step) {
    backend.on_fetch([&](int32_t micro, float* input, float* target) {
      const int64_t first = step * spec.train.global_batch + (micro * spec.layout.dp + dp) * batch;
      for (int64_t i = 0; i < batch; ++i)
        sample(first + i, size, input ? input + i * size : nullptr, target ? target + i * size : nullptr);
    });
    scalars[kLearningRate] = static_cast<float>(learning_rate(spec.train, step, {}));
    scalars[kStep] = static_cast<float>(step + 1);
    execute(program, static_cast<int32_t>(step));
    out.losses.push_back(floats(plan.metrics)[0]);
    out.norms.push_back(std::sqrt(static_cast<double>(*floats(plan.grad_norm2))));
  }
  out.params.assign(floats(plan.params_all), floats(plan.params_all) + plan.params_all.count);
  return out;
}

struct Deviation {
  double losses = 0, norms = 0;  // largest, relative, over steps and ranks
  double weights = 0;            // |a - b| over |b|, of all weights of all ranks together
  bool whole = true;             // every weight was among them
};

Deviation compare(const Trained& many, const Trained& one, const Mpi& mpi) {
  const auto largest = [&](const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    for (size_t i = 0; i < b.size(); ++i) {
      const double off = std::abs(a[i] / b[i] - 1);
      most = std::max(most, std::isfinite(off) ? off : INFINITY);
    }
    return mpi.max_of(most);
  };
  Deviation d;
  d.losses = largest(many.losses, one.losses);
  d.norms = largest(many.norms, one.norms);
  std::map<std::string, const Param*> wholes;
  for (const Param& p : one.plan.params) wholes[p.name] = &p;
  double difference = 0, magnitude = 0, written = 0;
  for (const Param& p : many.plan.params) {
    const float* whole = one.params.data() + wholes.at(p.name)->offset;
    for (const ElementRun& r : kept_runs(many.plan, p, &Shard::params)) {
      for (int64_t i = 0; i < r.count; ++i) {
        const double x = many.params[r.offset + i], y = whole[r.whole + i];
        difference += (x - y) * (x - y);
        magnitude += y * y;
      }
      if (p.writer) written += static_cast<double>(r.count);
    }
  }
  const std::vector<double> sums = mpi.sum_of({difference, magnitude, written});
  d.weights = std::sqrt(sums[0] / sums[1]);
  d.whole = sums[2] == static_cast<double>(one.plan.parameter_count());
  return d;
}

/// Of this net, alone: computed by every rank for itself, once.
const Trained& one_rank(const Words& net, const Mpi& mpi) {
  static std::map<std::string, Trained> known;
  const std::string name = text_of(net);
  const auto at = known.find(name);
  if (at != known.end()) return at->second;
  return known.emplace(name, trained(load_run_spec(kConfig, net), mpi, name)).first->second;
}

uint32_t seed_of_all(const Mpi& mpi) {
  const char* wanted = std::getenv("ISOBAR_PRODUCT_SEED");
  return static_cast<uint32_t>(
      std::stoul(mpi.from_first(wanted ? wanted : std::to_string(std::random_device{}()))));
}

TEST(Product, OfAllLayoutsOfThisWorldTrainsLikeOneRank) {
  const Mpi mpi;
  if (mpi.rank() != 0) {  // one speaks for all; what it says is agreed with the others
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  omp_set_num_threads(1);
  const char* limit = std::getenv("ISOBAR_PRODUCT_SECONDS");
  const double seconds = limit ? std::stod(limit) : -1, begun = seconds_now();
  const uint32_t seed = seed_of_all(mpi);
  std::mt19937 random(seed);
  std::vector<Choice> all = product_of(mpi.size());
  const size_t pairs = covering_first(all, random);
  if (mpi.rank() == 0)
    std::printf("%d ranks: ISOBAR_PRODUCT_SEED=%u, %zu layouts, of which %zu cover all pairs\n", mpi.size(),
                seed, all.size(), pairs);
  size_t ran = 0, failed = 0;
  double losses = 0, norms = 0, weights = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool more = i < pairs || seconds == 0 || seconds_now() - begun < seconds;
    if (mpi.from_first(more ? "more" : "") != "more") break;
    std::mt19937 drawn(seed + static_cast<uint32_t>(i));
    const Words net = net_of(all[i]);
    const Words words = words_of(all[i], drawn);
    const std::string text = text_of(words);
    const double t0 = seconds_now();
    try {
      const Trained& one = one_rank(net, mpi);
      const Deviation d = compare(trained(load_run_spec(kConfig, words), mpi, text), one, mpi);
      ++ran;
      losses = std::max(losses, d.losses);
      norms = std::max(norms, d.norms);
      weights = std::max(weights, d.weights);
      const bool ok = d.losses < 1e-5 && d.norms < 1e-5 && d.weights < 1e-5 && d.whole &&
                      one.losses[9] < 0.99 * one.losses[0];
      if (!ok) ++failed;
      if (mpi.rank() != 0) continue;
      std::printf("%s losses %.1e norms %.1e weights %.1e %.2f s %s\n", ok ? "      " : "FAILED", d.losses,
                  d.norms, d.weights, seconds_now() - t0, text.c_str());
      std::fflush(stdout);
      EXPECT_LT(one.losses[9], 0.99 * one.losses[0]) << "nothing is learnt: nothing is tested. " << text;
      EXPECT_LT(d.losses, 1e-5) << text;
      EXPECT_LT(d.norms, 1e-5) << text;
      EXPECT_LT(d.weights, 1e-5) << text;
      EXPECT_TRUE(d.whole) << "weights that no rank holds: " << text;
    } catch (const std::exception& e) {  // the others wait for this rank
      std::printf("FAILED on rank %d: %s under %s\n", mpi.rank(), e.what(), text.c_str());
      std::fflush(stdout);
      mpi.abort(1);
    }
  }
  if (mpi.rank() == 0)
    std::printf(
        "%d ranks: %zu of %zu layouts in %.0f s, %zu failed; largest deviations: losses %.1e, norms %.1e, "
        "weights %.1e\n",
        mpi.size(), ran, all.size(), seconds_now() - begun, failed, losses, norms, weights);
  EXPECT_GE(ran, pairs);
}

}  // namespace
}  // namespace isobar
