// Random legal layouts with random policies, for combinations that no other test lists.
#include <random>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/nets/layout/legal_layout.h"
#include "tests/engine/worlds/layouts.h"
#include "tests/stages.h"

namespace isobar::engine {
namespace {

// layout.stages of that many chunks
std::string given_stages(std::mt19937& random, const TestNet& net, int64_t chunks) {
  const int64_t inner = nets::limits_of(load_run_spec(net.config, net.set)->net).inner_parts;
  std::string list;
  for (const int64_t n : test::random_stages(random, inner, chunks))
    list += (list.empty() ? "" : ",") + std::to_string(n);
  return "layout.stages=[" + list + "]";
}

// Settings of a random layout of this world with policies that are legal for this net.
Words random_legal(std::mt19937& random, const TestNet& net) {
  const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  for (;;) {
    const std::vector<std::string> sizes = {"1", "1", "2", "2", "3", "4", "5"};
    const std::string dp = pick(sizes), tp = pick(sizes), cp = pick(sizes), pp = pick(sizes);
    const int64_t world = std::stoll(dp) * std::stoll(tp) * std::stoll(cp) * std::stoll(pp);
    if (world != session().size()) continue;
    std::vector<std::string> axes = {"tp", "cp", "dp", "pp"};
    std::shuffle(axes.begin(), axes.end(), random);
    const std::string schedule =
        pp == "1" ? pick({"gpipe", "1f1b"}) : pick({"gpipe", "1f1b", "interleaved", "zb-h1"});
    const bool late = schedule == "zb-h1";  // zb-h1 needs activations and whole gradients
    const std::string recompute = late ? "none" : pick({"none", "selective", "full"});
    Words words = {
        "layout.dp=" + dp,
        "layout.tp=" + tp,
        "layout.cp=" + cp,
        "layout.pp=" + pp,
        std::string("layout.vpp=") + (schedule == "interleaved" ? "2" : "1"),
        "layout.order=" + axes[0] + "-" + axes[1] + "-" + axes[2] + "-" + axes[3],
        "policy.cp_kind=" + pick({"allgather", "ring", "ulysses"}),
        "policy.schedule=" + schedule,
        "policy.micro_batch=" + pick({"0", "1", "2"}),
        "policy.sequence_parallel=" + pick({"true", "false"}),
        "policy.recompute=" + recompute,
        "policy.recompute_method=" + (recompute == "full" ? pick({"uniform", "block"}) : "uniform"),
        "policy.recompute_num_layers=" + (recompute == "full" ? pick({"1", "2", "3"}) : "1"),
        "policy.zero=" + (late ? pick({"0", "1"}) : pick({"0", "1", "2", "3"})),
        "policy.offload_optimizer=" + pick({"true", "false", "false"}),
        "policy.bucket_mb=" + pick({"0.05", "25"}),
        "policy.overlap=" + pick({"true", "false"})};
    if (net.config == kMixtral.config) words.push_back("layout.ep=" + pick({"1", "2", "4"}));
    if (pp != "1" && pick({"cut", "given"}) == "given")
      words.push_back(given_stages(random, net, std::stoll(pp) * (schedule == "interleaved" ? 2 : 1)));
    try {
      const RunSpec spec = load_run_spec(net.config, net.set + words);
      nets::require_kernels(spec, nets::build_plan(spec, 0, {}));
      return words;
    } catch (const ConfigError&) {
    }
  }
}

void random_ones(const TestNet& net) {  // ISOBAR_RANDOM_LAYOUTS: number of layouts
  const char* wanted = std::getenv("ISOBAR_RANDOM_LAYOUTS");
  const uint32_t seed = seed_of_all("ISOBAR_RANDOM_SEED");
  for (uint32_t i = 0; i < (wanted ? std::stoul(wanted) : 1); ++i) {
    std::mt19937 random(seed + i);
    if (session().rank() == 0) std::printf("ISOBAR_RANDOM_SEED=%u ", seed + i);
    expect_like_one_rank(random_legal(random, net), net);
  }
}

TEST(Layouts, RandomLegalOnes) {
  random_ones(kVit);
}

TEST(LanguageTraining, IsTheSameInRandomLegalLayouts) {
  random_ones(kGpt);
  random_ones(kLlama);
  random_ones({kLlama.config, kLlama.set + Words{"net.sliding_window=0"}});
}

TEST(ExpertsTraining, IsTheSameInRandomLegalLayouts) {
  random_ones(kMixtral);
  random_ones(kDeepSeek);
}

TEST(AuroraTraining, IsTheSameInRandomLegalLayouts) {
  random_ones(tall_aurora());
}

TEST(SwinTraining, IsTheSameInRandomLegalLayouts) {
  random_ones(kSwin);
}

}  // namespace
}  // namespace isobar::engine
