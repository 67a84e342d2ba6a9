#include "model/backend/cuda/executor.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <stdexcept>

namespace isobar::cuda {
namespace {

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

constexpr int kStagingAhead = 2;  // buffers that the host fills ahead of the device, without graphs

void grow(std::vector<Event>& events, size_t count, bool timed) {
  events.reserve(count);
  while (events.size() < count) events.emplace_back(timed);
}

}  // namespace

DeviceExecutor::Kept::Kept(const Program& program) : order(program) {}

DeviceExecutor::Kept::~Kept() {
  if (exec) cudaGraphExecDestroy(exec);
  if (graph) cudaGraphDestroy(graph);
}

DeviceExecutor::DeviceExecutor(const Plan& plan, CudaBackend& backend, DeviceComm* comm,
                               const Streams& streams, const ExecutorOptions& options)
    : plan_(plan),
      backend_(backend),
      comm_(comm),
      streams_(streams),
      options_(options),
      times_(plan.ops.size()),
      timed_begin_(true) {}

DeviceExecutor::~DeviceExecutor() = default;

void DeviceExecutor::reset_op_times() {
  std::fill(times_.begin(), times_.end(), OpTime{});
}

void DeviceExecutor::keep(const Program& program) {
  auto kept = std::make_unique<Kept>(program);
  for (const Instr& i : program.instrs) kept->fetches += plan_.ops[i.op].kind == OpKind::fetch ? 1 : 0;
  // A graph copies from as many buffers as it has fetches.
  backend_.reserve_staging(options_.graphs ? kept->fetches : std::min(kept->fetches, kStagingAhead));
  kept_[&program] = std::move(kept);
}

std::string DeviceExecutor::now_running() const {
  const int32_t op = current_.load(std::memory_order_relaxed);
  if (op >= 0) return plan_.ops[static_cast<size_t>(op)].path + " (being enqueued)";
  if (!waiting_.load(std::memory_order_relaxed)) return "idle";
  std::string busy;
  for (int lane = 0; lane < kLanes; ++lane)
    if (cudaStreamQuery(streams_[static_cast<Lane>(lane)]) == cudaErrorNotReady)
      busy += std::string(busy.empty() ? "" : ", ") + name_of(static_cast<Lane>(lane));
  return "the device, lanes that are not done: " + (busy.empty() ? "none" : busy);
}

// ---- a run ----

void DeviceExecutor::operator()(const Program& program, int32_t step) {
  const auto at = kept_.find(&program);
  std::unique_ptr<Kept> once;
  if (at == kept_.end()) once = std::make_unique<Kept>(program);
  Kept& kept = once ? *once : *at->second;
  if (backend_.staging() == 0) backend_.reserve_staging(1);
  const int64_t began = now_ns();
  if (options_.graphs && !once && kept.runs > 0 && recorder_ == nullptr) {
    if (!kept.exec) capture(program, kept, step);
    replay(program, kept, step);
  } else {
    enqueue(program, kept.order, step, recorder_ ? Mode::timed : Mode::enqueue);
  }
  wait(kept.order);
  if (recorder_) read_times(program, kept.order, step, began);
  ++kept.runs;
}

// All lanes begin behind the compute stream, where uploads are.
void DeviceExecutor::fork(const StreamOrder& order) {
  const cudaStream_t compute = streams_[Lane::compute];
  ISOBAR_CUDA(cudaEventRecord(begin_.get(), compute));
  for (int lane = 1; lane < kLanes; ++lane)
    if (order.used[static_cast<size_t>(lane)])
      ISOBAR_CUDA(cudaStreamWaitEvent(streams_[static_cast<Lane>(lane)], begin_.get(), 0));
}

void DeviceExecutor::join(const StreamOrder& order) {
  for (int lane = 1; lane < kLanes; ++lane) {
    if (!order.used[static_cast<size_t>(lane)]) continue;
    const Event& end = lane_end_[static_cast<size_t>(lane)];
    ISOBAR_CUDA(cudaEventRecord(end.get(), streams_[static_cast<Lane>(lane)]));
    ISOBAR_CUDA(cudaStreamWaitEvent(streams_[Lane::compute], end.get(), 0));
  }
}

void DeviceExecutor::enqueue(const Program& program, const StreamOrder& order, int32_t step, Mode mode) {
  grow(events_, static_cast<size_t>(order.events), false);
  if (mode == Mode::timed) {
    grow(timed_, 2 * program.instrs.size(), true);
    ISOBAR_CUDA(cudaEventRecord(timed_begin_.get(), streams_[Lane::compute]));
  }
  fork(order);
  int fetched = 0;
  for (const Enqueue& e : order.list) {
    const Instr& instr = program.instrs[static_cast<size_t>(e.instr)];
    const cudaStream_t stream = streams_[e.lane];
    current_.store(instr.op, std::memory_order_relaxed);
    for (const int32_t event : e.waits)
      ISOBAR_CUDA(cudaStreamWaitEvent(stream, events_[static_cast<size_t>(event)].get(), 0));
    if (mode == Mode::timed)
      ISOBAR_CUDA(cudaEventRecord(timed_[2 * static_cast<size_t>(e.instr)].get(), stream));
    if (observer_) observer_->begin_op(program, e.instr, step, stream);
    launch(instr, stream, mode, fetched);
    if (observer_) observer_->end_op(program, e.instr, step, stream);
    if (mode == Mode::timed)
      ISOBAR_CUDA(cudaEventRecord(timed_[2 * static_cast<size_t>(e.instr) + 1].get(), stream));
    if (e.event >= 0) ISOBAR_CUDA(cudaEventRecord(events_[static_cast<size_t>(e.event)].get(), stream));
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  current_.store(-1, std::memory_order_relaxed);
}

void DeviceExecutor::launch(const Instr& instr, cudaStream_t stream, Mode mode, int& fetched) {
  const Op& op = plan_.ops[static_cast<size_t>(instr.op)];
  if (op.kind == OpKind::fetch) {
    const int index = fetched++ % backend_.staging();
    if (mode == Mode::capture) return backend_.copy_staged(op, instr.slot, index, stream);
    backend_.fill_staging(op, instr.micro, index);
    backend_.copy_staged(op, instr.slot, index, stream);
    return backend_.staging_in_use(index, stream);
  }
  if (!is_collective(op.kind)) return backend_.launch_on(op, instr.micro, instr.slot, stream);
  if (!comm_) throw std::logic_error(op.path + ": there is nobody to communicate with");
  const View in = op.reads.empty() ? View{} : op.reads[0];
  const View out = op.writes.empty() ? View{} : op.writes[0];
  comm_->launch(op, in ? backend_.at(in, instr.slot) : nullptr, in.count,
                out ? backend_.at(out, instr.slot) : nullptr, out.count,
                plan_.buffers[static_cast<size_t>((in ? in : out).buffer)].dtype, stream);
}

// ---- graphs ----

void DeviceExecutor::capture(const Program& program, Kept& kept, int32_t step) {
  const cudaStream_t compute = streams_[Lane::compute];
  ISOBAR_CUDA(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
  try {
    enqueue(program, kept.order, step, Mode::capture);
    join(kept.order);
  } catch (...) {
    cudaGraph_t broken = nullptr;
    cudaStreamEndCapture(compute, &broken);  // the error that is on its way says more than this one would
    if (broken) cudaGraphDestroy(broken);
    cudaGetLastError();
    throw;
  }
  ISOBAR_CUDA(cudaStreamEndCapture(compute, &kept.graph));
  ISOBAR_CUDA(cudaGraphInstantiate(&kept.exec, kept.graph, cudaGraphInstantiateFlagUseNodePriority));
  if (observer_) observer_->captured(program, kept.graph, kept.exec);
}

void DeviceExecutor::replay(const Program& program, const Kept& kept, int32_t step) {
  int fetched = 0;
  for (const Instr& instr : program.instrs) {
    const Op& op = plan_.ops[static_cast<size_t>(instr.op)];
    if (op.kind != OpKind::fetch) continue;
    current_.store(instr.op, std::memory_order_relaxed);
    backend_.fill_staging(op, instr.micro, fetched++);
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  current_.store(-1, std::memory_order_relaxed);
  const cudaStream_t compute = streams_[Lane::compute];
  if (observer_) observer_->begin_graph(program, step, compute);
  ISOBAR_CUDA(cudaGraphLaunch(kept.exec, compute));
  if (observer_) observer_->end_graph(program, step, compute);
  ++replays_;
}

// ---- afterwards ----

void DeviceExecutor::wait(const StreamOrder& order) {
  waiting_.store(true, std::memory_order_relaxed);
  const int64_t began = now_ns();
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane > 0 && !order.used[static_cast<size_t>(lane)]) continue;
    const cudaStream_t stream = streams_[static_cast<Lane>(lane)];
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream);
      if (state == cudaSuccess) break;
      if (state != cudaErrorNotReady) check(state, "waiting for the device", __FILE__, __LINE__);
      if (comm_) comm_->check();
      if (now_ns() - began < 2'000'000) {
        sched_yield();
      } else {  // leaves the core to the loader's threads
        const timespec turn{0, 20000};
        nanosleep(&turn, nullptr);
      }
    }
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  waiting_.store(false, std::memory_order_relaxed);
}

void DeviceExecutor::read_times(const Program& program, const StreamOrder& order, int32_t step,
                                int64_t began_ns) {
  const auto since_begin = [&](size_t event) {
    float ms = 0;
    ISOBAR_CUDA(cudaEventElapsedTime(&ms, timed_begin_.get(), timed_[event].get()));
    return static_cast<int64_t>(static_cast<double>(ms) * 1e6);
  };
  const int64_t origin = began_ns - recorder_->origin_ns();
  for (const Enqueue& e : order.list) {
    const Instr& instr = program.instrs[static_cast<size_t>(e.instr)];
    const int64_t t0 = since_begin(2 * static_cast<size_t>(e.instr));
    const int64_t t1 = since_begin(2 * static_cast<size_t>(e.instr) + 1);
    OpTime& t = times_[static_cast<size_t>(instr.op)];
    ++t.count;
    t.seconds += static_cast<double>(t1 - t0) * 1e-9;
    recorder_->record(instr.lane, step, e.instr, instr.op, instr.micro, origin + t0, origin + t1);
  }
}

}  // namespace isobar::cuda
