// Results of a search can be run: it has the engine's rules.
#include <gtest/gtest.h>

#include <random>

#include "model/base/error.h"
#include "model/nets/layout/legal_layout.h"
#include "perfmodel/ask/search.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

TEST(SearchLegal, EveryLayoutThatIsOfferedCanBeRun) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto of = [&](std::initializer_list<const char*> list) {
    return *(list.begin() + random() % list.size());
  };
  const Machine machine = load_machine(source_dir() + "/configs/machines/dgx-h100.yaml");
  int offered = 0, zero_bubble = 0, divided = 0;
  for (int i = 0; i < 16; ++i) {
    const std::string model = i % 4 == 0 ? "mixtral-8x7b" : of({"vit-384", "gpt3-175b", "llama3-8b"});
    std::vector<std::string> set{std::string("policy.main_grads_dtype=") + of({"fp32", "bf16"}),
                                 std::string("policy.offload_optimizer=") + of({"true", "false"}),
                                 std::string("train.global_batch=") + of({"16", "24", "64"}),
                                 std::string("layout.dp=1"),
                                 "layout.tp=1",
                                 "layout.cp=1",
                                 "layout.pp=1",
                                 "layout.vpp=1",
                                 "policy.micro_batch=1",
                                 "policy.schedule=1f1b",
                                 "policy.recompute=full",
                                 std::string("policy.recompute_method=") + of({"uniform", "block"}),
                                 std::string("policy.recompute_num_layers=") + of({"1", "2"}),
                                 "policy.zero=0",
                                 "policy.sequence_parallel=false"};
    if (model != "vit-384") set.push_back(std::string("net.depth=") + of({"4", "6", "7"}));
    RunSpec spec = load_run_spec(source_dir() + "/configs/models/" + model + ".yaml", set);
    spec.layout.dp = 8;
    SearchOptions options;
    options.pareto = true;  // prices everything, and keeps much
    options.confirm = false;
    options.top = 50;
    if (random() % 2) options.space.schedules = {PipelineSchedule::zb_h1, PipelineSchedule::gpipe};
    const SearchResult r = search(spec, machine, options);
    for (const auto* list : {&r.best, &r.pareto})
      for (const LayoutCandidate& c : *list) {
        ++offered;
        divided += c.layout.ep > 1;
        zero_bubble += c.layout.schedule == PipelineSchedule::zb_h1;
        const RunSpec run = with_layout(spec, c.layout);
        EXPECT_NO_THROW(nets::check_layout(run))
            << model << " " << text_of(c.layout) << ", gradients " << name_of(spec.policy.main_grads_dtype);
      }
  }
  EXPECT_GT(offered, 100);
  EXPECT_GT(zero_bubble, 0);
  EXPECT_GT(divided, 0) << "experts among ranks";
}

}  // namespace
}  // namespace isobar::perf
