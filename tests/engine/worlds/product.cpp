// Run by mpiexec with 1 to 8 ranks: every layout of that world size, with each applicable cp kind, schedule,
// ZeRO stage and recompute mode, trains like one rank. Compares losses and gradient norms of every step on
// every rank (Adam hides a scaled gradient), and the final weights. fp32; only the order of sums may differ.
// All layouts run in one set of processes, with the components of `isobar train`.
//
// By default runs a pairwise-covering set; above four ranks, which share few cores, a random half of it.
// ISOBAR_PRODUCT_SECONDS=n runs the whole set and then others in random order until n seconds are over, 0:
// all. ISOBAR_PRODUCT_SEED repeats the order and random choices.
#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>

#include "tests/engine/worlds/trained.h"

namespace isobar::engine {
namespace {

using Words = std::vector<std::string>;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TEST(Product, OfAllLayoutsOfThisWorldTrainsLikeOneRank) {
  const comm::Mpi& mpi = session();
  omp_set_num_threads(1);
  const char* limit = std::getenv("ISOBAR_PRODUCT_SECONDS");
  const double seconds = limit ? std::stod(limit) : -1, begun = seconds_now();
  const uint32_t seed = seed_of_all("ISOBAR_PRODUCT_SEED");
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
    if (!limit && mpi.size() > 4 && (i + seed) % 2 == 1) continue;
    std::mt19937 drawn(seed + static_cast<uint32_t>(i));
    const Words net = net_of(all[i]);
    const Words words = words_of(all[i], drawn);
    const std::string text = text_of(words);
    const double t0 = seconds_now();
    if (mpi.rank() == 0) std::printf("%s\n", text.c_str()), std::fflush(stdout);
    try {
      const Trained& one = one_rank(kTiny, net, mpi);
      const Deviation d = compare(trained(load_run_spec(kTiny, words), mpi, text), one, mpi);
      ++ran;
      losses = std::max(losses, d.losses);
      norms = std::max(norms, d.norms);
      weights = std::max(weights, d.weights);
      const bool ok = d.losses < 1e-5 && d.norms < 1e-5 && d.weights < 1e-5 && d.whole &&
                      one.losses.back() < kLearnt * one.losses[0];
      if (!ok) ++failed;
      if (mpi.rank() != 0) continue;
      std::printf("%s losses %.1e norms %.1e weights %.1e %.2f s\n", ok ? "      " : "FAILED", d.losses,
                  d.norms, d.weights, seconds_now() - t0);
      std::fflush(stdout);
      EXPECT_LT(one.losses.back(), kLearnt * one.losses[0])
          << "nothing is learnt: nothing is tested. " << text;
      EXPECT_LT(d.losses, 1e-5) << text;
      EXPECT_LT(d.norms, 1e-5) << text;
      EXPECT_LT(d.weights, 1e-5) << text;
      EXPECT_TRUE(d.whole) << "weights that no rank holds: " << text;
    } catch (const std::exception& e) {  // the other ranks wait for this one
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
  EXPECT_GE(ran, !limit && mpi.size() > 4 ? pairs / 2 : pairs);
}

}  // namespace
}  // namespace isobar::engine
