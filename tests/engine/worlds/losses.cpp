// Run by mpiexec with 1, 2 or 4 ranks: losses weighted by variable, level and intensity against PyTorch in
// float64 (tests/fixtures/make_losses.py), under layouts of that world size: loss and every gradient.
#include <gtest/gtest.h>
#include <omp.h>

#include "model/base/error.h"
#include "model/inference/channel_loss.h"
#include "tests/engine/in_process.h"
#include "tests/worst.h"

namespace isobar::engine {
namespace {

using Words = std::vector<std::string>;

const std::string& losses_fixture() {
  static const std::string path = source_dir() + "/tests/fixtures/losses_fixture.safetensors";
  return path;
}

const std::vector<double>& loss_values(const std::string& name) {
  static const inference::TensorFile file = inference::read_safetensors(losses_fixture());
  return file.tensors.at(name).values;
}

struct LossCase {
  std::string name;
  Words words;
};

const std::vector<LossCase>& loss_cases() {
  static const std::vector<LossCase> all = {
      {"aurora",
       {"train.loss=mae", "train.loss_weighting=aurora", "train.variable_weights=['t2m=3.5', 'z=2']",
        "train.upper_weight=0.75", "train.data_weight=1.5"}},
      {"pressure",
       {"train.loss=mse", "train.loss_weighting=mean", "train.level_weights=pressure",
        "train.variable_weights=['t2m=2', 'z=1', 'z500=3', 'z850=3']"}},
      {"intense", {"train.loss=huber", "train.huber_delta=0.5", "train.intensity=['t2m>290=3']"}},
  };
  return all;
}

std::vector<inference::NetChannel> predicted_channels() {
  return {{"t2m", "K", 285, 8}, {"z500", "m2 s-2", 54000, 900}, {"z850", "m2 s-2", 14000, 500}};
}

std::vector<Words> layouts_of_losses(int ranks) {
  if (ranks == 1) return {{}, {"policy.micro_batch=1"}};
  if (ranks == 2)
    return {{"layout.dp=2"},
            {"layout.cp=2"},
            {"layout.tp=2", "policy.sequence_parallel=true"},
            {"layout.pp=2", "policy.micro_batch=2"}};
  return {{"layout.dp=2", "layout.cp=2", "policy.zero=3"}};
}

TEST(ChannelLosses, AgreeWithFloat64InEveryLayout) {
  omp_set_num_threads(1);
  const comm::Mpi& mpi = session();
  for (const LossCase& c : loss_cases())
    for (const Words& layout : layouts_of_losses(mpi.size())) {
      Words words = {"train.rollout=1", "data.variables=[t2m, 'z@500,850']"};
      for (const Words* more : {&c.words, &layout}) words.insert(words.end(), more->begin(), more->end());
      std::string title = c.name;
      for (const std::string& w : layout) title += " " + w;
      SCOPED_TRACE(title);
      try {
        RunSpec spec = load_run_spec(source_dir() + "/tests/fixtures/rollout_fixture.yaml", words);
        const TrainSpec weighted = inference::with_channel_loss(spec, predicted_channels());
        InProcess run(spec, mpi, title, &weighted);
        run.start_from(inference::SafetensorsReader(losses_fixture()), "init/");
        run.samples_from([&](const plan::BatchTensor& t, int64_t sample) {
          return loss_values(t.name).data() + sample * t.sample;
        });
        const double loss = run.step(0).loss;
        EXPECT_LE(mpi.max_of(std::abs(loss / loss_values(c.name + "/loss").at(0) - 1)), 1e-6);
        double error = 0, size = 0;
        for (const plan::Param& p : run.plan.params) {
          const std::vector<double>&before = loss_values("init/" + p.name),
                &gradient = loss_values(c.name + "/grad/" + p.name);
          for (const inference::ElementRun& r : inference::kept_runs(run.plan, p, &plan::Shard::params))
            for (int64_t i = 0; i < r.count; ++i) {
              const double now = run.weights().params[r.offset + i];
              const double g = (before.at(r.whole + i) - now) / spec.train.lr,
                           wanted = gradient.at(r.whole + i);
              error += (g - wanted) * (g - wanted), size += wanted * wanted;
            }
        }
        const std::vector<double> all = mpi.sum_of({error, size});
        EXPECT_LE(std::sqrt(all[0] / all[1]), 1e-5);
        if (mpi.rank() == 0)
          std::printf("%-70s loss %.1e, gradients %.1e\n", title.c_str(),
                      std::abs(loss / loss_values(c.name + "/loss").at(0) - 1), std::sqrt(all[0] / all[1]));
      } catch (const std::exception& e) {  // the other ranks wait for this one
        std::printf("FAILED on rank %d: %s in %s\n", mpi.rank(), e.what(), title.c_str());
        std::fflush(stdout);
        mpi.abort(1);
      }
    }
}

// Weights published with Aurora for 4 + 5 x 13 channels: surface 2t 3.5, 10u 0.77, 10v 0.66, msl 1.6; z 3.5,
// q 0.8, t 1.7, u 0.87, v 0.6 on every level; alpha 1/4, beta and gamma 1
TEST(ChannelLosses, AurorasAreThoseOfItsSource) {
  RunSpec spec = load_run_spec(
      source_dir() + "/configs/models/aurora-small.yaml",
      {"train.loss=mae", "train.loss_weighting=aurora",
       "train.variable_weights=['2t=3.5', '10u=0.77', '10v=0.66', 'msl=1.6', 'z=3.5', 'q=0.8', 't=1.7', "
       "'u=0.87', 'v=0.6']"});
  const std::vector<double> w = inference::with_channel_loss(spec, {}).loss_weights;
  const AuroraSpec& n = spec.net.aurora();
  ASSERT_EQ(static_cast<int64_t>(w.size()), n.fields());
  const double channels = static_cast<double>(w.size());
  EXPECT_NEAR(w.at(0), channels / 9 * 0.25 * 3.5, 1e-12);
  EXPECT_NEAR(w.at(3), channels / 9 * 0.25 * 1.6, 1e-12);
  for (int64_t i = 0; i < n.pressure_levels(); ++i)
    EXPECT_NEAR(w.at(4 + i), channels / 9 * 3.5 / static_cast<double>(n.pressure_levels()), 1e-12);
}

TEST(ChannelLosses, NamesThatAreNoneAreRefused) {
  const auto refused = [](const Words& words, const std::string& says) {
    Words all = {"train.rollout=1", "train.loss=mse"};
    all.insert(all.end(), words.begin(), words.end());
    try {
      inference::with_channel_loss(load_run_spec(source_dir() + "/tests/fixtures/rollout_fixture.yaml", all),
                                   predicted_channels());
      ADD_FAILURE() << words[0];
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  };
  refused({"train.variable_weights=[q=2]"}, "is no variable or channel");
  refused({"train.intensity=['tp>10=3']"}, "is no variable or channel");
  refused({"train.level_weights=pressure"}, "no channel has one");
  refused({"train.variable_weights=[t2m]"}, "no name with a weight");
  refused({"train.intensity=['t2m=3']"}, "threshold");
  refused({"train.variable_weights=[t2m=2]", "train.loss=relative-l2"}, "not for relative-l2");
  refused({"train.variable_weights=[t2m=2]", "train.loss_weights=[1, 1, 1]"}, "beside weights by name");
  refused({"train.surface_weight=1"}, "train.loss_weighting: aurora");
}

}  // namespace
}  // namespace isobar::engine
