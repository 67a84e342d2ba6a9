// Run by mpiexec with 1, 2 or 4 ranks: parameter groups and the moving average of weights against PyTorch's
// optimizers in float64 (tests/fixtures/make_groups.py), under layouts of that world size.
#include <gtest/gtest.h>
#include <omp.h>

#include "tests/engine/in_process.h"
#include "tests/worst.h"

namespace isobar::engine {
namespace {

using Words = std::vector<std::string>;

constexpr int64_t kGroupSteps = 5;

const std::vector<double>& group_values(const std::string& name) {
  static const inference::TensorFile file =
      inference::read_safetensors(source_dir() + "/tests/fixtures/groups_fixture.safetensors");
  return file.tensors.at(name).values;
}

RunSpec spec_of_groups(const std::string& optimizer, const Words& more) {
  Words words = {"train.rollout=1",
                 "train.optimizer=" + optimizer,
                 "train.momentum=0.9",
                 "train.lr=1e-3",
                 "train.weight_decay=0.1",
                 "train.steps=5",
                 "train.no_decay=[vectors, pos_embed]",
                 "train.lr_factors=['blocks.1=0.1', 'head=2']",
                 "train.ema=0.9"};
  words.insert(words.end(), more.begin(), more.end());
  return load_run_spec(source_dir() + "/tests/fixtures/rollout_fixture.yaml", words);
}

// Relative error over all ranks' parts, scaled by the distance that parameters moved
double off(const plan::Plan& plan, const std::string& name, const float* data, int64_t plan::Shard::*buffer,
           const comm::Mpi& mpi) {
  double error = 0, moved = 0;
  for (const plan::Param& p : plan.params) {
    if (p.name.ends_with(".k.bias")) continue;  // softmax ignores it: Adam follows rounding noise
    const std::vector<double>&now = group_values(name + "/" + p.name),
          &before = group_values("init/" + p.name);
    for (const inference::ElementRun& r : inference::kept_runs(plan, p, buffer))
      for (int64_t i = 0; i < r.count; ++i) {
        const double wanted = now.at(r.whole + i), is = data[r.offset + i];
        error += (is - wanted) * (is - wanted);
        moved += (wanted - before.at(r.whole + i)) * (wanted - before.at(r.whole + i));
      }
  }
  const std::vector<double> all = mpi.sum_of({error, moved});
  return std::sqrt(all[0] / all[1]);
}

std::vector<Words> layouts_of_groups(int ranks) {
  const std::string one = "policy.micro_batch=1";
  if (ranks == 1)
    return {{},
            {one},
            {"policy.zero=3", "policy.offload_parameters=true"},
            {"policy.offload_optimizer=true", "policy.bucket_mb=0.01"},
            {"policy.amp=bf16"}};
  if (ranks == 2)
    return {{"layout.dp=2"},
            {"layout.tp=2"},
            {"layout.pp=2", one},
            {"layout.dp=2", "policy.zero=1"},
            {"layout.dp=2", "policy.zero=2", one, "policy.bucket_mb=0.005"},
            {"layout.dp=2", "policy.zero=3"},
            {"layout.dp=2", "policy.zero=3", "policy.offload_optimizer=true"},
            {"layout.dp=2", "policy.zero=3", "policy.offload_parameters=true"},
            {"layout.dp=2", "policy.zero=3", "policy.offload_parameters=true",
             "policy.offload_optimizer=true", one, "policy.overlap=false"},
            {"layout.dp=2", "policy.zero=3", "policy.offload_parameters=true", "policy.amp=bf16"},
            {"layout.dp=2", "policy.zero=1", "policy.amp=bf16"}};
  return {{"layout.dp=2", "layout.tp=2", "policy.zero=3", "policy.sequence_parallel=true"},
          {"layout.dp=2", "layout.cp=2", "policy.zero=2"},
          {"layout.dp=4", "policy.zero=3", "policy.micro_batch=1", "policy.amp=bf16"}};
}

// Swapping average and weights twice restores both, and their copies.
TEST(Groups, AgreeWithPyTorchInEveryLayout) {
  omp_set_num_threads(1);
  const comm::Mpi& mpi = session();
  for (const std::string optimizer : {"adamw", "adam", "sgd"})
    for (const Words& layout : layouts_of_groups(mpi.size())) {
      std::string title = optimizer;
      for (const std::string& w : layout) title += " " + w;
      SCOPED_TRACE(title);
      try {
        const RunSpec spec = spec_of_groups(optimizer, layout);
        const bool sixteen = spec.policy.amp == Amp::bf16;
        InProcess run(spec, mpi, title);
        run.start_from(
            inference::SafetensorsReader(source_dir() + "/tests/fixtures/groups_fixture.safetensors"),
            "init/");
        run.begin_average();
        run.samples_from([&](const plan::BatchTensor& t, int64_t sample) {
          return group_values(t.name).data() + sample * t.sample;
        });
        for (int64_t step = 0; step < kGroupSteps; ++step) {
          const double wanted = group_values(optimizer + "/losses").at(step);
          EXPECT_LE(mpi.max_of(std::abs(run.step(step).loss / wanted - 1)), sixteen ? 2e-2 : 2e-6);
        }
        // Adam's first steps do not scale with the gradient, so small 16-bit gradients, mostly noise, move
        // weights as far as others.
        const double bound = sixteen ? (optimizer == "sgd" ? 2e-3 : 0.08) : 1e-4;
        const double weights = off(run.plan, optimizer, run.weights().params, &plan::Shard::params, mpi);
        EXPECT_LE(weights, bound);
        double average = 0;
        if (optimizer == "adamw") {
          average = off(run.plan, "adamw.ema", run.average(), &plan::Shard::moments, mpi);
          EXPECT_LE(average, bound);
        }
        if (mpi.rank() == 0)
          std::printf("%-80s weights %.1e, average %.1e\n", title.c_str(), weights, average);
        const std::vector<float> before = run.params();
        const std::vector<std::byte> copies = run.copies();
        run.exchange();
        EXPECT_NE(run.params(), before);
        if (!copies.empty()) EXPECT_NE(run.copies(), copies);
        run.exchange();
        EXPECT_EQ(run.params(), before);
        EXPECT_EQ(run.copies(), copies);
      } catch (const std::exception& error) {  // the other ranks wait for this one
        std::printf("FAILED on rank %d: %s in %s\n", mpi.rank(), error.what(), title.c_str());
        std::fflush(stdout);
        mpi.abort(1);
      }
    }
}

// Factors of one equal no groups at all.
TEST(Groups, OfFactorsOfOneChangeNothing) {
  if (session().size() > 1) GTEST_SKIP() << "on one rank";
  omp_set_num_threads(1);
  const auto trained = [](const Words& words) {
    const RunSpec spec = load_run_spec(source_dir() + "/tests/fixtures/rollout_fixture.yaml", words);
    InProcess run(spec, session(), words.back());
    for (int64_t step = 0; step < 3; ++step) run.step(step);
    return run.params();
  };
  const Words plain = {"train.rollout=1", "train.optimizer=adamw", "train.weight_decay=0.1", "train.lr=1e-3"};
  Words groups = plain;
  groups.insert(groups.end(), {"train.lr_factors=['blocks.1=1.0']"});
  EXPECT_EQ(trained(plain), trained(groups));
  groups.back() = "train.lr_factors=['blocks.1=1.01']";
  EXPECT_NE(trained(plain), trained(groups));
}

}  // namespace
}  // namespace isobar::engine
