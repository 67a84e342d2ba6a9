#include <benchmark/benchmark.h>

#include <algorithm>

#include "bench/micro/cases.h"
#include "bench/micro/device/cases.h"
#include "model/backend/cuda/kernels/kernels.h"
#include "model/comm/nccl/nccl_comm.h"
#include "model/plan/builder.h"
#include "model/plan/link.h"
#include "model/plan/ops/operands.h"
#include "model/plan/ops/work.h"

namespace isobar::micro {
namespace {

constexpr double kTimeout = 60;  // seconds until a communicator must exist
constexpr int kWarmup = 5;

// One collective over all ranks as a plan contains it. `bytes` follows nccl-tests: the larger of a rank's
// send and receive buffers.
struct Transfer {
  Transfer(const comm::Mpi& mpi, plan::OpKind kind, int64_t bytes)
      : plan(plan_of(mpi, kind, bytes)), bootstrap(plan.groups) {}

  static plan::Plan plan_of(const comm::Mpi& mpi, plan::OpKind kind, int64_t bytes) {
    plan::Builder b(mpi.rank(), mpi.size(), {});
    std::vector<int> ranks(mpi.size());
    for (int r = 0; r < mpi.size(); ++r) ranks[r] = r;
    const int group = b.group("all", ranks);
    const int64_t whole = bytes / 4 / mpi.size() * mpi.size(), part = whole / mpi.size();
    const plan::View x = b.io("x", DType::f32, whole), y = b.io("y", DType::f32, whole);
    const int routine = b.begin("transfer", plan::Pass::backward);
    const bool in_place = kind == plan::OpKind::all_reduce || kind == plan::OpKind::broadcast;
    b.emit(kind, "transfer", plan::TransferAttrs{.group = group},
           {kind == plan::OpKind::all_gather ? x.slice(0, part) : x},
           {in_place                               ? x
            : kind == plan::OpKind::reduce_scatter ? y.slice(0, part)
                                                   : y},
           plan::Lane::dp);
    b.end();
    b.plan.train = {{routine, 0, 0}};
    plan::place(b.plan);
    return std::move(b.plan);
  }
  const plan::Plan plan;
  comm::Comm bootstrap;
};

}  // namespace

void register_nccl_cases(const comm::Mpi& mpi) {
  const bool shared = comm::any_two_share_a_device(mpi);
  for (const plan::OpKind kind :
       {plan::OpKind::all_reduce, plan::OpKind::all_gather, plan::OpKind::reduce_scatter,
        plan::OpKind::all_to_all, plan::OpKind::broadcast, plan::OpKind::exchange})
    for (int64_t bytes = 4096; bytes <= (shared ? int64_t{4} << 20 : int64_t{256} << 20); bytes *= 16) {
      const std::string name = std::string(plan::name_of(kind)) + "/f32/" + std::to_string(bytes) +
                               "B/ranks" + std::to_string(mpi.size()) + (shared ? "/shared-gpu" : "");
      register_case(name,
                    [&mpi, kind, bytes, shared](benchmark::State& state) {
                      Transfer t(mpi, kind, bytes);
                      comm::NcclComm nccl(t.plan.groups, mpi.rank(), shared, t.bootstrap, kTimeout);
                      cuda::DeviceArena arena(t.plan.memory.arena);
                      const cuda::Streams streams;
                      const cudaStream_t stream = streams[plan::Lane::dp];
                      cuda::fill_noise(arena.bytes(), arena.data(), stream);
                      const plan::Op& op = t.plan.ops.at(0);
                      const plan::View &in = plan::transfer_source(op), &out = plan::transfer_target(op);
                      const auto launch = [&] {
                        nccl.launch(op, arena.data() + plan::address(t.plan, in, 0).first, in.count,
                                    arena.data() + plan::address(t.plan, out, 0).first, out.count, nullptr,
                                    DType::f32, stream);
                      };
                      const auto finish = [&] {
                        while (cudaStreamQuery(stream) == cudaErrorNotReady) nccl.check();
                        ISOBAR_CUDA(cudaStreamSynchronize(stream));
                      };
                      for (int i = 0; i < kWarmup; ++i) launch();
                      finish();
                      const cuda::Event begin(true), end(true);
                      constexpr int kLaunches = 10;
                      double least = 0;
                      for (auto _ : state) {
                        mpi.barrier();
                        ISOBAR_CUDA(cudaEventRecord(begin.get(), stream));
                        for (int i = 0; i < kLaunches; ++i) launch();
                        ISOBAR_CUDA(cudaEventRecord(end.get(), stream));
                        finish();
                        float ms = 0;
                        ISOBAR_CUDA(cudaEventElapsedTime(&ms, begin.get(), end.get()));
                        const double seconds =
                            mpi.max_of(static_cast<double>(ms) * 1e-3 / kLaunches);  // the slowest rank
                        state.SetIterationTime(seconds);
                        least = least > 0 ? std::min(least, seconds) : seconds;
                      }
                      const plan::Work w = plan::work(op, t.plan);
                      state.counters["ops"] = 1;
                      state.counters["wire_bytes"] = w.wire_bytes;
                      state.counters["messages"] = w.messages;
                      state.counters["ranks"] = mpi.size();
                      // busbw of nccl-tests: bytes on one rank's link, independent of the number of ranks
                      state.counters["busbw_bytes_per_s"] = w.wire_bytes / least;
                    })
          ->Iterations(5)  // the same on every rank
          ->Repetitions(2)
          ->UseManualTime();
    }
}

}  // namespace isobar::micro
