#include <algorithm>

#include "bench/micro/cases.h"
#include "model/engine/host/mpi_meeting.h"
#include "model/inference/arena.h"
#include "model/inference/weights/checkpoint.h"
#include "model/inference/weights/params.h"
#include "model/nets/build.h"
#include "perfmodel/step/checkpoint.h"

namespace isobar::micro {
namespace {

// Two sizes separate the fixed cost of a checkpoint from the cost of its bytes.
RunSpec specimen(int64_t embed_dim, int64_t ranks) {
  RunSpec s;
  s.file = "calibrate";
  s.net.vit().embed_dim = embed_dim;
  s.net.vit().num_heads = 4;
  s.net.vit().depth = 4;
  s.net.vit().img_height = 32;
  s.net.vit().img_width = 64;
  s.net.vit().in_channels = s.net.vit().out_channels = 4;
  s.layout.dp = ranks;
  s.train.global_batch = ranks;
  s.policy.zero = ranks > 1 ? 1 : 0;  // every rank writes
  return s;
}

struct CheckpointBench {  // a rank's parameters and moments as in a run
  CheckpointBench(RunSpec of, int rank)
      : spec(std::move(of)), plan(nets::build_plan(spec, rank, {})), arena(plan.memory.arena) {
    inference::init_params(plan, 1, at(plan.params_all));
    std::fill_n(at(plan.adam_m), plan.adam_m.count, 0.125f);
    std::fill_n(at(plan.adam_v), plan.adam_v.count, 0.25f);
  }
  float* at(const plan::View& v) const {
    return reinterpret_cast<float*>(arena.data() + plan.buffers[v.buffer].offset) + v.offset;
  }
  RunSpec spec;
  plan::Plan plan;
  inference::Arena arena;
  int64_t saved = 0;
};

}  // namespace

void register_checkpoint_cases(const std::filesystem::path& scratch, const comm::Mpi& mpi) {
  struct Size {
    int64_t embed_dim, iterations;  // the same on every rank
  };
  for (const auto& [embed_dim, iterations] : {Size{32, 3}, Size{256, 1}}) {
    const auto bench = std::make_shared<CheckpointBench>(specimen(embed_dim, mpi.size()), mpi.rank());
    const double bytes =
        perf::checkpoint_bytes(bench->spec, static_cast<double>(bench->plan.parameter_count()));
    const std::string name =
        "checkpoint/f32/" + std::to_string(std::llround(bytes)) + "B/ranks" + std::to_string(mpi.size());
    register_case(name,
                  [bench, bytes, scratch, &mpi](benchmark::State& state) {
                    const CheckpointBench& b = *bench;
                    mpi.barrier();
                    for (auto _ : state)
                      inference::save_checkpoint(
                          scratch, b.plan, b.at(b.plan.params_all), b.at(b.plan.adam_m), b.at(b.plan.adam_v),
                          {.train = {.step = ++bench->saved}, .spec = b.spec}, engine::meeting_of(mpi));
                    if (mpi.rank() == 0) std::filesystem::remove_all(scratch);
                    mpi.barrier();
                    state.counters["ops"] = 1;
                    state.counters["bytes"] = bytes;
                    state.counters["threads"] = 1;
                    state.counters["ranks"] = mpi.size();
                  })
        ->Iterations(iterations)
        ->Repetitions(3)
        ->UseRealTime();
  }
}

}  // namespace isobar::micro
