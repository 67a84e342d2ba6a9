// Like product.cpp for an mlp, with dp and pp, every schedule, ZeRO stage and recompute mode; also in bf16.
// Every other net classifies with dropout, which must drop the same elements under any layout.
#include <gtest/gtest.h>
#include <omp.h>

#include "tests/engine/worlds/trained.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

const std::string kMlp = source_dir() + "/configs/models/mlp-emulator.yaml";

// One part more than chunks, some equal; every step uses all samples.
std::vector<std::string> mlp_for(const Choice& c, int batch, const std::string& amp, bool classes) {
  const int chunks = c[Choice::kPp] * (c.interleaved() ? 2 : 1);
  std::string hidden;
  for (int i = 0; i < std::max(5, chunks + 2); ++i)
    hidden += (i == 0 ? "" : ",") + std::string(i % 4 == 3 ? "7" : "12");
  return {"net.in_features=6",
          "net.out_features=3",
          "net.hidden=[" + hidden + "]",
          "net.activation=silu",
          classes ? "train.loss=cross_entropy" : "train.loss=mse",
          classes ? "net.dropout=0.05" : "net.dropout=0",
          "train.global_batch=" + std::to_string(batch),
          "train.steps=" + std::to_string(kSteps),
          classes ? "train.lr=1e-2" : "train.lr=3e-3",
          "train.lr_scaling=none",
          "train.seed=5",
          "policy.amp=" + amp,
          "run.threads=1"};
}

TEST(Product, OfAnMlpsLayoutsOfThisWorldTrainsLikeOneRank) {
  const comm::Mpi& mpi = session();
  omp_set_num_threads(1);
  const uint32_t seed = seed_of_all("ISOBAR_PRODUCT_SEED");
  std::mt19937 random(seed);
  std::vector<Choice> all = product_of(mpi.size());
  std::erase_if(all, [](const Choice& c) { return c[Choice::kTp] * c[Choice::kCp] > 1; });
  const size_t pairs = covering_first(all, random);
  const int batch = static_cast<int>(InProcess::kSamples) * mpi.size();
  double losses[2] = {}, norms[2] = {}, weights[2] = {};  // in fp32, in bf16
  for (size_t i = 0; i < pairs; ++i) {
    const bool half = i % 4 == 3;
    const std::vector<std::string> net = mlp_for(all[i], batch, half ? "bf16" : "none", i % 3 == 1);
    std::vector<std::string> words = net;
    for (std::string& word : layout_words(all[i], batch, random)) words.push_back(std::move(word));
    const std::string text = text_of(words);
    if (mpi.rank() == 0) std::printf("%s\n", text.c_str()), std::fflush(stdout);
    try {
      const Trained& one = one_rank(kMlp, net, mpi);
      const Deviation d = compare(trained(load_run_spec(kMlp, words), mpi, text), one, mpi);
      // In 16 bits a weight between two representable values may round either way.
      const double most = half ? 2e-3 : 1e-5;
      losses[half] = std::max(losses[half], d.losses);
      norms[half] = std::max(norms[half], d.norms);
      weights[half] = std::max(weights[half], d.weights);
      if (mpi.rank() != 0) continue;
      EXPECT_LT(one.losses.back(), kLearnt * one.losses[0])
          << "nothing is learnt: nothing is tested. " << text;
      EXPECT_LT(d.losses, most) << text;
      EXPECT_LT(d.norms, 5 * most) << text;
      EXPECT_LT(d.weights, most) << text;
      EXPECT_TRUE(d.whole) << "weights that no rank holds: " << text;
    } catch (const std::exception& e) {  // the other ranks wait for this one
      std::printf("FAILED on rank %d: %s under %s\n", mpi.rank(), e.what(), text.c_str());
      std::fflush(stdout);
      mpi.abort(1);
    }
  }
  if (mpi.rank() == 0)
    std::printf(
        "%d ranks: %zu of %zu layouts of an mlp (seed %u); largest deviations of fp32: losses %.1e, norms "
        "%.1e, weights %.1e; of bf16: %.1e, %.1e, %.1e\n",
        mpi.size(), pairs, all.size(), seed, losses[0], norms[0], weights[0], losses[1], norms[1],
        weights[1]);
}

}  // namespace
}  // namespace isobar::engine
