// Communication of blocks, stages and replicas, counted on the wire and compared with closed forms that use
// only the net's sizes, not the plan.
#include <set>

#include "model/plan/layout.h"
#include "tests/engine/wire/wire.h"

namespace isobar::engine {
namespace {

// ----------------------------------------------------------------

struct Use {
  double calls = 0, bytes = 0;  // bytes by wire_bytes()
};

/// Calls with these names by one rank.
Use use_of(const Seen& seen, int rank, const std::set<std::string>& names) {
  Use use;
  for (const auto& [ranks, calls] : seen.channels)
    for (const std::string& call : calls) {
      if (!names.count(parse(call).name)) continue;
      ++use.calls;
      use.bytes += wire_bytes({ranks, {call}}, rank);
    }
  return use;
}

struct Form {
  Words layout;
  std::set<std::string> names;                             // calls made by blocks
  std::function<Use(const RunSpec& spec, int rank)> want;  // for each block and micro-batch
};

/// Two nets that differ by two blocks: the difference isolates the blocks from ends, gradients and metrics.
void expect_closed_form(const Form& f) {
  SCOPED_TRACE(testing::PrintToString(f.layout));
  std::vector<Counted> runs;
  RunSpec spec;
  for (const char* depth : {"net.depth=3", "net.depth=5"}) {
    const Words set = net_words(1) + Words{depth} + f.layout;
    spec = load_run_spec(tiny(), set);
    runs.push_back(count(spec, set));
    ASSERT_EQ(runs.back().ranks.size(), static_cast<size_t>(spec.layout.world()));
  }
  const auto times = static_cast<double>(2 * spec.micro_batches());
  for (int r = 0; r < spec.layout.world(); ++r) {
    const Use shallow = use_of(runs[0].ranks[r], r, f.names), deep = use_of(runs[1].ranks[r], r, f.names);
    const Use want = f.want(spec, r);
    EXPECT_DOUBLE_EQ((deep.calls - shallow.calls) / times, want.calls) << "rank " << r;
    EXPECT_NEAR((deep.bytes - shallow.bytes) / times, want.bytes, 1e-9 * want.bytes) << "rank " << r;
  }
}

/// Bytes of one micro-batch's activations at the net's width, for this number of tokens (-1: all).
double activations(const RunSpec& spec, int64_t tokens = -1, double element = 4) {
  return static_cast<double>(spec.micro_batch() * (tokens < 0 ? spec.net.tokens() : tokens) *
                             spec.net.vit().embed_dim) *
         element;
}

TEST_F(Wire, TensorParallelBlocksReduceTwiceEachWay) {
  for (const auto& [t, amp] : {std::pair{2, "none"}, {4, "bf16"}})
    expect_closed_form(
        {{"layout.tp=" + std::to_string(t), std::string("policy.amp=") + amp, "policy.micro_batch=6"},
         {"MPI_Iallreduce"},
         [](const RunSpec& spec, int) {
           const auto n = static_cast<double>(spec.layout.tp);
           const double element = spec.policy.amp == Amp::bf16 ? 2 : 4;
           return Use{4, 4 * 2 * (n - 1) / n * activations(spec, -1, element)};
         }});
}

TEST_F(Wire, SequenceParallelBlocksGatherSixAndScatterFourTimes) {
  expect_closed_form({{"layout.tp=2", "policy.sequence_parallel=true", "policy.micro_batch=4"},
                      {"MPI_Iallgatherv", "MPI_Ireduce"},
                      [](const RunSpec& spec, int) {  // a scatter is one reduction a rank
                        return Use{6 + 4 * 2, (6 + 4) * activations(spec) / 2};
                      }});
}

TEST_F(Wire, ContextParallelBlocksMoveTheirPublishedVolumes) {
  // keys and values are all-gathered; their gradients are one reduction a rank
  expect_closed_form({{"layout.cp=3", "policy.micro_batch=4"},
                      {"MPI_Iallgatherv", "MPI_Ireduce"},
                      [](const RunSpec& spec, int) {
                        return Use{1 + 3, 2 * 2.0 / 3 * 2 * activations(spec)};
                      }});
  const auto parts_of_rank = [](const RunSpec& spec, int rank) {
    const auto parts = plan::split_evenly(spec.net.tokens(), spec.layout.cp);
    return std::pair{parts[rank], parts[(rank + 1) % spec.layout.cp]};  // tokens of this rank and of the next
  };
  // keys and values travel cp - 1 times to the next rank in forward and backward, their gradients cp times
  expect_closed_form({{"layout.cp=3", "policy.cp_kind=ring", "policy.micro_batch=4"},
                      {"MPI_Isend"},
                      [&](const RunSpec& spec, int rank) {
                        const int64_t rest = spec.net.tokens() - parts_of_rank(spec, rank).second;
                        return Use{2 + 2 + 3, 2 * 2 * activations(spec, rest) + 2 * activations(spec)};
                      }});
  // queries, keys and values exchange heads for tokens; the output goes back; likewise in backward
  expect_closed_form(
      {{"layout.cp=4", "policy.cp_kind=ulysses", "policy.micro_batch=4"},
       {"MPI_Ialltoallv"},
       [&](const RunSpec& spec, int rank) {
         const int64_t own = parts_of_rank(spec, rank).first, others = spec.net.tokens() - own;
         return Use{2 + 2, 4 * (3.0 / 4 * activations(spec, own) + activations(spec, others) / 4)};
       }});
}

TEST_F(Wire, PipelinesSendEveryMicroBatchOnceAndDataParallelRanksSumEveryGradientOnce) {
  const Words pipeline = net_words(1) + Words{"layout.pp=3", "policy.micro_batch=2"};
  const RunSpec spec = load_run_spec(tiny(), pipeline);
  const Counted stages = count(spec, pipeline);
  ASSERT_EQ(stages.ranks.size(), 3u);
  for (int r = 0; r < 3; ++r) {  // forward to the next stage, backward to the previous
    const Use sent = use_of(stages.ranks[r], r, {"MPI_Isend"});
    const double neighbours = r == 1 ? 2 : 1;
    EXPECT_EQ(sent.calls, 6 * neighbours);
    EXPECT_EQ(sent.bytes, 6 * neighbours * activations(spec));
  }
  const Words replicas = net_words(2) + Words{"layout.dp=2", "policy.micro_batch=2", "policy.bucket_mb=0.05"};
  const Counted two = count(load_run_spec(tiny(), replicas), replicas);
  ASSERT_EQ(two.ranks.size(), 2u);
  const double parameters = two.record.start["parameters"].get<double>();
  for (int r = 0; r < 2; ++r)  // each of two ranks sends everything; loss and RMSE of 4 channels too
    EXPECT_EQ(use_of(two.ranks[r], r, {"MPI_Iallreduce"}).bytes, 2 * 4 * (parameters + 1 + 4));
}

// Ring volume: a fraction (n - 1)/n of all gradient bytes leaves a rank, twice for an all-reduce, once for a
// reduce-scatter or all-gather. With m micro-batches, ZeRO 1 scatters and gathers once a step, ZeRO 2
// scatters every micro-batch, and ZeRO 3 also gathers the weights for each forward and backward, except the
// embedding's, which backward does not read.
TEST_F(Wire, ShardedRanksMoveTheirPublishedVolumes) {
  const double m = 3;
  const std::set<std::string> names = {"MPI_Iallreduce", "MPI_Ireduce", "MPI_Iallgatherv"};
  for (const auto& [stage, times] : {std::pair{"0", 2.0}, {"1", 2.0}, {"2", m + 1}, {"3", 3 * m}}) {
    SCOPED_TRACE(stage);
    std::vector<Counted> runs;  // one step and two: the difference excludes the initial broadcast
    for (const int64_t steps : {1, 2}) {
      const Words set = net_words(steps) +
                        Words{"layout.dp=2", std::string("policy.zero=") + stage, "policy.micro_batch=2"};
      runs.push_back(count(load_run_spec(tiny(), set), set));
      ASSERT_EQ(runs.back().ranks.size(), 2u);
    }
    const double gradients = 4 * runs[0].record.start["parameters"].get<double>();
    const NetSpec net = load_run_spec(tiny(), net_words(1))->net;
    const int64_t embedding =
        net.vit().embed_dim *
        (net.vit().in_channels * net.vit().patch_size * net.vit().patch_size + 1 + net.tokens());
    const double unread = std::string(stage) == "3" ? m * 4 * static_cast<double>(embedding) : 0;
    for (int r = 0; r < 2; ++r)
      EXPECT_NEAR(use_of(runs[1].ranks[r], r, names).bytes - use_of(runs[0].ranks[r], r, names).bytes,
                  (times * gradients - unread) / 2, 200);  // padding, loss, RMSE and a norm
  }
}

}  // namespace
}  // namespace isobar::engine
