// Run by mpiexec with 1 to 8 ranks: random layouts in every precision. Each rank computes in exactly the
// predicted bytes, without any access beyond them, and uses all of them. ISOBAR_PRODUCT_SEED repeats the
// random choices.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "perfmodel/ask/predict.h"
#include "tests/engine/in_process.h"
#include "tests/engine/worlds/product.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

constexpr int kLayouts = 7;  // for each world size from 1 to 8

TEST(ProductMemory, OfEveryRankOfRandomLayoutsIsThePredictedOne) {
  const comm::Mpi& mpi = session();
  omp_set_num_threads(1);
  const uint32_t seed = seed_of_all("ISOBAR_PRODUCT_SEED");
  const perf::Machine machine = perf::load_machine(source_dir() + "/configs/machines/local.yaml");
  const std::vector<Choice> all = product_of(mpi.size());
  for (int i = 0; i < kLayouts; ++i) {
    std::mt19937 random(seed + static_cast<uint32_t>(i));
    const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
    const Choice choice = all[random() % all.size()];
    std::vector<std::string> words = words_of(choice, random);
    words.push_back("policy.amp=" + pick({"none", "tf32", "bf16", "fp16"}));
    words.push_back("policy.main_grads_dtype=" + (choice.zero_bubble() ? "fp32" : pick({"fp32", "bf16"})));
    const std::string title =
        "seed " + std::to_string(seed + static_cast<uint32_t>(i)) + ": " + text_of(words);
    if (mpi.rank() == 0) std::printf("%s\n", title.c_str()), std::fflush(stdout);
    try {
      const RunSpec spec = load_run_spec(kTiny, words);
      // Rank 0 predicts for all ranks, which compare their plans with it.
      std::string predicted;
      int64_t fullest = 0;
      for (int rank = 0; rank < mpi.size() && mpi.rank() == 0; ++rank) {
        const plan::Memory m = nets::build_plan(spec, rank, cpu_workspace(1)).memory;
        predicted += std::to_string(m.arena) + "+" + std::to_string(m.host) + " ";
        fullest = std::max(fullest, m.total());
      }
      predicted = mpi.from_first(predicted);
      InProcess run(spec, mpi, title);
      bool finite = true;
      for (int step = 0; step < 2; ++step) finite &= std::isfinite(run.step(step).loss);
      std::string own;
      for (int rank = 0; rank < mpi.size(); ++rank) {
        const std::vector<double> bytes =
            mpi.sum_of(rank == mpi.rank() ? std::vector<double>{static_cast<double>(run.plan.memory.arena),
                                                                static_cast<double>(run.plan.memory.host)}
                                          : std::vector<double>{0, 0});
        own += std::to_string(static_cast<int64_t>(bytes[0])) + "+" +
               std::to_string(static_cast<int64_t>(bytes[1])) + " ";
      }
      const Idle idle = run.idle();
      const double scratch = mpi.max_of(static_cast<double>(idle.scratch - idle.excused)),
                   saved = mpi.max_of(static_cast<double>(idle.saved)), wrong = mpi.max_of(finite ? 0 : 1);
      if (mpi.rank() != 0) continue;
      EXPECT_EQ(own, predicted) << title;
      EXPECT_LT(scratch, 0) << "more scratch is planned than used by " << title;
      EXPECT_LT(saved, kSlack) << "more activations are planned than used by " << title;
      EXPECT_EQ(wrong, 0) << "a loss is no number under " << title;
      const perf::Prediction p =
          perf::predict(spec, machine, {.host = {.threads = 1}, .workspace = cpu_workspace});
      const int64_t peak = p.memory_total - static_cast<int64_t>(machine[perf::Coef::process].value);
      EXPECT_EQ(peak, fullest) << title;
    } catch (const std::exception& e) {  // the other ranks wait for this one
      std::printf("FAILED on rank %d: %s under %s\n", mpi.rank(), e.what(), title.c_str());
      std::fflush(stdout);
      mpi.abort(1);
    }
  }
}

}  // namespace
}  // namespace isobar::engine
