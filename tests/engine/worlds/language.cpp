// GPT with tied tables, learned positions and dropout, Llama with RMSNorm, SwiGLU, rotary positions and
// grouped queries, under every axis, train like one rank.
#include "tests/engine/worlds/layouts.h"

namespace isobar::engine {
namespace {

const std::initializer_list<TestNet> kBoth = {kGpt, kLlama};
const TestNet kNoWindow{kLlama.config, kLlama.set + Words{"net.sliding_window=0"}};

void language_like_one_rank(const Words& layout) {
  for (const TestNet& net : kBoth) expect_like_one_rank(layout, net);
}

TEST(LanguageTraining, OneRankLearns) {
  for (const TestNet& net : kBoth) {
    EXPECT_NEAR(one_rank(net).losses[0], std::log(300), 0.1) << "the padding of the vocabulary takes part";
    expect_learns(net, 0.99);
  }
}

TEST(LanguageTraining, InMicroBatchesAndWithRecomputation) {
  language_like_one_rank({"policy.micro_batch=3"});
  language_like_one_rank({"policy.recompute=selective"});
  language_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=2", "policy.micro_batch=4"});
}

TEST(LanguageTraining, InTensorParallel) {
  language_like_one_rank({"layout.tp=2"});
  language_like_one_rank({"layout.tp=2", "policy.sequence_parallel=true", "policy.micro_batch=1"});
  expect_like_one_rank({"layout.tp=4", "policy.micro_batch=4", "policy.recompute=full"}, kGpt);
}

TEST(LanguageTraining, InContextParallel) {
  language_like_one_rank({"layout.cp=2"});
  language_like_one_rank({"layout.cp=3", "policy.micro_batch=4", "policy.recompute=selective"});
  language_like_one_rank({"layout.cp=2", "policy.cp_kind=ulysses", "policy.micro_batch=4"});
}

// Ranks have tokens from the begin and from the end of each sample.
TEST(LanguageTraining, InZigZag) {
  for (const TestNet& net : {kGpt, kNoWindow})
    for (const char* kind : {"policy.cp_kind=ring", "policy.cp_kind=allgather"}) {
      expect_like_one_rank({"layout.cp=2", kind, "policy.micro_batch=1"}, net);
      expect_like_one_rank({"layout.cp=2", kind, "policy.micro_batch=4"}, net);
      expect_like_one_rank({"layout.cp=3", kind, "policy.micro_batch=4", "policy.recompute=selective"}, net);
      expect_like_one_rank({"layout.cp=4", kind, "policy.micro_batch=3"}, net);
      expect_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", kind, "policy.micro_batch=3",
                            "policy.sequence_parallel=true", "policy.recompute=full"},
                           net);
    }
}

TEST(LanguageTraining, InPipelines) {
  language_like_one_rank({"layout.pp=2", "policy.micro_batch=2"});
  language_like_one_rank(
      {"layout.pp=2", "layout.vpp=2", "policy.micro_batch=3", "policy.schedule=interleaved"});
  language_like_one_rank({"layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"});
}

TEST(LanguageTraining, InShards) {
  for (const char* zero : {"policy.zero=1", "policy.zero=2", "policy.zero=3"}) {
    expect_like_one_rank({"layout.dp=2", zero, "policy.micro_batch=2", "policy.bucket_mb=0.05"}, kGpt);
    expect_like_one_rank(
        {"layout.dp=2", "layout.tp=2", zero, "policy.sequence_parallel=true", "policy.micro_batch=3"},
        kLlama);
  }
}

TEST(LanguageTraining, InAllAxesAtOnce) {
  language_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.sequence_parallel=true",
                          "policy.micro_batch=3", "policy.recompute=full"});
}

}  // namespace
}  // namespace isobar::engine
