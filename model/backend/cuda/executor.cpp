#include "model/backend/cuda/executor.h"
#include "model/plan/ops/operands.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace isobar::cuda {
namespace {

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

constexpr int kFilledAhead = 2;  // pinned buffers that the host fills ahead of the device, without graphs

// Landing buffers are outside the arena: at most a sixteenth of the device's memory, and half of the free
// rest.
int64_t most_for_landing(int64_t keep_free) {
  size_t free = 0, total = 0;
  ISOBAR_CUDA(cudaMemGetInfo(&free, &total));
  return std::min(static_cast<int64_t>(total / 16),
                  std::max<int64_t>(0, static_cast<int64_t>(free) - keep_free) / 2);
}

void grow(std::vector<Event>& events, size_t count, bool timed) {
  events.reserve(count);
  while (events.size() < count) events.emplace_back(timed);
}

}  // namespace

// Waits of ops fused into products move to the products.
static StreamOrder order_of(const CudaBackend& backend, const plan::Program& program) {
  if (backend.fusions().empty()) return StreamOrder(program);
  plan::Program as_run = program;
  plan::relink(backend.as_run(), as_run);
  return StreamOrder(as_run);
}

DeviceExecutor::Kept::Kept(const CudaBackend& backend, const plan::Program& program)
    : order(order_of(backend, program)) {}

DeviceExecutor::Kept::~Kept() {
  for (cudaGraphExec_t e : exec)
    if (e) cudaGraphExecDestroy(e);
  for (cudaGraph_t g : graph)
    if (g) cudaGraphDestroy(g);
}

DeviceExecutor::DeviceExecutor(const plan::Plan& plan, CudaBackend& backend, DeviceComm* comm,
                               const Streams& streams, const ExecutorOptions& options)
    : plan_(plan),
      backend_(backend),
      comm_(comm),
      streams_(streams),
      options_(options),
      times_(plan.ops.size()),
      routine_times_(plan.routines.size()),
      timed_begin_(true) {}

DeviceExecutor::~DeviceExecutor() = default;

void DeviceExecutor::reset_op_times() {
  std::fill(times_.begin(), times_.end(), OpTime{});
  std::fill(routine_times_.begin(), routine_times_.end(), OpTime{});
}

void DeviceExecutor::keep(const plan::Program& program, bool ahead) {
  auto kept = std::make_unique<Kept>(backend_, program);
  for (const plan::Instr& i : program.instrs)
    kept->fetches += plan_.ops[i.op].kind == plan::OpKind::fetch ? 1 : 0;
  int32_t before = -1;
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const plan::Instr& instr = program.instrs[i];
    if (instr.lane != plan::Lane::compute || instr.invocation == before) continue;
    before = instr.invocation;
    kept->stretches.push_back({static_cast<int32_t>(i), routine_of(instr.op)});
  }
  grow(kept->marks, kept->stretches.empty() ? 0 : kept->stretches.size() + 1, true);
  for (const Enqueue& e : kept->order.list) {
    const int32_t op = program.instrs[static_cast<size_t>(e.instr)].op;
    const plan::Op& run = plan_.ops[static_cast<size_t>(op)];
    if (plan::is_collective(run.kind)) kept->transfers.push_back({op, e.lane, Event(true)});
    kept->host_waits |=
        run.kind == plan::OpKind::all_to_all && plan::in<plan::OpKind::all_to_all>(run, "offsets");
  }
  kept->ahead = ahead && backend_.inputs().reserve_ahead(kept->fetches, most_for_landing(options_.keep_free));
  // A graph copies from one buffer for each of its fetches.
  if (!kept->ahead)
    backend_.inputs().reserve(options_.graphs ? kept->fetches : std::min(kept->fetches, kFilledAhead));
  kept_[&program] = std::move(kept);
}

int32_t DeviceExecutor::routine_of(int32_t op) const {
  const auto at = std::find_if(plan_.routines.begin(), plan_.routines.end(), [&](const plan::Routine& r) {
    return op >= r.first && op < r.first + r.count;
  });
  return static_cast<int32_t>(at - plan_.routines.begin());
}

std::string DeviceExecutor::now_running() const {
  const int32_t op = current_.load(std::memory_order_relaxed);
  if (op >= 0) return plan_.ops[static_cast<size_t>(op)].path + " (being enqueued)";
  if (!waiting_.load(std::memory_order_relaxed)) return "idle";
  std::string busy;
  for (int i = 0; i < plan::kLanes; ++i)
    if (const auto lane = static_cast<plan::Lane>(i); cudaStreamQuery(streams_[lane]) == cudaErrorNotReady)
      busy += std::string(busy.empty() ? "" : ", ") + plan::name_of(lane);
  const std::string transfers = transfers_under_way();
  return "the device, streams that are not done: " + (busy.empty() ? "none" : busy) +
         (transfers.empty() ? "" : "; first transfers that are not over: " + transfers);
}

// For each lane, the first transfer of this run that is not complete: its event is older than the run's first
// one. Checks all lanes, because a graph runs on one stream.
std::string DeviceExecutor::transfers_under_way() const {
  const Kept* kept = running_.load(std::memory_order_acquire);
  if (!kept || kept->marks.empty()) return "";
  std::string text;
  std::array<bool, plan::kLanes> seen{};
  for (const Kept::Transfer& t : kept->transfers) {
    float since_begin_ms = 0;
    bool& found = seen[static_cast<size_t>(t.lane)];
    if (found || (cudaEventElapsedTime(&since_begin_ms, kept->marks[0].get(), t.over.get()) == cudaSuccess &&
                  since_begin_ms > 0))
      continue;
    found = true;
    text += (text.empty() ? "" : ", ") + plan_.ops[static_cast<size_t>(t.op)].path;
  }
  return text;
}

// ---- a run ----

void DeviceExecutor::operator()(const plan::Program& program, int32_t step) {
  const auto at = kept_.find(&program);
  std::unique_ptr<Kept> once;
  if (at == kept_.end()) once = std::make_unique<Kept>(backend_, program);
  Kept& kept = once ? *once : *at->second;
  running_.store(once ? nullptr : &kept, std::memory_order_release);
  if (backend_.inputs().count() == 0) backend_.inputs().reserve(1);
  const int64_t began = now_ns();
  if (kept.ahead) {
    if (!kept.fetched) fetch_ahead(program, kept, step, false);
    backend_.inputs().wait(kept.set, streams_[plan::Lane::compute]);
  }
  if (options_.graphs && !once && !kept.host_waits && kept.runs > 0 && recorder_ == nullptr) {
    if (!kept.exec[static_cast<size_t>(kept.set)]) capture(program, kept, step);
    replay(program, kept, step);
  } else {
    enqueue(program, kept, step, recorder_ ? Mode::timed : Mode::enqueue);
  }
  if (kept.ahead) {
    kept.set ^= 1;  // its readers finished before this run began
    kept.fetched = false;
    if (backend_.more_to_fetch()) fetch_ahead(program, kept, step, true);
  }
  wait(kept.order);
  read_marks(kept);
  if (recorder_) read_times(program, kept.order, step, began);
  ++kept.runs;
}

// All lanes begin after the compute stream, which has the uploads.
void DeviceExecutor::fork(const StreamOrder& order) {
  const cudaStream_t compute = streams_[plan::Lane::compute];
  ISOBAR_CUDA(cudaEventRecord(begin_.get(), compute));
  for (int lane = 1; lane < plan::kLanes; ++lane)
    if (order.used[static_cast<size_t>(lane)])
      ISOBAR_CUDA(cudaStreamWaitEvent(streams_[static_cast<plan::Lane>(lane)], begin_.get(), 0));
}

void DeviceExecutor::join(const StreamOrder& order) {
  for (int lane = 1; lane < plan::kLanes; ++lane) {
    if (!order.used[static_cast<size_t>(lane)]) continue;
    const Event& end = lane_end_[static_cast<size_t>(lane)];
    ISOBAR_CUDA(cudaEventRecord(end.get(), streams_[static_cast<plan::Lane>(lane)]));
    ISOBAR_CUDA(cudaStreamWaitEvent(streams_[plan::Lane::compute], end.get(), 0));
  }
}

void DeviceExecutor::enqueue(const plan::Program& program, const Kept& kept, int32_t step, Mode mode) {
  const StreamOrder& order = kept.order;
  grow(events_, static_cast<size_t>(order.events), false);
  if (mode == Mode::timed) {
    grow(timed_, 2 * program.instrs.size(), true);
    ISOBAR_CUDA(cudaEventRecord(timed_begin_.get(), streams_[plan::Lane::compute]));
  }
  fork(order);
  int fetched = 0;
  size_t stretch = 0, transfer = 0;
  for (const Enqueue& e : order.list) {
    const plan::Instr& instr = program.instrs[static_cast<size_t>(e.instr)];
    const cudaStream_t stream = streams_[e.lane];
    if (stretch < kept.stretches.size() && kept.stretches[stretch].instr == e.instr)
      mark(kept.marks[stretch++], streams_[plan::Lane::compute], mode);
    current_.store(instr.op, std::memory_order_relaxed);
    for (const int32_t event : e.waits)
      ISOBAR_CUDA(cudaStreamWaitEvent(stream, events_[static_cast<size_t>(event)].get(), 0));
    if (mode == Mode::timed)
      ISOBAR_CUDA(cudaEventRecord(timed_[2 * static_cast<size_t>(e.instr)].get(), stream));
    if (observer_) observer_->begin_op(program, e.instr, step, stream);
    launch(instr, kept, stream, mode, fetched);
    if (transfer < kept.transfers.size() && kept.transfers[transfer].op == instr.op)
      mark(kept.transfers[transfer++].over, stream, mode);
    if (observer_) observer_->end_op(program, e.instr, step, stream);
    if (mode == Mode::timed)
      ISOBAR_CUDA(cudaEventRecord(timed_[2 * static_cast<size_t>(e.instr) + 1].get(), stream));
    if (e.event >= 0) ISOBAR_CUDA(cudaEventRecord(events_[static_cast<size_t>(e.event)].get(), stream));
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  if (stretch > 0) mark(kept.marks[stretch], streams_[plan::Lane::compute], mode);
  current_.store(-1, std::memory_order_relaxed);
}

// An event recorded in a graph is read outside it.
void DeviceExecutor::mark(const Event& event, cudaStream_t stream, Mode mode) {
  ISOBAR_CUDA(cudaEventRecordWithFlags(
      event.get(), stream, mode == Mode::capture ? cudaEventRecordExternal : cudaEventRecordDefault));
}

void DeviceExecutor::launch(const plan::Instr& instr, const Kept& kept, cudaStream_t stream, Mode mode,
                            int& fetched) {
  const plan::Op& op = plan_.ops[static_cast<size_t>(instr.op)];
  if (op.kind == plan::OpKind::fetch) {
    Inputs& inputs = backend_.inputs();
    const auto to = backend_.places(op, instr.slot);
    if (kept.ahead) return inputs.land(op, fetched++, kept.set, to, stream);
    const int index = fetched++ % inputs.count();
    if (mode != Mode::capture) backend_.fill(op, instr.micro, index);
    inputs.copy(op, index, to, stream);
    if (mode != Mode::capture) inputs.in_use(index, stream);
    return;
  }
  if (!plan::is_collective(op.kind)) return backend_.launch_on(op, instr.micro, instr.slot, stream);
  if (!comm_) throw std::logic_error(op.path + ": there is nobody to communicate with");
  const plan::View& in = plan::transfer_source(op);
  const plan::View& out = plan::transfer_target(op);
  const plan::View offsets = op.kind == plan::OpKind::all_to_all
                                 ? isobar::plan::in<plan::OpKind::all_to_all>(op, "offsets")
                                 : plan::View{};
  comm_->launch(op, in ? backend_.at(in, instr.slot) : nullptr, in.count,
                out ? backend_.at(out, instr.slot) : nullptr, out.count,
                offsets ? reinterpret_cast<const int32_t*>(backend_.at(offsets, instr.slot)) : nullptr,
                plan_.buffers[static_cast<size_t>((in ? in : out).buffer)].dtype, stream);
}

// ---- batches ----

template <class F>
void DeviceExecutor::each_fetch(const plan::Program& program, const F& f) {
  int index = 0;
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const int32_t op = program.instrs[i].op;
    if (plan_.ops[static_cast<size_t>(op)].kind != plan::OpKind::fetch) continue;
    current_.store(op, std::memory_order_relaxed);
    f(plan_.ops[static_cast<size_t>(op)], static_cast<int32_t>(i), index++);
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  current_.store(-1, std::memory_order_relaxed);
}

// Fetches into kept.set, which is free. `hidden`: for the next step, while this one computes.
void DeviceExecutor::fetch_ahead(const plan::Program& program, Kept& kept, int32_t step, bool hidden) {
  const cudaStream_t compute = streams_[plan::Lane::compute];
  each_fetch(program, [&](const plan::Op& op, int32_t instr, int index) {
    const int32_t micro = program.instrs[static_cast<size_t>(instr)].micro;
    backend_.fill(op, micro, index, hidden && cudaStreamQuery(compute) == cudaErrorNotReady);
    send(program, instr, index, kept.set, step, hidden);
  });
  backend_.inputs().sent(kept.set);
  kept.fetched = true;
}

// A copy that its own step waits for is part of the op.
void DeviceExecutor::send(const plan::Program& program, int32_t instr, int index, int set, int32_t step,
                          bool hidden) {
  Inputs& inputs = backend_.inputs();
  const plan::Op& op = plan_.ops[static_cast<size_t>(program.instrs[static_cast<size_t>(instr)].op)];
  if (!observer_) return inputs.send(op, index, set);
  if (hidden) {
    observer_->begin_ahead(program, instr, step);
    inputs.send(op, index, set);
    observer_->end_ahead();
  } else {
    observer_->begin_op(program, instr, step, inputs.stream());
    inputs.send(op, index, set);
    observer_->end_op(program, instr, step, inputs.stream());
  }
}

// ---- graphs ----

void DeviceExecutor::capture(const plan::Program& program, Kept& kept, int32_t step) {
  const auto begin = std::chrono::steady_clock::now();
  const cudaStream_t compute = streams_[plan::Lane::compute];
  ISOBAR_CUDA(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
  try {
    enqueue(program, kept, step, Mode::capture);
    join(kept.order);
  } catch (...) {
    cudaGraph_t broken = nullptr;
    cudaStreamEndCapture(compute, &broken);  // the pending error is more specific
    if (broken) cudaGraphDestroy(broken);
    cudaGetLastError();
    throw;
  }
  cudaGraph_t& graph = kept.graph[static_cast<size_t>(kept.set)];
  cudaGraphExec_t& exec = kept.exec[static_cast<size_t>(kept.set)];
  ISOBAR_CUDA(cudaStreamEndCapture(compute, &graph));
  ISOBAR_CUDA(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority));
  if (observer_) observer_->captured(program, graph, exec);
  capture_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void DeviceExecutor::replay(const plan::Program& program, const Kept& kept, int32_t step) {
  if (!kept.ahead)
    each_fetch(program, [&](const plan::Op& op, int32_t instr, int index) {
      backend_.fill(op, program.instrs[static_cast<size_t>(instr)].micro, index);
    });
  const cudaStream_t compute = streams_[plan::Lane::compute];
  if (observer_) observer_->begin_graph(program, step, compute);
  ISOBAR_CUDA(cudaGraphLaunch(kept.exec[static_cast<size_t>(kept.set)], compute));
  if (observer_) observer_->end_graph(program, step, compute);
  ++replays_;
}

// ---- afterwards ----

void DeviceExecutor::wait(const StreamOrder& order) {
  waiting_.store(true, std::memory_order_relaxed);
  const int64_t began = now_ns();
  for (int lane = 0; lane < plan::kLanes; ++lane) {
    if (lane > 0 && !order.used[static_cast<size_t>(lane)]) continue;
    const cudaStream_t stream = streams_[static_cast<plan::Lane>(lane)];
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream);
      if (state == cudaSuccess) break;
      if (state != cudaErrorNotReady) check(state, "waiting for the device", __FILE__, __LINE__);
      if (comm_) check_transfers();
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

void DeviceExecutor::check_transfers() const {
  try {
    comm_->check();
  } catch (const Failure& e) {
    throw Failure(std::string(e.what()) + "; under way: " + now_running());
  }
}

void DeviceExecutor::read_marks(const Kept& kept) {
  for (size_t i = 0; i < kept.stretches.size(); ++i) {
    float ms = 0;
    ISOBAR_CUDA(cudaEventElapsedTime(&ms, kept.marks[i].get(), kept.marks[i + 1].get()));
    OpTime& t = routine_times_[static_cast<size_t>(kept.stretches[i].routine)];
    ++t.count;
    t.seconds += static_cast<double>(ms) * 1e-3;
  }
}

void DeviceExecutor::read_times(const plan::Program& program, const StreamOrder& order, int32_t step,
                                int64_t began_ns) {
  const auto since_begin = [&](size_t event) {
    float ms = 0;
    ISOBAR_CUDA(cudaEventElapsedTime(&ms, timed_begin_.get(), timed_[event].get()));
    return static_cast<int64_t>(static_cast<double>(ms) * 1e6);
  };
  const int64_t origin = began_ns - recorder_->origin_ns();
  for (const Enqueue& e : order.list) {
    const plan::Instr& instr = program.instrs[static_cast<size_t>(e.instr)];
    const int64_t t0 = since_begin(2 * static_cast<size_t>(e.instr));
    const int64_t t1 = since_begin(2 * static_cast<size_t>(e.instr) + 1);
    OpTime& t = times_[static_cast<size_t>(instr.op)];
    ++t.count;
    t.seconds += static_cast<double>(t1 - t0) * 1e-9;
    recorder_->record(instr.lane, step, e.instr, instr.op, instr.micro, origin + t0, origin + t1);
  }
}

}  // namespace isobar::cuda
